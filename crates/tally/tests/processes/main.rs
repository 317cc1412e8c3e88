//! Tests of the program as its users have it: real processes, real files, real HTTP.

mod http;
mod kill;
mod messages;
mod networks;
mod reference;
mod support;
