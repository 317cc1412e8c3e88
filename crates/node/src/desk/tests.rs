//! What a desk keeps of attachments, in memory and in its database.

use tally_contracts::Scheme;
use tally_flows::{Origin, Outcome, Start};
use tally_store::{Sqlite, SqliteOptions};

use super::*;

struct Nobody;

impl Network for Nobody {
    fn party(&self, _: &Name) -> Option<Party> {
        None
    }

    fn parties(&self) -> Vec<Name> {
        Vec::new()
    }

    fn notaries(&self) -> Vec<NetworkNotary> {
        Vec::new()
    }

    fn name_of(&self, _: &PublicKey) -> Option<Name> {
        None
    }
}

const NOW: Timestamp = Timestamp::from_millis(1_700_000_000_000);

fn desk(directory: &std::path::Path) -> Desk {
    let key = SigningKey::from_secret(Scheme::Ed25519, &[1; 32]).expect("a key");
    let name = Name::new("PartyA", "London", "GB").expect("a name");
    let store = Sqlite::open(&SqliteOptions::new(directory.join("node.db"))).expect("a database");
    let parts = Parts {
        me: Party { name, key: key.public_key() },
        key,
        contracts: Arc::new(Contracts::shipped()),
        store: Arc::new(store),
        network: Arc::new(Nobody),
        clock: Arc::new(|| NOW),
        rates: Arc::new(|_, _| None),
        entropy: [1; 32],
        queue_bytes: 1 << 20,
    };
    Desk::new(parts, Meters::unread())
}

/// A flow whose requests end up in units.
struct Fetches {
    flow: FlowId,
    units: u64,
    writes: Vec<LedgerWrite>,
}

impl Fetches {
    fn new(number: u8) -> Self {
        Self { flow: FlowId([number; 16]), units: 0, writes: Vec::new() }
    }

    fn ask(&mut self, desk: &Desk, request: &Request) -> Response {
        let performed = desk.perform(self.flow, NOW, request).expect("no trouble");
        self.writes.extend(performed.writes);
        performed.response
    }

    fn found(&mut self, desk: &Desk, id: AttachmentId) -> Option<Attachment> {
        match self.ask(desk, &Request::Attachment(id)) {
            Response::Attachment(found) => found,
            other => panic!("{other:?}"),
        }
    }

    /// All that it did becomes durable.
    fn commit(&mut self, desk: &Desk, outcome: Option<Outcome>) {
        let start = (self.units == 0).then(|| Start {
            flow: self.flow,
            name: "Fetches".into(),
            version: 1,
            arguments: Vec::new(),
            origin: Origin::User { name: "test".to_owned() },
            seed: [0; 32],
            at: NOW,
        });
        desk.submit(Unit {
            flow: self.flow,
            number: self.units,
            start,
            arrivals: Vec::new(),
            steps: Vec::new(),
            sends: Vec::new(),
            writes: std::mem::take(&mut self.writes),
            outcome,
            mark: None,
        });
        self.units += 1;
        let mut batch = desk.take_batch().expect("a unit is a batch");
        desk.apply(&batch).expect("the database takes it");
        desk.settle_batch(&mut batch);
    }
}

#[test]
fn an_attachment_is_put_together_out_of_what_is_durable_and_what_is_not() {
    let directory = tempfile::tempdir().expect("a directory");
    let whole = Attachment::new((0..=255_u8).cycle().take(1000).collect::<Vec<_>>()).expect("not too long");
    let id = whole.id();
    let part = |number: u32| {
        let bytes = whole.content().chunks(400).nth(number as usize).expect("a part").into();
        Request::KeepPart(AttachmentPart { attachment: id, number, bytes })
    };
    let (mut flow, mut other) = (Fetches::new(1), Fetches::new(2));
    {
        let desk = desk(directory.path());
        assert_eq!(flow.found(&desk, id), None);
        flow.ask(&desk, &part(0));
        flow.commit(&desk, None);
        let memory = lock(&desk.recent).part(flow.flow, &recent::part_key(id, 0));
        assert!(memory.is_none(), "what is durable is not in memory");
    }
    // The process ends and begins again.
    {
        let desk = desk(directory.path());
        flow.ask(&desk, &part(1));
        let refused = flow.ask(&desk, &Request::Attach { attachment: id, parts: 2 });
        assert!(matches!(refused, Response::Refused(FlowError::Invalid { .. })), "{refused:?}");
        assert_eq!(flow.found(&desk, id), None);
        flow.ask(&desk, &part(2));
        let done = flow.ask(&desk, &Request::Attach { attachment: id, parts: 3 });
        assert!(matches!(done, Response::Done), "{done:?}");
        assert_eq!(flow.found(&desk, id).as_ref(), Some(&whole));
        assert_eq!(other.found(&desk, id), None, "nobody else builds on what is not durable");
        flow.commit(&desk, None);
        assert!(lock(&desk.recent).attachment(flow.flow, &id).is_none(), "what is durable is not in memory");
        assert_eq!(other.found(&desk, id).as_ref(), Some(&whole));
        flow.commit(&desk, Some(Ok(Vec::new())));
        let left = desk.parts.store.dependencies(flow.flow.0, None, 10).expect("an answer");
        assert!(left.is_empty(), "the parts go when the flow ends");
    }
    let desk = desk(directory.path());
    assert_eq!(other.found(&desk, id), Some(whole));
}

#[test]
fn a_part_that_is_gone_is_for_a_person_to_look_at() {
    let directory = tempfile::tempdir().expect("a directory");
    let desk = desk(directory.path());
    let request = Request::Attach { attachment: AttachmentId::of(b"a document"), parts: 1 };
    let trouble = desk.perform(FlowId([1; 16]), NOW, &request);
    assert!(matches!(trouble, Err(Trouble::Lasting(_))), "{trouble:?}");
}
