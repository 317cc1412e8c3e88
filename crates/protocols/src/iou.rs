//! IOU: the borrower proposes, the lender agrees; when it was paid back the lender proposes to settle.

use borsh::{BorshDeserialize, BorshSerialize};
use serde::{Deserialize, Serialize};
use tally_contracts::iou::{self, IouCommand, IouState};
use tally_contracts::{LedgerTransaction, Name, TransactionBuilder, TransactionId};
use tally_crypto::Hash;
use tally_flows::{Context, Filter, Flow, FlowError, Responder, Session};

use crate::agree::{collect, review};
use crate::build::{Final, build, notary, refused, verify_and_sign};
use crate::check::invalid;
use crate::finalise::{finalise, receive};

/// What is owed to whom.
#[derive(Clone, Debug, BorshSerialize, BorshDeserialize, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IouCreateArguments {
    /// How much: 1 to 99.
    pub value: u32,
    /// To whom it is owed.
    pub lender: Name,
    /// The notary that keeps the IOU unique; the network's first if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notary: Option<Name>,
}

/// An IOU that was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize, Serialize)]
pub struct IouCreated {
    /// The transaction, recorded by borrower and lender.
    pub transaction: TransactionId,
    /// What the IOU is called.
    pub linear_id: Hash,
}

/// Makes an IOU of this node, the borrower, to a lender.
pub struct IouCreate;

impl Flow for IouCreate {
    const NAME: &'static str = "IouCreate";
    const VERSION: u32 = 1;
    const ARGUMENTS: &'static [(&'static str, &'static str)] = &[
        ("value", "how much this node will owe, 1 to 99"),
        ("lender", "to whom, such as O=PartyB, L=London, C=GB"),
        ("notary", "the notary of the IOU; the network's first if absent"),
    ];
    type Arguments = IouCreateArguments;
    type Output = IouCreated;

    async fn run(context: Context, arguments: IouCreateArguments) -> Result<IouCreated, FlowError> {
        context.step("Building");
        let notary = notary(&context, arguments.notary.as_ref()).await?;
        let lender = context.party(&arguments.lender).await?;
        let linear_id = Hash::from_bytes(context.random("linear id"));
        let iou = IouState {
            value: arguments.value,
            lender: lender.clone(),
            borrower: context.me().clone(),
            linear_id,
        };
        let builder = iou::create(TransactionBuilder::new(context.network(), notary), &iou);
        let transaction = verify_and_sign(&context, build(&context, builder)?, &[]).await?;
        let session = context.open(&lender.name).await?;
        let transaction = collect(&context, transaction, &[(session.clone(), lender.clone())]).await?;
        let transaction = finalise(&context, transaction, &[lender], &[session]).await?;
        Ok(IouCreated { transaction: transaction.id(), linear_id })
    }
}

/// The lender's side: it agrees to be owed something.
pub struct AgreeToLend;

impl Responder for AgreeToLend {
    const ANSWERS: &'static str = IouCreate::NAME;
    const VERSION: u32 = IouCreate::VERSION;

    async fn run(context: Context, session: Session) -> Result<(), FlowError> {
        let borrower = context.party(session.peer()).await?;
        let me = context.me().clone();
        let agreed = review(&context, &session, |ledger| {
            let iou = only(ledger, IouCommand::Create)?;
            // A borrower whose key is rotated meanwhile owes under the one that it began with.
            if iou.lender == me && iou.borrower.name == borrower.name {
                Ok(())
            } else {
                Err(FlowError::refused(format!(
                    "{me} lends to nobody but the one who asks, who is {borrower}"
                )))
            }
        })
        .await?;
        receive(&context, &session, Some(&agreed)).await.map(|_| ())
    }
}

/// Which IOU.
#[derive(Clone, Debug, BorshSerialize, BorshDeserialize, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IouSettleArguments {
    /// What [`IouCreate`] called it.
    pub linear_id: Hash,
}

/// Settles an IOU that was paid back to this node, the lender.
pub struct IouSettle;

impl Flow for IouSettle {
    const NAME: &'static str = "IouSettle";
    const VERSION: u32 = 1;
    const ARGUMENTS: &'static [(&'static str, &'static str)] =
        &[("linear_id", "which IOU: what IouCreate called it, 64 hexadecimal digits")];
    type Arguments = IouSettleArguments;
    type Output = Final;

    async fn run(context: Context, arguments: IouSettleArguments) -> Result<Final, FlowError> {
        context.step("Building");
        let linear_id = arguments.linear_id;
        let filter = Filter {
            kind: Some("iou".to_owned()),
            linear_id: Some(linear_id),
            hold: true,
            limit: 1,
            ..Filter::default()
        };
        let state = context.find(filter).await?.into_iter().next().ok_or_else(|| {
            FlowError::refused(format!("there is no unsettled IOU {linear_id} here that no other flow holds"))
        })?;
        let iou: IouState = state.state.read().map_err(|error| refused(&error))?;
        if !context.is_me(&iou.lender) {
            return Err(FlowError::refused(format!(
                "IOU {linear_id} is for its lender to settle, {}",
                iou.lender
            )));
        }
        let builder = iou::settle(
            TransactionBuilder::new(context.network(), state.state.notary.clone()),
            state.clone(),
        )
        .map_err(|error| refused(&error))?;
        let transaction = verify_and_sign(&context, build(&context, builder)?, &[state]).await?;
        let session = context.open(&iou.borrower.name).await?;
        let transaction = collect(&context, transaction, &[(session.clone(), iou.borrower.clone())]).await?;
        let transaction = finalise(&context, transaction, &[iou.borrower], &[session]).await?;
        Ok(Final { transaction: transaction.id() })
    }
}

/// The borrower's side: it agrees to owe nothing any more.
pub struct AgreeToSettle;

impl Responder for AgreeToSettle {
    const ANSWERS: &'static str = IouSettle::NAME;
    const VERSION: u32 = IouSettle::VERSION;

    async fn run(context: Context, session: Session) -> Result<(), FlowError> {
        let lender = context.party(session.peer()).await?;
        let me = context.me();
        let agreed = review(&context, &session, |ledger| {
            let iou = only(ledger, IouCommand::Settle)?;
            // Who has certified keys of a name bears it.
            if context.is_me(&iou.borrower) && iou.lender.name == lender.name {
                Ok(())
            } else {
                Err(FlowError::refused(format!("only an IOU of {me} to {lender} is settled between them")))
            }
        })
        .await?;
        receive(&context, &session, Some(&agreed)).await.map(|_| ())
    }
}

/// The one IOU that a transaction makes or settles, if it does nothing else.
fn only(ledger: &LedgerTransaction, wanted: IouCommand) -> Result<IouState, FlowError> {
    let commands = ledger.commands_of::<IouCommand>().map_err(|error| invalid(&error))?;
    let other =
        || FlowError::refused(format!("a transaction is wanted that does nothing but {wanted:?} one IOU"));
    if ledger.transaction().commands().len() != 1
        || !matches!(commands.as_slice(), [(found, _)] if *found == wanted)
    {
        return Err(other());
    }
    match (ledger.inputs(), ledger.outputs()) {
        ([], [state]) | ([state], []) => state.read().map_err(|error| invalid(&error)),
        _ => Err(other()),
    }
}
