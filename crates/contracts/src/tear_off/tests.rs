use super::*;
use crate::cash::CashCommand;
use crate::fixture::{alice, bank, bob, build, builder, cash, full, keys, network, notary, signed};
use proptest::prelude::*;

fn holds(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

/// The fault inside the decoder's error.
fn fault(bytes: &[u8]) -> TearOffError {
    match TearOff::decode(bytes) {
        Err(DecodeError::Malformed { source, .. }) => {
            *source.into_inner().expect("a fault of its own").downcast().expect("a fault of tear-offs")
        }
        other => panic!("not refused as malformed: {other:?}"),
    }
}

fn parts(tear_off: &TearOff) -> (u8, NetworkId, TransactionId, [Opening; GROUPS]) {
    borsh::from_slice(tear_off.encode()).unwrap()
}

#[test]
fn the_notary_sees_what_it_needs_and_nothing_else() {
    let (transaction, inputs, references, _) = full();
    let tear_off = transaction.tear_off_for_notary().unwrap();
    let view = tear_off.for_notary().unwrap();
    assert_eq!(view.id, transaction.id());
    assert_eq!(view.inputs, inputs.iter().map(|input| input.reference).collect::<Vec<_>>());
    assert_eq!(view.references, [references[0].reference]);
    assert_eq!((view.notary, view.time_window), (&notary(), transaction.time_window()));
    assert!(tear_off.outputs().is_none() && tear_off.commands().is_none() && tear_off.signers().is_none());
    assert!(tear_off.attachments().is_none() && tear_off.contracts().is_none());
    let bytes = tear_off.encode();
    assert!(!holds(bytes, transaction.salt()), "the salt would uncover the rest");
    for hidden in [alice(), bob(), bank()] {
        assert!(!holds(bytes, hidden.name.organisation().as_bytes()) && !holds(bytes, hidden.key.as_bytes()));
    }
    assert!(!holds(bytes, b"tally.cash") && !holds(bytes, transaction.attachments()[0].as_bytes()));
    for state in transaction.outputs() {
        assert!(!holds(bytes, &state.data));
    }
    // The check above would find them.
    assert!(holds(transaction.encode(), transaction.salt()) && holds(transaction.encode(), b"tally.cash"));
    assert_eq!(TearOff::decode(bytes).unwrap(), tear_off);
    let nested: TearOff = borsh::from_slice(&borsh::to_vec(&tear_off).unwrap()).unwrap();
    assert_eq!(nested, tear_off);
}

#[test]
fn what_signs_the_tear_off_signs_the_transaction() {
    let (transaction, ..) = full();
    let id = transaction.tear_off_for_notary().unwrap().id();
    let complete = signed(&transaction);
    let signature = crate::sign(&keys()[0], crate::Role::Notary, id);
    assert!(complete.signatures().contains(&signature));
    complete.verify_signatures().unwrap();
}

#[test]
fn an_empty_group_can_be_shown_empty_and_hidden_without_a_trace() {
    let plain =
        build(builder().output(&cash("1 USD", &bank(), &bob())).command(&CashCommand::Move, [bank().key]));
    let shown = plain.tear_off_for_notary().unwrap();
    let view = shown.for_notary().unwrap();
    assert_eq!((view.inputs, view.references, view.time_window), (&[][..], &[][..], None));
    // With another salt the hash of an empty group is another: it does not give away that it is empty.
    let hidden = |salt: u8| {
        let again =
            builder().output(&cash("1 USD", &bank(), &bob())).command(&CashCommand::Move, [bank().key]);
        let again = again.build([salt; 32], &crate::Contracts::shipped()).unwrap();
        again.group_hashes()[usize::from(Group::Inputs.tag())]
    };
    assert_ne!(hidden(1), hidden(2));
}

#[test]
fn a_missing_group_is_noticed() {
    let (transaction, ..) = full();
    let needed = [Group::Inputs, Group::References, Group::Notary, Group::TimeWindow];
    for left_out in needed {
        let shown: Vec<_> = needed.into_iter().filter(|group| *group != left_out).collect();
        let tear_off = transaction.tear_off(&shown, |_| false).unwrap();
        assert_eq!(tear_off.for_notary(), Err(NotShown(left_out)));
    }
    let one_input_hidden = transaction
        .tear_off(&needed[1..], |component| matches!(component, Component::Input(input) if input.index != 12))
        .unwrap();
    assert_eq!(one_input_hidden.inputs().unwrap().values().len(), 2);
    assert_eq!(one_input_hidden.inputs().unwrap().total(), 3);
    assert_eq!(one_input_hidden.inputs().unwrap().get(1), None);
    assert_eq!(one_input_hidden.for_notary(), Err(NotShown(Group::Inputs)));
}

#[test]
fn a_signer_knows_all_that_it_is_asked_for() {
    let (transaction, ..) = full();
    let (alice, bob) = (alice().key, bob().key);
    let tear_off = transaction.tear_off_for_signer(&bob).unwrap();
    let commands = tear_off.commands_for(&bob).unwrap();
    assert_eq!(commands.len(), 1);
    assert_eq!(commands[0].read::<CashCommand>().unwrap(), CashCommand::Move);
    assert_eq!(
        tear_off.commands_for(&alice),
        Err(NotShown(Group::Commands)),
        "Alice's other command is hidden"
    );
    assert_eq!(tear_off.commands_for(&bank().key), Ok(vec![]));
    assert_eq!(transaction.tear_off_for_signer(&alice).unwrap().commands_for(&alice).unwrap().len(), 2);
    let without_signers =
        transaction.tear_off(&[Group::Commands], |_| false).unwrap().commands_for(&bob).map(drop);
    assert_eq!(without_signers, Err(NotShown(Group::Signers)));
    let some_signers = transaction
        .tear_off(&[Group::Commands], |part| matches!(part, Component::Signers(by) if by.signers == [alice]))
        .unwrap();
    assert_eq!(some_signers.commands_for(&bob).map(drop), Err(NotShown(Group::Signers)));
}

#[test]
fn consumers_are_shown_without_the_states_that_they_may_consume() {
    let (transaction, ..) = full();
    let tear_off = transaction.tear_off_of_consumers(&[1]).unwrap();
    let again = TearOff::decode(tear_off.encode()).unwrap();
    assert_eq!((again.id(), again.network()), (transaction.id(), network()));
    let shown = again.consumers().unwrap();
    assert_eq!((shown.get(1), shown.get(0), shown.total()), (Some(&vec![alice().key]), None, 3));
    assert!(again.outputs().is_none() && again.inputs().is_none() && again.signers().is_none());
    for state in transaction.outputs() {
        assert!(!holds(tear_off.encode(), &state.data));
    }
    assert!(!holds(tear_off.encode(), transaction.salt()));
    let none = transaction.tear_off_of_consumers(&[7]).unwrap();
    assert!(none.consumers().is_none());
}

type Change<'a> = &'a dyn Fn(&mut Vec<(Nonce, Vec<u8>)>);

#[test]
fn nothing_can_be_left_out_of_a_whole_group_or_put_in() {
    let (transaction, ..) = full();
    let tear_off = transaction.tear_off_for_notary().unwrap();
    let spoil = |spoil: &dyn Fn(&mut [Opening; GROUPS])| {
        let (format, network, id, mut openings) = parts(&tear_off);
        spoil(&mut openings);
        fault(&encode(&(format, network, id, openings)))
    };
    let components = |opening: &mut Opening, change: Change<'_>| match opening {
        Opening::Whole { components, .. } => change(components),
        _ => panic!("shown whole"),
    };
    let wrong_id = |fault: TearOffError| matches!(fault, TearOffError::Id { .. });
    assert!(wrong_id(spoil(&|openings| components(&mut openings[0], &|inputs| drop(inputs.pop())))));
    assert!(wrong_id(spoil(&|openings| components(&mut openings[0], &|inputs| inputs.clear()))));
    assert!(wrong_id(spoil(&|openings| components(&mut openings[0], &|inputs| inputs.swap(0, 1)))));
    assert!(wrong_id(spoil(
        &|openings| components(&mut openings[0], &|inputs| inputs.push(inputs[0].clone()))
    )));
    assert!(wrong_id(spoil(&|openings| components(&mut openings[8], &|window| window.clear()))));
    assert!(wrong_id(spoil(&|openings| openings.swap(0, 1))), "references are not inputs");
    // Two components as one leaf that is the hash of both.
    assert!(wrong_id(spoil(&|openings| components(&mut openings[0], &|inputs| inputs.truncate(1)))));
}

#[test]
fn a_part_has_one_form_and_true_proofs() {
    let (transaction, ..) = full();
    let shows = |component: &Component<'_>| matches!(component, Component::Output(state) if state.notary == notary() && *state != &transaction.outputs()[1]);
    let tear_off = transaction.tear_off(&[], shows).unwrap();
    let visible = tear_off.outputs().unwrap();
    assert_eq!((visible.total(), visible.values().len(), visible.whole()), (3, 2, None));
    assert_eq!(visible.iter().map(|(index, _)| index).collect::<Vec<_>>(), [0, 2]);
    let spoil = |spoil: &dyn Fn(&mut u32, &mut Hash, &mut Vec<Proven>)| {
        let (format, network, id, mut openings) = parts(&tear_off);
        match &mut openings[2] {
            Opening::Part { count, root, components, .. } => spoil(count, root, components),
            _ => panic!("shown in part"),
        }
        fault(&encode(&(format, network, id, openings)))
    };
    let form = |fault: TearOffError| matches!(fault, TearOffError::Form(Group::Outputs));
    let proof = |fault: TearOffError| matches!(fault, TearOffError::Proof { group: Group::Outputs, .. });
    assert!(form(spoil(&|_, _, components| components.clear())));
    assert!(form(spoil(&|_, _, components| components.reverse())));
    assert!(form(spoil(&|count, _, _| *count = 2)));
    assert!(proof(spoil(&|count, _, _| *count = u32::MAX)));
    assert!(proof(spoil(&|_, _, components| components[1].index = 1)));
    assert!(proof(spoil(&|_, _, components| components[1].index = 7)));
    assert!(proof(spoil(&|_, root, _| *root = Hash::ZERO)));
    assert!(proof(spoil(&|_, _, components| components[0].component[20] ^= 1)));
    assert!(proof(spoil(&|_, _, components| components[0].path.truncate(1))));
    // Showing less is no lie.
    let (format, network, id, mut openings) = parts(&tear_off);
    if let Opening::Part { components, .. } = &mut openings[2] {
        components.remove(0);
    }
    let fewer = TearOff::decode(&encode(&(format, network, id, openings))).unwrap();
    assert_eq!(fewer.outputs().unwrap().values().len(), 1);
}

#[test]
fn every_byte_counts() {
    let (transaction, ..) = full();
    let in_part = |component: &Component<'_>| matches!(component, Component::Output(state) if *state == &transaction.outputs()[1]);
    for tear_off in [
        transaction.tear_off_for_notary().unwrap(),
        transaction.tear_off(&[Group::Signers, Group::Contracts], in_part).unwrap(),
    ] {
        let good = tear_off.encode();
        for position in 0..good.len() {
            for mask in [1, 0x80] {
                let mut bytes = good.to_vec();
                bytes[position] ^= mask;
                assert!(TearOff::decode(&bytes).is_err(), "byte {position}");
            }
        }
        for length in 0..good.len() {
            assert!(TearOff::decode(&good[..length]).is_err(), "cut to {length}");
        }
        assert!(TearOff::decode(&[good, &[0]].concat()).is_err());
    }
    assert!(matches!(TearOff::decode(&vec![0; TEAR_OFF_BYTES + 1]), Err(DecodeError::TooLong { .. })));
}

/// A tear-off whose hashes fit but which no well-formed transaction has.
fn forged(group: Group, components: Vec<Vec<u8>>) -> TearOffError {
    let nonce = Hash::ZERO;
    let whole = |components: Vec<Vec<u8>>| Opening::Whole {
        nonce,
        components: components.into_iter().map(|component| (nonce, component)).collect(),
    };
    let mut openings = Group::ALL.map(|_| Opening::Hidden(nonce));
    openings[usize::from(group.tag())] = whole(components);
    let mut hashes = [Hash::ZERO; GROUPS];
    for ((hash, group), opening) in hashes.iter_mut().zip(Group::ALL).zip(&openings) {
        *hash = opening.hash(group).unwrap();
    }
    fault(&encode(&(FORMAT, network(), component::id(network(), &hashes), openings)))
}

#[test]
fn components_that_no_transaction_has_are_refused() {
    let refused = |group, components| match forged(group, components) {
        TearOffError::Component { group: found, .. } => assert_eq!(found, group),
        other => panic!("{other}"),
    };
    let input = encode(&crate::fixture::reference(1));
    refused(Group::Inputs, vec![input.clone(), input.clone()]);
    refused(Group::Inputs, vec![input[1..].to_vec()]);
    refused(Group::Inputs, vec![[&input[..], &[0]].concat()]);
    refused(Group::Notary, vec![]);
    refused(Group::Notary, vec![encode(&bob()), encode(&bob())]);
    let empty_window = encode(&TimeWindow { from: None, until: None });
    refused(Group::TimeWindow, vec![empty_window]);
    let mut keys = vec![alice().key, bob().key];
    keys.sort();
    keys.reverse();
    refused(Group::Signers, vec![encode(&keys)]);
    refused(Group::Consumers, vec![encode(&keys)]);
}

proptest! {
    #[test]
    fn shows_exactly_what_was_chosen(chosen: u32, whole: u16, position: usize, mask in 1u8..) {
        let (transaction, ..) = full();
        let groups: Vec<_> = Group::ALL.into_iter().filter(|group| whole >> group.tag() & 1 == 1).collect();
        let all: Vec<_> = transaction.components().collect();
        let wanted = |at: usize| groups.contains(&all[at].group()) || chosen >> at & 1 == 1;
        let same = |a: &Component<'_>, b: &Component<'_>| {
            let (mut x, mut y) = (Vec::new(), Vec::new());
            a.encode_into(&mut x);
            b.encode_into(&mut y);
            a.group() == b.group() && x == y
        };
        let keep = |component: &Component<'_>| {
            all.iter().enumerate().any(|(at, other)| same(component, other) && wanted(at))
        };
        let tear_off = transaction.tear_off(&groups, keep).unwrap();
        prop_assert_eq!(tear_off.id(), transaction.id());
        let expected = |group| all.iter().enumerate().filter(|(at, c)| c.group() == group && wanted(*at)).count();
        let shown = [
            tear_off.inputs().map_or(0, |shown| shown.values().len()),
            tear_off.references().map_or(0, |shown| shown.values().len()),
            tear_off.outputs().map_or(0, |shown| shown.values().len()),
            tear_off.commands().map_or(0, |shown| shown.values().len()),
            tear_off.signers().map_or(0, |shown| shown.values().len()),
            tear_off.attachments().map_or(0, |shown| shown.values().len()),
            tear_off.contracts().map_or(0, |shown| shown.values().len()),
            usize::from(tear_off.notary().is_some()),
            usize::from(tear_off.time_window().flatten().is_some()),
            tear_off.consumers().map_or(0, |shown| shown.values().len()),
        ];
        // Both commands are the same move, and Bob owns two outputs: choosing one shows both.
        for (group, shown) in Group::ALL.into_iter().zip(shown) {
            if !matches!(group, Group::Commands | Group::Consumers) {
                prop_assert_eq!(shown, expected(group), "{:?}", group);
            } else {
                prop_assert_eq!(shown == 0, expected(group) == 0);
            }
        }
        let mut bytes = tear_off.encode().to_vec();
        let position = position % bytes.len();
        bytes[position] ^= mask;
        prop_assert!(TearOff::decode(&bytes).is_err());
    }
}
