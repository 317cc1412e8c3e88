//! Long statements as pages.

use std::num::NonZeroUsize;

use tally_iso20022::{
    Balance, BalanceKind, CreditDebit, Date, Statement, StatementMessage, WriteError, statement,
    statement_pages,
};

use crate::samples::{euros, statements};

/// Opens with 3.00, goes to -7.25, closes with -2.00.
fn sample() -> Statement {
    let mut statement = statements().statements.remove(0);
    for balance in &mut statement.balances {
        balance.is_intermediate = false;
    }
    statement
}

fn pages(statement: &Statement, most: usize) -> Vec<Statement> {
    statement_pages(statement, NonZeroUsize::new(most).unwrap()).unwrap()
}

fn balance(page: &Statement, kind: &BalanceKind) -> Balance {
    page.balances.iter().find(|balance| balance.kind == *kind).unwrap().clone()
}

#[test]
fn each_page_opens_with_what_the_one_before_closes_with() {
    let pages = pages(&sample(), 1);
    let numbers: Vec<_> =
        pages.iter().map(|page| page.report.page.map(|page| (page.number, page.is_last)).unwrap()).collect();
    assert_eq!(numbers, [(1, false), (2, false), (3, true)]);
    for pair in pages.windows(2) {
        let closed = balance(&pair[0], &BalanceKind::ClosingBooked);
        let opened = balance(&pair[1], &BalanceKind::OpeningBooked);
        assert_eq!((closed.amount, closed.side, closed.date), (opened.amount, opened.side, opened.date));
        assert!(closed.is_intermediate && opened.is_intermediate);
    }
    let first = balance(&pages[0], &BalanceKind::ClosingBooked);
    assert_eq!((first.amount, first.side), (euros(725), CreditDebit::Debit));
    assert_eq!(first.date, Date::new(2025, 3, 3).unwrap());
    let whole = sample();
    for (page, kind) in [(&pages[0], BalanceKind::OpeningBooked), (&pages[2], BalanceKind::ClosingBooked)] {
        assert_eq!(balance(page, &kind), balance(&whole, &kind), "the ends are those of the statement");
    }
    let entries: Vec<_> = pages.iter().flat_map(|page| page.report.entries.clone()).collect();
    assert_eq!(entries, whole.report.entries);
    let available =
        |page: &Statement| page.balances.iter().any(|other| other.kind == BalanceKind::ClosingAvailable);
    assert_eq!(pages.iter().map(available).collect::<Vec<_>>(), [false, false, true]);
    assert_eq!(
        pages.iter().map(|page| page.report.additional.is_some()).collect::<Vec<_>>(),
        [false, false, true]
    );
}

#[test]
fn pages_are_statements_that_can_be_written() {
    for most in 1..5 {
        for page in pages(&sample(), most) {
            let message = StatementMessage { statements: vec![page], ..statements() };
            assert!(statement(&message).is_ok(), "{most}");
        }
    }
}

#[test]
fn a_statement_without_entries_is_one_page() {
    let mut empty = sample();
    empty.report.entries.clear();
    empty.balances[1] = Balance { kind: BalanceKind::ClosingBooked, ..empty.balances[0].clone() };
    let pages = pages(&empty, 10);
    assert_eq!(pages.len(), 1);
    assert!(pages[0].balances.iter().all(|balance| !balance.is_intermediate));
}

#[test]
fn what_cannot_be_split_is_refused() {
    let one = NonZeroUsize::MIN;
    let mut open = sample();
    open.balances.remove(0);
    assert!(matches!(statement_pages(&open, one), Err(WriteError::NoBalance { .. })));
    let mut wrong = sample();
    wrong.report.entries[0].amount = euros(1);
    assert!(matches!(statement_pages(&wrong, one), Err(WriteError::Balance { .. })));
}
