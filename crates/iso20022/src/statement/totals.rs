//! Whether entries and balances belong together, and what the entries add up to.

use crate::amount::{Decimal, MAX_AMOUNT_SCALE, MAX_DIGITS, Money};
use crate::error::WriteError;
use crate::totals::in_decimals;
use crate::xml::Writer;

use super::{AccountReport, Balance, BalanceKind, CreditDebit, EntryStatus, Statement, StatementEntry};

/// Units of the fifth decimal, below zero for a debit.
pub(super) fn signed(amount: &Money, side: CreditDebit) -> Option<i128> {
    let units = i128::try_from(amount.in_smallest_units()?).ok()?;
    Some(if side == CreditDebit::Credit { units } else { -units })
}

/// Checks that all amounts are of one currency.
pub(super) fn check_currency(report: &AccountReport, balances: &[Balance]) -> Result<(), WriteError> {
    let amounts = balances.iter().map(|balance| balance.amount);
    let mut amounts = amounts.chain(report.entries.iter().map(|entry| entry.amount));
    let Some(first) = amounts.next() else { return Ok(()) };
    amounts.find(|amount| amount.currency != first.currency).map_or(Ok(()), |other| {
        Err(WriteError::Currency {
            statement: report.id.clone(),
            expected: first.currency_code(),
            found: other.currency_code(),
        })
    })
}

/// Checks that the booked entries lead from the opening to the closing booked balance, if both are there.
pub(super) fn check_balances(statement: &Statement) -> Result<(), WriteError> {
    let balance = |kind: &BalanceKind| {
        let found = statement.balances.iter().find(|balance| balance.kind == *kind)?;
        signed(&found.amount, found.side)
    };
    let ends = (balance(&BalanceKind::OpeningBooked), balance(&BalanceKind::ClosingBooked));
    let (Some(opening), Some(stated)) = ends else { return Ok(()) };
    let booked = statement.report.entries.iter().filter(|entry| entry.status == EntryStatus::Booked);
    let found = booked
        .filter_map(|entry| signed(&entry.amount, entry.side))
        .fold(opening, |balance, change| balance.saturating_add(change));
    if found == stated {
        return Ok(());
    }
    let shown = |units: i128| {
        let sign = if units < 0 { "-" } else { "" };
        format!("{sign}{}", in_decimals(units.unsigned_abs()))
    };
    let statement = statement.report.id.clone();
    Err(WriteError::Balance { statement, found: shown(found), stated: shown(stated) })
}

/// How many entries there are, and what they add up to.
pub(super) fn write(xml: &mut Writer, entries: &[StatementEntry]) {
    if entries.is_empty() {
        return;
    }
    let of = |side: CreditDebit| entries.iter().filter(move |entry| entry.side == side);
    let sum = |side| {
        let units = of(side).filter_map(|entry| entry.amount.in_smallest_units());
        units.fold(0u128, u128::saturating_add)
    };
    let (credits, debits) = (sum(CreditDebit::Credit), sum(CreditDebit::Debit));
    xml.element("TxsSummry", |xml| {
        xml.element("TtlNtries", |xml| {
            number_and_sum(xml, entries.len(), credits.saturating_add(debits));
            if let Some(net) = decimal(credits.abs_diff(debits)) {
                let side = if credits >= debits { CreditDebit::Credit } else { CreditDebit::Debit };
                xml.element("TtlNetNtry", |xml| {
                    xml.text("Amt", &net);
                    xml.text("CdtDbtInd", side.code());
                });
            }
        });
        for (name, side, total) in
            [("TtlCdtNtries", CreditDebit::Credit, credits), ("TtlDbtNtries", CreditDebit::Debit, debits)]
        {
            xml.element(name, |xml| number_and_sum(xml, of(side).count(), total));
        }
    });
}

/// A sum that has more digits than the standard's decimals is left out.
fn number_and_sum(xml: &mut Writer, number: usize, sum: u128) {
    xml.text("NbOfNtries", &number.to_string());
    if let Some(sum) = decimal(sum) {
        xml.text("Sum", &sum);
    }
}

fn decimal(units: u128) -> Option<String> {
    let digits = u64::try_from(units).ok()?;
    let decimal = Decimal::new(digits, MAX_AMOUNT_SCALE);
    let fits = decimal.digits().checked_ilog10().unwrap_or(0) < u32::from(MAX_DIGITS);
    fits.then(|| decimal.to_string())
}
