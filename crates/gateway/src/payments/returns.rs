//! Payments that go back: the legs of the payment, the other way round.

use super::{Gateway, Instructions, Order, Returned, Said, Settled};
use crate::codec;
use std::collections::HashMap;
use tally_iso20022::{
    Date, OriginalPayment, PaymentReturn, Reason, ReturnOrder, ReturnedPayment, StatusReason,
};
use tally_ledger::{AccountId, Amount, AssetId, Leg, Uetr};
use tally_settlement::path;
use tally_settlement::recent::Reference;

/// The most returns of one message: each payment that goes back is looked up in the journal once, and what may have sent it back
/// before once.
pub(super) const MAX_RETURNS: usize = 16;

/// What was looked up for one message, by reference.
#[derive(Default)]
struct Found {
    payments: HashMap<Uetr, Result<Option<Settled>, Reason>>,
    returns: HashMap<Uetr, Result<Option<Returned>, Reason>>,
}

impl Gateway<'_> {
    /// For each return of the message, in order: what makes it, or why it is refused.
    ///
    /// What the request itself says is judged first. A payment in which the user's institution has no part is answered
    /// as one that there is not, before anything of it is looked at; and of the others only the institution that was paid is
    /// told the amount. What goes back already is not sent back once more: a message that may be a copy is told what became of
    /// it, any other is refused.
    pub fn returns(&self, message: &PaymentReturn, is_copy: bool, today: Date) -> Vec<Result<Order, Reason>> {
        if message.returns.len() > MAX_RETURNS {
            let text = format!("at most {MAX_RETURNS} payments go back in one message");
            return vec![Err(Reason::new(StatusReason::AG03, text)); message.returns.len()];
        }
        if let Err(reason) = self.may_instruct(message) {
            return vec![Err(reason); message.returns.len()];
        }
        let mut found = Found::default();
        message
            .instructions()
            .map(|(returned, order)| {
                let order =
                    self.give_back(message, returned, order.map_err(Clone::clone)?, today, &mut found);
                order.and_then(|(order, earlier)| once(order, earlier, is_copy))
            })
            .collect()
    }

    /// Whether the journal is searched for what the message is about: it says itself that it may be.
    pub fn searches(&self, instructions: &Instructions) -> bool {
        match instructions {
            Instructions::Payments(_) => false,
            Instructions::Returns(message, _) => {
                message.returns.len() <= MAX_RETURNS && self.may_instruct(message).is_ok()
            }
        }
    }

    /// That the user acts for the institution that the message says instructs, if that is one of the network.
    fn may_instruct(&self, message: &PaymentReturn) -> Result<(), Reason> {
        let stated = message.instructing_agent.as_ref().and_then(|agent| agent.bic);
        match stated.and_then(|bic| self.network.participant(bic.as_str())) {
            Some((participant, _)) => self.may_debit(participant),
            None => Ok(()),
        }
    }

    fn give_back(
        &self,
        message: &PaymentReturn,
        returned: &ReturnedPayment,
        order: &ReturnOrder,
        today: Date,
        found: &mut Found,
    ) -> Result<(Order, Option<Returned>), Reason> {
        let date = order.settlement_date.or(message.settlement_date);
        if let Some(date) = date.filter(|date| *date > today) {
            let text = format!("the settlement date {date} lies ahead; today is {today}");
            return Err(Reason::new(StatusReason::DT01, text));
        }
        let Some(original) = reference(&returned.original) else {
            let text = "the payment that goes back is found by its UETR, or by the network's reference as its transaction \
                        identification, and the message states neither";
            return Err(Reason::new(StatusReason::NARR, text));
        };
        let settled = || self.accounts.settled(self.user, original);
        let paid = found.payments.entry(original).or_insert_with(settled).clone()?;
        let has_part = |paid: &Settled| paid.legs.iter().any(|leg| self.user.acts_for(leg.participant));
        let Settled { legs, at } = paid.filter(has_part).ok_or_else(|| {
            let text = format!("the network settled no payment with the reference {original}");
            Reason::new(StatusReason::NARR, text)
        })?;
        let made = self.made(&legs).ok_or_else(|| {
            let text = format!("the transaction {original} is no payment from one account to one other");
            Reason::new(StatusReason::NARR, text)
        })?;
        self.may_debit(made.to.participant)?;
        let asset = &self.network.assets[made.asset.index()];
        let code = order.amount.currency_code();
        if code != asset.code {
            let text = format!("the payment was made in {}, and goes back in it, not in {code}", asset.code);
            return Err(Reason::new(StatusReason::AM03, text));
        }
        let amount = Amount(order.amount.minor_units(asset.exponent)?);
        if amount > made.amount {
            let paid = made.amount.display(asset.exponent);
            let text = format!("{paid} {code} was paid, and no more than that goes back");
            return Err(Reason::new(StatusReason::AM09, text));
        }
        let legs = path::payment(self.network, made.to, made.from, made.asset, amount);
        let signers = self.signers(&legs);
        let uetr = self.references.of_return(self.institution_of(Some(made.to.participant)), original);
        let reference = Reference { participant: made.to.participant, uetr };
        // What follows on the payment came after it.
        let returned_before = || self.accounts.returned(reference, at);
        let earlier = found.returns.entry(uetr).or_insert_with(returned_before).clone()?;
        let said = Said::by_return(message, returned, order);
        Ok((Order { uetr, legs, signers, details: said.hash(), said: Some(said), first: None }, earlier))
    }

    /// From where to where legs move how much of what, if they are one payment.
    fn made(&self, legs: &[Leg]) -> Option<Made> {
        let (first, last) = (legs.first()?, legs.last()?);
        let made = Made {
            from: AccountId { participant: first.participant, number: first.account },
            to: AccountId { participant: last.participant, number: last.account },
            asset: last.asset,
            amount: last.amount,
        };
        let is_one = made.amount > Amount::ZERO
            && legs == path::payment(self.network, made.from, made.to, made.asset, made.amount);
        is_one.then_some(made)
    }
}

/// The order, if its payment did not go back before. The ledger itself refuses a second one for as long as it remembers the
/// first; this holds afterwards too.
fn once(order: Order, earlier: Option<Returned>, is_copy: bool) -> Result<Order, Reason> {
    let Some(Returned { answer, legs, text }) = earlier else { return Ok(order) };
    let is_same = legs.iter().all(|leg| order.legs.contains(leg));
    if is_copy && is_same {
        return Ok(Order { first: Some(answer), ..order });
    }
    Err(Reason::new(StatusReason::AM05, text))
}

/// The reference of the payment that a message is about: its UETR, or where the network gave it one that is none by the
/// standard, that as the transaction identification, in 32 digits.
pub fn reference(original: &OriginalPayment) -> Option<Uetr> {
    let named = || {
        let bytes = codec::from_hex(original.transaction_id.as_deref()?.as_bytes()).ok()?;
        Some(Uetr(bytes.try_into().ok()?))
    };
    original.uetr.map(Uetr).or_else(named)
}

/// A payment that was made.
struct Made {
    from: AccountId,
    to: AccountId,
    asset: AssetId,
    amount: Amount,
}
