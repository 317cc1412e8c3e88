//! What a desk keeps of attachments, of states that are lost and of consents, in memory and in its database.

use tally_contracts::bond::Terms;
use tally_contracts::cash::{CashState, asset};
use tally_contracts::{State, StateRef};
use tally_flows::{Origin, Outcome, Purchase, Start};
use tally_protocols::consent::PurchaseRule;
use tally_store::{Aside, Produced, Recorded, Write};

use super::*;
use crate::testing::{NETWORK, NOW, Nobody, parts};

fn desk(directory: &std::path::Path) -> Desk {
    Desk::new(parts(directory, Arc::new(Nobody)), Meters::unread())
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

/// A coin of this node that is in its vault, held by the flow if it asks for it.
fn coin(desk: &Desk, holder: Option<FlowId>) -> StateRef {
    let me = &desk.parts.me;
    let amount = "1.00 USD".parse().expect("an amount");
    let state = State::new(&CashState { amount, issuer: me.clone(), owner: me.key }, me.clone());
    let summary = desk.parts.contracts.describe(&state).expect("a state").expect("a known contract");
    let id = TransactionId::from_bytes([7; 32]);
    let produced = vec![Produced { index: 0, state, summary }];
    let recorded = Recorded { id, bytes: vec![7], consumed: Vec::new(), produced, at: NOW };
    desk.parts.store.apply(&[Write::Transaction(recorded)]).expect("the database takes it");
    let reference = StateRef { transaction: id, index: 0 };
    if let Some(flow) = holder {
        assert!(lock(&desk.vault).hold(flow, reference));
    }
    reference
}

#[test]
fn a_notarys_word_sets_a_state_aside_that_the_flow_wanted_to_consume() {
    let by = TransactionId::from_bytes([8; 32]);
    for held in [true, false] {
        let directory = tempfile::tempdir().expect("a directory");
        let mut flow = Fetches::new(1);
        {
            let desk = desk(directory.path());
            let state = coin(&desk, held.then_some(flow.flow));
            flow.commit(&desk, Some(Err(FlowError::Conflict { state, consumed_by: by })));
        }
        let desk = desk(directory.path());
        let asset = asset("USD".parse().expect("a currency"), &desk.parts.me);
        let coins = desk.parts.store.coins(&asset, &desk.parts.me.key, None, 10).expect("coins");
        assert_eq!(coins.is_empty(), held, "a notary cannot burn what it was not asked about");
        let found = flow_finds(&mut flow, &desk);
        assert_eq!(found.is_empty(), held);
        let shown = desk.parts.store.states(&StateQuery::default()).expect("a page").states.remove(0);
        assert_eq!(shown.aside, held.then_some(Aside::Lost { by }), "it is shown with the transaction");
    }
}

fn flow_finds(flow: &mut Fetches, desk: &Desk) -> Vec<StateAndRef> {
    match flow.ask(desk, &Request::Find(Filter { limit: 10, ..Filter::default() })) {
        Response::States(states) => states,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_days_limit_holds_across_a_restart_and_heals() {
    let directory = tempfile::tempdir().expect("a directory");
    let open = || {
        let mut desk = desk(directory.path());
        desk.parts.network = Arc::new(Myself(desk.parts.me.clone()));
        let me = desk.parts.me.name.clone();
        desk.parts.policy.purchases.push(PurchaseRule {
            issuer: me.clone(),
            cash_of: me,
            sellers: None,
            highest_price: 1_000_000_000,
            latest_maturity: Timestamp::MAX,
            per_deal: "10.00 USD".parse().expect("an amount"),
            per_day: "15.00 USD".parse().expect("an amount"),
        });
        let since = NOW.saturating_sub(tally_protocols::consent::DAY);
        lock(&desk.consents).restore(desk.parts.store.consents(since).expect("they read"));
        desk
    };
    let ask = |desk: &Desk, number: u8, at: Timestamp| {
        let me = &desk.parts.me;
        let amount: tally_contracts::Amount = "10.00 USD".parse().expect("an amount");
        let proposal = Proposal::Purchase(Purchase {
            seller: me.clone(),
            terms: Terms {
                isin: "XS0000000009".parse().expect("a number"),
                issuer: me.clone(),
                agent: me.clone(),
                maturity: Timestamp::MAX,
            },
            nominal: amount,
            price: amount,
            cash_of: me.clone(),
        });
        let mut flow = Fetches::new(number);
        let performed = desk.perform(flow.flow, at, &Request::Consent(proposal)).expect("no trouble");
        flow.writes.extend(performed.writes);
        // The deal fails; what was agreed to counts all the same.
        flow.commit(desk, Some(Err(FlowError::Killed)));
        matches!(performed.response, Response::Done)
    };
    let desk = open();
    assert!(ask(&desk, 1, NOW));
    assert!(!ask(&desk, 2, NOW));
    drop(desk);
    let desk = open();
    assert!(!ask(&desk, 3, NOW));
    assert!(ask(&desk, 4, NOW.saturating_add(tally_protocols::consent::DAY)));
}

struct Myself(Party);

impl Network for Myself {
    fn id(&self) -> NetworkId {
        NETWORK
    }

    fn transaction_limit(&self) -> u64 {
        u64::MAX
    }

    fn is_certified(&self, party: &Party) -> bool {
        *party == self.0
    }

    fn parties(&self) -> Vec<Name> {
        vec![self.0.name.clone()]
    }

    fn party(&self, name: &Name) -> Option<Party> {
        (*name == self.0.name).then(|| self.0.clone())
    }

    fn notaries(&self) -> Notaries {
        Notaries::default()
    }

    fn keys_of(&self, name: &Name) -> Vec<PublicKey> {
        self.party(name).map(|party| party.key).into_iter().collect()
    }

    fn name_of(&self, _: &PublicKey) -> Option<Name> {
        None
    }
}
