//! The rules that a transaction obeys whatever the state of the accounts: form, balance, who is concerned.
//!
//! Written from `docs/ARCHITECTURE.md` (promises 1 and 6) and the layout of the signed forms, not from the
//! scheduler's checks.

use super::finding::Fault;
use super::item::Item;
use tally_ledger::order::MAX_RANGE;
use tally_ledger::transaction::{Kind, Leg, MAX_LEGS, MAX_SIGNERS};
use tally_ledger::{
    AccountId, AccountNumber, AccountRole, Amount, AssetId, Network, ParticipantId, order::AccountAction,
};

/// The lowest floor of an account: 2^62 minor units below zero.
const LOWEST_FLOOR: i64 = -(1 << 62);

/// A fault, with the institution and account that it is about.
pub(super) struct Wrong {
    pub(super) fault: Fault,
    pub(super) participant: Option<ParticipantId>,
    pub(super) account: Option<AccountId>,
}

impl From<Fault> for Wrong {
    fn from(fault: Fault) -> Self {
        Self { fault, participant: None, account: None }
    }
}

fn malformed(what: &'static str) -> Wrong {
    Fault::Malformed(what).into()
}

fn at_leg(leg: &Leg, fault: Fault) -> Wrong {
    let account = AccountId { participant: leg.participant, number: leg.account };
    Wrong { fault, participant: Some(leg.participant), account: Some(account) }
}

/// What the legs of each partition leave in each asset once its settlement account is counted against them.
#[derive(Default)]
pub(super) struct Remainders(Vec<(ParticipantId, AssetId, i128)>);

impl Remainders {
    fn add(&mut self, participant: ParticipantId, asset: AssetId, amount: i128) {
        let known = self.0.iter_mut().find(|(p, a, _)| *p == participant && *a == asset);
        match known {
            Some((_, _, sum)) => *sum += amount,
            None => self.0.push((participant, asset, amount)),
        }
    }

    /// Checks a transaction whose legs are all at hand for everybody; else for `of`, who is shown all that counts for it.
    fn check(&mut self, network: &Network, item: &Item<'_>, of: Option<ParticipantId>) -> Result<(), Wrong> {
        self.0.clear();
        for leg in item.legs {
            let amount = i128::from(leg.amount.0);
            self.add(leg.participant, leg.asset, amount);
            // What its settlement account gets, the holder owes more to others: its partition answers for it.
            if let AccountRole::Settlement(asset, holder) = leg.account.role() {
                self.add(holder, asset, -amount);
            }
        }
        let counts = |participant: ParticipantId| item.whole || of == Some(participant);
        for (participant, asset, difference) in &self.0 {
            if *difference != 0 && counts(*participant) {
                let asset = network.assets.get(asset.index()).map_or_else(String::new, |a| a.code.clone());
                let fault = Fault::Unbalanced { asset, difference: *difference };
                return Err(Wrong { fault, participant: Some(*participant), account: None });
            }
        }
        Ok(())
    }
}

/// Checks the form of a transaction that was made.
pub(super) fn check(
    network: &Network,
    item: &Item<'_>,
    of: Option<ParticipantId>,
    remainders: &mut Remainders,
) -> Result<Kind, Wrong> {
    let header = item.header;
    let kind = Kind::from_number(header.kind).ok_or_else(|| malformed("its kind is unknown"))?;
    if header.network != network.id.tag() {
        return Err(Fault::OtherNetwork.into());
    }
    if usize::from(header.signers) > MAX_SIGNERS {
        return Err(malformed("it has more signers than a transaction may have"));
    }
    if let Some((_, accepted)) = item.accepted
        && header.expiry <= accepted
    {
        return Err(Fault::Expired { accepted, expiry: header.expiry }.into());
    }
    if kind == Kind::Account {
        return order(network, item).map(|()| kind);
    }
    legs(network, kind, item)?;
    concerned(item)?;
    remainders.check(network, item, of)?;
    Ok(kind)
}

fn concerned(item: &Item<'_>) -> Result<(), Wrong> {
    let all = item.legs.iter().enumerate();
    let first =
        |(at, leg): &(usize, &Leg)| !item.legs[..*at].iter().any(|l| l.participant == leg.participant);
    let found = all.filter(first).count();
    let counted = item.header.participants;
    let fits = if item.whole { usize::from(counted) == found } else { usize::from(counted) >= found };
    if fits { Ok(()) } else { Err(Fault::Concerned { counted, found }.into()) }
}

fn legs(network: &Network, kind: Kind, item: &Item<'_>) -> Result<(), Wrong> {
    let count = usize::from(item.header.legs);
    if !(2..=MAX_LEGS).contains(&count) || (item.whole && count != item.legs.len()) {
        return Err(malformed("it has fewer than two legs, or more than a transaction may have"));
    }
    for (at, leg) in item.legs.iter().enumerate() {
        let again = |l: &&Leg| l.participant == leg.participant && l.account == leg.account;
        if item.legs[..at].iter().any(|l| again(&l)) {
            return Err(at_leg(leg, Fault::Malformed("two of its legs are on one account")));
        }
        one_leg(network, kind, leg)?;
    }
    let issues = item.legs.iter().any(|leg| matches!(leg.account.role(), AccountRole::Issuance(_)));
    if item.whole && issues != matches!(kind, Kind::Issue | Kind::Redeem) {
        return Err(malformed("it issues or takes back by another kind, or says so and does not"));
    }
    Ok(())
}

fn one_leg(network: &Network, kind: Kind, leg: &Leg) -> Result<(), Wrong> {
    let amount = leg.amount.0;
    if leg.participant.index() >= network.participants.len() {
        return Err(at_leg(leg, Fault::Malformed("no participant of the network has that number")));
    }
    let Some(asset) = network.assets.get(leg.asset.index()) else {
        return Err(at_leg(leg, Fault::Malformed("the network has no such asset")));
    };
    let size = amount.unsigned_abs();
    if size == 0 || size > Amount::MAX_LEG.0.unsigned_abs() {
        return Err(at_leg(leg, Fault::Malformed("a leg moves nothing, or more than 18 digits")));
    }
    let fits = match leg.account.role() {
        AccountRole::Customer => true,
        AccountRole::Own(of) => of == leg.asset,
        AccountRole::Issuance(of) => {
            of == leg.asset
                && match kind {
                    Kind::Issue => amount < 0,
                    Kind::Redeem => amount > 0,
                    Kind::Transfer | Kind::Account => false,
                }
        }
        AccountRole::Settlement(of, holder) => {
            of == leg.asset
                && asset.settled_at == leg.participant
                && holder != leg.participant
                && holder.index() < network.participants.len()
        }
    };
    if fits {
        Ok(())
    } else {
        Err(at_leg(leg, Fault::Malformed("a leg is on an account that it may not be on")))
    }
}

fn order(network: &Network, item: &Item<'_>) -> Result<(), Wrong> {
    let Some(order) = item.order else { return Err(malformed("an account order is not there")) };
    let account = Some(AccountId { participant: order.participant, number: order.number });
    let wrong = |fault| Wrong { fault, participant: Some(order.participant), account };
    if item.header.legs != 0 {
        return Err(wrong(Fault::Malformed("an account order has legs")));
    }
    if item.header.details != order.hash() {
        return Err(wrong(Fault::Malformed("it does not commit to its account order")));
    }
    if order.participant.index() >= network.participants.len() {
        return Err(malformed("no participant of the network has that number"));
    }
    if item.header.participants != 1 {
        return Err(wrong(Fault::Concerned { counted: item.header.participants, found: 1 }));
    }
    if order.number.is_institution() {
        return Err(wrong(Fault::Order("it is for an account that follows from the configuration")));
    }
    let agreed = |floor: Amount| (LOWEST_FLOOR..=0).contains(&floor.0);
    let fits = match &order.action {
        AccountAction::Open { count, asset, floor, alias, .. } => {
            (1..=MAX_RANGE).contains(count)
                && order.number.0.checked_add(*count).is_some_and(|end| end <= AccountNumber::MAX_CUSTOMERS)
                && asset.index() < network.assets.len()
                && (alias.is_empty() || *count == 1)
                && agreed(*floor)
        }
        AccountAction::SetFloor(floor) => agreed(*floor),
        AccountAction::Freeze | AccountAction::Release | AccountAction::Close => true,
    };
    if fits {
        Ok(())
    } else {
        Err(wrong(Fault::Order("a count, asset, alias or floor is not one that may be")))
    }
}
