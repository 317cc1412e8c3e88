//! An institution whose approver is hostile: it has the institution's key and certificate, and writes whatever these can
//! write, while the others pay. `TALLY_HOSTILE_S` sets for how many seconds, `TALLY_SEED` which lies, `TALLY_HOSTILE_RATE` how
//! many a second.

mod program;

use super::institutions::{Institution, records, topics};
use super::network::{Network, eventually};
use super::payments::{Random, Sent, World, batch, plan_among, told};
use program::{Attack, Done, ORDERS, Orders};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tally::client::Client;
use tally_gateway::wire::Status;
use tally_log::kafka::broker::Setup;
use tempfile::TempDir;

/// The last is the hostile one.
const AMONG: [&str; 4] = ["ALPHDEFF", "BETAFRPP", "GAMMITMM", "MALLESMM"];
const HOSTILE: &str = "MALLESMM";
const CUSTOMERS: usize = 3;
/// The customers of the others come first.
const OTHERS: usize = (AMONG.len() - 1) * CUSTOMERS;
/// The operator's, who also runs the other institutions' stages.
const OPERATORS: [&str; 6] = ["scheduler", "assembler", "sequencer", "approver", "updater", "gateway"];
/// For how long payments between the others may be decided.
const VALID_MS: u64 = 30_000;
/// The same for payments with the hostile institution: what it does not answer expires while the test runs.
const MEMBERS_VALID_MS: u64 = 12_000;
/// Half of them pay among the others alone.
const CLIENTS: usize = 8;
/// More than anybody has.
const TOO_MUCH: i64 = 10_000_000;

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().map_or(default, |text| text.parse().unwrap())
}

/// The program that the test starts as a process of its own. Nothing without orders.
#[test]
#[ignore = "a program that the test of the hostile approver starts"]
fn program() {
    program::run();
}

/// The hostile approver's process.
struct Hostile {
    child: Child,
    home: TempDir,
}

impl Hostile {
    fn start(member: &Institution, attack: Attack) -> Self {
        let home = tempfile::tempdir().unwrap();
        let orders = Orders {
            directory: member.directory(),
            done: home.path().join("done.json"),
            attack,
            seconds: number("TALLY_HOSTILE_S", 15),
            rate: number("TALLY_HOSTILE_RATE", 120),
            seed: number("TALLY_SEED", 1),
        };
        let file = home.path().join("orders.json");
        std::fs::write(&file, serde_json::to_vec(&orders).unwrap()).unwrap();
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "hostile::program", "--ignored", "--nocapture"]).env(ORDERS, file);
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
        Self { child, home }
    }

    /// Waits for its end; what it did.
    fn end(mut self) -> Done {
        let ended = self.child.wait().unwrap();
        assert!(ended.success(), "the hostile approver failed itself: {ended}");
        serde_json::from_slice(&std::fs::read(self.home.path().join("done.json")).unwrap()).unwrap()
    }
}

impl Drop for Hostile {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// When a payment was handed in.
const PHASES: [&str; 3] = ["before the attack", "during the attack", "after the attack"];

/// Customers who pay all the time.
struct Payments {
    world: World,
    gateways: Vec<Client>,
    phase: AtomicUsize,
    stop: AtomicBool,
    /// How long outcomes of payments between the others took, by phase.
    took: [Mutex<Vec<Duration>>; PHASES.len()],
    answered: AtomicU64,
}

impl Payments {
    fn new(network: &Network) -> Self {
        Self {
            world: World::among(&network.layout(), &AMONG, CUSTOMERS, 1),
            gateways: network.clients(),
            phase: AtomicUsize::new(0),
            stop: AtomicBool::new(false),
            took: [const { Mutex::new(Vec::new()) }; PHASES.len()],
            answered: AtomicU64::new(0),
        }
    }

    fn gateway(&self, random: &mut Random) -> &Client {
        &self.gateways[random.below(self.gateways.len() as u64) as usize]
    }

    /// A payment between two customers of institutions other than the hostile one.
    fn between_others(&self, random: &mut Random) -> Sent {
        let from = random.below(OTHERS as u64) as usize;
        let to = (from + 1 + random.below(OTHERS as u64 - 1) as usize) % OTHERS;
        let amount = if random.below(10) == 0 { TOO_MUCH } else { 1 + random.below(20) as i64 };
        self.world.payment(random, (from, to), amount, VALID_MS)
    }

    /// A payment to or from a customer of the hostile institution.
    fn with_member(&self, random: &mut Random, valid_ms: u64) -> Sent {
        let other = random.below(OTHERS as u64) as usize;
        let own = OTHERS + random.below(CUSTOMERS as u64) as usize;
        let ends = if random.below(2) == 0 { (other, own) } else { (own, other) };
        let amount = 1 + random.below(20) as i64;
        self.world.payment(random, ends, amount, valid_ms)
    }

    /// Hands payments in; those without an outcome yet.
    fn submit(&self, random: &mut Random, sent: Vec<Sent>) -> Vec<Sent> {
        let Ok(body) = self.gateway(random).submit(&batch(sent.iter().map(|sent| &sent.transaction))) else {
            return sent;
        };
        let mut left = Vec::new();
        for (sent, outcome) in sent.into_iter().zip(&body.outcomes) {
            self.world.acknowledge(&sent.transaction.header.uetr, outcome);
            if told(outcome).is_none() {
                left.push(sent);
            }
        }
        left
    }

    /// Hands payments between others in until each has its outcome.
    fn until_told(&self, random: &mut Random, mut left: Vec<Sent>, began: Instant, phase: usize) {
        let count = left.len();
        while !left.is_empty() {
            assert!(began.elapsed() < Duration::from_millis(2 * VALID_MS), "no outcome of {}", left.len());
            left = self.submit(random, left);
        }
        let took = began.elapsed();
        self.took[phase].lock().unwrap().extend((0..count).map(|_| took));
        self.answered.fetch_add(count as u64, Ordering::Relaxed);
    }

    /// Others pay each other.
    fn others_pay(&self, mut random: Random) {
        while !self.stop.load(Ordering::Relaxed) {
            let sent: Vec<_> = (0..=random.below(4)).map(|_| self.between_others(&mut random)).collect();
            self.world.remember(&sent);
            let phase = self.phase.load(Ordering::Relaxed);
            self.until_told(&mut random, sent, Instant::now(), phase);
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Others pay the hostile institution and are paid by it, and pay each other in the same batches.
    fn member_pays(&self, mut random: Random) {
        while !self.stop.load(Ordering::Relaxed) {
            let between: Vec<_> = (0..2).map(|_| self.between_others(&mut random)).collect();
            let with: Vec<_> =
                (0..=random.below(3)).map(|_| self.with_member(&mut random, MEMBERS_VALID_MS)).collect();
            self.world.remember(&between);
            self.world.remember(&with);
            let (began, phase) = (Instant::now(), self.phase.load(Ordering::Relaxed));
            // All outcomes of one request come together, after three seconds at most. Those between the others are asked
            // for beside it, by handing them in again.
            std::thread::scope(|scope| {
                let all = between.iter().chain(&with).cloned().collect();
                let mut other = Random(random.next());
                scope.spawn(move || self.submit(&mut other, all));
                std::thread::sleep(Duration::from_millis(30));
                self.until_told(&mut random, between, began, phase);
            });
        }
    }

    /// What became of a payment, as far as was told.
    fn outcome(&self, sent: &Sent) -> Option<bool> {
        Some(self.world.sent.lock().unwrap()[&sent.transaction.header.uetr].told?.settled)
    }

    /// Finds out what became of payments of which nothing was told. Those that a gateway refused or did not take in time were
    /// never accepted, and are none.
    #[track_caller]
    fn until_everything_is_decided(&self, random: &mut Random) {
        let all: Vec<_> = self.world.sent.lock().unwrap().values().cloned().collect();
        for sent in all.iter().filter(|sent| sent.told.is_none()) {
            let uetr = sent.transaction.header.uetr;
            eventually(format!("{uetr} from {} to {} is decided", sent.from, sent.to), || {
                let body = self.gateway(random).submit(&batch([&sent.transaction].into_iter())).ok()?;
                let outcome = &body.outcomes[0];
                if outcome.status == Status::Refused && outcome.sequence.is_none() {
                    self.world.sent.lock().unwrap().remove(&uetr);
                    return Some(());
                }
                self.world.acknowledge(&uetr, outcome);
                told(outcome).map(drop)
            });
        }
    }

    #[track_caller]
    fn goes_on(&self, payments: u64, after: &str) {
        let enough = self.answered.load(Ordering::Relaxed) + payments;
        eventually(format!("the others' payments go on after: {after}"), || {
            (self.answered.load(Ordering::Relaxed) >= enough).then_some(())
        });
    }

    /// That each payment between the others had the outcome that its amount asks for, in time.
    fn check(&self) {
        let sent = self.world.sent.lock().unwrap();
        for sent in sent.values().filter(|sent| sent.from < OTHERS && sent.to < OTHERS) {
            let settled = sent.told.map(|told| told.settled);
            let (from, to, amount) = (sent.from, sent.to, sent.amount);
            assert_eq!(settled, Some(amount != TOO_MUCH), "{amount} from {from} to {to}");
        }
        for (phase, took) in PHASES.iter().zip(&self.took) {
            let mut took = took.lock().unwrap().clone();
            took.sort();
            let (Some(last), at) = (took.last(), |of: usize| took[took.len() * of / 100]) else { continue };
            println!(
                "{phase}: {} payments between others, p50 {:?}, p99 {:?}, longest {last:?}",
                took.len(),
                at(50),
                at(99)
            );
            assert!(*last < Duration::from_millis(VALID_MS), "{phase}: {last:?}");
        }
    }
}

/// What the dead letters say, by fault: topic, partition and offset of each record.
fn letters(network: &Network) -> BTreeMap<String, Vec<(String, u64, u64)>> {
    let layout = topics(network);
    let name = format!("{}.dead-letters", layout.prefix);
    let partitions = layout.topics().iter().find(|plan| plan.name == name).unwrap().partitions;
    let mut found: BTreeMap<String, Vec<_>> = BTreeMap::new();
    for record in records(&network.brokers.options(), &name, partitions).unwrap() {
        let begin = record.iter().position(|byte| *byte == b'{').unwrap();
        let mut text = serde_json::Deserializer::from_slice(&record[begin..]).into_iter::<Value>();
        let letter = text.next().unwrap().unwrap();
        let place = (
            letter["topic"].as_str().unwrap().to_owned(),
            letter["partition"].as_u64().unwrap(),
            letter["offset"].as_u64().unwrap(),
        );
        found.entry(letter["fault"].as_str().unwrap().to_owned()).or_default().push(place);
    }
    found
}

/// What the audit says was set aside: by the topic's kind and fault, how many records. All of it is the hostile member's.
fn audited(network: &Network) -> BTreeMap<(String, String), u64> {
    let directory = network.layout().root().to_str().unwrap().to_owned();
    let said = network.command(&["audit", "--log", "kafka", "--json", &directory]).well();
    let audit: Value = serde_json::from_str(&said).unwrap();
    assert_eq!(audit["ledger"]["in_order"], true, "{audit}");
    let mut found: BTreeMap<_, u64> = BTreeMap::new();
    for row in audit["set_aside"].as_array().unwrap() {
        assert_eq!(row["member"], HOSTILE, "{row}");
        let topic = row["topic"].as_str().unwrap();
        let (kind, of) = topic.rsplit_once('.').unwrap();
        assert_eq!(of, HOSTILE, "{row}");
        assert!(row["first_offset"].is_u64() && row["partition"].is_u64(), "{row}");
        let kind = kind.rsplit('.').next().unwrap().to_owned();
        let fault = row["fault"].as_str().unwrap().to_owned();
        *found.entry((kind, fault)).or_default() += row["records"].as_u64().unwrap();
    }
    found
}

#[test]
fn a_hostile_approver_harms_nobody_but_its_own_institution() {
    let mut network =
        Network::new(&plan_among(&AMONG, CUSTOMERS), Setup { secured: true, fast: true, ..Setup::default() });
    let principals = format!("[principals]\n{HOSTILE} = \"User:mallory\"\n");
    network.write(&network.brokers.options(), 1, &principals);
    network.command(&["network", "apply", network.layout().root().to_str().unwrap()]).well();
    let mut member = Institution::handed_over(&network, HOSTILE, "mallory");
    for stage in OPERATORS {
        network.start(stage, 0);
    }
    network.start("gateway", 1);
    member.start("approver");
    member.start("updater");
    network.until_ready();
    member.until_ready();

    let payments = Arc::new(Payments::new(&network));
    let mut random = Random(number("TALLY_SEED", 1));
    let mut threads = Vec::new();
    for at in 0..CLIENTS {
        let (payments, random) = (Arc::clone(&payments), Random(random.next()));
        let pay =
            move || if at % 2 == 0 { payments.others_pay(random) } else { payments.member_pays(random) };
        threads.push(std::thread::spawn(pay));
    }
    payments.goes_on(100, "the start");
    let logs = network.logs();

    // The hostile program takes the place of the institution's stages.
    member.kill("approver");
    member.kill("updater");
    payments.phase.store(1, Ordering::Relaxed);
    let done = Hostile::start(&member, Attack::Lies).end();
    payments.phase.store(2, Ordering::Relaxed);
    payments.goes_on(100, "the attack");
    network.all_run_since(&logs);

    // Its honest stages start on the same topics, and its payments go on. Nobody else is started again.
    let began = Instant::now();
    member.start("approver");
    member.start("updater");
    member.until_ready();
    let ready = began.elapsed();
    eventually("the institution's payments go on", || {
        let sent: Vec<_> = (0..8).map(|_| payments.with_member(&mut random, MEMBERS_VALID_MS)).collect();
        payments.world.remember(&sent);
        let mut left = sent.clone();
        while !left.is_empty() {
            left = payments.submit(&mut random, left);
        }
        sent.iter().all(|sent| payments.outcome(sent) == Some(true)).then_some(())
    });
    println!("its stages are ready after {ready:?}, all its payments are made after {:?}", began.elapsed());
    let made: Vec<_> = (0..20).map(|_| payments.with_member(&mut random, VALID_MS)).collect();
    payments.world.remember(&made);
    payments.until_told(&mut random, made.clone(), Instant::now(), 2);
    assert!(made.iter().all(|sent| payments.outcome(sent) == Some(true)), "the institution is whole again");

    payments.stop.store(true, Ordering::Relaxed);
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    payments.until_everything_is_decided(&mut random);
    payments.check();
    payments.world.compare(&network.client());
    network.all_run_since(&logs);
    for (stage, process) in &mut member.running {
        assert!(process.runs() && process.metric("tally_stage_failed_shards") == Some(0.0), "{stage}");
    }

    // Every kind of false record is set aside, with its place, and nothing of anybody else.
    let found = letters(&network);
    let approvals = format!("{}.approvals.{HOSTILE}", topics(&network).prefix);
    for (fault, places) in &found {
        assert!(places.iter().all(|(topic, ..)| *topic == approvals), "{fault}");
        let once: BTreeSet<_> = places.iter().collect();
        assert_eq!(once.len(), places.len(), "{fault}: each record is set aside once");
    }
    let faults = [
        "anothers_name",
        "contradiction",
        "foreign",
        "not_asked",
        "unknown_batch",
        "unreadable",
        "wrong_length",
        "wrong_signature",
    ];
    assert_eq!(found.keys().map(String::as_str).collect::<Vec<_>>(), faults);
    let total: usize = found.values().map(Vec::len).sum();
    let metric = network.process("assembler", 0).metric("tally_stage_dead_letters_total");
    assert_eq!(metric, Some(total as f64), "the metric counts the same");
    assert!(network.logs()["assembler 0"].contains("a record was set aside"));

    // The audit passes, and names what the member did.
    let text = network.audit();
    println!("{text}");
    let audit = audited(&network);
    let mut expected: BTreeMap<_, _> = found
        .iter()
        .map(|(fault, places)| (("approvals".to_owned(), fault.clone()), places.len() as u64))
        .collect();
    let cosigned = |kinds: &[&str]| kinds.iter().map(|kind| done.records[*kind]).sum::<u64>();
    for (fault, records) in [
        ("not_the_operators", cosigned(&["cosigns a wrong root", "cosigns a future size"])),
        ("anothers_name", cosigned(&["cosigns in another's name"])),
        ("wrong_signature", cosigned(&["cosigns with another key"])),
    ] {
        expected.insert(("cosignatures".to_owned(), fault.to_owned()), records);
    }
    let noise = ("cosignatures".to_owned(), "unreadable".to_owned());
    expected.insert(noise.clone(), audit[&noise]);
    assert_eq!(audit, expected);
    assert!(text.contains(HOSTILE) && text.contains("unknown_batch"), "{text}");

    let (sent, settled) = payments.world.counts();
    println!(
        "{sent} payments, {settled} settled; it approved {}, refused {}, withheld {}",
        done.approved, done.refused, done.withheld
    );
    println!("it wrote {} bytes: {:?}", done.bytes, done.records);
    println!(
        "set aside: {:?}",
        found.iter().map(|(fault, places)| (fault, places.len())).collect::<Vec<_>>()
    );

    breaks_the_count(network, member, &payments, &mut random);
}

/// A record with another number than the next makes the rest of its partition unreadable: that institution stands still,
/// and nobody else, also when the stages that read it start again.
fn breaks_the_count(mut network: Network, mut member: Institution, payments: &Payments, random: &mut Random) {
    member.kill("approver");
    member.kill("updater");
    let logs = network.logs();
    Hostile::start(&member, Attack::BreaksTheCount).end();
    let mut others_pay = |what: &str| {
        let sent: Vec<_> = (0..20).map(|_| payments.between_others(random)).collect();
        payments.world.remember(&sent);
        eventually(what, || {
            let left = sent.iter().filter(|sent| payments.outcome(sent).is_none()).cloned().collect();
            payments.submit(random, left).is_empty().then_some(())
        });
        for sent in &sent {
            assert_eq!(payments.outcome(sent), Some(sent.amount != TOO_MUCH), "{what}");
        }
    };
    others_pay("while a member's partitions cannot be read");
    network.all_run_since(&logs);
    network.kill("assembler", 0);
    network.start("assembler", 0);
    others_pay("with an assembler that starts before such partitions");
    network.until_ready();
    let audit = audited(&network);
    for topic in ["approvals", "cosignatures"] {
        assert!(audit.contains_key(&(topic.to_owned(), "out_of_order".to_owned())), "{topic}: {audit:?}");
    }
    // A gateway that starts before such partitions asks the other witnesses how far the log is cosigned.
    network.kill("gateway", 1);
    network.start("gateway", 1);
    network.until_ready();
    let opened = eventually("a gateway opens beside such partitions", || {
        let client = network.clients().pop()?;
        client.network().is_ok().then_some(client)
    });
    payments.world.compare(&opened);
}
