//! What a certificate gives access to, topic by topic, and what is said to who has the wrong one, or the wrong key.

use super::{BANKS, Institution, Network, OWN, certificates, client, handed_over, records, topics};
use crate::network::{eventually, tally};
use crate::said::Said;
use rdkafka::admin::{
    AdminClient, AdminOptions, AlterConfig, NewPartitions, NewTopic, ResourceSpecifier, TopicReplication,
};
use rdkafka::client::{ClientContext, DefaultClientContext};
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::message::{DeliveryResult, Message};
use rdkafka::producer::{BaseProducer, BaseRecord, NoCustomPartitioner, Producer, ProducerContext};
use rdkafka::types::RDKafkaErrorCode as Code;
use rdkafka::{Offset, TopicPartitionList};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::Duration;
use tally_ledger::ParticipantId;
use tally_log::LogError;
use tally_log::kafka::access::{Grant, Name};
use tally_log::kafka::broker::Authority;
use tally_log::kafka::{KafkaCluster, KafkaOptions};
use tally_settlement::process::layout::Access;
use tally_settlement::process::{Layout, Role};

/// How long brokers may take to answer.
const ANSWER: Duration = Duration::from_secs(30);

#[test]
fn a_certificate_gives_access_to_its_own_topics_and_to_nothing_else() {
    let (network, _, institutions) = handed_over();
    let layout = topics(&network);
    for (institution, own) in institutions.iter().zip(layout.everybody().skip(1)) {
        let options = &institution.options;
        let Access { reads, writes, releases, writers, groups } = layout.access(own);
        let [writes, releases, writers, groups] =
            [writes, releases, writers, groups].map(|names| names.into_iter().collect::<BTreeSet<_>>());
        let reads: BTreeSet<_> = reads.into_iter().chain(writes.iter().cloned()).collect();

        assert_eq!(known(options), reads, "{}: the topics that it is told of", institution.bic);
        for plan in layout.topics() {
            let read = records(options, &plan.name, plan.partitions).map(drop);
            expect(&plan.name, read, reads.contains(&plan.name), Code::TopicAuthorizationFailed);
        }
        let names: Vec<_> = layout.topics().into_iter().map(|plan| plan.name).collect();
        for (topic, written) in written(options, &names) {
            expect(&topic, written, writes.contains(&topic), Code::TopicAuthorizationFailed);
        }
        for writer in all_writers(&layout) {
            let begun = writes_as(options, &writer);
            expect(&writer, begun, writers.contains(&writer), Code::TransactionalIdAuthorizationFailed);
        }
        for group in all_groups(&layout) {
            let joined = joins(options, &group, &layout.access(own).reads[0]);
            expect(&group, joined, groups.contains(&group), Code::GroupAuthorizationFailed);
        }
        for topic in &names {
            let released = administer(options, topic, Deed::Release);
            // Of a topic that it is not told of, a client does not know whom to ask.
            let shut = if reads.contains(topic) { Code::TopicAuthorizationFailed } else { Code::NoEnt };
            expect(topic, released, releases.contains(topic), shut);
            expect(topic, administer(options, topic, Deed::Widen), false, Code::TopicAuthorizationFailed);
            // The client does not pass on what brokers say to a change of settings: the topics stay as planned, below.
            let _ = administer(options, topic, Deed::Alter);
            // For Kafka who may release a topic's records may delete it: that no topic can be is a setting of the brokers,
            // and they say so in the words of the client's version.
            expect(topic, administer(options, topic, Deed::Delete), false, Code::InvalidRequest);
        }
        for new in [format!("{}.mine", layout.prefix), format!("{}.approvals.NEWBDEFF", layout.prefix)] {
            expect(&new, administer(options, &new, Deed::Make), false, Code::TopicAuthorizationFailed);
        }
        let cluster = KafkaCluster::new(options.clone()).unwrap();
        let more = Grant::read("User:alpha", Name::StartsWith(layout.prefix.clone()));
        let refused = cluster.allow(&[more]);
        assert!(
            matches!(&refused, Err(LogError::Cluster { reason, .. }) if reason.contains("needs ALTER permission")),
            "{refused:?}"
        );
    }
    // Nothing of all that changed a topic.
    network.command(&["network", "apply", "--check", network.layout().root().to_str().unwrap()]).well();
}

#[track_caller]
fn expect(what: &str, found: Result<(), Code>, given: bool, refusal: Code) {
    assert_eq!(found, if given { Ok(()) } else { Err(refusal) }, "{what}");
}

/// The topics that the brokers tell a client of.
fn known(options: &KafkaOptions) -> BTreeSet<String> {
    let consumer: BaseConsumer = client(options).create().unwrap();
    let metadata = consumer.fetch_metadata(None, ANSWER).unwrap();
    metadata.topics().iter().map(|topic| topic.name().to_owned()).collect()
}

/// Every name under which a shard writes.
fn all_writers(layout: &Layout) -> Vec<String> {
    let count = |role| match role {
        Role::Gateway => layout.gateways,
        Role::Scheduler => layout.schedulers,
        Role::Assembler => layout.assemblers,
        Role::Sequencer => 1,
        Role::Approver | Role::Updater => u16::try_from(layout.participants.len()).unwrap(),
    };
    Role::ALL
        .into_iter()
        .flat_map(|role| (0..count(role)).map(move |shard| layout.writer(role, shard)))
        .collect()
}

/// Every group: the stages', and those of one participant's processes alone.
fn all_groups(layout: &Layout) -> BTreeSet<String> {
    let mut groups: BTreeSet<_> = Role::ALL.into_iter().map(|role| layout.group(role, &[])).collect();
    for role in [Role::Approver, Role::Updater] {
        groups.extend(layout.everybody().map(|own: ParticipantId| layout.group(role, &[own])));
    }
    groups
}

/// Collects what became of records.
#[derive(Default)]
struct Delivered(Mutex<BTreeMap<String, Result<(), Code>>>);

impl ClientContext for Delivered {}

impl ProducerContext<NoCustomPartitioner> for Delivered {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
        let (topic, result) = match result {
            Ok(message) => (message.topic(), Ok(())),
            Err((error, message)) => (message.topic(), Err(code(error))),
        };
        self.0.lock().unwrap().insert(topic.to_owned(), result);
    }
}

/// Writes one record to each topic.
fn written(options: &KafkaOptions, topics: &[String]) -> BTreeMap<String, Result<(), Code>> {
    let producer: BaseProducer<Delivered> =
        client(options).create_with_context(Delivered::default()).unwrap();
    let mut found = BTreeMap::new();
    for topic in topics {
        let record = BaseRecord::<(), [u8]>::to(topic).partition(0).payload(b"not of this network");
        if let Err((error, _)) = producer.send(record) {
            found.insert(topic.clone(), Err(code(&error)));
        }
    }
    producer.flush(ANSWER).unwrap();
    found.extend(producer.context().0.lock().unwrap().clone());
    assert_eq!(found.len(), topics.len(), "{found:?}");
    found
}

/// Takes a writer's place.
fn writes_as(options: &KafkaOptions, writer: &str) -> Result<(), Code> {
    let producer: BaseProducer = client(options).set("transactional.id", writer).create().unwrap();
    match producer.init_transactions(ANSWER) {
        Ok(()) => Ok(()),
        Err(error) => Err(code(&error)),
    }
}

/// Becomes a member of a group.
fn joins(options: &KafkaOptions, group: &str, topic: &str) -> Result<(), Code> {
    let consumer: BaseConsumer = client(options).set("group.id", group).create().unwrap();
    consumer.subscribe(&[topic]).unwrap();
    eventually(format!("an answer to who asks to join {group}"), || {
        match consumer.poll(Duration::from_millis(20)) {
            Some(Err(KafkaError::MessageConsumption(Code::BrokerTransportFailure))) => None,
            Some(Err(error)) => Some(Err(code(&error))),
            _ => (consumer.assignment().unwrap().count() > 0).then_some(Ok(())),
        }
    })
}

fn code(error: &KafkaError) -> Code {
    match error {
        KafkaError::AdminOp(code) => *code,
        error => error.rdkafka_error_code().unwrap_or_else(|| panic!("{error}")),
    }
}

/// What is for administrators, and to let go of records.
#[derive(Clone, Copy, Debug)]
enum Deed {
    Make,
    Widen,
    Alter,
    Delete,
    Release,
}

fn administer(options: &KafkaOptions, topic: &str, deed: Deed) -> Result<(), Code> {
    let admin: AdminClient<DefaultClientContext> = client(options).create().unwrap();
    let limits = AdminOptions::new().request_timeout(Some(ANSWER)).operation_timeout(Some(ANSWER));
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    // One topic is asked for, and one answer comes.
    let one = |mut results: Vec<Result<String, (String, Code)>>| {
        results.remove(0).map(drop).map_err(|(_, code)| code)
    };
    runtime.block_on(async {
        match deed {
            Deed::Make => {
                let new = NewTopic::new(topic, 1, TopicReplication::Fixed(1));
                one(admin.create_topics(&[new], &limits).await.unwrap())
            }
            Deed::Widen => {
                one(admin.create_partitions(&[NewPartitions::new(topic, 9)], &limits).await.unwrap())
            }
            Deed::Delete => one(admin.delete_topics(&[topic], &limits).await.unwrap()),
            Deed::Alter => {
                let alter = AlterConfig::new(ResourceSpecifier::Topic(topic)).set("retention.ms", "1");
                let mut results = admin.alter_configs(&[alter], &limits).await.unwrap();
                results.remove(0).map(drop).map_err(|(_, code)| code)
            }
            Deed::Release => {
                let mut list = TopicPartitionList::new();
                list.add_partition_offset(topic, 0, Offset::Offset(0)).unwrap();
                match admin.delete_records(&list, &limits).await {
                    Ok(done) => done.elements()[0].error().map_err(|error| code(&error)),
                    Err(error) => Err(code(&error)),
                }
            }
        }
    })
}

#[test]
fn a_stage_says_what_is_wrong_with_its_certificate_or_its_key() {
    let (network, _, [alpha, beta]) = handed_over();
    let directory = alpha.directory();
    let tls = |key: &str, file: &Path| format!("kafka.tls.{key}={}", file.display());

    // Certificates: of another authority, of nobody, of another institution, and brokers whose certificate another authority signed.
    let elsewhere = tempfile::tempdir().unwrap();
    let stranger = Authority::new(elsewhere.path()).unwrap().issue("alpha").unwrap().tls;
    let foreign = [tls("certificate", &stranger.certificate), tls("key", &stranger.key)];
    let betas = beta.options.tls.as_ref().unwrap();
    let others = [tls("certificate", &betas.certificate), tls("key", &betas.key)];
    let deceived = [tls("authority", &stranger.authority)];
    let without = tempfile::tempdir().unwrap();
    let nobody = without.path().join("network");
    copy(&directory, &nobody);
    edit(&nobody, |table| drop(table["kafka"].as_table_mut().unwrap().remove("tls")));
    std::thread::scope(|scope| {
        for (what, directory, settings, says) in [
            ("another authority's", &directory, &foreign[..], "certificate"),
            ("none", &nobody, &[], "it names no certificate"),
            ("beta's", &directory, &others, "ALPHDEFF': this process has no access to it"),
            ("brokers of another authority", &directory, &deceived, "certificate verify failed"),
        ] {
            for stage in OWN {
                scope.spawn(move || {
                    let mut command = stage_of(stage, directory);
                    for setting in
                        settings.iter().map(String::as_str).chain(["kafka.request_timeout_ms=4000"])
                    {
                        command.args(["--set", setting]);
                    }
                    let said = refused(command);
                    assert!(said.contains("the topics of ALPHDEFF cannot be reached"), "{what}: {said}");
                    assert!(said.contains("kafka.tls") && said.contains(says), "{what}: {said}");
                });
            }
        }
    });
    let no_file = tls("key", &directory.join("tls/none.key"));
    let mut command = stage_of("updater", &directory);
    command.args(["--set", &no_file]);
    let said = refused(command);
    assert!(said.contains("kafka.tls.key") && said.contains("there is no file"), "{said}");

    // Other stages, and another's.
    for stage in ["scheduler", "assembler", "sequencer", "gateway"] {
        let said = refused(stage_of(stage, &directory));
        assert!(
            said.contains(&format!(
                "ALPHDEFF's own: its approver and its updater run from it, and the {stage}"
            )),
            "{said}"
        );
    }
    for stage in OWN {
        let mut command = stage_of(stage, &directory);
        command.args(["--participant", BANKS[1]]);
        let said = refused(command);
        assert!(said.contains("BETAFRPP's stages run from BETAFRPP's"), "{said}");
    }
    let posing = without.path().join("posing");
    copy(&directory, &posing);
    edit(&posing, |table| drop(table.insert("institution".to_owned(), BANKS[1].into())));
    for stage in OWN {
        let said = refused(stage_of(stage, &posing));
        assert!(said.contains("BETAFRPP.pem is not there"), "{said}");
    }
    let key = |directory: &Path, bic: &str| directory.join(format!("keys/institutions/{bic}.pem"));
    // Not even with a stolen key: the brokers know who it is by its certificate.
    std::fs::copy(key(&beta.directory(), BANKS[1]), key(&posing, BANKS[1])).unwrap();
    std::fs::copy(beta.directory().join("passphrase"), posing.join("passphrase")).unwrap();
    let said = refused(stage_of("updater", &posing));
    assert!(said.contains("BETAFRPP': this process has no access to it"), "{said}");

    // Keys: another's under its name, its own under another passphrase, none.
    let wrong = without.path().join("wrong");
    copy(&directory, &wrong);
    std::fs::copy(key(&beta.directory(), BANKS[1]), key(&wrong, BANKS[0])).unwrap();
    let passphrase = |of: &Institution| of.directory().join("passphrase");
    let with = |directory: &Path, passphrase: &Path| {
        let mut command = stage_of("approver", directory);
        command.arg("--passphrase-file").arg(passphrase);
        refused(command)
    };
    let said = with(&wrong, &passphrase(&beta));
    assert!(said.contains("does not hold ALPHDEFF's key as network.toml has it"), "{said}");
    let said = with(&directory, &passphrase(&beta));
    assert!(said.contains("wrong passphrase for key file"), "{said}");
    std::fs::remove_file(key(&wrong, BANKS[0])).unwrap();
    let said = refused(stage_of("approver", &wrong));
    assert!(said.contains("ALPHDEFF.pem is not there"), "{said}");

    hands_over_or_says_why(&network, &alpha);
}

/// What an institution's directory holds, and when there is none.
fn hands_over_or_says_why(network: &Network, alpha: &Institution) {
    let directory = alpha.directory();
    let holds = [
        "cluster.toml",
        "genesis.toml",
        "keys/institutions/ALPHDEFF.pem",
        "keys/institutions/ALPHDEFF.pub",
        "network.toml",
        "passphrase",
        "tls/ca.crt",
        "tls/tls.crt",
        "tls/tls.key",
    ];
    assert_eq!(files(&directory), holds);
    let cluster = std::fs::read_to_string(directory.join("cluster.toml")).unwrap();
    for others in ["principals", "beta", "BETAFRPP", "administrator", "replicas"] {
        assert!(!cluster.contains(others), "{cluster}");
    }
    // Its own file of public keys asks for as many witnesses as the operator's.
    let keys = network.command(&["network", "keys", directory.to_str().unwrap()]).well();
    assert!(keys.contains("\nwitnesses = 1\n"), "{keys}");
    let operators = std::fs::read_to_string(network.layout().passphrase()).unwrap();
    assert_ne!(std::fs::read_to_string(directory.join("passphrase")).unwrap(), operators);

    // The institution that made its own key and gets its certificate elsewhere.
    let out = alpha.home.path().join("without");
    let said = alpha.hand_over(network, &out, &["--without-key"]).well();
    assert!(said.contains("puts its key into") && said.contains("puts its certificate"), "{said}");
    assert_eq!(files(&out), ["cluster.toml", "genesis.toml", "network.toml"]);

    let root = network.layout().root().to_owned();
    let none = alpha.home.path().join("none");
    let ask = |from: &Path, bic: &str, out: &Path, more: &[&str]| {
        let mut command = tally();
        command.args(["network", "hand-over", "--institution", bic]).args([from, out]).args(more);
        refused(command)
    };
    for (said, why) in [
        // The operator has given its copy of the key away.
        (ask(&root, BANKS[0], &none, &[]), "ALPHDEFF.pem is not there"),
        (ask(&root, "NEWBDEFF", &none, &[]), "the network has no such participant"),
        (ask(&root, "TSCBDEFF", &none, &[]), "TSCBDEFF is the operator"),
        (ask(&directory, BANKS[0], &none, &[]), "is an institution's own directory"),
        (ask(&root, BANKS[0], &out, &["--without-key"]), "exists already"),
        (ask(&root, BANKS[0], &none, &["--without-key", "--certificates", "/nowhere"]), "/nowhere/ca.crt"),
    ] {
        assert!(said.contains(why), "{said}");
        assert!(!none.exists());
    }
    let mixed = alpha.home.path().join("mixed");
    let mut tls = alpha.options.tls.clone().unwrap();
    tls.key.clone_from(&tls.certificate);
    certificates(&tls, &mixed);
    let said = ask(&root, BANKS[0], &none, &["--without-key", "--certificates", mixed.to_str().unwrap()]);
    assert!(said.contains("tls.key holds no key in PEM form") && !none.exists(), "{said}");
    network.write(&network.brokers.options(), 1, "");
    let said = ask(&root, BANKS[0], &none, &["--without-key"]);
    assert!(said.contains("add `ALPHDEFF = \"User:NAME\"` to its [principals]"), "{said}");
}

fn stage_of(stage: &str, directory: &Path) -> Command {
    let mut command = tally();
    command.args(["stage", stage, "--network"]).arg(directory);
    command
}

/// What a command says that fails by itself.
#[track_caller]
fn refused(mut command: Command) -> String {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // A stage that runs does not end: it is ended, and the test fails below.
    let began = std::time::Instant::now();
    while child.try_wait().unwrap().is_none() && began.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(10));
    }
    let _ = child.kill();
    let said = Said::from(child.wait_with_output().unwrap());
    assert_eq!(said.code, Some(2), "{said:?}");
    said.err
}

/// Every file below a directory, by its path in it.
fn files(directory: &Path) -> Vec<String> {
    let (mut found, mut left) = (Vec::new(), vec![directory.to_owned()]);
    while let Some(next) = left.pop() {
        for entry in std::fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                left.push(path);
            } else {
                found.push(path.strip_prefix(directory).unwrap().to_str().unwrap().to_owned());
            }
        }
    }
    found.sort();
    found
}

fn copy(from: &Path, to: &Path) {
    for file in files(from) {
        std::fs::create_dir_all(to.join(&file).parent().unwrap()).unwrap();
        std::fs::copy(from.join(&file), to.join(&file)).unwrap();
    }
}

/// Changes a directory's cluster.toml.
fn edit(directory: &Path, change: impl FnOnce(&mut toml::Table)) {
    let path = directory.join("cluster.toml");
    let mut table: toml::Table = std::fs::read_to_string(&path).unwrap().parse().unwrap();
    change(&mut table);
    std::fs::write(&path, toml::to_string(&table).unwrap()).unwrap();
}
