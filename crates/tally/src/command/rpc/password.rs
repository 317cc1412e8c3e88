//! `tally rpc hash-password`

use crate::command::{Ended, print};
use crate::flows_network::reach::first_line;
use anyhow::Context;
use std::io::BufRead;
use std::path::PathBuf;
use tally_rpc::hash_password;
use zeroize::Zeroizing;

/// Arguments of `tally rpc hash-password`.
#[derive(Debug, clap::Args)]
pub(in crate::command) struct HashPassword {
    /// File whose first line is the password; else it is read from standard input
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
}

impl HashPassword {
    pub(super) fn run(self) -> anyhow::Result<Ended> {
        let password = match &self.password_file {
            Some(file) => first_line(file)?,
            None => {
                let mut line = Zeroizing::new(String::new());
                std::io::stdin().lock().read_line(&mut line).context("cannot read standard input")?;
                Zeroizing::new(line.trim_end_matches(['\n', '\r']).to_owned())
            }
        };
        print::line(&hash_password(&password)?);
        Ok(Ended::Well)
    }
}
