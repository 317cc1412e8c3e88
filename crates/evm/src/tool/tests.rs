use super::reference::{reference, rpc_chain};
use super::*;

fn failures(results: &[TestResult]) -> String {
    let failed: Vec<_> = results.iter().filter(|result| !result.pass).collect();
    let lines = failed.iter().take(40).map(|result| {
        format!("{} ({}): {}\n", result.name, result.fork, result.error.as_deref().unwrap_or_default())
    });
    format!("{} of {} failed:\n{}", failed.len(), results.len(), lines.collect::<String>())
}

#[test]
fn every_transaction_test_passes() {
    let Some(path) = reference("transaction-tests") else { return };
    let results = transaction_tests(&[path], &Options::default()).unwrap();
    assert!(results.len() > 1000, "{}", results.len());
    assert!(results.iter().all(|result| result.pass), "{}", failures(&results));
}

#[test]
fn every_state_test_passes() {
    let Some(path) = reference("state-tests") else { return };
    let results = state_tests(&[path], &Options::default(), &mut std::io::sink()).unwrap();
    assert!(results.len() > 3000, "{}", results.len());
    assert!(results.iter().all(|result| result.pass), "{}", failures(&results));
}

#[test]
fn every_block_test_passes() {
    let Some(path) = reference("blockchain-tests") else { return };
    let results = block_tests(&[path], &Options::default()).unwrap();
    assert!(results.len() > 50, "{}", results.len());
    assert!(results.iter().all(|result| result.pass), "{}", failures(&results));
}

#[test]
fn every_rlp_test_passes() {
    let Some(path) = reference("rlp-tests") else { return };
    let results = rlp_tests(&[path], &Options::default()).unwrap();
    assert!(results.len() > 50, "{}", results.len());
    assert!(results.iter().all(|result| result.pass), "{}", failures(&results));
}

#[test]
fn every_trie_test_passes() {
    let Some(path) = reference("trie-tests") else { return };
    let results = trie_tests(&[path], &Options::default()).unwrap();
    assert!(results.len() > 15, "{}", results.len());
    assert!(results.iter().all(|result| result.pass), "{}", failures(&results));
}

#[test]
fn a_chain_through_every_fork_is_imported() {
    let Some(chain) = rpc_chain() else { return };
    let head = &chain.blocks[&chain.head];
    assert!(head.header.number > 40);
    assert!(chain.schedule.rules_of(&head.header).has(crate::schedule::Fork::Bpo2));
}
