//! Flows of a node that does not keep to the protocols.

use borsh::{BorshDeserialize, BorshSerialize};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

use tally_contracts::bond::{self, BondState, Holding, Terms};
use tally_contracts::cash::{self, CashCommand, CashState, Coin};
use tally_contracts::iou::{self, IouState};
use tally_contracts::{
    Amount, Contract, ContractName, Contracts, DecodeError, Group, Involved, LedgerTransaction, Name,
    NetworkId, Party, Role, SignedTransaction, State, StateAndRef, StateRef, Summary, TearOff, TimeWindow,
    Timestamp, Transaction, TransactionBuilder, TransactionId, TransactionSignature, VersionRange, Violation,
};
use tally_crypto::Hash;
use tally_flows::{Context, Flow, FlowError, Registry, Responder, Selection, Session};
use tally_protocols::check::contracts;
use tally_protocols::notarise::{self, Answer, Question, notarise};
use tally_protocols::resolve::{Batch, Offer, Reply};
use tally_protocols::{Final, finalise};

#[derive(Clone, Debug, BorshSerialize, BorshDeserialize, Serialize, Deserialize)]
pub(crate) struct Victim {
    pub(crate) victim: Name,
    #[serde(default)]
    pub(crate) how: String,
}

fn usd(quantity: u64) -> Amount {
    Amount::new(quantity, "USD".parse().unwrap()).unwrap()
}

/// The versions of [`Former`].
const FORMER: VersionRange = VersionRange::only(0);

/// The cash contract as it never was: without rules.
struct Former;

impl Contract for Former {
    fn name(&self) -> ContractName {
        cash::NAME
    }

    fn versions(&self) -> VersionRange {
        FORMER
    }

    fn verify(&self, _: u32, _: &LedgerTransaction) -> Result<(), Violation> {
        Ok(())
    }

    fn involved(&self, state: &State) -> Result<Involved, DecodeError> {
        cash::Cash.involved(state)
    }

    fn describe(&self, state: &State) -> Result<Summary, DecodeError> {
        cash::Cash.describe(state)
    }
}

async fn notary(context: &Context) -> Party {
    let notaries = context.notaries().await.unwrap().current;
    notaries[usize::from(context.random("which notary")[0]) % notaries.len()].party.clone()
}

fn build(context: &Context, builder: TransactionBuilder) -> Transaction {
    builder.build(context.random("evil"), contracts()).unwrap()
}

async fn signed(context: &Context, transaction: Transaction) -> SignedTransaction {
    let signature = context.sign(&context.me().key, Role::Party, transaction.id()).await.unwrap();
    SignedTransaction::new(transaction, [signature]).unwrap()
}

async fn own_issue(context: &Context, notary: Party) -> SignedTransaction {
    let me = context.me();
    let builder = cash::issue(TransactionBuilder::new(context.network(), notary), usd(100), me, me.key, 1);
    signed(context, build(context, builder)).await
}

fn spend(context: &Context, issue: &SignedTransaction, to: &Party) -> Transaction {
    let coin = Coin::try_from(issue.transaction().output(0).unwrap()).unwrap();
    let notary = issue.transaction().notary().clone();
    let builder = cash::pay(
        TransactionBuilder::new(context.network(), notary),
        &[coin],
        usd(100),
        to.key,
        context.me().key,
        1,
    )
    .unwrap();
    builder.build(context.random("spend"), contracts()).unwrap()
}

/// Hands `victim` something that it must not record.
pub(crate) struct HandOver;

impl Flow for HandOver {
    const NAME: &'static str = "HandOver";
    const VERSION: u32 = 1;
    const ARGUMENTS: &'static [(&'static str, &'static str)] = &[];
    type Arguments = Victim;
    type Output = Final;

    async fn run(context: Context, Victim { victim, how }: Victim) -> Result<Final, FlowError> {
        let victim = context.party(&victim).await?;
        let me = context.me().clone();
        let notary = notary(&context).await;
        let offer = match how.as_str() {
            // Cash of the victim that the victim never issued.
            "forged history" => {
                let forged = CashState { amount: usd(100), issuer: victim.clone(), owner: me.key };
                let builder = TransactionBuilder::new(context.network(), notary)
                    .output(&forged)
                    .command(&CashCommand::Issue { nonce: 1 }, [victim.key, me.key]);
                let issue = signed(&context, build(&context, builder)).await;
                context.record(vec![Arc::new(issue.clone())]).await?;
                let payment = signed(&context, spend(&context, &issue, &victim)).await;
                let payment = notarise(&context, &payment).await?;
                Offer { transaction: payment, history: vec![issue] }
            }
            // Cash that the issuer did sign for, made out of nothing later on.
            "conjured history" => {
                let issue = own_issue(&context, notary.clone()).await;
                let conjured = CashState { amount: usd(1_000_000), issuer: me.clone(), owner: victim.key };
                let builder = TransactionBuilder::new(context.network(), notary)
                    .input(issue.transaction().output(0).unwrap())
                    .output(&conjured)
                    .command(&CashCommand::Move, [me.key]);
                context.record(vec![Arc::new(issue.clone())]).await?;
                let payment = signed(&context, build(&context, builder)).await;
                let payment = notarise(&context, &payment).await?;
                Offer { transaction: payment, history: vec![issue] }
            }
            "not notarised" => {
                let issue = own_issue(&context, notary).await;
                let payment = signed(&context, spend(&context, &issue, &victim)).await;
                Offer { transaction: payment, history: vec![issue] }
            }
            // Cash that looks like the victim's own, or like that of a central bank, and is Mallory's.
            "counterfeit" | "counterfeit of itself" => {
                let name = match how.as_str() {
                    "counterfeit" => Name::new("Alice", "London", "GB").unwrap(),
                    _ => victim.name.clone(),
                };
                let counterfeiter = Party { name, key: me.key };
                let builder = TransactionBuilder::new(context.network(), notary);
                let builder = cash::issue(builder, usd(100), &counterfeiter, victim.key, 1);
                Offer { transaction: signed(&context, build(&context, builder)).await, history: Vec::new() }
            }
            "counterfeit in the history" => {
                let counterfeiter = Party { name: victim.name.clone(), key: me.key };
                let builder = TransactionBuilder::new(context.network(), notary);
                let builder = cash::issue(builder, usd(100), &counterfeiter, me.key, 1);
                let issue = signed(&context, build(&context, builder)).await;
                context.record(vec![Arc::new(issue.clone())]).await?;
                let payment = signed(&context, spend(&context, &issue, &victim)).await;
                let payment = notarise(&context, &payment).await?;
                Offer { transaction: payment, history: vec![issue] }
            }
            // The payer keeps the right to burn at a notary what it has paid.
            "other consumers" => {
                let gift = CashState { amount: usd(100), issuer: me.clone(), owner: victim.key };
                let state = State { consumers: vec![me.key], ..State::new(&gift, notary.clone()) };
                let builder = TransactionBuilder::new(context.network(), notary)
                    .output_state(state)
                    .command(&CashCommand::Issue { nonce: 1 }, [me.key]);
                Offer { transaction: signed(&context, build(&context, builder)).await, history: Vec::new() }
            }
            // A version of the cash contract that no node has, under which everything is allowed.
            "a downgraded contract" => {
                let gift = CashState { amount: usd(100), issuer: victim.clone(), owner: victim.key };
                let state = State { versions: FORMER, ..State::new(&gift, notary.clone()) };
                let builder = TransactionBuilder::new(context.network(), notary)
                    .output_state(state)
                    .command(&CashCommand::Issue { nonce: 1 }, [me.key]);
                let former = builder.build(context.random("evil"), &Contracts::new().with(Former)).unwrap();
                Offer { transaction: signed(&context, former).await, history: Vec::new() }
            }
            "another network" => {
                let elsewhere = NetworkId::from_bytes([0x4f; 32]);
                let builder =
                    cash::issue(TransactionBuilder::new(elsewhere, notary), usd(100), &me, victim.key, 1);
                Offer { transaction: signed(&context, build(&context, builder)).await, history: Vec::new() }
            }
            "own notary" => {
                let issue = own_issue(&context, me.clone()).await;
                let payment = signed(&context, spend(&context, &issue, &victim)).await;
                Offer { transaction: payment, history: vec![issue] }
            }
            "none of its business" => {
                Offer { transaction: own_issue(&context, notary).await, history: Vec::new() }
            }
            "a bad signature" => {
                let issue = own_issue(&context, notary).await;
                let other = context.sign(&me.key, Role::Party, TransactionId::from_bytes([1; 32])).await?;
                let builder = cash::issue(
                    TransactionBuilder::new(context.network(), issue.transaction().notary().clone()),
                    usd(100),
                    &me,
                    victim.key,
                    2,
                );
                let gift = build(&context, builder);
                Offer { transaction: SignedTransaction::new(gift, [other]).unwrap(), history: vec![issue] }
            }
            other => panic!("{other}"),
        };
        let session = context.open_as(&victim.name, finalise::NAME, finalise::VERSION).await?;
        let id = offer.transaction.id();
        session.send(&offer).await;
        match session.receive().await? {
            Reply::Answer(()) => Ok(Final { transaction: id }),
            Reply::Fetch(_) => {
                let unrelated = own_issue(&context, self::notary(&context).await).await;
                session.send(&Batch(vec![unrelated])).await;
                session.receive::<Reply<()>>().await?;
                Ok(Final { transaction: id })
            }
            Reply::Part(..) => Err(FlowError::refused("nothing is attached")),
        }
    }
}

/// Asks a notary for what it must not sign.
pub(crate) struct AskNotary;

impl Flow for AskNotary {
    const NAME: &'static str = "AskNotary";
    const VERSION: u32 = 1;
    const ARGUMENTS: &'static [(&'static str, &'static str)] = &[];
    type Arguments = Victim;
    type Output = Final;

    async fn run(context: Context, Victim { victim, how }: Victim) -> Result<Final, FlowError> {
        let me = context.me().clone();
        let victim = context.party(&victim).await?;
        let service = service(&context, &victim).await;
        let issue = own_issue(&context, service.clone()).await;
        context.record(vec![Arc::new(issue.clone())]).await?;
        let payment = signed(&context, spend(&context, &issue, &me)).await;
        let content = payment.transaction();
        let mine = payment.signatures()[0];
        let whole = [Group::Inputs, Group::References, Group::Notary, Group::TimeWindow];
        let mut consumed = vec![issue.transaction().tear_off_of_consumers(&[0]).unwrap()];
        let (tear_off, consent): (TearOff, TransactionSignature) = match how.as_str() {
            "hides the inputs" => (content.tear_off(&whole[1..], |_| false).unwrap(), mine),
            "hides the references" => (
                content.tear_off(&[Group::Inputs, Group::Notary, Group::TimeWindow], |_| false).unwrap(),
                mine,
            ),
            "hides the time window" => (content.tear_off(&whole[..3], |_| false).unwrap(), mine),
            "hides the notary" => (
                content.tear_off(&[Group::Inputs, Group::References, Group::TimeWindow], |_| false).unwrap(),
                mine,
            ),
            "shows the outputs" => {
                let more = [whole.as_slice(), &[Group::Outputs]].concat();
                (content.tear_off(&more, |_| false).unwrap(), mine)
            }
            "signature over another transaction" => (
                content.tear_off_for_notary().unwrap(),
                context.sign(&me.key, Role::Party, issue.id()).await?,
            ),
            "signature in another role" => (
                content.tear_off_for_notary().unwrap(),
                context.sign(&me.key, Role::Oracle, payment.id()).await?,
            ),
            "hides the consumers" => {
                consumed.clear();
                (content.tear_off_for_notary().unwrap(), mine)
            }
            "the consumers of another transaction" => {
                consumed = vec![content.tear_off_of_consumers(&[0]).unwrap()];
                (content.tear_off_for_notary().unwrap(), mine)
            }
            "the consumers of more" => {
                consumed.push(content.tear_off_of_consumers(&[0]).unwrap());
                (content.tear_off_for_notary().unwrap(), mine)
            }
            "the consumers twice" => {
                consumed.push(consumed[0].clone());
                (content.tear_off_for_notary().unwrap(), mine)
            }
            "shows what is consumed" => {
                consumed = vec![
                    issue.transaction().tear_off(&[Group::Consumers, Group::Outputs], |_| false).unwrap(),
                ];
                (content.tear_off_for_notary().unwrap(), mine)
            }
            "another's name" => {
                let other = TransactionSignature { by: victim.key, ..mine };
                (content.tear_off_for_notary().unwrap(), other)
            }
            "nothing to attest" => {
                (issue.transaction().tear_off_for_notary().unwrap(), issue.signatures()[0])
            }
            "another notary" => {
                let other = own_issue(&context, me.clone()).await;
                let payment = signed(&context, spend(&context, &other, &me)).await;
                (payment.transaction().tear_off_for_notary().unwrap(), payment.signatures()[0])
            }
            "whole" => {
                let session = context.open_as(&victim.name, notarise::NAME, notarise::VERSION).await?;
                session.send(&Question::Whole(Offer { transaction: payment, history: vec![issue] })).await;
                let _: Reply<Answer> = session.receive().await?;
                unreachable!("it is refused")
            }
            "part" => (content.tear_off_for_notary().unwrap(), mine),
            "too late" => {
                let builder = TransactionBuilder::new(context.network(), service)
                    .output(&CashState { amount: usd(1), issuer: me.clone(), owner: me.key })
                    .command(&CashCommand::Issue { nonce: 9 }, [me.key])
                    .time_window(TimeWindow::ending(Timestamp::from_millis(1)));
                let late = signed(&context, build(&context, builder)).await;
                notarise(&context, &late).await?;
                unreachable!("it is refused")
            }
            other => panic!("{other}"),
        };
        let session = context.open_as(&victim.name, notarise::NAME, notarise::VERSION).await?;
        let answer: Answer =
            session.exchange(&Question::Part { tear_off, consumed, consents: vec![consent] }).await?;
        match answer {
            Answer::Signed(_) => Ok(Final { transaction: payment.id() }),
            _ => Err(FlowError::refused("it was not signed")),
        }
    }
}

/// The notary service of a node, as the network knows it, or as it would be called.
async fn service(context: &Context, of: &Party) -> Party {
    let notaries = context.notaries().await.unwrap();
    notaries.named(&of.name).map_or_else(|| of.clone(), |notary| notary.party.clone())
}

/// Burns a coin that it paid to somebody: has the blind notary consume it by a transaction that nobody else has.
pub(crate) struct Burn;

impl Flow for Burn {
    const NAME: &'static str = "Burn";
    const VERSION: u32 = 1;
    const ARGUMENTS: &'static [(&'static str, &'static str)] = &[];
    type Arguments = Taken;
    type Output = Final;

    async fn run(context: Context, Taken { victim, state, .. }: Taken) -> Result<Final, FlowError> {
        let me = context.me().key;
        let victim = context.party(&victim).await?;
        let found = context.transactions(vec![state.transaction]).await?.remove(0).expect("it paid it");
        let notary = found.transaction().notary().clone();
        let builder = TransactionBuilder::new(context.network(), notary.clone())
            .input(found.transaction().output(state.index).unwrap())
            .output(&CashState { amount: usd(1), issuer: context.me().clone(), owner: me })
            .command(&CashCommand::Move, [me, victim.key]);
        let transaction = build(&context, builder);
        let session = context.open_as(&notary.name, notarise::NAME, notarise::VERSION).await?;
        let mine = context.sign(&me, Role::Party, transaction.id()).await?;
        let answer: Answer = session
            .exchange(&Question::Part {
                tear_off: transaction.tear_off_for_notary().unwrap(),
                consumed: vec![found.transaction().tear_off_of_consumers(&[state.index]).unwrap()],
                consents: vec![mine, TransactionSignature { by: victim.key, ..mine }],
            })
            .await?;
        match answer {
            Answer::Signed(_) => Ok(Final { transaction: transaction.id() }),
            _ => Err(FlowError::refused("it was not signed")),
        }
    }
}

/// Proposes an IOU that is more than one: `victim` would issue cash by signing it.
pub(crate) struct MoreThanAnIou;

impl Flow for MoreThanAnIou {
    const NAME: &'static str = "MoreThanAnIou";
    const VERSION: u32 = 1;
    const ARGUMENTS: &'static [(&'static str, &'static str)] = &[];
    type Arguments = Victim;
    type Output = Final;

    async fn run(context: Context, Victim { victim, how }: Victim) -> Result<Final, FlowError> {
        let victim = context.party(&victim).await?;
        let me = context.me().clone();
        let linear_id = Hash::from_bytes([7; 32]);
        let (lender, borrower) = match how.as_str() {
            "the other way round" => (me.clone(), victim.clone()),
            _ => (victim.clone(), me.clone()),
        };
        let iou = IouState { value: 1, lender, borrower, linear_id };
        let mut builder =
            iou::create(TransactionBuilder::new(context.network(), notary(&context).await), &iou);
        if how == "issue cash" {
            builder = cash::issue(builder, usd(1_000_000), &victim, me.key, 1);
        }
        let transaction = build(&context, builder);
        let transaction = if how == "unsigned" {
            SignedTransaction::new(transaction, []).unwrap()
        } else {
            signed(&context, transaction).await
        };
        propose(&context, &victim, "IouCreate", transaction).await
    }
}

/// Moves cash of this node that `victim` gave, as a bond's transfer, and has `victim` sign that.
pub(crate) struct TakeAsTransfer;

impl Flow for TakeAsTransfer {
    const NAME: &'static str = "TakeAsTransfer";
    const VERSION: u32 = 1;
    const ARGUMENTS: &'static [(&'static str, &'static str)] = &[];
    type Arguments = Taken;
    type Output = Final;

    async fn run(context: Context, Taken { victim, state, session }: Taken) -> Result<Final, FlowError> {
        let victim = context.party(&victim).await?;
        let found =
            context.transactions(vec![state.transaction]).await?.remove(0).expect("it was handed over");
        let coin = Coin::try_from(found.transaction().output(state.index).unwrap()).unwrap();
        let me = context.me().key;
        let builder = TransactionBuilder::new(context.network(), found.transaction().notary().clone())
            .input(coin.state.clone());
        let builder = if session.as_deref() == Some("CashExit") {
            let left = CashState { owner: me, amount: usd(1), ..coin.cash.clone() };
            let signers = [coin.cash.owner, coin.cash.issuer.key, me];
            builder.output(&left).command(&CashCommand::Exit, signers)
        } else {
            builder
                .output(&CashState { owner: me, ..coin.cash.clone() })
                .command(&CashCommand::Move, [coin.cash.owner, me])
        };
        let transaction = signed(&context, build(&context, builder)).await;
        propose(&context, &victim, flow(session.as_deref()), transaction).await
    }
}

#[derive(Clone, Debug, BorshSerialize, BorshDeserialize, Serialize, Deserialize)]
pub(crate) struct Taken {
    pub(crate) victim: Name,
    pub(crate) state: StateRef,
    /// What it is said to be; a bond's transfer if absent.
    #[serde(default)]
    pub(crate) session: Option<String>,
}

/// The flow of that name.
fn flow(session: Option<&str>) -> &'static str {
    match session {
        None | Some("BondTransfer") => "BondTransfer",
        Some("BondWitness") => "BondWitness",
        Some("BondIssue") => "BondIssue",
        Some("CashExit") => "CashExit",
        Some(other) => panic!("{other}"),
    }
}

/// Has `victim` issue cash by signing what is said to be a bond's transfer.
pub(crate) struct IssueAsTransfer;

impl Flow for IssueAsTransfer {
    const NAME: &'static str = "IssueAsTransfer";
    const VERSION: u32 = 1;
    const ARGUMENTS: &'static [(&'static str, &'static str)] = &[];
    type Arguments = Victim;
    type Output = Final;

    async fn run(context: Context, Victim { victim, how }: Victim) -> Result<Final, FlowError> {
        let victim = context.party(&victim).await?;
        let me = context.me().key;
        let victim = match how.parse() {
            Ok(key) => Party { key, ..victim },
            Err(_) => victim,
        };
        let conjured = CashState { amount: usd(1_000_000), issuer: victim.clone(), owner: me };
        let builder = TransactionBuilder::new(context.network(), notary(&context).await)
            .output(&conjured)
            .command(&CashCommand::Issue { nonce: 1 }, [victim.key, me]);
        let transaction = signed(&context, build(&context, builder)).await;
        propose(&context, &victim, "BondTransfer", transaction).await
    }
}

/// Whatever is left of a message.
struct Rest;

impl BorshDeserialize for Rest {
    fn deserialize_reader<R: std::io::Read>(reader: &mut R) -> std::io::Result<Self> {
        std::io::copy(reader, &mut std::io::sink()).map(|_| Self)
    }
}

/// Has `victim` sign a transaction that is said to be what `flow` proposes.
async fn propose(
    context: &Context,
    victim: &Party,
    flow: &'static str,
    transaction: SignedTransaction,
) -> Result<Final, FlowError> {
    let id = transaction.id();
    let session = context.open_as(&victim.name, flow, 1).await?;
    session.send(&Offer { transaction, history: Vec::new() }).await;
    let _: Reply<Rest> = session.receive().await?;
    Ok(Final { transaction: id })
}

/// Proposes to `victim` to give its bond back for nothing.
pub(crate) struct TakeBond;

impl Flow for TakeBond {
    const NAME: &'static str = "TakeBond";
    const VERSION: u32 = 1;
    const ARGUMENTS: &'static [(&'static str, &'static str)] = &[];
    type Arguments = Taken;
    type Output = Final;

    async fn run(context: Context, Taken { victim, state, session }: Taken) -> Result<Final, FlowError> {
        let victim = context.party(&victim).await?;
        let found =
            context.transactions(vec![state.transaction]).await?.remove(0).expect("it is the issuer's");
        let holding = Holding::try_from(found.transaction().output(state.index).unwrap()).unwrap();
        let nominal = holding.bond.nominal;
        let owner = holding.bond.owner;
        let builder = TransactionBuilder::new(context.network(), found.transaction().notary().clone());
        let builder = bond::transfer(builder, &[holding], nominal, context.me().key, owner).unwrap();
        let transaction = signed(&context, build(&context, builder)).await;
        propose(&context, &victim, flow(session.as_deref()), transaction).await
    }
}

/// Offers `victim` a bond for sale that is not what it seems.
pub(crate) struct SellFake;

impl Flow for SellFake {
    const NAME: &'static str = "SellFake";
    const VERSION: u32 = 1;
    const ARGUMENTS: &'static [(&'static str, &'static str)] = &[];
    type Arguments = Victim;
    type Output = Final;

    async fn run(context: Context, Victim { victim, how }: Victim) -> Result<Final, FlowError> {
        let victim = context.party(&victim).await?;
        let me = context.me().clone();
        let notary = match how.as_str() {
            "own notary" => me.clone(),
            _ => notary(&context).await,
        };
        let maturity = Timestamp::from_millis(4_000_000_000_000);
        // Bob has cash of the issuer, and pays with that.
        let isin = "XS0000000009".parse().unwrap();
        let terms = Terms { isin, issuer: me.clone(), agent: me.clone(), maturity };
        let owner = if how == "not its own" { victim.key } else { me.key };
        let builder = bond::issue(TransactionBuilder::new(context.network(), notary), terms, usd(100), owner);
        let issue = signed(&context, build(&context, builder)).await;
        let mut holding = issue.transaction().output(0).unwrap();
        if how == "more than there is" {
            let bond: BondState = holding.state.read().unwrap();
            holding.state =
                State::new(&BondState { nominal: usd(100_000), ..bond }, holding.state.notary.clone());
        }
        let id = issue.id();
        context.record(vec![Arc::new(issue.clone())]).await?;
        let session = context.open_as(&victim.name, "DeliveryVersusPayment", 1).await?;
        // Holdings, nominal, price, whose cash, history: as the shipped flow sends them.
        session.send(&(vec![holding], usd(100), usd(100), me, vec![issue])).await;
        let _: Reply<Offer> = session.receive().await?;
        Ok(Final { transaction: id })
    }
}

/// Receives a payment and asks for more than its history.
pub(crate) struct Curious;

/// The transaction that [`Curious`] asks for: fixed, since responders take no arguments.
pub(crate) fn wanted() -> TransactionId {
    *WANTED.lock().unwrap()
}

pub(crate) static WANTED: std::sync::Mutex<TransactionId> =
    std::sync::Mutex::new(TransactionId::from_bytes([0; 32]));

impl Responder for Curious {
    const ANSWERS: &'static str = finalise::NAME;
    const VERSION: u32 = finalise::VERSION;

    async fn run(_: Context, session: Session) -> Result<(), FlowError> {
        let _: Offer = session.receive().await?;
        let _: Batch = session.exchange(&Reply::<()>::Fetch(vec![wanted()])).await?;
        session.send(&Reply::Answer(())).await;
        Ok(())
    }
}

/// How [`Buyer`] cheats: responders take no arguments.
pub(crate) static CHEATS: std::sync::Mutex<String> = std::sync::Mutex::new(String::new());

/// Answers an offer of bonds with a transaction that is not what was asked for.
pub(crate) struct Buyer;

impl Responder for Buyer {
    const ANSWERS: &'static str = "DeliveryVersusPayment";
    const VERSION: u32 = 1;

    async fn run(context: Context, session: Session) -> Result<(), FlowError> {
        type Ask = (Vec<StateAndRef>, Amount, Amount, Party, Vec<SignedTransaction>);
        let (holdings, nominal, price, cash_of, history): Ask = session.receive().await?;
        let how = CHEATS.lock().unwrap().clone();
        let me = context.me().clone();
        let seller = context.party(session.peer()).await?;
        context.record(history.into_iter().map(Arc::new).collect()).await?;
        let all: Vec<_> = holdings.into_iter().map(|state| Holding::try_from(state).unwrap()).collect();
        let builder = TransactionBuilder::new(context.network(), notary(&context).await);
        let more = all[0].bond.nominal;
        let owner = seller.key;
        let taken = if how == "more bonds" { more } else { nominal };
        let mut builder = bond::transfer(builder, &all, taken, me.key, owner).unwrap();
        let paid = if how == "less" { usd(price.quantity() - 1) } else { price };
        if how == "other cash" {
            builder = cash::issue(builder, price, &me, seller.key, 1);
        } else if how == "encumbered" {
            // The payment can be spent only together with what the buyer keeps.
            let asset = cash::asset(price.currency(), &cash_of);
            let coins =
                context.select(Selection { asset, quantity: 1000, notary: None, wait: false }).await?;
            let notary = builder.notary().clone();
            let first = u32::try_from(builder.output_count()).unwrap();
            let ring = |owner, quantity, encumbrance| State {
                encumbrance: Some(encumbrance),
                ..State::new(
                    &CashState { amount: usd(quantity), issuer: cash_of.clone(), owner },
                    notary.clone(),
                )
            };
            let paid = price.quantity();
            builder = coins.into_iter().fold(builder, TransactionBuilder::input);
            builder = builder
                .output_state(ring(seller.key, paid, first + 1))
                .output_state(ring(me.key, 1000 - paid, first))
                .command(&CashCommand::Move, [me.key]);
        } else if how != "nothing" {
            let asset = cash::asset(price.currency(), &cash_of);
            let coins = context
                .select(Selection { asset, quantity: paid.quantity(), notary: None, wait: false })
                .await?;
            let coins: Vec<_> = coins.into_iter().map(|coin| Coin::try_from(coin).unwrap()).collect();
            builder = cash::pay(builder, &coins, paid, seller.key, me.key, 1).unwrap();
        }
        if how == "an IOU" {
            let linear_id = Hash::from_bytes([7; 32]);
            builder = iou::create(builder, &IouState { value: 9, lender: me, borrower: seller, linear_id });
        }
        let transaction = signed(&context, build(&context, builder)).await;
        session.send(&Reply::Answer(Offer { transaction, history: Vec::new() })).await;
        loop {
            match session.receive().await? {
                Reply::<Rest>::Answer(_) => return Err(FlowError::refused("it is signed")),
                Reply::Part(..) => return Err(FlowError::refused("nothing is attached")),
                Reply::Fetch(ids) => {
                    let found = context.transactions(ids).await?.into_iter().flatten();
                    session.send(&Batch(found.map(|found| SignedTransaction::clone(&found)).collect())).await;
                }
            }
        }
    }
}

/// A node that receives payments and cheats with them.
pub(crate) fn buyer() -> Registry {
    Registry::new().responder::<Buyer>().responder::<finalise::Finalise>()
}

/// The shipped flows, and these.
pub(crate) fn registry() -> Registry {
    beside(tally_protocols::registry())
}

/// Other flows, and these.
pub(crate) fn beside(registry: Registry) -> Registry {
    registry
        .flow::<HandOver>()
        .flow::<AskNotary>()
        .flow::<Burn>()
        .flow::<MoreThanAnIou>()
        .flow::<TakeAsTransfer>()
        .flow::<IssueAsTransfer>()
        .flow::<TakeBond>()
        .flow::<SellFake>()
}

/// A node that only receives, and is curious.
pub(crate) fn curious() -> Registry {
    Registry::new().responder::<Curious>()
}
