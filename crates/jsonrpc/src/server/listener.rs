//! Sockets that connections come to.

use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::path::Path;

use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};

use super::configuration::Listen;

/// What listens.
pub(super) enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

/// One connection's bytes.
pub(super) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// The other end of a connection.
#[derive(Debug, Clone, Copy)]
pub(super) enum Peer {
    Address(SocketAddr),
    /// A process on this machine.
    Local,
}

impl std::fmt::Display for Peer {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Address(address) => address.fmt(out),
            Self::Local => out.write_str("local"),
        }
    }
}

impl Listener {
    /// Listens; the address is that of a TCP listener.
    pub(super) fn bind(listen: &Listen) -> io::Result<(Self, Option<SocketAddr>)> {
        match listen {
            Listen::Tcp(address) => {
                let listener = std::net::TcpListener::bind(address)?;
                listener.set_nonblocking(true)?;
                let listener = TcpListener::from_std(listener)?;
                let address = listener.local_addr()?;
                Ok((Self::Tcp(listener), Some(address)))
            }
            Listen::Unix(path) => {
                clear(path)?;
                // Nobody else may open it at any moment: it gets its name when it has its permissions.
                let draft = path.with_extension("new");
                clear(&draft)?;
                let listener = UnixListener::bind(&draft)?;
                std::fs::set_permissions(&draft, std::fs::Permissions::from_mode(0o600))?;
                std::fs::rename(&draft, path)?;
                Ok((Self::Unix(listener), None))
            }
        }
    }

    pub(super) async fn accept(&self) -> io::Result<(Stream, Peer)> {
        match self {
            Self::Tcp(listener) => {
                let (stream, address) = listener.accept().await?;
                stream.set_nodelay(true)?;
                Ok((Stream::Tcp(stream), Peer::Address(address)))
            }
            Self::Unix(listener) => Ok((Stream::Unix(listener.accept().await?.0), Peer::Local)),
        }
    }
}

/// Removes the socket of a process that is gone, and nothing else.
fn clear(path: &Path) -> io::Result<()> {
    let kind = match std::fs::symlink_metadata(path) {
        Ok(found) => found.file_type(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    if !kind.is_socket() || std::os::unix::net::UnixStream::connect(path).is_ok() {
        return Err(io::ErrorKind::AddrInUse.into());
    }
    std::fs::remove_file(path)
}
