//! Networks of nodes as their users have them: real processes, real databases, TLS on real sockets.
