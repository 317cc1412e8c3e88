//! Brokers that ask for certificates: each institution sees its own topics only.

use super::shared::bind;
use tally_log::cluster::{Cluster, Partition};
use tally_log::kafka::access::{Grant, Name};
use tally_log::kafka::broker::{Brokers, Setup};
use tally_log::kafka::topics::TopicPlan;
use tally_log::kafka::{KafkaCluster, KafkaOptions};
use tally_log::{Log, LogError, Offset, TopicId, Visibility};

fn options_of(brokers: &Brokers, name: &str) -> KafkaOptions {
    KafkaOptions { prefix: format!("{name}."), ..brokers.options_for(name).unwrap() }
}

#[test]
fn an_institution_reads_and_writes_its_own_topics_only() {
    let brokers = Brokers::start(Setup { secured: true, ..Setup::default() }).unwrap();
    let administrator = KafkaCluster::new(brokers.options()).unwrap();
    administrator.create_topics(&[TopicPlan::new("alpha.in", 1), TopicPlan::new("beta.in", 1)]).unwrap();
    let is = |name: &str| Name::Is(name.to_owned());
    let own = |name: &str| Name::StartsWith(format!("{name}."));
    for name in ["alpha", "beta"] {
        let principal = format!("User:{name}");
        administrator
            .allow(&[
                Grant::write(&principal, is(&format!("{name}.in"))),
                Grant::release(&principal, is(&format!("{name}.in"))),
                Grant::write_as(&principal, own(name)),
                Grant::join(&principal, own(name)),
            ])
            .unwrap();
    }
    let [alpha, beta] = ["alpha", "beta"].map(|name| KafkaCluster::new(options_of(&brokers, name)).unwrap());

    // Each does its own work: it writes, reads, releases and takes part.
    for (cluster, topic) in [(&alpha, "alpha.in"), (&beta, "beta.in")] {
        let log = cluster.open("approver", &[bind(0, topic, 0, true)]).unwrap();
        for offset in 0..4 {
            log.append(TopicId(0), &[topic.as_bytes()]).unwrap();
            log.sync().unwrap();
            let mut out = Vec::new();
            log.read(TopicId(0), Offset(offset), 100, Visibility::Durable, &mut out).unwrap();
            assert_eq!(out[0].payload, topic.as_bytes());
        }
        log.release(TopicId(0), Offset(2)).unwrap();
        assert_eq!(log.first(TopicId(0)), Offset(2));
        let mut member = cluster.join("updaters", &[topic.to_owned()]).unwrap();
        let mut polls = 0..200;
        let assigned = polls.find_map(|_| member.poll(std::time::Duration::from_millis(100)).unwrap());
        assert_eq!(assigned, Some(vec![Partition::new(topic, 0)]));
    }

    // And finds the other's doors shut: to read, to write, to take part, to write under its name, to take its writer's place.
    for (cluster, own, other) in [(&alpha, "alpha.in", "beta.in"), (&beta, "beta.in", "alpha.in")] {
        for refused in [
            cluster.reader(&[bind(0, other, 0, false)]).map(|_| ()),
            cluster.open("approver", &[bind(0, other, 0, true)]).map(|_| ()),
            cluster.open("approver", &[bind(0, own, 0, true), bind(1, other, 0, false)]).map(|_| ()),
        ] {
            let Err(LogError::Topic { topic, what }) = refused else { panic!("{refused:?}") };
            assert!(topic == other && what.contains("no access"), "{topic}: {what}");
        }
    }
    let thief =
        KafkaCluster::new(KafkaOptions { prefix: "beta.".into(), ..options_of(&brokers, "alpha") }).unwrap();
    let refused = thief.open("approver", &[bind(0, "alpha.in", 0, true)]).map(|_| ());
    let Err(LogError::Cluster { reason, .. }) = &refused else { panic!("{refused:?}") };
    assert!(reason.to_lowercase().contains("authoriz"), "{reason}");
    let mut member = thief.join("updaters", &["alpha.in".to_owned()]).unwrap();
    let mut polls = 0..200;
    let refused = polls.find_map(|_| member.poll(std::time::Duration::from_millis(100)).err());
    assert!(
        matches!(&refused, Some(LogError::Cluster { reason, .. }) if reason.to_lowercase().contains("authoriz")),
        "{refused:?}"
    );
    let refused = alpha.allow(&[Grant::read("User:alpha", is("beta.in"))]);
    assert!(matches!(refused, Err(LogError::Cluster { .. })), "{refused:?}");

    // Without a certificate nobody gets in at all.
    let stranger = KafkaOptions { tls: None, request_timeout_ms: 3_000, ..brokers.options() };
    let refused = KafkaCluster::new(stranger).unwrap().reader(&[bind(0, "alpha.in", 0, false)]).map(|_| ());
    assert!(matches!(refused, Err(LogError::Cluster { .. })), "{refused:?}");
}
