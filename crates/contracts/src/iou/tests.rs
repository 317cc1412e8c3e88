use super::*;
use crate::Contracts;
use crate::fixture::{alice, at, bank, bob, builder, notary, verdict};

fn iou(value: u32) -> IouState {
    IouState { value, lender: alice(), borrower: bob(), linear_id: Hash::from_bytes([3; 32]) }
}

fn owed(value: u32) -> StateAndRef {
    at(11, State::new(&iou(value), notary()))
}

#[test]
fn the_value_is_from_1_to_99() {
    for value in [1, 50, 99] {
        assert_eq!(verdict(create(builder(), &iou(value)), &[]), Ok(()));
    }
    for value in [0, 100, u32::MAX] {
        assert_eq!(verdict(create(builder(), &iou(value)), &[]), Err("iou-value"));
    }
}

#[test]
fn lender_and_borrower_are_two_and_both_sign() {
    assert_eq!(
        verdict(create(builder(), &IouState { borrower: alice(), ..iou(5) }), &[]),
        Err("iou-two-parties")
    );
    let other_key = Party { key: bank().key, ..alice() };
    assert_eq!(
        verdict(create(builder(), &IouState { borrower: other_key, ..iou(5) }), &[]),
        Err("iou-two-parties")
    );
    let other_name = Party { name: bank().name, ..alice() };
    assert_eq!(
        verdict(create(builder(), &IouState { borrower: other_name, ..iou(5) }), &[]),
        Err("iou-two-parties")
    );
    for signer in [alice().key, bob().key] {
        let alone = builder().output(&iou(5)).command(&IouCommand::Create, [signer, bank().key]);
        assert_eq!(verdict(alone, &[]), Err("iou-signed"));
        let alone = builder().input(owed(5)).command(&IouCommand::Settle, [signer]);
        assert_eq!(verdict(alone, &[owed(5)]), Err("iou-signed"));
    }
}

#[test]
fn one_is_made_or_one_is_settled() {
    let both = [alice().key, bob().key];
    assert_eq!(verdict(settle(builder(), owed(5)).unwrap(), &[owed(5)]), Ok(()));
    let shapes = [
        (builder().output(&iou(5)).output(&iou(6)).command(&IouCommand::Create, both), vec![]),
        (builder().input(owed(5)).output(&iou(5)).command(&IouCommand::Create, both), vec![owed(5)]),
        (builder().input(owed(5)).command(&IouCommand::Create, both), vec![owed(5)]),
        (builder().input(owed(5)).output(&iou(4)).command(&IouCommand::Settle, both), vec![owed(5)]),
        (builder().output(&iou(5)).command(&IouCommand::Settle, both), vec![]),
    ];
    for (shape, inputs) in shapes {
        assert_eq!(verdict(shape, &inputs), Err("iou-shape"));
    }
    let twice = create(builder(), &iou(5)).command(&IouCommand::Create, both);
    assert_eq!(verdict(twice, &[]), Err("iou-one-command"));
}

#[test]
fn both_parties_have_to_know_it() {
    let summary = Contracts::shipped().describe(&owed(5).state).unwrap().unwrap();
    assert_eq!(summary.participants, [alice().key, bob().key]);
    assert_eq!((summary.kind.as_str(), summary.quantity), ("iou", Some(5)));
    assert_eq!(summary.linear_id, Some(Hash::from_bytes([3; 32])));
}
