use super::*;
use crate::cash::{CashCommand, CashState};
use crate::fixture::{agent, alice, amount, bank, bob, build, builder, cash, coin, keys, verdict};
use crate::{Group, Role, State, sign};

fn rate(base: &str, quote: &str, rate: u64) -> Rate {
    let (base, quote) = (base.parse().unwrap(), quote.parse().unwrap());
    Rate { base, quote, rate, as_of: Timestamp::from_millis(5) }
}

/// A payment that names a rate.
fn priced(rate: Rate) -> (TransactionBuilder, Vec<crate::StateAndRef>) {
    let coins = [coin(11, &cash("7 USD", &bank(), &alice()))];
    let paid = crate::cash::pay(builder(), &coins, amount("7 USD"), bob().key, alice().key, 1).unwrap();
    (quote(paid, rate, agent().key), vec![coins[0].state.clone()])
}

#[test]
fn a_rate_is_positive_between_two_currencies_by_one_oracle() {
    let check = |rate| {
        let (builder, inputs) = priced(rate);
        verdict(builder, &inputs)
    };
    assert_eq!(check(rate("EUR", "USD", 108_000_000)), Ok(()));
    assert_eq!(check(rate("EUR", "USD", 0)), Err("oracle-rate"));
    assert_eq!(check(rate("EUR", "EUR", 100_000_000)), Err("oracle-pair"));
    for signers in [vec![], vec![agent().key, bob().key]] {
        let (paid, inputs) = priced(rate("EUR", "USD", 1));
        let command = OracleCommand::Rate(rate("EUR", "USD", 1));
        assert_eq!(verdict(paid.command(&command, signers), &inputs), Err("oracle-signed"));
    }
    let state =
        State { contract: NAME, ..State::new(&cash("1 USD", &bank(), &bob()), crate::fixture::notary()) };
    let stateful =
        builder().output_state(state).command(&OracleCommand::Rate(rate("EUR", "USD", 1)), [agent().key]);
    assert_eq!(verdict(stateful, &[]), Err("oracle-no-states"));
}

#[test]
fn the_oracle_sees_its_rate_and_signs_the_whole() {
    let (builder, _) = priced(rate("EUR", "USD", 108_000_000));
    let transaction = build(builder);
    let tear_off = TearOff::decode(transaction.tear_off_for_signer(&agent().key).unwrap().encode()).unwrap();
    assert_eq!(rates_for(&tear_off, &agent().key).unwrap(), [rate("EUR", "USD", 108_000_000)]);
    assert!(tear_off.inputs().is_none() && tear_off.outputs().is_none());
    assert_eq!(tear_off.commands().unwrap().values().len(), 1, "not the move");
    let data = &transaction.outputs()[0].data;
    assert!(!tear_off.encode().windows(data.len()).any(|window| window == data));
    assert!(!tear_off.encode().windows(4).any(|window| window == b"Bank"));
    let signature = sign(&keys()[5], Role::Oracle, tear_off.id());
    assert!(signature.verify(Role::Oracle, transaction.id()).is_ok());
    assert!(signature.verify(Role::Party, transaction.id()).is_err(), "it has not seen the whole");
    assert!(transaction.required_signers().contains(&signature.by));
}

#[test]
fn the_oracle_is_not_tricked_into_signing_more() {
    let (builder, _) = priced(rate("EUR", "USD", 108_000_000));
    // A move of cash that the oracle owns, hidden behind its rate.
    let transaction = build(builder.command(&CashCommand::Move, [agent().key]));
    let complete = transaction.tear_off_for_signer(&agent().key).unwrap();
    assert!(matches!(rates_for(&complete, &agent().key), Err(OracleError::NotRate(_))));
    let is_rate = |part: &crate::Component<'_>| matches!(part, crate::Component::Command(command) if command.contract == NAME);
    let hiding = transaction.tear_off(&[Group::Signers], is_rate).unwrap();
    assert!(matches!(
        rates_for(&hiding, &agent().key),
        Err(OracleError::NotShown(NotShown(Group::Commands)))
    ));
    let blind = transaction.tear_off(&[], is_rate).unwrap();
    assert!(matches!(rates_for(&blind, &agent().key), Err(OracleError::NotShown(NotShown(Group::Signers)))));
    assert!(matches!(rates_for(&complete, &bank().key), Err(OracleError::NotAsked)));
}

#[test]
fn conversion_rounds_down_to_a_minor_unit() {
    let dollars = rate("EUR", "USD", 108_123_456);
    assert_eq!(dollars.convert(amount("100 EUR")), Ok(amount("108.12 USD")));
    assert_eq!(dollars.convert(amount("0.01 EUR")), Ok(amount("0.01 USD")));
    assert_eq!(rate("EUR", "JPY", 16_250_000_000).convert(amount("1.99 EUR")), Ok(amount("323 JPY")));
    assert_eq!(rate("JPY", "BHD", 250_000).convert(amount("1000 JPY")), Ok(amount("2.5 BHD")));
    assert!(matches!(dollars.convert(amount("1 USD")), Err(AmountError::Mixed(..))));
    let most = Amount::new(Amount::MAX, "JPY".parse().unwrap()).unwrap();
    assert_eq!(rate("JPY", "CLF", u64::MAX).convert(most), Err(AmountError::Range));
    assert_eq!(rate("JPY", "USD", 2).convert(most).unwrap().quantity(), 1_999_999_999_999);
}

#[test]
fn it_has_no_states_to_describe() {
    let state = State::new(&CashState { ..cash("1 USD", &bank(), &bob()) }, crate::fixture::notary());
    assert!(Oracle.describe(&state).is_err());
}
