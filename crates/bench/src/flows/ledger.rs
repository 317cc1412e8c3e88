//! Facts put into nodes' databases before they run: histories and vaults that would take long to make by paying.
//!
//! The transactions are real: built, signed by payer and notary, and verified by whoever receives them later.

use std::sync::Arc;

use tally_contracts::cash::{CashCommand, CashState, Coin, pay};
use tally_contracts::{
    Amount, Contracts, Currency, NetworkId, Party, Role, SignedTransaction, SigningKey, StateAndRef,
    Timestamp, Transaction, TransactionBuilder, sign,
};
use tally_identity::system_now;
use tally_store::{Produced, Recorded, Store, Write};

use super::FlowsError;
use super::network::Node;

/// Somebody with the key to sign.
pub(super) struct Signer {
    pub(super) party: Party,
    key: SigningKey,
    network: NetworkId,
}

impl Signer {
    pub(super) fn of(node: &Node) -> Result<Self, FlowsError> {
        let identity = node.identity()?;
        Ok(Self {
            party: identity.party().clone(),
            key: identity.key().clone(),
            network: identity.trust().network(),
        })
    }

    /// The notary service of a node.
    pub(super) fn notary_of(node: &Node) -> Result<Self, FlowsError> {
        let identity = node.identity()?;
        let (Some(party), Some(key)) = (identity.notary_party(), identity.notary_key()) else {
            return Err(wrong(format!("{} has no notary service", identity.party())));
        };
        Ok(Self { party: party.clone(), key: key.clone(), network: identity.trust().network() })
    }
}

/// Makes transactions, each with a salt of its own.
pub(super) struct Maker {
    notary: Signer,
    contracts: Contracts,
    made: u64,
}

fn wrong(error: impl std::fmt::Display) -> FlowsError {
    FlowsError::Unexpected(format!("a transaction for the benchmark cannot be made: {error}"))
}

impl Maker {
    pub(super) fn new(notary: Signer) -> Self {
        Self { notary, contracts: Contracts::shipped(), made: 0 }
    }

    fn build(&mut self, builder: TransactionBuilder) -> Result<Transaction, FlowsError> {
        self.made += 1;
        let salt = tally_crypto::keyed(b"tallystick benchmark salt       ", &self.made.to_le_bytes());
        builder.build(*salt.as_bytes(), &self.contracts).map_err(wrong)
    }

    /// Issues coins of these quantities to their issuer.
    pub(super) fn issue(
        &mut self,
        issuer: &Signer,
        currency: Currency,
        quantities: impl Iterator<Item = u64>,
    ) -> Result<SignedTransaction, FlowsError> {
        let mut builder = TransactionBuilder::new(self.notary.network, self.notary.party.clone());
        for quantity in quantities {
            let amount = Amount::new(quantity, currency).map_err(wrong)?;
            let cash = CashState { amount, issuer: issuer.party.clone(), owner: issuer.party.key };
            builder = builder.output(&cash);
        }
        let builder = builder.command(&CashCommand::Issue { nonce: self.made }, [issuer.party.key]);
        let transaction = self.build(builder)?;
        let signature = sign(&issuer.key, Role::Party, transaction.id());
        SignedTransaction::new(transaction, [signature]).map_err(wrong)
    }

    /// Pays the whole of a coin on to somebody.
    fn pass(
        &mut self,
        coin: StateAndRef,
        from: &Signer,
        to: &Signer,
    ) -> Result<SignedTransaction, FlowsError> {
        let coin = Coin::try_from(coin).map_err(wrong)?;
        let builder = TransactionBuilder::new(self.notary.network, self.notary.party.clone());
        let amount = coin.cash.amount;
        let builder = pay(builder, &[coin], amount, to.party.key, from.party.key, 1).map_err(wrong)?;
        let transaction = self.build(builder)?;
        let signers = [(&from.key, Role::Party), (&self.notary.key, Role::Notary)];
        let signatures = signers.map(|(key, role)| sign(key, role, transaction.id()));
        SignedTransaction::new(transaction, signatures).map_err(wrong)
    }

    /// A coin of `amount` that `a` issued and that went to and fro between `a` and `b`: as many transactions as
    /// `depth` says, the issuance included. The last has it at `a` again if the depth is odd.
    pub(super) fn chain(
        &mut self,
        a: &Signer,
        b: &Signer,
        amount: Amount,
        depth: u64,
    ) -> Result<Vec<SignedTransaction>, FlowsError> {
        let mut chain = vec![self.issue(a, amount.currency(), std::iter::once(amount.quantity()))?];
        for step in 1..depth {
            let coin = chain.last().and_then(|last| last.transaction().output(0));
            let coin = coin.ok_or_else(|| wrong("it has no output"))?;
            let (from, to) = if step % 2 == 1 { (a, b) } else { (b, a) };
            chain.push(self.pass(coin, from, to)?);
        }
        Ok(chain)
    }

    /// What the node of `of` writes when it records a transaction.
    pub(super) fn record(
        &self,
        transaction: &SignedTransaction,
        of: &Party,
        at: Timestamp,
    ) -> Result<Write, FlowsError> {
        let content = transaction.transaction();
        let mut produced = Vec::new();
        for (index, state) in (0..).zip(content.outputs()) {
            let summary =
                self.contracts.describe(state).map_err(wrong)?.ok_or_else(|| wrong("a strange state"))?;
            if summary.participants.contains(&of.key) {
                produced.push(Produced { index, state: state.clone(), summary });
            }
        }
        let consumed = content.inputs().to_vec();
        Ok(Write::Transaction(Recorded {
            id: transaction.id(),
            bytes: transaction.encode(),
            consumed,
            produced,
            at,
        }))
    }
}

/// Transactions of a batch.
const BATCH: usize = 500;

/// Records transactions in a node's database; the node does not run.
pub(super) fn keep(maker: &Maker, node: &Node, transactions: &[SignedTransaction]) -> Result<(), FlowsError> {
    let store = open(node)?;
    for part in transactions.chunks(BATCH) {
        let at = system_now();
        let writes = part.iter().map(|one| maker.record(one, node.party(), at));
        store.apply(&writes.collect::<Result<Vec<_>, _>>()?)?;
    }
    Ok(())
}

/// Tells a notary's database what transactions have consumed; the notary does not run.
pub(super) fn notarise(
    notary: &Node,
    requester: &Party,
    transactions: &[SignedTransaction],
) -> Result<(), FlowsError> {
    let store = open(notary)?;
    for part in transactions.chunks(BATCH) {
        let at = system_now();
        let consumed = |one: &SignedTransaction| {
            let (by, requester) = (one.id(), requester.name.clone());
            let inputs = one.transaction().inputs().to_vec().into_iter();
            inputs.map(move |state| Write::Consumed { state, by, requester: requester.clone(), at })
        };
        store.apply(&part.iter().flat_map(consumed).collect::<Vec<_>>())?;
    }
    Ok(())
}

/// The database of a node that does not run.
pub(super) fn open(node: &Node) -> Result<Arc<dyn Store>, FlowsError> {
    let database = node.settings().database(node.directory());
    if let tally_store::Database::Sqlite(options) = &database
        && let Some(parent) = options.path.parent()
    {
        std::fs::create_dir_all(parent).map_err(FlowsError::file(parent))?;
    }
    Ok(tally_store::open(&database)?)
}
