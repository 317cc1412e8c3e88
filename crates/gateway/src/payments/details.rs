//! What a signature on a payment commits to beyond its legs.

use tally_crypto::Hash;
use tally_iso20022::{Agent, Message, Party};

const KEY: &[u8; 32] = b"tallystick payment details v1\0\0\0";

/// The hash of the payment at that position as its sender wrote it: identifications, amount, parties with their
/// accounts and institutions, date and remittance. It is part of what the payer signs, so that a gateway that
/// booked the money elsewhere is caught by its own transaction.
///
/// Every field is hashed with its length; an absent field differs from an empty one. What could not be read is
/// absent.
pub fn details(message: &Message, position: usize) -> Hash {
    let mut fields = Fields(Vec::new());
    fields.text(Some(message.kind.name()));
    fields.text(Some(&message.message_id));
    let Some(payment) = message.payments.get(position) else {
        return tally_crypto::keyed(KEY, &fields.0);
    };
    fields.text(payment.payment_information_id.as_deref());
    fields.text(payment.instruction_id.as_deref());
    fields.text(Some(&payment.end_to_end_id));
    fields.text(payment.transaction_id.as_deref());
    if let Ok(transfer) = &payment.transfer {
        fields.text(Some(&transfer.amount.to_string()));
        fields.party(&transfer.debtor);
        fields.agent(transfer.debtor_agent.as_ref());
        fields.party(&transfer.creditor);
        fields.agent(transfer.creditor_agent.as_ref());
        fields.text(transfer.requested_date.map(|date| date.to_string()).as_deref());
        fields.text(transfer.remittance.as_deref());
    }
    tally_crypto::keyed(KEY, &fields.0)
}

struct Fields(Vec<u8>);

impl Fields {
    fn text(&mut self, text: Option<&str>) {
        let length = text.map_or(u64::MAX, |text| text.len() as u64);
        self.0.extend_from_slice(&length.to_le_bytes());
        self.0.extend_from_slice(text.unwrap_or_default().as_bytes());
    }

    fn party(&mut self, party: &Party) {
        self.text(party.name.as_deref());
        self.text(party.identification.as_deref());
        self.text(party.bic.as_ref().map(|bic| bic.as_str()));
        self.text(party.account.as_ref().map(|account| account.as_str()));
        self.text(party.alias.as_ref().map(|alias| alias.id.as_str()));
    }

    fn agent(&mut self, agent: Option<&Agent>) {
        let agent = agent.cloned().unwrap_or_default();
        self.text(agent.bic.as_ref().map(|bic| bic.as_str()));
        self.text(agent.member_id.as_deref());
    }
}
