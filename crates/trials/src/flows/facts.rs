//! What a state is, read without asking its contract.

use tally_contracts::bond::BondState;
use tally_contracts::cash::CashState;
use tally_contracts::iou::IouState;
use tally_contracts::{PublicKey, State};

/// What a state is, read without asking its contract.
pub(crate) enum Fact {
    Cash(CashState),
    Bond(BondState),
    Iou(IouState),
}

impl Fact {
    pub(crate) fn of(state: &State) -> Self {
        match state.contract.as_str() {
            "tally.cash" => Self::Cash(state.read().expect("cash")),
            "tally.bond" => Self::Bond(state.read().expect("a bond")),
            "tally.iou" => Self::Iou(state.read().expect("an IOU")),
            other => panic!("nobody makes states of {other}"),
        }
    }

    pub(crate) fn participants(&self) -> Vec<PublicKey> {
        match self {
            Self::Cash(cash) => vec![cash.owner],
            Self::Bond(bond) => vec![bond.owner, bond.terms.issuer.key, bond.terms.agent.key],
            Self::Iou(iou) => vec![iou.lender.key, iou.borrower.key],
        }
    }

    /// What the owner has of what: asset, owner, quantity.
    pub(crate) fn holding(&self) -> Option<(String, PublicKey, u64)> {
        match self {
            Self::Cash(cash) => {
                let asset = format!("{}@{}", cash.amount.currency(), cash.issuer.name);
                Some((asset, cash.owner, cash.amount.quantity()))
            }
            Self::Bond(bond) => {
                let asset =
                    format!("{}/{}@{}", bond.terms.isin, bond.nominal.currency(), bond.terms.issuer.name);
                Some((asset, bond.owner, bond.nominal.quantity()))
            }
            Self::Iou(_) => None,
        }
    }
}
