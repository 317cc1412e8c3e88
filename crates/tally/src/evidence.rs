//! Files of evidence: in the directory `evidence` of a network's directory.

use anyhow::{Context, bail};
use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use tally_proof::evidence::{Case, MAX_EVIDENCE_BYTES};
use tally_proof::{Evidence, Keys};

/// Writes evidence into a directory, which is made where it is not there; the file's path. The same evidence is the same
/// file.
///
/// # Errors
/// When it cannot be written.
pub(crate) fn write(directory: &Path, evidence: &Evidence) -> anyhow::Result<PathBuf> {
    let text = serde_json::to_string_pretty(evidence)? + "\n";
    let kind = match evidence.case {
        Case::TwoHeads(_) => "two-heads",
        Case::TwoCosignatures(_) => "two-cosignatures",
        Case::TwoAnswers(_) => "two-answers",
        Case::SettledAgainstRefusal(_) => "settled-against-refusal",
        Case::TwoReceipts(_) => "two-receipts",
    };
    let hash = tally_crypto::hash(text.as_bytes()).to_string();
    let path = directory.join(format!("{kind}-{}.json", &hash[..16]));
    let cannot = || format!("cannot write evidence to {}", path.display());
    fs::create_dir_all(directory).with_context(cannot)?;
    let new = path.with_extension("json.new");
    let mut file = File::create(&new).with_context(cannot)?;
    file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).with_context(cannot)?;
    fs::rename(&new, &path).with_context(cannot)?;
    Ok(path)
}

/// Refuses while there is evidence that the operator shows two histories: whoever tells one of them deceives somebody.
///
/// # Errors
/// When there is, naming the file; when the directory cannot be read.
pub(crate) fn refuse_two_histories(directory: &Path, keys: &Keys) -> anyhow::Result<()> {
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        entries => entries.with_context(|| format!("cannot read {}", directory.display()))?,
    };
    for entry in entries {
        let path = entry.with_context(|| format!("cannot read {}", directory.display()))?.path();
        if path.extension().is_none_or(|extension| extension != "json") {
            continue;
        }
        // What is no evidence proves nothing, and holds nothing up.
        let Some(evidence) = read(&path)? else { continue };
        if matches!(evidence.case, Case::TwoHeads(_))
            && let Ok(misconduct) = evidence.judge(keys)
        {
            bail!(
                "{} proves: {misconduct} No gateway tells either until the institutions have agreed which one holds; then \
                 move the file away",
                path.display()
            );
        }
    }
    Ok(())
}

fn read(path: &Path) -> anyhow::Result<Option<Evidence>> {
    let mut text = String::new();
    let file = File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
    let is_text = file.take(MAX_EVIDENCE_BYTES).read_to_string(&mut text).is_ok();
    Ok(serde_json::from_str(&text).ok().filter(|_| is_text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tally_crypto::SigningKey;
    use tally_crypto::log::{SignedTreeHead, TreeHead};
    use tally_ledger::NetworkId;
    use tally_proof::evidence::TwoHeads;

    #[test]
    fn two_histories_are_refused_until_their_evidence_is_moved_away() {
        let operator = SigningKey::from_seed([1; 32]);
        let network = NetworkId([4; 32]);
        let keys = Keys { network, operator: operator.public_key(), witnesses: 0, institutions: Vec::new() };
        let heads = |key: &SigningKey| {
            let head = |byte| {
                let head = TreeHead { size: 5, root: [byte; 32], timestamp_ms: 9 };
                SignedTreeHead::sign(head, &network.0, key)
            };
            Evidence::new(network, TwoHeads { first: head(1), second: head(2), leaf: None })
        };
        let directory = tempfile::tempdir().unwrap();
        let evidence = directory.path().join("evidence");
        refuse_two_histories(&evidence, &keys).unwrap();
        // What others made up holds nothing up.
        write(&evidence, &heads(&SigningKey::from_seed([2; 32]))).unwrap();
        fs::write(evidence.join("noise.json"), [0xff; 9]).unwrap();
        refuse_two_histories(&evidence, &keys).unwrap();
        let path = write(&evidence, &heads(&operator)).unwrap();
        assert_eq!(write(&evidence, &heads(&operator)).unwrap(), path);
        let error = refuse_two_histories(&evidence, &keys).unwrap_err().to_string();
        assert!(error.contains(&path.display().to_string()) && error.contains("two histories"), "{error}");
        fs::rename(&path, directory.path().join("moved")).unwrap();
        refuse_two_histories(&evidence, &keys).unwrap();
    }
}
