//! What systems of institutions send a gateway: payments as JSON, messages around payments, and what both are told.

use super::support::{ALICE, BOB, Network, PLAN, Pain, Running, Said, write};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use tally::keys::KeyRing;
use tally::layout::Layout;
use tally_crypto::SigningKey;
use tally_gateway::wire::{
    AccountName, GivenSignature, PaymentsBody, SignedPayment, SignedPaymentsBody, Status, WantedPayment,
};
use tally_iso20022::{Coded, Document, Limits, Party, parse_document, parse_statement};

const UETR: &str = "0c1b2d3e-4f50-4a61-8b72-93a4b5c6d7e8";

fn account(institution: &str, account: &str) -> AccountName {
    AccountName { institution: institution.to_owned(), account: account.to_owned() }
}

/// Alice's payment to Bob.
fn wanted(amount: &str) -> WantedPayment {
    WantedPayment {
        uetr: None,
        from: account("ALPHDEFF", ALICE),
        to: account("BETAFRPP", BOB),
        amount: amount.to_owned(),
        asset: "EUR".to_owned(),
        details: None,
    }
}

/// The key by which `tally` signs for Alice.
fn alice(running: &Running<'_>) -> SigningKey {
    let owner = running.client().account("ALPHDEFF", ALICE).unwrap().owner;
    let layout = Layout::new(running.directory());
    let passphrase = tally::passphrase::of_network(&layout, None).unwrap();
    let mut ring = KeyRing::open(&[layout.customer_keys()], passphrase).unwrap();
    ring.signing_key(&owner).unwrap().clone()
}

/// Prepares, signs and submits under that key.
fn pay(running: &Running<'_>, payments: Vec<WantedPayment>, key: Option<&str>) -> Vec<(Status, Option<u64>)> {
    let client = running.client();
    let prepared = client.prepare_payments(&PaymentsBody { payments }, key).unwrap();
    let signer = alice(running);
    let network = client.network().unwrap().network.id;
    let sign = |draft: &tally_gateway::wire::Draft| {
        let transaction = tally_gateway::codec::decode_one(&draft.transaction).unwrap();
        assert_eq!(draft.signers, [signer.public_key()]);
        let signature = signer.sign(transaction.id(&network).as_bytes());
        let given = GivenSignature { key: signer.public_key().to_string(), signature: signature.to_string() };
        SignedPayment { transaction: draft.transaction.clone(), signatures: vec![given] }
    };
    let payments = prepared.payments.iter().map(|payment| sign(payment.draft.as_ref().unwrap())).collect();
    let outcomes = client.submit_payments(&SignedPaymentsBody { payments }, key).unwrap().outcomes;
    outcomes.iter().map(|outcome| (outcome.status, outcome.sequence)).collect()
}

#[test]
fn payments_as_json_are_made_once_however_often_they_are_sent() {
    let network = Network::of(PLAN);
    let running = network.run();
    let first = pay(&running, vec![wanted("10.00"), wanted("0.50")], None);
    assert!(first.iter().all(|(status, _)| *status == Status::Settled), "{first:?}");
    assert_eq!(running.balance("BETAFRPP", BOB), "1010.50 EUR");

    // Sent twice under one key: made once, and told twice, also by a draft of its own.
    let once = pay(&running, vec![wanted("1.00")], Some("order-1"));
    assert_eq!(pay(&running, vec![wanted("1.00")], Some("order-1")), once);
    assert_eq!(once[0].0, Status::Settled);
    assert_ne!(pay(&running, vec![wanted("1.00")], Some("order-2")), once);
    assert_eq!(running.balance("BETAFRPP", BOB), "1012.50 EUR");

    // Another payment under the same key is not made, and the client is told why.
    let client = running.client();
    let other = PaymentsBody { payments: vec![wanted("2.00")] };
    let prepared = client.prepare_payments(&other, Some("order-1")).unwrap();
    let draft = prepared.payments[0].draft.as_ref().unwrap();
    let signer = alice(&running);
    let transaction = tally_gateway::codec::decode_one(&draft.transaction).unwrap();
    let signature = signer.sign(transaction.id(&client.network().unwrap().network.id).as_bytes());
    let given = GivenSignature { key: signer.public_key().to_string(), signature: signature.to_string() };
    let signed = SignedPayment { transaction: draft.transaction.clone(), signatures: vec![given] };
    let body = SignedPaymentsBody { payments: vec![signed] };
    let error = client.submit_payments(&body, Some("order-1")).unwrap_err().to_string();
    assert!(error.contains("another payment was made under the reference"), "{error}");
    let plain = client.submit_payments(&body, None).unwrap();
    assert_eq!(plain.outcomes[0].reason.as_ref().unwrap().code, "AM05");
    assert_eq!(running.balance("BETAFRPP", BOB), "1012.50 EUR");

    // What cannot be made is refused with its code, alone.
    let cases = [
        ("RC04", WantedPayment { to: account("NOWHDEFF", BOB), ..wanted("1.00") }),
        ("AC03", WantedPayment { to: account("BETAFRPP", "nobody"), ..wanted("1.00") }),
        ("AC02", WantedPayment { from: account("ALPHDEFF", "nobody"), ..wanted("1.00") }),
        ("AC03", WantedPayment { to: account("ALPHDEFF", ALICE), ..wanted("1.00") }),
        ("AM12", wanted("1.001")),
        ("AM12", wanted("-1.00")),
        ("AM12", wanted("x")),
        ("AM01", wanted("0.00")),
        ("AM03", WantedPayment { asset: "XXX".to_owned(), ..wanted("1.00") }),
        ("FF01", WantedPayment { details: Some("abc".to_owned()), ..wanted("1.00") }),
    ];
    let payments = cases.iter().map(|(_, payment)| payment.clone()).collect();
    let prepared = client.prepare_payments(&PaymentsBody { payments }, None).unwrap();
    for ((code, payment), prepared) in cases.iter().zip(prepared.payments) {
        assert_eq!(prepared.refused.map(|reason| reason.code).as_deref(), Some(*code), "{payment:?}");
    }
    assert_eq!(running.stop().code, Some(0));
}

/// Asks for a path; status line, headers and body.
fn get(running: &Running<'_>, path: &str, headers: &str) -> (String, String) {
    let mut stream = TcpStream::connect(running.address()).unwrap();
    let token = running.token();
    let request = format!(
        "GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\nauthorization: Bearer {token}\r\n{headers}\r\n"
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.to_ascii_lowercase(), body.to_owned())
}

#[test]
fn institutions_and_assets_are_told_once() {
    let network = Network::of(PLAN);
    let running = network.run();
    for (path, found) in [
        ("/v1/institutions", "\"bic\":\"ALPHDEFF\""),
        ("/v1/institutions/EMONNL2A", "\"kind\":\"e-money-issuer\""),
        ("/v1/assets", "\"code\":\"DE000TALLY17\""),
        ("/v1/assets/EUR", "\"largest_payment\":\"50000.00\""),
        ("/openapi.json", "/v1/payments/prepare"),
    ] {
        let (head, body) = get(&running, path, "");
        assert!(head.starts_with("http/1.1 200") && body.contains(found), "{path}: {head} {body}");
        let tag = head.lines().find_map(|line| line.strip_prefix("etag: ")).unwrap().to_owned();
        let (head, body) = get(&running, path, &format!("if-none-match: {tag}\r\n"));
        assert!(head.starts_with("http/1.1 304") && body.is_empty(), "{path}: {head} {body}");
    }
    assert!(get(&running, "/v1/institutions/NOWHDEFF", "").0.starts_with("http/1.1 404"));
    assert!(get(&running, "/v1/assets/XXX", "").0.starts_with("http/1.1 404"));
}

#[test]
fn a_statement_is_a_message_too() {
    let network = Network::of(PLAN);
    let running = network.run();
    let files = tempfile::tempdir().unwrap();
    for (id, amount) in [("one", "10.00"), ("two", "2.50")] {
        assert_eq!(
            running.pay(&[&Pain { id, amount, ..Pain::default() }.write(&files)]).answers(),
            ["ACSC -"]
        );
    }
    let said = running.command(&["statement", "ALPHDEFF", ALICE, "--message", "camt.053"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    let message = parse_statement(said.out.as_bytes(), &Limits::default()).unwrap();
    let statement = &message.statements[0];
    assert_eq!(statement.report.account.id.as_str(), ALICE);
    let amounts: Vec<_> = statement.report.entries.iter().map(|entry| entry.amount.to_string()).collect();
    // The opening balance is an entry of the first day.
    assert_eq!(amounts.len(), 3, "{amounts:?}");
    // What the messages said is told.
    let told = &statement.report.entries[2].details[0];
    assert_eq!((told.message_id.as_deref(), told.end_to_end_id.as_deref()), (Some("two"), Some("E")));
    let name = |party: &Option<Party>| party.as_ref().and_then(|party| party.name.clone());
    assert_eq!((name(&told.debtor), name(&told.creditor)), (Some("D".to_owned()), Some("C".to_owned())));
    assert!(told.remittance.unstructured.is_empty(), "{told:?}");
    let balances: Vec<_> =
        statement.balances.iter().map(|balance| balance.amount.decimal().to_string()).collect();
    assert_eq!(balances, ["0", "987.5"]);
    let earlier = ["statement", "ALPHDEFF", ALICE, "--message", "camt.053", "--to", "2020-01-01"];
    let said = running.command(&earlier);
    let message = parse_statement(said.out.as_bytes(), &Limits::default()).unwrap();
    assert!(message.statements[0].report.entries.is_empty());
    let said = running.command(&["statement", "BETAFRPP", BOB, "--message", "camt.054"]);
    assert!(parse_document(said.out.as_bytes(), &Limits::default()).is_ok(), "{said:?}");
    for (arguments, words) in [
        (["ALPHDEFF", "alice-bonds", "camt.053", "2025-01-01"], "messages are for money"),
        (["ALPHDEFF", ALICE, "camt.054", "2020-01-01"], "nothing was booked"),
        (["ALPHDEFF", ALICE, "camt.053", "2020-02-30"], "no day of the calendar"),
    ] {
        let [bic, name, message, day] = arguments;
        let said = running.command(&[
            "statement",
            bic,
            name,
            "--message",
            message,
            "--from",
            "2020-01-01",
            "--to",
            day,
        ]);
        assert!(said.code == Some(2) && said.err.contains(words), "{words}: {said:?}");
    }
}

#[test]
fn what_a_message_said_is_told_to_both_sides_also_after_a_crash() {
    let network = Network::of(PLAN);
    let running = network.run();
    let files = tempfile::tempdir().unwrap();
    let said =
        "<Purp><Cd>RENT</Cd></Purp><RmtInf><Ustrd>Flat 7, March &amp; April</Ustrd></RmtInf></CdtTrfTxInf>";
    let message = Pain::default().xml().replace("</CdtTrfTxInf>", said);
    let file = write(&files, "rent.xml", message.as_bytes());
    assert_eq!(running.pay(&[&file]).answers(), ["ACSC -"]);
    let told = |running: &Running<'_>, bic: &str, account: &str, message: &str| {
        let said = running.command(&["statement", bic, account, "--message", message]);
        assert_eq!(said.code, Some(0), "{said:?}");
        let document = parse_document(said.out.as_bytes(), &Limits::default()).unwrap().document;
        let mut report = match document {
            Document::Statement(message) => message.statements[0].report.clone(),
            Document::Notification(message) => message.notifications[0].clone(),
            other => panic!("{other:?}"),
        };
        report.entries.pop().unwrap().details.remove(0)
    };
    let check = |running: &Running<'_>| {
        for (bic, account) in [("ALPHDEFF", ALICE), ("BETAFRPP", BOB)] {
            for message in ["camt.053", "camt.054"] {
                let told = told(running, bic, account, message);
                assert_eq!(told.purpose, Some(Coded::Code("RENT".to_owned())));
                assert_eq!(told.remittance.unstructured, ["Flat 7, March & April"]);
                assert_eq!(told.payment_information_id.as_deref(), Some("P"));
                assert!(told.debtor_agent.is_some() && told.creditor_agent.is_some());
            }
        }
    };
    check(&running);
    running.kill();
    check(&network.run());
}

/// A camt.056 for the payment of that reference.
fn cancellation(uetr: &str) -> String {
    let party =
        |name: &str| format!("<{name}><Agt><FinInstnId><BICFI>ALPHDEFF</BICFI></FinInstnId></Agt></{name}>");
    format!(
        "<Document xmlns='urn:iso:std:iso:20022:tech:xsd:camt.056.001.08'><FIToFIPmtCxlReq><Assgnmt><Id>A</Id>{}{}\
         <CreDtTm>2025-03-03T10:00:00Z</CreDtTm></Assgnmt><Undrlyg><TxInf><CxlId>C</CxlId><OrgnlEndToEndId>E</OrgnlEndToEndId>\
         <OrgnlUETR>{uetr}</OrgnlUETR></TxInf></Undrlyg></FIToFIPmtCxlReq></Document>",
        party("Assgnr"),
        party("Assgne")
    )
}

/// A pacs.004 that sends so much of the payment of that reference back.
fn payment_return(uetr: &str, amount: &str) -> String {
    format!(
        "<Document xmlns='urn:iso:std:iso:20022:tech:xsd:pacs.004.001.09'><PmtRtr><GrpHdr><MsgId>R</MsgId>\
         <CreDtTm>2025-03-03T09:00:00</CreDtTm><NbOfTxs>1</NbOfTxs><SttlmInf><SttlmMtd>CLRG</SttlmMtd></SttlmInf></GrpHdr>\
         <TxInf><RtrId>R1</RtrId><OrgnlUETR>{uetr}</OrgnlUETR><RtrdIntrBkSttlmAmt Ccy='EUR'>{amount}</RtrdIntrBkSttlmAmt>\
         <RtrRsnInf><Rsn><Cd>AC04</Cd></Rsn></RtrRsnInf></TxInf></PmtRtr></Document>"
    )
}

#[test]
fn a_settled_payment_is_past_cancelling_and_goes_back_once() {
    let network = Network::of(PLAN);
    let running = network.run();
    let files = tempfile::tempdir().unwrap();
    let cancel = |uetr: &str| {
        let file = write(&files, "cancel.xml", cancellation(uetr).as_bytes());
        running.command(&["cancel", file.to_str().unwrap()])
    };
    let refused = |said: Said, words: &str| {
        assert!(said.code == Some(1) && said.out.contains(words), "{words}: {said:?}");
    };
    refused(cancel(UETR), "RJCR NOOR");
    let payment = WantedPayment { uetr: Some(UETR.to_owned()), ..wanted("10.00") };
    assert_eq!(pay(&running, vec![payment], None)[0].0, Status::Settled);
    refused(cancel(UETR), "RJCR PTNA");

    let give_back = |name: &str, amount: &str| {
        running.pay(&[&write(&files, name, payment_return(UETR, amount).as_bytes())]).answers()
    };
    assert_eq!(give_back("more.xml", "10.01"), ["RJCT AM09"]);
    assert_eq!(give_back("back.xml", "9.00"), ["ACSC -"]);
    assert_eq!(give_back("again.xml", "1.00"), ["RJCT AM05"]);
    assert_eq!(running.balance("ALPHDEFF", ALICE), "999.00 EUR");
    assert_eq!(running.balance("BETAFRPP", BOB), "1001.00 EUR");
    let answers = files.path().join("answers");
    let message = Pain { id: "told", ..Pain::default() }.write(&files);
    let said = running.command(&["pay", "--out", answers.to_str().unwrap(), message.to_str().unwrap()]);
    assert_eq!(said.code, Some(0), "{said:?}");
    assert!(answers.join("told.pain.002.xml").exists(), "a pain.001 is answered by a pain.002");
    assert_eq!(running.stop().code, Some(0));
}

#[test]
fn a_networks_secret_of_references_outlives_restarts_and_is_in_no_log() {
    let network = Network::of(PLAN);
    let files = tempfile::tempdir().unwrap();
    let secret = network.layout().root().join("references.secret");
    let is_private = || {
        let metadata = std::fs::metadata(&secret).unwrap();
        (metadata.len(), metadata.permissions().mode() & 0o777) == (32, 0o600)
    };
    assert!(is_private(), "made with the network");
    let made = std::fs::read(&secret).unwrap();
    let is_in = |text: &str, secret: &[u8]| text.contains(&tally_gateway::codec::to_hex(secret));
    let message = Pain { id: "again", amount: "3.00", ..Pain::default() }.write(&files);
    let back = write(&files, "back.xml", payment_return(UETR, "1.00").as_bytes());

    let running = network.run_with(&["--log", "debug"]);
    assert_eq!(running.pay(&[&message]).answers(), ["ACSC -"]);
    let payment = WantedPayment { uetr: Some(UETR.to_owned()), ..wanted("10.00") };
    assert_eq!(pay(&running, vec![payment], None)[0].0, Status::Settled);
    assert_eq!(running.pay(&[&back]).answers(), ["ACSC -"]);
    let once = pay(&running, vec![wanted("1.00")], Some("order-1"));
    let said = running.stop();
    assert!(
        said.code == Some(0) && !is_in(&said.err, &made) && !said.err.contains("secret of references"),
        "{said:?}"
    );

    // What is sent again is recognised after a restart too.
    let running = network.run();
    assert_eq!(running.pay(&[&message, &back]).answers(), ["RJCT AM05", "RJCT AM05"]);
    assert_eq!(pay(&running, vec![wanted("1.00")], Some("order-1")), once);
    assert_eq!(running.balance("ALPHDEFF", ALICE), "987.00 EUR");
    assert_eq!(running.stop().code, Some(0));
    assert_eq!(std::fs::read(&secret).unwrap(), made);

    // A directory of an earlier version gets one, and says so; what was sent under another is not recognised.
    std::fs::remove_file(&secret).unwrap();
    let running = network.run_with(&["--log", "info"]);
    assert!(is_private());
    assert_eq!(running.pay(&[&message]).answers(), ["ACSC -"]);
    let said = running.stop();
    let now = std::fs::read(&secret).unwrap();
    let told = said.err.lines().any(|line| line.contains("INFO") && line.contains("has one now"));
    assert!(told && now != made && !is_in(&said.err, &now), "{said:?}");

    // The one that is restored recognises it again. One that is named and is not there is not made, nor is a damaged one.
    std::fs::write(&secret, &made).unwrap();
    let running = network.run();
    assert_eq!(running.pay(&[&message]).answers(), ["RJCT AM05"]);
    assert_eq!(running.stop().code, Some(0));
    let refuses = |arguments: &[&str], words: &str| {
        let mut running = network.start(arguments);
        assert!(!running.listens());
        let said = running.ended();
        assert!(said.code == Some(2) && said.err.contains(words), "{words}: {said:?}");
    };
    refuses(&["--set", "http.references=elsewhere.secret"], "restore it from the backup");
    assert!(!network.layout().root().join("elsewhere.secret").exists());
    std::fs::set_permissions(&secret, PermissionsExt::from_mode(0o644)).unwrap();
    refuses(&[], "chmod 600");
    std::fs::set_permissions(&secret, PermissionsExt::from_mode(0o600)).unwrap();
    std::fs::write(&secret, &made[..31]).unwrap();
    refuses(&[], "32 bytes are wanted");
}
