//! Who may do what: users of institutions, their roles, and TLS.

use super::support::{ALICE, BOB, Network, PLAN, Pain, Running, Said, tally, write};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::{Duration, Instant};
use tally::client::Client;
use tally::connection::RunFile;

/// Runs a command as somebody else than the operator.
fn by(running: &Running<'_>, token: &str, arguments: &[&str]) -> Said {
    let mut command = tally();
    command.env("TALLY_TOKEN", token).arg("--network").arg(running.directory()).args(arguments);
    command.output().unwrap().into()
}

/// Lets a user in; the token.
pub(crate) fn grant(running: &Running<'_>, arguments: &[&str]) -> String {
    let said = running.command(&[&["access", "grant"], arguments].concat());
    assert_eq!(said.code, Some(0), "{said:?}");
    said.out.trim().to_owned()
}

#[track_caller]
fn refused(said: &Said, words: &str) {
    assert!(said.code == Some(2) && said.err.contains(words), "{words}: {said:?}");
}

#[test]
fn users_do_what_their_roles_allow_for_their_institution() {
    let network = Network::of(PLAN);
    let running = network.run();
    let files = tempfile::tempdir().unwrap();
    let message = |id: &'static str| Pain { id, ..Pain::default() }.write(&files);
    let pay = |token: &str, file: &Path| by(&running, token, &["pay", file.to_str().unwrap()]);

    let alpha = grant(&running, &["alpha", "--institution", "ALPHDEFF", "--roles", "submit,read"]);
    let beta = grant(&running, &["beta", "--institution", "BETAFRPP", "--roles", "submit,read"]);
    let reader = grant(&running, &["reader", "--institution", "ALPHDEFF", "--roles", "read"]);
    let clerk = grant(&running, &["clerk", "--institution", "ALPHDEFF", "--roles", "approve,read"]);
    let slow = ["slow", "--institution", "ALPHDEFF", "--roles", "read", "--per-second", "1", "--burst", "2"];
    let slow = grant(&running, &slow);

    // Their own payments and accounts, and nobody else's.
    assert_eq!(pay(&alpha, &message("own")).answers(), ["ACSC -"]);
    assert_eq!(pay(&beta, &message("anothers")).answers(), ["RJCT AG01"]);
    assert_eq!(by(&running, &alpha, &["balance", "ALPHDEFF", ALICE]).out.trim(), "990.00 EUR");
    refused(&by(&running, &alpha, &["balance", "BETAFRPP", BOB]), "alpha does not act for BETAFRPP");
    refused(&by(&running, &beta, &["statement", "ALPHDEFF", ALICE]), "beta does not act for ALPHDEFF");
    assert_eq!(running.balance("BETAFRPP", BOB), "1010.00 EUR");
    let theirs = running.client_of(&alpha).network().unwrap().totals;
    assert!(!theirs.is_empty() && theirs.iter().all(|total| total.institution == "ALPHDEFF"), "{theirs:?}");

    // What their roles allow.
    refused(&pay(&reader, &message("reader")), "reader has not the role submit");
    let freeze = ["account", "freeze", "ALPHDEFF", ALICE];
    refused(&by(&running, &alpha, &freeze), "alpha has not the role approve");
    refused(
        &by(&running, &beta, &["issue", "BETAFRPP/bob-usd", "1.00", "USD"]),
        "beta has not the role approve",
    );
    assert_eq!(by(&running, &clerk, &freeze).code, Some(0));
    assert_eq!(by(&running, &clerk, &["account", "release", "ALPHDEFF", ALICE]).code, Some(0));
    assert!(running.client_of(&alpha).metrics().is_err() && running.client().metrics().is_ok());
    refused(&by(&running, &slow, &["transfer", "a", "b", "1.00", "EUR"]), "BIC/ACCOUNT");
    let limited = (0..4).map(|_| by(&running, &slow, &["balance", "ALPHDEFF", ALICE])).collect::<Vec<_>>();
    assert!(limited.iter().any(|said| said.err.contains("more than was agreed")), "{limited:?}");

    // Nobody, and nobody any more.
    refused(&by(&running, "tally_00", &["balance", "ALPHDEFF", ALICE]), "nobody has this token");
    assert_eq!(running.command(&["access", "revoke", "alpha"]).code, Some(0));
    let began = Instant::now();
    while by(&running, &alpha, &["balance", "ALPHDEFF", ALICE]).code == Some(0) {
        assert!(began.elapsed() < Duration::from_secs(20), "a revoked user comes in");
    }
    let listed = running.command(&["access", "list"]).out;
    assert!(listed.contains("beta  BETAFRPP  submit,read") && !listed.contains("alpha"), "{listed}");
    refused(
        &running.command(&["access", "grant", "x", "--institution", "NOWHDEFF", "--roles", "read"]),
        "NOWHDEFF",
    );
    assert_eq!(running.stop().code, Some(0));
}

#[test]
fn a_bank_reads_its_own_account_at_the_central_bank_and_nothing_of_others() {
    let network = Network::of(PLAN);
    let running = network.run();
    let files = tempfile::tempdir().unwrap();
    // The head office has two spellings.
    let alpha = grant(&running, &["alpha", "--institution", "ALPHDEFFXXX", "--roles", "submit,read"]);
    let beta = grant(&running, &["beta", "--institution", "BETAFRPP", "--roles", "submit,read"]);
    let emoney = grant(&running, &["emoney", "--institution", "EMONNL2A", "--roles", "submit,read"]);
    let uetr = "0c1b2d3e-4f50-4a61-8b72-93a4b5c6d7e8";
    let stated = format!("<PmtId><EndToEndId>E</EndToEndId><UETR>{uetr}</UETR></PmtId>");
    let message = Pain::default().xml().replace("<PmtId><EndToEndId>E</EndToEndId></PmtId>", &stated);
    let file = write(&files, "stated.xml", message.as_bytes());
    assert_eq!(by(&running, &alpha, &["pay", file.to_str().unwrap()]).answers(), ["ACSC -"]);

    let own = ["TSCBDEFF", "settlement:EUR:ALPHDEFF"];
    assert_eq!(by(&running, &alpha, &["balance", own[0], own[1]]).out.trim(), "99990.00 EUR");
    for message in [&[][..], &["--message", "camt.053"], &["--message", "camt.054"]] {
        let said = by(&running, &alpha, &[&["statement"], &own[..], message].concat());
        assert!(said.code == Some(0) && said.out.contains("10"), "{said:?}");
        refused(
            &by(&running, &beta, &[&["statement"], &own[..], message].concat()),
            "does not act for TSCBDEFF",
        );
    }
    refused(&by(&running, &beta, &["balance", own[0], own[1]]), "beta does not act for TSCBDEFF");
    refused(
        &by(&running, &alpha, &["balance", "TSCBDEFF", "settlement:EUR:BETAFRPP"]),
        "alpha does not act for TSCBDEFF",
    );
    refused(&by(&running, &alpha, &["balance", "TSCBDEFF", "own:EUR"]), "alpha does not act for TSCBDEFF");

    // Those who have a part in a payment are told of it; to others it is as one that there is not.
    for token in [&alpha, &beta] {
        assert!(by(&running, token, &["status", uetr]).out.contains("ACSC"));
    }
    let unknown = uetr.replace('0', "1");
    let said = |uetr: &str| by(&running, &emoney, &["status", uetr]).err.replace(uetr, "REF");
    assert_eq!(said(uetr), said(&unknown));
    assert!(said(uetr).contains("there is no transaction REF"), "{}", said(uetr));
    // What was agreed with an institution counts under both spellings.
    let limit = ["access", "limit", "ALPHDEFFXXX", "--per-second", "1", "--burst", "2"];
    assert_eq!(running.command(&limit).code, Some(0));
    let began = Instant::now();
    while by(&running, &alpha, &["balance", own[0], own[1]]).code == Some(0) {
        assert!(began.elapsed() < Duration::from_secs(20), "nobody is limited");
    }
    assert_eq!(running.command(&["access", "limit", "ALPHDEFF"]).code, Some(0));
    while by(&running, &alpha, &["balance", own[0], own[1]]).code != Some(0) {
        assert!(began.elapsed() < Duration::from_secs(20), "the limit was taken away");
    }
    assert_eq!(running.stop().code, Some(0));
}

#[test]
fn what_administrators_do_is_recorded_before_it_is_done() {
    let network = Network::of(PLAN);
    let running = network.run();
    let clerk = grant(&running, &["clerk", "--institution", "ALPHDEFF", "--roles", "approve,read"]);
    let reader = grant(&running, &["reader", "--institution", "ALPHDEFF", "--roles", "read"]);
    assert_eq!(by(&running, &clerk, &["account", "freeze", "ALPHDEFF", ALICE]).code, Some(0));
    assert_eq!(running.command(&["access", "revoke", "clerk"]).code, Some(0));
    assert_eq!(
        running.command(&["access", "limit", "ALPHDEFF", "--per-second", "1", "--burst", "2"]).code,
        Some(0)
    );
    let log = |running: &Running<'_>| running.command(&["access", "log"]);
    let said = log(&running);
    let recorded: Vec<_> = said.out.lines().collect();
    let names = [
        ("gateway", "\"kind\":\"access-file\""),
        ("uid ", "\"kind\":\"grant\",\"user\":\"clerk\",\"institution\":\"ALPHDEFF\""),
        ("clerk", "\"kind\":\"account-order\",\"institution\":\"ALPHDEFF\""),
        ("clerk", "\"order\":\"freeze\""),
        ("uid ", "\"kind\":\"revoke\",\"user\":\"clerk\""),
        ("uid ", "\"kind\":\"limit\",\"institution\":\"ALPHDEFF\""),
    ];
    for (who, act) in names {
        assert!(
            recorded.iter().any(|line| line.contains(who) && line.contains(act)),
            "{who} {act}: {said:?}"
        );
    }
    assert!(
        running.command(&["access", "list"]).out.contains("ALPHDEFF, all users together  1/s, 2 at once")
    );
    let began = Instant::now();
    while by(&running, &reader, &["balance", "ALPHDEFF", ALICE]).code == Some(0) {
        assert!(began.elapsed() < Duration::from_secs(20), "nobody is limited");
    }
    refused(&by(&running, &reader, &["balance", "ALPHDEFF", ALICE]), "ALPHDEFF sends more than was agreed");

    // What cannot be recorded is not done.
    let file = network.layout().root().join("audit.jsonl");
    let written = std::fs::read_to_string(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    std::fs::create_dir(&file).unwrap();
    refused(&running.command(&["access", "revoke", "reader"]), "audit log");
    refused(&running.command(&["account", "release", "ALPHDEFF", ALICE]), "audit log");
    assert!(running.command(&["access", "list"]).out.contains("reader"));
    std::fs::remove_dir(&file).unwrap();
    std::fs::write(&file, written.replace("\"order\":\"freeze\"", "\"order\":\"close\"")).unwrap();
    refused(&log(&running), "does not follow the line before it");

    // What a hash that was kept elsewhere finds, and the file alone does not: that its end was cut
    // off, and that it was deleted.
    std::fs::write(&file, &written).unwrap();
    let kept = recorded.last().unwrap().split(' ').next().unwrap();
    let after = |running: &Running<'_>| running.command(&["access", "log", "--after", kept]);
    let since = after(&running);
    assert!(since.code == Some(0) && !since.out.contains("\"kind\":\"grant\""), "{since:?}");
    let first = written.find('\n').unwrap() + 1;
    std::fs::write(&file, &written[..first]).unwrap();
    assert_eq!(log(&running).code, Some(0));
    refused(&after(&running), "no line of the audit log");
    std::fs::remove_file(&file).unwrap();
    refused(&after(&running), "no line of the audit log");
    assert_eq!(running.stop().code, Some(0));
}

#[test]
fn a_gateway_with_tls_is_known_by_its_authority_and_speaks_nothing_else() {
    let home = tempfile::tempdir().unwrap();
    let (plan, directory) = (home.path().join("plan.toml"), home.path().join("network"));
    std::fs::write(&plan, PLAN).unwrap();
    let made: Said = tally()
        .args(["network", "init", "--weak-keys", "--tls", "localhost,127.0.0.1", "--plan"])
        .args([&plan, &directory])
        .output()
        .unwrap()
        .into();
    assert_eq!(made.code, Some(0), "{made:?}");
    let network = Network::at(home, directory);
    let running = network.run_with(&["--set", "http.request_timeout_ms=500"]);
    let url = RunFile::read(&network.layout()).unwrap().url();
    assert!(url.starts_with("https://"), "{url}");
    assert_eq!(running.balance("ALPHDEFF", ALICE), "1000.00 EUR");

    let authority = network.layout().tls_authority();
    let known =
        |authority: &Path| Client::new(&url, Some(running.token()), Some(authority)).unwrap().network();
    assert!(known(&authority).is_ok());
    let other = Network::of(PLAN);
    let stranger = other.layout().root().join("stranger.pem");
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    std::fs::write(&stranger, made.cert.pem()).unwrap();
    let error = format!("{:#}", known(&stranger).unwrap_err());
    assert!(error.contains("certificate"), "{error}");

    // What is not TLS gets no answer, nor does a client that says nothing hold its place for ever.
    let mut plain = TcpStream::connect(running.address()).unwrap();
    plain.write_all(b"GET /health HTTP/1.1\r\nhost: x\r\n\r\n").unwrap();
    let mut silent = TcpStream::connect(running.address()).unwrap();
    let mut answer = Vec::new();
    let _ = plain.read_to_end(&mut answer);
    assert!(!String::from_utf8_lossy(&answer).contains("HTTP/1.1"), "{answer:?}");
    let _ = silent.read_to_end(&mut answer);
    assert_eq!(running.stop().code, Some(0));
}

#[test]
fn without_tls_nobody_else_can_reach_a_gateway() {
    let network = Network::of(PLAN);
    let mut running = network.start(&["--listen", "0.0.0.0:0"]);
    assert!(!running.listens());
    let said = running.ended();
    assert!(said.code == Some(2) && said.err.contains("no TLS"), "{said:?}");
}
