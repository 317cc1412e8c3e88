//! `tally`: the command line of Tallystick.

use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    tally::command::run(tally::command::Arguments::parse())
}
