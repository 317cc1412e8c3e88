//! Parts that all messages have in common: parties, institutions, accounts, dates, amounts.

use crate::amount::{self, Decimal, MAX_AMOUNT_SCALE, MAX_SUM_SCALE, Money};
use crate::date::{self, Date};
use crate::guard::quoted;
use crate::identifier::{Bic, Iban, parse_uetr};
use crate::message::{AccountId, Agent, Alias, Party};
use crate::reason::StatusReason;
use crate::shapes;
use crate::tree::{Children, Element, Fault};

/// Longest identification of a message, payment or party (`Max35Text`).
pub(crate) const MAX_ID: usize = 35;
pub(crate) const MAX_ACCOUNT: usize = 34;
pub(crate) const MAX_NAME: usize = 140;
pub(crate) const MAX_ALIAS: usize = 2_048;

/// Which side of a payment a party is on; decides the codes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Debtor,
    Creditor,
}

impl Side {
    fn account_code(self) -> StatusReason {
        match self {
            Self::Debtor => StatusReason::AC02,
            Self::Creditor => StatusReason::AC03,
        }
    }

    fn currency_code(self) -> StatusReason {
        match self {
            Self::Debtor => StatusReason::AC10,
            Self::Creditor => StatusReason::AC11,
        }
    }

    pub(crate) fn agent_code(self) -> StatusReason {
        match self {
            Self::Debtor => StatusReason::RC03,
            Self::Creditor => StatusReason::RC04,
        }
    }
}

/// A customer: name and identification.
pub(crate) fn party(element: Element<'_>) -> Result<Party, Fault> {
    let fields = element.children(shapes::PARTY)?;
    let mut party = Party { name: name(&fields)?, ..Party::default() };
    if let Some(id) = fields.get("Id") {
        let choice = id.children(shapes::PARTY_ID)?;
        if let Some(organisation) = choice.get("OrgId") {
            let fields = organisation.children(shapes::ORGANISATION_ID)?;
            party.bic = fields.get("AnyBIC").or(fields.get("BICOrBEI")).map(bic).transpose()?;
            party.identification = other_id(&fields)?;
        } else if let Some(person) = choice.get("PrvtId") {
            party.is_person = true;
            party.identification = other_id(&person.children(shapes::PERSON_ID)?)?;
        }
    }
    Ok(party)
}

/// A customer that need not be there.
pub(crate) fn optional(fields: &Children<'_>, name: &str) -> Result<Option<Party>, Fault> {
    fields.get(name).map(party).transpose()
}

/// A customer or an institution.
pub(crate) fn party_choice(fields: &Children<'_>, name: &str) -> Result<Option<Party>, Fault> {
    fields.get(name).map(read_choice).transpose()
}

/// A customer or an institution that has to be there.
pub(crate) fn required_choice(fields: &Children<'_>, name: &str) -> Result<Party, Fault> {
    fields.require(name).and_then(read_choice)
}

fn read_choice(element: Element<'_>) -> Result<Party, Fault> {
    let choice = element.children(shapes::PARTY_CHOICE)?;
    match (choice.get("Pty"), choice.get("Agt")) {
        (Some(customer), None) => party(customer),
        (None, Some(institution)) => agent(institution).map(Party::from),
        _ => Err(element.fault(StatusReason::CH16, "either Pty or Agt is expected")),
    }
}

fn other_id(fields: &Children<'_>) -> Result<Option<String>, Fault> {
    let Some(other) = fields.get("Othr") else { return Ok(None) };
    other.children(shapes::OTHER_ID)?.require("Id")?.text_up_to(256).map(Some)
}

/// A name: white space collapsed, as names are often wrapped.
fn name(fields: &Children<'_>) -> Result<Option<String>, Fault> {
    let Some(element) = fields.get("Nm") else { return Ok(None) };
    let name = element.text()?.split_ascii_whitespace().collect::<Vec<_>>().join(" ");
    let length = name.chars().count();
    if length > MAX_NAME {
        return Err(element.fault(
            StatusReason::BE20,
            format!("the name has {length} characters; at most {MAX_NAME} are allowed"),
        ));
    }
    Ok((length > 0).then_some(name))
}

fn bic(element: Element<'_>) -> Result<Bic, Fault> {
    element
        .read("a BIC of 8 or 11 capital letters and digits", Bic::parse)
        .map_err(|fault| fault.with_code(StatusReason::RC01))
}

/// An institution. It may be named only, or not even that: whether it has to be identified is for
/// the place that it stands in.
pub(crate) fn agent(element: Element<'_>) -> Result<Agent, Fault> {
    let institution = element.children(shapes::AGENT)?.require("FinInstnId")?;
    let fields = institution.children(shapes::INSTITUTION_ID)?;
    let member_id = match fields.get("ClrSysMmbId") {
        Some(membership) => {
            Some(membership.children(shapes::MEMBERSHIP)?.require("MmbId")?.text_up_to(MAX_ID)?)
        }
        None => None,
    };
    Ok(Agent {
        bic: fields.get("BICFI").or(fields.get("BIC")).map(bic).transpose()?,
        member_id,
        name: name(&fields)?,
    })
}

/// An institution that has to be identified.
pub(crate) fn identified_agent(element: Element<'_>, side: Side) -> Result<Agent, Fault> {
    let agent = agent(element)?;
    if agent.bic.is_none() && agent.member_id.is_none() {
        return Err(element.fault(
            side.agent_code(),
            "the institution has neither a BIC nor an identification at a clearing system",
        ));
    }
    Ok(agent)
}

/// An institution as a party of a payment.
pub(crate) fn institution(element: Element<'_>, side: Side) -> Result<Party, Fault> {
    identified_agent(element, side).map(Party::from)
}

/// Adds the account to a party.
pub(crate) fn account(party: &mut Party, element: Option<Element<'_>>, side: Side) -> Result<(), Fault> {
    let Some(element) = element else { return Ok(()) };
    let fields = element.children(shapes::ACCOUNT)?;
    party.account =
        fields.get("Id").map(account_id).transpose().map_err(|fault| fault.with_code(side.account_code()))?;
    if let Some(currency) = fields.get("Ccy") {
        let read = currency.read("a currency code of three capital letters", amount::currency);
        party.account_currency = Some(read.map_err(|fault| fault.with_code(side.currency_code()))?);
    }
    if let Some(proxy) = fields.get("Prxy") {
        let fields = proxy.children(shapes::PROXY)?;
        party.alias = Some(Alias {
            kind: fields.get("Tp").map(code_or_proprietary).transpose()?.flatten(),
            id: fields.require("Id")?.text_up_to(MAX_ALIAS)?,
        });
    }
    if party.account.is_none() && party.alias.is_none() {
        return Err(element.fault(side.account_code(), "the account has neither a number nor an alias"));
    }
    Ok(())
}

/// The number of an account.
pub(crate) fn account_id(element: Element<'_>) -> Result<AccountId, Fault> {
    let choice = element.children(shapes::ACCOUNT_ID)?;
    match (choice.get("IBAN"), choice.get("Othr")) {
        (Some(iban), None) => iban.read("an IBAN", Iban::parse).map(AccountId::Iban),
        (None, Some(other)) => {
            let fields = other.children(shapes::OTHER_ID)?;
            Ok(AccountId::Other {
                id: fields.require("Id")?.text_up_to(MAX_ACCOUNT)?,
                scheme: fields.get("SchmeNm").map(code_or_proprietary).transpose()?.flatten(),
            })
        }
        _ => Err(element.fault(StatusReason::CH16, "either IBAN or Othr is expected")),
    }
}

fn code_or_proprietary(element: Element<'_>) -> Result<Option<String>, Fault> {
    let choice = element.children(shapes::CODE_CHOICE)?;
    choice.get("Cd").or(choice.get("Prtry")).map(|name| name.text_up_to(MAX_ID)).transpose()
}

/// A unique end-to-end transaction reference.
pub(crate) fn uetr(element: Element<'_>) -> Result<[u8; 16], Fault> {
    element.read("a UETR (a version 4 UUID in small letters)", parse_uetr)
}

/// A day.
pub(crate) fn date(element: Element<'_>) -> Result<Date, Fault> {
    element.read("a day as YYYY-MM-DD", Date::parse).map_err(|fault| fault.with_code(StatusReason::DT01))
}

/// A day, written as a choice of day or day and time.
pub(crate) fn date_choice(element: Element<'_>) -> Result<Date, Fault> {
    let choice = element.children(shapes::DATE_CHOICE)?;
    match (choice.get("Dt"), choice.get("DtTm")) {
        (Some(day), None) => date(day),
        (None, Some(time)) => time
            .read("a time as YYYY-MM-DDThh:mm:ss", date::day_of_date_time)
            .map_err(|fault| fault.with_code(StatusReason::DT01)),
        _ => Err(element.fault(StatusReason::DT01, "either Dt or DtTm is expected")),
    }
}

/// A time, kept as it is written.
pub(crate) fn date_time(element: Element<'_>) -> Result<String, Fault> {
    element
        .read("a time as YYYY-MM-DDThh:mm:ss", |text| date::day_of_date_time(text).map(|_| text.to_owned()))
        .map_err(|fault| fault.with_code(StatusReason::DT02))
}

/// An `xs:boolean`.
pub(crate) fn yes_or_no(element: Element<'_>) -> Result<bool, Fault> {
    element.read("true or false", |text| match text {
        "true" | "1" => Some(true),
        "false" | "0" => Some(false),
        _ => None,
    })
}

/// An amount with its currency; it may be zero.
pub(crate) fn money(element: Element<'_>) -> Result<Money, Fault> {
    let text = element.text().map_err(|fault| fault.with_code(StatusReason::AM12))?;
    let amount = Decimal::parse(&text, MAX_AMOUNT_SCALE).map_err(|fault| {
        element.fault(StatusReason::AM12, format!("the amount {} {fault}", quoted(&text)))
    })?;
    let code = element.attribute("Ccy").unwrap_or_default();
    let currency = amount::currency(code).ok_or_else(|| {
        element.fault(
            StatusReason::AM11,
            format!("the currency {} is not a code of three capital letters", quoted(code)),
        )
    })?;
    Ok(Money::new(currency, amount))
}

/// A control sum.
pub(crate) fn control_sum(element: Element<'_>, code: StatusReason) -> Result<Decimal, Fault> {
    let text = element.text()?;
    Decimal::parse(&text, MAX_SUM_SCALE)
        .map_err(|fault| element.fault(code, format!("the control sum {} {fault}", quoted(&text))))
}

/// A number of payments: 1 to 15 digits.
pub(crate) fn number_of_transactions(element: Element<'_>, code: StatusReason) -> Result<u32, Fault> {
    element
        .read("a number of payments", |text| {
            let form = (1..=15).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
            form.then(|| text.parse().ok()).flatten()
        })
        .map_err(|fault| fault.with_code(code))
}
