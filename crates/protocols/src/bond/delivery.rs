//! Delivery versus payment: a bond for cash in one transaction, signed by seller, buyer and the bond's agent.

use std::time::Duration;

use borsh::{BorshDeserialize, BorshSerialize};
use serde::{Deserialize, Serialize};
use tally_contracts::bond::{self, BondCommand, Isin};
use tally_contracts::{Amount, Name, TimeWindow, TransactionBuilder, cash};
use tally_flows::{Context, Flow, FlowError, Proposal, Purchase, Responder, Session};

use super::ask::{Asked, Wanted};
use super::{holdings, terms};
use crate::build::{Final, build, notary, refused, verify_and_sign};
use crate::cash::coins_of;

/// How long the buyer is bound by its signature.
const BOUND: Duration = Duration::from_secs(60 * 60);

/// What is sold to whom.
#[derive(Clone, Debug, BorshSerialize, BorshDeserialize, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeliveryVersusPaymentArguments {
    /// Which paper.
    pub isin: Isin,
    /// How much of it.
    pub nominal: Amount,
    /// For how much.
    pub price: Amount,
    /// To whom.
    pub buyer: Name,
    /// In whose cash it is paid; the bond's issuer's if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cash_issuer: Option<Name>,
    /// Whose bond it is; looked up in the vault if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub issuer: Option<Name>,
    /// Only holdings of this notary; the network's first if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notary: Option<Name>,
}

/// Sells a bond: the buyer has it and the seller has the money, or neither.
pub struct DeliveryVersusPayment;

impl Flow for DeliveryVersusPayment {
    const NAME: &'static str = "DeliveryVersusPayment";
    const VERSION: u32 = 1;
    const ARGUMENTS: &'static [(&'static str, &'static str)] = &[
        ("isin", "the paper that this node sells, such as XS0000000009"),
        ("nominal", "how much of it, such as 1000.00 USD"),
        ("price", "for how much, such as 990.00 USD"),
        ("buyer", "to whom, such as O=PartyB, L=London, C=GB"),
        ("cash_issuer", "in whose cash it is paid; the bond's issuer's if absent"),
        ("issuer", "whose bond it is; looked up in the vault if absent"),
        ("notary", "only holdings of this notary; the network's first if absent"),
    ];
    type Arguments = DeliveryVersusPaymentArguments;
    type Output = Final;

    async fn run(context: Context, arguments: DeliveryVersusPaymentArguments) -> Result<Final, FlowError> {
        let DeliveryVersusPaymentArguments {
            isin,
            nominal,
            price,
            buyer,
            cash_issuer,
            issuer,
            notary: named,
        } = arguments;
        context.step("Building");
        if buyer == context.me().name {
            return Err(FlowError::refused("nobody sells to himself"));
        }
        let notary = notary(&context, named.as_ref()).await?;
        let payer = context.party(&buyer).await?;
        let holdings = holdings(&context, isin, nominal, issuer.as_ref(), &notary).await?;
        let terms = terms(&holdings)?.clone();
        let cash_of = match cash_issuer {
            Some(name) => context.party(&name).await?,
            None => terms.issuer.clone(),
        };
        let wanted = Wanted { holdings, nominal, price, cash_of, command: BondCommand::Transfer, payer };
        Ok(Final { transaction: wanted.settle(&context, &terms).await? })
    }
}

/// The buyer's side: it buys what the node's [`Policy`](crate::consent::Policy) allows, and nothing by default.
pub struct AgreeToDelivery;

impl Responder for AgreeToDelivery {
    const ANSWERS: &'static str = DeliveryVersusPayment::NAME;
    const VERSION: u32 = DeliveryVersusPayment::VERSION;

    async fn run(context: Context, session: Session) -> Result<(), FlowError> {
        let asked = Asked::receive(&context, &session).await?;
        let purchase = Purchase {
            seller: asked.holder.clone(),
            terms: asked.terms.clone(),
            nominal: asked.nominal,
            price: asked.price,
            cash_of: asked.cash_of.clone(),
        };
        context.consent(Proposal::Purchase(purchase)).await?;
        context.step("Building");
        let coins = coins_of(&context, asked.price, &asked.cash_of, &asked.notary).await?;
        let me = context.me().key;
        let until = context.now().await.saturating_add(BOUND);
        let builder = TransactionBuilder::new(context.network(), asked.notary.clone())
            .time_window(TimeWindow::ending(until));
        let builder = bond::transfer(builder, &asked.holdings, asked.nominal, me, asked.holder.key)
            .map_err(|error| refused(&error))?;
        let builder = cash::pay(builder, &coins, asked.price, asked.holder.key, me, 1)
            .map_err(|error| refused(&error))?;
        let mut states: Vec<_> = coins.into_iter().map(|coin| coin.state).collect();
        states.extend(asked.holdings.iter().map(|holding| holding.state.clone()));
        let transaction = verify_and_sign(&context, build(&context, builder)?, &states).await?;
        asked.propose(&context, &session, transaction).await
    }
}
