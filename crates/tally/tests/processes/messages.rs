//! Payment messages and the answers to them.

use super::support::{ALBERT, ALICE, BOB, Network, PLAN, Pain, Running, write};
use base64::Engine as _;
use std::path::{Path, PathBuf};
use tally_gateway::wire::{SignedDraft, SubmitBody};
use tempfile::TempDir;

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[test]
fn the_examples_get_the_answers_that_their_readme_says() {
    let home = tempfile::tempdir().unwrap();
    let directory = home.path().join("network");
    let made = super::support::tally()
        .args(["network", "init", "--demo", "--weak-keys"])
        .arg(&directory)
        .output()
        .unwrap();
    assert!(made.status.success(), "{made:?}");
    let network = Network::at(home, directory);
    let running = network.run();
    let mut files: Vec<_> = std::fs::read_dir(repository().join("examples"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "xml"))
        .collect();
    files.sort();
    let files: Vec<_> = files.iter().map(PathBuf::as_path).collect();
    let said = running.pay(&files);
    assert_eq!(said.code, Some(0), "{said:?}");
    let settled = "ACSC -";
    let mut wanted = vec![settled; 8];
    wanted.extend(["RJCT AM04", "RJCT AC01", "RJCT AM05", settled, "RJCT FF01"]);
    assert_eq!(said.answers(), wanted, "{}", said.out);

    for (bic, account, balance) in [
        ("ALPHDEFF", ALICE, "11429.50 EUR"),
        ("ALPHDEFF", ALBERT, "11870.75 EUR"),
        ("BETAFRPP", BOB, "2549.85 EUR"),
        ("BETAFRPP", "FR7699999000010000000000212", "12100.01 EUR"),
        ("GAMMITMM", "IT79N9999900001000000000001", "12049.89 EUR"),
        ("ALPHDEFF", "own:EUR", "49999500.00 EUR"),
        ("BETAFRPP", "own:EUR", "50000500.00 EUR"),
        // Alpha: 250 and 500 out, 3,550.25 in.
        ("TSCBDEFF", "settlement:EUR:ALPHDEFF", "50002800.25 EUR"),
    ] {
        assert_eq!(running.balance(bic, account), balance, "{bic} {account}");
    }

    // All of them once more: what was settled or refused for good is a duplicate now, and nothing moves.
    let said = running.pay(&files);
    let duplicates = said.answers().iter().filter(|answer| *answer == "RJCT AM05").count();
    assert_eq!(duplicates, 11, "{}", said.out);
    assert_eq!(running.balance("ALPHDEFF", ALICE), "11429.50 EUR");
}

struct Sender<'a> {
    running: &'a Running<'a>,
    files: TempDir,
}

impl Sender<'_> {
    /// Sends a message; the status and reason code of its payment.
    fn send(&self, message: &Pain<'_>) -> String {
        let said = self.running.pay(&[&message.write(&self.files)]);
        assert_eq!(said.code, Some(0), "{said:?}");
        said.answers().remove(0)
    }
}

#[test]
fn every_refusal_has_its_code_and_moves_nothing() {
    let network = Network::of(PLAN);
    let running = network.run();
    let sender = Sender { running: &running, files: tempfile::tempdir().unwrap() };
    let base = Pain::default;
    let today = tally_gateway::payments::today(tally::connection::now());
    let tomorrow = format!("{:04}-12-31", today.year() + 1);
    let cases = [
        ("AM04", Pain { id: "funds", amount: "1000.01", ..base() }),
        ("AM02", Pain { id: "large", amount: "50000.01", ..base() }),
        ("AM12", Pain { id: "decimals", amount: "0.001", ..base() }),
        ("AM01", Pain { id: "zero", amount: "0.00", ..base() }),
        ("AM12", Pain { id: "negative", amount: "-1", ..base() }),
        ("AM03", Pain { id: "currency", currency: "CHF", ..base() }),
        ("AC09", Pain { id: "asset", currency: "USD", ..base() }),
        ("AC02", Pain { id: "digits", debtor: ("ALPHDEFF", "DE21999000010000000001"), ..base() }),
        ("AC03", Pain { id: "digits2", creditor: ("BETAFRPP", "FR7799999000010000000000115"), ..base() }),
        ("AC01", Pain { id: "debtor", debtor: ("BETAFRPP", ALICE), ..base() }),
        ("AC01", Pain { id: "creditor", creditor: ("BETAFRPP", "nobody"), ..base() }),
        ("RC03", Pain { id: "agent", debtor: ("NOWHDEFF", ALICE), ..base() }),
        ("RC04", Pain { id: "agent2", creditor: ("NOWHDEFF", BOB), ..base() }),
        ("AC03", Pain { id: "self", creditor: ("ALPHDEFF", ALICE), ..base() }),
        ("DT01", Pain { id: "date", date: &tomorrow, ..base() }),
        ("AM10", Pain { id: "sum", control_sum: Some("11.00"), ..base() }),
    ];
    for (code, message) in cases {
        assert_eq!(sender.send(&message), format!("RJCT {code}"), "{}", message.id);
    }
    assert_eq!(running.balance("ALPHDEFF", ALICE), "1000.00 EUR");
    assert_eq!(running.balance("BETAFRPP", BOB), "1000.00 EUR");
    let metrics = running.client().metrics().unwrap();
    for wanted in ["refused_payments_total{reason=\"AM10\"} 1", "reason=\"insufficient_funds\"} 1"] {
        assert!(metrics.contains(wanted), "{wanted} in {metrics}");
    }
    // The others are not hurt.
    assert_eq!(sender.send(&Pain { id: "fine", ..base() }), "ACSC -");
    assert_eq!(running.balance("ALPHDEFF", ALICE), "990.00 EUR");
}

#[test]
fn a_copy_is_refused_unless_it_says_so() {
    let network = Network::of(PLAN);
    let running = network.run();
    let sender = Sender { running: &running, files: tempfile::tempdir().unwrap() };
    let first = Pain { id: "once", amount: "7.00", ..Pain::default() };
    let poor = Pain { id: "poor", amount: "5000.00", ..Pain::default() };
    assert_eq!(sender.send(&first), "ACSC -");
    assert_eq!(sender.send(&poor), "RJCT AM04");
    let copy = |message: &Pain<'_>, says: bool| {
        let (id, amount) = (message.id.to_owned(), message.amount.to_owned());
        sender.send(&Pain { id: &id, amount: &amount, possible_duplicate: Some(says), ..Pain::default() })
    };
    assert_eq!(copy(&first, false), "RJCT AM05");
    assert_eq!(copy(&first, true), "ACSC -", "the outcome of the original");
    assert_eq!(copy(&poor, true), "RJCT AM04", "the outcome of the original");
    // The same reference for another amount is no copy, whatever it says.
    let other = Pain { amount: "8.00", ..first };
    assert_eq!(copy(&other, true), "RJCT AM05");
    assert_eq!(running.balance("ALPHDEFF", ALICE), "993.00 EUR");

    // The journal remembers it all.
    running.kill();
    let running = network.run();
    let sender = Sender { running: &running, files: tempfile::tempdir().unwrap() };
    let again = Pain { id: "once", amount: "7.00", possible_duplicate: Some(true), ..Pain::default() };
    assert_eq!(sender.send(&again), "ACSC -");
    assert_eq!(running.balance("ALPHDEFF", ALICE), "993.00 EUR");
}

#[test]
fn accounts_are_opened_frozen_and_closed_while_payments_run() {
    let network = Network::of(PLAN);
    let running = network.run();
    let sender = Sender { running: &running, files: tempfile::tempdir().unwrap() };
    let order = |arguments: &[&str], code: i32| {
        let said = running.command(arguments);
        assert_eq!(said.code, Some(code), "{arguments:?} {said:?}");
        said.statuses().remove(0)
    };
    assert_eq!(order(&["account", "freeze", "BETAFRPP", BOB], 0), "ACSC");
    assert_eq!(sender.send(&Pain { id: "frozen", ..Pain::default() }), "RJCT AC06");
    assert!(running.balance("BETAFRPP", BOB).ends_with("frozen"));
    assert_eq!(order(&["account", "release", "BETAFRPP", BOB], 0), "ACSC");
    assert_eq!(sender.send(&Pain { id: "released", ..Pain::default() }), "ACSC -");
    assert_eq!(order(&["account", "close", "BETAFRPP", BOB], 1), "RJCT", "it is not empty");

    assert_eq!(order(&["account", "open", "ALPHDEFF", "zoe", "EUR", "--overdraft", "5.00"], 0), "ACSC");
    assert_eq!(order(&["account", "open", "ALPHDEFF", "zoe", "EUR"], 1), "RJCT", "the alias is taken");
    let zoe = ("ALPHDEFF", "zoe");
    assert_eq!(sender.send(&Pain { id: "credit", debtor: zoe, amount: "5.00", ..Pain::default() }), "ACSC -");
    assert_eq!(
        sender.send(&Pain { id: "spent", debtor: zoe, amount: "0.01", ..Pain::default() }),
        "RJCT AM04"
    );
    assert_eq!(order(&["account", "limit", "ALPHDEFF", "zoe", "6.00"], 0), "ACSC");
    assert_eq!(sender.send(&Pain { id: "more", debtor: zoe, amount: "0.50", ..Pain::default() }), "ACSC -");
    assert_eq!(running.balance("ALPHDEFF", "zoe"), "-5.50 EUR");
    assert_eq!(order(&["transfer", &format!("ALPHDEFF/{ALICE}"), "ALPHDEFF/zoe", "5.50", "EUR"], 0), "ACSC");
    assert_eq!(order(&["account", "close", "ALPHDEFF", "zoe"], 0), "ACSC");
    assert_eq!(sender.send(&Pain { id: "closed", creditor: zoe, ..Pain::default() }), "RJCT AC04");
}

#[test]
fn many_legs_settle_together_or_not_at_all() {
    let network = Network::of(PLAN);
    let running = network.run();
    let (alice, bob) = (format!("ALPHDEFF/{ALICE}"), format!("BETAFRPP/{BOB}"));
    let exchange = |payments: &[[&str; 4]]| {
        let mut arguments = vec!["exchange"];
        for payment in payments {
            arguments.push("--pay");
            arguments.extend(payment);
        }
        running.command(&arguments).statuses().remove(0)
    };
    // Payment versus payment.
    let euros = [alice.as_str(), bob.as_str(), "100.00", "EUR"];
    assert_eq!(exchange(&[euros, ["BETAFRPP/bob-usd", "ALPHDEFF/alice-usd", "110.00", "USD"]]), "ACSC");
    assert_eq!(running.balance("ALPHDEFF", "alice-usd"), "110.00 USD");
    assert_eq!(running.balance("TSCBDEFF", "settlement:USD:ALPHDEFF"), "100110.00 USD");
    // Delivery versus payment.
    let bonds = ["ALPHDEFF/alice-bonds", "BETAFRPP/bob-bonds", "3", "DE000TALLY17"];
    assert_eq!(exchange(&[bonds, [bob.as_str(), alice.as_str(), "297.00", "EUR"]]), "ACSC");
    assert_eq!(running.balance("TSDPDEFF", "settlement:DE000TALLY17:BETAFRPP"), "3 DE000TALLY17");
    // One leg cannot be paid: nothing moves.
    let too_many = ["ALPHDEFF/alice-bonds", "BETAFRPP/bob-bonds", "98", "DE000TALLY17"];
    assert_eq!(exchange(&[too_many, [bob.as_str(), alice.as_str(), "1.00", "EUR"]]), "RJCT");
    assert_eq!(running.balance("BETAFRPP", BOB), "803.00 EUR");
    assert_eq!(running.balance("ALPHDEFF", ALICE), "1197.00 EUR");
    assert_eq!(running.balance("ALPHDEFF", "alice-bonds"), "97 DE000TALLY17");
    // Issue and redeem, by banks and by the central bank.
    for (arguments, account, balance) in [
        (
            ["issue", "EMONNL2A/emil@example.org", "1.00", "EUR"],
            ("EMONNL2A", "emil@example.org"),
            "31.00 EUR",
        ),
        (
            ["redeem", "EMONNL2A/emil@example.org", "36.00", "EUR"],
            ("EMONNL2A", "emil@example.org"),
            "-5.00 EUR",
        ),
        (["issue", "TSCBDEFF/settlement:EUR:EMONNL2A", "7.00", "EUR"], ("EMONNL2A", "own:EUR"), "57.00 EUR"),
        (["redeem", "TSCBDEFF/settlement:EUR:EMONNL2A", "7.00", "EUR"], ("EMONNL2A", "own:EUR"), "50.00 EUR"),
    ] {
        let said = running.command(&arguments);
        let refused = arguments[0] == "redeem" && arguments[2] == "36.00";
        assert_eq!(said.statuses(), ["ACSC"], "{said:?} {refused}");
        assert_eq!(running.balance(account.0, account.1), balance);
    }
}

#[test]
fn a_gateway_takes_only_what_the_payer_signed() {
    let network = Network::of(PLAN);
    let running = network.run();
    let client = running.client();
    let message = Pain { id: "mine", ..Pain::default() }.xml().into_bytes();
    let encoded = base64::engine::general_purpose::STANDARD.encode(&message);
    let answer = |signed: Vec<SignedDraft>| {
        let report = client.pay(&SubmitBody { message: encoded.clone(), signed }).unwrap();
        let report = tally_iso20022::parse_status_report(&report, &Default::default()).unwrap();
        let payment = &report.transactions[0];
        payment.reasons.first().and_then(|reason| reason.code.clone()).unwrap_or_default()
    };
    assert_eq!(answer(Vec::new()), "DS0A", "no signature at all");

    let prepared = client.prepare(&message).unwrap();
    let draft = prepared.payments[0].draft.clone().unwrap();
    let signed = |transaction: String| vec![SignedDraft { position: 0, transaction }];
    let unsigned = answer(signed(draft.transaction.clone()));
    assert!(unsigned.starts_with("DS0"), "{unsigned}");
    assert_eq!(answer(signed("00".to_owned())), "FF01");

    // A stranger's signature.
    let mut transaction = tally_gateway::codec::decode_one(&draft.transaction).unwrap();
    transaction.sign(&client.network().unwrap().network.id, &tally_crypto::SigningKey::from_seed([1; 32]));
    let stranger = answer(signed(tally_gateway::codec::encode_one(&transaction).unwrap()));
    assert!(stranger.starts_with("DS0"), "{stranger}");
    // The right payer, but of another payment than the message's.
    let mut transaction = tally_gateway::codec::decode_one(&draft.transaction).unwrap();
    for leg in &mut transaction.legs {
        leg.amount.0 *= 2;
    }
    assert_eq!(answer(signed(tally_gateway::codec::encode_one(&transaction).unwrap())), "DS0H");
    assert_eq!(running.balance("ALPHDEFF", ALICE), "1000.00 EUR");
}

#[test]
fn files_that_are_no_messages_are_answered_with_ff01() {
    let network = Network::of(PLAN);
    let running = network.run();
    let files = tempfile::tempdir().unwrap();
    let good = Pain::default().xml();
    let entities = r#"<?xml version="1.0"?><!DOCTYPE a [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">
        <!ENTITY c "&b;&b;&b;&b;&b;&b;&b;&b;">]><Document xmlns="urn:iso:std:iso:20022:tech:xsd:pain.001.001.09">&c;</Document>"#;
    let deep = format!("{}{}", "<a>".repeat(100_000), "</a>".repeat(100_000));
    let utf16: Vec<u8> = good.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let latin = good.replace("<Nm>D</Nm>", "<Nm>\u{e9}</Nm>");
    let latin: Vec<u8> = latin.chars().map(|c| u8::try_from(u32::from(c)).unwrap()).collect();
    let cases: [(&str, Vec<u8>); 10] = [
        ("long", vec![b' '; (16 << 20) + 1]),
        ("empty", Vec::new()),
        ("text", b"pay alice 10".to_vec()),
        ("cut", good.as_bytes()[..good.len() / 2].to_vec()),
        ("entities", entities.as_bytes().to_vec()),
        ("deep", deep.into_bytes()),
        ("namespace", good.replace("pain.001.001.09", "pain.001.001.99").into_bytes()),
        ("kind", good.replace("pain.001.001.09", "camt.053.001.07").into_bytes()),
        ("utf16", utf16),
        ("latin1", latin),
    ];
    for (name, bytes) in cases {
        let said = running.pay(&[&write(&files, name, &bytes)]);
        assert_eq!((said.code, said.answers()), (Some(0), vec!["RJCT FF01".to_owned()]), "{name}: {said:?}");
    }
    assert_eq!(running.balance("ALPHDEFF", ALICE), "1000.00 EUR");
}
