//! A reference for payments whose sender gave none.

use crate::message::{Message, Payment};

/// Keeps these hashes apart from any other use of the hash function.
const CONTEXT: &str = "tallystick 2025 iso20022 derived uetr v1";
const RETURN_CONTEXT: &str = "tallystick 2026 iso20022 return uetr v1";

/// A reference for the payment at that place of the message, by which the same file sent twice is
/// recognised as the same payments: a UUID of version 8 (RFC 9562, section 5.8) whose other 122
/// bits are a BLAKE3 hash of who sends (initiating party, instructing agent, debtor agent), the
/// message identification, the payment information identification, the instruction and end-to-end
/// identifications, the transaction identification, and the place. Each is hashed with its length,
/// and an absent one differs from an empty one.
///
/// It is not a UETR by the standard (which is a random version 4 UUID), so that the two never
/// collide, and it is not put into messages to others. `None` if the message has no such payment.
pub fn derived_uetr(message: &Message, index: usize) -> Option<[u8; 16]> {
    let payment: &Payment = message.payments.get(index)?;
    let mut hasher = blake3::Hasher::new_derive_key(CONTEXT);
    let mut field = |text: Option<&str>| {
        let text = text.map(str::as_bytes);
        let length = text.map_or(u64::MAX, |text| text.len() as u64);
        hasher.update(&length.to_le_bytes()).update(text.unwrap_or_default());
    };
    let initiating = message.initiating_party.as_ref();
    field(initiating.and_then(|party| party.name.as_deref()));
    field(initiating.and_then(|party| party.identification.as_deref()));
    let debtor_agent = payment.transfer.as_ref().ok().and_then(|transfer| transfer.debtor_agent.as_ref());
    for agent in [message.instructing_agent.as_ref(), debtor_agent] {
        field(agent.and_then(|agent| agent.bic.as_ref()).map(|bic| bic.as_str()));
        field(agent.and_then(|agent| agent.member_id.as_deref()));
    }
    field(Some(&message.message_id));
    field(payment.payment_information_id.as_deref());
    field(payment.instruction_id.as_deref());
    field(Some(&payment.end_to_end_id));
    field(payment.transaction_id.as_deref());
    hasher.update(&(index as u64).to_le_bytes());
    Some(version_8(&hasher))
}

/// The reference under which a payment goes back: it follows from that of the payment alone, so that a payment
/// goes back once. A UUID of version 8, as [`derived_uetr`].
pub fn derived_return_uetr(original: &[u8; 16]) -> [u8; 16] {
    let mut hasher = blake3::Hasher::new_derive_key(RETURN_CONTEXT);
    hasher.update(original);
    version_8(&hasher)
}

/// A UUID of version 8 (RFC 9562, section 5.8) of what was hashed.
fn version_8(hasher: &blake3::Hasher) -> [u8; 16] {
    let mut uetr = [0; 16];
    hasher.finalize_xof().fill(&mut uetr);
    uetr[6] = 0x80 | uetr[6] & 0x0F;
    uetr[8] = 0x80 | uetr[8] & 0x3F;
    uetr
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_return_has_one_reference_and_another_than_its_payment() {
        let original = [7; 16];
        let back = derived_return_uetr(&original);
        assert_eq!(back, derived_return_uetr(&original));
        assert_ne!(back, original);
        assert_ne!(back, derived_return_uetr(&[8; 16]));
        assert_eq!((back[6] >> 4, back[8] >> 6), (8, 2), "version and variant");
        assert_ne!(derived_return_uetr(&back), original);
    }
}
