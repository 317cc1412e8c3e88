//! What waits to be sent to one peer: bounded, urgent first.

use crate::frame::{CHUNK, ChunkLane, Control, Form, START_COST, encode_chunk};
use crate::kind::Lane;
use bytes::{Bytes, BytesMut};
use std::collections::VecDeque;

/// Control chunks that wait at most; more means that the peer asks without reading.
const MOST_CONTROLS: usize = 1024;

/// A message to send.
#[derive(Debug)]
pub(crate) struct Outgoing {
    pub(crate) form: Form,
    pub(crate) kind: u8,
    pub(crate) payload: Bytes,
}

/// There is no room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Full;

/// The queues to one peer, their bounds, and the credit that the peer has given for bulk.
#[derive(Debug)]
pub(crate) struct Outbox {
    controls: VecDeque<Control>,
    urgent: Queue,
    long: Queue,
    bulk: Queue,
    most_urgent: u64,
    most_bulk: u64,
    credit: u64,
}

#[derive(Debug, Default)]
struct Queue {
    waiting: VecDeque<Outgoing>,
    /// Of the first message, when it is under way: how much of it has been sent.
    sent: Option<usize>,
    bytes: u64,
}

impl Outbox {
    /// Bounds in bytes; the window that the peer has announced.
    pub(crate) fn new(most_urgent: u64, most_bulk: u64, window: u32) -> Self {
        Self {
            controls: VecDeque::new(),
            urgent: Queue::default(),
            long: Queue::default(),
            bulk: Queue::default(),
            most_urgent,
            most_bulk,
            credit: u64::from(window),
        }
    }

    /// Adds a message. A queue that is empty takes any message, so a bound below the longest message
    /// does not shut it out.
    pub(crate) fn push(&mut self, lane: Lane, message: Outgoing) -> Result<(), Full> {
        let cost = cost(&message);
        let (waiting, most) = match lane {
            Lane::Urgent => (self.urgent.bytes + self.long.bytes, self.most_urgent),
            Lane::Bulk => (self.bulk.bytes, self.most_bulk),
        };
        if waiting > 0 && waiting + cost > most {
            return Err(Full);
        }
        let queue = match lane {
            Lane::Urgent if message.payload.len() <= CHUNK => &mut self.urgent,
            Lane::Urgent => &mut self.long,
            Lane::Bulk => &mut self.bulk,
        };
        queue.bytes += cost;
        queue.waiting.push_back(message);
        Ok(())
    }

    /// Adds a control chunk.
    pub(crate) fn push_control(&mut self, control: Control) -> Result<(), Full> {
        if self.controls.len() >= MOST_CONTROLS {
            return Err(Full);
        }
        self.controls.push_back(control);
        Ok(())
    }

    /// The peer lets so many bytes more of bulk come.
    pub(crate) fn add_credit(&mut self, bytes: u32) {
        self.credit = self.credit.saturating_add(u64::from(bytes));
    }

    /// Bytes that wait, urgent and bulk.
    pub(crate) fn waiting(&self) -> (u64, u64) {
        (self.urgent.bytes + self.long.bytes, self.bulk.bytes)
    }

    /// Appends chunks to `buffer`, most urgent first, until it has `enough` bytes or nothing may be
    /// sent; how many messages were finished.
    pub(crate) fn fill(&mut self, buffer: &mut BytesMut, enough: usize) -> u64 {
        let mut finished = 0;
        while buffer.len() < enough {
            if let Some(control) = self.controls.pop_front() {
                control.encode(buffer);
            } else if !self.urgent.waiting.is_empty() {
                finished += u64::from(self.urgent.send(buffer, ChunkLane::Urgent, CHUNK));
            } else if !self.long.waiting.is_empty() {
                finished += u64::from(self.long.send(buffer, ChunkLane::Long, CHUNK));
            } else if let Some((fixed, room)) = self.bulk_room() {
                let before = self.bulk.left();
                let done = self.bulk.send(buffer, ChunkLane::Bulk, room);
                let part = before - if done { 0 } else { self.bulk.left() };
                self.credit -= fixed + part;
                finished += u64::from(done);
            } else {
                break;
            }
        }
        finished
    }

    /// What the next chunk of bulk costs beside its payload, and how long the payload may be; nothing
    /// when there is no bulk or no credit for it.
    fn bulk_room(&self) -> Option<(u64, usize)> {
        let message = self.bulk.waiting.front()?;
        let fixed = if self.bulk.sent.is_none() { START_COST } else { 0 };
        let room = self.credit.checked_sub(fixed)?;
        if room == 0 && !message.payload.is_empty() {
            return None;
        }
        Some((fixed, usize::try_from(room).unwrap_or(CHUNK).min(CHUNK)))
    }
}

impl Queue {
    /// Bytes of the first message that are still to be sent.
    fn left(&self) -> u64 {
        let sent = self.sent.unwrap_or_default();
        self.waiting.front().map_or(0, |message| (message.payload.len() - sent) as u64)
    }

    /// Appends one chunk of the first message; whether that was its last.
    fn send(&mut self, buffer: &mut BytesMut, lane: ChunkLane, room: usize) -> bool {
        let Some(message) = self.waiting.front() else { return false };
        let sent = self.sent.unwrap_or_default();
        let part = (message.payload.len() - sent).min(room);
        let length = u32::try_from(message.payload.len()).unwrap_or(u32::MAX);
        let start = self.sent.is_none().then_some((message.form, message.kind, length));
        encode_chunk(buffer, lane, start, &message.payload[sent..sent + part]);
        if sent + part < message.payload.len() {
            self.sent = Some(sent + part);
            return false;
        }
        self.bytes -= cost(message);
        self.waiting.pop_front();
        self.sent = None;
        true
    }
}

fn cost(message: &Outgoing) -> u64 {
    message.payload.len() as u64 + START_COST
}

#[cfg(test)]
mod tests;
