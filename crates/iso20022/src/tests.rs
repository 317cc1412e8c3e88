//! Whole messages, good and bad.

mod bad_files;
mod bad_payments;
mod kept;
mod samples;
mod versions;

use crate::{Limits, Message, ParseError, parse};

/// A pain.001.001.09 of one payment; tests change it by replacing text.
pub(crate) const INITIATION: &str = include_str!("tests/initiation.xml");

pub(crate) fn read(xml: &str) -> Result<Message, ParseError> {
    parse(xml.as_bytes(), &Limits::default())
}

/// The sample with one text replaced by another.
pub(crate) fn changed(from: &str, to: &str) -> String {
    assert!(INITIATION.contains(from), "{from} is not in the sample");
    INITIATION.replacen(from, to, 1)
}

/// The sample with that payment so many times, and header sums to match.
pub(crate) fn batch(payments: usize) -> String {
    let start = INITIATION.find("<CdtTrfTxInf>").expect("a payment");
    let end = INITIATION.find("</PmtInf>").expect("the end of the block");
    let payment = INITIATION[start..end].trim_end();
    let sum = format!("{}.{:02}", payments * 1_025 / 100, payments * 1_025 % 100);
    format!("{}{}{}", &INITIATION[..start], payment.repeat(payments), &INITIATION[end..])
        .replace("<NbOfTxs>1<", &format!("<NbOfTxs>{payments}<"))
        .replace("<CtrlSum>10.25<", &format!("<CtrlSum>{sum}<"))
}
