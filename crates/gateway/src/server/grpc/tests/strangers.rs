//! Whoever has no part in something is answered as if there were nothing, over HTTP and over gRPC, and costs no more than a look at
//! the request.

use super::support::{Bench, EUR, NETWORK, OTHER, batch, customer, key, network};
use crate::access::{Role, Token};
use crate::grpc::{Client, ClientError};
use crate::wire::{GivenSignature, PreparedBody, SignedDraft, SignedPayment, SignedPaymentsBody, SubmitBody};
use base64::Engine as _;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::atomic::Ordering;
use tally_ledger::transaction::Kind;
use tally_ledger::{Amount, Transaction, Uetr};
use tally_settlement::path;

pub(super) const BOTH: [Role; 2] = [Role::Submit, Role::Read];

/// Sends a request; status and body of the answer.
pub(super) fn http(bench: &Bench, token: &Token, line: &str, headers: &str, body: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(bench.address).unwrap();
    let head = format!(
        "{line} HTTP/1.1\r\nhost: x\r\nconnection: close\r\nauthorization: Bearer {}\r\n{headers}content-length: {}\r\n\r\n",
        token.reveal(),
        body.len()
    );
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(body.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head[9..12].parse().unwrap(), body.to_owned())
}

fn get(bench: &Bench, token: &Token, path: &str) -> (u16, String) {
    http(bench, token, &format!("GET {path}"), "", "")
}

pub(super) const XML: &str = "content-type: application/xml\r\n";
pub(super) const JSON: &str = "content-type: application/json\r\n";

/// Without what differs between any two answers: identifications that are random, or follow from the question, and digits.
fn plain(text: &str, reference: &str) -> String {
    // A number is told apart from no other digit.
    let is_number = reference.parse::<u32>().is_ok();
    let text = if is_number { text.to_owned() } else { text.replace(reference, "REF") };
    let is_name = |c: char| c.is_ascii_digit() || ('a'..='f').contains(&c) || c == '-';
    let mut plain = String::new();
    for piece in text.split_inclusive(|c: char| !is_name(c)) {
        let name = piece.trim_end_matches(|c: char| !is_name(c));
        plain.push_str(if name.len() >= 32 { &piece[name.len()..] } else { piece });
    }
    plain.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect()
}

fn camt056(reference: &str) -> String {
    let party =
        |name: &str| format!("<{name}><Agt><FinInstnId><BICFI>BETAFRPP</BICFI></FinInstnId></Agt></{name}>");
    format!(
        "<Document xmlns='urn:iso:std:iso:20022:tech:xsd:camt.056.001.08'><FIToFIPmtCxlReq><Assgnmt><Id>A</Id>{}{}\
         <CreDtTm>2025-03-03T10:00:00Z</CreDtTm></Assgnmt><Undrlyg><TxInf><CxlId>C</CxlId><OrgnlEndToEndId>E</OrgnlEndToEndId>\
         <OrgnlUETR>{reference}</OrgnlUETR></TxInf></Undrlyg></FIToFIPmtCxlReq></Document>",
        party("Assgnr"),
        party("Assgne")
    )
}

pub(super) fn pacs004(reference: &str, amount: &str) -> String {
    format!(
        "<Document xmlns='urn:iso:std:iso:20022:tech:xsd:pacs.004.001.09'><PmtRtr><GrpHdr><MsgId>R</MsgId>\
         <CreDtTm>2025-03-03T09:00:00</CreDtTm><NbOfTxs>1</NbOfTxs><SttlmInf><SttlmMtd>CLRG</SttlmMtd></SttlmInf></GrpHdr>\
         <TxInf><RtrId>R1</RtrId><OrgnlUETR>{reference}</OrgnlUETR><RtrdIntrBkSttlmAmt Ccy='EUR'>{amount}</RtrdIntrBkSttlmAmt>\
         <RtrRsnInf><Rsn><Cd>AC04</Cd></Rsn></RtrRsnInf></TxInf></PmtRtr></Document>"
    )
}

pub(super) fn pain001(debtor: &str) -> String {
    let agent = |bic: &str| format!("<FinInstnId><BICFI>{bic}</BICFI></FinInstnId>");
    format!(
        "<Document xmlns='urn:iso:std:iso:20022:tech:xsd:pain.001.001.09'><CstmrCdtTrfInitn><GrpHdr><MsgId>M</MsgId><CreDtTm>\
         2025-03-03T09:00:00</CreDtTm><NbOfTxs>1</NbOfTxs><InitgPty><Nm>X</Nm></InitgPty></GrpHdr><PmtInf><PmtInfId>P</PmtInfId>\
         <PmtMtd>TRF</PmtMtd><ReqdExctnDt><Dt>2025-03-03</Dt></ReqdExctnDt><Dbtr><Nm>D</Nm></Dbtr><DbtrAcct><Id><Othr><Id>{debtor}\
         </Id></Othr></Id></DbtrAcct><DbtrAgt>{}</DbtrAgt><CdtTrfTxInf><PmtId><EndToEndId>E</EndToEndId></PmtId><Amt><InstdAmt \
         Ccy='EUR'>1.00</InstdAmt></Amt><CdtrAgt>{}</CdtrAgt><Cdtr><Nm>C</Nm></Cdtr><CdtrAcct><Id><Othr><Id>account-1</Id></Othr></Id>\
         </CdtrAcct></CdtTrfTxInf></PmtInf></CstmrCdtTrfInitn></Document>",
        agent("ALPHDEFF"),
        agent("ALPHDEFF")
    )
}

fn message(xml: &str) -> String {
    let message = base64::engine::general_purpose::STANDARD.encode(xml);
    serde_json::to_string(&SubmitBody { message, signed: Vec::<SignedDraft>::new() }).unwrap()
}

fn wanted(from: &str) -> String {
    format!(
        "{{\"payments\":[{{\"uetr\":\"0c1b2d3e-4f50-4a61-8b72-93a4b5c6d7e8\",\"from\":{{\"institution\":\"ALPHDEFF\",\"account\":\"{from}\"}},\
         \"to\":{{\"institution\":\"ALPHDEFF\",\"account\":\"account-1\"}},\"amount\":\"1.00\",\"asset\":\"EUR\"}}]}}"
    )
}

/// A payment inside the bank, settled, under a reference of the standard's; its reference and id.
fn settled(bench: &mut Bench, last: u8) -> (String, String) {
    let mut payment = bench.payment(700);
    payment.header.uetr = Uetr([9, 9, 9, 9, 9, 9, 0x49, 9, 0x89, 9, 9, 9, 9, 9, 9, last]);
    payment.signers.clear();
    payment.sign(&NETWORK, &customer(0));
    let names = (payment.header.uetr.to_string(), payment.id(&NETWORK).to_string());
    bench.make(payment);
    names
}

const UNKNOWN: &str = "08080808-0808-4808-8808-080808080808";

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn what_is_others_is_answered_as_what_is_not() {
    let mut bench = Bench::new();
    let beta = bench.also("beta", "BETAFRPP", &BOTH);
    let central = bench.also("central", "CENTDEFF", &BOTH);
    let alice = bench.token.clone();
    let (uetr, id) = settled(&mut bench, 1);
    let no_id = key(7).public_key().to_string();

    // By what is asked: the question about what there is, and about what there is not.
    let transaction = |path: &'static str| {
        move |name: &str| (format!("GET /v1/transactions/{name}{path}"), "", String::new())
    };
    let post = |path: &'static str, kind: &'static str, body: fn(&str) -> String| {
        move |name: &str| (format!("POST {path}"), kind, body(name))
    };
    type Question<'a> = Box<dyn Fn(&str) -> (String, &'static str, String) + 'a>;
    let by_reference: Vec<Question<'_>> = vec![
        Box::new(transaction("")),
        Box::new(transaction("/receipt")),
        Box::new(transaction("/proof")),
        Box::new(transaction("/proof?legs=BETAFRPP")),
        Box::new(transaction("/proof?legs=ALPHDEFF")),
        Box::new(post("/v1/iso20022/cancel", XML, camt056)),
        Box::new(post("/v1/iso20022/prepare", XML, |name| pacs004(name, "1.00"))),
        Box::new(post("/v1/iso20022/prepare", XML, |name| pacs004(name, "7.01"))),
        Box::new(post("/v1/iso20022/submit", JSON, |name| message(&pacs004(name, "1.00")))),
    ];
    let by_id: Vec<Question<'_>> = vec![Box::new(transaction("")), Box::new(transaction("/proof"))];
    let by_account: Vec<Question<'_>> = vec![
        Box::new(|name| (format!("GET /v1/accounts/ALPHDEFF/{name}"), "", String::new())),
        Box::new(|name| (format!("GET /v1/accounts/ALPHDEFF/{name}/statement"), "", String::new())),
        Box::new(|name| (format!("GET /v1/accounts/ALPHDEFF/{name}/camt.053"), "", String::new())),
        Box::new(|name| (format!("GET /v1/accounts/ALPHDEFF/{name}/camt.054"), "", String::new())),
        Box::new(post("/v1/payments/prepare", JSON, wanted)),
        Box::new(post("/v1/iso20022/prepare", XML, pain001)),
        Box::new(post("/v1/iso20022/submit", JSON, |name| message(&pain001(name)))),
    ];
    let ask = |token: &Token, question: &Question<'_>, name: &str| {
        let (line, headers, body) = question(name);
        let (status, body) = http(&bench, token, &line, headers, &body);
        (line, status, plain(&body, name))
    };
    for (questions, there, not_there) in [
        (&by_reference, uetr.as_str(), UNKNOWN),
        (&by_id, id.as_str(), no_id.as_str()),
        (&by_account, "account-0", "account-9"),
        (&by_account, "0", "9"),
    ] {
        for (position, question) in questions.iter().enumerate() {
            // The payment is inside the bank: the central bank has as little part in it as any other.
            for stranger in [&beta, &central] {
                let (line, status, body) = ask(stranger, question, there);
                let (_, no_status, no_body) = ask(stranger, question, not_there);
                assert_eq!((status, &body), (no_status, &no_body), "{line}");
                assert!(status != 200 || !body.contains("settled for good"), "{line}: {body}");
            }
            let (line, status, body) = ask(&alice, question, there);
            let (_, no_status, no_body) = ask(&alice, question, not_there);
            // Messages name accounts by their aliases.
            let is_number = there == "0" && line.contains("iso20022");
            let is_others = line.contains("BETAFRPP") || is_number;
            assert!(
                is_others || (status, body) != (no_status, no_body),
                "{position} {line}: the owner is told"
            );
        }
    }

    let stranger = Client::connect(&bench.url(), Some(beta.reveal()), None).await.unwrap();
    let refused = |answer: Result<(), ClientError>, name: &str| match answer {
        Err(ClientError::Refused(refused)) => {
            (refused.status, refused.code, refused.text.replace(name, "REF"))
        }
        other => panic!("{other:?}"),
    };
    for (there, not_there) in [(uetr.as_str(), UNKNOWN), (id.as_str(), no_id.as_str())] {
        let mut answers = Vec::new();
        for name in [there, not_there] {
            answers.push([
                refused(stranger.status(name).await.map(drop), name),
                refused(stranger.proof(name, &[]).await.map(drop), name),
                refused(stranger.receipt(name).await.map(drop), name),
            ]);
        }
        assert_eq!(answers[0], answers[1]);
    }
    let mut answers = Vec::new();
    for name in ["account-0", "account-9", "0", "9"] {
        answers.push(refused(stranger.balance("ALPHDEFF", name).await.map(drop), name));
    }
    assert!(answers.iter().all(|answer| *answer == answers[0]), "{answers:?}");
    assert!(bench.client().await.status(&uetr).await.is_ok());
}

#[test]
fn nothing_is_looked_up_for_those_who_may_not_ask() {
    let bench = Bench::new();
    let beta = bench.also("beta", "BETAFRPP", &BOTH);
    let reader = bench.also("reader", "ALPHDEFF", &[Role::Read]);
    let many = |count: usize| {
        let one = pacs004(UNKNOWN, "1.00");
        let (head, rest) = one.split_once("<TxInf>").unwrap();
        let (entry, end) = rest.split_once("</TxInf>").unwrap();
        let head = head.replace("<NbOfTxs>1<", &format!("<NbOfTxs>{count}<"));
        format!("{head}{}{end}", format!("<TxInf>{entry}</TxInf>").repeat(count))
    };
    let foreign = "<SttlmMtd>CLRG</SttlmMtd></SttlmInf><InstgAgt><FinInstnId><BICFI>ALPHDEFF</BICFI></FinInstnId></InstgAgt>";
    let instructed = many(1).replace("<SttlmMtd>CLRG</SttlmMtd></SttlmInf>", foreign);
    let post = |path: &str, kind: &'static str, body: String| (format!("POST {path}"), kind, body);
    let read = |path: &str| (format!("GET {path}"), "", String::new());
    for (token, (line, headers, body), most) in [
        (&beta, read("/v1/accounts/ALPHDEFF"), 0),
        (&beta, read("/v1/accounts/ALPHDEFF/account-0"), 0),
        (&beta, read("/v1/accounts/ALPHDEFF/account-0/statement"), 0),
        (&beta, read("/v1/accounts/ALPHDEFF/account-0/camt.053"), 0),
        (&beta, read("/v1/accounts/ALPHDEFF/account-0/camt.054"), 0),
        (&beta, read(&format!("/v1/transactions/{UNKNOWN}/proof?legs=ALPHDEFF")), 0),
        (&beta, post("/v1/payments/prepare", JSON, wanted("account-0")), 0),
        (&beta, post("/v1/iso20022/prepare", XML, pain001("account-0")), 0),
        (&reader, post("/v1/iso20022/prepare", XML, many(1)), 0),
        (&reader, post("/v1/iso20022/cancel", XML, camt056(UNKNOWN)), 0),
        (&beta, post("/v1/iso20022/prepare", XML, instructed), 0),
        // More than are searched for.
        (&beta, post("/v1/iso20022/prepare", XML, many(17)), 0),
        // One payment, named often: one search beside the wait for what others were told.
        (&beta, post("/v1/iso20022/prepare", XML, many(16)), 2),
    ] {
        let before = bench.desk.looks.load(Ordering::SeqCst);
        let (status, answer) = http(&bench, token, &line, headers, &body);
        let looks = bench.desk.looks.load(Ordering::SeqCst) - before;
        assert!(looks <= most, "{line}: {looks} looks; {status} {answer}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_settlement_account_is_its_holders_to_read_and_no_other_banks() {
    let mut bench = Bench::new();
    let beta = bench.also("beta", "BETAFRPP", &[Role::Read]);
    let central = bench.also("central", "CENTDEFF", &[Role::Read]);
    let alice = bench.token.clone();
    for (holder, amount) in [(super::support::BANK, 5000), (OTHER, 7000)] {
        let legs = path::issue_reserves(&network(), holder, EUR, Amount(amount));
        let issue = bench.signed(Kind::Issue, legs, &key(1));
        bench.make(issue);
    }
    let number = |holder| tally_ledger::AccountNumber::settlement(EUR, holder).0;
    let alphas = [
        "settlement:EUR:ALPHDEFF".to_owned(),
        "settlement:EUR:ALPHDEFFXXX".to_owned(),
        number(super::support::BANK).to_string(),
    ];
    for name in &alphas {
        for tail in ["", "/statement", "/camt.053", "/camt.054"] {
            let path = format!("/v1/accounts/CENTDEFF/{name}{tail}");
            for (token, status) in [(&alice, 200), (&central, 200), (&beta, 403)] {
                let (found, body) = get(&bench, token, &path);
                assert_eq!(found, status, "{path}: {body}");
                assert_eq!(found == 200, body.contains("50.00") || body.contains(">50<"), "{path}: {body}");
            }
        }
    }
    // Of what else lies at the central bank, a bank reads nothing.
    for name in ["settlement:EUR:BETAFRPP", "own:EUR", "issuance:EUR", "settlement:EUR:NOWHDEFF", "0", "x"] {
        let (status, body) = get(&bench, &alice, &format!("/v1/accounts/CENTDEFF/{name}"));
        assert_eq!(status, 403, "{name}: {body}");
    }
    assert_eq!(get(&bench, &alice, "/v1/accounts/CENTDEFF").0, 403);
    let client = bench.client().await;
    let balance = client.balance("CENTDEFFXXX", &alphas[0]).await.unwrap();
    assert_eq!((balance.minor_units, balance.institution.as_str()), (5000, "CENTDEFF"));
    let Err(ClientError::Refused(refused)) = client.balance("CENTDEFF", "settlement:EUR:BETAFRPP").await
    else {
        panic!()
    };
    assert_eq!(refused.status, tonic::Code::PermissionDenied);
}

#[test]
fn a_head_office_is_found_under_both_spellings() {
    let bench = Bench::new();
    let alice = bench.token.clone();
    for bic in ["ALPHDEFF", "ALPHDEFFXXX"] {
        for path in [
            "/v1/institutions/BIC",
            "/v1/accounts/BIC",
            "/v1/accounts/BIC/account-0",
            "/v1/accounts/BIC/0/statement",
        ] {
            let (status, body) = get(&bench, &alice, &path.replace("BIC", bic));
            assert!(status == 200 && body.contains("\"ALPHDEFF\""), "{bic} {path}: {status} {body}");
        }
        let body = wanted("account-0").replace("ALPHDEFF", bic);
        let (status, body) = http(&bench, &alice, "POST /v1/payments/prepare", JSON, &body);
        assert!(status == 200 && body.contains("\"draft\":{"), "{bic}: {status} {body}");
    }
    for bic in ["ALPHDEFF001", "ALPHDEFFXX", "alphdeff"] {
        assert_eq!(get(&bench, &alice, &format!("/v1/institutions/{bic}")).0, 404, "{bic}");
        assert_eq!(get(&bench, &alice, &format!("/v1/accounts/{bic}")).0, 404, "{bic}");
    }
}

#[test]
fn a_reference_that_others_used_is_free_and_tells_nothing_of_their_payment() {
    let mut bench = Bench::new();
    let beta = bench.also("beta", "BETAFRPP", &BOTH);
    let legs = path::issue_reserves(&network(), OTHER, EUR, Amount(5000));
    let issue = bench.signed(Kind::Issue, legs, &key(1));
    bench.make(issue);
    let (uetr, id) = settled(&mut bench, 2);
    // Beta pays the bank's customer from its own funds, under the reference of a payment inside the bank.
    let from = tally_ledger::AccountId { participant: OTHER, number: tally_ledger::AccountNumber::own(EUR) };
    let legs = path::payment(&network(), from, super::support::id(1), EUR, Amount(1));
    let mut terms = bench.terms();
    terms.uetr = uetr.parse().unwrap();
    let mut payment = Transaction::new(Kind::Transfer, &terms, legs);
    payment.sign(&NETWORK, &key(3));
    let batch = crate::codec::to_hex(&crate::codec::encode(&batch([payment.clone()])));
    let (status, body) = http(&bench, &beta, "POST /v1/transactions", "content-type: text/plain\r\n", &batch);
    assert_eq!(status, 200, "{body}");
    // A reference belongs to the institution that debits.
    assert!(!body.contains(&id) && body.contains("\"first\":null") && body.contains("ACSC"), "{body}");
    let transaction = crate::codec::encode_one(&payment).unwrap();
    let payments = vec![SignedPayment { transaction, signatures: Vec::<GivenSignature>::new() }];
    let body = serde_json::to_string(&SignedPaymentsBody { payments }).unwrap();
    for headers in [JSON.to_owned(), format!("{JSON}idempotency-key: k\r\n")] {
        let (status, body) = http(&bench, &beta, "POST /v1/payments", &headers, &body);
        assert!(status == 200 && !body.contains(&id), "{status} {body}");
    }
}

/// Whose reference is used up follows from whose account comes first, which is for who hands in to write: an account that there
/// is not, whose owner nobody can ask for.
#[test]
fn nobody_uses_up_anothers_reference_by_debiting_it_first() {
    let mut bench = Bench::new();
    let beta = bench.also("beta", "BETAFRPP", &BOTH);
    let legs = path::issue_reserves(&network(), OTHER, EUR, Amount(5000));
    let issue = bench.signed(Kind::Issue, legs, &key(1));
    bench.make(issue);
    let own = tally_ledger::AccountNumber::own(EUR);
    let own = tally_ledger::AccountId { participant: OTHER, number: own };
    let terms = bench.terms();
    let hand_in = |signed: &Transaction| {
        let batch = crate::codec::to_hex(&crate::codec::encode(&batch([signed.clone()])));
        let text = "content-type: text/plain\r\n";
        let by_batch = http(&bench, &beta, "POST /v1/transactions", text, &batch);
        let transaction = crate::codec::encode_one(signed).unwrap();
        let payments = vec![SignedPayment { transaction, signatures: Vec::<GivenSignature>::new() }];
        let body = serde_json::to_string(&SignedPaymentsBody { payments }).unwrap();
        [by_batch, http(&bench, &beta, "POST /v1/payments", JSON, &body)]
    };
    for debited in [super::support::id(0), super::support::id(99_999)] {
        let mut legs = path::payment(&network(), debited, own, EUR, Amount(1));
        legs.extend(path::payment(&network(), own, super::support::id(1), EUR, Amount(1)));
        let mut payment = Transaction::new(Kind::Transfer, &terms, legs);
        payment.sign(&NETWORK, &key(3));
        payment.sign(&NETWORK, &customer(7));
        let mut forged = payment.clone();
        forged.sign(&NETWORK, &customer(0));
        for signer in &mut forged.signers {
            signer.signature = payment.signers[0].signature;
        }
        for (status, body) in [hand_in(&payment), hand_in(&forged)].concat() {
            assert!(status == 403 && body.contains("debited first"), "{status} {body}");
        }
    }
    // The reference is free.
    let legs = path::payment(&network(), super::support::id(0), super::support::id(1), EUR, Amount(1));
    let mut payment = Transaction::new(Kind::Transfer, &terms, legs);
    payment.sign(&NETWORK, &customer(0));
    bench.make(payment);
}

#[test]
fn a_key_is_given_once_and_its_references_are_the_users_own() {
    let bench = Bench::new();
    let alice = bench.token.clone();
    let other = bench.also("albert", "ALPHDEFF", &BOTH);
    let body = wanted("account-0").replace("\"uetr\":\"0c1b2d3e-4f50-4a61-8b72-93a4b5c6d7e8\",", "");
    let prepare = |token: &Token, headers: &str| {
        http(&bench, token, "POST /v1/payments/prepare", &format!("{JSON}{headers}"), &body)
    };
    let reference = |token: &Token, key: &str| {
        let (status, body) = prepare(token, &format!("idempotency-key: {key}\r\n"));
        assert_eq!(status, 200, "{body}");
        serde_json::from_str::<PreparedBody>(&body).unwrap().payments.remove(0).uetr
    };
    let first = reference(&alice, "k");
    assert_eq!(first, reference(&alice, "k"));
    assert_ne!(first, reference(&alice, "l"));
    assert_ne!(first, reference(&other, "k"));
    for twice in
        ["idempotency-key: k\r\nidempotency-key: k\r\n", "Idempotency-Key: k\r\nidempotency-key: l\r\n"]
    {
        let (status, body) = prepare(&alice, twice);
        assert!(
            status == 400 && body.contains("Idempotency-Key: it is there more than once"),
            "{status} {body}"
        );
    }
}
