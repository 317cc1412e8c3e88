//! Somebody who holds bonds asks for money for them, and the one asked puts the transaction together.

use borsh::{BorshDeserialize, BorshSerialize};
use tally_contracts::bond::{BondCommand, BondState, Holding, Terms};
use tally_contracts::cash::CashState;
use tally_contracts::{
    Amount, LedgerTransaction, Party, PublicKey, SignedTransaction, StateAndRef, StateRef, TransactionId,
};
use tally_flows::{Context, FlowError, Session};

use super::witness::witnesses;
use super::{others, read};
use crate::agree::{collect, offer, own_signatures, sign_if, signed_by};
use crate::check::invalid;
use crate::finalise::{finalise, receive};
use crate::resolve::{Attachments, History, Offer, Offered, Reply};

/// What the holder says.
#[derive(Clone, Debug, BorshSerialize, BorshDeserialize)]
pub(super) struct Ask {
    /// The holdings that are given for it.
    pub(super) holdings: Vec<StateAndRef>,
    /// How much of them; the rest stays with the holder.
    pub(super) nominal: Amount,
    /// What is paid.
    pub(super) price: Amount,
    /// In whose cash.
    pub(super) cash_of: Party,
    /// The history of the holdings, nearest first.
    history: Vec<SignedTransaction>,
}

/// What the holder asks for.
pub(super) struct Wanted {
    pub(super) holdings: Vec<Holding>,
    pub(super) nominal: Amount,
    pub(super) price: Amount,
    pub(super) cash_of: Party,
    /// What is done with the bonds.
    pub(super) command: BondCommand,
    /// Who pays.
    pub(super) payer: Party,
}

fn transactions_of(holdings: &[StateAndRef]) -> Vec<TransactionId> {
    let mut ids: Vec<_> = holdings.iter().map(|holding| holding.reference.transaction).collect();
    ids.sort_unstable();
    ids.dedup();
    ids
}

impl Wanted {
    /// The holder's side, from the question until everybody has recorded the transaction.
    pub(super) async fn settle(self, context: &Context, terms: &Terms) -> Result<TransactionId, FlowError> {
        let me = context.me().clone();
        let session = context.open(&self.payer.name).await?;
        let holdings: Vec<_> = self.holdings.iter().map(|holding| holding.state.clone()).collect();
        let (mut offered, history) =
            Offered::new(context, &transactions_of(&holdings), &self.payer.key).await?;
        context.step("Proposing");
        session
            .send(&Ask {
                holdings,
                nominal: self.nominal,
                price: self.price,
                cash_of: self.cash_of.clone(),
                history,
            })
            .await;
        let proposal: Offer = offered.serve(context, &session).await?;
        let signed = sign_if(context, &session, proposal, |ledger| self.judge(context, ledger)).await?;
        session.send(&Reply::Answer(own_signatures(context, &signed))).await;
        let agent = others(&me, [terms.agent.clone()])
            .into_iter()
            .filter(|agent| agent.name != self.payer.name)
            .collect();
        let signers = witnesses(context, agent).await?;
        let transaction = collect(context, signed, &signers).await?;
        let mut open = vec![session];
        open.extend(signers.into_iter().map(|(session, _)| session));
        let told = others(&me, [self.payer, terms.agent.clone(), terms.issuer.clone()]);
        Ok(finalise(context, transaction, &told, &open).await?.id())
    }

    /// The proposal takes these bonds and nothing else from the holder, and pays what was asked.
    fn judge(&self, context: &Context, ledger: &LedgerTransaction) -> Result<(), FlowError> {
        let refuse = |what: &str| Err(FlowError::refused(format!("the proposal of {} {what}", self.payer)));
        for command in ledger.transaction().commands() {
            let is_meant = matches!(command.read::<BondCommand>(), Ok(command) if command == self.command);
            if command.signers.iter().any(|key| context.owns(key)) && !is_meant {
                return refuse("has this node sign more than it asked for");
            }
        }
        let mine: Vec<StateRef> = self.holdings.iter().map(|holding| holding.state.reference).collect();
        let inputs = ledger.transaction().inputs();
        if !mine.iter().all(|reference| inputs.contains(reference)) {
            return refuse("does not take what was offered");
        }
        let bonds_in = ledger.inputs_of::<BondState>().map_err(|error| invalid(&error))?;
        let cash_in = ledger.inputs_of::<CashState>().map_err(|error| invalid(&error))?;
        // What is encumbered can be spent only together with what the payer chose.
        let free = || ledger.outputs().iter().filter(|state| state.encumbrance.is_none());
        let bonds_out: Vec<BondState> = free().filter_map(|state| state.read().ok()).collect();
        let cash_out: Vec<CashState> = free().filter_map(|state| state.read().ok()).collect();
        let own = |bonds: &[BondState]| bonds.iter().filter(|bond| context.owns(&bond.owner)).count();
        if own(&bonds_in) != mine.len()
            || cash_in.iter().any(|cash| context.owns(&cash.owner))
            || bonds_in.len() + cash_in.len() != ledger.inputs().len()
        {
            return refuse("takes more than what was offered");
        }
        let offered = total(self.holdings.iter().map(|holding| holding.bond.nominal))?;
        let Some(holding) = self.holdings.first() else { return refuse("is for nothing") };
        let kept = total(
            bonds_out
                .iter()
                .filter(|bond| context.owns(&bond.owner) && bond.terms == holding.bond.terms)
                .map(|bond| bond.nominal),
        )?;
        if kept + u128::from(self.nominal.quantity()) < offered {
            return refuse("leaves too little of the bonds with their holder");
        }
        // Of the issuer's key that was asked for: what another of its keys owes may be worth less.
        let paid = cash_out.iter().filter(|cash| context.owns(&cash.owner) && cash.issuer == self.cash_of);
        let paid = paid.map(|cash| cash.amount).filter(|amount| amount.currency() == self.price.currency());
        if total(paid)? < u128::from(self.price.quantity()) {
            return refuse("pays less than what was asked");
        }
        Ok(())
    }
}

/// Amounts of one currency.
fn total(amounts: impl Iterator<Item = Amount>) -> Result<u128, FlowError> {
    amounts
        .map(|amount| u128::from(amount.quantity()))
        .try_fold(0_u128, u128::checked_add)
        .ok_or_else(|| FlowError::invalid("a total is beyond 128 bits"))
}

/// The owners of these holdings that are `holder`, by a key that the network certified its name with at any time.
async fn owners(
    context: &Context,
    holder: &Party,
    holdings: &[Holding],
) -> Result<Vec<PublicKey>, FlowError> {
    let mut owners = vec![holder.key];
    let mut former: Vec<Party> = Vec::new();
    for Holding { bond, .. } in holdings {
        let party = Party { name: holder.name.clone(), key: bond.owner };
        if party != *holder && !former.contains(&party) {
            former.push(party);
        }
    }
    if !former.is_empty() {
        let certified = context.certified(former.clone()).await?;
        let known = former.into_iter().zip(certified).filter(|(_, certified)| *certified);
        owners.extend(known.map(|(party, _)| party.key));
    }
    Ok(owners)
}

/// A question as the payer has verified it.
pub(super) struct Asked {
    pub(super) holdings: Vec<Holding>,
    pub(super) terms: Terms,
    pub(super) nominal: Amount,
    pub(super) price: Amount,
    pub(super) cash_of: Party,
    pub(super) holder: Party,
    pub(super) notary: Party,
}

impl Asked {
    /// The payer's side begins: receives the question and verifies the history of what is offered.
    ///
    /// # Errors
    /// Holdings that are not on the ledger as they are said to be, not the asker's, or not of one bond and notary.
    pub(super) async fn receive(context: &Context, session: &Session) -> Result<Self, FlowError> {
        let Ask { holdings, nominal, price, cash_of, history } = session.receive().await?;
        let holder = context.party(session.peer()).await?;
        let notaries = context.notaries().await?;
        let refuse = |what: String| FlowError::invalid(format!("{holder} offers {what}"));
        context.step("Verifying");
        let mut attachments = Attachments::from(session);
        let history = History::resolve(
            context,
            session,
            &mut attachments,
            &transactions_of(&holdings),
            history,
            &notaries,
        )
        .await?;
        for StateAndRef { state, reference } in &holdings {
            let found = history.at_hand.get(&reference.transaction);
            let found = found.and_then(|found| found.transaction().output(reference.index));
            if found.is_none_or(|found| found.state != *state) {
                return Err(refuse(format!("{reference}, which is not what it is said to be")));
            }
        }
        if !history.fresh.is_empty() {
            context.record(history.fresh).await?;
        }
        let notary = holdings.first().map(|first| first.state.notary.clone());
        let one_notary = holdings.iter().all(|holding| Some(&holding.state.notary) == notary.as_ref());
        let holdings = read(holdings)?;
        let (Some(first), Some(notary), true) = (holdings.first(), notary, one_notary) else {
            return Err(refuse("nothing, or holdings of several notaries".to_owned()));
        };
        let terms = first.bond.terms.clone();
        let owners = owners(context, &holder, &holdings).await?;
        let same = |holding: &Holding| {
            owners.contains(&holding.bond.owner)
                && !context.owns(&holding.bond.owner)
                && holding.bond.terms == terms
                && holding.bond.nominal.currency() == nominal.currency()
        };
        if !holdings.iter().all(same) {
            return Err(refuse("holdings that are not its own, or not of one bond".to_owned()));
        }
        Ok(Self { terms, holdings, nominal, price, cash_of, holder, notary })
    }

    /// The owner of the first holding: the holder, under the key with which it has to sign.
    pub(super) fn owner(&self) -> PublicKey {
        self.holdings.first().map_or(self.holder.key, |holding| holding.bond.owner)
    }

    /// The payer's side goes on with the transaction that it has put together and signed, until it is recorded.
    pub(super) async fn propose(
        &self,
        context: &Context,
        session: &Session,
        transaction: SignedTransaction,
    ) -> Result<(), FlowError> {
        context.step("Proposing");
        let (mut offered, proposal) = offer(context, &transaction, &self.holder).await?;
        session.send(&Reply::Answer(proposal)).await;
        // Who holds under a former key signs with that one, and with the present one for what it receives.
        let signer = Party { name: self.holder.name.clone(), key: self.owner() };
        let agreed = signed_by(context, transaction, session, &signer, &mut offered).await?;
        receive(context, session, Some(&agreed)).await.map(|_| ())
    }
}
