//! What a hostile node tries by its flows, one kind after the other and several kinds at a time.

use super::super::load::{Party, World};
use super::{MALLORY, NOTARIES, PARTIES, VICTIMS, name};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tally_rpc::{Outcome, StartFlow, StateStatus, VaultQuery};
use tally_sim::Rng;

/// How long the hostile node waits for one of its flows.
const WAIT: Duration = Duration::from_secs(5);
/// Pings to each node each time, which sleep for a minute there.
const PINGS: usize = 20;

/// What [`super::evil::HandOver`] hands over.
const HANDED_OVER: [&str; 12] = [
    "forged history",
    "conjured history",
    "not notarised",
    "counterfeit",
    "counterfeit of itself",
    "counterfeit in the history",
    "other consumers",
    "a downgraded contract",
    "another network",
    "own notary",
    "none of its business",
    "a bad signature",
];

/// What [`super::evil::AskNotary`] asks for, of both kinds of notary.
const ASKED: [&str; 14] = [
    "hides the inputs",
    "hides the references",
    "hides the time window",
    "hides the notary",
    "shows the outputs",
    "signature over another transaction",
    "another's name",
    "signature in another role",
    "hides the consumers",
    "the consumers of another transaction",
    "shows what is consumed",
    "nothing to attest",
    "another notary",
    "too late",
];

/// The hostile node, and what it was told.
pub(super) struct Attacks {
    mallory: Party,
    /// The parties that are attacked, as they are asked to pay the hostile node.
    world: Arc<World>,
    stop: AtomicBool,
    /// By kind and outcome.
    told: Mutex<BTreeMap<String, u64>>,
    succeeded: Mutex<Vec<String>>,
}

impl Attacks {
    pub(super) fn new(mallory: Party, world: Arc<World>) -> Arc<Self> {
        Arc::new(Self {
            mallory,
            world,
            stop: AtomicBool::new(false),
            told: Mutex::default(),
            succeeded: Mutex::default(),
        })
    }

    pub(super) fn begin(self: &Arc<Self>, runtime: &tokio::runtime::Handle, rng: &mut Rng) {
        for _ in 0..2 {
            runtime.spawn(Arc::clone(self).ask_for_what_is_refused(rng.fork()));
        }
        runtime.spawn(Arc::clone(self).burn(rng.fork()));
        runtime.spawn(Arc::clone(self).spend_twice(rng.fork()));
        runtime.spawn(Arc::clone(self).poison(rng.fork()));
        runtime.spawn(Arc::clone(self).flood());
        runtime.spawn(Arc::clone(self).withhold());
    }

    pub(super) fn end(&self) -> BTreeMap<String, u64> {
        self.stop.store(true, Ordering::Relaxed);
        let told = self.told.lock().unwrap().clone();
        let mut kinds: Vec<_> = told.keys().map(|key| key.split(':').next().unwrap()).collect();
        kinds.dedup();
        for kind in ["HandOver", "AskNotary", "Burn", "Lie", "MoreThanAnIou", "Ping", "SellFake", "Spend"] {
            assert!(kinds.contains(&kind), "{kind} was not tried: {told:?}");
        }
        told
    }

    /// Attacks that were answered as if they were none.
    pub(super) fn succeeded(&self) -> Vec<String> {
        self.succeeded.lock().unwrap().clone()
    }

    fn goes_on(&self) -> bool {
        !self.stop.load(Ordering::Relaxed)
    }

    fn count(&self, kind: &str, outcome: &str) {
        *self.told.lock().unwrap().entry(format!("{kind}: {outcome}")).or_default() += 1;
    }

    /// Runs a flow at the hostile node; its output, if it completed.
    async fn run(&self, flow: &str, arguments: &Value) -> Option<Value> {
        let start = start(flow, arguments);
        let client = self.mallory.client().await;
        let (outcome, output) = match tokio::time::timeout(WAIT, client.run_flow(&start)).await {
            Err(_) => ("no end yet".to_owned(), None),
            Ok(Err(error)) => (format!("{error}").chars().take(60).collect(), None),
            Ok(Ok(end)) => match end.outcome {
                Outcome::Completed(output) => ("completed".to_owned(), Some(output)),
                Outcome::Failed(failure) => (failure.code, None),
                Outcome::Unknown(_) => ("unknown".to_owned(), None),
            },
        };
        self.count(flow, &outcome);
        output
    }

    /// Runs a flow that must not complete.
    async fn attack(&self, flow: &str, arguments: Value) {
        if let Some(output) = self.run(flow, &arguments).await {
            self.succeeded.lock().unwrap().push(format!("{flow} {arguments}: {output}"));
        }
    }

    async fn ask_for_what_is_refused(self: Arc<Self>, mut rng: Rng) {
        while self.goes_on() {
            let party = name(VICTIMS[rng.index(PARTIES)]);
            match rng.below(10) {
                0..=3 => {
                    let how = HANDED_OVER[rng.index(HANDED_OVER.len())];
                    self.attack("HandOver", json!({ "victim": party, "how": how })).await;
                }
                4..=6 => {
                    let notary = rng.index(NOTARIES.len());
                    let more = ["whole", "part"][notary];
                    let how = if rng.chance(1, 8) { more } else { ASKED[rng.index(ASKED.len())] };
                    self.attack("AskNotary", json!({ "victim": name(NOTARIES[notary]), "how": how })).await;
                }
                7 => {
                    let how = ["issue cash", "the other way round", "unsigned"][rng.index(3)];
                    self.attack("MoreThanAnIou", json!({ "victim": party, "how": how })).await;
                }
                8 => self.attack("IssueAsTransfer", json!({ "victim": party })).await,
                _ => {
                    let how = ["own notary", "not its own", "more than there is", "honestly"][rng.index(4)];
                    self.attack("SellFake", json!({ "victim": party, "how": how })).await;
                }
            }
        }
    }

    /// A coin of its own issue, at one of the notaries.
    async fn coin(&self, rng: &mut Rng) -> Option<(String, String)> {
        let notary = name(NOTARIES[rng.index(NOTARIES.len())]);
        let issued = self.run("CashIssue", &json!({ "amount": "1.00 USD", "notary": notary })).await?;
        Some((format!("{}:0", issued["transaction"].as_str()?), notary))
    }

    /// Pays, and then burns or takes what it paid.
    async fn burn(self: Arc<Self>, mut rng: Rng) {
        while self.goes_on() {
            let victim = name(VICTIMS[rng.index(PARTIES)]);
            let Some((_, notary)) = self.coin(&mut rng).await else { continue };
            let pay = json!({ "amount": "1.00 USD", "to": victim, "notary": notary });
            let Some(paid) = self.run("CashPay", &pay).await else { continue };
            let state = format!("{}:0", paid["transaction"].as_str().unwrap());
            let flow = if rng.chance(2, 3) { "Burn" } else { "TakeAsTransfer" };
            self.attack(flow, json!({ "victim": victim, "state": state })).await;
        }
    }

    /// Spends a coin of its own, or one that it was paid, twice; tells two stories about one.
    async fn spend_twice(self: Arc<Self>, mut rng: Rng) {
        while self.goes_on() {
            let given = self.given().await;
            let coin = match given.get(rng.index(given.len().max(1))) {
                Some(coin) if rng.chance(1, 2) => coin.clone(),
                _ => match self.coin(&mut rng).await {
                    Some((coin, _)) => coin,
                    None => continue,
                },
            };
            let [first, second] = [0, 1].map(|party| name(VICTIMS[party]));
            if rng.chance(1, 3) {
                self.run("Lie", &json!({ "coin": coin, "first": first, "second": second })).await;
                continue;
            }
            let [to_first, to_second] = [first, second].map(|to| json!({ "coin": coin, "to": to }));
            let both = tokio::join!(self.run("Spend", &to_first), self.run("Spend", &to_second));
            if let (Some(one), Some(other)) = both {
                self.succeeded.lock().unwrap().push(format!("{coin} is spent twice: {one}, {other}"));
            }
        }
    }

    /// Coins that the parties paid it.
    async fn given(&self) -> Vec<String> {
        let query = VaultQuery {
            status: StateStatus::Unconsumed,
            kind: Some("cash".to_owned()),
            owner: Some(name(MALLORY)),
            page_size: 1000,
            ..VaultQuery::default()
        };
        let Ok(page) = self.mallory.client().await.query_vault(&query).await else { return Vec::new() };
        let is_given = |asset: &Option<String>| asset.as_ref().is_some_and(|asset| !asset.contains(MALLORY));
        page.states.into_iter().filter(|state| is_given(&state.asset)).map(|state| state.reference).collect()
    }

    /// Pays coins that cannot be spent alone, coins that are spent already, and dust.
    async fn poison(self: Arc<Self>, mut rng: Rng) {
        while self.goes_on() {
            let to = name(VICTIMS[rng.index(PARTIES)]);
            self.run("PayEncumbered", &json!({ "to": to, "amount": "3.00 USD" })).await;
            if let Some((coin, notary)) = self.coin(&mut rng).await {
                let dust = json!({ "amount": "1.00 USD", "to": to, "outputs": 100, "notary": notary });
                self.run("CashPay", &dust).await;
                drop(coin);
            }
            if let Some((coin, _)) = self.coin(&mut rng).await {
                let transaction = coin.split(':').next().unwrap();
                if self.run("SpendSilently", &json!({ "transaction": transaction })).await.is_some() {
                    self.attack("Spend", json!({ "coin": coin, "to": to })).await;
                }
            }
        }
    }

    /// Flows that sleep at every node, and sessions for flows that no node has.
    async fn flood(self: Arc<Self>) {
        let client = self.mallory.client().await;
        let all: Vec<_> = VICTIMS.iter().map(|label| name(label)).collect();
        while self.goes_on() {
            for to in &all {
                for _ in 0..PINGS {
                    let ping = start("Ping", &json!({ "to": to, "after_ms": 60_000 }));
                    let told = client.start_flow(&ping).await;
                    self.count("Ping", if told.is_ok() { "started" } else { "refused here" });
                }
            }
            let chatter = json!({ "with": all, "rounds": 3, "pause_ms": 0 });
            self.run("Chatter", &chatter).await;
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    /// Has the parties pay it and borrow from it, and answers with anything but what is due.
    async fn withhold(self: Arc<Self>) {
        while self.goes_on() {
            for (party, label) in VICTIMS.iter().take(PARTIES).enumerate() {
                let client = self.world.parties[party].client().await;
                for notary in NOTARIES {
                    let pay = json!({
                        "amount": "2.00 USD", "to": name(MALLORY), "issuer": name(label), "notary": name(notary),
                    });
                    let told = client.start_flow(&start("CashPay", &pay)).await;
                    self.count("withheld", if told.is_ok() { "started" } else { "refused here" });
                }
                let borrow = json!({ "value": 5, "lender": name(MALLORY) });
                let told = client.start_flow(&start("IouCreate", &borrow)).await;
                self.count("withheld", if told.is_ok() { "started" } else { "refused here" });
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    }
}

fn start(flow: &str, arguments: &Value) -> StartFlow {
    StartFlow { flow: flow.to_owned(), arguments: arguments.as_object().unwrap().clone(), request_id: None }
}
