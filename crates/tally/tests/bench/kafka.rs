//! `tally bench … --log kafka` on a real broker with very small numbers: every table is there, and so is what it is made of.

use super::{Printed, bench, metric, records};
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Stdio};

const STAGES: [&str; 5] = ["scheduler", "approver", "assembler", "sequencer", "updater"];

/// Runs it, and reads what it said, its records and its page.
fn measured(words: &str) -> (Printed, Vec<Value>, String) {
    let home = tempfile::tempdir().unwrap();
    let page = tempfile::NamedTempFile::new().unwrap();
    let words = format!("{words} --quick --html {}", page.path().display());
    let output = bench(home.path(), &words.split(' ').collect::<Vec<_>>());
    (Printed::of(output), records(home.path()), std::fs::read_to_string(page.path()).unwrap())
}

fn named<'r>(records: &'r [Value], name: &str) -> Vec<&'r Value> {
    records.iter().filter(|record| record["name"] == name).collect()
}

#[test]
fn each_stage_is_measured_alone_beside_files_and_with_more_instances() {
    let (said, records, page) = measured("stages --log kafka --accounts 300 --batch 64 --instances 1,2");
    assert_eq!(named(&records, "kafka-produce-256k").len(), 1, "the limit of the same run");
    for stage in STAGES {
        let kafka = named(&records, &format!("{stage} over kafka"));
        let file = named(&records, &format!("{stage} over file"));
        assert_eq!((kafka.len(), file.len()), (2, 1), "{stage}");
        let split = if stage == "sequencer" { 1 } else { 2 };
        assert_eq!(
            (&kafka[0]["settings"]["instances"], &kafka[1]["settings"]["instances"]),
            (&1.into(), &split.into())
        );
        for record in kafka.iter().chain(&file) {
            assert_eq!(record["settings"]["payments"], 50 * 64);
            assert!(
                metric(record, "rate_tps") > 10.0 && metric(record, "cpu_ns_per_transaction") > 0.0,
                "{record}"
            );
            assert!(metric(record, "read_per_transaction") > 0.0, "{record}");
            // All append, an updater its cosignatures, and wait until it is visible.
            assert!(metric(record, "written_per_transaction") > 0.0, "{stage}");
            assert!(metric(record, "commits") >= 1.0, "{stage}");
            let (commit, elapsed) = ("commit_ns_per_transaction", "elapsed_ns_per_transaction");
            assert!(metric(record, commit) > 0.0, "{stage}");
            assert!(
                record["settings"]["instances"] != 1 || metric(record, commit) < metric(record, elapsed),
                "{record}"
            );
        }
        assert!(
            metric(kafka[0], "broker_ns_per_transaction") >= 0.0 && metric(kafka[0], "share_of_broker") > 0.0
        );
        assert!(metric(kafka[0], "client_ns_per_transaction") > 0.0, "the client has threads of its own");
        assert_eq!(metric(file[0], "client_ns_per_transaction"), 0.0, "files have no client");
        // The same batches, byte for byte; on Kafka, those whom none concerns read too that there is none.
        let read = |record: &Value| metric(record, "read_per_transaction");
        assert!(
            (read(kafka[0]) / read(file[0]) - 1.0).abs() < 0.1,
            "{stage}: {} {}",
            read(kafka[0]),
            read(file[0])
        );
    }
    for wanted in
        ["of CPU more for a payment", "1: tx/s", "2: tx/s", "the sequencer", "machines like this", "Assumed:"]
    {
        assert!(said.contains(wanted), "{wanted} in {said}");
    }
    assert!(page.contains("Cost of Kafka over the file log") && page.contains("Predicted of more machines"));
}

#[test]
fn the_whole_network_is_measured_and_its_sequencer_replaced() {
    let words = "settlement --log kafka --accounts 300 --batch 64 --runs 2 --warm-up 300ms --duration 1s";
    let (said, records, page) = measured(words);
    let runs = named(&records, "kafka");
    assert_eq!(runs.len(), 2, "a record for each run");
    for run in runs {
        assert!(metric(run, "rate_tps") > 100.0 && metric(run, "share_of_broker") > 0.0, "{run}");
        assert_eq!(metric(run, "refused"), 0.0);
    }
    let [takeover] = named(&records, "sequencer takeover over Kafka").try_into().unwrap();
    let parts = ["silence", "fence", "recovery", "first_commit"].map(|part| metric(takeover, part));
    // Medians of two are means, and so the parts are the whole.
    let whole = metric(takeover, "until_decision");
    assert!((parts.iter().sum::<f64>() - whole).abs() < 1e-6 && whole < 5.0, "{takeover}");
    assert!((0.3..5.0).contains(&parts[0]), "{takeover}");
    assert!(metric(takeover, "heard_after") >= whole - 0.05, "{takeover}");
    let [alone, witnessed] = named(&records, "outcome over Kafka").try_into().unwrap();
    assert_eq!(
        (&alone["settings"]["witnesses"], &witnessed["settings"]["witnesses"]),
        (&0.into(), &2.into())
    );
    for record in [alone, witnessed] {
        assert!(record["latency"]["percentiles"]["count"].as_u64().unwrap() > 500, "{record}");
    }
    assert!(metric(witnessed, "longer_p99") < 5.0 && said.contains("2 witnesses"), "{said}");
    assert!(said.contains("no gap, no fork") && said.contains("Median of 2"), "{said}");
    assert!(page.contains("Takeover of the sequencer") && page.contains("generator and gateway"));
}

#[test]
fn signed_payments_are_verified_over_kafka_too() {
    let words = "settlement --log kafka --accounts 300 --payers 100 --signed --rate 2000 --warm-up 300ms --duration 1s --runs 1";
    let (said, records, _) = measured(words);
    let [run] = named(&records, "kafka").try_into().unwrap();
    assert_eq!((&run["settings"]["signed"], &run["settings"]["payers"]), (&true.into(), &100.into()));
    assert!(metric(run, "refused") == 0.0 && metric(run, "rate_tps") > 100.0, "{run}");
    // A scheduler cannot verify faster than that.
    assert!(metric(run, "scheduler_0_ns_per_transaction") > 2000.0, "{run}");
    assert!(said.contains("batch verification"), "{said}");
}

#[test]
fn the_limits_of_a_broker_have_records_and_bytes() {
    let (said, records, page) = measured("limits --log kafka --duration 2s");
    for size in ["200", "256k"] {
        let bytes = if size == "200" { 200.0 } else { 262_144.0 };
        for kind in ["produce", "consume", "both"] {
            let [all] = named(&records, &format!("kafka-{kind}-{size}")).try_into().unwrap();
            let [each] = named(&records, &format!("kafka-{kind}-{size}-records")).try_into().unwrap();
            let (all, each) = (metric(all, "value"), metric(each, "value"));
            assert!(all > 1e4 && (all / each - bytes).abs() < bytes * 1e-6, "{kind} {size}: {all} {each}");
        }
    }
    assert!(said.contains("records/s") && page.contains("Limits of the broker"), "{said}");
}

#[test]
fn what_means_nothing_over_kafka_is_refused_before_anything_is_started() {
    for (words, named) in [
        ("settlement --log kafka --memory", "--memory"),
        ("settlement --log kafka --full", "--full"),
        ("limits --log kafka --memory 64", "--memory"),
        ("stages --log kafka --duration 1s", "--duration"),
        ("stages --log kafka --schedulers 2", "--schedulers"),
        ("stages --lz4", "--lz4"),
    ] {
        let home = tempfile::tempdir().unwrap();
        let out = home.path().join("out");
        let output = Command::new(env!("CARGO_BIN_EXE_tally"))
            .arg("bench")
            .args(words.split(' '))
            .arg("--out")
            .arg(&out)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(
            !output.status.success() && errors.contains(&format!("{named} does not go with --log")),
            "{errors}"
        );
        assert!(!Path::new(&out).exists(), "{words}: nothing was begun");
    }
}
