//! Customers and accounts.

use crate::message::{AccountId, Agent, Party};
use crate::output::agent;
use crate::parties::{MAX_ACCOUNT, MAX_ALIAS, MAX_ID, MAX_NAME};
use crate::payment::NOT_PROVIDED;
use crate::terms::{Coded, MAX_CODE};
use crate::xml::Writer;

/// The name and identification of a customer. An identification that is longer than the older
/// versions allow is left out.
pub(crate) fn party(xml: &mut Writer, name: &'static str, party: &Party) {
    xml.element(name, |xml| party_fields(xml, party));
}

fn party_fields(xml: &mut Writer, party: &Party) {
    if let Some(name) = &party.name {
        xml.limited("Nm", name, MAX_NAME);
    }
    let id = party.identification.as_deref().filter(|id| (1..=MAX_ID).contains(&id.chars().count()));
    if id.is_none() && party.bic.is_none() {
        return;
    }
    let kind = if party.is_person && party.bic.is_none() { "PrvtId" } else { "OrgId" };
    xml.element("Id", |xml| {
        xml.element(kind, |xml| {
            if let Some(bic) = &party.bic {
                xml.text("AnyBIC", bic.as_str());
            }
            if let Some(id) = id {
                xml.element("Othr", |xml| xml.id("Id", id));
            }
        });
    });
}

/// A customer or an institution, as a choice between the two: an institution is one with a BIC and
/// without an identification, or with one at a clearing system.
pub(crate) fn party_choice(xml: &mut Writer, name: &'static str, party: &Party) {
    let institution = party.member_id.is_some() || (party.bic.is_some() && party.identification.is_none());
    xml.element(name, |xml| {
        if institution {
            let institution =
                Agent { bic: party.bic, member_id: party.member_id.clone(), name: party.name.clone() };
            agent(xml, "Agt", Some(&institution));
        } else {
            xml.element("Pty", |xml| party_fields(xml, party));
        }
    });
}

/// The account of a party, if it has one or another name for one.
pub(crate) fn account(xml: &mut Writer, name: &'static str, party: &Party) {
    if party.account.is_none() && party.alias.is_none() {
        return;
    }
    xml.element(name, |xml| {
        xml.element("Id", |xml| match &party.account {
            Some(account) => account_id(xml, account),
            None => xml.element("Othr", |xml| xml.text("Id", NOT_PROVIDED)),
        });
        if let Some(currency) = &party.account_currency {
            xml.text("Ccy", &String::from_utf8_lossy(currency));
        }
        if let Some(alias) = &party.alias {
            xml.element("Prxy", |xml| {
                if let Some(kind) = &alias.kind {
                    coded_name(xml, "Tp", kind);
                }
                xml.limited("Id", &alias.id, MAX_ALIAS);
            });
        }
    });
}

/// The number of an account.
pub(crate) fn account_id(xml: &mut Writer, account: &AccountId) {
    match account {
        AccountId::Iban(iban) => xml.text("IBAN", iban.as_str()),
        AccountId::Other { id, scheme } => xml.element("Othr", |xml| {
            xml.limited("Id", id, MAX_ACCOUNT);
            if let Some(scheme) = scheme {
                coded_name(xml, "SchmeNm", scheme);
            }
        }),
    }
}

/// A name of which it is not known whether it is a code: short ones are.
fn coded_name(xml: &mut Writer, element: &'static str, name: &str) {
    let short = name.chars().count() <= MAX_CODE;
    let coded = if short { Coded::Code(name.to_owned()) } else { Coded::Proprietary(name.to_owned()) };
    coded.write(xml, element);
}
