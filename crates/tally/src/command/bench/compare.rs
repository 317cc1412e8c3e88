//! `tally bench compare A B`

use super::{Ended, show, styled};
use std::path::PathBuf;
use tally_bench::compare::compare;
use tally_bench::result::read;

/// Arguments of `tally bench compare`.
#[derive(Debug, clap::Args)]
pub(in crate::command) struct Compare {
    /// Results: a file, or a directory of them
    a: PathBuf,
    /// Results to compare with them
    b: PathBuf,
}

impl Compare {
    pub(super) fn run(self) -> anyhow::Result<Ended> {
        show(&compare(&read(&self.a)?, &read(&self.b)?).render(styled()));
        Ok(Ended::Well)
    }
}
