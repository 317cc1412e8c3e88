//! The messages in `examples/` and the pages in `docs/errors/` say what the program does.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use tally_iso20022::{
    AccountId, CancellationRejection, Limits, Message, MessageKind, StatusReason, derived_uetr, parse,
};

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn example(name: &str) -> Vec<u8> {
    std::fs::read(repository().join("examples").join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn message(name: &str) -> Message {
    parse(&example(name), &Limits::default()).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// IBAN and BIC of the demo accounts, from lines like `iban = "…"`.
fn accounts() -> BTreeMap<String, String> {
    let text = String::from_utf8(example("accounts.toml")).expect("UTF-8");
    let values = |key: &str| -> Vec<String> {
        let lines = text.lines().filter_map(|line| line.split_once(" = "));
        lines.filter(|(name, _)| *name == key).map(|(_, value)| value.trim_matches('"').to_owned()).collect()
    };
    values("iban").into_iter().zip(values("institution")).collect()
}

#[test]
fn every_example_but_the_malformed_is_a_message_whose_payments_are_right() {
    let accounts = accounts();
    assert_eq!(accounts.len(), 5);
    let readme = String::from_utf8(example("README.md")).expect("UTF-8");
    let unknown = "FR7699999000010000000000988";
    for (name, kind, payments) in [
        ("01-inside-a-bank.pain.001.xml", MessageKind::CustomerCreditTransferInitiation, 1),
        ("02-between-two-banks.pacs.008.xml", MessageKind::FiToFiCustomerCreditTransfer, 1),
        ("03-batch.pain.001.xml", MessageKind::CustomerCreditTransferInitiation, 6),
        ("04-insufficient-funds.pain.001.xml", MessageKind::CustomerCreditTransferInitiation, 1),
        ("05-unknown-creditor.pain.001.xml", MessageKind::CustomerCreditTransferInitiation, 1),
        ("06-duplicate.pain.001.xml", MessageKind::CustomerCreditTransferInitiation, 1),
        ("07-institutions.pacs.009.xml", MessageKind::FinancialInstitutionCreditTransfer, 1),
    ] {
        assert!(readme.contains(name), "{name} is not in the README");
        let message = message(name);
        assert_eq!((message.kind, message.payments.len()), (kind, payments), "{name}");
        assert_eq!(message.header.is_some(), name.starts_with("03"));
        for (payment, verdict) in message.instructions() {
            let transfer = verdict.unwrap_or_else(|reason| panic!("{name}: {reason}"));
            assert!(payment.uetr.is_some());
            assert!(transfer.amount.minor_units(2).is_ok());
            assert_eq!(&transfer.amount.currency, b"EUR");
            for (party, agent) in
                [(&transfer.debtor, &transfer.debtor_agent), (&transfer.creditor, &transfer.creditor_agent)]
            {
                let Some(AccountId::Iban(iban)) = &party.account else {
                    assert_eq!(kind, MessageKind::FinancialInstitutionCreditTransfer);
                    assert!(party.bic.is_some());
                    continue;
                };
                assert!(iban.checksum_ok(), "{name}: {iban}");
                let bic = agent.as_ref().and_then(|agent| agent.bic).map(|bic| bic.to_string());
                match accounts.get(iban.as_str()) {
                    Some(institution) => assert_eq!(bic.as_ref(), Some(institution), "{name}: {iban}"),
                    None => assert_eq!((&name[..2], iban.as_str()), ("05", unknown)),
                }
                if accounts.contains_key(iban.as_str()) {
                    assert!(readme.contains(iban.as_str()), "{iban} is not in the README");
                }
            }
        }
    }
}

#[test]
fn the_examples_are_refused_for_what_their_names_say() {
    let (first, again) = (message("01-inside-a-bank.pain.001.xml"), message("06-duplicate.pain.001.xml"));
    assert_eq!(first.payments[0].uetr, again.payments[0].uetr);
    assert_ne!(first.message_id, again.message_id);
    let derived = |message: &Message| derived_uetr(&[1; 32], Some("ALPHDEFF"), message, 0);
    assert_ne!(derived(&first), derived(&again));
    let too_much = message("04-insufficient-funds.pain.001.xml");
    let amount = too_much.payments[0].transfer.as_ref().map(|transfer| transfer.amount.minor_units(2));
    assert_eq!(amount, Ok(Ok(5_000_000)), "more than all demo accounts of Carla can hold");
    let error = parse(&example("08-malformed.pain.001.xml"), &Limits::default()).expect_err("malformed");
    assert_eq!(error.reason, StatusReason::FF01);
    assert!(error.position.is_some());
    let mut all: Vec<_> = (1..=7)
        .filter(|number| *number != 6)
        .flat_map(|number| {
            let names = std::fs::read_dir(repository().join("examples")).expect("the examples");
            let prefix = format!("{number:02}-");
            let name = names
                .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
                .find(|name| name.starts_with(&prefix))
                .expect("an example of that number");
            message(&name).payments.into_iter().map(|payment| payment.uetr).collect::<Vec<_>>()
        })
        .collect();
    let payments = all.len();
    all.sort();
    all.dedup();
    assert_eq!((payments, all.len()), (11, 11), "no other two payments share a reference");
}

/// Code, name, sentence and definition of every reason that the program can give.
fn reasons() -> Vec<[&'static str; 4]> {
    let status = StatusReason::ALL.iter().map(|reason| {
        assert_eq!(StatusReason::from_code(reason.code()), Some(*reason));
        [reason.code(), reason.name(), reason.sentence(), reason.definition()]
    });
    let cancellation = CancellationRejection::ALL.iter().map(|reason| {
        assert_eq!(CancellationRejection::from_code(reason.code()), Some(*reason));
        [reason.code(), reason.name(), reason.sentence(), reason.definition()]
    });
    status.chain(cancellation).collect()
}

#[test]
fn every_reason_has_its_page() {
    let index = std::fs::read_to_string(repository().join("docs/errors/README.md")).expect("the index");
    for [code, name, sentence, definition] in reasons() {
        let page = repository().join(format!("docs/errors/{code}.md"));
        let page =
            std::fs::read_to_string(&page).unwrap_or_else(|error| panic!("{}: {error}", page.display()));
        assert!(page.starts_with(&format!("# {code} {name}\n{sentence}\n")), "{code}");
        let definition = format!("The standard's definition: {definition}\n");
        for part in [&*definition, "## When Tallystick gives it\n", "## What to do\n"] {
            assert!(page.contains(part), "{code} has no {part}");
        }
        assert!(index.contains(&format!("[{code}]({code}.md) | {name} | {sentence} |")), "{code}");
    }
    let codes: BTreeSet<_> = reasons().into_iter().map(|[code, ..]| code).collect();
    let pages = std::fs::read_dir(repository().join("docs/errors")).expect("the pages").count();
    assert_eq!(pages, codes.len() + 1, "a page without a reason");
}
