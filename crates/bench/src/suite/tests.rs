use super::*;
use crate::recovery::Reader;

fn plan(directory: &Path) -> Plan {
    Plan {
        directory: directory.to_owned(),
        accounts: 500,
        payers: 20,
        batch: 64,
        window: 2,
        duration: Duration::from_millis(150),
        warm_up: Duration::from_millis(20),
        runs: 2,
        seed: 5,
        progress: false,
    }
}

#[test]
fn a_network_is_measured_in_closed_and_open_loop() {
    let directory = tempfile::tempdir().unwrap();
    let plan = plan(directory.path());
    let workload = plan.workload(Mix::Mixed(50), 0);
    let closed = plan.measure("mixed", "mixed", &plan.closed(workload.clone())).unwrap();
    assert_eq!((closed.runs.len(), closed.refused()), (2, 0));
    assert!(closed.rate() > 0.0 && closed.latency().count() > 0);
    assert!(closed.published().is_some());

    let rate = 5_000;
    let open = plan.measure("open", "open", &plan.open(workload, rate)).unwrap();
    assert_eq!(open.refused(), 0);
    // Every payment that was to start while measured has its outcome, however late: 2 x 150 ms of batches of 5.
    let recorded = open.latency().count();
    assert!((1490..=1510).contains(&recorded), "{recorded}");
    assert!(open.published().is_none());
    for record in closed.records(5).iter().chain(&open.records(5)) {
        assert_eq!(record.check(), Ok(()));
    }
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0, "networks are removed");
}

/// With a snapshot in every run, and outcomes that count when they are applied, beside the same without either.
#[test]
fn settings_of_a_network_in_use_are_measured_beside_those_without() {
    let directory = tempfile::tempdir().unwrap();
    let plan = Plan { duration: Duration::from_millis(500), ..plan(directory.path()) };
    let bare = plan.closed(plan.workload(Mix::Inside, 0));
    let in_use = plan.in_use(bare.clone());
    assert_eq!((in_use.workload.validity, in_use.snapshots), (DAY, Some(Duration::from_millis(400))));
    let longer = plan.in_use(Run { duration: Duration::from_secs(600), ..bare.clone() });
    assert_eq!(longer.snapshots, Some(Duration::from_secs(60)));
    let pair = [Outcome::begin("in-use", "in use", &in_use), Outcome::begin("bare", "bare", &bare)];
    let [in_use, bare] = plan.measure_pair(pair).unwrap();
    for outcome in [&in_use, &bare] {
        assert_eq!((outcome.runs.len(), outcome.refused()), (2, 0));
        assert!(outcome.rate() > 0.0 && outcome.latency().count() > 0);
    }
    assert!(in_use.is_in_use() && !bare.is_in_use());
    assert_eq!((in_use.bar(), bare.bar()), (Some(Bar::Rate(1.5e6)), Some(Bar::Rate(1e6))));
    let settings = in_use.records(1)[0].settings.clone();
    assert_eq!((&settings["counted"], &settings["validity_s"]), (&"applied".into(), &86_400.0.into()));
    let text = crate::report::throughput(&[in_use]).text(false);
    assert!(text.contains("remembered for 24 h") && text.contains("Left out"), "{text}");
}

#[test]
fn signed_payments_are_measured_against_verification() {
    let directory = tempfile::tempdir().unwrap();
    let plan = Plan { runs: 1, ..plan(directory.path()) };
    let mut run = plan.closed(plan.workload(Mix::Inside, plan.payers));
    run.prepared = 50_000;
    let measured = plan.measure("signed", "signed", &run).unwrap();
    assert!(measured.rate() > 0.0);
    assert_eq!((measured.refused(), measured.published()), (0, None));
}

#[test]
fn a_journal_is_read_back_in_every_way() {
    let directory = tempfile::tempdir().unwrap();
    let plan = plan(directory.path());
    let mut run = plan.closed(plan.workload(Mix::Between, plan.payers));
    run.prepared = 20_000;
    let read = plan.recovery(&run, 2).unwrap();
    let readers: Vec<_> = read.iter().map(|one| one.reader).collect();
    assert_eq!(readers, [Reader::Recovery, Reader::Audit, Reader::FullAudit]);
    for one in &read {
        assert!(one.rates.len() == 2 && one.rate() > 0.0 && one.transactions > 0, "{one:?}");
        assert_eq!(one.transactions, read[0].transactions);
        assert_eq!(one.record(&run.workload, &[]).check(), Ok(()));
    }
}

#[test]
fn memory_is_that_of_the_accounts() {
    let directory = tempfile::tempdir().unwrap();
    let memory = plan(directory.path()).memory(10_001).unwrap();
    assert_eq!(memory.accounts, 10_002);
    assert!(memory.idle_bytes > 0 && memory.loaded_bytes > 0 && memory.rate > 0.0, "{memory:?}");
}

#[test]
fn the_ceiling_is_the_lower_of_processor_and_disk() {
    let limit = |name: &str, value: f64| Limit {
        name: name.into(),
        value,
        unit: "1/s",
        better: Better::Higher,
        cores: 1,
        samples: vec![value],
        processor_share: None,
    };
    let mut limits = vec![
        limit("blake3-64-many", 1e8),
        limit("update-prefetched", 1e8),
        limit("memcpy", 1e10),
        limit("write-4m", 112e6),
    ];
    let disk = ceilings(Mix::Inside, &limits, 2);
    assert_eq!((disk[0].name.as_str(), disk[0].rate, disk.len()), ("write-4m, 112 B each", 1e6, 2));
    limits[3].value = 1e12;
    let compute = ceilings(Mix::Inside, &limits, 2);
    assert!(compute[0].name.ends_with("on 2 cores") && compute[0].rate > 1e6, "{compute:?}");
    assert_eq!(ceilings(Mix::Inside, &limits[1..], 2).len(), 1);
}
