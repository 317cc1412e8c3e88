//! `tally verify FILE`: no network is needed, nor reached.

use super::{Ended, print};
use crate::configuration::Configuration;
use crate::connection::ConnectionArguments;
use anyhow::{Context, bail, ensure};
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use tally_gateway::codec::to_hex;
use tally_ledger::{AccountRole, Kind};
use tally_proof::keys::MAX_KEYS_BYTES;
use tally_proof::proof::MAX_PROOF_BYTES;
use tally_proof::{Keys, Proof, Verified};

/// Arguments of `tally verify`.
#[derive(Debug, clap::Args)]
pub(super) struct Verify {
    /// The proof, as `tally proof` writes it
    file: PathBuf,
    /// Finality is enough: approvals may be missing
    #[arg(long)]
    finality: bool,
}

impl Verify {
    /// Says what is proven. Ends with 1 when nothing is, or less than was asked for.
    pub(super) fn run(self, connection: &ConnectionArguments) -> anyhow::Result<Ended> {
        let keys = keys(connection)?;
        let text = read(&self.file, MAX_PROOF_BYTES)?;
        let proof: Proof =
            serde_json::from_str(&text).with_context(|| format!("{} is no proof", self.file.display()))?;
        let verified = if self.finality { proof.verify_finality(&keys) } else { proof.verify(&keys) };
        match verified {
            Ok(verified) => {
                let kind = Kind::from_number(proof.transaction.kind);
                sentences(&verified, kind, &keys).iter().for_each(|sentence| print::line(sentence));
                Ok(Ended::Well)
            }
            Err(error) => {
                eprintln!("not proven: {error}");
                let mut cause = std::error::Error::source(&error);
                while let Some(error) = cause {
                    eprintln!("  because: {error}");
                    cause = error.source();
                }
                Ok(Ended::Refused)
            }
        }
    }
}

/// The keys in the file that `--keys` names, or those in the network's directory.
fn keys(connection: &ConnectionArguments) -> anyhow::Result<Keys> {
    let path = match connection.keys.as_slice() {
        [] => {
            let layout = connection
                .directory()
                .context("whose keys count? Give --keys FILE, as `tally network keys` writes it")?;
            let network = Configuration::read(&layout, &[])?.network()?;
            return Keys::of(&network).context("the network has no participants");
        }
        [path] => path,
        _ => bail!("--keys: one file of public keys is wanted"),
    };
    let text = read(path, MAX_KEYS_BYTES)?;
    let wrong =
        || format!("{} has no public keys; `tally network keys` writes a file that has", path.display());
    if text.trim_start().starts_with('{') {
        serde_json::from_str(&text).with_context(wrong)
    } else {
        toml::from_str(&text).with_context(wrong)
    }
}

/// The text of a file of at most `most` bytes.
fn read(path: &Path, most: u64) -> anyhow::Result<String> {
    let cannot = || format!("cannot read {}", path.display());
    let mut bytes = Vec::new();
    let file = File::open(path).with_context(cannot)?;
    file.take(most + 1).read_to_end(&mut bytes).with_context(cannot)?;
    ensure!(
        bytes.len() as u64 <= most,
        "{} has more than {most} bytes, the most that is read",
        path.display()
    );
    String::from_utf8(bytes).with_context(|| format!("{} is no text", path.display()))
}

fn sentences(verified: &Verified, kind: Option<Kind>, keys: &Keys) -> Vec<String> {
    let what = match kind {
        Some(Kind::Transfer) => "transfer",
        Some(Kind::Issue) => "issue",
        Some(Kind::Redeem) => "redemption",
        Some(Kind::Account) => "account order",
        None => "transaction",
    };
    let became = match verified.verdict {
        Ok(()) => "is settled for good.".to_owned(),
        Err(refusal) => format!("was refused for good: {} {}", refusal.iso_code(), refusal.sentence()),
    };
    let head = &verified.head;
    let mut sentences = vec![
        format!("The {what} {} {became}", verified.uetr),
        format!("Its transaction is {} of network {:08x}.", verified.id, verified.network.0),
        format!(
            "It has place {} in the global order, since {} by the operator's clock.",
            verified.sequence,
            print::time(verified.timestamp.0)
        ),
        format!(
            "The operator signed the log that has it: {} records with the root {}, at {}.",
            head.size,
            to_hex(&head.root),
            print::time(head.timestamp_ms)
        ),
    ];
    sentences.extend(said(verified));
    for (position, leg) in &verified.legs {
        let account = match leg.account.role() {
            AccountRole::Customer => format!("account {}", leg.account.0),
            AccountRole::Own(_) => "the own funds".to_owned(),
            AccountRole::Issuance(_) => "the issuance account".to_owned(),
            AccountRole::Settlement(_, holder) => format!("{}'s settlement account", keys.name(holder)),
        };
        sentences.push(format!(
            "Leg {} puts {} minor units of asset {} on {account} at {}.",
            u16::from(*position) + 1,
            leg.amount.0,
            leg.asset.0,
            keys.name(leg.participant)
        ));
    }
    sentences
}

/// What the institutions said.
fn said(verified: &Verified) -> Vec<String> {
    let mut sentences = Vec::new();
    let approved: Vec<&str> = verified
        .answers
        .iter()
        .filter(|answer| answer.verdict.is_ok())
        .map(|answer| answer.bic.as_str())
        .collect();
    let missing = verified.not_shown();
    if !approved.is_empty() {
        let all = if missing == 0 && verified.verdict.is_ok() { ": all that it concerns" } else { "" };
        sentences.push(format!("It was approved by {}{all}.", approved.join(", ")));
    }
    for answer in &verified.answers {
        if let Err(refusal) = answer.verdict {
            let said = format!("{} {}", refusal.iso_code(), refusal.sentence());
            sentences.push(format!("{} refused it: {said}", answer.bic));
        }
    }
    if missing > 0 {
        let of = verified.participants;
        sentences.push(format!("The approvals of {missing} of {of} institutions are not shown."));
    }
    sentences
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROOF: &str = include_str!("../../../proof/tests/golden/proof.json");
    const KEYS: &str = include_str!("../../../proof/tests/golden/keys.json");

    #[test]
    fn what_is_proven_is_said_in_sentences() {
        let keys: Keys = serde_json::from_str(KEYS).unwrap();
        let proof: Proof = serde_json::from_str(PROOF).unwrap();
        let verified = proof.verify(&keys).unwrap();
        let said = sentences(&verified, Some(Kind::Transfer), &keys);
        assert_eq!(said[0], "The transfer 97ed4827-7b6f-4491-a06f-b548d5a7512d is settled for good.");
        assert_eq!(
            said[2],
            "It has place 144 in the global order, since 2025-06-15T15:06:40.020Z by the operator's clock."
        );
        assert_eq!(said[4], "It was approved by CENTDEFF, BANKDEFF, BANKFRPP: all that it concerns.");
        assert_eq!(said[5], "Leg 1 puts -1250 minor units of asset 0 on account 7 at BANKDEFF.");
        let less = Verified { answers: verified.answers[1..].to_vec(), ..verified };
        let said = sentences(&less, None, &keys);
        assert_eq!(said[4], "It was approved by BANKDEFF, BANKFRPP.");
        assert_eq!(said[5], "The approvals of 1 of 3 institutions are not shown.");
    }

    #[test]
    fn keys_are_read_as_they_are_written_and_no_file_is_read_without_end() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("keys.toml");
        let of: Keys = serde_json::from_str(KEYS).unwrap();
        let arguments = ConnectionArguments { keys: vec![path.clone()], ..ConnectionArguments::default() };
        for text in [toml::to_string(&of).unwrap(), KEYS.to_owned()] {
            std::fs::write(&path, text).unwrap();
            assert_eq!(keys(&arguments).unwrap(), of);
        }
        std::fs::write(&path, "nothing = 1").unwrap();
        assert!(keys(&arguments).is_err());
        std::fs::write(&path, "12345").unwrap();
        assert_eq!(read(&path, 5).unwrap(), "12345");
        assert!(read(&path, 4).is_err());
        assert!(read(&directory.path().join("none"), 5).is_err());
    }
}
