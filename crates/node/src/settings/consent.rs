//! `[cash]` and `[consent]`: which cash is spent, and what the institution agrees to without asking a person.

use std::path::Path;

use serde::{Deserialize, Serialize};
use tally_contracts::{Amount, Name, Timestamp};
use tally_protocols::consent::{Policy, PurchaseRule};

use super::{Settings, SettingsError, billionths};

/// `[cash]`
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CashSection {
    /// Whose cash is spent when a user names no issuer, first choice first. Absent: this node's own if it has any, or
    /// else the only one it has; payments are refused while it has several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub issuers: Option<Vec<Name>>,
    /// How long a flow waits for coins and holdings that other flows of this node hold, in milliseconds.
    pub wait_ms: u64,
}

impl Default for CashSection {
    fn default() -> Self {
        Self { issuers: None, wait_ms: 30_000 }
    }
}

/// `[consent]`: nothing is agreed to that is not here.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ConsentSection {
    /// In whose cash, beside its own, this node repays its bonds.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub repay_in: Vec<Name>,
    /// Of whose bonds this node keeps the register.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub registers_of: Vec<Name>,
    /// `[[consent.purchase]]`: which bonds this node buys when they are offered.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub purchase: Vec<PurchaseSection>,
}

/// `[[consent.purchase]]`
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PurchaseSection {
    /// Who owes the bonds.
    pub issuer: Name,
    /// Whose cash pays.
    pub cash_of: Name,
    /// From whom; from any member when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sellers: Option<Vec<Name>>,
    /// The highest price, in percent of the nominal: `"99.5"`.
    pub highest_percent: String,
    /// The last day on which what is bought may be due: `"2030-12-31"`, UTC.
    pub latest_maturity: String,
    /// The most that is paid for one offer: `"1000.00 USD"`.
    pub per_deal: Amount,
    /// The most that is paid within 24 hours, in the same currency.
    pub per_day: Amount,
}

impl Settings {
    /// What the institution allows.
    ///
    /// # Errors
    /// [`SettingsError::Consent`].
    pub fn policy(&self, file: &Path) -> Result<Policy, SettingsError> {
        let mut purchases: Vec<PurchaseRule> = Vec::with_capacity(self.consent.purchase.len());
        for section in &self.consent.purchase {
            let wrong = |reason| SettingsError::Consent {
                file: file.to_owned(),
                issuer: section.issuer.clone(),
                reason,
            };
            let rule = section.rule().map_err(wrong)?;
            if purchases.iter().any(|other| other.key() == rule.key()) {
                return Err(wrong("there is another one for the same issuer, currency and cash"));
            }
            purchases.push(rule);
        }
        Ok(Policy {
            cash_issuers: self.cash.issuers.clone(),
            purchases,
            repay_in: self.consent.repay_in.clone(),
            registers_of: self.consent.registers_of.clone(),
        })
    }
}

impl PurchaseSection {
    fn rule(&self) -> Result<PurchaseRule, &'static str> {
        if self.per_deal.currency() != self.per_day.currency() {
            return Err("`per_deal` and `per_day` are in two currencies");
        }
        let percent = billionths(&self.highest_percent);
        Ok(PurchaseRule {
            issuer: self.issuer.clone(),
            cash_of: self.cash_of.clone(),
            sellers: self.sellers.clone(),
            highest_price: percent
                .map(|billionths| billionths / 100)
                .ok_or("`highest_percent` is a decimal number with at most 9 decimals")?,
            latest_maturity: end_of_day(&self.latest_maturity)
                .ok_or("`latest_maturity` is a day such as 2030-12-31")?,
            per_deal: self.per_deal,
            per_day: self.per_day,
        })
    }
}

/// The last millisecond of a day of the Gregorian calendar, UTC; days from 1970 to 9999.
fn end_of_day(text: &str) -> Option<Timestamp> {
    let mut parts = text.split('-');
    let mut part = |digits: usize| -> Option<u64> {
        let part = parts.next()?;
        let is_number = part.len() == digits && part.bytes().all(|byte| byte.is_ascii_digit());
        is_number.then(|| part.parse().ok())?
    };
    let (year, month, day) = (part(4)?, part(2)?, part(2)?);
    if parts.next().is_some() || year < 1970 {
        return None;
    }
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let february = if is_leap { 29 } else { 28 };
    let months = [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let before = usize::try_from(month.checked_sub(1)?).ok()?;
    if day == 0 || day > *months.get(before)? {
        return None;
    }
    let leap_days = |until: u64| until / 4 - until / 100 + until / 400;
    let years = (year - 1970) * 365 + leap_days(year - 1) - leap_days(1969);
    // Through that day.
    let days = years + months[..before].iter().sum::<u64>() + day;
    Some(Timestamp::from_millis(days * 86_400_000 - 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::tests::{GOOD, load};

    const RULE: &str = "[[consent.purchase]]\nissuer = \"O=Bank, L=London, C=GB\"\n\
                        cash_of = \"O=Bank, L=London, C=GB\"\nhighest_percent = \"99.5\"\n\
                        latest_maturity = \"2030-12-31\"\nper_deal = \"10.00 USD\"\nper_day = \"20.00 USD\"\n";

    #[test]
    fn nothing_is_allowed_that_the_file_does_not_say() {
        let file = Path::new("node.toml");
        let policy = load(GOOD).expect("a configuration").policy(file).expect("a policy");
        assert_eq!(policy, Policy::default());
        let text = format!("{GOOD}[cash]\nissuers = [\"O=Bank, L=London, C=GB\"]\n{RULE}");
        let settings = load(&text).expect("a configuration");
        let policy = settings.policy(file).expect("a policy");
        assert_eq!(policy.cash_issuers.as_ref().map(Vec::len), Some(1));
        let rule = &policy.purchases[0];
        assert_eq!((rule.highest_price, rule.per_day.quantity()), (995_000_000, 2_000));
        assert_eq!(rule.latest_maturity, Timestamp::from_millis(1_924_991_999_999));
        let again: Settings = toml::from_str(&toml::to_string(&settings).expect("text")).expect("the same");
        assert_eq!(again.policy(file).expect("a policy"), policy);
    }

    #[test]
    fn what_is_wrong_with_a_consent_is_named() {
        for (text, named) in [
            (format!("{GOOD}{RULE}{RULE}"), "another one for the same"),
            (format!("{GOOD}{}", RULE.replace("99.5", "at par")), "highest_percent"),
            (format!("{GOOD}{}", RULE.replace("12-31", "02-30")), "latest_maturity"),
            (format!("{GOOD}{}", RULE.replace("20.00 USD", "20.00 EUR")), "two currencies"),
            (format!("{GOOD}{}", RULE.replace("per_day = \"20.00 USD\"\n", "")), "per_day"),
        ] {
            let error = load(&text).expect_err(&text);
            let told = crate::desk::full_text(&error);
            assert!(told.contains(named), "{told}");
        }
    }

    #[test]
    fn days_are_those_of_the_calendar() {
        for (text, day) in [("1970-01-01", 0), ("2000-02-29", 11_016), ("2100-03-01", 47_541)] {
            assert_eq!(end_of_day(text), Some(Timestamp::from_millis((day + 1) * 86_400_000 - 1)), "{text}");
        }
        for wrong in [
            "",
            "2030",
            "2030-1-1",
            "2100-02-29",
            "1969-12-31",
            "2030-13-01",
            "2030-00-10",
            "2030-01-00",
            "2030-01-01-01",
            "20a0-01-01",
        ] {
            assert_eq!(end_of_day(wrong), None, "{wrong}");
        }
    }
}
