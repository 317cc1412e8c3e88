//! Who pays and who is paid: from names in a message to accounts of the network.

use super::{Gateway, own};
use tally_iso20022::{AccountId as Named, Agent, Party, Reason, StatusReason, Transfer};
use tally_ledger::{AccountId, AssetId, ParticipantId};

/// Which side of a payment; decides the codes of a refusal.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Debtor,
    Creditor,
}

impl Side {
    fn name(self) -> &'static str {
        match self {
            Self::Debtor => "debtor",
            Self::Creditor => "creditor",
        }
    }
    /// The institution is missing or not one of this network.
    fn agent_code(self) -> StatusReason {
        match self {
            Self::Debtor => StatusReason::RC03,
            Self::Creditor => StatusReason::RC04,
        }
    }
    /// The account is missing or cannot exist.
    fn account_code(self) -> StatusReason {
        match self {
            Self::Debtor => StatusReason::AC02,
            Self::Creditor => StatusReason::AC03,
        }
    }
}

impl Gateway<'_> {
    /// The accounts of a pain.001 or pacs.008.
    pub(super) fn customers(&self, transfer: &Transfer) -> Result<(AccountId, AccountId), Reason> {
        let debtor_agent = self.agent(transfer.debtor_agent.as_ref(), Side::Debtor)?;
        self.may_debit(debtor_agent)?;
        let from = self.account(debtor_agent, &transfer.debtor, Side::Debtor)?;
        let creditor_agent = match &transfer.creditor_agent {
            Some(agent) => self.agent(Some(agent), Side::Creditor)?,
            None => self.agent_of(&transfer.creditor)?,
        };
        Ok((from, self.account(creditor_agent, &transfer.creditor, Side::Creditor)?))
    }

    /// The accounts of a pacs.009: the institutions' own funds; or an account that an institution outside
    /// the network holds at one inside.
    pub(super) fn institutions(
        &self,
        transfer: &Transfer,
        asset: AssetId,
    ) -> Result<(AccountId, AccountId), Reason> {
        let from = self.institution(&transfer.debtor, transfer.debtor_agent.as_ref(), asset, Side::Debtor)?;
        let to =
            self.institution(&transfer.creditor, transfer.creditor_agent.as_ref(), asset, Side::Creditor)?;
        Ok((from, to))
    }

    fn institution(
        &self,
        party: &Party,
        agent: Option<&Agent>,
        asset: AssetId,
        side: Side,
    ) -> Result<AccountId, Reason> {
        let participant = party.bic.and_then(|bic| self.network.participant(bic.as_str()));
        match (participant, agent) {
            (Some((participant, _)), _) => {
                self.may_pay(participant, side)?;
                Ok(own(participant, asset))
            }
            (None, Some(agent)) => {
                let agent = self.agent(Some(agent), side)?;
                self.may_pay(agent, side)?;
                self.account(agent, party, side)
            }
            (None, None) => {
                let bic = party.bic.map_or_else(|| "without a BIC".to_owned(), |bic| bic.to_string());
                Err(Reason::new(
                    side.agent_code(),
                    format!("the {} {bic} is not a participant of this network", side.name()),
                ))
            }
        }
    }

    /// Where it is the debtor, that the user may have it pay.
    fn may_pay(&self, participant: ParticipantId, side: Side) -> Result<(), Reason> {
        if side == Side::Debtor { self.may_debit(participant) } else { Ok(()) }
    }

    fn agent(&self, agent: Option<&Agent>, side: Side) -> Result<ParticipantId, Reason> {
        let Some(bic) = agent.and_then(|agent| agent.bic) else {
            return Err(Reason::new(
                side.agent_code(),
                format!("the {}'s institution has no BIC in the message", side.name()),
            ));
        };
        let found = self.network.participant(bic.as_str());
        found.map(|(id, _)| id).ok_or_else(|| {
            Reason::new(
                side.agent_code(),
                format!("the {}'s institution {bic} is not a participant of this network", side.name()),
            )
        })
    }

    /// The institution of a creditor whose message names none: the one that knows the account.
    fn agent_of(&self, creditor: &Party) -> Result<ParticipantId, Reason> {
        let name = creditor.account.as_ref().map(Named::as_str).unwrap_or_default();
        let mut found = (0u16..)
            .map(ParticipantId)
            .take(self.network.participants.len())
            .filter(|participant| self.accounts.by_alias(*participant, name).is_some());
        match (found.next(), found.next()) {
            (Some(participant), None) if !name.is_empty() => Ok(participant),
            _ => Err(Reason::new(
                StatusReason::RC04,
                "the message names no creditor's institution, and the account does not tell it",
            )),
        }
    }

    fn account(&self, agent: ParticipantId, party: &Party, side: Side) -> Result<AccountId, Reason> {
        let participant = self.network.participants.get(agent.index());
        let bic = participant.map(|participant| participant.bic.as_str()).unwrap_or_default();
        let institution = self.settings.institutions.get(agent.index());
        let given =
            party.account.as_ref().map(Named::as_str).or(party.alias.as_ref().map(|alias| alias.id.as_str()));
        let Some(name) =
            given.or(institution.and_then(|institution| institution.unidentified_account.as_deref()))
        else {
            return Err(Reason::new(
                side.account_code(),
                format!("the {}'s account at {bic} is missing", side.name()),
            ));
        };
        if let Some(account) = self.accounts.by_alias(agent, name) {
            return Ok(account);
        }
        let shown: String = name.chars().take(140).collect();
        Err(match &party.account {
            Some(Named::Iban(iban)) if !iban.checksum_ok() => Reason::new(
                side.account_code(),
                format!("the {}'s IBAN {shown} has wrong check digits", side.name()),
            ),
            _ => Reason::new(
                StatusReason::AC01,
                format!("the {}'s account {shown} does not exist at {bic}", side.name()),
            ),
        })
    }
}
