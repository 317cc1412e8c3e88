//! Bonds: a nominal amount that an issuer repays at maturity, fungible by their terms.
//!
//! A bond's terms name an agent, who keeps the register and signs whatever happens to it (the
//! issuer may be its own agent). In a transaction the holdings are taken together by terms:
//!
//! | inputs against outputs of the same terms | what it is | who signs |
//! | --- | --- | --- |
//! | no inputs | issue | issuer and agent |
//! | equal nominal | transfer | owners of all inputs, owners of all outputs, agent |
//! | no outputs | redemption, from maturity on, paid in cash | owners of all inputs, issuer, agent |
//! | anything else | refused | |
//!
//! Delivery versus payment is a transaction with a transfer and a cash move: neither happens
//! without the other, and seller, buyer and agent sign. In a redemption each owner receives, in
//! the same transaction, at least the nominal in cash of the bond's currency; whose cash it
//! accepts, the owner says by signing.

mod deal;

use crate::cash::CashState;
use crate::encoding::invalid;
use crate::state::ascending;
use crate::{
    Amount, Contract, ContractCommand, ContractName, ContractState, DecodeError, Involved, LedgerTransaction,
    Party, PublicKey, State, StateAndRef, Summary, Timestamp, VersionRange, Violation,
};
use borsh::io::{Error, Read};
use borsh::{BorshDeserialize, BorshSerialize};
use serde_json::json;
use std::collections::BTreeMap;

pub use deal::{DealError, issue, redeem, transfer};

/// The name of the bond contract.
pub const NAME: ContractName = ContractName::literal("tally.bond");
/// The versions of the bond contract in this code.
pub const VERSIONS: VersionRange = VersionRange::only(1);
/// Length of an ISIN (ISO 6166), in characters.
pub const ISIN_LENGTH: usize = 12;

/// The International Securities Identification Number of a bond (ISO 6166): two letters, nine
/// letters or digits, and a check digit, which is verified.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, BorshSerialize)]
pub struct Isin([u8; ISIN_LENGTH]);

crate::text::as_text!(Isin, "an ISIN such as 'XS0000000009'");

/// The text is not an ISIN.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "an ISIN is two capital letters, nine capital letters or digits, and a check digit that fits (ISO 6166)"
)]
pub struct IsinError;

impl Isin {
    fn from_bytes(bytes: [u8; ISIN_LENGTH]) -> Result<Self, IsinError> {
        let form = bytes.iter().enumerate().all(|(at, byte)| match at {
            0 | 1 => byte.is_ascii_uppercase(),
            11 => byte.is_ascii_digit(),
            _ => byte.is_ascii_uppercase() || byte.is_ascii_digit(),
        });
        (form && check_sum(&bytes).is_multiple_of(10)).then_some(Self(bytes)).ok_or(IsinError)
    }

    /// The twelve characters.
    pub fn as_str(&self) -> &str {
        // Only ASCII gets in.
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

/// The sum of ISO 6166 annex A: letters become two digits, every second digit from the right,
/// the check digit not counted, is doubled and its digits added up.
fn check_sum(bytes: &[u8]) -> u32 {
    let values = bytes.iter().filter_map(|byte| char::from(*byte).to_digit(36));
    let digits: Vec<u32> = values
        .flat_map(|value| [value.checked_div(10).filter(|tens| *tens > 0), value.checked_rem(10)])
        .flatten()
        .collect();
    let doubled = |digit: u32| {
        if digit < 5 { digit.saturating_mul(2) } else { digit.saturating_mul(2).saturating_sub(9) }
    };
    let worth =
        |(place, digit): (usize, &u32)| if place.is_multiple_of(2) { *digit } else { doubled(*digit) };
    digits.iter().rev().enumerate().map(worth).fold(0, u32::saturating_add)
}

impl std::str::FromStr for Isin {
    type Err = IsinError;

    fn from_str(text: &str) -> Result<Self, IsinError> {
        Self::from_bytes(text.as_bytes().try_into().map_err(|_| IsinError)?)
    }
}

impl std::fmt::Display for Isin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.as_str())
    }
}

impl BorshDeserialize for Isin {
    fn deserialize_reader<R: Read>(reader: &mut R) -> Result<Self, Error> {
        Self::from_bytes(<[u8; ISIN_LENGTH]>::deserialize_reader(reader)?).map_err(invalid)
    }
}

/// What makes two holdings the same paper.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, BorshSerialize, BorshDeserialize)]
pub struct Terms {
    /// Which paper.
    pub isin: Isin,
    /// Who repays it.
    pub issuer: Party,
    /// Who keeps the register.
    pub agent: Party,
    /// From when on it is repaid.
    pub maturity: Timestamp,
}

/// A holding of a bond.
#[derive(Debug, Clone, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct BondState {
    /// Which bond.
    pub terms: Terms,
    /// The nominal held; never zero.
    pub nominal: Amount,
    /// Whose it is.
    pub owner: PublicKey,
}

impl ContractState for BondState {
    const CONTRACT: ContractName = NAME;
    const VERSIONS: VersionRange = VERSIONS;

    fn consumers(&self) -> Vec<PublicKey> {
        vec![self.owner, self.terms.agent.key]
    }
}

/// A holding as the ledger has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holding {
    /// The state as the ledger has it.
    pub state: StateAndRef,
    /// What it says.
    pub bond: BondState,
}

impl TryFrom<StateAndRef> for Holding {
    type Error = DecodeError;

    fn try_from(state: StateAndRef) -> Result<Self, DecodeError> {
        Ok(Self { bond: state.state.read()?, state })
    }
}

/// What is done to bonds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub enum BondCommand {
    /// Makes them.
    Issue,
    /// Gives them to others, or splits or merges holdings.
    Transfer,
    /// Repays them.
    Redeem,
}

impl ContractCommand for BondCommand {
    const CONTRACT: ContractName = NAME;
}

/// The bond contract.
#[derive(Debug, Clone, Copy)]
pub struct Bond;

/// What happens to the holdings of one paper in one currency.
#[derive(Default)]
struct Flow<'a> {
    inputs: Vec<&'a BondState>,
    outputs: Vec<&'a BondState>,
}

impl Contract for Bond {
    fn name(&self) -> ContractName {
        NAME
    }

    fn versions(&self) -> VersionRange {
        VERSIONS
    }

    fn verify(&self, _version: u32, transaction: &LedgerTransaction) -> Result<(), Violation> {
        let inputs = transaction.inputs_of::<BondState>()?;
        let outputs = transaction.outputs_of::<BondState>()?;
        let commands = transaction.commands_of::<BondCommand>()?;
        let mut flows: BTreeMap<_, Flow<'_>> = BTreeMap::new();
        for bond in &inputs {
            flows.entry((&bond.terms, bond.nominal.currency())).or_default().inputs.push(bond);
        }
        for bond in &outputs {
            if bond.nominal.quantity() == 0 {
                return Err(Violation::new("bond-positive", "an output holds no nominal"));
            }
            flows.entry((&bond.terms, bond.nominal.currency())).or_default().outputs.push(bond);
        }
        let mut needed = Vec::new();
        let mut redeemed = Vec::new();
        for ((terms, _), flow) in &flows {
            let (total_in, total_out) = (total(&flow.inputs)?, total(&flow.outputs)?);
            let owners = |bonds: &[&BondState]| bonds.iter().map(|bond| bond.owner).collect::<Vec<_>>();
            let (command, signers) = if flow.inputs.is_empty() {
                (BondCommand::Issue, vec![terms.issuer.key, terms.agent.key])
            } else if flow.outputs.is_empty() {
                check_maturity(terms, transaction)?;
                redeemed.extend(flow.inputs.iter().copied());
                let mut signers = owners(&flow.inputs);
                signers.extend([terms.issuer.key, terms.agent.key]);
                (BondCommand::Redeem, signers)
            } else if total_in == total_out {
                let mut signers = owners(&flow.inputs);
                signers.extend(owners(&flow.outputs));
                signers.push(terms.agent.key);
                (BondCommand::Transfer, signers)
            } else {
                let detail = format!("{total_in} of {} comes in and {total_out} goes out", terms.isin);
                return Err(Violation::new("bond-conserved", detail));
            };
            check_signers(command, terms, &signers, &commands)?;
            needed.push(command);
        }
        if let Some((idle, _)) = commands.iter().find(|(command, _)| !needed.contains(command)) {
            let detail = format!("the {idle:?} command has nothing to do");
            return Err(Violation::new("bond-command-needed", detail));
        }
        check_repayment(&redeemed, transaction)
    }

    fn involved(&self, state: &State) -> Result<Involved, DecodeError> {
        let bond: BondState = state.read()?;
        let consumers = ascending(bond.consumers());
        Ok(Involved { consumers, identities: vec![bond.terms.issuer, bond.terms.agent] })
    }

    fn describe(&self, state: &State) -> Result<Summary, DecodeError> {
        let BondState { terms, nominal, owner } = state.read()?;
        Ok(Summary {
            kind: "bond".to_owned(),
            participants: vec![owner, terms.issuer.key, terms.agent.key],
            owner: Some(owner),
            asset: Some(asset(&terms, nominal)),
            quantity: Some(nominal.quantity()),
            linear_id: None,
            details: json!({
                "isin": terms.isin,
                "nominal": nominal,
                "issuer": terms.issuer.name,
                "agent": terms.agent.name,
                "maturity": terms.maturity,
                "owner": owner,
            }),
        })
    }
}

/// What vaults call holdings of a bond: `XS0000000009/USD@O=Bank, L=London, C=GB`.
pub fn asset(terms: &Terms, nominal: Amount) -> String {
    format!("{}/{}@{}", terms.isin, nominal.currency(), terms.issuer.name)
}

fn total(bonds: &[&BondState]) -> Result<u128, Violation> {
    let sum = bonds.iter().try_fold(0u128, |sum, bond| sum.checked_add(u128::from(bond.nominal.quantity())));
    sum.ok_or_else(|| Violation::new("bond-conserved", "a total is beyond 128 bits"))
}

fn check_signers(
    command: BondCommand,
    terms: &Terms,
    needed: &[PublicKey],
    commands: &[(BondCommand, &[PublicKey])],
) -> Result<(), Violation> {
    let mut signers: Vec<_> = commands
        .iter()
        .filter(|(present, _)| *present == command)
        .flat_map(|(_, signers)| signers.iter().copied())
        .collect();
    signers.sort_unstable();
    match needed.iter().find(|signer| signers.binary_search(signer).is_err()) {
        Some(signer) => {
            let detail = format!("{signer} has to sign the {command:?} command for {}", terms.isin);
            Err(Violation::new("bond-signed", detail))
        }
        None => Ok(()),
    }
}

/// A redemption is for a time from maturity on, which the notary attests.
fn check_maturity(terms: &Terms, transaction: &LedgerTransaction) -> Result<(), Violation> {
    let from = transaction.transaction().time_window().and_then(|window| window.from);
    match from {
        Some(from) if from >= terms.maturity => Ok(()),
        _ => {
            let detail = format!(
                "{} is repaid from {} on; the time window has to begin then or later",
                terms.isin, terms.maturity
            );
            Err(Violation::new("bond-matured", detail))
        }
    }
}

/// Each owner of redeemed bonds receives their nominal: in each currency its cash grows by at least that.
fn check_repayment(redeemed: &[&BondState], transaction: &LedgerTransaction) -> Result<(), Violation> {
    if redeemed.is_empty() {
        return Ok(());
    }
    let mut balances: BTreeMap<_, (u128, u128)> = BTreeMap::new();
    let add = |sum: &mut u128, amount: Amount| {
        *sum = sum
            .checked_add(u128::from(amount.quantity()))
            .ok_or_else(|| Violation::new("bond-repaid", "a total is beyond 128 bits"))?;
        Ok::<_, Violation>(())
    };
    for bond in redeemed {
        let (_, owed) = balances.entry((bond.owner, bond.nominal.currency())).or_default();
        add(owed, bond.nominal)?;
    }
    for cash in transaction.inputs_of::<CashState>()? {
        if let Some((_, owed)) = balances.get_mut(&(cash.owner, cash.amount.currency())) {
            add(owed, cash.amount)?;
        }
    }
    for cash in transaction.outputs_of::<CashState>()? {
        if let Some((received, _)) = balances.get_mut(&(cash.owner, cash.amount.currency())) {
            add(received, cash.amount)?;
        }
    }
    for ((owner, currency), (received, owed)) in balances {
        if received < owed {
            let detail = format!(
                "{owner} ends with {received} minor units of {currency}, {owed} are due for bonds and cash put in"
            );
            return Err(Violation::new("bond-repaid", detail));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
