//! Redemption: from maturity on, the issuer repays a bond.

use borsh::{BorshDeserialize, BorshSerialize};
use serde::{Deserialize, Serialize};
use tally_contracts::bond::{self, BondCommand, Holding, Isin};
use tally_contracts::{Amount, Currency, Name, StateAndRef, TransactionBuilder, cash};
use tally_flows::{Context, Filter, Flow, FlowError, Proposal, Responder, Session};

use super::ask::{Asked, Wanted};
use super::{SAMPLE, asset, issuer, read, terms};
use crate::build::{Final, build, nonce, notary, refused, verify_and_sign};
use crate::cash::coins_of;

/// What is to be repaid.
#[derive(Clone, Debug, BorshSerialize, BorshDeserialize, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BondRedeemArguments {
    /// Which paper.
    pub isin: Isin,
    /// The currency of its nominal.
    pub currency: Currency,
    /// In whose cash it is repaid; the issuer's own if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cash_issuer: Option<Name>,
    /// Whose bond it is; looked up in the vault if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub issuer: Option<Name>,
    /// Only holdings of this notary; the network's first if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notary: Option<Name>,
}

/// Has all that this node holds of a bond under one of its keys repaid, at most 200 holdings at once.
pub struct BondRedeem;

impl Flow for BondRedeem {
    const NAME: &'static str = "BondRedeem";
    const VERSION: u32 = 1;
    const ARGUMENTS: &'static [(&'static str, &'static str)] = &[
        ("isin", "the paper of which this node's holdings are repaid, such as XS0000000009"),
        ("currency", "the currency of its nominal, such as USD"),
        ("cash_issuer", "in whose cash it is repaid; the bond's issuer's if absent"),
        ("issuer", "whose bond it is; looked up in the vault if absent"),
        ("notary", "only holdings of this notary; the network's first if absent"),
    ];
    type Arguments = BondRedeemArguments;
    type Output = Final;

    async fn run(context: Context, arguments: BondRedeemArguments) -> Result<Final, FlowError> {
        let BondRedeemArguments { isin, currency, cash_issuer, issuer: issuer_name, notary: named } =
            arguments;
        context.step("Building");
        let notary = notary(&context, named.as_ref()).await?;
        let payer = issuer(&context, isin, issuer_name.as_ref()).await?;
        if context.is_me(&payer) {
            return Err(FlowError::refused(format!(
                "{payer} owes {isin} itself, and nothing of it to itself"
            )));
        }
        let filter = Filter {
            kind: Some("bond".to_owned()),
            asset: Some(asset(isin, currency, &payer)?),
            hold: true,
            limit: SAMPLE,
            ..Filter::default()
        };
        let (mine, not_mine): (Vec<_>, Vec<_>) = read(context.find(filter).await?)?
            .into_iter()
            .partition(|holding| context.owns(&holding.bond.owner) && holding.state.state.notary == notary);
        if !not_mine.is_empty() {
            context.release(not_mine.into_iter().map(|holding| holding.state.reference).collect()).await?;
        }
        // Paper of one number and two terms is not one bond, and who owns is repaid, not who else has the same name: what
        // differs from the first stays.
        let terms = terms(&mine)
            .map_err(|_| {
                FlowError::refused(format!("this node holds nothing of {isin} that no other flow holds"))
            })?
            .clone();
        let owner = mine.first().map(|first| first.bond.owner);
        let is_same = |holding: &Holding| holding.bond.terms == terms && Some(holding.bond.owner) == owner;
        let holdings: Vec<_> = mine.into_iter().filter(is_same).collect();
        let mut nominal = Amount::new(0, currency).map_err(|error| refused(&error))?;
        for holding in &holdings {
            nominal = nominal.checked_add(holding.bond.nominal).map_err(|error| refused(&error))?;
        }
        let cash_of = match cash_issuer {
            Some(name) if name != terms.issuer.name => context.party(&name).await?,
            _ => terms.issuer.clone(),
        };
        let price = nominal;
        let wanted = Wanted { holdings, nominal, price, cash_of, command: BondCommand::Redeem, payer };
        Ok(Final { transaction: wanted.settle(&context, &terms).await? })
    }
}

/// The issuer's side: it repays what is due, in the cash that the holder wants. Its own cash it issues for that.
pub struct Repay;

impl Responder for Repay {
    const ANSWERS: &'static str = BondRedeem::NAME;
    const VERSION: u32 = BondRedeem::VERSION;

    async fn run(context: Context, session: Session) -> Result<(), FlowError> {
        let asked = Asked::receive(&context, &session).await?;
        let me = context.me().clone();
        let terms = &asked.terms;
        if !context.is_me(&terms.issuer) {
            return Err(FlowError::refused(format!("{me} does not owe {}", terms.isin)));
        }
        let mut due = Amount::new(0, asked.nominal.currency()).map_err(|error| refused(&error))?;
        for holding in &asked.holdings {
            due = due.checked_add(holding.bond.nominal).map_err(|error| refused(&error))?;
        }
        if asked.price != due {
            return Err(FlowError::refused(format!("{due} is due, {} is asked for", asked.price)));
        }
        if context.now().await < terms.maturity {
            return Err(FlowError::refused(format!(
                "{} is due at {}, not before",
                terms.isin, terms.maturity
            )));
        }
        // What a former key of this node owes is repaid in what that key owes: a thief of the key gets nothing that it could
        // not issue itself.
        let own = context.is_me(&asked.cash_of);
        if !own {
            let (holder, cash_of) = (asked.holder.clone(), asked.cash_of.clone());
            context.consent(Proposal::Redemption { holder, due, cash_of }).await?;
        }
        context.step("Building");
        let builder = TransactionBuilder::new(context.network(), asked.notary.clone());
        let builder =
            bond::redeem(builder, &asked.holdings, terms.maturity, None).map_err(|error| refused(&error))?;
        let mut states: Vec<StateAndRef> =
            asked.holdings.iter().map(|holding| holding.state.clone()).collect();
        let builder = if own {
            cash::issue(builder, due, &terms.issuer, asked.owner(), nonce(&context))
        } else {
            let coins = coins_of(&context, due, &asked.cash_of, &asked.notary).await?;
            let builder =
                cash::pay(builder, &coins, due, asked.owner(), me.key, 1).map_err(|error| refused(&error))?;
            states.extend(coins.into_iter().map(|coin| coin.state));
            builder
        };
        let transaction = verify_and_sign(&context, build(&context, builder)?, &states).await?;
        asked.propose(&context, &session, transaction).await
    }
}
