//! Statements and notifications read back, and do not contradict themselves.

use tally_iso20022::{
    AccountReport, BalanceKind, CreditDebit, EntryDetails, Limits, Money, NotificationMessage, Statement,
    StatementMessage, WriteError, notification, parse_notification, parse_statement, statement,
};

use crate::samples::{euros, initiation, notifications, statements};

fn read(written: &str) -> StatementMessage {
    parse_statement(written.as_bytes(), &Limits::default()).unwrap()
}

/// Amounts are read without trailing zeros.
fn normal(money: Money) -> Money {
    Money::from_minor_units(money.currency, money.decimal().digits(), money.decimal().scale())
}

fn normal_report(mut report: AccountReport) -> AccountReport {
    for entry in &mut report.entries {
        entry.amount = normal(entry.amount);
        for details in &mut entry.details {
            details.amount = details.amount.map(|(amount, side)| (normal(amount), side));
            for part in &mut details.remittance.structured {
                part.remitted = part.remitted.map(normal);
            }
        }
    }
    report
}

#[test]
fn a_statement_reads_back_whole() {
    let mut expected = statements();
    for statement in &mut expected.statements {
        statement.report = normal_report(statement.report.clone());
        for balance in &mut statement.balances {
            balance.amount = normal(balance.amount);
        }
    }
    assert_eq!(read(&statement(&statements()).unwrap()), expected);
}

#[test]
fn a_notification_reads_back_whole() {
    let NotificationMessage { header, notifications: reports } = notifications();
    let expected =
        NotificationMessage { header, notifications: reports.into_iter().map(normal_report).collect() };
    let written = notification(&notifications()).unwrap();
    assert_eq!(parse_notification(written.as_bytes(), &Limits::default()).unwrap(), expected);
    assert!(parse_statement(written.as_bytes(), &Limits::default()).is_err());
}

#[test]
fn what_a_payment_said_is_what_the_statement_says() {
    let message = initiation(include_str!("../../src/tests/initiation.xml"));
    let payment = &message.payments[0];
    let transfer = payment.transfer.as_ref().unwrap();
    let details = EntryDetails::of(&message, payment, CreditDebit::Credit);
    let mut reported = statements();
    reported.statements[0].report.entries[0].details = vec![details.clone()];
    let read = read(&statement(&reported).unwrap());
    let read = &read.statements[0].report.entries[0].details[0];
    assert_eq!(*read, details);
    assert_eq!((read.uetr, read.end_to_end_id.as_deref()), (payment.uetr, Some("E2E-1")));
    assert_eq!(read.creditor.as_ref(), Some(&transfer.creditor));
    assert_eq!(read.remittance.unstructured, ["Invoice 7"]);
}

#[test]
fn entries_lead_from_the_opening_to_the_closing_balance() {
    let mut wrong = statements();
    wrong.statements[0].report.entries[0].amount = euros(1_024);
    let error = statement(&wrong).unwrap_err();
    assert!(
        matches!(&error, WriteError::Balance { found, stated, .. } if found == "-1.99" && stated == "-2"),
        "{error}"
    );
    let mut pending = statements();
    pending.statements[0].report.entries[2].amount = euros(1);
    assert!(statement(&pending).is_ok(), "what is not booked does not count");
    let mut open = statements();
    open.statements[0].report.entries.clear();
    assert!(statement(&open).is_err());
    open.statements[0].balances.retain(|balance| balance.kind != BalanceKind::ClosingBooked);
    assert!(statement(&open).is_ok(), "there is nothing to compare with");
}

#[test]
fn a_statement_is_of_one_currency() {
    let mut mixed = statements();
    mixed.statements[0].report.entries[2].amount.currency = *b"USD";
    assert!(matches!(
        statement(&mixed).unwrap_err(),
        WriteError::Currency { expected, found, .. } if expected == "EUR" && found == "USD"
    ));
    let mut mixed = notifications();
    mixed.notifications[0].entries[2].amount.currency = *b"USD";
    assert!(matches!(notification(&mixed).unwrap_err(), WriteError::Currency { .. }));
}

fn refused_field(change: impl Fn(&mut Statement)) -> String {
    let mut message = statements();
    change(&mut message.statements[0]);
    match statement(&message).unwrap_err() {
        WriteError::Field { field, .. } => field,
        other => panic!("{other}"),
    }
}

#[test]
fn what_the_schema_does_not_allow_is_not_written() {
    assert_eq!(refused_field(|part| part.report.id.clear()), "BkToCstmrStmt/Stmt/Id");
    assert_eq!(refused_field(|part| part.balances.clear()), "BkToCstmrStmt/Stmt/Bal");
    assert_eq!(
        refused_field(|part| part.report.entries[0].additional = Some("é".repeat(501))),
        "BkToCstmrStmt/Stmt/Ntry/AddtlNtryInf"
    );
    assert_eq!(
        refused_field(|part| part.report.electronic_sequence = Some(1_000_000_000_000_000_000)),
        "BkToCstmrStmt/Stmt/ElctrncSeqNb"
    );
    assert_eq!(
        refused_field(|part| part.report.page.iter_mut().for_each(|page| page.number = 100_000)),
        "BkToCstmrStmt/Stmt/StmtPgntn/PgNb"
    );
    let none = StatementMessage { statements: Vec::new(), ..statements() };
    assert!(statement(&none).is_err());
    let none = NotificationMessage { notifications: Vec::new(), ..notifications() };
    assert!(notification(&none).is_err());
}

#[test]
fn a_statement_that_is_none_is_refused_with_its_place() {
    let written = statement(&statements()).unwrap();
    for (from, to, place) in [
        ("<CdtDbtInd>DBIT<", "<CdtDbtInd>OUT<", "CdtDbtInd"),
        ("<LastPgInd>true<", "<LastPgInd>yes<", "LastPgInd"),
        ("<ElctrncSeqNb>61<", "<ElctrncSeqNb>6 1<", "ElctrncSeqNb"),
        ("<Sts>\n          <Cd>BOOK<", "<Sts><Cd>DONE<", "Sts/Cd"),
        ("<Fmly>", "<Fmly><Other/>", "Other"),
        ("<RltdPties>", "<RltdPties>x", "RltdPties"),
        ("camt.053.001.08", "camt.053.001.02", ""),
    ] {
        assert!(written.contains(from), "{from}");
        let error =
            parse_statement(written.replacen(from, to, 1).as_bytes(), &Limits::default()).unwrap_err();
        assert!(error.path.clone().unwrap_or_default().ends_with(place), "{from}: {error}");
        assert!(error.position.is_some() || place.is_empty());
    }
    let few = Limits { payments: 4, ..Limits::default() };
    assert!(parse_statement(written.as_bytes(), &few).unwrap_err().what.contains("more than 4"));
    let enough = Limits { payments: 5, ..Limits::default() };
    assert!(parse_statement(written.as_bytes(), &enough).is_ok());
}
