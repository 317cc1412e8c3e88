use super::*;
use crate::recorder::Recorder;
use crate::recovery::Reader;
use crate::result::Better;
use crate::settlement;
use crate::stages::{Measured, Stage};
use crate::suite::Plan;
use tally_ops::process::{ThreadCpu, Usage};

fn limits() -> Vec<Limit> {
    let limit = |name: &str, value: f64| Limit {
        name: name.into(),
        value,
        unit: "1/s",
        better: Better::Higher,
        cores: 1,
        samples: vec![value],
        processor_share: None,
    };
    vec![
        limit("blake3-64-many", 1e8),
        limit("update-prefetched", 1e8),
        limit("memcpy", 1e10),
        limit("ed25519-verify-batch-4096", 1e5),
    ]
}

fn outcome(load: Load, payers: u32) -> Outcome {
    let plan = Plan::default();
    let mut run = plan.closed(plan.workload(Mix::Inside, payers));
    run.load = load;
    let usage = |cpu_ms: u64| Usage {
        cpu_user: Duration::from_millis(cpu_ms),
        cpu_system: Duration::from_millis(cpu_ms / 4),
        resident_bytes: 512 << 20,
        peak_resident_bytes: 512 << 20,
    };
    let mut latency = Recorder::new();
    latency.record_latency(Duration::from_micros(1234), 1000);
    let measured = settlement::Measured {
        rate: 2_000_000.0,
        latency,
        seconds: vec![2e6],
        refused: 3,
        before: usage(0),
        after: usage(800),
        made: 1_000_000,
        elapsed: Duration::from_millis(500),
        driver: Duration::from_millis(50),
        threads: vec![ThreadCpu {
            name: "tally-stage-0".into(),
            threads: 1,
            cpu: Duration::from_millis(700),
        }],
    };
    let ceilings = vec![Ceiling { name: "something".into(), rate: 2_500_000.0 }];
    Outcome { name: "inside".into(), title: "inside".into(), run, runs: vec![measured], ceilings }
}

#[test]
fn stages_stand_beside_what_was_published_and_their_limit() {
    let one = Measured {
        stage: Stage::Sequencer,
        legs: 2,
        signed: false,
        rates: vec![10_528_450.0],
        cpu_ns: vec![95.0],
    };
    let text = stages(&[one], &limits()).text(false);
    let row = text.lines().nth(1).unwrap();
    for cell in ["10,528,450", "95.0 ns", "1,052,845", "10.0×", "5×", "21.1 %", "2 hashes"] {
        assert!(row.contains(cell), "{cell} in {row}");
    }
    assert!(text.contains("nothing durable in these rows"));
}

#[test]
fn the_network_stands_beside_its_limit_and_the_bar() {
    let text = throughput(&[outcome(Load::Closed(4), 0), outcome(Load::Closed(4), 9)]).text(false);
    let rows: Vec<_> = text.lines().collect();
    for cell in ["2,000,000", "1,000,000", "1.67×", "1.00 µs", "2.00", "512 MiB", "80.0 %"] {
        assert!(rows[1].contains(cell), "{cell} in {}", rows[1]);
    }
    assert!(rows[2].contains("75.0 % of limit") && !rows[2].contains("1.67×"), "{}", rows[2]);
    assert!(text.contains("inside: 3 payments were refused"));
    // 2.00 cores are busy; the machine of the test has some number of them.
    let idle = tally_ops::process::machine().cores > 2;
    assert_eq!(text.contains("it can do more than this"), idle, "{text}");
    assert!(text.contains("payers neither sign nor are verified"));
}

#[test]
fn the_time_is_divided_among_stages_and_what_joins_them() {
    let stage = |stage| Measured { stage, legs: 2, signed: false, rates: vec![1.0], cpu_ns: vec![100.0] };
    let measured: Vec<_> = Stage::ALL.into_iter().map(stage).collect();
    let text = breakdown(&[outcome(Load::Closed(4), 0), outcome(Load::Closed(4), 5)], &measured).text(false);
    let rows: Vec<_> = text.lines().collect();
    // Scheduler, approver, assembler, sequencer, updater: 500 of the workers' 700 ns.
    for cell in ["1.00 µs", "500 ns", "200 ns", "50.0 ns"] {
        assert!(rows[1].contains(cell), "{cell} in {}", rows[1]);
    }
    assert!(rows[2].contains('–'), "a signed scheduler was not measured: {}", rows[2]);
}

#[test]
fn latency_is_shown_for_open_loop_only() {
    let text = latency(&[outcome(Load::Open(5000), 0), outcome(Load::Closed(4), 0)]).text(false);
    assert!(text.lines().nth(1).unwrap().contains("5,000 tx/s  1.23 ms"), "{text}");
    assert_eq!(text.lines().count(), 4, "{text}");
}

#[test]
fn reading_back_and_memory_are_shown() {
    let one = recovery::Measured {
        reader: Reader::Audit,
        transactions: 1_000_000,
        bytes: 1 << 30,
        rates: vec![2e6],
        cpu_ns: vec![500.0],
        peak_resident_bytes: 1,
    };
    let workload = Plan::default().workload(Mix::Between, 0);
    let text = recovery(&[one], &workload, &limits()).text(false);
    assert!(text.contains("unsigned payments of four legs"), "{text}");
    let row = text.lines().nth(1).unwrap();
    for cell in ["audit", "1,000,000", "2,000,000", "500 ns", "14 hashes + 3 updates + 144 B"] {
        assert!(row.contains(cell), "{cell} in {row}");
    }
    let memory = super::memory(&Memory {
        accounts: 10_000_000,
        set_up: Duration::from_secs(11),
        idle_bytes: 1 << 29,
        rate: 100_000.0,
        loaded_bytes: 1 << 30,
    });
    let text = memory.text(false);
    assert!(text.contains("512 MiB") && text.contains("1.00 GiB") && text.contains("1.50 GiB"), "{text}");
}

#[test]
fn the_heading_says_where_and_what() {
    let commit = Commit { revision: Some("abc".into()), dirty: Some(true) };
    let text = heading(&tally_ops::process::machine(), &commit);
    assert!(text.contains("cores") && text.contains("abc, with changes"), "{text}");
}
