//! Nodes with real keys that run altered code: what members may do that a good node does not.
//!
//! A lie is drawn for each flow from the flow's own randomness, so that a seed replays. Liars answer final transactions
//! and proposals with anything but what is due, tell two stories, hand over what they have changed and signed again; a
//! notary commits and then says nothing of use; an oracle says one thing and signs another.
//!
//! Not in the mix, and tried by tests of their own: [`LEFT_OUT`].

use borsh::{BorshDeserialize, BorshSerialize};
use serde::{Deserialize, Serialize};
use tally_contracts::cash::{self, CashCommand, CashState, Coin};
use tally_contracts::{
    Name, Party, Role as SignatureRole, SignedTransaction, State, StateRef, TransactionBuilder, TransactionId,
};
use tally_flows::{Commit, Committed, Context, Flow, FlowError, Registry, Responder, Session};
use tally_protocols::notarise::{self, Answer, Notarise, Question};
use tally_protocols::resolve::{Offer, Reply};
use tally_protocols::{agree, check, finalise, oracle};

use super::strange;

/// Lies that are left out, and what tries them.
pub const LEFT_OUT: [(&str, &str); 4] = [
    (
        "a burnt coin of another",
        "`nobody_burns_a_coin_that_it_paid_to_another`; a notary that lies can burn any",
    ),
    ("a bond sold to whoever buys at par", "`a_node_buys_nothing_that_its_institution_has_not_allowed`"),
    ("an encumbered or dust payment", "`crates/protocols/tests/poison.rs`"),
    ("a flood of pings", "`crates/flows/src/tests/limits.rs`"),
];

/// What a liar's node runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// An institution.
    Institution,
    /// The notary that does not validate.
    Notary,
    /// The oracle.
    Oracle,
}

/// All flows of a liar's node: those that every node ships and those of the simulation, with its own answers in place of
/// theirs. An institution's can be told to `Lie`.
pub fn registry(role: Role) -> Registry {
    let registry = strange::registry();
    match role {
        Role::Institution => registry.replacing::<Receive>().replacing::<Lend>().flow::<Lie>(),
        Role::Notary => registry.replacing::<LyingNotary>(),
        Role::Oracle => registry.replacing::<LyingOracle>(),
    }
}

/// Which of `count` lies this flow tells.
fn lie(context: &Context, count: u8) -> u8 {
    context.random("which lie")[0] % count
}

/// Says nothing for as long as the other side waits.
async fn withhold(session: &Session) -> Result<(), FlowError> {
    loop {
        let _: Vec<u8> = match session.receive().await {
            Ok(bytes) => bytes,
            Err(FlowError::Unexpected { .. }) => continue,
            Err(error) => return Err(error),
        };
    }
}

/// A party that does not record what is final, or records it and denies it.
struct Receive;

impl Responder for Receive {
    const ANSWERS: &'static str = finalise::NAME;
    const VERSION: u32 = finalise::VERSION;

    async fn run(context: Context, session: Session) -> Result<(), FlowError> {
        match lie(&context, 8) {
            0 => Err(FlowError::refused("nothing arrived here; pay again")),
            1 => Err(FlowError::Killed),
            2 => {
                let _: Offer = session.receive().await?;
                session.send(&Reply::<()>::Fetch(vec![TransactionId::from_bytes([7; 32])])).await;
                withhold(&session).await
            }
            3 => withhold(&session).await,
            4 => {
                finalise::receive(&context, &session, None).await?;
                Err(FlowError::Busy { limit: 0 })
            }
            5 => {
                let _: Offer = session.receive().await?;
                session.send("not an answer").await;
                Ok(())
            }
            // It says that it has it, and has not.
            6 => {
                let _: Offer = session.receive().await?;
                Err(FlowError::invalid("the notary's signature does not verify"))
            }
            _ => finalise::receive(&context, &session, None).await.map(|_| ()),
        }
    }
}

/// A lender that signs, and does not stand by it.
struct Lend;

impl Responder for Lend {
    const ANSWERS: &'static str = "IouCreate";
    const VERSION: u32 = 1;

    async fn run(context: Context, session: Session) -> Result<(), FlowError> {
        match lie(&context, 5) {
            0 => Err(FlowError::refused("not today")),
            1 => {
                agree::review(&context, &session, |_| Ok(())).await?;
                Err(FlowError::refused("it forgot what it has signed"))
            }
            2 => {
                agree::review(&context, &session, |_| Ok(())).await?;
                withhold(&session).await
            }
            3 => {
                let _: Offer = session.receive().await?;
                let other = TransactionId::from_bytes(context.random("another transaction"));
                let signature = context.sign(&context.me().key, SignatureRole::Party, other).await?;
                session.send(&Reply::Answer(signature)).await;
                withhold(&session).await
            }
            _ => {
                let agreed = agree::review(&context, &session, |_| Ok(())).await?;
                finalise::receive(&context, &session, Some(&agreed)).await.map(|_| ())
            }
        }
    }
}

/// A notary that commits what it is asked to, and then says anything but that; or does not commit at all.
struct LyingNotary;

impl Responder for LyingNotary {
    const ANSWERS: &'static str = notarise::NAME;
    const VERSION: u32 = notarise::VERSION;

    async fn run(context: Context, session: Session) -> Result<(), FlowError> {
        let which = lie(&context, 12);
        if which > 5 {
            return Notarise::run(context, session).await;
        }
        let Question::Part { tear_off, .. } = session.receive().await? else {
            return Err(FlowError::refused("show a tear-off"));
        };
        let view = tear_off.for_notary().map_err(FlowError::invalid)?;
        let commit = Commit {
            inputs: view.inputs.to_vec(),
            references: view.references.to_vec(),
            transaction: view.id,
            time_window: view.time_window,
            requester: session.peer().clone(),
        };
        let other = TransactionId::from_bytes(context.random("another transaction"));
        match which {
            0 => return Err(FlowError::refused("not today")),
            1 => return Err(FlowError::Killed),
            2 => return withhold(&session).await,
            _ => {}
        }
        if context.commit(commit).await? != Committed::Yes {
            return Err(FlowError::Killed);
        }
        match which {
            3 => Err(FlowError::Killed),
            4 => {
                let notaries = context.notaries().await?;
                let own = notaries.named(&context.me().name);
                let own = own.ok_or_else(|| FlowError::refused("this node is no notary"))?;
                let signature = context.sign(&own.party.key, SignatureRole::Notary, other).await?;
                session.send(&Answer::Signed(signature)).await;
                Ok(())
            }
            _ => {
                session.send("not an answer").await;
                Ok(())
            }
        }
    }
}

/// An oracle that says one thing and signs another, or nothing.
struct LyingOracle;

impl Responder for LyingOracle {
    const ANSWERS: &'static str = oracle::NAME;
    const VERSION: u32 = oracle::VERSION;

    async fn run(context: Context, session: Session) -> Result<(), FlowError> {
        match lie(&context, 6) {
            0 => Err(FlowError::refused("not today")),
            1 => withhold(&session).await,
            2 => {
                // The rate of another pair.
                let at = context.now().await;
                session.send(&("USD", "USD", 1_u64, at)).await;
                withhold(&session).await
            }
            _ => oracle::Vouch::run(context, session).await,
        }
    }
}

/// What to lie about, and to whom.
#[derive(Clone, Debug, BorshSerialize, BorshDeserialize, Serialize, Deserialize)]
pub(crate) struct LieArguments {
    pub(crate) coin: StateRef,
    pub(crate) first: Name,
    pub(crate) second: Name,
}

/// Hands over what is not final, or not what was made final.
pub(crate) struct Lie;

/// How many stories a liar can tell the second.
const STORIES: u8 = 7;

impl Flow for Lie {
    const NAME: &'static str = "Lie";
    const VERSION: u32 = 1;
    const ARGUMENTS: &'static [(&'static str, &'static str)] = &[];
    type Arguments = LieArguments;
    type Output = ();

    async fn run(context: Context, arguments: LieArguments) -> Result<(), FlowError> {
        let LieArguments { coin, first, second } = arguments;
        let (first, second) = (context.party(&first).await?, context.party(&second).await?);
        let me = context.me().clone();
        let found = context.transactions(vec![coin.transaction]).await?;
        let state =
            found.into_iter().flatten().next().and_then(|found| found.transaction().output(coin.index));
        let state = state.ok_or_else(|| FlowError::refused(format!("there is no {coin}")))?;
        let chosen = Coin::try_from(state.clone()).map_err(FlowError::invalid)?;
        let (amount, notary) = (chosen.cash.amount, state.state.notary.clone());
        let pay = |to: &tally_contracts::Party, salt: &str| {
            let builder = TransactionBuilder::new(context.network(), notary.clone());
            let coins = std::slice::from_ref(&chosen);
            let builder = cash::pay(builder, coins, amount, to.key, me.key, 1).map_err(FlowError::refused)?;
            builder.build(context.random(salt), check::contracts()).map_err(FlowError::refused)
        };
        let story = match lie(&context, STORIES) {
            // One coin for two: the second without its notary's signature.
            0 => pay(&second, "second")?,
            // The same, with the notary's signature over the first.
            1 => pay(&second, "second")?,
            // More comes out than went in.
            2 => {
                let builder = TransactionBuilder::new(context.network(), notary.clone());
                let more = CashState { amount, issuer: chosen.cash.issuer.clone(), owner: second.key };
                cash::pay(builder, std::slice::from_ref(&chosen), amount, second.key, me.key, 1)
                    .map_err(FlowError::refused)?
                    .output(&more)
                    .build(context.random("more"), check::contracts())
                    .map_err(FlowError::refused)?
            }
            // Cash of another that it never issued.
            3 => TransactionBuilder::new(context.network(), notary.clone())
                .output(&CashState { amount, issuer: first.clone(), owner: second.key })
                .command(&CashCommand::Issue { nonce: 1 }, [first.key])
                .build(context.random("issue"), check::contracts())
                .map_err(FlowError::refused)?,
            // Cash in the first's name under the liar's key.
            4 => {
                let issuer = Party { name: first.name.clone(), key: me.key };
                TransactionBuilder::new(context.network(), notary.clone())
                    .output(&CashState { amount, issuer, owner: second.key })
                    .command(&CashCommand::Issue { nonce: 1 }, [me.key])
                    .build(context.random("counterfeit"), check::contracts())
                    .map_err(FlowError::refused)?
            }
            // Cash of its own, which it alone could consume at a notary that sees hashes.
            5 => {
                let cash = CashState { amount, issuer: me.clone(), owner: second.key };
                let state = State { consumers: vec![me.key], ..State::new(&cash, notary.clone()) };
                TransactionBuilder::new(context.network(), notary.clone())
                    .output_state(state)
                    .command(&CashCommand::Issue { nonce: 1 }, [me.key])
                    .build(context.random("consumers"), check::contracts())
                    .map_err(FlowError::refused)?
            }
            // What is none of the second's business.
            _ => pay(&first, "first")?,
        };
        let sign = |transaction: tally_contracts::Transaction| async {
            let signature = context.sign(&me.key, SignatureRole::Party, transaction.id()).await?;
            SignedTransaction::new(transaction, [signature]).map_err(FlowError::invalid)
        };
        let honest = sign(pay(&first, "first")?).await?;
        let truth = notarise::notarise(&context, &honest).await;
        let mut told = sign(story).await?;
        let attestation = truth.as_ref().ok().and_then(|truth| truth.attestations().next());
        if let (1, Some(attestation)) = (lie(&context, STORIES), attestation) {
            told = told.clone().with(*attestation).unwrap_or(told);
        }
        // The first is told the truth, if there is any; it may hear it twice.
        if let Ok(truth) = truth {
            context.record(vec![std::sync::Arc::new(truth.clone())]).await?;
            hand_over(&context, &first.name, truth.clone()).await?;
            hand_over(&context, &first.name, truth).await?;
        }
        hand_over(&context, &second.name, told).await
    }
}

async fn hand_over(context: &Context, to: &Name, transaction: SignedTransaction) -> Result<(), FlowError> {
    let session = context.open_as(to, finalise::NAME, finalise::VERSION).await?;
    let history = context.transactions(check_dependencies(&transaction)).await?;
    let history = history.into_iter().flatten().map(|found| SignedTransaction::clone(&found)).collect();
    session.send(&Offer { transaction, history }).await;
    // Whatever is said to that.
    let _: Result<Reply<()>, _> = session.receive().await;
    Ok(())
}

fn check_dependencies(transaction: &SignedTransaction) -> Vec<TransactionId> {
    let mut ids: Vec<_> =
        transaction.transaction().inputs().iter().map(|reference| reference.transaction).collect();
    ids.dedup();
    ids
}
