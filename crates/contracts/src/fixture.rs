//! Parties, coins and transactions that the tests share.

use crate::cash::{CashCommand, CashState, Coin};
use crate::{
    Amount, Attachment, Contracts, LedgerTransaction, Name, NetworkId, Party, Role, Scheme,
    SignedTransaction, SigningKey, State, StateAndRef, StateRef, TimeWindow, Timestamp, Transaction,
    TransactionBuilder, TransactionId, VerificationError, sign,
};
use std::sync::LazyLock;

/// Made once: a key takes as long as a signature.
static KEYS: LazyLock<Vec<SigningKey>> = LazyLock::new(|| {
    (1..=7).map(|number| SigningKey::from_secret(Scheme::Ed25519, &[number; 32]).unwrap()).collect()
});

/// The keys of all parties, and number 7, which nobody has.
pub(crate) fn keys() -> &'static [SigningKey] {
    &KEYS
}

pub(crate) fn key(number: u8) -> &'static SigningKey {
    &KEYS[usize::from(number) - 1]
}

fn party(organisation: &str, number: u8) -> Party {
    let name = Name::new(organisation, "London", "GB").unwrap();
    Party { name, key: key(number).public_key() }
}

/// The network of all transactions here.
pub(crate) fn network() -> NetworkId {
    NetworkId::from_bytes([0x4e; 32])
}

pub(crate) fn notary() -> Party {
    party("Notary", 1)
}

pub(crate) fn bank() -> Party {
    party("Bank", 2)
}

pub(crate) fn other_bank() -> Party {
    party("Other Bank", 3)
}

pub(crate) fn alice() -> Party {
    party("Alice", 4)
}

pub(crate) fn bob() -> Party {
    party("Bob", 5)
}

pub(crate) fn agent() -> Party {
    party("Agent", 6)
}

pub(crate) fn amount(text: &str) -> Amount {
    text.parse().unwrap()
}

pub(crate) fn cash(text: &str, issuer: &Party, owner: &Party) -> CashState {
    CashState { amount: amount(text), issuer: issuer.clone(), owner: owner.key }
}

/// A reference to an output of some transaction.
pub(crate) fn reference(number: u8) -> StateRef {
    StateRef { transaction: TransactionId::from_bytes([number; 32]), index: u32::from(number) }
}

pub(crate) fn at(number: u8, state: State) -> StateAndRef {
    StateAndRef { state, reference: reference(number) }
}

pub(crate) fn coin(number: u8, cash: &CashState) -> Coin {
    at(number, State::new(cash, notary())).try_into().unwrap()
}

pub(crate) fn builder() -> TransactionBuilder {
    TransactionBuilder::new(network(), notary())
}

pub(crate) fn build(builder: TransactionBuilder) -> Transaction {
    builder.build([9; 32], &Contracts::shipped()).unwrap()
}

/// A transaction with something in every group.
pub(crate) fn full() -> (Transaction, Vec<StateAndRef>, Vec<StateAndRef>, Vec<Attachment>) {
    let inputs = vec![
        at(11, State::new(&cash("3 USD", &bank(), &alice()), notary())),
        at(12, State::new(&cash("4 USD", &bank(), &alice()), notary())),
        at(13, State::new(&cash("5 EUR", &other_bank(), &bob()), notary())),
    ];
    let references = vec![at(14, State::new(&cash("1 USD", &bank(), &bob()), notary()))];
    let attachments = vec![Attachment::new(*b"terms and conditions").unwrap()];
    let mut built = builder()
        .output(&cash("7 USD", &bank(), &bob()))
        .output(&cash("2 EUR", &other_bank(), &alice()))
        .output(&cash("3 EUR", &other_bank(), &bob()))
        .command(&CashCommand::Move, [alice().key])
        .command(&CashCommand::Move, [bob().key, alice().key])
        .attachment(attachments[0].id())
        .time_window(TimeWindow::between(Timestamp::from_millis(1_000), Timestamp::from_millis(2_000)));
    for input in &inputs {
        built = built.input(input.clone());
    }
    for reference in &references {
        built = built.reference(reference.clone());
    }
    (build(built), inputs, references, attachments)
}

/// The transaction with the states that it consumes.
pub(crate) fn resolve(transaction: &Transaction, inputs: &[StateAndRef]) -> LedgerTransaction {
    let states = transaction
        .inputs()
        .iter()
        .map(|wanted| inputs.iter().find(|input| input.reference == *wanted).unwrap().state.clone())
        .collect();
    LedgerTransaction::resolve(transaction, states, Vec::new(), Vec::new()).unwrap()
}

/// Builds and verifies; the name of the contract's rule that is broken.
pub(crate) fn verdict(builder: TransactionBuilder, inputs: &[StateAndRef]) -> Result<(), &'static str> {
    let transaction = build(builder);
    match resolve(&transaction, inputs).verify(&Contracts::shipped()) {
        Ok(()) => Ok(()),
        Err(VerificationError::Contract { violation, .. }) => Err(violation.rule),
        Err(other) => panic!("refused before the contract was asked: {other}"),
    }
}

/// Signed by everybody required.
pub(crate) fn signed(transaction: &Transaction) -> SignedTransaction {
    let signer = |wanted: &crate::PublicKey| keys().iter().find(|key| key.public_key() == *wanted).unwrap();
    let id = transaction.id();
    let parties = transaction.required_signers().iter().map(|by| sign(signer(by), Role::Party, id));
    let notary =
        transaction.needs_notary().then(|| sign(signer(&transaction.notary().key), Role::Notary, id));
    SignedTransaction::new(transaction.clone(), parties.chain(notary)).unwrap()
}
