//! A reference for payments whose sender gave none.

use crate::message::{Message, Payment};

/// Keep these hashes apart from each other and from any other use of the secret.
const CONTEXT: &[u8; 32] = b"tallystick derived reference  v2";
const RETURN_CONTEXT: &[u8; 32] = b"tallystick return reference   v2";

/// A reference for the payment at that place of the message, by which the same file sent twice is
/// recognised as the same payments: a UUID of version 8 (RFC 9562, section 5.8) whose other 122
/// bits are a BLAKE3 hash, keyed with `secret`, of the institution that the payment belongs to, of
/// who sends (initiating party, instructing agent, debtor agent), the message identification, the
/// payment information identification, the instruction and end-to-end identifications, the
/// transaction identification, and the place. Each is hashed with its length, and an absent one
/// differs from an empty one.
///
/// Whoever does not have the secret cannot compute it, and so cannot use it up before the payment
/// comes; two institutions never share one.
///
/// It is not a UETR by the standard (which is a random version 4 UUID), so that the two never
/// collide, and it is not put into messages to others. `None` if the message has no such payment.
pub fn derived_uetr(
    secret: &[u8; 32],
    institution: Option<&str>,
    message: &Message,
    index: usize,
) -> Option<[u8; 16]> {
    let payment: &Payment = message.payments.get(index)?;
    let mut fields = Fields::new(secret, CONTEXT);
    fields.text(institution);
    let initiating = message.initiating_party.as_ref();
    fields.text(initiating.and_then(|party| party.name.as_deref()));
    fields.text(initiating.and_then(|party| party.identification.as_deref()));
    let debtor_agent = payment.transfer.as_ref().ok().and_then(|transfer| transfer.debtor_agent.as_ref());
    for agent in [message.instructing_agent.as_ref(), debtor_agent] {
        fields.text(agent.and_then(|agent| agent.bic.as_ref()).map(|bic| bic.as_str()));
        fields.text(agent.and_then(|agent| agent.member_id.as_deref()));
    }
    fields.text(Some(&message.message_id));
    fields.text(payment.payment_information_id.as_deref());
    fields.text(payment.instruction_id.as_deref());
    fields.text(Some(&payment.end_to_end_id));
    fields.text(payment.transaction_id.as_deref());
    fields.0.update(&(index as u64).to_le_bytes());
    Some(fields.version_8())
}

/// The reference under which an institution sends a payment back: it follows from the institution
/// and the payment's reference alone, so that a payment goes back once. A UUID of version 8 that
/// nobody can compute without the secret, as [`derived_uetr`].
pub fn derived_return_uetr(secret: &[u8; 32], institution: Option<&str>, original: &[u8; 16]) -> [u8; 16] {
    let mut fields = Fields::new(secret, RETURN_CONTEXT);
    fields.text(institution);
    fields.0.update(original);
    fields.version_8()
}

/// What a reference follows from.
struct Fields(blake3::Hasher);

impl Fields {
    fn new(secret: &[u8; 32], context: &[u8; 32]) -> Self {
        let mut hasher = blake3::Hasher::new_keyed(secret);
        hasher.update(context);
        Self(hasher)
    }

    fn text(&mut self, text: Option<&str>) {
        let text = text.map(str::as_bytes);
        let length = text.map_or(u64::MAX, |text| text.len() as u64);
        self.0.update(&length.to_le_bytes()).update(text.unwrap_or_default());
    }

    /// A UUID of version 8 (RFC 9562, section 5.8) of what was hashed.
    fn version_8(&self) -> [u8; 16] {
        let mut uetr = [0; 16];
        self.0.finalize_xof().fill(&mut uetr);
        uetr[6] = 0x80 | uetr[6] & 0x0F;
        uetr[8] = 0x80 | uetr[8] & 0x3F;
        uetr
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_return_has_one_reference_and_another_than_its_payment() {
        let original = [7; 16];
        let of = |original: &[u8; 16]| derived_return_uetr(&[1; 32], Some("ALPHDEFF"), original);
        let back = of(&original);
        assert_eq!(back, of(&original));
        assert_ne!(back, original);
        assert_ne!(back, of(&[8; 16]));
        assert_eq!((back[6] >> 4, back[8] >> 6), (8, 2), "version and variant");
        assert_ne!(of(&back), original);
        // Neither another institution nor who has another secret comes to it.
        assert_ne!(back, derived_return_uetr(&[1; 32], Some("BETAFRPP"), &original));
        assert_ne!(back, derived_return_uetr(&[1; 32], None, &original));
        assert_ne!(back, derived_return_uetr(&[2; 32], Some("ALPHDEFF"), &original));
    }
}
