//! Cash: claims on an issuer, fungible by currency and issuer.
//!
//! A cash state is an amount that `issuer` owes to whoever holds `owner`. In a transaction the
//! states are taken together by asset, that is by currency and issuer:
//!
//! | inputs against outputs of an asset | what it is | who signs |
//! | --- | --- | --- |
//! | no inputs | issue | the issuer |
//! | equal | move | the owners of all inputs |
//! | less goes out than comes in | exit | the issuer and the owners of all inputs |
//! | anything else | refused: cash is not made out of cash | |
//!
//! Each command present is needed by at least one asset, so that nobody signs a command without effect.

mod pay;

use crate::state::ascending;
use crate::{
    Amount, Contract, ContractCommand, ContractName, ContractState, Currency, DecodeError, Involved,
    LedgerTransaction, Party, PublicKey, State, StateAndRef, Summary, VersionRange, Violation,
};
use borsh::{BorshDeserialize, BorshSerialize};
use serde_json::json;
use std::collections::BTreeMap;

pub use pay::{PayError, exit, issue, pay};

/// The name of the cash contract.
pub const NAME: ContractName = ContractName::literal("tally.cash");
/// The versions of the cash contract in this code.
pub const VERSIONS: VersionRange = VersionRange::only(1);

/// An amount that `issuer` owes to the holder of `owner`.
#[derive(Debug, Clone, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct CashState {
    /// How much; never zero.
    pub amount: Amount,
    /// Who owes it.
    pub issuer: Party,
    /// Who may spend it.
    pub owner: PublicKey,
}

impl ContractState for CashState {
    const CONTRACT: ContractName = NAME;
    const VERSIONS: VersionRange = VERSIONS;

    fn consumers(&self) -> Vec<PublicKey> {
        vec![self.owner]
    }
}

impl CashState {
    /// What this cash is fungible with; see [`asset`].
    pub fn asset(&self) -> String {
        asset(self.amount.currency(), &self.issuer)
    }
}

/// What vaults call cash of a currency and an issuer: `USD@O=Bank, L=London, C=GB`.
pub fn asset(currency: Currency, issuer: &Party) -> String {
    format!("{currency}@{}", issuer.name)
}

/// A coin: a cash state that can be spent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Coin {
    /// The state as the ledger has it.
    pub state: StateAndRef,
    /// What it says.
    pub cash: CashState,
}

impl TryFrom<StateAndRef> for Coin {
    type Error = DecodeError;

    fn try_from(state: StateAndRef) -> Result<Self, DecodeError> {
        Ok(Self { cash: state.state.read()?, state })
    }
}

/// What is done to cash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub enum CashCommand {
    /// Makes cash.
    Issue {
        /// Any number; tells issues of one amount apart in the issuer's own records.
        nonce: u64,
    },
    /// Gives cash to others, or splits or merges it.
    Move,
    /// Takes cash out of the world.
    Exit,
}

impl ContractCommand for CashCommand {
    const CONTRACT: ContractName = NAME;
}

/// The cash contract.
#[derive(Debug, Clone, Copy)]
pub struct Cash;

/// What happens to one asset.
#[derive(Default)]
struct Flow {
    coins_in: usize,
    total_in: u128,
    total_out: u128,
    owners: Vec<PublicKey>,
}

impl Contract for Cash {
    fn name(&self) -> ContractName {
        NAME
    }

    fn versions(&self) -> VersionRange {
        VERSIONS
    }

    fn verify(&self, _version: u32, transaction: &LedgerTransaction) -> Result<(), Violation> {
        let inputs = transaction.inputs_of::<CashState>()?;
        let outputs = transaction.outputs_of::<CashState>()?;
        let signed = Signed::of(transaction)?;
        let mut flows: BTreeMap<(Currency, &Party), Flow> = BTreeMap::new();
        for cash in &inputs {
            let flow = flows.entry((cash.amount.currency(), &cash.issuer)).or_default();
            flow.coins_in = flow.coins_in.saturating_add(1);
            flow.total_in = add(flow.total_in, cash)?;
            flow.owners.push(cash.owner);
        }
        for cash in &outputs {
            if cash.amount.quantity() == 0 {
                return Err(Violation::new("cash-positive", "an output holds no cash"));
            }
            let flow = flows.entry((cash.amount.currency(), &cash.issuer)).or_default();
            flow.total_out = add(flow.total_out, cash)?;
        }
        let (mut issues, mut moves, mut exits) = (false, false, false);
        for ((currency, issuer), flow) in &flows {
            let of = || format!("{currency} of {issuer}");
            if flow.coins_in == 0 {
                issues = true;
                signed.need(&signed.issue, issuer.key, "cash-issue-signed", of)?;
            } else if flow.total_in == flow.total_out {
                moves = true;
                for owner in &flow.owners {
                    signed.need(&signed.move_, *owner, "cash-move-signed", of)?;
                }
            } else if flow.total_out < flow.total_in {
                exits = true;
                for signer in flow.owners.iter().chain([&issuer.key]) {
                    signed.need(&signed.exit, *signer, "cash-exit-signed", of)?;
                }
            } else {
                let detail =
                    format!("{} comes in and {} goes out of {}", flow.total_in, flow.total_out, of());
                return Err(Violation::new("cash-conserved", detail));
            }
        }
        for (name, needed, present) in
            [("issue", issues, &signed.issue), ("move", moves, &signed.move_), ("exit", exits, &signed.exit)]
        {
            if !needed && present.is_some() {
                let detail = format!("the {name} command has nothing to do");
                return Err(Violation::new("cash-command-needed", detail));
            }
        }
        Ok(())
    }

    fn involved(&self, state: &State) -> Result<Involved, DecodeError> {
        let cash: CashState = state.read()?;
        Ok(Involved { consumers: ascending(cash.consumers()), identities: vec![cash.issuer] })
    }

    fn describe(&self, state: &State) -> Result<Summary, DecodeError> {
        let cash: CashState = state.read()?;
        Ok(Summary {
            kind: "cash".to_owned(),
            participants: vec![cash.owner],
            owner: Some(cash.owner),
            asset: Some(cash.asset()),
            quantity: Some(cash.amount.quantity()),
            linear_id: None,
            details: json!({ "amount": cash.amount, "issuer": cash.issuer.name, "owner": cash.owner }),
        })
    }
}

fn add(total: u128, cash: &CashState) -> Result<u128, Violation> {
    total
        .checked_add(u128::from(cash.amount.quantity()))
        .ok_or_else(|| Violation::new("cash-conserved", "a total is beyond 128 bits"))
}

/// Who signs the commands of each kind, sorted; `None` when there is no such command.
#[derive(Default)]
struct Signed {
    issue: Option<Vec<PublicKey>>,
    move_: Option<Vec<PublicKey>>,
    exit: Option<Vec<PublicKey>>,
}

impl Signed {
    fn of(transaction: &LedgerTransaction) -> Result<Self, Violation> {
        let mut signed = Self::default();
        for (command, signers) in transaction.commands_of::<CashCommand>()? {
            let of_kind = match command {
                CashCommand::Issue { .. } => &mut signed.issue,
                CashCommand::Move => &mut signed.move_,
                CashCommand::Exit => &mut signed.exit,
            };
            of_kind.get_or_insert_default().extend_from_slice(signers);
        }
        for of_kind in [&mut signed.issue, &mut signed.move_, &mut signed.exit].into_iter().flatten() {
            of_kind.sort_unstable();
        }
        Ok(signed)
    }

    fn need(
        &self,
        signers: &Option<Vec<PublicKey>>,
        signer: PublicKey,
        rule: &'static str,
        of: impl Fn() -> String,
    ) -> Result<(), Violation> {
        match signers {
            Some(signers) if signers.binary_search(&signer).is_ok() => Ok(()),
            Some(_) => Err(Violation::new(rule, format!("{signer} has to sign for {}", of()))),
            None => Err(Violation::new(rule, format!("the command for {} is missing", of()))),
        }
    }
}

#[cfg(test)]
mod tests;
