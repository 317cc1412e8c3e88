//! Audits and benchmarks, as a person runs them.

use super::support::{Network, PLAN, Said, tally};
use std::path::Path;

fn said(arguments: &[&str], path: &Path, more: &[&str]) -> Said {
    tally().args(arguments).arg(path).args(more).output().unwrap().into()
}

#[test]
fn an_audit_sums_the_books_and_finds_damage() {
    let network = Network::of(PLAN);
    let audited = said(&["audit"], &network.directory, &[]);
    assert_eq!(audited.code, Some(0), "{audited:?}");
    let row = |of: &str, asset: &str| {
        let mut lines = audited.out.lines().filter(|line| line.starts_with(of) && line.contains(asset));
        lines.next().map(|line| line.split_whitespace().skip(2).collect::<Vec<_>>()).unwrap()
    };
    // Two customers with an opening balance each; the central bank issued what the banks began with.
    assert_eq!(row("ALPHDEFF", "EUR"), ["2", "2000.00", "100000.00", "0.00", "2000.00"]);
    assert_eq!(row("TSCBDEFF", "EUR")[4], "200050.00");
    assert!(audited.out.contains("all verified"), "{}", audited.out);
    let quick = said(&["audit", "--no-signatures"], &network.directory, &[]);
    assert!(quick.code == Some(0) && quick.out.contains("payers' not verified"), "{quick:?}");

    let alone = said(&["audit", "--institution", "ALPHDEFF"], &network.directory, &[]);
    assert!(alone.code == Some(0) && alone.out.contains("that concern ALPHDEFF"), "{alone:?}");
    assert!(alone.out.contains("2000.00") && !alone.out.contains("BETAFRPP"), "{alone:?}");
    assert_eq!(said(&["audit", "--institution", "NONEDEFF"], &network.directory, &[]).code, Some(2));

    // A bit of the first record's transactions.
    let segment = network.directory.join("journal/00000000000000000001.tlog");
    let mut bytes = std::fs::read(&segment).unwrap();
    bytes[1000] ^= 1;
    std::fs::write(&segment, &bytes).unwrap();
    let damaged = said(&["audit"], &network.directory, &[]);
    assert_eq!(damaged.code, Some(1), "{damaged:?}");
    assert!(
        damaged.err.contains("not in order") && damaged.err.contains("is damaged at byte"),
        "{damaged:?}"
    );

    // A journal that is not there is not an audit without findings.
    std::fs::remove_dir_all(network.directory.join("journal")).unwrap();
    assert_eq!(said(&["audit"], &network.directory, &[]).code, Some(2));
    assert_eq!(said(&["audit"], &network.directory.join("absent"), &[]).code, Some(2));
}

/// The audit knows the policy a network runs with: its genesis fixes it, and nothing can set it otherwise.
#[test]
fn the_genesis_says_whose_signatures_an_audit_asks_for() {
    let home = tempfile::tempdir().unwrap();
    for (policy, says, other) in [
        ("required", "every debit's owner", "institutions-only"),
        ("institutions-only", "the genesis lets transfers go unsigned", "required"),
    ] {
        let directory = home.path().join(policy);
        let mut init = tally();
        init.args(["network", "init", "--demo", "--weak-keys", "--signatures", policy]).arg(&directory);
        let made: Said = init.output().unwrap().into();
        assert_eq!(made.code, Some(0), "{made:?}");
        let audited = said(&["audit"], &directory, &[]);
        assert!(audited.code == Some(0) && audited.out.contains(says), "{audited:?}");
        let setting = format!("network.signatures={other}");
        let refused = said(&["network", "run"], &directory, &["--set", &setting]);
        assert_eq!(refused.code, Some(2), "{refused:?}");
        assert!(
            refused.err.contains(&format!("network.signatures is {other}, and genesis.toml says")),
            "{refused:?}"
        );
        let configuration = directory.join("network.toml");
        let text = std::fs::read_to_string(&configuration).unwrap();
        let changed =
            text.replace(&format!("signatures = \"{policy}\""), &format!("signatures = \"{other}\""));
        assert_ne!(changed, text);
        std::fs::write(&configuration, changed).unwrap();
        assert_eq!(said(&["audit"], &directory, &[]).code, Some(2));
    }
}

#[test]
fn a_benchmark_of_the_network_is_recorded_and_compared_with_itself() {
    let home = tempfile::tempdir().unwrap();
    let small = ["--quick", "--duration", "200ms", "--warm-up", "50ms", "--accounts", "100", "--batch", "64"];
    let run =
        said(&["bench", "settlement", "--mix", "mixed:50", "--rate", "2000", "--out"], home.path(), &small);
    assert_eq!(run.code, Some(0), "{run:?}");
    for text in
        ["2 legs, 50 % of them 4, unsigned", "p99.9", "neither sign nor are verified", "Results, with"]
    {
        assert!(run.out.contains(text), "{text} in {}", run.out);
    }
    let results = home.path().join("results");
    let results = results.to_str().unwrap();
    let compared = said(&["bench", "compare", results], Path::new(results), &[]);
    assert_eq!(compared.code, Some(0), "{compared:?}");
    assert!(compared.out.contains("1.000"), "{}", compared.out);
    assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 1, "the network is removed, results stay");

    for wrong in [["--mix", "mixed:101"], ["--rate", "0"], ["--duration", "0s"]] {
        let refused = said(&["bench", "settlement", "--out"], home.path(), &wrong);
        assert_eq!(refused.code, Some(2), "{refused:?}");
    }
}
