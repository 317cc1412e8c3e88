//! Two institutions run their own approver and updater, each from a directory of its own, on brokers that ask for
//! certificates: payments settle, and each is shown what concerns it and nothing else.

mod access;

use super::network::{Network, Process, eventually, tally};
use super::payments::{BANKS, CUSTOMERS, Random, Sent, World, batch, plan};
use super::said::Said;
use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::message::Message as _;
use rdkafka::types::RDKafkaErrorCode as Code;
use rdkafka::{Offset, TopicPartitionList};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};
use tally::client::Client;
use tally::configuration::Configuration;
use tally::stages::ClusterConfiguration;
use tally_gateway::wire::Status;
use tally_ledger::{AccountRole, ParticipantId};
use tally_log::kafka::broker::Setup;
use tally_log::kafka::{KafkaOptions, Tls};
use tally_proof::Keys;
use tally_settlement::message::{Message as _, ProposalBatch};
use tally_settlement::process::Layout;
use tempfile::TempDir;

/// As whom the brokers know the institutions of [`BANKS`].
const NAMES: [&str; 2] = ["alpha", "beta"];
/// The stages that an institution runs.
const OWN: [&str; 2] = ["approver", "updater"];
/// The operator's.
const OPERATORS: [&str; 6] = ["scheduler", "assembler", "sequencer", "approver", "updater", "gateway"];

/// An institution, with a directory of its own and what it runs from there.
pub(crate) struct Institution {
    // Fields end in this order: processes before the files that they use.
    pub(crate) running: BTreeMap<&'static str, Process>,
    bic: &'static str,
    options: KafkaOptions,
    home: TempDir,
}

impl Institution {
    /// Hands its directory over, with a certificate under that name.
    pub(crate) fn handed_over(network: &Network, bic: &'static str, name: &str) -> Self {
        let home = tempfile::tempdir().unwrap();
        let options = network.brokers.options_for(name).unwrap();
        certificates(options.tls.as_ref().unwrap(), &home.path().join("certificates"));
        let institution = Self { running: BTreeMap::new(), bic, options, home };
        let said = institution.hand_over(network, &institution.directory(), &["--certificates"]).well();
        assert!(said.contains(&format!("whom the brokers know as User:{name}")), "{said}");
        institution
    }

    /// Asks for a directory; the certificates' is the value of the last argument.
    fn hand_over(&self, network: &Network, out: &Path, more: &[&str]) -> Said {
        let mut command = tally();
        command.args(["network", "hand-over", "--institution", self.bic]);
        command.args([network.layout().root(), out]).args(more);
        if more.ends_with(&["--certificates"]) {
            command.arg(self.home.path().join("certificates"));
        }
        command.output().unwrap().into()
    }

    pub(crate) fn directory(&self) -> PathBuf {
        self.home.path().join("network")
    }

    pub(crate) fn start(&mut self, stage: &'static str) {
        let log = self.home.path().join(format!("{stage}.log"));
        let log = std::fs::OpenOptions::new().create(true).append(true).open(log).unwrap();
        let mut command = tally();
        command.args(["--log", "info", "stage", stage, "--network"]).arg(self.directory());
        let process = Process::spawn(command, &format!("{}'s {stage}", self.bic), log);
        assert!(self.running.insert(stage, process).is_none());
    }

    /// SIGKILL, at once.
    pub(crate) fn kill(&mut self, stage: &str) {
        drop(self.running.remove(stage).unwrap());
    }

    pub(crate) fn until_ready(&self) {
        for (stage, process) in &self.running {
            let what = format!("{}'s {stage} is ready", self.bic);
            eventually(&what, || process.is_ready().then_some(()));
        }
    }
}

/// Writes a certificate's files as a secret has them.
fn certificates(tls: &Tls, to: &Path) {
    std::fs::create_dir(to).unwrap();
    for (from, name) in [(&tls.authority, "ca.crt"), (&tls.certificate, "tls.crt"), (&tls.key, "tls.key")] {
        std::fs::copy(from, to.join(name)).unwrap();
    }
}

/// A network on brokers that ask for certificates; its customers; and its institutions, who have what is theirs. The operator has
/// none of it any more, nor the customers' keys.
fn handed_over() -> (Network, World, [Institution; 2]) {
    let network = Network::new(&plan(), Setup { secured: true, ..Setup::default() });
    let directory = network.layout();
    let world = World::new(&directory);
    let principals = "[principals]\nALPHDEFF = \"User:alpha\"\nBETAFRPP = \"User:beta\"\n";
    network.write(&network.brokers.options(), 1, principals);
    let said = network.command(&["network", "apply", directory.root().to_str().unwrap()]).well();
    assert!(said.contains("ALPHDEFF, BETAFRPP have access to their own topics"), "{said}");
    let institutions = [0, 1].map(|at| Institution::handed_over(&network, BANKS[at], NAMES[at]));
    for bic in BANKS {
        for kind in ["pem", "pub"] {
            std::fs::remove_file(directory.institution_keys().join(format!("{bic}.{kind}"))).unwrap();
        }
    }
    std::fs::remove_dir_all(directory.customer_keys()).unwrap();
    (network, world, institutions)
}

/// The layout of the network's topics.
pub(crate) fn topics(network: &Network) -> Layout {
    let directory = network.layout();
    let configuration = Configuration::read(&directory, &[]).unwrap();
    ClusterConfiguration::read(&directory, &[]).unwrap().layout(&configuration).unwrap()
}

/// How librdkafka itself is told to reach the brokers: no check of this project stands between.
pub(crate) fn client(options: &KafkaOptions) -> ClientConfig {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", options.brokers.join(","));
    if let Some(Tls { authority, certificate, key }) = &options.tls {
        config.set("security.protocol", "ssl").set("ssl.ca.location", authority.to_str().unwrap());
        config.set("ssl.certificate.location", certificate.to_str().unwrap());
        config.set("ssl.key.location", key.to_str().unwrap());
    }
    config
}

/// Everything that is in a topic, also what never became visible.
pub(crate) fn records(options: &KafkaOptions, topic: &str, partitions: u16) -> Result<Vec<Vec<u8>>, Code> {
    let mut config = client(options);
    config.set("group.id", "unused").set("enable.auto.commit", "false").set("enable.partition.eof", "true");
    config.set("isolation.level", "read_uncommitted").set("auto.offset.reset", "error");
    let consumer: BaseConsumer = config.create().unwrap();
    // Who may read a topic is told of it: who is not told may do nothing with it.
    let metadata = consumer.fetch_metadata(Some(topic), Duration::from_secs(30)).unwrap();
    if let Some(error) = metadata.topics()[0].error() {
        return Err(error.into());
    }
    let mut list = TopicPartitionList::new();
    for partition in 0..i32::from(partitions) {
        list.add_partition_offset(topic, partition, Offset::Beginning).unwrap();
    }
    consumer.assign(&list).unwrap();
    let (mut found, mut read) = (Vec::new(), BTreeSet::new());
    let deadline = Instant::now() + Duration::from_secs(60);
    while read.len() < usize::from(partitions) {
        assert!(Instant::now() < deadline, "{topic} is not read to its end");
        match consumer.poll(Duration::from_millis(100)) {
            Some(Ok(record)) => found.push(record.payload().unwrap_or_default().to_vec()),
            Some(Err(KafkaError::PartitionEOF(partition))) => drop(read.insert(partition)),
            // Of the group nothing is wanted here.
            Some(Err(KafkaError::MessageConsumption(
                Code::BrokerTransportFailure | Code::GroupAuthorizationFailed,
            )))
            | None => {}
            Some(Err(error)) => return Err(error.rdkafka_error_code().unwrap()),
        }
    }
    Ok(found)
}

/// Hands payments in; what was told at once is remembered.
fn send(world: &World, client: &Client, sent: &[Sent]) {
    world.remember(sent);
    let body = client.submit(&batch(sent.iter().map(|sent| &sent.transaction))).unwrap();
    for (sent, outcome) in sent.iter().zip(&body.outcomes) {
        world.acknowledge(&sent.transaction.header.uetr, outcome);
    }
}

/// What became of a payment, if it is decided.
fn outcome(world: &World, client: &Client, sent: &Sent) -> Option<bool> {
    let uetr = sent.transaction.header.uetr;
    world.acknowledge(&uetr, &client.status(&uetr.to_string()).ok().filter(|o| o.status != Status::Pending)?);
    Some(world.sent.lock().unwrap()[&uetr].told?.settled)
}

#[test]
fn institutions_run_their_own_stages_and_see_what_concerns_them() {
    let (mut network, world, mut institutions) = handed_over();
    for stage in OPERATORS {
        network.start(stage, 0);
    }
    for institution in &mut institutions {
        OWN.into_iter().for_each(|stage| institution.start(stage));
        institution.until_ready();
    }
    network.until_ready();
    let (gateway, mut random) = (network.client(), Random(5));
    let (alpha, beta) = (0..CUSTOMERS, CUSTOMERS..2 * CUSTOMERS);
    let mut payment = |from, to, amount| world.payment(&mut random, (from, to), amount, 3_600_000);

    // Payments of each institution alone, by amounts that nothing else has, and between the two.
    let alone =
        [payment(alpha.start, alpha.start + 1, UNIQUE[0]), payment(beta.start, beta.start + 1, UNIQUE[1])];
    let between = [payment(alpha.start, beta.start, 7), payment(beta.start, alpha.start, 11)];
    let first: Vec<_> = alone.iter().chain(&between).cloned().collect();
    send(&world, &gateway, &first);
    for sent in &first {
        let settled = eventually("it is decided", || outcome(&world, &gateway, sent));
        assert!(settled, "of {}", sent.amount);
    }

    // Nobody but the institutions has their keys: what proves their approvals is what they signed at the time.
    let agreed = gateway.network().unwrap().network;
    // An outcome is told when an institution has cosigned the head that has it, and the proof shows the cosignature.
    let keys = Keys { witnesses: 1, ..Keys::of(&agreed).unwrap() };
    for sent in &between {
        let proof = gateway.proof(&sent.transaction.id(&agreed.id).to_string(), &[]).unwrap();
        let proven = proof.verify(&keys).unwrap();
        assert_eq!((proven.uetr, proven.verdict), (sent.transaction.header.uetr, Ok(())));
        let approved = |bic: &str| proven.answers.iter().any(|answer| answer.bic == bic);
        assert!(BANKS.iter().all(|bic| approved(bic)), "{proven:?}");
    }

    // Without its approver an institution's payments wait, or expire; the other's go on.
    institutions[0].kill("approver");
    let waiting = [
        payment(alpha.start, alpha.start + 2, 13),
        payment(alpha.start + 3, beta.start + 3, 17),
        payment(beta.start + 3, alpha.start + 2, 19),
    ];
    let others: Vec<_> = (0..8).map(|at| payment(beta.start + 2, beta.start + 3, 100 + at)).collect();
    let mut expiring = |from, to| world.payment(&mut random, (from, to), 23, 8_000);
    let expires = expiring(beta.start + 1, alpha.start + 2);
    // Nobody but the institution itself is asked about this one: it expires as well, and holds nothing up.
    let expires_inside = expiring(alpha.start + 1, alpha.start + 2);
    let held: Vec<_> = waiting.iter().chain([&expires, &expires_inside]).cloned().collect();
    send(&world, &gateway, &held);
    send(&world, &gateway, &others);
    for sent in &others {
        assert!(
            eventually("the others' payments go on", || outcome(&world, &gateway, sent)),
            "of {}",
            sent.amount
        );
    }
    for sent in [&expires, &expires_inside] {
        assert!(!eventually("it expires", || outcome(&world, &gateway, sent)));
    }
    assert_eq!(outcome(&world, &gateway, &waiting[0]), None, "of {}", waiting[0].amount);
    institutions[0].start("approver");
    for sent in &waiting {
        assert!(eventually("what waited settles", || outcome(&world, &gateway, sent)), "of {}", sent.amount);
    }
    assert_eq!(outcome(&world, &gateway, &expires_inside), Some(false), "what expired stays refused");

    // Each of their processes is killed and started again while payments run.
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let load = scope.spawn(|| world.load(&gateway, Random(6), &stop));
        for institution in &mut institutions {
            for stage in OWN {
                institution.kill(stage);
                institution.start(stage);
                institution.until_ready();
            }
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        load.join().unwrap();
    });
    assert!(world.counts().0 > 50, "payments ran meanwhile");
    let unknown: Vec<_> =
        world.sent.lock().unwrap().values().filter(|sent| sent.told.is_none()).cloned().collect();
    for sent in &unknown {
        eventually("everything is decided", || outcome(&world, &gateway, sent));
    }
    world.compare(&gateway);
    network.audit();
    let (sent, settled) = world.counts();
    println!("{sent} payments, {settled} settled");

    let layout = topics(&network);
    sees_what_concerns_it(&layout, &institutions, &alone);
    for institution in &mut institutions {
        for (stage, process) in std::mem::take(&mut institution.running) {
            assert_eq!(process.stop(), Some(0), "{}'s {stage}", institution.bic);
        }
    }
}

/// Amounts of payments inside each institution, in no other payment and on no account.
const UNIQUE: [i64; 2] = [0x01_3bd7, 0x01_4c95];

/// Whatever an institution may read has nothing of the other's payment, and what it is shown of others' are hashes.
fn sees_what_concerns_it(layout: &Layout, institutions: &[Institution; 2], alone: &[Sent; 2]) {
    let all = layout.topics();
    for (at, institution) in institutions.iter().enumerate() {
        let own = layout.everybody().find(|id| layout.participants[id.index()] == institution.bic).unwrap();
        let access = layout.access(own);
        let mut proposals = Vec::new();
        let mut everything = Vec::new();
        for topic in access.reads.iter().chain(&access.writes) {
            let partitions = all.iter().find(|plan| plan.name == *topic).unwrap().partitions;
            let found = records(&institution.options, topic, partitions).unwrap();
            if topic.contains(".proposals.") {
                proposals.clone_from(&found);
            }
            everything.extend(found);
        }
        let has =
            |what: &[u8]| everything.iter().any(|record| record.windows(what.len()).any(|at| at == what));
        // The same search finds its own.
        for (whose, sent) in alone.iter().enumerate() {
            let uetr = sent.transaction.header.uetr.0;
            let [debit, credit] = [-sent.amount, sent.amount].map(i64::to_le_bytes);
            for (what, bytes) in [("reference", &uetr[..]), ("debit", &debit), ("credit", &credit)] {
                let (who, inside) = (institution.bic, BANKS[whose]);
                assert_eq!(has(bytes), whose == at, "{who}: the {what} of the payment inside {inside}");
            }
        }
        concerns_it(own, &proposals);
    }
}

/// Every leg that a participant is shown is its own, or on its own settlement account.
fn concerns_it(own: ParticipantId, proposals: &[Vec<u8>]) {
    let (mut legs, mut hidden) = (0, 0);
    for record in proposals {
        let batch = ProposalBatch::decode(record).unwrap();
        assert_eq!(batch.participant, own);
        for leg in &batch.legs {
            let settles = matches!(leg.account.role(), AccountRole::Settlement(_, holder) if holder == own);
            assert!(leg.participant == own || settles, "{own:?} is shown {leg:?}");
        }
        legs += batch.legs.len();
        hidden += batch.hidden.len();
    }
    assert!(legs > 0 && hidden > 0, "{legs} legs shown, {hidden} hidden");
}
