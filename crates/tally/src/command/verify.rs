//! `tally verify FILE`: checks a proof or judges evidence. No network is needed, nor reached.

use super::network_keys::keys_of;
use super::{Ended, print};
use crate::connection::ConnectionArguments;
use anyhow::{Context, bail, ensure};
use serde::Deserialize;
use serde::de::IgnoredAny;
use std::error::Error;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use tally_gateway::codec::to_hex;
use tally_ledger::{AccountRole, Kind};
use tally_proof::evidence::MAX_EVIDENCE_BYTES;
use tally_proof::keys::MAX_KEYS_BYTES;
use tally_proof::proof::{MAX_PROOF_BYTES, VERSION};
use tally_proof::{Evidence, Keys, Proof, ProofError, Verified};

/// Arguments of `tally verify`.
#[derive(Debug, clap::Args)]
pub(super) struct Verify {
    /// The proof, as `tally proof` writes it, or evidence of misconduct
    file: PathBuf,
    /// Finality is enough: approvals may be missing from the proof
    #[arg(long)]
    finality: bool,
    /// How many institutions besides the operator have to have cosigned the log as witnesses, where
    /// that is more than the keys ask for
    #[arg(long, value_name = "K", default_value_t = 0)]
    witnesses: u8,
}

/// What tells evidence from a proof, which has no kind.
#[derive(Deserialize)]
struct Form {
    kind: Option<IgnoredAny>,
}

impl Verify {
    /// Says what is proven. Ends with 1 when nothing is, or less than was asked for.
    pub(super) fn run(self, connection: &ConnectionArguments) -> anyhow::Result<Ended> {
        let mut keys = keys(connection)?;
        keys.witnesses = keys.witnesses.max(self.witnesses);
        let text = read(&self.file, MAX_PROOF_BYTES.max(MAX_EVIDENCE_BYTES))?;
        let file = self.file.display();
        let form: Form = serde_json::from_str(&text)
            .with_context(|| format!("{file} is neither a proof nor evidence: it is no JSON object"))?;
        if form.kind.is_some() {
            ensure!(!self.finality, "--finality is for proofs, and {file} is evidence");
            ensure!(self.witnesses == 0, "--witnesses is for proofs, and {file} is evidence");
            let evidence: Evidence = serde_json::from_str(&text)
                .with_context(|| format!("{file} is no evidence of a kind that this program knows"))?;
            return Ok(judge(&evidence, &keys));
        }
        let proof = parse(&text).with_context(|| format!("{file} is no proof"))?;
        let verified = proof.and_then(|proof| {
            let verified = if self.finality { proof.verify_finality(&keys) } else { proof.verify(&keys) };
            verified.map(|verified| (verified, Kind::from_number(proof.transaction.kind)))
        });
        match verified {
            Ok((verified, kind)) => {
                sentences(&verified, kind, &keys).iter().for_each(|sentence| print::line(sentence));
                Ok(Ended::Well)
            }
            Err(error) => Ok(not_proven(&error)),
        }
    }
}

/// Says who did what. A finding is a success: the command answers whether the evidence holds.
fn judge(evidence: &Evidence, keys: &Keys) -> Ended {
    match evidence.judge(keys) {
        Ok(misconduct) => {
            print::line(&misconduct.to_string());
            print::line(&format!("This is proven by signatures for network {}.", keys.network));
            Ended::Well
        }
        Err(error) => not_proven(&error),
    }
}

fn not_proven(error: &dyn Error) -> Ended {
    eprintln!("not proven: {error}");
    let mut cause = error.source();
    while let Some(error) = cause {
        eprintln!("  because: {error}");
        cause = error.source();
    }
    Ended::Refused
}

/// The proof, or that it is of a version that this program does not read, whose contents have
/// another form.
fn parse(text: &str) -> serde_json::Result<Result<Proof, ProofError>> {
    #[derive(serde::Deserialize)]
    struct Versioned {
        version: u32,
    }
    match serde_json::from_str(text)? {
        Versioned { version: VERSION } => serde_json::from_str(text).map(Ok),
        Versioned { version } => Ok(Err(ProofError::Version(version))),
    }
}

/// The keys in the file that `--keys` names, or those in the network's directory.
fn keys(connection: &ConnectionArguments) -> anyhow::Result<Keys> {
    let path = match connection.keys.as_slice() {
        [] => {
            let layout = connection
                .directory()
                .context("whose keys count? Give --keys FILE, as `tally network keys` writes it")?;
            return keys_of(&layout);
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
        format!("Its transaction is {} of network {}.", verified.id, verified.network),
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
    if !verified.witnesses.is_empty() {
        let names: Vec<&str> = verified.witnesses.iter().map(|witness| witness.bic.as_str()).collect();
        sentences.push(format!("{} cosigned that state of the log as witnesses.", names.join(", ")));
    }
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
    match verified.hidden_legs {
        0 => {}
        1 => sentences.push("1 leg is hidden.".to_owned()),
        hidden => sentences.push(format!("{hidden} legs are hidden.")),
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
        let of = verified.concerned.len();
        sentences.push(format!("The approvals of {missing} of {of} institutions are not shown."));
    }
    sentences
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROOF: &str = include_str!("../../../proof/tests/golden/proof.json");
    const KEYS: &str = include_str!("../../../proof/tests/golden/keys.json");
    const COSIGNED: &str = include_str!("../../../proof/tests/golden/cosigned_proof.json");
    const WITNESSED_KEYS: &str = include_str!("../../../proof/tests/golden/cosigned_keys.json");
    const EVIDENCE: &str = include_str!("../../../proof/tests/golden/evidence.json");

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
        assert_eq!(said[6..], ["3 legs are hidden."]);
        let less = Verified { answers: verified.answers[1..].to_vec(), ..verified };
        let said = sentences(&less, None, &keys);
        assert_eq!(said[4], "It was approved by BANKDEFF, BANKFRPP.");
        assert_eq!(said[5], "The approvals of 1 of 3 institutions are not shown.");
    }

    #[test]
    fn witnesses_are_named() {
        let keys: Keys = serde_json::from_str(KEYS).unwrap();
        let proof: Proof = serde_json::from_str(PROOF).unwrap();
        let mut verified = proof.verify(&keys).unwrap();
        verified.witnesses = [(1, "BANKDEFF"), (2, "BANKFRPP")]
            .map(|(participant, bic)| tally_proof::Witnessed {
                participant: tally_ledger::ParticipantId(participant),
                bic: bic.to_owned(),
                time_s: 1,
            })
            .into();
        let said = sentences(&verified, None, &keys);
        assert_eq!(said[4], "BANKDEFF, BANKFRPP cosigned that state of the log as witnesses.");
    }

    #[test]
    fn evidence_is_told_from_a_proof_by_its_kind() {
        let directory = tempfile::tempdir().unwrap();
        let [file, keys] = ["file.json", "keys.json"].map(|name| directory.path().join(name));
        std::fs::write(&keys, KEYS).unwrap();
        let arguments = ConnectionArguments { keys: vec![keys], ..ConnectionArguments::default() };
        let run = |text: &str, finality| {
            std::fs::write(&file, text).unwrap();
            Verify { file: file.clone(), finality, witnesses: 0 }.run(&arguments)
        };
        assert!(matches!(run(EVIDENCE, false), Ok(Ended::Well)));
        assert!(matches!(run(PROOF, false), Ok(Ended::Well)));
        // What is no contradiction is not proven: exit code 1.
        let mut value: serde_json::Value = serde_json::from_str(EVIDENCE).unwrap();
        value["second"] = value["first"].clone();
        assert!(matches!(run(&value.to_string(), false), Ok(Ended::Refused)));
        // What cannot be read is an error: exit code 2.
        value["kind"] = "another".into();
        for text in [&value.to_string(), "[]", "{}", "", &PROOF.replacen('{', "{\"kind\": 1,", 1)] {
            assert!(run(text, false).is_err(), "{text}");
        }
        assert!(run(EVIDENCE, true).is_err());
        std::fs::write(&file, EVIDENCE).unwrap();
        assert!(Verify { file, finality: false, witnesses: 1 }.run(&arguments).is_err());
    }

    #[test]
    fn more_witnesses_can_be_asked_for_than_the_keys_say() {
        let directory = tempfile::tempdir().unwrap();
        let run = |proof: &str, keys: &str, witnesses| {
            let [file, path] = ["file.json", "keys.json"].map(|name| directory.path().join(name));
            std::fs::write(&file, proof).unwrap();
            std::fs::write(&path, keys).unwrap();
            let arguments = ConnectionArguments { keys: vec![path], ..ConnectionArguments::default() };
            matches!(Verify { file, finality: false, witnesses }.run(&arguments), Ok(Ended::Well))
        };
        // Three institutions cosigned, and the file of keys asks for two.
        for (witnesses, proven) in [(0, true), (1, true), (3, true), (4, false)] {
            assert_eq!(run(COSIGNED, WITNESSED_KEYS, witnesses), proven, "{witnesses}");
            assert_eq!(run(COSIGNED, KEYS, witnesses), proven, "{witnesses}");
        }
        assert!(!run(PROOF, WITNESSED_KEYS, 0) && !run(PROOF, KEYS, 1) && run(PROOF, KEYS, 0));
    }

    #[test]
    fn a_proof_or_keys_of_before_are_called_so() {
        assert!(matches!(parse(PROOF), Ok(Ok(_))));
        let older = PROOF.replacen("\"version\": 2", "\"version\": 1", 1);
        let number = older.replacen(
            "\"participants\": [\n      0,\n      1,\n      2\n    ]",
            "\"participants\": 3",
            1,
        );
        for text in [&older, &number, r#"{"version": 1, "whatever": "else"}"#] {
            assert_eq!(parse(text).unwrap().unwrap_err(), ProofError::Version(1));
        }
        for text in ["", "{}", "[]", r#"{"version": 2}"#] {
            assert!(parse(text).is_err(), "{text}");
        }
        let keys =
            KEYS.replacen("df840a304e772ef4cdfb23293d8adadde8d43567bde4b0190c3d954f696f0b0a", "df840a30", 1);
        let error = serde_json::from_str::<Keys>(&keys).unwrap_err().to_string();
        assert!(error.contains("an older version of this program made that network"), "{error}");
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
