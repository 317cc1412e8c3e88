//! What was settled and comes again: its sender learns that it was settled, however much comes at once and however late.

use super::strangers::{JSON, XML, http, pacs004, pain001};
use super::support::{Bench, batch, customer};
use crate::codec;
use crate::wire::{
    OutcomesBody, PreparedBody, SignedDraft, SignedPayment, SignedPaymentsBody, Status, SubmitBody,
};
use base64::Engine as _;
use std::time::Duration;
use tally_settlement::desk::Settlement as _;

/// More than the gateway once looked up for one request.
const MANY: usize = 20;

/// A pain.001 with so many payments, which may be a copy.
fn pain001_of(payments: usize, is_copy: bool) -> String {
    let one = pain001("account-0");
    let (head, rest) = one.split_once("<CdtTrfTxInf>").unwrap();
    let (entry, end) = rest.split_once("</CdtTrfTxInf>").unwrap();
    let entries: String = (0..payments)
        .map(|number| entry.replace(">E<", &format!(">E{number}<")))
        .map(|entry| format!("<CdtTrfTxInf>{entry}</CdtTrfTxInf>"))
        .collect();
    let head = head.replace("<NbOfTxs>1<", &format!("<NbOfTxs>{payments}<"));
    copied(&format!("{head}{entries}{end}"), "pain.001.001.09", is_copy)
}

/// The document under a header that says whether it may be a copy.
fn copied(document: &str, definition: &str, is_copy: bool) -> String {
    let agent = "<FIId><FinInstnId><BICFI>ALPHDEFF</BICFI></FinInstnId></FIId>";
    format!(
        "<message><AppHdr xmlns='urn:iso:std:iso:20022:tech:xsd:head.001.001.01'><Fr>{agent}</Fr><To>{agent}</To>\
         <BizMsgIdr>B</BizMsgIdr><MsgDefIdr>{definition}</MsgDefIdr><CreDt>2025-03-03T09:00:00Z</CreDt>\
         <PssblDplct>{is_copy}</PssblDplct></AppHdr>{document}</message>"
    )
}

/// Prepares a message, signs each draft as that customer, and hands it in: what the report says.
fn send(bench: &Bench, xml: &str, signer: u32) -> String {
    let (status, body) = http(bench, &bench.token, "POST /v1/iso20022/prepare", XML, xml);
    assert_eq!(status, 200, "{body}");
    let prepared: PreparedBody = serde_json::from_str(&body).unwrap();
    let drafts = prepared.payments.into_iter().enumerate();
    let signed = drafts.filter_map(|(position, payment)| {
        let mut transaction = codec::decode_one(&payment.draft?.transaction).unwrap();
        transaction.sign(&super::support::NETWORK, &customer(signer));
        Some(SignedDraft { position, transaction: codec::encode_one(&transaction).unwrap() })
    });
    let message = base64::engine::general_purpose::STANDARD.encode(xml);
    let body = serde_json::to_string(&SubmitBody { message, signed: signed.collect() }).unwrap();
    let (status, report) = http(bench, &bench.token, "POST /v1/iso20022/submit", JSON, &body);
    assert_eq!(status, 200, "{report}");
    report
}

fn settled(report: &str) -> usize {
    report.matches("<TxSts>ACSC</TxSts>").count()
}

#[test]
fn of_many_that_settled_and_come_again_none_is_told_as_refused() {
    let mut bench = Bench::new();
    let first = send(&bench, &pain001_of(MANY, false), 0);
    assert_eq!(settled(&first), MANY, "{first}");
    let paid = bench.balance(1);
    let copy = send(&bench, &pain001_of(MANY, true), 0);
    assert!(settled(&copy) == MANY && !copy.contains("RJCT"), "{copy}");
    // Without that word it is a duplicate, and each says what became of its first use.
    let again = send(&bench, &pain001_of(MANY, false), 0);
    assert_eq!(again.matches("AM05").count(), again.matches("was settled at").count(), "{again}");
    assert_eq!(again.matches("was settled at").count(), MANY, "{again}");

    // The same as JSON, under a key.
    let payment = "{\"from\":{\"institution\":\"ALPHDEFF\",\"account\":\"account-0\"},\"to\":{\"institution\":\"ALPHDEFF\",\
                   \"account\":\"account-1\"},\"amount\":\"1.00\",\"asset\":\"EUR\"}";
    let wanted = format!("{{\"payments\":[{}]}}", [payment; MANY].join(","));
    let key = format!("{JSON}idempotency-key: k\r\n");
    let pay = |headers: &str| {
        let (status, body) = http(&bench, &bench.token, "POST /v1/payments/prepare", &key, &wanted);
        assert_eq!(status, 200, "{body}");
        let prepared: PreparedBody = serde_json::from_str(&body).unwrap();
        let payments = prepared.payments.into_iter().map(|payment| {
            let mut transaction = codec::decode_one(&payment.draft.unwrap().transaction).unwrap();
            transaction.sign(&super::support::NETWORK, &customer(0));
            let transaction = codec::encode_one(&transaction).unwrap();
            SignedPayment { transaction, signatures: Vec::new() }
        });
        let body = serde_json::to_string(&SignedPaymentsBody { payments: payments.collect() }).unwrap();
        let (status, body) = http(&bench, &bench.token, "POST /v1/payments", headers, &body);
        assert_eq!(status, 200, "{body}");
        serde_json::from_str::<OutcomesBody>(&body).unwrap().outcomes
    };
    let made = pay(&key);
    assert!(made.len() == MANY && made.iter().all(|one| one.status == Status::Settled), "{made:?}");
    assert_eq!(pay(&key), made);
    // And without a key each duplicate names its first use.
    let named = |one: &crate::wire::OutcomeView| {
        one.first.as_ref().is_some_and(|first| first.status == Status::Settled)
    };
    let again = pay(JSON);
    assert!(again.len() == MANY && again.iter().all(named), "{again:?}");

    // So does a batch of transactions, and over gRPC the same is read.
    let payments: Vec<_> = (0..MANY).map(|_| bench.payment(1)).collect();
    let others: Vec<_> = payments
        .iter()
        .map(|payment| {
            let mut other = payment.clone();
            (other.seed, other.signers) = ([9; 16], Vec::new());
            other.sign(&super::support::NETWORK, &customer(0));
            other
        })
        .collect();
    let hand_in = |payments: &[tally_ledger::Transaction]| {
        let batch = codec::to_hex(&codec::encode(&batch(payments.to_vec())));
        let text = "content-type: text/plain\r\n";
        let (status, body) = http(&bench, &bench.token, "POST /v1/transactions", text, &batch);
        assert_eq!(status, 200, "{body}");
        serde_json::from_str::<OutcomesBody>(&body).unwrap().outcomes
    };
    assert!(hand_in(&payments).iter().all(|one| one.status == Status::Settled));
    assert!(hand_in(&others).iter().all(named));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    runtime.block_on(async {
        let (requests, mut responses) = bench.client().await.submit().await.unwrap();
        requests.send(0, &batch(others)).await;
        drop(requests);
        let (_, told) = super::outcomes(&mut responses).await;
        assert_eq!(told.refusals.len(), MANY);
        assert!(told.refusals.iter().all(|one| one.first.is_some()), "{told:?}");
    });
    assert_eq!(bench.balance(1), paid + 101 * i64::try_from(MANY).unwrap());
}

/// Waits until the ledger has forgotten the references of what was handed in until now.
fn forget(bench: &Bench) {
    let longest = bench.desk.network().longest_validity_ms;
    // References are remembered for two seconds more at most.
    let forgotten = bench.desk.now().plus_ms(longest + 2_100);
    while bench.desk.now() < forgotten {
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_payment_goes_back_once_also_when_the_ledger_has_forgotten_its_return() {
    let bench = Bench::lasting(4_000);
    let (paid, back) = (bench.balance(1), bench.balance(0));
    let uetr = "09090909-0909-4909-8909-090909090909";
    let stated = format!("</EndToEndId><UETR>{uetr}</UETR>");
    let report = send(&bench, &pain001_of(1, false).replace("</EndToEndId>", &stated), 0);
    assert_eq!(settled(&report), 1, "{report}");
    let give_back = |amount: &str, is_copy: bool| {
        let document = pacs004(uetr, amount);
        send(&bench, &copied(&document, "pacs.004.001.09", is_copy), 1)
    };
    assert_eq!(settled(&give_back("0.75", false)), 1);
    let balances = || [bench.balance(0) - back, bench.balance(1) - paid];
    assert_eq!(balances(), [-25, 25]);
    // While the ledger remembers it, and afterwards, the answers are the same.
    for round in ["remembered", "forgotten"] {
        for amount in ["0.75", "0.25"] {
            let again = give_back(amount, false);
            assert!(again.contains("AM05") && again.contains("was settled at"), "{round} {amount}: {again}");
        }
        let copy = give_back("0.75", true);
        assert!(settled(&copy) == 1 && !copy.contains("RJCT"), "{round}: {copy}");
        let other = give_back("0.25", true);
        assert!(other.contains("AM05") && settled(&other) == 0, "{round}: {other}");
        assert_eq!(balances(), [-25, 25], "{round}");
        if round == "remembered" {
            forget(&bench);
        }
    }
}
