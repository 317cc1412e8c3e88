//! What must be so after everything: read from the nodes, compared with what the clients asked for.

use super::load::{Asked, World};
use super::support::PATIENCE;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::{Duration, Instant};
use tally_contracts::Amount;
use tally_rpc::{FlowInfo, FlowQuery, FlowState, Outcome, StateStatus, VaultQuery, VaultState};

/// What the checks counted.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) flows: usize,
    pub(crate) completed: usize,
    pub(crate) transactions: usize,
    /// How many failed, by code.
    pub(crate) failures: BTreeMap<String, usize>,
}

impl World {
    /// Waits until no node has an unfinished flow, then checks everything.
    pub(crate) async fn check(&self) -> Tally {
        self.settle().await;
        let asked: Vec<Asked> = self.asked.lock().unwrap().values().cloned().collect();
        let mut tally = Tally { flows: asked.len(), ..Tally::default() };
        for party in 0..self.parties.len() {
            self.check_flows(party, &asked).await;
        }
        tally.completed = asked.iter().filter(|asked| output(asked).is_some()).count();
        for asked in &asked {
            if let Some((_, Outcome::Failed(failure))) = &asked.end {
                *tally.failures.entry(failure.code.clone()).or_default() += 1;
            }
        }
        self.check_answers(&asked).await;
        let mut vaults = Vec::new();
        for party in 0..self.parties.len() {
            vaults.push(self.vault(party).await);
        }
        self.check_cash(&asked, &vaults);
        tally.transactions = self.check_spending(&vaults).await;
        tally
    }

    async fn settle(&self) {
        let deadline = Instant::now() + PATIENCE;
        for party in &self.parties {
            loop {
                let info = party.insist(|client| async move { client.node_info().await }).await.unwrap();
                if info.unfinished_flows == 0 {
                    break;
                }
                if Instant::now() > deadline {
                    let query = FlowQuery {
                        states: vec![FlowState::Running, FlowState::Held],
                        ..FlowQuery::default()
                    };
                    let query = &query;
                    let page = party.insist(|client| async move { client.flows(query).await }).await.unwrap();
                    panic!(
                        "{} has {} unfinished flows: {:#?}",
                        party.name, info.unfinished_flows, page.flows
                    );
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
    }

    /// Each request is one flow of the node that ended once, as the client was told; and users started no other.
    async fn check_flows(&self, party: usize, asked: &[Asked]) {
        let mut flows: HashMap<String, FlowInfo> = HashMap::new();
        let mut cursor = None;
        loop {
            let query = FlowQuery { page_size: 1000, cursor, ..FlowQuery::default() };
            let query = &query;
            let page =
                self.parties[party].insist(|client| async move { client.flows(query).await }).await.unwrap();
            for flow in page.flows {
                assert!(flow.outcome.is_some() && flow.ended_at_ms.is_some(), "has not ended: {flow:?}");
                assert!(flows.insert(flow.flow_id.clone(), flow).is_none(), "a flow is listed twice");
            }
            cursor = page.next;
            if cursor.is_none() {
                break;
            }
        }
        let mut started: BTreeSet<&String> =
            flows.values().filter(|flow| flow.origin == "operator").map(|flow| &flow.flow_id).collect();
        for asked in asked.iter().filter(|asked| asked.party == party) {
            let (flow, outcome) = asked.end.as_ref().expect("every client had its answer");
            assert!(started.remove(flow), "{:?} is not a flow of its own", asked.start);
            assert_eq!(flows[flow].outcome.as_ref(), Some(outcome), "{:?}", asked.start);
        }
        assert!(started.is_empty(), "{}: flows that nobody asked for: {started:?}", self.parties[party].name);
    }

    /// The same request has the same answer again.
    async fn check_answers(&self, asked: &[Asked]) {
        for asked in asked {
            let start = &asked.start;
            let again =
                self.parties[asked.party].insist(|client| async move { client.run_flow(start).await }).await;
            let again = again.unwrap_or_else(|error| panic!("{start:?}: {error:?}"));
            assert_eq!(Some((again.flow_id, again.outcome)), asked.end, "{start:?}");
        }
    }

    pub(crate) async fn vault(&self, party: usize) -> Vec<VaultState> {
        let mut query = VaultQuery { status: StateStatus::Any, page_size: 1000, ..VaultQuery::default() };
        let mut states = Vec::new();
        loop {
            let asked = &query;
            let page =
                self.parties[party].insist(|client| async move { client.query_vault(asked).await }).await;
            let page = page.unwrap();
            states.extend(page.states);
            query.cursor = page.next;
            if query.cursor.is_none() {
                return states;
            }
        }
    }

    /// The sum over all vaults is what was issued less what was taken back; and the same for bonds.
    fn check_cash(&self, asked: &[Asked], vaults: &[Vec<VaultState>]) {
        let mut expected: BTreeMap<String, i128> = BTreeMap::new();
        for asked in asked.iter().filter(|asked| output(asked).is_some()) {
            let mine = &self.parties[asked.party].name;
            let text = |key: &str| asked.start.arguments.get(key).and_then(Value::as_str);
            let amount = |key: &str| i128::from(text(key).unwrap().parse::<Amount>().unwrap().quantity());
            match asked.start.flow.as_str() {
                "CashIssue" => *expected.entry(format!("USD@{mine}")).or_default() += amount("amount"),
                "CashExit" => {
                    *expected.entry(format!("USD@{}", text("issuer").unwrap())).or_default() -=
                        amount("amount");
                }
                "BondIssue" => *expected.entry(format!("bond of {mine}")).or_default() += amount("nominal"),
                _ => {}
            }
        }
        let mut found: BTreeMap<String, i128> = BTreeMap::new();
        let mut ious: Vec<BTreeSet<&String>> = Vec::new();
        for (party, vault) in self.parties.iter().zip(vaults) {
            for state in vault.iter().filter(|state| state.status == StateStatus::Unconsumed) {
                let key = match state.kind.as_str() {
                    "cash" => state.asset.clone().unwrap(),
                    "bond" => format!("bond of {}", state.details["issuer"].as_str().unwrap()),
                    _ => continue,
                };
                if state.owner.as_ref() == Some(&party.name) {
                    *found.entry(key).or_default() += i128::from(state.quantity.unwrap());
                }
            }
            ious.push(
                vault.iter().filter(|state| state.kind == "iou").map(|state| &state.reference).collect(),
            );
        }
        assert_eq!(found, expected, "the sum over the vaults, and what was issued less what was taken back");
        // Each IOU is held by both of its parties.
        for (party, ious_here) in self.parties.iter().zip(&ious) {
            for state in vaults.iter().flatten().filter(|state| state.kind == "iou") {
                let concerns = state.participants.contains(&party.name);
                assert_eq!(ious_here.contains(&state.reference), concerns, "{} and {state:?}", party.name);
            }
        }
    }

    /// No state is the input of two transactions, and every vault says the same of who consumed it.
    pub(crate) async fn check_spending(&self, vaults: &[Vec<VaultState>]) -> usize {
        let mut spent: HashMap<String, String> = HashMap::new();
        let mut spend = |state: String, by: &str| {
            let before = spent.insert(state.clone(), by.to_owned());
            assert!(
                before.as_deref().is_none_or(|before| before == by),
                "{state} is spent twice: {before:?}, {by}"
            );
        };
        let mut all: BTreeSet<String> = BTreeSet::new();
        for (party, vault) in self.parties.iter().zip(vaults) {
            let mut transactions: BTreeSet<&str> = BTreeSet::new();
            for state in vault {
                transactions.insert(state.reference.split(':').next().unwrap());
                if let Some(by) = &state.consumed_by {
                    spend(state.reference.clone(), by);
                    transactions.insert(by);
                }
            }
            for id in transactions {
                if !all.insert(id.to_owned()) {
                    continue;
                }
                let found = party.insist(|client| async move { client.transaction(id).await }).await.unwrap();
                for input in found.details["inputs"].as_array().unwrap() {
                    spend(input.as_str().unwrap().to_owned(), id);
                }
            }
        }
        all.len()
    }
}

fn output(asked: &Asked) -> Option<&Value> {
    match &asked.end {
        Some((_, Outcome::Completed(output))) => Some(output),
        _ => None,
    }
}
