use super::*;
use crate::cash::CashCommand;
use crate::fixture::{alice, at, bank, bob, build, builder, cash, full, notary, reference};
use crate::{Contract, StateAndRef, Summary};

fn states(of: &[StateAndRef]) -> Vec<State> {
    of.iter().map(|state| state.state.clone()).collect()
}

/// A payment of one coin, whose input can be exchanged after it was built.
fn payment() -> (Transaction, State) {
    let input = State::new(&cash("7 USD", &bank(), &alice()), notary());
    let transaction = builder()
        .input(at(11, input.clone()))
        .output(&cash("7 USD", &bank(), &bob()))
        .command(&CashCommand::Move, [alice().key]);
    (build(transaction), input)
}

fn verdict(transaction: &Transaction, inputs: Vec<State>) -> Result<(), VerificationError> {
    LedgerTransaction::resolve(transaction, inputs, vec![], vec![]).unwrap().verify(&Contracts::shipped())
}

#[test]
fn a_good_transaction_is_accepted_and_readable() {
    let (transaction, inputs, references, attachments) = full();
    let resolved =
        LedgerTransaction::resolve(&transaction, states(&inputs), states(&references), attachments).unwrap();
    resolved.verify(&Contracts::shipped()).unwrap();
    let amounts: Vec<_> = resolved
        .inputs_of()
        .unwrap()
        .into_iter()
        .map(|cash: crate::cash::CashState| cash.amount.to_string())
        .collect();
    assert_eq!(amounts, ["3.00 USD", "4.00 USD", "5.00 EUR"]);
    assert_eq!(resolved.references_of::<crate::cash::CashState>().unwrap().len(), 1);
    assert_eq!(resolved.outputs_of::<crate::iou::IouState>().unwrap(), []);
    assert_eq!(resolved.commands_of::<CashCommand>().unwrap().len(), 2);
}

#[test]
fn what_was_found_fits_what_is_named() {
    let (transaction, inputs, references, attachments) = full();
    let (inputs, references) = (states(&inputs), states(&references));
    let resolve = |inputs: &[State], references: &[State], attachments: &[Attachment]| {
        LedgerTransaction::resolve(&transaction, inputs.to_vec(), references.to_vec(), attachments.to_vec())
            .map(drop)
    };
    let count = |what, expected, got| Err(ResolveError::Count { what, expected, got });
    assert_eq!(resolve(&inputs, &references, &attachments), Ok(()));
    assert_eq!(resolve(&inputs[1..], &references, &attachments), count("inputs", 3, 2));
    assert_eq!(resolve(&inputs, &[], &attachments), count("references", 1, 0));
    assert_eq!(resolve(&inputs, &references, &[]), count("attachments", 1, 0));
    let other = Attachment::new(*b"other terms").unwrap();
    let (expected, got) = (attachments[0].id(), other.id());
    assert_eq!(resolve(&inputs, &references, &[other]), Err(ResolveError::Attachment { expected, got }));
}

#[test]
fn states_stay_with_their_notary() {
    let (transaction, input) = payment();
    verdict(&transaction, vec![input.clone()]).unwrap();
    let refused =
        VerificationError::Notary { state: reference(11), found: bank().into(), expected: notary().into() };
    assert_eq!(verdict(&transaction, vec![State { notary: bank(), ..input }]), Err(refused));
    let (transaction, inputs, mut references, attachments) = full();
    references[0].state.notary = bank();
    let refused =
        VerificationError::Notary { state: reference(14), found: bank().into(), expected: notary().into() };
    let resolved =
        LedgerTransaction::resolve(&transaction, states(&inputs), states(&references), attachments).unwrap();
    assert_eq!(resolved.verify(&Contracts::shipped()), Err(refused));
}

#[test]
fn encumbered_states_are_consumed_together() {
    let coin = State::new(&cash("7 USD", &bank(), &alice()), notary());
    let origin = crate::TransactionId::from_bytes([8; 32]);
    let output = |index, encumbrance| StateAndRef {
        state: State { encumbrance, ..coin.clone() },
        reference: StateRef { transaction: origin, index },
    };
    let spend = |inputs: &[StateAndRef]| {
        let mut spending = builder().command(&CashCommand::Move, [alice().key]);
        for input in inputs {
            spending = spending.input(input.clone()).output(&cash("7 USD", &bank(), &bob()));
        }
        verdict(&build(spending), states(inputs))
    };
    spend(&[output(0, Some(1)), output(1, Some(0))]).unwrap();
    spend(&[output(1, Some(0)), output(0, Some(1))]).unwrap();
    spend(&[output(2, None)]).unwrap();
    let state = StateRef { transaction: origin, index: 0 };
    let encumbrance = StateRef { transaction: origin, index: 1 };
    let refused = Err(VerificationError::Encumbrance { state, encumbrance });
    assert_eq!(spend(&[output(0, Some(1))]), refused);
    assert_eq!(spend(&[output(0, Some(1)), output(2, None)]), refused);
    let elsewhere = StateAndRef { reference: StateRef { index: 1, ..reference(9) }, ..output(1, None) };
    assert_eq!(spend(&[output(0, Some(1)), elsewhere]), refused, "the same index of another transaction");
}

#[test]
fn contracts_are_named_with_versions_that_all_states_allow() {
    let (transaction, input) = payment();
    let cash = crate::cash::NAME;
    let allowed = VersionRange::new(2, 4);
    let refused = VerificationError::Version { state: reference(11), contract: cash, allowed, named: 1 };
    assert_eq!(verdict(&transaction, vec![State { versions: allowed, ..input.clone() }]), Err(refused));
    let iou = crate::iou::NAME;
    assert_eq!(
        verdict(&transaction, vec![State { contract: iou, ..input.clone() }]),
        Err(VerificationError::ContractNotNamed(iou))
    );
    // The builder names what its inputs need; found to be other inputs, one contract has nothing to do.
    let foreign = State { contract: iou, ..input.clone() };
    let unused = builder()
        .input(at(11, foreign))
        .output(&crate::fixture::cash("7 USD", &bank(), &bob()))
        .command(&CashCommand::Move, [alice().key]);
    assert_eq!(verdict(&build(unused), vec![input]), Err(VerificationError::ContractUnused(iou)));
}

/// Cash of versions that the shipped code does not know.
struct Later;

impl Contract for Later {
    fn name(&self) -> ContractName {
        crate::cash::NAME
    }
    fn versions(&self) -> VersionRange {
        VersionRange::new(1, 2)
    }
    fn verify(&self, _: u32, _: &LedgerTransaction) -> Result<(), Violation> {
        Ok(())
    }
    fn oldest(&self) -> u32 {
        2
    }
    fn involved(&self, state: &State) -> Result<Involved, DecodeError> {
        crate::cash::Cash.involved(state)
    }
    fn describe(&self, state: &State) -> Result<Summary, DecodeError> {
        crate::cash::Cash.describe(state)
    }
}

#[test]
fn a_version_out_of_use_governs_what_was_made_by_then_and_nothing_new() {
    let (transaction, input) = payment();
    let resolved = LedgerTransaction::resolve(&transaction, vec![input], vec![], vec![]).unwrap();
    let later = Contracts::shipped().with(Later);
    resolved.verify(&later).unwrap();
    let refused = VerificationError::OutOfUse { contract: crate::cash::NAME, version: 1, oldest: 2 };
    assert_eq!(resolved.verify_new(&later), Err(refused));
    resolved.verify_new(&Contracts::shipped()).unwrap();
}

#[test]
fn an_output_names_the_consumers_that_its_contract_says() {
    let output = State::new(&cash("7 USD", &bank(), &bob()), notary());
    let issue = |consumers: Vec<PublicKey>| {
        let output = State { consumers, ..output.clone() };
        let issue = builder().output_state(output).command(&CashCommand::Issue { nonce: 0 }, [bank().key]);
        verdict(&build(issue), vec![])
    };
    issue(vec![bob().key]).unwrap();
    let refused = Err(VerificationError::Consumers { output: 0, contract: crate::cash::NAME });
    assert_eq!(issue(vec![]), refused, "anybody could burn it at a notary that sees hashes");
    assert_eq!(issue(vec![alice().key]), refused, "the payer could");
    let mut both = vec![alice().key, bob().key];
    both.sort();
    assert_eq!(issue(both), refused, "the payer could keep its owner from spending it");
}

#[test]
fn a_state_is_consumed_with_the_signatures_of_all_its_consumers() {
    let (transaction, input) = payment();
    let needs = |consumers: &[PublicKey]| {
        verdict(&transaction, vec![State { consumers: consumers.to_vec(), ..input.clone() }])
    };
    needs(&[]).unwrap();
    needs(&[alice().key]).unwrap();
    let refused = VerificationError::NotConsumed { state: reference(11), consumer: bob().key };
    assert_eq!(needs(&[bob().key]), Err(refused));
}

#[test]
fn the_identities_that_outputs_name_are_known() {
    let (transaction, inputs, references, attachments) = full();
    let resolved =
        LedgerTransaction::resolve(&transaction, states(&inputs), states(&references), attachments).unwrap();
    let other_bank = crate::fixture::other_bank;
    assert_eq!(resolved.identities(&Contracts::shipped()).unwrap(), [bank(), other_bank(), other_bank()]);
    let unknown = VerificationError::UnknownContract(crate::cash::NAME);
    assert_eq!(resolved.identities(&Contracts::new()), Err(unknown));
}

#[test]
fn unknown_contracts_and_versions_are_refused() {
    let (transaction, input) = payment();
    let resolved = LedgerTransaction::resolve(&transaction, vec![input], vec![], vec![]).unwrap();
    let contract = crate::cash::NAME;
    assert_eq!(resolved.verify(&Contracts::new()), Err(VerificationError::UnknownContract(contract)));
    let later = Contracts::shipped().with(Later);
    let output =
        State { versions: VersionRange::new(1, 2), ..State::new(&cash("1 USD", &bank(), &bob()), notary()) };
    let issue = builder().output_state(output).command(&CashCommand::Issue { nonce: 0 }, [bank().key]);
    let issue = issue.build([9; 32], &later).unwrap();
    let resolved = LedgerTransaction::resolve(&issue, vec![], vec![], vec![]).unwrap();
    resolved.verify(&later).unwrap();
    let known = VersionRange::only(1);
    assert_eq!(
        resolved.verify(&Contracts::shipped()),
        Err(VerificationError::UnknownVersion { contract, version: 2, known })
    );
}

#[test]
fn the_contract_has_the_last_word() {
    let (transaction, input) = payment();
    let richer = State { data: crate::encode(&cash("8 USD", &bank(), &alice())), ..input.clone() };
    match verdict(&transaction, vec![richer]) {
        Err(VerificationError::Contract { violation, version: 1, .. }) => {
            assert_eq!(violation.rule, "cash-exit-signed")
        }
        other => panic!("{other:?}"),
    }
    for data in [vec![], vec![0xff; 40]] {
        match verdict(&transaction, vec![State { data, ..input.clone() }]) {
            Err(VerificationError::Contract { violation, .. }) => assert_eq!(violation.rule, "decodable"),
            other => panic!("{other:?}"),
        }
    }
}
