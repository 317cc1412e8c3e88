//! Where the text of a trace goes while it is made.

use std::io;

/// How much text is written at most, in bytes, before the output is asked again.
pub(super) const PORTION: usize = 64 << 10;

/// Takes the text of a trace while it is made, and bounds it.
///
/// A trace is as long as its code runs, whatever the request says: who makes one asks here before it grows.
pub trait Output {
    /// The text so far, or the part of it that has not been passed on; a trace is written to its end.
    fn text(&mut self) -> &mut Vec<u8>;

    /// Takes what it wants from the front of the text. It is asked after at most 64 KiB of new text, wherever
    /// a value of an array or of an object has ended.
    ///
    /// # Errors
    /// [`Interrupted`] ends the trace.
    fn pass_on(&mut self) -> Result<(), Interrupted>;

    /// Looks at the text that was written, and takes nothing of it: it may still be taken back.
    ///
    /// # Errors
    /// [`Interrupted`] ends the trace.
    fn grown(&mut self) -> Result<(), Interrupted>;

    /// Hears how many bytes the trace holds beside its text, at least.
    ///
    /// # Errors
    /// [`Interrupted`] ends the trace.
    fn hold(&mut self, bytes: usize) -> Result<(), Interrupted>;

    /// Hears that so many instructions more were executed, each thousand or so.
    ///
    /// # Errors
    /// [`Interrupted`] ends the trace.
    fn stepped(&mut self, instructions: u64) -> Result<(), Interrupted>;
}

/// The output takes no more; it knows why.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the trace was interrupted")]
pub struct Interrupted;

/// Writes to an output and asks it in time.
pub(super) struct Pen<'o> {
    output: &'o mut dyn Output,
    /// The length of the text at which the output is asked.
    ask_at: usize,
    held: usize,
    steps: u64,
    interrupted: bool,
}

impl std::fmt::Debug for Pen<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pen").field("interrupted", &self.interrupted).finish_non_exhaustive()
    }
}

impl<'o> Pen<'o> {
    pub(super) fn new(output: &'o mut dyn Output) -> Self {
        let ask_at = output.text().len() + PORTION;
        Self { output, ask_at, held: 0, steps: 0, interrupted: false }
    }

    pub(super) fn text(&mut self) -> &mut Vec<u8> {
        self.output.text()
    }

    pub(super) fn add(&mut self, text: &str) {
        self.text().extend_from_slice(text.as_bytes());
    }

    pub(super) fn number(&mut self, number: u64) {
        self.format(format_args!("{number}"));
    }

    pub(super) fn format(&mut self, text: std::fmt::Arguments<'_>) {
        // Writing to memory does not fail.
        let _ = io::Write::write_fmt(self.text(), text);
    }

    /// Whether the trace was interrupted; nothing more is written then but what closes it.
    pub(super) fn is_interrupted(&self) -> bool {
        self.interrupted
    }

    fn noted(&mut self, result: Result<(), Interrupted>) -> Result<(), Interrupted> {
        self.interrupted |= result.is_err();
        result
    }

    /// Ends a portion, when there is enough for one.
    pub(super) fn portion(&mut self) -> Result<(), Interrupted> {
        if self.text().len() < self.ask_at {
            return Ok(());
        }
        let result = self.output.pass_on();
        self.ask_at = self.text().len() + PORTION;
        self.noted(result)
    }

    /// Counts what is held beside the text.
    pub(super) fn hold(&mut self, more: usize) -> Result<(), Interrupted> {
        self.held = self.held.saturating_add(more);
        let result = self.output.hold(self.held);
        self.noted(result)
    }

    /// Lets go of what was held.
    pub(super) fn release(&mut self) -> Result<(), Interrupted> {
        self.held = 0;
        let result = self.output.hold(0);
        self.noted(result)
    }

    /// Counts one instruction.
    pub(super) fn step(&mut self) -> Result<(), Interrupted> {
        const TOGETHER: u64 = 1024;
        self.steps += 1;
        if self.steps < TOGETHER {
            return Ok(());
        }
        let result = self.output.stepped(std::mem::take(&mut self.steps));
        self.noted(result)
    }

    /// Writes a value, all or nothing of it.
    pub(super) fn whole(&mut self, value: &impl serde::Serialize) -> Result<(), Interrupted> {
        let start = self.text().len();
        let written = serde_json::to_writer(Whole(self), value).is_ok();
        let result = if written { self.output.grown() } else { Err(Interrupted) };
        if result.is_err() {
            self.text().truncate(start);
            self.add("null");
        }
        self.noted(result)
    }
}

/// Asks now and then whether there may be more of a value.
struct Whole<'p, 'o>(&'p mut Pen<'o>);

impl io::Write for Whole<'_, '_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.text().extend_from_slice(bytes);
        if self.0.text().len() >= self.0.ask_at {
            self.0.output.grown().map_err(io::Error::other)?;
            self.0.ask_at = self.0.text().len() + PORTION;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
