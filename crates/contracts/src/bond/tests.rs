use super::*;
use crate::fixture::{
    agent, alice, amount, at, bank, bob, build, builder, cash, coin, notary, other_bank, verdict,
};
use crate::{Contracts, TimeWindow, TransactionBuilder};

const MATURITY: Timestamp = Timestamp::from_millis(1_000_000);

fn terms() -> Terms {
    Terms { isin: "US0378331005".parse().unwrap(), issuer: bank(), agent: agent(), maturity: MATURITY }
}

fn bond(nominal: &str, owner: &Party) -> BondState {
    BondState { terms: terms(), nominal: amount(nominal), owner: owner.key }
}

fn holding(number: u8, bond: &BondState) -> Holding {
    at(number, State::new(bond, notary())).try_into().unwrap()
}

fn inputs(holdings: &[Holding]) -> Vec<StateAndRef> {
    holdings.iter().map(|holding| holding.state.clone()).collect()
}

#[test]
fn isins_carry_their_check_digit() {
    for good in ["US0378331005", "GB0002634946", "DE000BAY0017", "AU0000XVGZA3", "XS0000000009"] {
        assert_eq!(good.parse::<Isin>().unwrap().to_string(), good);
    }
    for bad in [
        "US0378331006",
        "US0378331050",
        "us0378331005",
        "0S0378331005",
        "US037833100",
        "US03783310055",
        "",
        "US037833100A",
    ] {
        assert_eq!(bad.parse::<Isin>(), Err(IsinError), "{bad}");
    }
    assert!(borsh::from_slice::<Isin>(b"US0378331006").is_err());
}

#[test]
fn issuer_and_agent_issue() {
    let issued = issue(builder(), terms(), amount("1000 USD"), alice().key);
    assert_eq!(verdict(issued, &[]), Ok(()));
    for signer in [bank().key, agent().key] {
        let alone =
            builder().output(&bond("1000 USD", &alice())).command(&BondCommand::Issue, [signer, alice().key]);
        assert_eq!(verdict(alone, &[]), Err("bond-signed"));
    }
    let nothing = issue(builder(), terms(), amount("0 USD"), alice().key);
    assert_eq!(verdict(nothing, &[]), Err("bond-positive"));
}

#[test]
fn a_transfer_conserves_and_three_sign() {
    let held = [holding(11, &bond("600 USD", &alice())), holding(12, &bond("400 USD", &alice()))];
    let given = transfer(builder(), &held, amount("700 USD"), bob().key, alice().key).unwrap();
    assert_eq!(verdict(given.clone(), &inputs(&held)), Ok(()));
    let outputs: Vec<BondState> = build(given).outputs().iter().map(|state| state.read().unwrap()).collect();
    assert_eq!(outputs, [bond("700 USD", &bob()), bond("300 USD", &alice())]);
    let consumed = || held.iter().fold(builder(), |builder, holding| builder.input(holding.state.clone()));
    let all = [alice().key, bob().key, agent().key];
    let moved = |outputs: &[BondState], command, signers: &[PublicKey]| {
        let with_outputs = outputs.iter().fold(consumed(), |builder, bond| builder.output(bond));
        verdict(with_outputs.command(&command, signers.iter().copied()), &inputs(&held))
    };
    assert_eq!(moved(&[bond("1000 USD", &bob())], BondCommand::Transfer, &all), Ok(()));
    for left_out in all {
        let signers: Vec<_> = all.into_iter().filter(|signer| *signer != left_out).collect();
        assert_eq!(moved(&[bond("1000 USD", &bob())], BondCommand::Transfer, &signers), Err("bond-signed"));
    }
    assert_eq!(moved(&[bond("1000.01 USD", &bob())], BondCommand::Transfer, &all), Err("bond-conserved"));
    assert_eq!(moved(&[bond("999.99 USD", &bob())], BondCommand::Transfer, &all), Err("bond-conserved"));
    assert_eq!(moved(&[bond("1000 USD", &bob())], BondCommand::Issue, &all), Err("bond-signed"));
    // Terms stay what they are.
    let sooner =
        BondState { terms: Terms { maturity: Timestamp::EPOCH, ..terms() }, ..bond("1000 USD", &bob()) };
    assert!(moved(&[sooner], BondCommand::Transfer, &all).is_err());
    let attempt = |holdings: &[Holding], nominal| {
        transfer(builder(), holdings, amount(nominal), bob().key, alice().key).map(drop)
    };
    assert_eq!(attempt(&[], "1 USD"), Err(DealError::Nothing));
    assert!(matches!(attempt(&held, "1001 USD"), Err(DealError::Nominal { .. })));
    assert!(matches!(attempt(&held, "0 USD"), Err(DealError::Nominal { .. })));
    assert!(matches!(attempt(&held, "1 EUR"), Err(DealError::Nominal { .. })));
    let other =
        holding(13, &BondState { terms: Terms { agent: bank(), ..terms() }, ..bond("1 USD", &alice()) });
    assert_eq!(attempt(&[held[0].clone(), other], "1 USD"), Err(DealError::Mixed));
}

#[test]
fn delivery_versus_payment_is_both_or_neither() {
    let held = [holding(11, &bond("1000 USD", &alice()))];
    let coins = [coin(12, &cash("990 USD", &other_bank(), &bob()))];
    let both: Vec<_> = inputs(&held).into_iter().chain([coins[0].state.clone()]).collect();
    let delivered = transfer(builder(), &held, amount("1000 USD"), bob().key, alice().key).unwrap();
    let paid = crate::cash::pay(delivered, &coins, amount("985 USD"), alice().key, bob().key, 1).unwrap();
    assert_eq!(verdict(paid.clone(), &both), Ok(()));
    let built = build(paid);
    let mut signers = vec![alice().key, bob().key, agent().key];
    signers.sort();
    assert_eq!(built.required_signers(), signers, "seller, buyer and agent");
    // Each leg is checked by its own contract.
    let unpaid = transfer(builder(), &held, amount("1000 USD"), bob().key, alice().key)
        .unwrap()
        .input(coins[0].state.clone())
        .command(&crate::cash::CashCommand::Move, [bob().key]);
    assert_eq!(verdict(unpaid, &both), Err("cash-exit-signed"));
    let undelivered = crate::cash::pay(builder(), &coins, amount("985 USD"), alice().key, bob().key, 1)
        .unwrap()
        .input(held[0].state.clone())
        .command(&BondCommand::Transfer, [alice().key, bob().key, agent().key]);
    assert_eq!(verdict(undelivered, &both), Err("bond-matured"), "to deliver to nobody is to redeem");
}

/// A redemption of 1000 USD held by Alice, repaid with this much by the issuer.
fn redemption(from: u64, repaid: &str) -> (TransactionBuilder, Vec<StateAndRef>) {
    let held = [holding(11, &bond("1000 USD", &alice()))];
    let coins = [coin(12, &cash(repaid, &other_bank(), &bank()))];
    let redeemed = redeem(builder(), &held, Timestamp::from_millis(from), None).unwrap();
    let paid = crate::cash::pay(redeemed, &coins, amount(repaid), alice().key, bank().key, 1).unwrap();
    (paid, inputs(&held).into_iter().chain([coins[0].state.clone()]).collect())
}

#[test]
fn a_bond_is_repaid_in_full_from_maturity_on() {
    let check = |from, repaid| {
        let (builder, inputs) = redemption(from, repaid);
        verdict(builder, &inputs)
    };
    assert_eq!(check(MATURITY.as_millis(), "1000 USD"), Ok(()));
    assert_eq!(check(MATURITY.as_millis() + 1, "1000.01 USD"), Ok(()));
    assert_eq!(check(MATURITY.as_millis() - 1, "1000 USD"), Err("bond-matured"));
    assert_eq!(check(MATURITY.as_millis(), "999.99 USD"), Err("bond-repaid"));
    assert_eq!(check(MATURITY.as_millis(), "1000 EUR"), Err("bond-repaid"));
    let (builder, inputs) = redemption(MATURITY.as_millis(), "1000 USD");
    let no_start = builder.time_window(TimeWindow::ending(Timestamp::MAX));
    assert_eq!(verdict(no_start, &inputs), Err("bond-matured"));
}

#[test]
fn the_owners_own_cash_is_no_repayment() {
    let held = [holding(11, &bond("1000 USD", &alice()))];
    let own = [coin(12, &cash("1000 USD", &other_bank(), &alice()))];
    let redeemed = redeem(builder(), &held, MATURITY, None).unwrap();
    let circled = crate::cash::pay(redeemed, &own, amount("1000 USD"), alice().key, alice().key, 1).unwrap();
    let both: Vec<_> = inputs(&held).into_iter().chain([own[0].state.clone()]).collect();
    assert_eq!(verdict(circled, &both), Err("bond-repaid"));
}

#[test]
fn everybody_concerned_signs_a_redemption() {
    let all = [alice().key, bank().key, agent().key];
    for left_out in all {
        let held = holding(11, &bond("1000 USD", &alice()));
        let signers = all.into_iter().filter(|signer| *signer != left_out);
        let alone = builder()
            .input(held.state.clone())
            .time_window(TimeWindow::starting(MATURITY))
            .command(&BondCommand::Redeem, signers);
        assert_eq!(verdict(alone, &inputs(&[held])), Err("bond-signed"));
    }
}

#[test]
fn an_idle_command_is_refused() {
    let idle =
        issue(builder(), terms(), amount("1 USD"), alice().key).command(&BondCommand::Redeem, [bank().key]);
    assert_eq!(verdict(idle, &[]), Err("bond-command-needed"));
}

#[test]
fn owner_issuer_and_agent_know_it() {
    let state = State::new(&bond("1000 USD", &alice()), notary());
    let summary = Contracts::shipped().describe(&state).unwrap().unwrap();
    assert_eq!(summary.participants, [alice().key, bank().key, agent().key]);
    assert_eq!(summary.asset.as_deref(), Some("US0378331005/USD@O=Bank, L=London, C=GB"));
    assert_eq!(summary.details["nominal"], "1000.00 USD");
}
