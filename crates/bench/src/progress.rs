//! How a run is getting on: one line that is rewritten on a terminal, one line for each second elsewhere.

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use crate::table;

/// How often the line is rewritten on a terminal.
const TERMINAL_EVERY: Duration = Duration::from_millis(200);
/// How often a line is written where lines stay.
const PLAIN_EVERY: Duration = Duration::from_secs(1);

/// Where a run stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Status {
    /// Time since the run began.
    pub elapsed: Duration,
    /// Transactions done so far.
    pub done: u64,
    /// All that are to be done, where it is known.
    pub total: Option<u64>,
    /// The 99th percentile of latency so far, where it is recorded.
    pub p99: Option<Duration>,
}

/// Writes how a run is getting on.
///
/// The caller brings the time, as often as it likes; lines are written as often as suits the output. An output that
/// fails, such as a closed pipe, never disturbs the run.
#[derive(Debug)]
pub struct Progress<W> {
    label: String,
    output: W,
    terminal: bool,
    last: Status,
    written: Option<Duration>,
}

impl Progress<io::Stderr> {
    /// On standard error, in the form that suits it.
    #[must_use]
    pub fn stderr(label: &str) -> Self {
        let stderr = io::stderr();
        let terminal = stderr.is_terminal();
        Self::new(label, stderr, terminal)
    }
}

impl<W: Write> Progress<W> {
    /// On any output; `terminal` says whether the line may be rewritten.
    #[must_use]
    pub fn new(label: &str, output: W, terminal: bool) -> Self {
        Self { label: label.to_owned(), output, terminal, last: Status::default(), written: None }
    }

    /// Writes a line if the last one is old enough. The rate shown is the one since that line.
    pub fn update(&mut self, status: &Status) {
        let every = if self.terminal { TERMINAL_EVERY } else { PLAIN_EVERY };
        let due = self.written.map_or(every, |last| last + every);
        if status.elapsed < due {
            return;
        }
        let line = self.line(status, &self.last);
        let _ = if self.terminal {
            // Back to the first column, and erase what an earlier, longer line left (ECMA-48 EL).
            write!(self.output, "\r\x1b[2K{line}").and_then(|()| self.output.flush())
        } else {
            writeln!(self.output, "{line}")
        };
        self.last = *status;
        self.written = Some(status.elapsed);
    }

    /// Writes the last line, with the mean rate of the whole run.
    pub fn finish(&mut self, status: &Status) {
        let line = self.line(status, &Status::default());
        let clear = if self.terminal { "\r\x1b[2K" } else { "" };
        let _ = writeln!(self.output, "{clear}{line}").and_then(|()| self.output.flush());
    }

    fn line(&self, status: &Status, since: &Status) -> String {
        let seconds = status.elapsed.saturating_sub(since.elapsed).as_secs_f64();
        let done = status.done.saturating_sub(since.done) as f64;
        let rate = if seconds > 0.0 { table::rate(done / seconds) } else { "–".to_owned() };
        let of = match status.total {
            Some(total) if total > 0 => {
                let percent = u128::from(status.done) * 100 / u128::from(total);
                format!(" of {} ({percent} %)", table::count(total))
            }
            _ => String::new(),
        };
        let p99 = status.p99.map_or(String::new(), |p99| format!("  p99 {}", table::duration(p99)));
        format!(
            "{}  {rate}  {}{of} done{p99}  {}",
            self.label,
            table::count(status.done),
            table::duration(status.elapsed)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(terminal: bool) -> String {
        let mut output = Vec::new();
        let mut progress = Progress::new("pipeline", &mut output, terminal);
        for step in 0..=25_u64 {
            progress.update(&Status {
                elapsed: Duration::from_millis(100 * step),
                done: step * step * 1000,
                total: Some(1_000_000),
                p99: (step > 15).then_some(Duration::from_micros(12_300)),
            });
        }
        progress.finish(&Status {
            elapsed: Duration::from_millis(2500),
            done: 625_000,
            total: None,
            p99: None,
        });
        String::from_utf8(output).unwrap()
    }

    #[test]
    fn a_file_gets_a_line_for_each_second() {
        assert_eq!(
            run(false),
            "pipeline  100,000 tx/s  100,000 of 1,000,000 (10 %) done  1.00 s\n\
             pipeline  300,000 tx/s  400,000 of 1,000,000 (40 %) done  p99 12.3 ms  2.00 s\n\
             pipeline  250,000 tx/s  625,000 done  2.50 s\n"
        );
    }

    #[test]
    fn a_terminal_gets_one_line_rewritten() {
        let text = run(true);
        assert_eq!(text.matches('\n').count(), 1);
        assert_eq!(text.matches("\r\x1b[2K").count(), 13);
        assert!(text.ends_with("625,000 done  2.50 s\n"));
    }

    #[test]
    fn a_broken_output_does_not_disturb() {
        struct Broken;
        impl Write for Broken {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::BrokenPipe.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Err(io::ErrorKind::BrokenPipe.into())
            }
        }
        let mut progress = Progress::new("x", Broken, true);
        progress.update(&Status { elapsed: Duration::from_secs(9), ..Status::default() });
        progress.finish(&Status::default());
    }
}
