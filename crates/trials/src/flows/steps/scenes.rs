//! One scene for each thing that flows do: what has happened before, and the order that is to be carried out.

use tally_contracts::bond::Isin;
use tally_contracts::{Amount, Currency, Name, StateRef, Timestamp, TransactionId};
use tally_crypto::Hash;
use tally_flows::Flow;
use tally_protocols::{bond, cash, iou, oracle, ping};
use tally_sim::Rng;

use super::super::clients::Order;
use super::super::orders::About;
use super::super::strange::{Chatter, ChatterArguments, Spend, SpendArguments};
use super::super::world::{Cast, World};
use super::Scene;

const ALPHA: usize = 0;
const BETA: usize = 1;
const GAMMA: usize = 2;
const NOTARY: usize = 3;
const VALIDATOR: usize = 4;
const ORACLE: usize = 5;

/// What is done, how it is set up, and what the user is told: nothing but success, or the kind of a failure.
pub(super) type Entry = (&'static str, fn() -> Scene, Option<&'static str>);

/// All scenes.
pub(super) const ALL: &[Entry] = &[
    ("issue", issue, None),
    ("pay", || pay(NOTARY), None),
    ("pay, validated", || pay(VALIDATOR), None),
    ("pay with a long history", pay_with_a_long_history, None),
    ("pay at a rate", pay_at_rate, None),
    ("exit", || exit(BETA), None),
    ("exit by the issuer", || exit(ALPHA), None),
    ("lend", lend, None),
    ("settle", settle, None),
    ("issue a bond", issue_bond, None),
    ("transfer a bond", transfer, None),
    ("deliver a bond against payment", deliver, None),
    ("redeem a bond", redeem, None),
    ("ask for a rate", ask_for_a_rate, None),
    ("ping", ping, None),
    ("chatter", chatter, None),
    ("lose a race", lose_a_race, Some("conflict")),
    ("have too little", have_too_little, Some("counterparty")),
];

/// The network while a scene is set.
struct Stage {
    world: World,
}

fn order<F: Flow>(node: usize, arguments: &F::Arguments) -> Order {
    Order {
        node,
        flow: F::NAME,
        arguments: tally_contracts::encode(arguments),
        named: true,
        about: About::Talk,
    }
}

fn usd(units: u64) -> Amount {
    Amount::new(units * 100, Currency::literal("USD")).expect("a small number")
}

fn isin() -> Isin {
    "XS0000000009".parse().expect("an ISIN")
}

impl Stage {
    fn new() -> Self {
        let cast = Cast {
            institutions: 3,
            files: false,
            validating_first: false,
            queue_bytes: 1 << 20,
            liars: std::collections::BTreeMap::new(),
        };
        let mut world = World::new(&cast, Rng::new(1));
        (0..world.len()).for_each(|node| assert!(world.start(node), "a node starts"));
        Self { world }
    }

    fn name(&self, node: usize) -> Name {
        self.world.members.parties[node].name.clone()
    }

    /// Carries something out, and gives the flow's output.
    fn has<F: Flow>(&mut self, node: usize, arguments: &F::Arguments) -> F::Output {
        let index = self.world.clients.order(order::<F>(node, arguments));
        self.world.hand_in(index);
        self.world.drain();
        let outcome = self.world.clients.asked[index].outcome.clone().expect("it has ended");
        borsh::from_slice(&outcome.expect("it is carried out")).expect("the flow's output")
    }

    fn scene<F: Flow>(self, node: usize, arguments: &F::Arguments) -> Scene {
        Scene { world: self.world, order: order::<F>(node, arguments), later_ms: 0 }
    }

    /// Cash of Alpha, with Alpha; afterwards some of it with Beta.
    fn cash(&mut self, notary: usize) -> TransactionId {
        let notary = Some(self.name(notary));
        let arguments =
            cash::CashIssueArguments { amount: usd(1_000), outputs: Some(2), notary: notary.clone() };
        let issued = self.has::<cash::CashIssue>(ALPHA, &arguments).transaction;
        let arguments = self.payment(ALPHA, BETA, usd(300), notary);
        self.has::<cash::CashPay>(ALPHA, &arguments);
        issued
    }

    fn payment(
        &self,
        issuer: usize,
        to: usize,
        amount: Amount,
        notary: Option<Name>,
    ) -> cash::CashPayArguments {
        cash::CashPayArguments {
            amount,
            to: self.name(to),
            outputs: Some(2),
            issuer: Some(self.name(issuer)),
            notary,
        }
    }

    /// A bond of Alpha whose register Gamma keeps, some of it with Beta.
    fn bonds(&mut self) {
        let arguments = bond::BondIssueArguments {
            isin: isin(),
            nominal: usd(500),
            maturity: Timestamp::from_millis(self.world.clock.now_ms() + 10_000),
            agent: Some(self.name(GAMMA)),
            notary: Some(self.name(NOTARY)),
        };
        self.has::<bond::BondIssue>(ALPHA, &arguments);
        let arguments = self.gift(BETA);
        self.has::<bond::BondTransfer>(ALPHA, &arguments);
    }

    fn gift(&self, to: usize) -> bond::BondTransferArguments {
        bond::BondTransferArguments {
            isin: isin(),
            nominal: usd(200),
            to: self.name(to),
            issuer: Some(self.name(ALPHA)),
            notary: Some(self.name(NOTARY)),
        }
    }

    fn iou(&mut self) -> (iou::IouCreateArguments, Hash) {
        let arguments =
            iou::IouCreateArguments { value: 42, lender: self.name(BETA), notary: Some(self.name(NOTARY)) };
        let made = self.has::<iou::IouCreate>(ALPHA, &arguments);
        (arguments, made.linear_id)
    }
}

fn issue() -> Scene {
    let stage = Stage::new();
    let notary = Some(stage.name(NOTARY));
    stage.scene::<cash::CashIssue>(
        ALPHA,
        &cash::CashIssueArguments { amount: usd(7), outputs: Some(3), notary },
    )
}

fn pay(notary: usize) -> Scene {
    let mut stage = Stage::new();
    stage.cash(notary);
    let arguments = stage.payment(ALPHA, GAMMA, usd(123), Some(stage.name(notary)));
    stage.scene::<cash::CashPay>(BETA, &arguments)
}

/// More than is sent along with a payment: payee and notary have to ask for the rest.
fn pay_with_a_long_history() -> Scene {
    let mut stage = Stage::new();
    stage.cash(NOTARY);
    let notary = Some(stage.name(NOTARY));
    for _ in 0..10 {
        for (from, to) in [(BETA, ALPHA), (ALPHA, BETA)] {
            let amount = if from == BETA { usd(300) } else { usd(1_000) };
            let arguments = stage.payment(ALPHA, to, amount, notary.clone());
            stage.has::<cash::CashPay>(from, &arguments);
            if from == ALPHA {
                let arguments = stage.payment(ALPHA, ALPHA, usd(700), notary.clone());
                stage.has::<cash::CashPay>(BETA, &arguments);
            }
        }
    }
    let arguments = stage.payment(ALPHA, GAMMA, usd(250), notary);
    stage.scene::<cash::CashPay>(BETA, &arguments)
}

fn pay_at_rate() -> Scene {
    let mut stage = Stage::new();
    stage.cash(VALIDATOR);
    let arguments = cash::CashPayAtRateArguments {
        amount: "10 EUR".parse().expect("an amount"),
        currency: Currency::literal("USD"),
        to: stage.name(GAMMA),
        oracle: stage.name(ORACLE),
        issuer: Some(stage.name(ALPHA)),
        notary: Some(stage.name(VALIDATOR)),
    };
    stage.scene::<cash::CashPayAtRate>(BETA, &arguments)
}

fn exit(by: usize) -> Scene {
    let mut stage = Stage::new();
    stage.cash(NOTARY);
    let (issuer, notary) = (Some(stage.name(ALPHA)), Some(stage.name(NOTARY)));
    stage.scene::<cash::CashExit>(by, &cash::CashExitArguments { amount: usd(50), issuer, notary })
}

fn lend() -> Scene {
    let mut stage = Stage::new();
    let (arguments, _) = stage.iou();
    stage.scene::<iou::IouCreate>(ALPHA, &arguments)
}

fn settle() -> Scene {
    let mut stage = Stage::new();
    let (_, linear_id) = stage.iou();
    stage.scene::<iou::IouSettle>(BETA, &iou::IouSettleArguments { linear_id })
}

fn issue_bond() -> Scene {
    let stage = Stage::new();
    let arguments = bond::BondIssueArguments {
        isin: isin(),
        nominal: usd(500),
        maturity: Timestamp::MAX,
        agent: Some(stage.name(GAMMA)),
        notary: Some(stage.name(NOTARY)),
    };
    stage.scene::<bond::BondIssue>(ALPHA, &arguments)
}

fn transfer() -> Scene {
    let mut stage = Stage::new();
    stage.bonds();
    let arguments = stage.gift(BETA);
    stage.scene::<bond::BondTransfer>(ALPHA, &arguments)
}

fn deliver() -> Scene {
    let mut stage = Stage::new();
    stage.cash(NOTARY);
    stage.bonds();
    let arguments = bond::DeliveryVersusPaymentArguments {
        isin: isin(),
        nominal: usd(250),
        price: usd(249),
        buyer: stage.name(BETA),
        cash_issuer: None,
        issuer: Some(stage.name(ALPHA)),
        notary: Some(stage.name(NOTARY)),
    };
    stage.scene::<bond::DeliveryVersusPayment>(ALPHA, &arguments)
}

fn redeem() -> Scene {
    let mut stage = Stage::new();
    stage.bonds();
    let arguments = bond::BondRedeemArguments {
        isin: isin(),
        currency: Currency::literal("USD"),
        cash_issuer: None,
        issuer: Some(stage.name(ALPHA)),
        notary: Some(stage.name(NOTARY)),
    };
    Scene { later_ms: 20_000, ..stage.scene::<bond::BondRedeem>(BETA, &arguments) }
}

fn ask_for_a_rate() -> Scene {
    let stage = Stage::new();
    let arguments = oracle::ExchangeRateArguments {
        base: Currency::literal("EUR"),
        quote: Currency::literal("USD"),
        oracle: stage.name(ORACLE),
    };
    stage.scene::<oracle::ExchangeRate>(ALPHA, &arguments)
}

fn ping() -> Scene {
    let stage = Stage::new();
    let arguments = ping::PingArguments { to: stage.name(BETA), after_ms: Some(500) };
    stage.scene::<ping::Ping>(ALPHA, &arguments)
}

fn chatter() -> Scene {
    let stage = Stage::new();
    let with = vec![stage.name(BETA), stage.name(GAMMA), stage.name(BETA)];
    stage.scene::<Chatter>(ALPHA, &ChatterArguments { with, rounds: 7, pause_ms: 5 })
}

fn lose_a_race() -> Scene {
    let mut stage = Stage::new();
    let issued = stage.cash(NOTARY);
    let coin = StateRef { transaction: issued, index: 0 };
    let to = stage.name(GAMMA);
    stage.scene::<Spend>(ALPHA, &SpendArguments { coin, to })
}

fn have_too_little() -> Scene {
    let mut stage = Stage::new();
    stage.bonds();
    let arguments = bond::DeliveryVersusPaymentArguments {
        isin: isin(),
        nominal: usd(250),
        price: usd(249),
        buyer: stage.name(GAMMA),
        cash_issuer: None,
        issuer: Some(stage.name(ALPHA)),
        notary: Some(stage.name(NOTARY)),
    };
    stage.scene::<bond::DeliveryVersusPayment>(ALPHA, &arguments)
}

/// A network in which Alpha has paid Beta an amount that occurs nowhere else, and the payment.
#[cfg(test)]
pub(super) fn paid() -> (World, tally_contracts::Transaction) {
    let mut stage = Stage::new();
    let notary = Some(stage.name(NOTARY));
    let amount = Amount::new(987_654_321_987, Currency::literal("USD")).expect("an amount");
    let arguments = cash::CashIssueArguments { amount, outputs: None, notary: notary.clone() };
    stage.has::<cash::CashIssue>(ALPHA, &arguments);
    let amount = Amount::new(543_219_876_543, Currency::literal("USD")).expect("an amount");
    let arguments = cash::CashPayArguments { outputs: None, ..stage.payment(ALPHA, BETA, amount, notary) };
    let id = stage.has::<cash::CashPay>(ALPHA, &arguments).transaction;
    let transaction = stage.world.machines[BETA].disk.audit().recorded[&id].transaction().clone();
    (stage.world, transaction)
}
