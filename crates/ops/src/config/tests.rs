use std::io::Write;

use serde::Deserialize;

use super::*;

#[derive(Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
struct Config {
    settlement: Settlement,
    #[serde(default)]
    peers: Vec<Peer>,
}

#[derive(Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
struct Settlement {
    approvers: u32,
    #[serde(default)]
    name: String,
    #[serde(default)]
    log: Log,
}

#[derive(Debug, Default, Deserialize, PartialEq)]
#[serde(deny_unknown_fields, default)]
struct Log {
    durable: bool,
}

#[derive(Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
struct Peer {
    port: u16,
}

fn file(text: &str) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    file
}

fn variables(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

/// The error without the name of the temporary file.
fn failure(loader: &Loader) -> String {
    let error = loader.load::<Config>().unwrap_err().to_string();
    match &loader.file {
        Some(path) => error.replace(&path.display().to_string(), "tally.toml"),
        None => error,
    }
}

#[test]
fn flags_win_over_environment_and_environment_over_file() {
    let file = file("[settlement]\napprovers = 1\nname = 'file'\n[settlement.log]\ndurable = false\n");
    let base = Loader::new().file(file.path());
    assert_eq!(base.load::<Config>().unwrap().settlement.approvers, 1);

    let environment = base.clone().environment(variables(&[
        ("TALLY_SETTLEMENT__APPROVERS", "2"),
        ("TALLY_SETTLEMENT__LOG__DURABLE", "true"),
        ("TALLY_LOG", "debug"),
        ("PATH", "/bin"),
    ]));
    let config = environment.load::<Config>().unwrap();
    assert_eq!((config.settlement.approvers, config.settlement.log.durable), (2, true));
    assert_eq!(config.settlement.name, "file");

    let flags = environment.flags(["settlement.approvers=3", "settlement.approvers=4"]);
    let config = flags.load::<Config>().unwrap();
    assert_eq!((config.settlement.approvers, config.settlement.log.durable), (4, true));
}

#[test]
fn text_of_the_file_stays_text() {
    let file = file("[settlement]\napprovers = 1\nname = 'x'");
    for (value, name) in [("42", "42"), ("\"42\"", "42"), ("true", "true"), ("a=b c", "a=b c"), ("", "")] {
        let loader = Loader::new().file(file.path()).flags([format!("settlement.name={value}")]);
        assert_eq!(loader.load::<Config>().unwrap().settlement.name, name);
    }
    let bare = Loader::new().flags(["settlement.approvers=1", "settlement.name=Bank A"]);
    assert_eq!(bare.load::<Config>().unwrap().settlement.name, "Bank A");
    let structured = Loader::new().flags(["settlement={approvers=1}", "peers=[{port=1},{port=2}]"]);
    assert_eq!(structured.load::<Config>().unwrap().peers, [Peer { port: 1 }, Peer { port: 2 }]);
}

#[test]
fn a_fault_in_the_file_names_line_column_and_key() {
    let cases = [
        (
            "[settlement]\napprovers = 1\n  aprovers = 2\n",
            "tally.toml:3:3: settlement.aprovers: unknown field `aprovers`, expected one of `approvers`, `name`, `log`",
        ),
        (
            "[settlement]\n\"approvers\" = -1",
            "tally.toml:2:1: settlement.approvers: invalid value: integer `-1`, expected u32",
        ),
        ("# é\n[settlement]\nname = 'x'\n", "tally.toml:2:2: settlement: missing field `approvers`"),
        (
            "peers = [{ port = 1 },\n   { port = 70000 }]\n[settlement]\napprovers = 1",
            "tally.toml:2:6: peers[1].port: invalid value: integer `70000`, expected u16",
        ),
    ];
    for (text, expected) in cases {
        assert_eq!(failure(&Loader::new().file(file(text).path())), expected);
    }
    let syntax = failure(&Loader::new().file(file("[settlement]\napprovers = = 1\n").path()));
    assert!(syntax.starts_with("tally.toml:2:13: "), "{syntax}");
}

#[test]
fn a_fault_outside_the_file_names_its_source() {
    let file = file("[settlement]\napprovers = 1\n");
    let base = Loader::new().file(file.path());
    assert_eq!(
        failure(&base.clone().environment(variables(&[("TALLY_SETTLEMENT__APPROVERS", "many")]))),
        "environment TALLY_SETTLEMENT__APPROVERS: settlement.approvers: invalid type: string \"many\", expected u32"
    );
    assert_eq!(
        failure(&base.clone().flags(["settlement.log.durabel=true"])),
        "flag settlement.log.durabel=true: settlement.log.durabel: unknown field `durabel`, expected `durable`"
    );
    assert_eq!(
        failure(&base.clone().flags(["settlement.approvers"])),
        "flag settlement.approvers: expected section.key=value"
    );
    assert_eq!(
        failure(&base.clone().flags(["settlement.approvers.x=1"])),
        "flag settlement.approvers.x=1: `approvers` is of type integer and has no keys"
    );
    assert_eq!(failure(&base.flags([".x=1"])), "flag .x=1: a part of the key is empty");
    assert_eq!(failure(&Loader::new()), "configuration: .: missing field `settlement`");
}

#[test]
fn files_have_a_limit() {
    let text = "[settlement]\napprovers = 1\n";
    let file = file(text);
    let loader = Loader::new().file(file.path());
    assert!(loader.clone().max_bytes(text.len() as u64).load::<Config>().is_ok());
    let error = loader.max_bytes(text.len() as u64 - 1).load::<Config>().unwrap_err();
    assert!(matches!(error, ConfigError::TooLarge { limit: 26, .. }), "{error}");

    let absent = Loader::new().file("/nonexistent/tally.toml").load::<Config>().unwrap_err();
    assert!(matches!(absent, ConfigError::Read { .. }));
    let long = format!("settlement.name={}", "x".repeat(MAX_OVERRIDE_BYTES + 1));
    assert!(matches!(
        Loader::new().flags([long]).load::<Config>().unwrap_err(),
        ConfigError::Override { .. }
    ));
}
