//! A long statement as pages, each with the balances between which its entries lead.

use std::num::NonZeroUsize;

use crate::amount::{MAX_AMOUNT_SCALE, Money};
use crate::error::WriteError;

use super::totals::{check_balances, check_currency, signed};
use super::{AccountReport, Balance, BalanceKind, CreditDebit, EntryStatus, Page, Statement};

/// Splits a statement into pages of at most `most` entries, at least one page. Each page opens with what the
/// one before closes with, and these balances are marked as intermediate; all other balances and the
/// additional information stand on the last page.
///
/// # Errors
/// If the statement lacks an opening or closing booked balance, its entries do not lead from one to the other,
/// its amounts are of several currencies, or a balance between two pages has more than 18 digits.
pub fn statement_pages(statement: &Statement, most: NonZeroUsize) -> Result<Vec<Statement>, WriteError> {
    check_currency(&statement.report, &statement.balances)?;
    check_balances(statement)?;
    let balance = |kind: BalanceKind| {
        let found = statement.balances.iter().find(|balance| balance.kind == kind);
        found.cloned().ok_or_else(|| WriteError::NoBalance { statement: statement.report.id.clone() })
    };
    let (mut opening, closing) = (balance(BalanceKind::OpeningBooked)?, balance(BalanceKind::ClosingBooked)?);
    let entries = &statement.report.entries;
    let scales = entries.iter().map(|entry| entry.amount.scale);
    let scale = scales.chain([opening.amount.scale, closing.amount.scale]).max().unwrap_or_default();
    let mut parts: Vec<_> = entries.chunks(most.get()).collect();
    if parts.is_empty() {
        parts.push(&[]);
    }
    let last = parts.len() - 1;
    let mut pages = Vec::with_capacity(parts.len());
    for (place, part) in parts.into_iter().enumerate() {
        let close = if place == last {
            closing.clone()
        } else {
            let booked = part.iter().filter(|entry| entry.status == EntryStatus::Booked);
            let changes = booked.clone().filter_map(|entry| signed(&entry.amount, entry.side));
            let before = signed(&opening.amount, opening.side).unwrap_or_default();
            let units = changes.fold(before, i128::saturating_add);
            let date = booked.filter_map(|entry| entry.booked_on).next_back().unwrap_or(opening.date);
            Balance { date, ..between(&closing, units, scale, &statement.report.id)? }
        };
        let mut balances = vec![opening, close.clone()];
        if place == last {
            let ends = [BalanceKind::OpeningBooked, BalanceKind::ClosingBooked];
            balances.extend(statement.balances.iter().filter(|other| !ends.contains(&other.kind)).cloned());
        }
        let number = u32::try_from(place + 1).unwrap_or(u32::MAX);
        pages.push(Statement {
            report: AccountReport {
                page: Some(Page { number, is_last: place == last }),
                entries: part.to_vec(),
                additional: statement.report.additional.clone().filter(|_| place == last),
                ..without_entries(&statement.report)
            },
            balances,
        });
        opening = Balance { kind: BalanceKind::OpeningBooked, ..close };
    }
    Ok(pages)
}

/// An intermediate closing balance of so many units of the fifth decimal.
fn between(closing: &Balance, units: i128, scale: u8, statement: &str) -> Result<Balance, WriteError> {
    let decimals = u32::from(MAX_AMOUNT_SCALE.saturating_sub(scale));
    let digits = u64::try_from(units.unsigned_abs() / 10u128.pow(decimals));
    let digits = digits.map_err(|_| WriteError::NoBalance { statement: statement.to_owned() })?;
    Ok(Balance {
        is_intermediate: true,
        amount: Money::from_minor_units(closing.amount.currency, digits, scale),
        side: if units < 0 { CreditDebit::Debit } else { CreditDebit::Credit },
        ..closing.clone()
    })
}

fn without_entries(report: &AccountReport) -> AccountReport {
    AccountReport {
        id: report.id.clone(),
        page: None,
        electronic_sequence: report.electronic_sequence,
        created: report.created.clone(),
        period: report.period.clone(),
        account: report.account.clone(),
        entries: Vec::new(),
        additional: None,
    }
}
