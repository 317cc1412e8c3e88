//! Messages with every element that is written.

use tally_iso20022::{
    AccountId, AccountReport, Agent, Alias, AppHeader, Assignment, Balance, BalanceKind, BankTransactionCode,
    Bic, CANCELLATION_DEFINITION, Cancellation, CancellationDecision, CancellationRejection,
    CancellationRequest, Case, ChargesBearer, Coded, CreditDebit, CreditorReference, Date, Decimal,
    EntryDetails, EntryStatus, GivenReason, Iban, Limits, Message, Money, NotificationMessage,
    OriginalPayment, Outcome, Page, Party, PaymentReturn, RETURN_DEFINITION, Reason, ReferredDocument,
    Remittance, ReportContext, ReportHeader, ReportedAccount, Resolution, ReturnNote, ReturnOrder,
    ReturnedPayment, SettlementMethod, Statement, StatementEntry, StatementMessage, StatusReason,
    StructuredRemittance, answer, group_answer, parse, refused_by_form, return_status_report,
    status_report as write_status_report, with_header,
};

const INITIATION: &str = include_str!("../../src/tests/initiation.xml");
const CUSTOMER_TRANSFER: &[u8] = include_bytes!("../data/pacs.008.001.07.xml");

pub(crate) fn context() -> ReportContext {
    ReportContext {
        message_id: "REPORT-1".to_owned(),
        created: "2025-03-03T09:30:01.25Z".to_owned(),
        instructing_agent: Bic::parse("TSCBDEFF").map(Agent::from),
        instructed_agent: Some(Agent {
            bic: Bic::parse("ALPHDEFFXXX"),
            member_id: Some("12345".to_owned()),
            name: Some("Alpha <Bank> & Söhne".to_owned()),
        }),
    }
}

fn settled() -> Outcome {
    Outcome::Settled {
        accepted: Some("2025-03-03T09:30:00Z".to_owned()),
        settled_on: Date::new(2025, 3, 3),
        reference: Some("T-42".to_owned()),
    }
}

pub(crate) fn initiation(xml: &str) -> Message {
    parse(xml.as_bytes(), &Limits::default()).unwrap()
}

/// The sample with its payment four times.
fn batch() -> String {
    let (start, end) = (INITIATION.find("<CdtTrfTxInf>").unwrap(), INITIATION.find("</PmtInf>").unwrap());
    format!("{}{}{}", &INITIATION[..start], INITIATION[start..end].repeat(4), &INITIATION[end..])
        .replace("<NbOfTxs>1<", "<NbOfTxs>4<")
        .replace("<CtrlSum>10.25<", "<CtrlSum>41.00<")
}

fn outcomes() -> [Outcome; 4] {
    let words = "the account has 3 < 10 & \"no\" more ".repeat(6);
    [
        settled(),
        Outcome::Rejected(Reason::new(StatusReason::AM04, words)),
        Outcome::Pending,
        Outcome::InProcess,
    ]
}

pub(crate) fn status_report() -> String {
    let message = parse(CUSTOMER_TRANSFER, &Limits::default()).unwrap();
    let refused: Vec<Outcome> = refused_by_form(&message).into_iter().flatten().collect();
    write_status_report(&message, &refused, &context()).unwrap()
}

pub(crate) fn unread_report() -> String {
    group_answer(&parse(b"<Document/>", &Limits::default()).unwrap_err(), &context()).unwrap()
}

pub(crate) fn initiation_report() -> String {
    answer(&initiation(&batch()), &outcomes(), &context()).unwrap()
}

pub(crate) fn old_initiation_report() -> String {
    let old = batch()
        .replace("pain.001.001.09", "pain.001.001.03")
        .replace("BICFI", "BIC")
        .replace("<Dt>2025-03-04</Dt>", "2025-03-04")
        .replace("<UETR>eb6305c9-1f7f-49de-aed0-16487c27b42d</UETR>", "");
    answer(&initiation(&old), &outcomes(), &context()).unwrap()
}

pub(crate) fn refused_group() -> String {
    let message = initiation(&INITIATION.replacen("<CtrlSum>10.25<", "<CtrlSum>10.26<", 1));
    let refused: Vec<Outcome> = refused_by_form(&message).into_iter().flatten().collect();
    answer(&message, &refused, &context()).unwrap()
}

pub(crate) fn euros(cents: u64) -> Money {
    Money::from_minor_units(*b"EUR", cents, 2)
}

fn day(day: u8) -> Date {
    Date::new(2025, 3, day).unwrap()
}

pub(crate) fn customer(name: &str, iban: &str) -> Party {
    Party {
        name: Some(name.to_owned()),
        account: Iban::parse(iban).map(AccountId::Iban),
        account_currency: Some(*b"EUR"),
        ..Party::default()
    }
}

fn account() -> ReportedAccount {
    ReportedAccount {
        id: Iban::parse("DE89370400440532013000").map(AccountId::Iban).unwrap(),
        currency: Some(*b"EUR"),
        name: Some("Household".to_owned()),
        owner: Some(Party {
            name: Some("Alice & Co".to_owned()),
            identification: Some("HRB 4711".to_owned()),
            bic: Bic::parse("ALICDEFF"),
            ..Party::default()
        }),
        servicer: Bic::parse("ALPHDEFFXXX").map(Agent::from),
    }
}

fn full_details() -> EntryDetails {
    EntryDetails {
        message_id: Some("MSG-1".to_owned()),
        servicer_reference: Some("T-42".to_owned()),
        payment_information_id: Some("BLOCK-1".to_owned()),
        instruction_id: Some("INSTR-1".to_owned()),
        end_to_end_id: Some("E2E-1".to_owned()),
        uetr: initiation(INITIATION).payments[0].uetr,
        transaction_id: Some("TX-1".to_owned()),
        amount: Some((euros(1_025), CreditDebit::Debit)),
        charges: Some(ChargesBearer::Shared),
        debtor: Some(Party {
            identification: Some("A-1".to_owned()),
            is_person: true,
            ..customer("Alice", "DE89370400440532013000")
        }),
        ultimate_debtor: Some(Party { name: Some("Anna".to_owned()), ..Party::default() }),
        creditor: Some(Party {
            name: Some("Bob".to_owned()),
            account: Some(AccountId::Other { id: "123-456".to_owned(), scheme: Some("BBAN".to_owned()) }),
            alias: Some(Alias { kind: Some("TELE".to_owned()), id: "+33123456789".to_owned() }),
            ..Party::default()
        }),
        ultimate_creditor: Some(Party::from(Agent {
            bic: Bic::parse("BETAFRPP"),
            member_id: Some("30004".to_owned()),
            name: Some("Beta".to_owned()),
        })),
        debtor_agent: Bic::parse("ALPHDEFF").map(Agent::from),
        creditor_agent: Bic::parse("BETAFRPP").map(Agent::from),
        purpose: Some(Coded::Code("RENT".to_owned())),
        remittance: Remittance {
            unstructured: vec!["Invoice 7".to_owned(), "and 8".to_owned()],
            structured: vec![StructuredRemittance {
                documents: vec![ReferredDocument {
                    kind: Some(Coded::Code("CINV".to_owned())),
                    number: Some("7".to_owned()),
                    date: Some(day(1)),
                }],
                remitted: Some(euros(1_025)),
                creditor_reference: Some(CreditorReference {
                    kind: Some(Coded::Code("SCOR".to_owned())),
                    issuer: Some("ISO".to_owned()),
                    reference: Some("RF18539007547034".to_owned()),
                }),
                additional: vec!["with thanks".to_owned()],
            }],
        },
        returned: None,
        additional: Some("by hand".to_owned()),
    }
}

fn entries() -> Vec<StatementEntry> {
    vec![
        StatementEntry {
            reference: Some("1".to_owned()),
            amount: euros(1_025),
            side: CreditDebit::Debit,
            is_reversal: false,
            status: EntryStatus::Booked,
            booked_on: Some(day(3)),
            value_on: Some(day(4)),
            servicer_reference: Some("T-42".to_owned()),
            code: BankTransactionCode::issued_credit_transfer(),
            details: vec![full_details()],
            additional: Some("rent".to_owned()),
        },
        StatementEntry {
            reference: None,
            amount: euros(525),
            side: CreditDebit::Credit,
            is_reversal: true,
            status: EntryStatus::Booked,
            booked_on: Some(day(3)),
            value_on: None,
            servicer_reference: None,
            code: BankTransactionCode::returned_credit_transfer(),
            details: vec![EntryDetails {
                returned: Some(ReturnNote {
                    reason: Coded::Code("AC04".to_owned()),
                    text: "closed since Monday".to_owned(),
                }),
                ..EntryDetails::default()
            }],
            additional: None,
        },
        StatementEntry {
            reference: None,
            amount: euros(9_999),
            side: CreditDebit::Credit,
            is_reversal: false,
            status: EntryStatus::Pending,
            booked_on: None,
            value_on: None,
            servicer_reference: None,
            code: BankTransactionCode::Proprietary("tally/issue".to_owned()),
            details: Vec::new(),
            additional: None,
        },
    ]
}

fn report() -> AccountReport {
    AccountReport {
        id: "STMT-1".to_owned(),
        page: Some(Page { number: 2, is_last: true }),
        electronic_sequence: Some(61),
        created: Some("2025-03-03T23:59:59Z".to_owned()),
        period: Some(("2025-03-03T00:00:00Z".to_owned(), "2025-03-03T23:59:59Z".to_owned())),
        account: account(),
        entries: entries(),
        additional: Some("the last page".to_owned()),
    }
}

fn report_header() -> ReportHeader {
    ReportHeader {
        message_id: "CAMT-1".to_owned(),
        created: "2025-03-04T00:00:01Z".to_owned(),
        recipient: Some(Party { name: Some("Accountants".to_owned()), ..Party::default() }),
    }
}

/// One page of a statement with all that a statement can have, and one of an account without entries.
pub(crate) fn statements() -> StatementMessage {
    let balance = |kind, is_intermediate, cents, side| Balance {
        kind,
        is_intermediate,
        amount: euros(cents),
        side,
        date: day(3),
    };
    let empty = AccountReport {
        id: "STMT-2".to_owned(),
        page: None,
        electronic_sequence: None,
        created: None,
        period: None,
        account: ReportedAccount {
            id: AccountId::Other { id: "own funds".to_owned(), scheme: None },
            currency: None,
            name: None,
            owner: None,
            servicer: None,
        },
        entries: Vec::new(),
        additional: None,
    };
    StatementMessage {
        header: report_header(),
        statements: vec![
            Statement {
                report: report(),
                balances: vec![
                    balance(BalanceKind::OpeningBooked, true, 300, CreditDebit::Credit),
                    balance(BalanceKind::ClosingBooked, false, 200, CreditDebit::Debit),
                    balance(BalanceKind::ClosingAvailable, false, 0, CreditDebit::Credit),
                ],
            },
            Statement {
                report: empty,
                balances: vec![
                    balance(BalanceKind::PreviouslyClosedBooked, false, 0, CreditDebit::Credit),
                    balance(
                        BalanceKind::Other(Coded::Code("INFO".to_owned())),
                        false,
                        7,
                        CreditDebit::Credit,
                    ),
                ],
            },
        ],
    }
}

pub(crate) fn notifications() -> NotificationMessage {
    NotificationMessage { header: report_header(), notifications: vec![report()] }
}

fn original() -> OriginalPayment {
    OriginalPayment {
        message_id: Some("MSG-8".to_owned()),
        definition: Some("pacs.008.001.08".to_owned()),
        instruction_id: Some("INSTR-1".to_owned()),
        end_to_end_id: Some("E2E-1".to_owned()),
        transaction_id: Some("TX-1".to_owned()),
        uetr: initiation(INITIATION).payments[0].uetr,
        amount: Some(Money::from_minor_units(*b"EUR", 1_025, 2)),
        settled_on: Some(day(3)),
    }
}

fn institution(bic: &str) -> Party {
    Party { bic: Bic::parse(bic), ..Party::default() }
}

fn case(id: &str) -> Option<Case> {
    Some(Case { id: id.to_owned(), creator: institution("ALPHDEFF") })
}

fn reason(code: &str) -> Option<GivenReason> {
    Some(GivenReason {
        originator: Some(Party { name: Some("Alice".to_owned()), ..Party::default() }),
        code: Some(Coded::Code(code.to_owned())),
        text: "sent twice by mistake, ".repeat(8).trim().to_owned(),
    })
}

/// Three payments that are to be cancelled, one named by nothing but its UETR.
pub(crate) fn cancellations() -> CancellationRequest {
    let first = Cancellation {
        id: Some("CXL-1".to_owned()),
        case: case("CASE-1"),
        is_whole_message: false,
        original: original(),
        reason: reason("DUPL"),
    };
    let second = Cancellation {
        original: OriginalPayment { uetr: original().uetr, ..OriginalPayment::default() },
        ..Cancellation::default()
    };
    let third = Cancellation { id: Some("CXL-3".to_owned()), case: None, reason: None, ..first.clone() };
    CancellationRequest {
        definition: CANCELLATION_DEFINITION.to_owned(),
        assignment: Assignment {
            id: "ASSIGN-1".to_owned(),
            assigner: institution("ALPHDEFF"),
            assignee: Party { name: Some("The network".to_owned()), ..Party::default() },
            created: "2025-03-03T10:00:00Z".to_owned(),
        },
        case: case("CASE-0"),
        cancellations: vec![first, second, third],
    }
}

/// A message that is to be cancelled with all its payments.
pub(crate) fn group_cancellation() -> CancellationRequest {
    let request = cancellations();
    let whole = OriginalPayment {
        message_id: original().message_id,
        definition: original().definition,
        ..OriginalPayment::default()
    };
    let cancellation =
        Cancellation { is_whole_message: true, original: whole, ..request.cancellations[0].clone() };
    CancellationRequest { case: None, cancellations: vec![cancellation], ..request }
}

/// One was cancelled, one is unknown, one was settled before.
pub(crate) fn answers() -> Resolution {
    let decisions = [
        CancellationDecision::Made,
        CancellationDecision::Refused(CancellationRejection::NOOR, String::new()),
        CancellationDecision::Refused(
            CancellationRejection::PTNA,
            "settled on 2025-03-03 under number 61".to_owned(),
        ),
    ];
    let time = "2025-03-03T10:00:01Z".to_owned();
    Resolution::of(&cancellations(), "ANSWER-1".to_owned(), time, &decisions).unwrap()
}

pub(crate) fn group_answers() -> Resolution {
    let decisions = [CancellationDecision::Refused(CancellationRejection::ARDT, "sent back".to_owned())];
    let time = "2025-03-03T10:00:01Z".to_owned();
    Resolution::of(&group_cancellation(), "ANSWER-2".to_owned(), time, &decisions).unwrap()
}

/// Two returns: one with everything, one with as little as is allowed.
pub(crate) fn returns() -> PaymentReturn {
    let full = ReturnedPayment {
        id: Some("RTR-1".to_owned()),
        original: original(),
        order: Ok(ReturnOrder {
            amount: Money::from_minor_units(*b"EUR", 1_005, 2),
            settlement_date: Some(day(5)),
            charges: Some(ChargesBearer::Creditor),
            reason: reason("AC04"),
        }),
    };
    let bare = ReturnedPayment {
        id: None,
        original: OriginalPayment { uetr: original().uetr, ..OriginalPayment::default() },
        order: Ok(ReturnOrder {
            amount: Money::from_minor_units(*b"EUR", 1, 0),
            settlement_date: None,
            charges: None,
            reason: None,
        }),
    };
    PaymentReturn {
        definition: RETURN_DEFINITION.to_owned(),
        message_id: "RETURN-1".to_owned(),
        created: "2025-03-04T09:00:00Z".to_owned(),
        number_of_transactions: 2,
        control_sum: Some(Decimal::new(1_105, 2)),
        total: Some(Money::from_minor_units(*b"EUR", 1_105, 2)),
        settlement_date: Some(day(4)),
        settlement_method: SettlementMethod::Clearing,
        instructing_agent: Bic::parse("BETAFRPP").map(Agent::from),
        instructed_agent: Bic::parse("ALPHDEFF").map(Agent::from),
        returns: vec![full, bare],
        group_rejection: None,
    }
}

pub(crate) fn report_on_returns() -> String {
    let outcomes = [settled(), Outcome::Rejected(StatusReason::AM09.into())];
    return_status_report(&returns(), &outcomes, &context()).unwrap()
}

/// The header of a request, from a customer.
pub(crate) fn header() -> AppHeader {
    AppHeader {
        from_organisation: Some(Party {
            name: Some("Alice & Co".to_owned()),
            identification: Some("HRB 4711".to_owned()),
            ..Party::default()
        }),
        to: Bic::parse("ALPHDEFF").map(Agent::from),
        business_message_id: "MSG-1".to_owned(),
        definition: "pain.001.001.09".to_owned(),
        created: "2025-03-03T00:30:00+01:00".to_owned(),
        possible_duplicate: true,
        ..AppHeader::default()
    }
}

/// An answer with its header.
pub(crate) fn with_reply_header() -> String {
    let header = header().reply(
        "REPORT-1".to_owned(),
        "pain.002.001.10".to_owned(),
        "2025-03-03T09:30:02Z".to_owned(),
    );
    with_header(&header, &initiation_report()).unwrap()
}
