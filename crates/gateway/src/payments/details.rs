//! What a signature on a payment commits to beyond its legs.

use tally_crypto::Hash;
use tally_iso20022::{Agent, Coded, Message, Party, PaymentReturn, Remittance, ReturnOrder, ReturnedPayment};

const KEY: &[u8; 32] = b"tallystick payment details v2\0\0\0";
const RETURN_KEY: &[u8; 32] = b"tallystick return details v1\0\0\0\0";

/// The hash of the payment at that position as its sender wrote it: identifications, amount, parties with their
/// accounts and institutions, date, charges, purposes and remittance. It is part of what the payer signs, so that a gateway
/// that booked the money elsewhere is caught by its own transaction.
///
/// Every field is hashed with its length, every list with its count; an absent field differs from an empty one. What could
/// not be read is absent.
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
        fields.text(transfer.charges.map(|charges| charges.code()));
        fields.coded(transfer.purpose.as_ref());
        fields.coded(transfer.category_purpose.as_ref());
        fields.party(&transfer.ultimate_debtor.clone().unwrap_or_default());
        fields.party(&transfer.ultimate_creditor.clone().unwrap_or_default());
        fields.remittance(&transfer.remittance_information);
    }
    tally_crypto::keyed(KEY, &fields.0)
}

/// The hash of a return as its sender wrote it: identifications, which payment goes back, how much, when and why.
pub fn return_details(message: &PaymentReturn, returned: &ReturnedPayment, order: &ReturnOrder) -> Hash {
    let mut fields = Fields(Vec::new());
    fields.text(Some(&message.message_id));
    fields.text(returned.id.as_deref());
    let original = &returned.original;
    fields.text(original.uetr.as_ref().map(tally_iso20022::format_uetr).as_deref());
    for id in [&original.instruction_id, &original.end_to_end_id, &original.transaction_id] {
        fields.text(id.as_deref());
    }
    fields.text(Some(&order.amount.to_string()));
    let date = order.settlement_date.or(message.settlement_date);
    fields.text(date.map(|date| date.to_string()).as_deref());
    fields.text(order.charges.map(|charges| charges.code()));
    fields.coded(order.reason.as_ref().and_then(|reason| reason.code.as_ref()));
    fields.text(order.reason.as_ref().map(|reason| reason.text.as_str()));
    tally_crypto::keyed(RETURN_KEY, &fields.0)
}

struct Fields(Vec<u8>);

impl Fields {
    fn text(&mut self, text: Option<&str>) {
        let length = text.map_or(u64::MAX, |text| text.len() as u64);
        self.0.extend_from_slice(&length.to_le_bytes());
        self.0.extend_from_slice(text.unwrap_or_default().as_bytes());
    }

    fn count(&mut self, count: usize) {
        self.0.extend_from_slice(&(count as u64).to_le_bytes());
    }

    fn coded(&mut self, coded: Option<&Coded>) {
        self.text(coded.map(|coded| if matches!(coded, Coded::Code(_)) { "Cd" } else { "Prtry" }));
        self.text(coded.map(Coded::as_str));
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

    fn remittance(&mut self, remittance: &Remittance) {
        self.count(remittance.unstructured.len());
        for line in &remittance.unstructured {
            self.text(Some(line));
        }
        self.count(remittance.structured.len());
        for part in &remittance.structured {
            self.count(part.documents.len());
            for document in &part.documents {
                self.coded(document.kind.as_ref());
                self.text(document.number.as_deref());
                self.text(document.date.map(|date| date.to_string()).as_deref());
            }
            self.text(part.remitted.map(|amount| amount.to_string()).as_deref());
            let reference = part.creditor_reference.clone().unwrap_or_default();
            self.coded(reference.kind.as_ref());
            self.text(reference.issuer.as_deref());
            self.text(reference.reference.as_deref());
            self.count(part.additional.len());
            for line in &part.additional {
                self.text(Some(line));
            }
        }
    }
}
