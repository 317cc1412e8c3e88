//! What a payment says beyond its legs: what its signature commits to, and what is kept to be reported.

use tally_crypto::Hash;
use tally_iso20022::{
    AccountId, Agent, Alias, Bic, ChargesBearer, Coded, CreditorReference, Date, EntryDetails, Iban, Message,
    Money, Party, PaymentReturn, ReferredDocument, Remittance, ReturnNote, ReturnOrder, ReturnedPayment,
    StructuredRemittance,
};

const KEY: &[u8; 32] = b"tallystick payment details v2\0\0\0";
const RETURN_KEY: &[u8; 32] = b"tallystick return details v1\0\0\0\0";
/// The first byte of what is kept of a payment, and of a return.
const PAYMENT: u8 = 1;
const RETURN: u8 = 2;

/// What a payment or a return said, in the form of which the hash is part of what the payer signs: so a gateway that booked
/// the money elsewhere is caught by its own transaction, and whoever finds this by its hash knows that it is what was said.
///
/// Every field has its length before it, every list its count; an absent field differs from an empty one. What could not be
/// read is absent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Said(Vec<u8>);

impl Said {
    /// By the payment at that position, as its sender wrote it: identifications, amount, parties with their accounts and
    /// institutions, date, charges, purposes and remittance.
    pub fn by_payment(message: &Message, position: usize) -> Self {
        let mut fields = Fields(vec![PAYMENT]);
        fields.text(Some(message.kind.name()));
        fields.text(Some(&message.message_id));
        let Some(payment) = message.payments.get(position) else { return Self(fields.0) };
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
        Self(fields.0)
    }

    /// By a return, as its sender wrote it: identifications, which payment goes back, how much, when and why.
    pub fn by_return(message: &PaymentReturn, returned: &ReturnedPayment, order: &ReturnOrder) -> Self {
        let mut fields = Fields(vec![RETURN]);
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
        Self(fields.0)
    }

    /// What was kept as [`Self::as_bytes`]; none if it is of no known form.
    pub fn from_bytes(bytes: Vec<u8>) -> Option<Self> {
        matches!(bytes.first(), Some(&(PAYMENT | RETURN))).then_some(Self(bytes))
    }

    /// As it is kept.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// What the payer signs.
    pub fn hash(&self) -> Hash {
        match self.0.split_first() {
            Some((&RETURN, fields)) => tally_crypto::keyed(RETURN_KEY, fields),
            Some((_, fields)) => tally_crypto::keyed(KEY, fields),
            None => Hash::ZERO,
        }
    }

    /// What of it a statement tells. Amount and reference are the ledger's; which kind of identification a party gave is not
    /// known, so that it is left out. None where the bytes are not what one of these wrote.
    pub fn told(&self) -> Option<EntryDetails> {
        let (form, fields) = self.0.split_first()?;
        let mut fields = Reader(fields);
        let told = if *form == PAYMENT { fields.payment()? } else { fields.returned()? };
        fields.0.is_empty().then_some(told)
    }
}

/// Reads what [`Fields`] wrote.
struct Reader<'a>(&'a [u8]);

/// The most members of a list.
const MAX_LIST: usize = 1 << 16;

impl<'a> Reader<'a> {
    fn number(&mut self) -> Option<u64> {
        let (number, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*number))
    }

    fn text(&mut self) -> Option<Option<&'a str>> {
        let length = self.number()?;
        if length == u64::MAX {
            return Some(None);
        }
        let (text, rest) = self.0.split_at_checked(usize::try_from(length).ok()?)?;
        self.0 = rest;
        std::str::from_utf8(text).ok().map(Some)
    }

    fn owned(&mut self) -> Option<Option<String>> {
        Some(self.text()?.map(str::to_owned))
    }

    fn coded(&mut self) -> Option<Option<Coded>> {
        match (self.text()?, self.owned()?) {
            (None, None) => Some(None),
            (Some("Cd"), Some(code)) => Some(Some(Coded::Code(code))),
            (Some("Prtry"), Some(name)) => Some(Some(Coded::Proprietary(name))),
            _ => None,
        }
    }

    fn charges(&mut self) -> Option<Option<ChargesBearer>> {
        Some(match self.text()? {
            None => None,
            Some(code) => Some(ChargesBearer::from_code(code)?),
        })
    }

    fn bic(&mut self) -> Option<Option<Bic>> {
        Some(match self.text()? {
            None => None,
            Some(code) => Some(Bic::parse(code)?),
        })
    }

    fn date(&mut self) -> Option<Option<Date>> {
        Some(match self.text()? {
            None => None,
            Some(day) => Some(Date::parse(day)?),
        })
    }

    /// A party that says anything.
    fn party(&mut self) -> Option<Option<Party>> {
        let name = self.owned()?;
        let _identification = self.text()?;
        let bic = self.bic()?;
        let account = self.text()?.map(|account| match Iban::parse(account) {
            Some(iban) if iban.as_str() == account => AccountId::Iban(iban),
            _ => AccountId::Other { id: account.to_owned(), scheme: None },
        });
        let alias = self.owned()?.map(|id| Alias { kind: None, id });
        let party = Party { name, bic, account, alias, ..Party::default() };
        Some((party != Party::default()).then_some(party))
    }

    fn agent(&mut self) -> Option<Option<Agent>> {
        let agent = Agent { bic: self.bic()?, member_id: self.owned()?, name: None };
        Some((agent != Agent::default()).then_some(agent))
    }

    fn list<T>(&mut self, mut one: impl FnMut(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let count = usize::try_from(self.number()?).ok().filter(|count| *count <= MAX_LIST)?;
        (0..count).map(|_| one(self)).collect()
    }

    fn money(&mut self) -> Option<Option<Money>> {
        let Some(text) = self.text()? else { return Some(None) };
        let (currency, amount) = text.split_once(' ')?;
        let (whole, decimals) = amount.split_once('.').unwrap_or((amount, ""));
        let digits = format!("{whole}{decimals}").parse().ok()?;
        let scale = u8::try_from(decimals.len()).ok()?;
        Some(Some(Money { currency: currency.as_bytes().try_into().ok()?, digits, scale }))
    }

    fn remittance(&mut self) -> Option<Remittance> {
        let unstructured = self.list(|fields| fields.owned()?)?;
        let structured = self.list(|fields| {
            let documents = fields.list(|fields| {
                Some(ReferredDocument {
                    kind: fields.coded()?,
                    number: fields.owned()?,
                    date: fields.date()?,
                })
            })?;
            let remitted = fields.money()?;
            let reference = CreditorReference {
                kind: fields.coded()?,
                issuer: fields.owned()?,
                reference: fields.owned()?,
            };
            let creditor_reference = (reference != CreditorReference::default()).then_some(reference);
            let additional = fields.list(|fields| fields.owned()?)?;
            Some(StructuredRemittance { documents, remitted, creditor_reference, additional })
        })?;
        Some(Remittance { unstructured, structured })
    }

    fn payment(&mut self) -> Option<EntryDetails> {
        let _kind = self.text()?;
        let mut told = EntryDetails {
            message_id: self.owned()?,
            payment_information_id: self.owned()?,
            instruction_id: self.owned()?,
            end_to_end_id: self.owned()?,
            transaction_id: self.owned()?,
            ..EntryDetails::default()
        };
        let _amount = self.text()?;
        told.debtor = self.party()?;
        told.debtor_agent = self.agent()?;
        told.creditor = self.party()?;
        told.creditor_agent = self.agent()?;
        let _requested = self.text()?;
        told.charges = self.charges()?;
        told.purpose = self.coded()?;
        let _category = self.coded()?;
        told.ultimate_debtor = self.party()?;
        told.ultimate_creditor = self.party()?;
        told.remittance = self.remittance()?;
        Some(told)
    }

    fn returned(&mut self) -> Option<EntryDetails> {
        let message_id = self.owned()?;
        let _return = self.text()?;
        let _original = self.text()?;
        let mut told = EntryDetails {
            message_id,
            instruction_id: self.owned()?,
            end_to_end_id: self.owned()?,
            ..EntryDetails::default()
        };
        let _original = self.text()?;
        let _amount = self.text()?;
        let _day = self.text()?;
        told.charges = self.charges()?;
        let code = self.coded()?;
        let text = self.owned()?;
        told.returned = code.map(|reason| ReturnNote { reason, text: text.unwrap_or_default() });
        Some(told)
    }
}

/// Writes fields one after the other.
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
