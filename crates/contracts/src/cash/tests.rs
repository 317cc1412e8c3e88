use super::*;
use crate::fixture::{
    agent, alice, amount, at, bank, bob, build, builder, cash, coin, notary, other_bank, resolve, verdict,
};
use crate::{Contracts, TransactionBuilder, VerificationError, select_coins};
use proptest::prelude::*;

/// Coins as inputs, cash as outputs, commands as they are.
fn transaction(
    inputs: &[Coin],
    outputs: &[CashState],
    commands: &[(CashCommand, Vec<PublicKey>)],
) -> TransactionBuilder {
    let with_inputs = inputs.iter().fold(builder(), |builder, coin| builder.input(coin.state.clone()));
    let with_outputs = outputs.iter().fold(with_inputs, |builder, cash| builder.output(cash));
    commands
        .iter()
        .fold(with_outputs, |builder, (command, signers)| builder.command(command, signers.iter().copied()))
}

fn states(coins: &[Coin]) -> Vec<StateAndRef> {
    coins.iter().map(|coin| coin.state.clone()).collect()
}

#[test]
fn only_the_issuer_issues() {
    let issued = issue(builder(), amount("100 USD"), &bank(), alice().key, 7);
    assert_eq!(verdict(issued, &[]), Ok(()));
    let issue = CashCommand::Issue { nonce: 1 };
    let out = [cash("100 USD", &bank(), &alice())];
    assert_eq!(verdict(transaction(&[], &out, &[(issue, vec![alice().key])]), &[]), Err("cash-issue-signed"));
    assert_eq!(
        verdict(transaction(&[], &out, &[(CashCommand::Move, vec![bank().key])]), &[]),
        Err("cash-issue-signed")
    );
    // A key alone does not make an issuer: the name belongs to it.
    let pretender = Party { name: bank().name, key: alice().key };
    let out = [cash("100 USD", &pretender, &alice()), cash("1 USD", &bank(), &alice())];
    assert_eq!(verdict(transaction(&[], &out, &[(issue, vec![alice().key])]), &[]), Err("cash-issue-signed"));
    let nothing = CashState { amount: amount("0 USD"), ..cash("1 USD", &bank(), &alice()) };
    assert_eq!(
        verdict(transaction(&[], &[nothing], &[(issue, vec![bank().key])]), &[]),
        Err("cash-positive")
    );
}

#[test]
fn a_payment_is_signed_by_the_owners_and_conserves() {
    let coins = [coin(11, &cash("3 USD", &bank(), &alice())), coin(12, &cash("4 USD", &bank(), &agent()))];
    let paid = pay(builder(), &coins, amount("5 USD"), bob().key, alice().key, 1).unwrap();
    assert_eq!(verdict(paid, &states(&coins)), Ok(()));
    let out = |text| [cash(text, &bank(), &bob())];
    let owners = vec![alice().key, agent().key];
    let both = |command| vec![(command, owners.clone())];
    let check = |outputs: &[CashState], commands: &[_]| {
        verdict(transaction(&coins, outputs, commands), &states(&coins))
    };
    assert_eq!(check(&out("7 USD"), &both(CashCommand::Move)), Ok(()));
    assert_eq!(check(&out("7 USD"), &[(CashCommand::Move, vec![alice().key])]), Err("cash-move-signed"));
    assert_eq!(
        check(
            &out("7 USD"),
            &[(CashCommand::Move, vec![alice().key]), (CashCommand::Move, vec![agent().key])]
        ),
        Ok(())
    );
    assert_eq!(check(&out("7 USD"), &both(CashCommand::Issue { nonce: 0 })), Err("cash-move-signed"));
    assert_eq!(check(&out("7.01 USD"), &both(CashCommand::Move)), Err("cash-conserved"));
    assert_eq!(
        check(
            &out("7.01 USD"),
            &[(CashCommand::Issue { nonce: 0 }, vec![bank().key]), (CashCommand::Move, owners.clone())]
        ),
        Err("cash-conserved")
    );
    assert_eq!(check(&out("6.99 USD"), &both(CashCommand::Move)), Err("cash-exit-signed"));
    // Neither another currency nor another issuer makes up for it.
    assert_eq!(check(&out("7 EUR"), &both(CashCommand::Move)), Err("cash-issue-signed"));
    assert_eq!(
        check(&[cash("7 USD", &other_bank(), &bob())], &both(CashCommand::Move)),
        Err("cash-exit-signed")
    );
    let idle = [(CashCommand::Move, owners.clone()), (CashCommand::Exit, vec![bank().key])];
    assert_eq!(check(&out("7 USD"), &idle), Err("cash-command-needed"));
}

#[test]
fn exit_takes_issuer_and_owner() {
    let coins = [coin(11, &cash("3 USD", &bank(), &alice()))];
    let exited = exit(builder(), &coins, amount("2 USD"), alice().key).unwrap();
    assert_eq!(verdict(exited, &states(&coins)), Ok(()));
    let all = exit(builder(), &coins, amount("3 USD"), alice().key).unwrap();
    assert_eq!(verdict(all, &states(&coins)), Ok(()));
    for signer in [alice().key, bank().key] {
        let alone = transaction(&coins, &[], &[(CashCommand::Exit, vec![signer])]);
        assert_eq!(verdict(alone, &states(&coins)), Err("cash-exit-signed"));
    }
    assert!(matches!(exit(builder(), &coins, amount("0 USD"), alice().key), Err(PayError::Nothing)));
    assert!(matches!(
        exit(builder(), &coins, amount("4 USD"), alice().key),
        Err(PayError::Insufficient { .. })
    ));
}

#[test]
fn a_payment_is_split_as_asked_and_gives_change() {
    let coins = [coin(11, &cash("10 USD", &bank(), &alice()))];
    let outputs = |amount_text, count| -> Result<Vec<(u64, bool)>, PayError> {
        let paid = pay(builder(), &coins, amount(amount_text), bob().key, alice().key, count)?;
        let built = build(paid.clone());
        assert_eq!(verdict(paid, &states(&coins)), Ok(()));
        let read = |state: &State| {
            state.read::<CashState>().map(|cash| (cash.amount.quantity(), cash.owner == bob().key))
        };
        Ok(built.outputs().iter().map(|state| read(state).unwrap()).collect::<Vec<_>>())
    };
    assert_eq!(outputs("10 USD", 1), Ok(vec![(1000, true)]));
    assert_eq!(outputs("0.10 USD", 3), Ok(vec![(4, true), (3, true), (3, true), (990, false)]));
    assert_eq!(outputs("0.03 USD", 3).map(|outputs| outputs.len()), Ok(4));
    for (text, count) in [("0.02 USD", 3), ("1 USD", 0), ("0 USD", 1)] {
        assert!(outputs(text, count).is_err(), "{text} in {count}");
    }
}

#[test]
fn coins_of_several_issuers_pay_one_amount() {
    let coins = [
        coin(11, &cash("3 USD", &bank(), &alice())),
        coin(12, &cash("4 USD", &other_bank(), &alice())),
        coin(13, &cash("1 USD", &bank(), &alice())),
    ];
    let paid = pay(builder(), &coins, amount("6 USD"), bob().key, alice().key, 1).unwrap();
    assert_eq!(verdict(paid.clone(), &states(&coins)), Ok(()));
    let outputs: Vec<CashState> = build(paid).outputs().iter().map(|state| state.read().unwrap()).collect();
    assert_eq!(
        outputs,
        [
            cash("4 USD", &bank(), &bob()),
            cash("2 USD", &other_bank(), &bob()),
            cash("2 USD", &other_bank(), &alice()),
        ]
    );
    let attempt = |text| pay(builder(), &coins, amount(text), bob().key, alice().key, 1).map(drop);
    assert_eq!(attempt("4 USD"), Err(PayError::NotNeeded(1)));
    assert_eq!(
        attempt("8.01 USD"),
        Err(PayError::Insufficient { available: amount("8 USD"), wanted: amount("8.01 USD") })
    );
    assert!(matches!(attempt("1 EUR"), Err(PayError::Currency { .. })));
}

#[test]
fn a_vault_finds_cash_by_asset_and_owner() {
    let state = State::new(&cash("3 USD", &bank(), &alice()), notary());
    let summary = Contracts::shipped().describe(&state).unwrap().unwrap();
    assert_eq!(summary.kind, "cash");
    assert_eq!(summary.asset.as_deref(), Some("USD@O=Bank, L=London, C=GB"));
    assert_eq!((summary.owner, summary.quantity), (Some(alice().key), Some(300)));
    assert_eq!(summary.participants, [alice().key]);
    assert_eq!(summary.details["amount"], "3.00 USD");
    let broken = State { data: vec![1], ..state.clone() };
    assert!(Contracts::shipped().describe(&broken).is_err());
    assert_eq!(Contracts::new().describe(&state).unwrap(), None);
}

/// One asset of the model: what goes in with its owner, what goes out.
type Model = ([Vec<(u8, u64)>; 3], [Vec<u64>; 3], Vec<(u8, Vec<u8>)>);

fn model() -> impl Strategy<Value = Model> {
    let inputs = || proptest::collection::vec((4u8..6, 1u64..4), 0..3);
    let outputs = || proptest::collection::vec(0u64..5, 0..3);
    let commands = proptest::collection::vec((0u8..3, proptest::collection::vec(2u8..6, 1..5)), 1..4);
    ([inputs(), inputs(), inputs()], [outputs(), outputs(), outputs()], commands)
}

/// The rules again, asset by asset, with plain numbers: who has to have signed what.
fn allowed((inputs, outputs, commands): &Model) -> bool {
    let has_signed = |kind: u8, who: u8| commands.iter().any(|(k, by)| *k == kind && by.contains(&who));
    let mut used = [false; 3];
    for asset in 0..3 {
        let issuer = [2, 2, 3][asset];
        let (ins, outs) = (&inputs[asset], &outputs[asset]);
        if ins.is_empty() && outs.is_empty() {
            continue;
        }
        if outs.contains(&0) {
            return false;
        }
        let (sum_in, sum_out): (u64, u64) =
            (ins.iter().map(|(_, quantity)| quantity).sum(), outs.iter().sum());
        let kind = match () {
            () if ins.is_empty() => 0,
            () if sum_in == sum_out => 1,
            () if sum_in > sum_out => 2,
            () => return false,
        };
        used[usize::from(kind)] = true;
        let owners_signed = ins.iter().all(|(owner, _)| has_signed(kind, *owner));
        if !owners_signed || (kind != 1 && !has_signed(kind, issuer)) {
            return false;
        }
    }
    commands.iter().all(|(kind, _)| used[usize::from(*kind)])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]

    #[test]
    fn agrees_with_the_plain_model(model in model()) {
        let (inputs, outputs, commands) = &model;
        prop_assume!(inputs.iter().flatten().count() + outputs.iter().flatten().count() > 0);
        let keys: Vec<_> = [1, 1, 2, 3, 4, 5].map(|number| crate::fixture::key(number).public_key()).into();
        let assets = [("USD", bank()), ("EUR", bank()), ("USD", other_bank())];
        let state = |asset: usize, quantity, owner: u8| CashState {
            amount: Amount::new(quantity, Currency::literal(assets[asset].0)).unwrap(),
            issuer: assets[asset].1.clone(),
            owner: keys[usize::from(owner)],
        };
        let mut coins = Vec::new();
        let mut cash = Vec::new();
        for asset in 0..3 {
            for (owner, quantity) in &inputs[asset] {
                coins.push(coin(20 + coins.len() as u8, &state(asset, *quantity, *owner)));
            }
            cash.extend(outputs[asset].iter().map(|quantity| state(asset, *quantity, 5)));
        }
        let commands: Vec<_> = commands
            .iter()
            .map(|(kind, signers)| {
                let command = [CashCommand::Issue { nonce: 0 }, CashCommand::Move, CashCommand::Exit][usize::from(*kind)];
                (command, signers.iter().map(|signer| keys[usize::from(*signer)]).collect())
            })
            .collect();
        prop_assert_eq!(verdict(transaction(&coins, &cash, &commands), &states(&coins)).is_ok(), allowed(&model));
    }

    #[test]
    fn payments_from_selected_coins_verify_and_conserve(
        quantities in proptest::collection::vec(1u64..1_000, 1..8),
        wanted in 1u64..3_000,
        outputs in 1u32..4,
    ) {
        let coins: Vec<_> = (20..).zip(&quantities).map(|(number, quantity)| {
            let amount = Amount::new(*quantity, Currency::literal("USD")).unwrap();
            coin(number, &CashState { amount, ..cash("1 USD", &bank(), &alice()) })
        }).collect();
        let wanted_amount = Amount::new(wanted, Currency::literal("USD")).unwrap();
        let Ok(selection) = select_coins(&quantities, wanted) else {
            let all = pay(builder(), &coins, wanted_amount, bob().key, alice().key, outputs);
            prop_assert!(all.is_err());
            return Ok(());
        };
        let chosen: Vec<_> = selection.chosen.iter().map(|at| coins[*at].clone()).collect();
        prop_assume!(wanted >= u64::from(outputs));
        let paid = pay(builder(), &chosen, wanted_amount, bob().key, alice().key, outputs).unwrap();
        let built = build(paid);
        resolve(&built, &states(&chosen)).verify(&Contracts::shipped()).unwrap();
        let owned = |owner| -> u64 {
            built.outputs().iter().map(|state| state.read::<CashState>().unwrap()).filter(|cash| cash.owner == owner).map(|cash| cash.amount.quantity()).sum()
        };
        prop_assert_eq!((owned(bob().key), owned(alice().key)), (wanted, selection.change));
    }
}

#[test]
fn a_foreign_state_in_cash_clothes_is_refused() {
    let odd = State { data: vec![7; 9], ..State::new(&cash("1 USD", &bank(), &alice()), notary()) };
    let inputs = [at(11, odd)];
    let built = build(builder().input(inputs[0].clone()).command(&CashCommand::Move, [alice().key]));
    let refused = resolve(&built, &inputs).verify(&Contracts::shipped());
    assert!(
        matches!(refused, Err(VerificationError::Contract { violation, .. }) if violation.rule == "decodable")
    );
}
