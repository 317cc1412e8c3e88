use super::*;

const SMALL: &str = r#"
[[participant]]
bic = "TSCBDEFFXXX"
name = "O=Central Bank,C=DE"
kind = "central-bank"

[[participant]]
bic = "ALPHDEFF"
name = "O=Alpha Bank,C=DE"
kind = "bank"
reserves = { EUR = "1000.00" }

[[asset]]
code = "EUR"
exponent = 2
settled_at = "TSCBDEFF"

[[account]]
institution = "ALPHDEFF"
alias = "alice"
currency = "EUR"
opening = "10.50"
"#;

fn read(text: &str) -> anyhow::Result<Plan> {
    let directory = tempfile::tempdir()?;
    let file = directory.path().join("plan.toml");
    std::fs::write(&file, text)?;
    let plan = Plan::read(&[file])?;
    plan.check()?;
    Ok(plan)
}

#[test]
fn a_small_plan_is_read() {
    let plan = read(SMALL).unwrap();
    assert_eq!(plan.participant[0].bic, "TSCBDEFF", "XXX names the head office");
    assert_eq!(plan.asset[0].kind(), AssetKind::Currency);
    assert_eq!(plan.account[0].key_name(), "alice");
    assert_eq!(plan.amount("EUR", "10.50").unwrap(), Amount(1050));
}

#[test]
fn what_is_wrong_is_named() {
    for (from, to, wanted) in [
        ("opening =", "openning =", "plan.toml:22:1: account[0].openning: unknown field `openning`"),
        ("\"ALPHDEFF\"\nname", "\"ALPH\"\nname", "plan.toml:8:1: participant[1].bic: 'ALPH' is not a BIC"),
        ("kind = \"bank\"", "kind = \"banc\"", "plan.toml:10:1: participant[1].kind: unknown variant `banc`"),
        ("O=Alpha Bank,C=DE", "Alpha", "participant[1].name: 'Alpha' is not an X.500 name"),
        ("code = \"EUR\"", "code = \"EURO\"", "asset[0].code: 'EURO' is not a currency code"),
        ("settled_at = \"TSCBDEFF\"", "settled_at = \"BETADEFF\"", "asset EUR: the plan has no participant"),
        ("10.50", "10.505", "account 1 ('alice'): '10.505' is not an amount: it has more decimals"),
        ("10.50", "-1", "account 1 ('alice'): '-1' is negative"),
        ("alias = \"alice\"", "", "account 1 (''): give iban or alias"),
        ("currency = \"EUR\"", "currency = \"USD\"", "account 1 ('alice'): the plan has no asset USD"),
        ("EUR = \"1000.00\"", "USD = \"1\"", "participant ALPHDEFF: the plan has no asset USD"),
        (
            "kind = \"central-bank\"",
            "kind = \"central-bank\"\ncredit.EUR = \"1\"",
            "settled in its own books",
        ),
        ("bic = \"ALPHDEFF\"", "bic = \"TSCBDEFF\"", "participant: two are called TSCBDEFF"),
        ("alias = \"alice\"", "iban = \"DE00\"", "'DE00' is not an IBAN"),
    ] {
        let text = SMALL.replace(from, to);
        assert_ne!(text, SMALL, "{from}");
        let error = format!("{:#}", read(&text).unwrap_err());
        assert!(error.contains(wanted), "{error}\nwanted: {wanted}");
    }
}

#[test]
fn the_demonstration_is_a_plan() {
    let plan = Plan::demo();
    plan.check().unwrap();
    assert_eq!(plan.participant.len(), 5);
    assert!(plan.account.iter().any(|account| account.opening.is_some()));
}

#[test]
fn no_damaged_plan_is_more_than_an_error() {
    let samples = [SMALL, include_str!("../demo.toml"), include_str!("../../../../examples/accounts.toml")];
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("plan.toml");
    let (good, bad) = crate::damaged::survives(&samples, "plan.toml", |text| {
        std::fs::write(&file, text)?;
        let _ = Plan::read(std::slice::from_ref(&file))?.check();
        Ok(())
    });
    assert!(good > 100 && bad > 100, "{good} good, {bad} bad: damage is neither always nor never felt");
}
