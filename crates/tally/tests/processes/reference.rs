//! Published messages, on a network with the institutions and accounts that they name. Skipped where the
//! files are not beside the clone.

use super::support::{Network, Running};
use std::path::{Path, PathBuf};

const PLAN: &str = r#"
participant = [
    { bic = "TSCBDEFF", name = "O=Central Bank,C=DE", kind = "central-bank" },
    { bic = "CBSBLT26", name = "O=A,C=LT", kind = "bank", reserves = { EUR = "1000.00" } },
    { bic = "SMPOLT22", name = "O=B,C=LT", kind = "bank", reserves = { EUR = "1000.00" } },
    { bic = "ITUSUSP1", name = "O=C,C=US", kind = "bank", reserves = { USD = "10000.00" }, unidentified_account = "unidentified" },
    { bic = "USTBUS31", name = "O=D,C=US", kind = "bank", reserves = { USD = "10000.00" }, unidentified_account = "unidentified" },
    { bic = "SSTYPLP1", name = "O=E,C=PL", kind = "bank", reserves = { USD = "50000.00" } },
    { bic = "HDSBKHPP", name = "O=F,C=KH", kind = "bank" },
    { bic = "CTZNCA8V001", name = "O=G,C=CA", kind = "bank" },
]
asset = [
    { code = "EUR", exponent = 2, settled_at = "TSCBDEFF" },
    { code = "USD", exponent = 2, settled_at = "TSCBDEFF" },
]
account = [
    { institution = "CBSBLT26", iban = "LT007180000000000000", currency = "EUR", opening = "100.00" },
    { institution = "SMPOLT22", iban = "LT007400000000000000", currency = "EUR" },
    { institution = "ITUSUSP1", alias = "unidentified", currency = "USD", opening = "6000.00", key = "@institution" },
    { institution = "USTBUS31", alias = "unidentified", currency = "USD", key = "@institution" },
]
"#;

fn files() -> Option<[PathBuf; 3]> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/reference/iso20022");
    let files = ["pain.001.001.03.sepa.xml", "pacs.008.001.07.xml", "pacs.009.001.07.xml"]
        .map(|name| directory.join(name));
    let found = files.iter().all(|file| file.exists());
    if !found {
        eprintln!("skipped: {} does not hold the reference messages", directory.display());
    }
    found.then_some(files)
}

fn balances(running: &Running<'_>) -> Vec<String> {
    [
        ("CBSBLT26", "LT007180000000000000"),
        ("SMPOLT22", "LT007400000000000000"),
        ("TSCBDEFF", "settlement:EUR:SMPOLT22"),
        ("ITUSUSP1", "unidentified"),
        ("USTBUS31", "unidentified"),
        ("SSTYPLP1", "own:USD"),
        ("HDSBKHPP", "own:USD"),
        ("TSCBDEFF", "settlement:USD:HDSBKHPP"),
    ]
    .map(|(bic, account)| running.balance(bic, account))
    .into()
}

#[test]
fn control_sums_that_do_not_add_up_are_refused() {
    let Some([pain, pacs008, pacs009]) = files() else { return };
    let network = Network::of(PLAN);
    let running = network.run();
    let said = running.pay(&[&pain, &pacs008, &pacs009]);
    assert_eq!(said.answers(), ["ACSC -", "RJCT AM10", "RJCT AM10"], "{}", said.out);
    let settled = ["0.01 EUR", "99.99 EUR", "1099.99 EUR"];
    let untouched = ["6000.00 USD", "0.00 USD", "50000.00 USD", "0.00 USD", "0.00 USD"];
    assert_eq!(balances(&running), [&settled[..], &untouched].concat());
}

#[test]
fn control_sums_can_be_ignored() {
    let Some([pain, pacs008, pacs009]) = files() else { return };
    let network = Network::of(PLAN);
    let running = network.run_with(&["--set", "messages.control_sum=ignore"]);
    let said = running.pay(&[&pain, &pacs008, &pacs009]);
    assert_eq!(said.answers(), ["ACSC -", "ACSC -", "ACSC -"], "{}", said.out);
    let settled = ["0.01 EUR", "99.99 EUR", "1099.99 EUR", "1000.00 USD", "5000.00 USD"];
    let institutions = ["27577.00 USD", "22423.00 USD", "22423.00 USD"];
    assert_eq!(balances(&running), [&settled[..], &institutions].concat());
}
