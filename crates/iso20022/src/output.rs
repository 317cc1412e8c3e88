//! Parts that written messages have in common: parties, institutions, accounts, references, reasons.

mod party;

use crate::identifier::format_uetr;
use crate::message::Agent;
use crate::parties::MAX_NAME;
use crate::xml::Writer;

pub(crate) use party::{account, account_id, party, party_choice};

/// Longest piece of additional information (`Max105Text`).
pub(crate) const MAX_INFORMATION: usize = 105;
/// Most pieces of additional information that are written for one reason; the schema sets no limit.
const MAX_PIECES: usize = 10;

/// An institution, if there is one.
pub(crate) fn agent(xml: &mut Writer, name: &'static str, agent: Option<&Agent>) {
    let Some(agent) = agent else { return };
    xml.element(name, |xml| {
        xml.element("FinInstnId", |xml| {
            if let Some(bic) = &agent.bic {
                xml.text("BICFI", bic.as_str());
            }
            if let Some(member_id) = &agent.member_id {
                xml.element("ClrSysMmbId", |xml| xml.id("MmbId", member_id));
            }
            if let Some(name) = &agent.name {
                xml.limited("Nm", name, MAX_NAME);
            }
        });
    });
}

/// A unique end-to-end transaction reference, if there is one.
pub(crate) fn uetr(xml: &mut Writer, name: &'static str, uetr: Option<&[u8; 16]>) {
    if let Some(uetr) = uetr {
        xml.text(name, &format_uetr(uetr));
    }
}

/// A reason with what exactly was wrong, in pieces.
pub(crate) fn reason(xml: &mut Writer, name: &'static str, code: &str, text: &str) {
    xml.element(name, |xml| {
        xml.element("Rsn", |xml| xml.text("Cd", code));
        for piece in pieces(text, MAX_INFORMATION) {
            xml.text("AddtlInf", &piece);
        }
    });
}

/// Splits a text at spaces into pieces of at most so many characters; a longer word is cut.
pub(crate) fn pieces(text: &str, longest: usize) -> Vec<String> {
    let mut pieces: Vec<String> = Vec::new();
    let mut length = longest;
    for word in text.split_whitespace() {
        let letters: Vec<char> = word.chars().collect();
        for (part, letters) in letters.chunks(longest).enumerate() {
            let space = usize::from(part == 0);
            match pieces.last_mut() {
                Some(piece) if length + space + letters.len() <= longest => {
                    piece.extend(std::iter::repeat_n(' ', space));
                    piece.extend(letters);
                    length += space + letters.len();
                }
                _ => {
                    pieces.push(letters.iter().collect());
                    length = letters.len();
                }
            }
        }
    }
    pieces.truncate(MAX_PIECES);
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn information_is_split_at_spaces_and_never_too_long() {
        let pieces = |text: &str| super::pieces(text, MAX_INFORMATION);
        assert_eq!(pieces("one  two\nthree"), ["one two three"]);
        assert!(pieces(" ").is_empty());
        let text = "word ".repeat(60);
        assert_eq!(pieces(&text).join(" "), text.trim());
        let long = "é".repeat(250);
        let cut = pieces(&format!("before {long} after"));
        assert!(cut.iter().all(|piece| piece.chars().count() <= MAX_INFORMATION));
        assert_eq!(cut.concat().replace(' ', ""), format!("before{long}after"));
        assert_eq!(pieces(&"x ".repeat(5_000)).len(), MAX_PIECES);
    }
}
