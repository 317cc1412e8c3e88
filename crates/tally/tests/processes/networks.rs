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

/// Fetched from a running network and checked after it has stopped, with a file of public keys and nothing else.
#[test]
fn a_proof_is_checked_without_the_network() {
    let network = Network::of(PLAN);
    let running = network.run();
    let (alice, albert) = (format!("ALPHDEFF/{ALICE}"), format!("ALPHDEFF/{ALBERT}"));
    let paid = running.command(&["transfer", &alice, &albert, "1.23", "EUR"]);
    assert_eq!(paid.code, Some(0), "{paid:?}");
    let uetr = paid.out.split(' ').nth(1).unwrap();
    let files = tempfile::tempdir().unwrap();
    let file = |name: &str| files.path().join(name).to_str().unwrap().to_owned();
    let (proof, by_id, keys) = (file("proof.json"), file("by-id.json"), file("keys.toml"));
    let fetched = running.command(&["proof", uetr, "--out", &proof, "--legs", "ALPHDEFF"]);
    assert_eq!(fetched.code, Some(0), "{fetched:?}");
    let text = std::fs::read_to_string(&proof).unwrap();
    let first: tally_proof::Proof = serde_json::from_str(&text).unwrap();
    let id = first.receipt.id.to_string();
    let fetched = running.command(&["proof", &id, "--out", &by_id]);
    assert_eq!(fetched.code, Some(0), "{fetched:?}");
    assert_eq!(running.command(&["status", &id]).out, running.command(&["status", uetr]).out);
    assert_eq!(running.command(&["proof", "97ed4827-7b6f-4491-a06f-b548d5a7512d"]).code, Some(2));
    assert_eq!(running.command(&["proof", uetr, "--legs", "NOBODYXX"]).code, Some(2));
    let refused = running.command(&["transfer", &alice, &albert, "2000", "EUR"]);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    let refusal = running.client().proof(refused.out.split(' ').nth(1).unwrap(), &[]).unwrap();
    let (from, to) = (first.receipt.head, refusal.receipt.head);
    let between = running.client().consistency(from.head.size, to.head.size).unwrap();
    let agreed = running.client().network().unwrap().network;
    let of = tally_proof::Keys::of(&agreed).unwrap();
    assert_eq!(between.joins(&from, &to, &of), Ok(()));
    assert!(running.client().consistency(from.head.size, to.head.size + 1).is_err());
    assert!(running.client().consistency(0, 1).is_err());
    assert_eq!(running.stop().code, Some(0));

    let alone = |arguments: &[&str]| -> Said { tally().args(arguments).output().unwrap().into() };
    let written = alone(&["network", "keys", network.directory.to_str().unwrap(), "--out", &keys]);
    assert_eq!(written.code, Some(0), "{written:?}");
    let said = alone(&["verify", &proof, "--keys", &keys]);
    assert_eq!(said.code, Some(0), "{said:?}");
    for told in [uetr, "is settled for good", "approved by ALPHDEFF", "-123 minor units"] {
        assert!(said.out.contains(told), "{told}: {said:?}");
    }
    let said = alone(&["verify", &by_id, "--keys", &keys]);
    assert!(said.code == Some(0) && !said.out.contains("minor units"), "{said:?}");
    let forged = file("forged.json");
    std::fs::write(&forged, text.replace("\"amount\": -123", "\"amount\": -124")).unwrap();
    let said = alone(&["verify", &forged, "--keys", &keys]);
    assert!(said.code == Some(1) && said.err.contains("not proven"), "{said:?}");
    let missing = file("missing.json");
    let less = tally_proof::Proof { approvals: Vec::new(), ..first };
    std::fs::write(&missing, serde_json::to_string(&less).unwrap()).unwrap();
    let said = alone(&["verify", &missing, "--keys", &keys]);
    assert!(said.code == Some(1) && said.err.contains("finality alone"), "{said:?}");
    assert_eq!(alone(&["verify", &missing, "--keys", &keys, "--finality"]).code, Some(0));
    assert_eq!(alone(&["verify", &keys, "--keys", &keys]).code, Some(2));
    assert_eq!(alone(&["verify", &file("none.json"), "--keys", &keys]).code, Some(2));
}

/// In one process nobody but the operator follows the log; over Kafka cluster.toml says how many witnesses proofs need.
#[test]
fn the_file_of_keys_asks_for_the_witnesses_that_the_plan_requires() {
    let network = Network::of(PLAN);
    let running = network.run();
    let (alice, albert) = (format!("ALPHDEFF/{ALICE}"), format!("ALPHDEFF/{ALBERT}"));
    let paid = running.command(&["transfer", &alice, &albert, "1.23", "EUR"]);
    assert_eq!(paid.code, Some(0), "{paid:?}");
    let proof = running.client().proof(paid.out.split(' ').nth(1).unwrap(), &[]).unwrap();
    assert_eq!(proof.receipt.cosignatures, []);
    let size = proof.receipt.head.head.size;
    let between = running.client().consistency(1, size).unwrap();
    assert_eq!((between.first_cosignatures, between.second_cosignatures), (Vec::new(), Vec::new()));
    assert_eq!(running.stop().code, Some(0));

    let directory = network.directory.to_str().unwrap();
    let files = tempfile::tempdir().unwrap();
    let [proof_file, keys_file] = ["proof.json", "keys.toml"].map(|name| files.path().join(name));
    std::fs::write(&proof_file, serde_json::to_string(&proof).unwrap()).unwrap();
    let [proof_file, keys_file] = [&proof_file, &keys_file].map(|file| file.to_str().unwrap());
    let alone = |arguments: &[&str]| -> Said { tally().args(arguments).output().unwrap().into() };
    let keys = || alone(&["network", "keys", directory, "--out", keys_file]);
    let said = keys();
    assert_eq!(said.code, Some(0), "{said:?}");
    assert!(!std::fs::read_to_string(keys_file).unwrap().contains("witnesses"));
    let by_file = ["verify", proof_file, "--keys", keys_file];
    let by_directory = ["verify", proof_file, "--network", directory];
    for by in [by_file, by_directory] {
        let said = alone(&by);
        assert_eq!(said.code, Some(0), "{said:?}");
    }

    let plan = |witnesses: &str| {
        let rate = ["network", "plan", directory, "--rate", "1000", "--replicas", "1"];
        alone(&[&rate[..], &["--witnesses", witnesses, "--write"]].concat())
    };
    let cluster = network.directory.join("cluster.toml");
    let said = plan("5");
    let why = "witnesses.required is 5, and the network has 4 institutions besides the operator";
    assert!(said.code == Some(2) && said.err.contains(why) && !cluster.exists(), "{said:?}");
    let said = plan("3");
    assert!(said.code == Some(0) && said.out.contains("witnesses: 3 of 4 institutions"), "{said:?}");
    // Thirteen topics are everybody's, and each participant has seven.
    assert!(said.out.contains("5 participants: 48 topics, "), "{said:?}");
    let text = std::fs::read_to_string(&cluster).unwrap();
    assert!(text.contains("[witnesses]\nrequired = 3\n"), "{text}");
    let said = keys();
    assert_eq!(said.code, Some(0), "{said:?}");
    assert!(std::fs::read_to_string(keys_file).unwrap().contains("\nwitnesses = 3\n"));
    for by in [by_file, by_directory] {
        let said = alone(&by);
        let why = "0 institutions cosigned the tree head";
        assert!(said.code == Some(1) && said.err.contains(why), "{said:?}");
    }
    // What was written by hand is checked too.
    std::fs::write(&cluster, text.replace("required = 3", "required = 5")).unwrap();
    let said = keys();
    assert!(said.code == Some(2) && said.err.contains(why) && said.err.contains("cluster.toml"), "{said:?}");
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
