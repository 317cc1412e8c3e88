//! What users of the simulated network want, drawn from a seed and from what the vaults hold.

use std::collections::BTreeSet;

use tally_contracts::bond::{BondState, Isin};
use tally_contracts::cash::CashState;
use tally_contracts::iou::IouState;
use tally_contracts::{Amount, Currency, Name, Party, PublicKey, State, StateRef, Timestamp};
use tally_crypto::Hash;
use tally_flows::Flow;
use tally_protocols::{bond, cash, iou, oracle, ping};
use tally_sim::Rng;
use tally_store::{StateQuery, Store, VaultState};

use super::clients::Order;
use super::liars::{Lie, LieArguments};
use super::strange::{Chatter, ChatterArguments, Spend, SpendArguments};

/// What an order is about: what the books must show if it is carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum About {
    Issue {
        amount: Amount,
    },
    Pay {
        to: usize,
        issuer: Name,
        amount: Amount,
    },
    Exit {
        issuer: Name,
        amount: Amount,
    },
    PayAtRate {
        to: usize,
        issuer: Name,
        worth: Amount,
    },
    Lend {
        lender: usize,
        value: u32,
    },
    Settle {
        linear_id: Hash,
    },
    Bond {
        isin: Isin,
        nominal: Amount,
    },
    Transfer {
        to: usize,
        isin: Isin,
        issuer: Name,
        nominal: Amount,
    },
    Deliver {
        buyer: usize,
        isin: Isin,
        issuer: Name,
        nominal: Amount,
        price: Amount,
    },
    Redeem {
        isin: Isin,
        issuer: Name,
        currency: Currency,
    },
    Spend {
        coin: StateRef,
        to: usize,
        issuer: Name,
        amount: Amount,
    },
    /// Two stories about a coin of the liar's own.
    Lie,
    /// Nothing that the books show.
    Talk,
    /// It cannot be done.
    Nonsense,
}

/// Who can be asked for what.
pub(crate) struct View<'a> {
    pub(crate) parties: &'a [Party],
    pub(crate) institutions: usize,
    pub(crate) notaries: &'a [usize],
    pub(crate) oracle: usize,
    pub(crate) now: Timestamp,
    pub(crate) disks: Vec<std::sync::Arc<dyn Store>>,
}

pub(crate) struct Orders {
    rng: Rng,
    /// Coins that were spent without asking the vault.
    pub(crate) raced: BTreeSet<StateRef>,
    /// What sellers showed to buyers, whatever came of it.
    pub(crate) shown: Vec<(usize, usize, Isin)>,
    pub(crate) issued: u32,
}

const CURRENCIES: [&str; 3] = ["USD", "EUR", "GBP"];

fn order<F: Flow>(node: usize, arguments: &F::Arguments, about: About) -> Order {
    Order { node, flow: F::NAME, arguments: tally_contracts::encode(arguments), named: true, about }
}

fn held(store: &dyn Store, query: StateQuery) -> Vec<VaultState> {
    store.states(&StateQuery { page_size: 1000, ..query }).expect("the truth can be read").states
}

impl View<'_> {
    fn name(&self, node: usize) -> Name {
        self.parties[node].name.clone()
    }

    fn own(&self, node: usize, kind: &str) -> Vec<VaultState> {
        let owner: PublicKey = self.parties[node].key;
        let query = StateQuery { kind: Some(kind.to_owned()), owner: Some(owner), ..StateQuery::default() };
        held(self.disks[node].as_ref(), query)
    }

    fn coins(&self, node: usize) -> Vec<(StateRef, State, CashState)> {
        let read = |found: VaultState| {
            let cash = found.state.read().expect("it is cash");
            (found.reference, found.state, cash)
        };
        self.own(node, "cash").into_iter().map(read).collect()
    }

    fn bonds(&self, node: usize) -> Vec<(State, BondState)> {
        let read = |found: VaultState| (found.state.clone(), found.state.read().expect("it is a bond"));
        self.own(node, "bond").into_iter().map(read).collect()
    }
}

impl Orders {
    pub(crate) fn new(rng: Rng) -> Self {
        Self { rng, raced: BTreeSet::new(), shown: Vec::new(), issued: 0 }
    }

    fn pick<T: Clone>(&mut self, from: &[T]) -> Option<T> {
        (!from.is_empty()).then(|| from[self.rng.index(from.len())].clone())
    }

    /// Amounts are all different, so that each can be told from all others wherever it turns up.
    fn amount(&mut self, currency: &str) -> Amount {
        let quantity = self.rng.between(1 << 36, 1 << 44);
        Amount::new(quantity, currency.parse().expect("a currency")).expect("a small number")
    }

    fn part(&mut self, of: Amount) -> Amount {
        let quantity = match self.rng.below(8) {
            0 => of.quantity(),
            // Needs several coins, or is too much.
            1 => of.quantity() + self.rng.between(1, 1 << 40),
            _ => self.rng.between(1.max(of.quantity() / 100), of.quantity()),
        };
        Amount::new(quantity, of.currency()).expect("a small number")
    }

    fn institution(&mut self, view: &View<'_>) -> usize {
        self.rng.index(view.institutions)
    }

    fn other(&mut self, view: &View<'_>, than: usize) -> usize {
        let other = self.rng.index(view.institutions - 1);
        if other >= than { other + 1 } else { other }
    }

    fn notary(&mut self, view: &View<'_>) -> Name {
        view.name(view.notaries[self.rng.index(view.notaries.len())])
    }

    /// Cash to begin with.
    pub(crate) fn issue(&mut self, view: &View<'_>, node: usize) -> Order {
        self.issued += 1;
        let currency = CURRENCIES[self.rng.index(2)];
        let amount = self.amount(currency);
        let outputs = self.rng.chance(1, 2).then(|| u32::try_from(self.rng.between(1, 4)).unwrap_or(1));
        let notary = Some(self.notary(view));
        order::<cash::CashIssue>(
            node,
            &cash::CashIssueArguments { amount, outputs, notary },
            About::Issue { amount },
        )
    }

    /// What somebody wants next; nothing when what was drawn cannot even be asked for.
    pub(crate) fn next(&mut self, view: &View<'_>) -> Vec<Order> {
        let node = self.institution(view);
        let drawn = match self.rng.below(100) {
            0..12 => Some(vec![self.issue(view, node)]),
            12..36 => self.pay(view, node).map(|order| vec![order]),
            36..41 => self.exit(view, node).map(|order| vec![order]),
            41..47 => self.pay_at_rate(view, node).map(|order| vec![order]),
            47..54 => Some(vec![self.lend(view, node)]),
            54..59 => self.settle(view, node),
            59..64 => Some(vec![self.bond(view, node)]),
            64..69 => self.transfer(view, node).map(|order| vec![order]),
            69..78 => self.deliver(view, node).map(|order| vec![order]),
            78..82 => self.redeem(view, node).map(|order| vec![order]),
            82..91 => self.race(view, node),
            91..97 => Some(vec![self.talk(view, node)]),
            _ => Some(vec![self.nonsense(view, node)]),
        };
        let mut drawn = drawn.unwrap_or_default();
        for order in &mut drawn {
            order.named = !self.rng.chance(1, 8);
        }
        drawn
    }

    fn pay(&mut self, view: &View<'_>, node: usize) -> Option<Order> {
        let (_, state, coin) = self.pick(&view.coins(node))?;
        let amount = self.part(coin.amount);
        let to = self.other(view, node);
        let splits = amount.quantity() > 6 && self.rng.chance(1, 4);
        let outputs = splits.then(|| u32::try_from(self.rng.between(1, 6)).unwrap_or(1));
        let issuer = coin.issuer.name.clone();
        let arguments = cash::CashPayArguments {
            amount,
            to: view.name(to),
            outputs,
            issuer: Some(issuer.clone()),
            notary: Some(state.notary.name),
        };
        Some(order::<cash::CashPay>(node, &arguments, About::Pay { to, issuer, amount }))
    }

    fn exit(&mut self, view: &View<'_>, node: usize) -> Option<Order> {
        let (_, state, coin) = self.pick(&view.coins(node))?;
        let amount = self.part(coin.amount);
        let issuer = coin.issuer.name.clone();
        let notary = Some(state.notary.name);
        let arguments = cash::CashExitArguments { amount, issuer: Some(issuer.clone()), notary };
        Some(order::<cash::CashExit>(node, &arguments, About::Exit { issuer, amount }))
    }

    fn pay_at_rate(&mut self, view: &View<'_>, node: usize) -> Option<Order> {
        let (_, state, coin) = self.pick(&view.coins(node))?;
        let currency = coin.amount.currency();
        let base: Currency = if self.rng.chance(1, 3) {
            "GBP"
        } else if currency.code() == "USD" {
            "EUR"
        } else {
            "USD"
        }
        .parse()
        .expect("a currency");
        let quantity = 1.max(coin.amount.quantity() / self.rng.between(1, 6));
        let worth = Amount::new(quantity, base).expect("a small number");
        let to = self.other(view, node);
        let issuer = coin.issuer.name.clone();
        let arguments = cash::CashPayAtRateArguments {
            amount: worth,
            currency,
            to: view.name(to),
            oracle: view.name(view.oracle),
            issuer: Some(issuer.clone()),
            notary: Some(state.notary.name),
        };
        Some(order::<cash::CashPayAtRate>(node, &arguments, About::PayAtRate { to, issuer, worth }))
    }

    fn lend(&mut self, view: &View<'_>, node: usize) -> Order {
        let lender = self.other(view, node);
        let value = u32::try_from(self.rng.between(1, 99)).unwrap_or(1);
        let arguments =
            iou::IouCreateArguments { value, lender: view.name(lender), notary: Some(self.notary(view)) };
        order::<iou::IouCreate>(node, &arguments, About::Lend { lender, value })
    }

    fn settle(&mut self, view: &View<'_>, node: usize) -> Option<Vec<Order>> {
        let query = StateQuery { kind: Some("iou".to_owned()), ..StateQuery::default() };
        let found = self.pick(&held(view.disks[node].as_ref(), query))?;
        let owed: IouState = found.state.read().expect("it is an IOU");
        let linear_id = owed.linear_id;
        let arguments = iou::IouSettleArguments { linear_id };
        // Twice at once: one of them finds it held, or gone.
        let times = if self.rng.chance(1, 3) { 2 } else { 1 };
        Some(
            (0..times)
                .map(|_| order::<iou::IouSettle>(node, &arguments, About::Settle { linear_id }))
                .collect(),
        )
    }

    fn bond(&mut self, view: &View<'_>, node: usize) -> Order {
        let isin = self.isin();
        let currency = CURRENCIES[self.rng.index(2)];
        let nominal = self.amount(currency);
        let maturity = match self.rng.below(3) {
            0 => view.now,
            1 => Timestamp::from_millis(view.now.as_millis() + self.rng.below(20_000)),
            _ => Timestamp::from_millis(view.now.as_millis() + 100_000_000),
        };
        let agent = if self.rng.chance(1, 2) { Some(view.name(self.institution(view))) } else { None };
        let notary = Some(self.notary(view));
        let arguments = bond::BondIssueArguments { isin, nominal, maturity, agent, notary };
        order::<bond::BondIssue>(node, &arguments, About::Bond { isin, nominal })
    }

    fn isin(&mut self) -> Isin {
        let number = self.rng.below(1_000_000_000);
        (0..10)
            .find_map(|check| format!("XS{number:09}{check}").parse().ok())
            .expect("one check digit in ten fits")
    }

    fn transfer(&mut self, view: &View<'_>, node: usize) -> Option<Order> {
        let (state, bond) = self.pick(&view.bonds(node))?;
        let nominal = self.part(bond.nominal);
        let to = self.other(view, node);
        let (isin, issuer) = (bond.terms.isin, bond.terms.issuer.name);
        let arguments = bond::BondTransferArguments {
            isin,
            nominal,
            to: view.name(to),
            issuer: Some(issuer.clone()),
            notary: Some(state.notary.name),
        };
        Some(order::<bond::BondTransfer>(node, &arguments, About::Transfer { to, isin, issuer, nominal }))
    }

    fn deliver(&mut self, view: &View<'_>, node: usize) -> Option<Order> {
        let (state, bond) = self.pick(&view.bonds(node))?;
        let nominal = self.part(bond.nominal);
        let (isin, issuer) = (bond.terms.isin, bond.terms.issuer.name.clone());
        // Mostly to somebody who has the money.
        let rich: Vec<(usize, u64)> = (0..view.institutions)
            .filter(|buyer| *buyer != node)
            .flat_map(|buyer| view.coins(buyer).into_iter().map(move |coin| (buyer, coin)))
            .filter(|(_, (_, coin, cash))| {
                coin.notary == state.notary
                    && cash.issuer.name == issuer
                    && cash.amount.currency() == nominal.currency()
            })
            .map(|(buyer, (_, _, cash))| (buyer, cash.amount.quantity()))
            .collect();
        let (buyer, has) = match self.pick(&rich) {
            Some(found) if !self.rng.chance(1, 6) => found,
            _ => (self.other(view, node), nominal.quantity()),
        };
        let highest = if self.rng.chance(1, 8) { has } else { has.min(nominal.quantity()) };
        let price =
            Amount::new(self.rng.between(1, highest.max(1)), nominal.currency()).expect("a small number");
        self.shown.push((node, buyer, isin));
        let arguments = bond::DeliveryVersusPaymentArguments {
            isin,
            nominal,
            price,
            buyer: view.name(buyer),
            cash_issuer: None,
            issuer: Some(issuer.clone()),
            notary: Some(state.notary.name),
        };
        let about = About::Deliver { buyer, isin, issuer, nominal, price };
        Some(order::<bond::DeliveryVersusPayment>(node, &arguments, about))
    }

    fn redeem(&mut self, view: &View<'_>, node: usize) -> Option<Order> {
        let (state, bond) = self.pick(&view.bonds(node))?;
        let (isin, issuer) = (bond.terms.isin, bond.terms.issuer.name);
        let currency = bond.nominal.currency();
        let arguments = bond::BondRedeemArguments {
            isin,
            currency,
            cash_issuer: None,
            issuer: Some(issuer.clone()),
            notary: Some(state.notary.name),
        };
        Some(order::<bond::BondRedeem>(node, &arguments, About::Redeem { isin, issuer, currency }))
    }

    /// Several flows that want one coin, none of which asks the vault for it.
    fn race(&mut self, view: &View<'_>, node: usize) -> Option<Vec<Order>> {
        let (coin, _, cash) = self.pick(&view.coins(node))?;
        self.raced.insert(coin);
        let (issuer, amount) = (cash.issuer.name, cash.amount);
        let runners = (0..self.rng.between(2, 3)).map(|_| {
            let to = self.rng.index(view.institutions);
            let about = About::Spend { coin, to, issuer: issuer.clone(), amount };
            order::<Spend>(node, &SpendArguments { coin, to: view.name(to) }, about)
        });
        Some(runners.collect())
    }

    /// A liar's coin, and two to tell different things about it.
    pub(crate) fn lie(&mut self, view: &View<'_>, liar: usize) -> Option<Order> {
        let (coin, ..) = self.pick(&view.coins(liar))?;
        self.raced.insert(coin);
        let first = self.other(view, liar);
        let second = if first == 0 { 1 } else { 0 };
        let arguments = LieArguments { coin, first: view.name(first), second: view.name(second) };
        Some(order::<Lie>(liar, &arguments, About::Lie))
    }

    fn talk(&mut self, view: &View<'_>, node: usize) -> Order {
        match self.rng.below(3) {
            0 => {
                let [base, quote] = [["EUR", "USD"], ["GBP", "EUR"]][self.rng.index(2)];
                let arguments = oracle::ExchangeRateArguments {
                    base: base.parse().expect("a currency"),
                    quote: quote.parse().expect("a currency"),
                    oracle: view.name(view.oracle),
                };
                order::<oracle::ExchangeRate>(node, &arguments, About::Talk)
            }
            1 => {
                let to = view.name(self.rng.index(view.parties.len()));
                let after_ms = self.rng.chance(1, 2).then(|| self.rng.below(5_000));
                order::<ping::Ping>(node, &ping::PingArguments { to, after_ms }, About::Talk)
            }
            _ => {
                let with = (0..self.rng.between(1, 3)).map(|_| view.name(self.rng.index(view.parties.len())));
                let with = with.collect();
                let (rounds, pause_ms) = (self.rng.between(1, 12), self.rng.below(40));
                order::<Chatter>(node, &ChatterArguments { with, rounds, pause_ms }, About::Talk)
            }
        }
    }

    fn nonsense(&mut self, view: &View<'_>, node: usize) -> Order {
        let nobody = Name::new("Nobody", "Nowhere", "GB").expect("a name");
        let usd: Currency = "USD".parse().expect("a currency");
        let one = Amount::new(1, usd).expect("a small number");
        match self.rng.below(4) {
            0 => {
                let lender = view.name(self.other(view, node));
                let value = if self.rng.chance(1, 2) { 0 } else { 100 };
                order::<iou::IouCreate>(
                    node,
                    &iou::IouCreateArguments { value, lender, notary: None },
                    About::Nonsense,
                )
            }
            1 => order::<cash::CashPay>(
                node,
                &cash::CashPayArguments {
                    amount: one,
                    to: nobody,
                    outputs: None,
                    issuer: None,
                    notary: None,
                },
                About::Nonsense,
            ),
            2 => order::<cash::CashIssue>(
                node,
                &cash::CashIssueArguments { amount: one, outputs: Some(2), notary: None },
                About::Nonsense,
            ),
            _ => {
                let oracle = view.name(self.other(view, node));
                let arguments = oracle::ExchangeRateArguments {
                    base: usd,
                    quote: "JPY".parse().expect("a currency"),
                    oracle,
                };
                order::<oracle::ExchangeRate>(node, &arguments, About::Nonsense)
            }
        }
    }
}
