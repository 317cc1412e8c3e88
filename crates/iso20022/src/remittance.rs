//! What a payment settles: free text, or documents and references in structured form.

use crate::amount::Money;
use crate::date::Date;
use crate::parties::{self, MAX_ID};
use crate::shapes;
use crate::terms::Coded;
use crate::tree::{Element, Fault};
use crate::xml::Writer;

/// Longest line of free text (`Max140Text`).
pub(crate) const MAX_LINE: usize = 140;

/// All that a payment says of what it settles (`RmtInf`).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Remittance {
    /// Free text: lines of 1 to 140 characters.
    pub unstructured: Vec<String>,
    /// Documents and references.
    pub structured: Vec<StructuredRemittance>,
}

/// One occurrence of structured remittance information (`Strd`), as far as it is kept: invoicer,
/// invoicee, tax and garnishment are not.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct StructuredRemittance {
    /// The documents that are paid.
    pub documents: Vec<ReferredDocument>,
    /// How much of them is paid (`RmtdAmt`).
    pub remitted: Option<Money>,
    /// The creditor's reference.
    pub creditor_reference: Option<CreditorReference>,
    /// Further information: lines of 1 to 140 characters.
    pub additional: Vec<String>,
}

/// A document that a payment refers to (`RfrdDocInf`).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ReferredDocument {
    /// Its kind, such as `CINV` for a commercial invoice.
    pub kind: Option<Coded>,
    /// Its number, 1 to 35 characters.
    pub number: Option<String>,
    /// Its date.
    pub date: Option<Date>,
}

/// The reference that the creditor gave for the payment (`CdtrRefInf`), such as one by ISO 11649.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CreditorReference {
    /// Its kind, such as `SCOR`.
    pub kind: Option<Coded>,
    /// Who issues references of that kind, 1 to 35 characters.
    pub issuer: Option<String>,
    /// The reference, 1 to 35 characters.
    pub reference: Option<String>,
}

impl Remittance {
    /// One text for a person: the lines of free text, joined by line feeds; without any, the first
    /// creditor's reference.
    pub fn summary(&self) -> Option<String> {
        if !self.unstructured.is_empty() {
            return Some(self.unstructured.join("\n"));
        }
        let references = self.structured.iter().filter_map(|part| part.creditor_reference.as_ref());
        references.filter_map(|reference| reference.reference.clone()).next()
    }
}

pub(crate) fn read(element: Option<Element<'_>>) -> Result<Remittance, Fault> {
    let Some(element) = element else { return Ok(Remittance::default()) };
    let fields = element.children(shapes::REMITTANCE)?;
    let lines = fields.all("Ustrd").map(|line| line.text_up_to(MAX_LINE));
    Ok(Remittance {
        unstructured: lines.collect::<Result<_, _>>()?,
        structured: fields.all("Strd").map(structured).collect::<Result<_, _>>()?,
    })
}

fn structured(element: Element<'_>) -> Result<StructuredRemittance, Fault> {
    let fields = element.children(shapes::STRUCTURED_REMITTANCE)?;
    // What an amount is made of differs from version to version; only what is paid is kept.
    let remitted = fields.get("RfrdDocAmt").and_then(|amounts| amounts.find("RmtdAmt"));
    let additional = fields.all("AddtlRmtInf").map(|line| line.text_up_to(MAX_LINE));
    Ok(StructuredRemittance {
        documents: fields.all("RfrdDocInf").map(document).collect::<Result<_, _>>()?,
        remitted: remitted.map(parties::money).transpose()?,
        creditor_reference: fields.get("CdtrRefInf").map(creditor_reference).transpose()?,
        additional: additional.collect::<Result<_, _>>()?,
    })
}

fn document(element: Element<'_>) -> Result<ReferredDocument, Fault> {
    let fields = element.children(shapes::REFERRED_DOCUMENT)?;
    let date = |element: Element<'_>| parties::date(element.find("Dt").unwrap_or(element));
    Ok(ReferredDocument {
        kind: fields.get("Tp").map(kind).transpose()?.map(|(kind, _)| kind),
        number: fields.text("Nb", MAX_ID)?,
        date: fields.get("RltdDt").map(date).transpose()?,
    })
}

fn creditor_reference(element: Element<'_>) -> Result<CreditorReference, Fault> {
    let fields = element.children(shapes::CREDITOR_REFERENCE)?;
    let (kind, issuer) = fields.get("Tp").map(kind).transpose()?.unzip();
    let issuer = issuer.flatten();
    Ok(CreditorReference { kind, issuer, reference: fields.text("Ref", MAX_ID)? })
}

/// The kind of a document or reference and who issues it.
fn kind(element: Element<'_>) -> Result<(Coded, Option<String>), Fault> {
    let fields = element.children(shapes::REFERENCE_KIND)?;
    Ok((Coded::read(fields.require("CdOrPrtry")?)?, fields.text("Issr", MAX_ID)?))
}

/// The kinds of documents of the older versions (`DocumentType6Code`).
const DOCUMENT_KINDS: &[&str] = &[
    "MSIN", "CNFA", "DNFA", "CINV", "CREN", "DEBN", "HIRI", "SBIN", "CMCN", "SOAC", "DISP", "BOLD", "VCHR",
    "AROI", "TSUT", "PUOR",
];
/// The kinds of references of the older versions (`DocumentType3Code`).
const REFERENCE_KINDS: &[&str] = &["RADM", "RPIN", "FXDR", "DISP", "PUOR", "SCOR"];

/// Writes what is known of the remittance, if anything is.
pub(crate) fn write(xml: &mut Writer, remittance: &Remittance) {
    if *remittance == Remittance::default() {
        return;
    }
    xml.element("RmtInf", |xml| {
        for line in &remittance.unstructured {
            xml.limited("Ustrd", line, MAX_LINE);
        }
        for part in &remittance.structured {
            xml.element("Strd", |xml| write_structured(xml, part));
        }
    });
}

fn write_structured(xml: &mut Writer, part: &StructuredRemittance) {
    for document in &part.documents {
        xml.element("RfrdDocInf", |xml| {
            write_kind(xml, document.kind.as_ref(), None, DOCUMENT_KINDS);
            xml.optional_id("Nb", document.number.as_deref());
            if let Some(date) = document.date {
                xml.text("RltdDt", &date.to_string());
            }
        });
    }
    if let Some(amount) = &part.remitted {
        xml.element("RfrdDocAmt", |xml| xml.amount("RmtdAmt", amount));
    }
    if let Some(reference) = &part.creditor_reference {
        xml.element("CdtrRefInf", |xml| {
            write_kind(xml, reference.kind.as_ref(), reference.issuer.as_deref(), REFERENCE_KINDS);
            xml.optional_id("Ref", reference.reference.as_deref());
        });
    }
    for line in &part.additional {
        xml.limited("AddtlRmtInf", line, MAX_LINE);
    }
}

/// A kind. A code that only later versions have is written as a name.
fn write_kind(xml: &mut Writer, kind: Option<&Coded>, issuer: Option<&str>, codes: &[&str]) {
    let Some(kind) = kind else { return };
    xml.element("Tp", |xml| {
        match kind {
            Coded::Code(code) if !codes.contains(&code.as_str()) => {
                Coded::Proprietary(code.clone()).write(xml, "CdOrPrtry");
            }
            kind => kind.write(xml, "CdOrPrtry"),
        }
        xml.optional_id("Issr", issuer);
    });
}
