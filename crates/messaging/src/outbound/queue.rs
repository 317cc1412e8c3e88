//! The messages to one peer that are held in memory.

use std::collections::VecDeque;

use bytes::Bytes;

/// An unbroken run of messages, bounded in bytes; what does not fit is left to the outbox.
#[derive(Debug)]
pub(crate) struct Queue {
    messages: VecDeque<(u64, Bytes)>,
    bytes: usize,
    limit: usize,
    /// Keeps what comes. Off while the peer cannot be reached.
    holding: bool,
    announced: u64,
    acknowledged: u64,
    asked: bool,
    /// The connection that may take messages; an older one may not.
    epoch: u64,
}

/// What there is to write next.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Messages were taken from memory.
    Taken,
    /// They have to be read from the outbox.
    Elsewhere,
    /// None.
    Nothing,
    /// This connection is to end, and gets nothing more.
    Cut,
}

impl Queue {
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            messages: VecDeque::new(),
            bytes: 0,
            limit,
            holding: true,
            announced: 0,
            acknowledged: 0,
            asked: false,
            epoch: 0,
        }
    }

    /// Takes note of a message; returns whether it is held.
    pub(crate) fn push(&mut self, number: u64, bytes: Bytes) -> bool {
        if number <= self.announced {
            return true;
        }
        self.announced = number;
        let follows = self.messages.back().is_none_or(|(last, _)| last + 1 == number);
        // A single message above the limit is held nevertheless if it is alone.
        let fits = self.messages.is_empty() || self.bytes + bytes.len() <= self.limit;
        if !(self.holding && follows && fits) {
            return false;
        }
        self.bytes += bytes.len();
        self.messages.push_back((number, bytes));
        true
    }

    /// Moves messages from `next` on into `batch`, until `limit` bytes are reached; drops those before `next`.
    /// `epoch` is that of the connection that asks.
    pub(crate) fn take(
        &mut self,
        epoch: u64,
        next: u64,
        limit: usize,
        batch: &mut Vec<(u64, Bytes)>,
    ) -> Next {
        if epoch != self.epoch {
            return Next::Cut;
        }
        let mut taken = 0;
        let mut due = next;
        while let Some((number, bytes)) = self.messages.front() {
            if *number > due || taken >= limit {
                break;
            }
            let wanted = *number == due;
            let size = bytes.len();
            self.bytes -= size;
            if let Some(message) = self.messages.pop_front()
                && wanted
            {
                taken += size;
                due += 1;
                batch.push(message);
            }
        }
        if !batch.is_empty() {
            Next::Taken
        } else if self.announced >= next {
            Next::Elsewhere
        } else {
            Next::Nothing
        }
    }

    /// From now on, no connection of an earlier epoch takes a message: what is pushed after this call goes only
    /// to a peer whose certificate was verified after it.
    pub(crate) fn cut(&mut self) {
        self.epoch = self.epoch.wrapping_add(1);
    }

    /// The queue begins anew with number 1, and no connection of an earlier epoch takes a message.
    pub(crate) fn reset(&mut self) {
        self.cut();
        self.messages.clear();
        (self.bytes, self.announced, self.acknowledged) = (0, 0, 0);
    }

    pub(crate) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Something is to be sent, or someone wants the connection.
    pub(crate) fn wants_connection(&self) -> bool {
        self.asked || self.announced > self.acknowledged
    }

    /// Wants the connection even if there is nothing known to be sent.
    pub(crate) fn ask(&mut self) {
        self.asked = true;
    }

    /// The peer is being called: messages are worth holding.
    pub(crate) fn hold(&mut self) {
        self.holding = true;
    }

    /// The peer cannot be reached: memory is given back.
    pub(crate) fn release(&mut self) {
        self.holding = false;
        self.messages = VecDeque::new();
        self.bytes = 0;
    }

    /// Connected: the outbox goes up to `last`, the peer needs nothing up to `acknowledged`.
    pub(crate) fn connected(&mut self, last: u64, acknowledged: u64) {
        self.asked = false;
        self.announced = self.announced.max(last);
        self.acknowledge(acknowledged);
    }

    pub(crate) fn acknowledge(&mut self, up_to: u64) {
        self.acknowledged = self.acknowledged.max(up_to);
    }

    pub(crate) fn announced(&self) -> u64 {
        self.announced
    }

    pub(crate) fn acknowledged(&self) -> u64 {
        self.acknowledged
    }

    pub(crate) fn len(&self) -> usize {
        self.messages.len()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(size: usize) -> Bytes {
        Bytes::from(vec![7; size])
    }

    fn numbers(batch: &[(u64, Bytes)]) -> Vec<u64> {
        batch.iter().map(|(number, _)| *number).collect()
    }

    #[test]
    fn what_does_not_fit_is_left_to_the_outbox_and_asked_for_in_its_turn() {
        let mut queue = Queue::new(100);
        assert!(queue.push(1, message(60)) && queue.push(2, message(40)));
        assert!(!queue.push(3, message(1)), "no room");
        assert_eq!((queue.len(), queue.bytes()), (2, 100));
        let mut batch = Vec::new();
        assert_eq!(queue.take(0, 1, 1000, &mut batch), Next::Taken);
        assert_eq!(numbers(&batch), [1, 2]);
        batch.clear();
        assert_eq!(queue.take(0, 3, 1000, &mut batch), Next::Elsewhere);
        assert!(queue.push(4, message(1)), "room again");
        assert_eq!(queue.take(0, 3, 1000, &mut batch), Next::Elsewhere, "3 comes before 4");
        // The outbox gave 3 and 4.
        assert_eq!(queue.take(0, 5, 1000, &mut batch), Next::Nothing);
        assert_eq!((queue.len(), queue.bytes()), (0, 0));
    }

    #[test]
    fn a_run_never_has_a_hole() {
        let mut queue = Queue::new(100);
        assert!(queue.push(1, message(90)));
        assert!(!queue.push(2, message(20)));
        assert!(!queue.push(3, message(5)), "2 is missing before it");
        assert!(queue.push(3, message(5)), "a repeat is not news");
        let mut batch = Vec::new();
        assert_eq!(queue.take(0, 1, 1000, &mut batch), Next::Taken);
        assert_eq!(numbers(&batch), [1]);
    }

    #[test]
    fn batches_are_bounded_and_an_unreachable_peer_costs_no_memory() {
        let mut queue = Queue::new(1000);
        for number in 1..=10 {
            assert!(queue.push(number, message(10)));
        }
        let mut batch = Vec::new();
        assert_eq!(queue.take(0, 1, 25, &mut batch), Next::Taken);
        assert_eq!(numbers(&batch), [1, 2, 3]);
        queue.release();
        assert!(!queue.push(11, message(1)));
        assert_eq!((queue.len(), queue.bytes()), (0, 0));
        assert!(queue.wants_connection());
        queue.acknowledge(11);
        assert!(!queue.wants_connection());
    }

    #[test]
    fn a_connection_that_is_cut_gets_nothing_more() {
        let mut queue = Queue::new(100);
        queue.cut();
        assert!(queue.push(1, message(1)));
        let mut batch = Vec::new();
        assert_eq!(queue.take(0, 1, 100, &mut batch), Next::Cut);
        assert!(batch.is_empty());
        assert_eq!(queue.take(queue.epoch(), 1, 100, &mut batch), Next::Taken);
    }
}
