//! Making, running and stopping networks.

use super::support::{ALBERT, ALICE, Network, PLAN, Said, tally};

#[test]
fn a_network_is_made_whole_or_not_at_all() {
    let home = tempfile::tempdir().unwrap();
    let (plan, directory) = (home.path().join("plan.toml"), home.path().join("network"));
    let init = |text: &str| -> Said {
        std::fs::write(&plan, text).unwrap();
        let mut command = tally();
        command.args(["network", "init", "--weak-keys", "--plan"]).args([&plan, &directory]);
        command.output().unwrap().into()
    };
    let left = || std::fs::read_dir(home.path()).unwrap().count();

    let said = init(&PLAN.replace("exponent = 0", "exponents = 0"));
    assert_eq!(said.code, Some(2));
    assert!(
        said.err.contains("plan.toml:44:1: asset[2].exponents: unknown field `exponents`"),
        "{}",
        said.err
    );
    // Refused by the running network only, after files, keys and accounts were made.
    let mut rich = PLAN.to_owned();
    for name in ["a", "b", "c", "d", "e"] {
        rich.push_str(&format!(
            "\n[[account]]\ninstitution = \"EMONNL2A\"\nalias = \"{name}\"\ncurrency = \"EUR\"\nopening = \"9999999999999999.99\"\n"
        ));
    }
    let said = init(&rich);
    assert_eq!((said.code, left()), (Some(2), 1), "{said:?}");
    assert!(said.err.contains("issuing opening balances"), "{}", said.err);

    let said = init(&PLAN.replace("\"emil@example.org\"", "\"emil@example.org\"\nkey = \"..\""));
    assert_eq!(said.code, Some(0), "{}", said.err);
    assert!(directory.join("keys/customers/%2E..pem").exists(), "key names are made safe");

    let said = init(PLAN);
    assert_eq!(said.code, Some(2));
    assert!(said.err.contains("exists already"), "{}", said.err);
    assert_eq!(left(), 2, "nothing is left beside the network");
}

#[test]
fn a_stopped_network_starts_where_it_ended() {
    let network = Network::of(PLAN);
    let running = network.run();
    let said = running.command(&[
        "transfer",
        &format!("ALPHDEFF/{ALICE}"),
        &format!("ALPHDEFF/{ALBERT}"),
        "1.23",
        "EUR",
    ]);
    assert_eq!(said.code, Some(0), "{said:?}");
    let uetr = said.out.split(' ').nth(1).unwrap().to_owned();
    let status = running.command(&["status", &uetr]).out;
    let view = running.client().network().unwrap();
    let receipt = running.command(&["receipt", &uetr]);
    assert!(receipt.code == Some(0) && receipt.out.contains("\"decision_path\""), "{receipt:?}");
    assert_eq!(running.command(&["network", "status"]).code, Some(0));
    let said = running.stop();
    assert_eq!(said.code, Some(0), "{said:?}");
    assert!(said.out.contains("stopped"), "{said:?}");
    assert!(!network.layout().run_file().exists());
    assert!(std::fs::read_dir(network.directory.join("snapshots")).unwrap().count() > 0);

    let said: Said = tally()
        .arg("--network")
        .arg(&network.directory)
        .args(["balance", "ALPHDEFF", ALICE])
        .output()
        .unwrap()
        .into();
    assert_eq!(said.code, Some(2));
    assert!(said.err.contains("does not run"), "{}", said.err);

    let running = network.run();
    assert_eq!(running.balance("ALPHDEFF", ALICE), "998.77 EUR");
    assert_eq!(running.command(&["status", &uetr]).out, status);
    let again = running.client().network().unwrap();
    assert_eq!((again.sequence, again.totals), (view.sequence, view.totals));
}

#[test]
fn accounts_are_opened_by_several_at_once() {
    const SEVERAL: u32 = 8;
    let network = Network::of(PLAN);
    let running = network.run();
    let first = running.client().books("ALPHDEFF").unwrap().next_account;
    let owner = tally_crypto::SigningKey::from_seed([7; 32]).public_key().to_string();
    let opened: Vec<_> = (0..SEVERAL)
        .map(|at| {
            let mut command = tally();
            command.arg("--network").arg(&network.directory);
            let alias = format!("account-{at}");
            command.args(["account", "open", "ALPHDEFF", &alias, "EUR", "--owner", &owner]);
            command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
            (alias, command.spawn().unwrap())
        })
        .collect();
    let mut numbers = std::collections::BTreeSet::new();
    for (alias, process) in opened {
        let said: Said = process.wait_with_output().unwrap().into();
        assert_eq!(said.code, Some(0), "{alias}: {said:?}");
        numbers.insert(running.client().account("ALPHDEFF", &alias).unwrap().number);
    }
    assert_eq!(numbers, (first..first + SEVERAL).collect());
}

#[test]
fn a_network_runs_once_and_only_with_its_keys() {
    let network = Network::of(PLAN);
    let refused = |said: Said, text: &str| {
        assert_eq!(said.code, Some(2), "{said:?}");
        assert!(said.err.contains(text), "{text} in {}", said.err);
    };
    let start = |arguments: &[&str], passphrase: Option<&str>| -> Said {
        let mut command = tally();
        command.args(["network", "run"]).arg(&network.directory).args(arguments);
        if let Some(passphrase) = passphrase {
            command.env("TALLY_PASSPHRASE", passphrase);
        }
        command.output().unwrap().into()
    };
    refused(start(&[], Some("wrong")), "passphrase");
    refused(start(&["--listen", "0.0.0.0:0"], None), "not on loopback");
    refused(start(&["--set", "http.lisen=1"], None), "unknown field `lisen`");
    let running = network.run();
    refused(start(&[], None), "journal");
    assert_eq!(running.balance("ALPHDEFF", ALICE), "1000.00 EUR", "the first is not hurt");
    drop(running);

    let genesis = network.layout().genesis();
    let text = std::fs::read_to_string(&genesis).unwrap();
    std::fs::write(&genesis, text.replace("BETAFRPP", "GAMMITMM")).unwrap();
    refused(start(&[], None), "one of the two was changed");
}

#[test]
fn institutions_and_currencies_are_added_in_the_configuration() {
    let network = Network::of(PLAN);
    let running = network.run();
    assert_eq!(running.stop().code, Some(0));
    let said: Said = tally()
        .args(["network", "key", "--institution"])
        .arg(&network.directory)
        .arg("GAMMITMM")
        .output()
        .unwrap()
        .into();
    assert_eq!(said.code, Some(0), "{said:?}");
    let path = network.layout().configuration();
    let mut text = std::fs::read_to_string(&path).unwrap();
    text.push_str(&format!(
        "\n[[participants]]\nbic = \"GAMMITMM\"\nname = \"O=Gamma,C=IT\"\nkind = \"bank\"\nkey = \"{}\"\n\
         \n[[assets]]\ncode = \"CHF\"\nkind = \"currency\"\nexponent = 2\nsettled_at = \"TSCBDEFF\"\nlargest_payment = \"9.00\"\n",
        said.out.trim()
    ));
    std::fs::write(&path, text).unwrap();
    let running = network.run();
    for arguments in [
        &["issue", "TSCBDEFF/settlement:CHF:GAMMITMM", "20.00", "CHF"][..],
        &["account", "open", "GAMMITMM", "gina", "CHF"],
        &["account", "open", "ALPHDEFF", "alf", "CHF"],
        &["issue", "GAMMITMM/gina", "10.00", "CHF"],
        &["transfer", "GAMMITMM/gina", "ALPHDEFF/alf", "9.00", "CHF"],
    ] {
        let said = running.command(arguments);
        assert_eq!(said.code, Some(0), "{arguments:?} {said:?}");
    }
    assert_eq!(running.balance("TSCBDEFF", "settlement:CHF:ALPHDEFF"), "9.00 CHF");
    assert_eq!(running.balance("ALPHDEFF", ALICE), "1000.00 EUR", "what was there is still there");
    let said = running.command(&["transfer", "ALPHDEFF/alf", "GAMMITMM/gina", "9.01", "CHF"]);
    assert!(said.out.contains("AM02") || said.out.contains("AM04"), "{said:?}");
}
