//! `tally`: the command line of Tallystick.

use std::process::ExitCode;

/// Most of what passes through the program is made by one thread and let go of by another.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    tally::command::run(tally::command::Arguments::read())
}
