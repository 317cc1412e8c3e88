//! A way to a broker that can be cut: what is sent meanwhile arrives afterwards, or never, and nobody is told.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How often a way is looked at that is cut, or on which nothing comes.
const LOOK: Duration = Duration::from_millis(20);

/// Forwards connections from a port of its own to a broker's, on loopback.
pub(super) struct Way {
    state: Arc<State>,
    port: u16,
    to: u16,
}

#[derive(Default)]
struct State {
    cut: AtomicBool,
    ended: AtomicBool,
}

impl State {
    /// Waits while the way is cut; whether it still is one.
    fn is_open(&self) -> bool {
        while self.cut.load(Ordering::SeqCst) && !self.ended.load(Ordering::SeqCst) {
            std::thread::sleep(LOOK);
        }
        !self.ended.load(Ordering::SeqCst)
    }
}

impl Way {
    /// A way from that listener's port to port `to`.
    pub(super) fn new(listener: TcpListener, to: u16) -> io::Result<Self> {
        let port = listener.local_addr()?.port();
        let state = Arc::new(State::default());
        let open = Arc::clone(&state);
        std::thread::Builder::new().name("way".into()).spawn(move || {
            for near in listener.incoming().flatten() {
                if open.ended.load(Ordering::SeqCst) {
                    break;
                }
                let open = Arc::clone(&open);
                // One that cannot be joined is closed, as by a broker that is gone.
                std::thread::spawn(move || join(&near, to, &open));
            }
        })?;
        Ok(Self { state, port, to })
    }

    /// Where it ends.
    pub(super) fn to(&self) -> u16 {
        self.to
    }

    /// Where it begins.
    pub(super) fn port(&self) -> u16 {
        self.port
    }

    pub(super) fn cut(&self, is_cut: bool) {
        self.state.cut.store(is_cut, Ordering::SeqCst);
    }
}

impl Drop for Way {
    fn drop(&mut self) {
        self.state.ended.store(true, Ordering::SeqCst);
        // Who waits for the next connection gets one, and ends.
        let _ = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port));
    }
}

fn join(near: &TcpStream, to: u16, state: &State) -> io::Result<()> {
    if !state.is_open() {
        return Ok(());
    }
    let far = TcpStream::connect((Ipv4Addr::LOCALHOST, to))?;
    std::thread::scope(|scope| {
        let back = scope.spawn(|| forward(&far, near, state));
        let there = forward(near, &far, state);
        let back = back.join().unwrap_or(Ok(()));
        there.and(back)
    })
}

/// Forwards bytes in one direction until one side closes; then closes both.
fn forward(mut from: &TcpStream, mut to: &TcpStream, state: &State) -> io::Result<()> {
    let mut forward = || {
        from.set_read_timeout(Some(LOOK))?;
        to.set_nodelay(true)?;
        let mut bytes = vec![0; 1 << 16];
        while state.is_open() {
            match from.read(&mut bytes) {
                Ok(0) => break,
                Ok(count) if state.is_open() => to.write_all(&bytes[..count])?,
                Ok(_) => break,
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    };
    let ended = forward();
    for stream in [from, to] {
        // It may be closed already.
        let _ = stream.shutdown(std::net::Shutdown::Both);
    }
    ended
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sent_while_it_is_cut_arrives_afterwards() {
        let broker = TcpListener::bind("127.0.0.1:0").unwrap();
        let to = broker.local_addr().unwrap().port();
        let way = Way::new(TcpListener::bind("127.0.0.1:0").unwrap(), to).unwrap();
        let mut client = TcpStream::connect((Ipv4Addr::LOCALHOST, way.port())).unwrap();
        let (mut served, _) = broker.accept().unwrap();
        let mut byte = [0; 1];
        client.write_all(&[1]).unwrap();
        served.read_exact(&mut byte).unwrap();

        way.cut(true);
        // What is being forwarded at this moment may still arrive.
        std::thread::sleep(4 * LOOK);
        client.write_all(&[2]).unwrap();
        served.set_read_timeout(Some(10 * LOOK)).unwrap();
        assert!(served.read_exact(&mut byte).is_err(), "it came while the way was cut");
        way.cut(false);
        served.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        served.read_exact(&mut byte).unwrap();
        assert_eq!(byte, [2]);
        drop(way);
        assert_eq!(client.read(&mut byte).unwrap_or(0), 0, "its connections end with it");
    }
}
