//! `tally bench chain|rpc|import|evm`, and over Kafka, with real processes and very small numbers: everything that is measured
//! is there, and nothing is left behind.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod kafka;

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

fn bench(home: &Path, words: &[&str]) -> Output {
    let output = Command::new(env!("CARGO_BIN_EXE_tally"))
        .arg("bench")
        .args(words)
        .arg("--out")
        .arg(home)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words:?}: {}\n{said}\n{errors}", output.status);
    output
}

/// What a benchmark printed. The terminal's width decides where a line ends, and figures have as many digits as the
/// machine gives them: phrases are looked for in the words, whatever stands between two of them.
struct Printed {
    text: String,
    words: String,
}

impl Printed {
    fn of(output: Output) -> Self {
        let text = String::from_utf8(output.stdout).unwrap();
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        Self { text, words }
    }

    fn contains(&self, phrase: &str) -> bool {
        self.words.contains(phrase)
    }
}

impl std::fmt::Display for Printed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

/// The records of a run, which is the only one in this directory; nothing else is left there.
fn records(home: &Path) -> Vec<Value> {
    let left: Vec<_> = std::fs::read_dir(home).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["results"], "networks are removed");
    let file = std::fs::read_dir(home.join("results")).unwrap().next().unwrap().unwrap().path();
    let text = std::fs::read_to_string(file).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn metric(record: &Value, name: &str) -> f64 {
    record["metrics"][name]["value"].as_f64().unwrap_or_else(|| panic!("{name} in {}", record["metrics"]))
}

#[test]
fn calls_are_committed_and_accounted_for() {
    let home = tempfile::tempdir().unwrap();
    let page = tempfile::NamedTempFile::new().unwrap();
    let words = "chain --rate 40 --period 500ms --warm-up 500ms --duration 2s --accounts 10 --connections 4";
    let words = format!("{words} --consensus ibft2 --html {}", page.path().display());
    let output = bench(home.path(), &words.split(' ').collect::<Vec<_>>());
    let [record] = records(home.path()).try_into().unwrap();
    assert_eq!((metric(&record, "offered"), metric(&record, "committed")), (100.0, 100.0));
    for nothing in ["refused", "withheld", "waiting", "dropped", "lost", "receipts_wrong"] {
        assert_eq!(metric(&record, nothing), 0.0, "{nothing}");
    }
    assert!(metric(&record, "committed_rate") > 1.0 && metric(&record, "block_p50") > 0.1);
    assert!(metric(&record, "follower_peak_resident") > 1e6 && metric(&record, "validator_4_written") >= 0.0);
    assert_eq!(record["latency"]["percentiles"]["count"], 80);
    let limit = &record["limit"];
    assert!(limit["name"].as_str().unwrap().starts_with("5 key recoveries"), "{limit}");
    assert!(limit["share"].as_f64().unwrap() > 0.0 && limit["share"].as_f64().unwrap() < 1.0, "{limit}");
    assert_eq!(record["published"][0]["id"], "besu-1.5.0-tps");
    let said = Printed::of(output);
    for wanted in ["40 calls a second offered", "validator 4", "timestamp to timestamp", "Besu 1.5.0"] {
        assert!(said.contains(wanted), "{wanted} in {said}");
    }
    assert!(std::fs::read_to_string(page.path()).unwrap().contains("40 calls a second offered"));
}

#[test]
fn every_read_is_answered_with_something() {
    let home = tempfile::tempdir().unwrap();
    let words = "rpc --blocks 4 --calls 12 --accounts 5 --requests 20 --rate 50 --connections 3";
    let words = format!("{words} --warm-up 100ms --duration 400ms");
    let output = bench(home.path(), &words.split(' ').collect::<Vec<_>>());
    let records = records(home.path());
    // Nine methods alone, all mixed, and the mix at a rate.
    assert_eq!(records.len(), 11);
    for record in &records {
        assert_eq!(metric(record, "wrong"), 0.0, "{}", record["name"]);
        assert!(metric(record, "rate") > 10.0 && metric(record, "answer_bytes") > 30.0, "{}", record["name"]);
    }
    assert_eq!(records[10]["settings"]["offered_rps"], 50);
    let said = Printed::of(output);
    assert!(said.contains("eth_getTransactionReceipt") && said.contains("equal parts"), "{said}");
}

#[test]
fn a_chain_comes_into_an_empty_node_from_a_file_and_from_a_peer() {
    let home = tempfile::tempdir().unwrap();
    let output = bench(home.path(), &["import", "--blocks", "270", "--calls", "3", "--accounts", "5"]);
    let records = records(home.path());
    let names: Vec<_> = records.iter().map(|record| record["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["import-file", "import-full", "import-fast"]);
    for record in &records {
        assert_eq!((metric(record, "blocks"), metric(record, "transactions")), (271.0, 811.0));
        assert!(metric(record, "rate") > 1.0 && metric(record, "memory") > 1e6, "{record}");
    }
    assert!(Printed::of(output).contains("full sync from a peer"));
}

#[test]
fn the_evm_is_measured_beside_revm() {
    let home = tempfile::tempdir().unwrap();
    let page = tempfile::NamedTempFile::new().unwrap();
    let file = page.path().to_str().unwrap();
    let output = bench(home.path(), &["evm", "--repeat", "1", "--html", file]);
    let said = Printed::of(output);
    let page = std::fs::read_to_string(&page).unwrap();
    assert!(page.contains("Tallystick: the EVM") && page.contains("Mgas/s"), "{page}");
    for record in records(home.path()) {
        assert!(said.contains(record["name"].as_str().unwrap()) && metric(&record, "gas_rate") > 0.0);
    }
}

#[test]
fn nothing_is_left_when_somebody_ends_it() {
    let home = tempfile::tempdir().unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_tally"))
        .args([
            "bench",
            "chain",
            "--rate",
            "10",
            "--period",
            "500ms",
            "--duration",
            "1h",
            "--progress",
            "--out",
        ])
        .arg(home.path())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let pid = child.id();
    let limit = Instant::now() + Duration::from_secs(60);
    while children(pid).len() < 5 {
        assert!(Instant::now() < limit, "no nodes");
        std::thread::sleep(Duration::from_millis(20));
    }
    let nodes = children(pid);
    assert!(Command::new("kill").arg(pid.to_string()).status().unwrap().success());
    let status = child.wait().unwrap();
    assert!(!status.success());
    for node in nodes {
        assert!(!Path::new(&format!("/proc/{node}")).exists(), "{node} is still there");
    }
    let left: Vec<_> =
        std::fs::read_dir(home.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["results"]);
}

/// The processes that a process has started.
fn children(parent: u32) -> Vec<u32> {
    let wanted = format!("PPid:\t{parent}");
    let processes = std::fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    processes
        .filter(|pid: &u32| {
            std::fs::read_to_string(format!("/proc/{pid}/status"))
                .is_ok_and(|status| status.lines().any(|line| line == wanted))
        })
        .collect()
}
