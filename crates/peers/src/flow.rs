//! The receiver's side of the credit for bulk.

use crate::frame::FrameFault;

/// How much bulk one peer may send: what has come in and has not been looked at by the host is bounded
/// by the window, one message of the longest kind, and one more window.
///
/// Parts of a message are given back as they come, because only one message is put together at a time;
/// whole messages are given back when the host has taken them.
#[derive(Debug)]
pub(crate) struct Flow {
    window: u64,
    /// What the peer may still send.
    credit: u64,
    /// What it has sent and not got back.
    owed: u64,
    /// Of the messages that are whole and wait for the host.
    waiting: u64,
}

impl Flow {
    pub(crate) fn new(window: u32) -> Self {
        let window = u64::from(window);
        Self { window, credit: window, owed: 0, waiting: 0 }
    }

    /// A chunk of this cost has come.
    pub(crate) fn received(&mut self, cost: u64) -> Result<(), FrameFault> {
        self.credit = self.credit.checked_sub(cost).ok_or(FrameFault::Credit)?;
        self.owed += cost;
        Ok(())
    }

    /// A message of this cost waits for the host.
    pub(crate) fn completed(&mut self, cost: u64) {
        self.waiting += cost;
    }

    /// The host has taken a message of this cost.
    pub(crate) fn taken(&mut self, cost: u64) {
        self.waiting = self.waiting.saturating_sub(cost);
    }

    /// Whether [`Self::grant`] would give something.
    pub(crate) fn is_due(&self) -> bool {
        self.waiting <= self.window && self.owed >= self.window / 4
    }

    /// What to give back now.
    pub(crate) fn grant(&mut self) -> Option<u32> {
        if !self.is_due() || self.owed == 0 {
            return None;
        }
        let grant = u32::try_from(self.owed).unwrap_or(u32::MAX);
        self.owed -= u64::from(grant);
        self.credit += u64::from(grant);
        Some(grant)
    }
}

#[cfg(test)]
mod tests;
