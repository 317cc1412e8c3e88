use super::*;
use crate::cash::CashCommand;
use crate::fixture::{
    self, alice, at, bank, bob, builder, cash, full, key, network, notary, other_bank, reference,
};
use crate::limits::{CONSUMERS, DATA_BYTES, SIGNATURES, STATES};
use crate::{BuildError, Contracts, Timestamp, TransactionBuilder, VersionRange};
use proptest::prelude::*;

/// A payment from Alice to Bob, as content that tests can spoil.
fn content() -> Content {
    Content {
        network: network(),
        inputs: vec![reference(11), reference(12)],
        references: vec![reference(13)],
        outputs: vec![State::new(&cash("7 USD", &bank(), &bob()), notary())],
        commands: vec![Command::new(&CashCommand::Move, [alice().key])],
        attachments: vec![AttachmentId::of(b"terms")],
        contracts: vec![(crate::cash::NAME, 1)],
        notary: notary(),
        time_window: Some(TimeWindow::ending(Timestamp::from_millis(5))),
    }
}

fn spoilt(spoil: impl FnOnce(&mut Content)) -> TransactionError {
    let mut content = content();
    spoil(&mut content);
    // What `new` refuses, `decode` refuses as well.
    let bytes = encode(&(FORMAT, [9u8; 32], &content));
    assert!(Transaction::decode(&bytes).is_err());
    Transaction::new([9; 32], content).unwrap_err()
}

#[test]
fn the_encoding_and_the_id_stay_what_they_are() {
    let (transaction, ..) = full();
    assert_eq!(
        transaction.id().to_string(),
        "2a386deb6ab46d49c4fd1353bb9c00322b17e2ffd5339e32f66b0e89c283b0b1"
    );
    assert_eq!(
        tally_crypto::hash(transaction.encode()).to_string(),
        "0542b4d13f5decb723ed371fdcbeb32f22244abcbf6acc89970b72e71a93c4f7"
    );
}

/// The id again, hash by hash, with nothing of the code under test but encodings.
#[test]
fn the_id_is_made_as_documented() {
    use tally_crypto::keyed;
    let (transaction, ..) = full();
    let content = &transaction.0.content;
    let groups: [Vec<Vec<u8>>; GROUPS] = [
        content.inputs.iter().map(encode).collect(),
        content.references.iter().map(encode).collect(),
        content.outputs.iter().map(encode).collect(),
        content.commands.iter().map(|command| encode(&(command.contract, &command.data))).collect(),
        content.commands.iter().map(|command| encode(&command.signers)).collect(),
        content.attachments.iter().map(encode).collect(),
        content.contracts.iter().map(encode).collect(),
        vec![encode(&content.notary)],
        content.time_window.iter().map(encode).collect(),
        content.outputs.iter().map(|state| encode(&state.consumers)).collect(),
    ];
    let nonce = |group: u8, index: u32| {
        let mut block = [0; 64];
        block[0] = group;
        block[1..5].copy_from_slice(&index.to_le_bytes());
        keyed(&[9; 32], &block)
    };
    let mut whole = vec![FORMAT];
    whole.extend(network().as_bytes());
    for (tag, group) in (0..).zip(&groups) {
        let leaves: Vec<_> = (0..)
            .zip(group)
            .map(|(index, component)| {
                let covered = [nonce(tag, index).as_bytes(), component.as_slice()].concat();
                keyed(b"tallystick flows component v2   ", &covered)
            })
            .collect();
        let mut block = [0; 128];
        block[..32].copy_from_slice(nonce(tag, u32::MAX).as_bytes());
        block[32..64].copy_from_slice(tally_crypto::merkle::root(&leaves).as_bytes());
        block[64] = tag;
        block[65..69].copy_from_slice(&(leaves.len() as u32).to_le_bytes());
        whole.extend(keyed(b"tallystick flows group v2       ", &block).as_bytes());
    }
    assert_eq!(*transaction.id().hash(), keyed(b"tallystick flows transaction v2 ", &whole));
}

#[test]
fn what_is_decoded_is_what_was_encoded() {
    let (transaction, inputs, ..) = full();
    let again = Transaction::decode(transaction.encode()).unwrap();
    assert_eq!(again, transaction);
    assert_eq!(again.encode(), transaction.encode());
    assert_eq!(again.inputs(), inputs.iter().map(|input| input.reference).collect::<Vec<_>>());
    assert_eq!(again.outputs(), transaction.outputs());
    assert_eq!(again.output(1).unwrap().state, transaction.outputs()[1]);
    assert_eq!(again.output(3), None);
    assert_eq!(again.outputs_with_refs().nth(1), again.output(1));
    let nested: (Transaction, u8) = borsh::from_slice(&borsh::to_vec(&(&transaction, 7u8)).unwrap()).unwrap();
    assert_eq!(nested, (transaction, 7));
}

#[test]
fn every_byte_counts() {
    let (transaction, ..) = full();
    let good = transaction.encode();
    let mut other_ids = 0;
    for position in 0..good.len() {
        for mask in [1, 0x80, 0xff] {
            let mut bytes = good.to_vec();
            bytes[position] ^= mask;
            if let Ok(other) = Transaction::decode(&bytes) {
                assert_ne!(other.id(), transaction.id(), "byte {position}");
                assert_eq!(other.encode(), bytes);
                assert_eq!(
                    Transaction::new(*other.salt(), clone(&other)).unwrap().encode(),
                    bytes,
                    "canonical"
                );
                other_ids += 1;
            }
        }
    }
    assert!(other_ids > 100, "amounts, ids and the salt may be changed, at the price of another id");
    for length in 0..good.len() {
        assert!(Transaction::decode(&good[..length]).is_err(), "cut to {length}");
    }
    assert!(Transaction::decode(&[good, &[0]].concat()).is_err());
}

fn clone(transaction: &Transaction) -> Content {
    borsh::from_slice(&encode(&transaction.0.content)).unwrap()
}

#[test]
fn too_many_bytes_are_refused_unread() {
    let refused = Transaction::decode(&vec![0; TRANSACTION_BYTES + 1]);
    assert!(matches!(refused, Err(DecodeError::TooLong { .. })));
    // Lengths that promise more than there is.
    let (transaction, ..) = full();
    for position in 33..transaction.encode().len() - 4 {
        let mut bytes = transaction.encode().to_vec();
        bytes[position..position + 4].fill(0xff);
        let _ = Transaction::decode(&bytes);
    }
    let mut nested = (TRANSACTION_BYTES as u32 + 1).to_le_bytes().to_vec();
    nested.extend([0; 100]);
    assert!(borsh::from_slice::<Transaction>(&nested).is_err());
}

#[test]
fn the_id_covers_salt_and_every_component() {
    let (transaction, ..) = full();
    let mut ids = vec![transaction.id()];
    let mut change = |salt: [u8; 32], change: &dyn Fn(&mut Content)| {
        let mut content = clone(&transaction);
        change(&mut content);
        ids.push(Transaction::new(salt, content).unwrap().id());
    };
    change([8; 32], &|_| {});
    change([9; 32], &|content| content.network = crate::NetworkId::from_bytes([0x4f; 32]));
    change([9; 32], &|content| content.outputs[0].consumers.clear());
    change([9; 32], &|content| content.inputs.swap(0, 1));
    change([9; 32], &|content| content.inputs.truncate(2));
    change([9; 32], &|content| {
        // From one group to the next one: the same leaves in the same order.
        let moved = content.inputs.pop().unwrap();
        content.references.insert(0, moved);
    });
    change([9; 32], &|content| content.references.clear());
    change([9; 32], &|content| content.outputs[0].data[0] ^= 1);
    change([9; 32], &|content| content.commands.truncate(1));
    change([9; 32], &|content| content.commands[1].signers = vec![key(7).public_key()]);
    change([9; 32], &|content| content.commands[0].data = vec![7]);
    change([9; 32], &|content| content.attachments.clear());
    change([9; 32], &|content| content.contracts.push((crate::iou::NAME, 1)));
    change([9; 32], &|content| content.time_window = None);
    change([9; 32], &|content| content.time_window = Some(TimeWindow::ending(Timestamp::from_millis(7))));
    change([9; 32], &|content| {
        content.notary = other_bank();
        content.outputs.iter_mut().for_each(|state| state.notary = other_bank());
    });
    let count = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), count);
}

#[test]
fn what_is_not_well_formed_is_refused_with_its_reason() {
    use TransactionError as E;
    assert!(Transaction::new([9; 32], content()).is_ok());
    assert_eq!(
        spoilt(|c| c.inputs = (0..=STATES).map(|i| StateRef { index: i as u32, ..reference(1) }).collect()),
        E::TooMany { what: "inputs", count: STATES + 1, limit: STATES }
    );
    assert_eq!(
        spoilt(|c| {
            c.inputs.clear();
            c.outputs.clear();
        }),
        E::Empty
    );
    assert_eq!(spoilt(|c| c.commands.clear()), E::NoCommand);
    assert_eq!(spoilt(|c| c.commands[0].signers.clear()), E::NoSigner);
    assert_eq!(spoilt(|c| c.inputs[0] = reference(12)), E::StateTwice(reference(12)));
    assert_eq!(spoilt(|c| c.references.push(reference(12))), E::StateTwice(reference(12)));
    assert_eq!(spoilt(|c| c.references.push(reference(13))), E::StateTwice(reference(13)));
    assert_eq!(
        spoilt(|c| c.attachments.push(AttachmentId::of(b"terms"))),
        E::AttachmentTwice(AttachmentId::of(b"terms"))
    );
    assert_eq!(
        spoilt(|c| c.commands[0].signers = vec![alice().key, alice().key]),
        E::SignerOrder { command: 0 }
    );
    assert_eq!(
        spoilt(|c| {
            let mut keys = vec![alice().key, bob().key];
            keys.sort();
            keys.reverse();
            c.commands[0].signers = keys;
        }),
        E::SignerOrder { command: 0 }
    );
    assert_eq!(
        spoilt(|c| c.commands[0].data = vec![0; DATA_BYTES + 1]),
        E::TooMany { what: "bytes in one command", count: DATA_BYTES + 1, limit: DATA_BYTES }
    );
    assert_eq!(
        spoilt(|c| c.outputs[0].data = vec![0; DATA_BYTES + 1]),
        E::TooMany { what: "bytes in one state", count: DATA_BYTES + 1, limit: DATA_BYTES }
    );
    assert_eq!(spoilt(|c| c.contracts.clear()), E::ContractNotNamed(crate::cash::NAME));
    assert_eq!(spoilt(|c| c.contracts.push((crate::cash::NAME, 1))), E::ContractOrder);
    assert_eq!(spoilt(|c| c.contracts.push((crate::bond::NAME, 1))), E::ContractOrder);
    assert_eq!(
        spoilt(|c| c.contracts[0].1 = 2),
        E::Version { output: 0, contract: crate::cash::NAME, allowed: VersionRange::only(1), named: 2 }
    );
    assert_eq!(
        spoilt(|c| c.outputs[0].notary = bank()),
        E::OutputNotary { output: 0, found: bank().into(), expected: notary().into() }
    );
    let mut keys = vec![alice().key, bob().key];
    keys.sort();
    keys.reverse();
    assert_eq!(spoilt(|c| c.outputs[0].consumers = keys.clone()), E::ConsumerOrder { output: 0 });
    assert_eq!(spoilt(|c| c.outputs[0].consumers = vec![bob().key; 2]), E::ConsumerOrder { output: 0 });
    let consumers = CONSUMERS + 1;
    assert_eq!(
        spoilt(|c| c.outputs[0].consumers = (0..17).map(|number| fake(0, number)).collect()),
        E::TooMany { what: "consumers of one state", count: consumers, limit: CONSUMERS }
    );
    for window in [
        TimeWindow { from: None, until: None },
        TimeWindow::between(Timestamp::from_millis(5), Timestamp::from_millis(5)),
        TimeWindow::between(Timestamp::from_millis(6), Timestamp::from_millis(5)),
    ] {
        assert_eq!(spoilt(|c| c.time_window = Some(window)), E::TimeWindow(window));
    }
    let many = |count: u8| {
        (0..count)
            .map(|number| Command::new(&CashCommand::Move, (0..128).map(|other| fake(number, other))))
            .collect()
    };
    assert_eq!(
        spoilt(|c| c.commands = many(3)),
        E::TooMany { what: "required signers", count: 3 * 128, limit: SIGNATURES }
    );
    let mut bytes = fixture::full().0.encode().to_vec();
    bytes[0] = 1;
    assert!(Transaction::decode(&bytes).is_err(), "another format");
}

/// A key that nobody has.
fn fake(a: u8, b: u8) -> PublicKey {
    let mut bytes = [a; 32];
    bytes[0] = b;
    PublicKey::Ed25519(bytes.into())
}

#[test]
fn encumbrances_form_rings() {
    let attempt = |encumbrances: &[Option<u32>]| {
        let mut content = content();
        let state = content.outputs.remove(0);
        for encumbrance in encumbrances {
            content.outputs.push(State { encumbrance: *encumbrance, ..state.clone() });
        }
        Transaction::new([9; 32], content).map(drop)
    };
    let refused = |output, encumbrance| Err(TransactionError::Encumbrance { output, encumbrance });
    assert_eq!(attempt(&[Some(1), Some(0), None]), Ok(()));
    assert_eq!(attempt(&[Some(1), Some(2), Some(0)]), Ok(()));
    assert_eq!(attempt(&[Some(1), Some(0), Some(3), Some(2)]), Ok(()));
    assert_eq!(attempt(&[Some(0)]), refused(0, 0), "itself");
    assert_eq!(attempt(&[Some(1), None]), refused(0, 1), "one that is not encumbered");
    assert_eq!(attempt(&[Some(7), None]), refused(0, 7), "one that is not there");
    assert_eq!(attempt(&[Some(2), Some(2), Some(0)]), refused(1, 2), "shared");
    assert_eq!(attempt(&[Some(u32::MAX)]), refused(0, u32::MAX));
}

#[test]
fn the_notary_signs_what_only_it_can_attest() {
    let issue = |builder: TransactionBuilder| {
        crate::cash::issue(builder, fixture::amount("1 USD"), &bank(), alice().key, 0)
    };
    let required = |builder| {
        let built = fixture::build(builder);
        (built.required_signers().to_vec(), built.needs_notary())
    };
    assert_eq!(required(issue(builder())), (vec![bank().key], false));
    let with_notary = (vec![bank().key], true);
    let timed = builder().time_window(TimeWindow::ending(Timestamp::from_millis(5)));
    assert_eq!(required(issue(timed)), with_notary);
    let reading = builder().reference(at(3, State::new(&cash("1 USD", &bank(), &bob()), notary())));
    assert_eq!(required(issue(reading)), with_notary);
    let (full, ..) = full();
    let mut all = vec![alice().key, bob().key];
    all.sort();
    assert_eq!(full.required_signers(), all);
    assert!(full.needs_notary());
}

#[test]
fn the_builder_refuses_what_does_not_fit() {
    let foreign = at(3, State::new(&cash("1 USD", &bank(), &bob()), bank()));
    let refused = BuildError::Notary { state: reference(3), found: bank().into(), expected: notary().into() };
    let built = |builder: TransactionBuilder| builder.build([9; 32], &Contracts::shipped()).map(drop);
    assert_eq!(built(builder().input(foreign.clone())), Err(refused.clone()));
    assert_eq!(built(builder().reference(foreign)), Err(refused));
    assert_eq!(built(builder()), Err(BuildError::Malformed(TransactionError::Empty)));
    let none = builder().output(&cash("1 USD", &bank(), &bob())).build([9; 32], &Contracts::new());
    assert_eq!(none.unwrap_err(), BuildError::UnknownContract(crate::cash::NAME));
}

proptest! {
    #[test]
    fn any_bytes_decode_to_an_error_or_to_themselves(
        edits in proptest::collection::vec((0usize..2_000, any::<u8>()), 1..6),
        cut in 0usize..2_000,
        insert in proptest::option::of((0usize..2_000, any::<u8>())),
    ) {
        let (transaction, ..) = full();
        let mut bytes = transaction.encode().to_vec();
        for (position, value) in edits {
            let position = position % bytes.len();
            bytes[position] = value;
        }
        if let Some((position, value)) = insert {
            bytes.insert(position % bytes.len(), value);
        }
        if cut % 3 == 0 {
            bytes.truncate(cut);
        }
        if let Ok(decoded) = Transaction::decode(&bytes) {
            prop_assert_eq!(decoded.encode(), &bytes);
            let canonical = Transaction::new(*decoded.salt(), clone(&decoded)).unwrap();
            prop_assert_eq!(canonical.encode(), &bytes);
            prop_assert_eq!(canonical.id() == transaction.id(), bytes == transaction.encode());
        }
    }

    #[test]
    fn noise_is_never_a_panic(noise in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = Transaction::decode(&noise);
        let _ = TearOff::decode(&noise);
        let _ = crate::SignedTransaction::decode(&noise);
    }
}
