//! What the steps of a payment cost in this crate, one thread: `cargo bench -p tally-contracts`.

use std::hint::black_box;
use std::time::{Duration, Instant};
use tally_contracts::cash::{self, CashState, Coin};
use tally_contracts::{
    Amount, BatchVerifier, Contracts, Currency, LedgerTransaction, Name, NetworkId, Party, Role, Scheme,
    SignedTransaction, SigningKey, State, StateAndRef, StateRef, TearOff, Transaction, TransactionBuilder,
    TransactionId, sign, verify_signatures_of,
};

fn main() {
    let contracts = Contracts::shipped();
    let keys: Vec<SigningKey> = (1..=4)
        .map(|byte| SigningKey::from_secret(Scheme::Ed25519, &[byte; 32]).expect("any bytes are a seed"))
        .collect();
    let party = |organisation, key: &SigningKey| Party {
        name: Name::new(organisation, "London", "GB").expect("a good name"),
        key: key.public_key(),
    };
    let (notary, bank) = (party("Notary", &keys[0]), party("Bank", &keys[1]));
    let (alice, bob) = (keys[2].public_key(), keys[3].public_key());
    let usd = |quantity| Amount::new(quantity, Currency::literal("USD")).expect("in range");
    let coin_state =
        State::new(&CashState { amount: usd(10_000), issuer: bank, owner: alice }, notary.clone());
    let reference = StateRef { transaction: TransactionId::from_bytes([5; 32]), index: 0 };
    let coin = Coin::try_from(StateAndRef { state: coin_state.clone(), reference }).expect("a coin");
    let salted = |salt: u64| {
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&salt.to_le_bytes());
        let builder = TransactionBuilder::new(NetworkId::from_bytes([1; 32]), notary.clone());
        let paid =
            cash::pay(builder, std::slice::from_ref(&coin), usd(7_000), bob, alice, 1).expect("covered");
        paid.build(bytes, &contracts).expect("well-formed")
    };
    let payment = salted(0);
    let resolved =
        LedgerTransaction::resolve(&payment, vec![coin_state.clone()], vec![], vec![]).expect("fits");
    let tear_off = payment.tear_off_for_notary().expect("small");
    let complete = |payment: &Transaction| {
        let signers = [(0, Role::Notary), (2, Role::Party)];
        let signatures = signers.map(|(key, role): (usize, Role)| sign(&keys[key], role, payment.id()));
        SignedTransaction::new(payment.clone(), signatures).expect("required")
    };
    let signed = complete(&payment);
    println!(
        "payment: 1 input, 2 outputs, {} bytes; tear-off for the notary {} bytes",
        payment.encode().len(),
        tear_off.encode().len()
    );
    measure("put together, build, hash", || salted(black_box(1)));
    measure("decode, hash", || Transaction::decode(black_box(payment.encode())));
    measure("decode with signatures", {
        let bytes = signed.encode();
        move || SignedTransaction::decode(black_box(&bytes))
    });
    measure("resolve, verify contracts", || {
        LedgerTransaction::resolve(black_box(&payment), vec![coin_state.clone()], vec![], vec![])
            .map(|resolved| resolved.verify(&contracts))
    });
    measure("verify contracts", || resolved.verify(black_box(&contracts)));
    measure("describe one state", || contracts.describe(black_box(&payment.outputs()[0])));
    measure("tear off for the notary", || black_box(&payment).tear_off_for_notary());
    measure("decode, verify a tear-off", || TearOff::decode(black_box(tear_off.encode())));
    measure("sign", || sign(&keys[2], Role::Party, black_box(payment.id())));
    measure("verify two signatures", || black_box(&signed).verify_signatures());
    let many: Vec<_> = (0..1_000).map(|salt| complete(&salted(salt))).collect();
    let mut verifier = BatchVerifier::new(1_000);
    measure("verify 2 x 1000 signatures at once", || verify_signatures_of(black_box(&many), &mut verifier));
}

/// Prints the best time of several runs of at least 50 ms each.
fn measure<T>(what: &str, mut step: impl FnMut() -> T) {
    let mut run = |times: u32| {
        let start = Instant::now();
        for _ in 0..times {
            black_box(step());
        }
        start.elapsed()
    };
    let mut times = 1;
    while run(times) < Duration::from_millis(50) {
        times *= 2;
    }
    let best = (0..7).map(|_| run(times)).min().unwrap_or_default();
    println!("{what:40} {:10.2} µs", best.as_secs_f64() * 1e6 / f64::from(times));
}
