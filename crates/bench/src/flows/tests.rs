//! Every experiment on nodes inside this process: small, but with all that it does on a large network.

use std::time::Duration;

use super::drive::Load;
use super::network::{Database, Launcher, Layout, NotaryLayout};
use super::outcome::{Ceiling, Outcome};
use super::plan::Plan;
use super::suite::{self, Findings, Observer, Part, Sizes};
use super::*;
use crate::report::flows as report;
use crate::report::page::tests::assert_well_formed;

fn plan(directory: &std::path::Path) -> Plan {
    Plan {
        layout: Layout {
            parties: vec!["PartyA", "PartyB"],
            notary: NotaryLayout::NonValidating,
            flow_threads: 2,
            rpc_threads: 1,
            database: Database::Sqlite,
            directory: directory.to_owned(),
            launcher: Launcher::Inside,
        },
        in_flight: 4,
        connections: 2,
        warm_up: Duration::from_millis(50),
        duration: Duration::from_millis(400),
        outputs: 1,
        cores: None,
        pay_limits: Vec::new(),
    }
}

fn fact(outcome: &Outcome, name: &str) -> f64 {
    let found = outcome.facts.iter().find(|fact| fact.name == name);
    found.unwrap_or_else(|| panic!("{name} in {:?}", outcome.facts)).value
}

#[test]
fn payments_with_a_clustered_notary_are_measured() {
    let home = tempfile::tempdir().unwrap();
    let mut plan = plan(home.path());
    plan.layout.notary = NotaryLayout::Clustered;
    // Six nodes share one disk: where others write to it, no payment ends in a part of a second.
    plan.duration = Duration::from_secs(4);
    let [_, paid] = plan.issue_and_pay().unwrap();
    let load = paid.load.as_ref().unwrap();
    assert!(paid.rate() > 0.0 && load.measured.failed == 0, "{:?}", load.measured.first_failure);
    assert!(paid.settings.contains(&("nodes", 6.into())), "{:?}", paid.settings);
}

#[test]
fn payments_are_measured_from_both_ends() {
    let home = tempfile::tempdir().unwrap();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let limit = Ceiling { name: crate::limits::PAY.into(), rate: 1e6 };
    let plan = Plan { outputs: 1, pay_limits: vec![(cores, limit)], ..plan(home.path()) };
    let [issued, paid] = plan.issue_and_pay().unwrap();
    assert!(issued.rate() > 0.0 && paid.rate() > 0.0 && paid.share().unwrap() > 0.0);
    assert_eq!(issued.share(), None);
    let load = paid.load.as_ref().unwrap();
    assert_eq!((load.run.load, load.measured.failed), (Load::Closed(4), 0));
    assert!(load.measured.latency.count() > 0);
    let took = |node: &str, flow: &str, step: &str| {
        let found = load.steps.iter().find(|s| s.node == node && s.flow == flow && s.step == step);
        found.unwrap_or_else(|| panic!("{step} of {flow} at {node} in {:?}", load.steps)).count
    };
    // Every payment went through each of these once.
    let payments = load.measured.completed_in_all;
    for (node, flow, step) in [
        ("PartyA", "CashPay", "Building"),
        ("PartyA", "CashPay", "Notarising"),
        ("Notary", "Notarise", "Committing"),
        ("PartyB", "Finalise", "Recording"),
    ] {
        assert_eq!(took(node, flow, step), payments, "{step}");
    }
    assert!(load.commits.iter().all(|(_, commits)| commits.batches > 0 && commits.writes > 1.0));
    assert_eq!(load.processes.len(), 1, "nodes inside this process are not told apart");
    let record = paid.record();
    record.check().unwrap();
    assert_eq!(record.settings["in_flight"], 4);
    assert!(record.limit.is_some() && record.metrics.contains_key("step: PartyB / Finalise / Recording"));
    assert!(std::fs::read_dir(home.path()).unwrap().next().is_none(), "networks are removed");
}

#[test]
fn arrivals_at_a_rate_do_not_wait() {
    let home = tempfile::tempdir().unwrap();
    let paid = plan(home.path()).pay_at(10).unwrap();
    let load = paid.load.as_ref().unwrap();
    // Due at 0, 100, 200, 300 and 400 ms; all but the first are measured.
    assert_eq!((load.measured.completed_in_all, load.measured.latency.count()), (5, 4));
    assert_eq!(fact(&paid, "pay_p50"), load.measured.latency.percentiles().p50_us as f64 / 1e6);
    let owed = plan(home.path()).iou_at(20).unwrap();
    assert_eq!(owed.load.as_ref().unwrap().measured.completed_in_all, 9);
    assert_eq!(owed.record().settings["loop"], "open");
}

#[test]
fn flows_that_fail_are_no_result() {
    let home = tempfile::tempdir().unwrap();
    let network = network::Network::start(&plan(home.path()).layout).unwrap();
    let driver = plan::Driver::new().unwrap();
    let clients = driver.clients(&network, 0, 1).unwrap();
    let run = drive::Run {
        load: Load::Closed(2),
        connections: 1,
        warm_up: Duration::ZERO,
        duration: Duration::from_secs(60),
        total: Some(3),
    };
    // There are no coins.
    let error = driver.load(&network, &clients, work::Work::Pay { outputs: 1 }, &run).unwrap_err();
    assert!(matches!(&error, FlowsError::Failed { failed: 3, all: 3, .. }), "{error}");
}

#[test]
fn waiting_flows_outlive_their_node() {
    let home = tempfile::tempdir().unwrap();
    let waited = plan(home.path()).waiting(40).unwrap();
    assert!(fact(&waited, "restart_to_ended") >= fact(&waited, "restart_to_ready"));
    assert!(fact(&waited, "resident_waiting") > 1e6);
    waited.record().check().unwrap();
}

#[test]
fn a_history_is_fetched_by_who_lacks_it() {
    let home = tempfile::tempdir().unwrap();
    let history = plan(home.path()).history(60).unwrap();
    assert_eq!(history.setting("depth").unwrap(), 61);
    assert!(fact(&history, "history") > 0.0 && fact(&history, "history_short") > 0.0);
}

#[test]
fn a_vault_is_filled_and_paged() {
    let home = tempfile::tempdir().unwrap();
    let vault = plan(home.path()).vault(1_050, 3).unwrap();
    assert_eq!(vault.facts.iter().filter(|fact| fact.name.starts_with("page_")).count(), 8);
    assert!(fact(&vault, "page_all") > 0.0);
}

#[test]
fn starts_and_memory_are_measured() {
    let home = tempfile::tempdir().unwrap();
    let started = plan(home.path()).start(2).unwrap();
    assert_eq!(started.facts[0].samples.len(), 2);
    assert_eq!(started.published[0].id, "corda-oss-4.3-start");
    let paid = plan(home.path()).memory(10).unwrap();
    assert_eq!(paid.load.as_ref().unwrap().measured.completed_in_all, 10);
    assert!(fact(&paid, "resident_notary") > 1e6 && fact(&paid, "start_after") > 0.0);
}

#[derive(Default)]
struct Heard {
    begun: Vec<String>,
    ended: usize,
}

impl Observer for Heard {
    fn begins(&mut self, what: &str) {
        self.begun.push(what.to_owned());
    }

    fn ended(&mut self, outcome: &Outcome) -> Result<(), FlowsError> {
        outcome.record().check().unwrap();
        self.ended += 1;
        Ok(())
    }
}

#[test]
fn a_suite_runs_its_parts_and_is_reported() {
    let home = tempfile::tempdir().unwrap();
    let sizes = Sizes {
        warm_up: Duration::from_millis(20),
        duration: Duration::from_millis(150),
        point: Duration::from_millis(150),
        in_flight: vec![1, 4],
        iou_rates: vec![20],
        flow_threads: vec![1],
        rpc_threads: vec![2],
        cores: vec![1, 100_000],
        outputs: vec![3],
        ..Sizes::quick()
    };
    let parts = [
        Part::InFlight,
        Part::Iou,
        Part::Threads,
        Part::Cores,
        Part::Outputs,
        Part::Load,
        Part::Database,
        Part::Memory,
    ];
    let mut heard = Heard::default();
    let findings = suite::run(&plan(home.path()), &sizes, &parts, &mut heard).unwrap();
    let names: Vec<_> = findings.sweeps.iter().map(|sweep| (sweep.name, sweep.points.len())).collect();
    let expected =
        [("iou", 1), ("in-flight", 2), ("outputs", 1), ("cores", 1), ("flow-threads", 1), ("rpc-threads", 1)];
    assert_eq!(names, expected);
    assert_eq!((findings.outcomes.len(), heard.ended), (4, 11));
    assert_eq!(findings.outcomes[3].setting("database").unwrap(), "postgres");
    assert!(heard.begun.iter().any(|what| what == "Pay against payments under way: 4"), "{:?}", heard.begun);
    // The keys of comparable runs differ where something differs.
    let keys: std::collections::BTreeSet<_> =
        findings.sweeps[1].points.iter().map(|(_, one)| one.record().key()).collect();
    assert_eq!(keys.len(), 2);
    shown(&findings);
}

fn shown(findings: &Findings) {
    let text = report::text(findings, false);
    for wanted in [
        "Issue (own node)",
        "of its limit",
        "CashPay",
        "payments under way",
        "quoted by TIS",
        "on PostgreSQL",
    ] {
        assert!(text.contains(wanted), "{wanted} in {text}");
    }
    let html = report::page(findings, vec![("processor".into(), "a <fast> one".into())]).render();
    assert_well_formed(&html);
    assert!(
        html.contains("a &lt;fast&gt; one") && html.contains("<svg") && html.contains("Pay against cores"),
        "{html}"
    );
}

#[test]
fn parts_have_names() {
    for part in Part::ALL {
        assert_eq!(part.name().parse(), Ok(part));
    }
    assert!("loads".parse::<Part>().unwrap_err().contains("in-flight"));
}
