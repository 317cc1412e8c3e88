//! Payments that go back: the legs of the payment, the other way round.

use super::{Gateway, Order, Said};
use crate::codec;
use tally_iso20022::{
    Date, OriginalPayment, PaymentReturn, Reason, ReturnOrder, ReturnedPayment, StatusReason,
    derived_return_uetr,
};
use tally_ledger::{AccountId, Amount, AssetId, Leg, Uetr};
use tally_settlement::path;

/// The most returns of one message: each payment that goes back is looked up in the journal.
const MAX_RETURNS: usize = 100;

impl Gateway<'_> {
    /// For each return of the message, in order: what makes it, or why it is refused.
    pub fn returns(&self, message: &PaymentReturn, today: Date) -> Vec<Result<Order, Reason>> {
        if message.returns.len() > MAX_RETURNS {
            let text = format!("at most {MAX_RETURNS} payments go back in one message");
            return vec![Err(Reason::new(StatusReason::AG03, text)); message.returns.len()];
        }
        message
            .instructions()
            .map(|(returned, order)| self.give_back(message, returned, order.map_err(Clone::clone)?, today))
            .collect()
    }

    fn give_back(
        &self,
        message: &PaymentReturn,
        returned: &ReturnedPayment,
        order: &ReturnOrder,
        today: Date,
    ) -> Result<Order, Reason> {
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
        let legs = self.accounts.settled(original)?;
        let made = self.made(&legs).ok_or_else(|| {
            let text = format!("the transaction {original} is no payment from one account to one other");
            Reason::new(StatusReason::NARR, text)
        })?;
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
        let uetr = Uetr(derived_return_uetr(&original.0));
        let said = Said::by_return(message, returned, order);
        Ok(Order { uetr, legs, signers, details: said.hash(), said: Some(said) })
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
