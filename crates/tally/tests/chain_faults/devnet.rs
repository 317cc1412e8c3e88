//! A network for trials, as developers know it: accounts with money whose keys are shown.

use super::client::Client;
use super::support::{run, submit, tally, transfer};
use alloy_primitives::{Address, hex};
use serde_json::json;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::Stdio;
use tally_peers::NodeKey;

/// Starts it, pays, and ends it with its input; the lines about keys.
fn pays_in(directory: &Path, more: &[&str]) -> Vec<String> {
    let arguments = ["--log", "info", "chain", "devnet", "--until-input-ends", "--validators", "1"];
    let mut child = tally()
        .args(arguments)
        .args(["--free-ports", "--block-period-seconds", "1"])
        .args(more)
        .arg(directory)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let (mut lines, mut line) = (Vec::new(), String::new());
    while !line.starts_with("ready ") {
        line.clear();
        assert!(out.read_line(&mut line).unwrap() > 0, "it ended: {lines:?}");
        lines.push(line.trim_end().to_owned());
    }
    let http = line.split(' ').find_map(|word| word.strip_prefix("http=")).unwrap();
    let client = Client::new(http.parse().unwrap());
    let shown: Vec<String> =
        lines.into_iter().filter(|line| line.starts_with("key ") || line.starts_with("mnemonic ")).collect();
    let key = shown[1].split_once("0x").unwrap().1.split_once(" 0x").unwrap().1;
    let payer = NodeKey::new(&hex::decode(key).unwrap().try_into().unwrap()).unwrap();
    let nonce = client.call("eth_getTransactionCount", &json!([payer.address(), "latest"])).unwrap();
    let nonce = u64::from_str_radix(nonce.as_str().unwrap().trim_start_matches("0x"), 16).unwrap();
    let (hash, encoded) = transfer(&payer, nonce, Address::repeat_byte(7));
    submit(&client, hash, &encoded).unwrap();
    super::support::eventually("the payment is in a block", || {
        let receipt = client.call("eth_getTransactionReceipt", &json!([hash])).unwrap();
        (receipt["status"] == "0x1").then_some(())
    });
    drop(child.stdin.take());
    let mut rest = String::new();
    out.read_to_string(&mut rest).unwrap();
    assert!(child.wait().unwrap().success() && rest.ends_with("stopped\n"), "{rest}");
    shown
}

#[test]
fn a_network_for_trials_shows_accounts_with_money_and_keeps_them() {
    let home = tempfile::tempdir().unwrap();
    let directory = home.path().join("trial");
    let shown = pays_in(&directory, &[]);
    assert_eq!(shown.len(), 11);
    let first = "key 0 0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266 \
                 0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80";
    assert_eq!(shown[0], first);
    let words =
        "mnemonic test test test test test test test test test test test junk at m/44'/60'/0'/0/0 and on";
    assert_eq!(shown[10], words);
    // A key store that somebody puts beside them is no account of the phrase.
    std::fs::write(directory.join("keystore/other.json"), "{}").unwrap();
    assert_eq!(pays_in(&directory, &[]), shown, "the same after a restart");

    // Another phrase gives other accounts, and none to a network that is there.
    let phrase = "legal winner thank year wave sausage worth useful legal winner thank yellow";
    let path = directory.to_str().unwrap();
    run(&["chain", "devnet", "--mnemonic", phrase, path]).failed(&["has its accounts already"]);
    let shown = pays_in(&home.path().join("other"), &["--mnemonic", phrase, "--accounts", "2"]);
    assert_eq!((shown.len(), shown[0] == first), (3, false));
    let wrong = phrase.replace("yellow", "zebra");
    run(&["chain", "devnet", "--mnemonic", &wrong]).failed(&["--mnemonic", "English words"]);
}
