//! What waits to be written to another member.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use bytes::Bytes;
use tokio::sync::Notify;

use crate::desk::lock;

/// Frames are taken for one write up to so many bytes.
const WRITE: usize = 256 << 10;

/// Frames for one member, bounded in bytes. While the member is not connected nothing waits for it:
/// the replica repeats what matters.
pub(super) struct Line {
    limit: usize,
    state: Mutex<State>,
    wake: Notify,
    dropped: AtomicU64,
}

#[derive(Default)]
struct State {
    connected: bool,
    frames: VecDeque<Bytes>,
    bytes: usize,
}

impl Line {
    pub(super) fn new(limit: usize) -> Self {
        Self { limit, state: Mutex::default(), wake: Notify::new(), dropped: AtomicU64::new(0) }
    }

    /// Takes a frame. Above the limit the oldest ones are dropped, since a round that has passed is
    /// worth less than the present one.
    pub(super) fn send(&self, frame: Bytes) {
        let mut state = lock(&self.state);
        if !state.connected {
            self.dropped.fetch_add(1, Relaxed);
            return;
        }
        state.bytes += frame.len();
        state.frames.push_back(frame);
        while state.bytes > self.limit && state.frames.len() > 1 {
            let dropped = state.frames.pop_front().map_or(0, |frame| frame.len());
            state.bytes -= dropped;
            self.dropped.fetch_add(1, Relaxed);
        }
        drop(state);
        self.wake.notify_one();
    }

    /// The member is connected, or no longer.
    pub(super) fn connect(&self, connected: bool) {
        *lock(&self.state) = State { connected, ..State::default() };
    }

    pub(super) fn is_connected(&self) -> bool {
        lock(&self.state).connected
    }

    /// Frames that were not sent.
    pub(super) fn dropped(&self) -> u64 {
        self.dropped.load(Relaxed)
    }

    /// Waits for frames. Nothing is lost when this is no longer waited for.
    pub(super) async fn take(&self) -> Vec<Bytes> {
        loop {
            let frames = self.take_now();
            if !frames.is_empty() {
                return frames;
            }
            self.wake.notified().await;
        }
    }

    fn take_now(&self) -> Vec<Bytes> {
        let mut state = lock(&self.state);
        let (mut frames, mut bytes) = (Vec::new(), 0);
        while bytes < WRITE
            && let Some(frame) = state.frames.pop_front()
        {
            bytes += frame.len();
            state.bytes -= frame.len();
            frames.push(frame);
        }
        frames
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_frames_wait_and_none_while_there_is_no_link() {
        let line = Line::new(10);
        let frame = |byte: u8, length| Bytes::from(vec![byte; length]);
        line.send(frame(0, 3));
        line.connect(true);
        assert!(line.take_now().is_empty() && line.dropped() == 1);
        for byte in 1..=4 {
            line.send(frame(byte, 4));
        }
        assert_eq!(line.take_now(), [frame(3, 4), frame(4, 4)]);
        assert_eq!(line.dropped(), 3);
        // One that is larger than all of the room goes alone.
        line.send(frame(5, 4));
        line.send(frame(6, 40));
        assert_eq!(line.take_now(), [frame(6, 40)]);
        line.send(frame(7, 4));
        line.connect(false);
        line.connect(true);
        assert!(line.take_now().is_empty(), "of the link before");
    }
}
