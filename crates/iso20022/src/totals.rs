//! Whether what a header states of its payments is true.

use crate::amount::{Decimal, MAX_AMOUNT_SCALE, Money};
use crate::reason::{Reason, StatusReason};
use crate::tree::{Element, Fault};

/// Refuses the message at the payment that is one too many.
pub(crate) fn check_room(payment: Element<'_>, read: usize, most: usize) -> Result<(), Fault> {
    if read < most {
        return Ok(());
    }
    Err(payment.fault(StatusReason::AM18, format!("the message has more than {most} payments; split it")))
}

/// What is wrong with a stated number of payments.
pub(crate) fn number_differs(stated: u32, found: usize) -> Option<String> {
    (u32::try_from(found) != Ok(stated)).then(|| format!("{stated} payments are stated, {found} are there"))
}

/// What is wrong with a stated sum. Nothing, if an amount could not be read: that payment is refused
/// for itself, and the sum proves nothing.
pub(crate) fn sum_differs(stated: Decimal, amounts: &[Option<Money>]) -> Option<String> {
    let amounts: Option<Vec<Money>> = amounts.iter().copied().collect();
    let found = sum(&amounts?)?;
    (stated.in_units(MAX_AMOUNT_SCALE) != Some(found))
        .then(|| format!("{stated} is stated, the payments add up to {}", in_decimals(found)))
}

/// Compares what the group header states with the payments of the message.
pub(crate) fn group_rejection(
    number: u32,
    control_sum: Option<Decimal>,
    total: Option<Money>,
    total_name: &str,
    amounts: &[Option<Money>],
) -> Option<Reason> {
    if let Some(what) = number_differs(number, amounts.len()) {
        return Some(Reason::new(StatusReason::AM19, format!("GrpHdr/NbOfTxs: {what}")));
    }
    if let Some(what) = control_sum.and_then(|stated| sum_differs(stated, amounts)) {
        return Some(Reason::new(StatusReason::AM10, format!("GrpHdr/CtrlSum: {what}")));
    }
    let total = total?;
    let other = amounts.iter().flatten().find(|amount| amount.currency != total.currency);
    let what = match other {
        Some(amount) => Some(format!("the total is in {}, a payment is {amount}", total.currency_code())),
        None => sum_differs(total.decimal(), amounts),
    };
    what.map(|what| Reason::new(StatusReason::AM10, format!("GrpHdr/{total_name}: {what}")))
}

/// The sum in units of the fifth decimal. An amount is below 10^18, so that is below 10^23, and
/// the sum of as many as fit into memory is far from the end of a `u128`.
fn sum(amounts: &[Money]) -> Option<u128> {
    amounts
        .iter()
        .try_fold(0u128, |sum, amount| sum.checked_add(amount.decimal().in_units(MAX_AMOUNT_SCALE)?))
}

/// Units of the fifth decimal as a number.
pub(crate) fn in_decimals(units: u128) -> String {
    let one = 10u128.pow(u32::from(MAX_AMOUNT_SCALE));
    let fraction = format!("{:05}", units % one);
    match fraction.trim_end_matches('0') {
        "" => (units / one).to_string(),
        fraction => format!("{}.{fraction}", units / one),
    }
}
