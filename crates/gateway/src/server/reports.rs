//! `GET /v1/accounts/{bic}/{account}/camt.053` and `…/camt.054`

use super::accounts::{Account, catch_up};
use super::asked::{Asked, Named};
use super::caller::{By, Reads};
use super::failure::Failure;
use super::messages::{XML, message_id, unwritten};
use super::refusals::Refusals;
use super::{App, catching_up, looking_up};
use crate::codec;
use crate::payments::Said;
use axum::extract::State;
use axum::response::IntoResponse;
use serde::Deserialize;
use std::collections::HashMap;
use std::sync::Arc;
use tally_crypto::Hash;
use tally_iso20022::{
    AccountReport, Balance, BalanceKind, BankTransactionCode, Bic, CreditDebit, Date, EntryDetails,
    EntryStatus, Iban, Money, NotificationMessage, ReportHeader, ReportedAccount, Statement, StatementEntry,
    StatementMessage, notification, statement,
};
use tally_ledger::{Amount, AssetKind, Timestamp, Uetr};
use tally_settlement::engine::AccountView;
use tally_settlement::statement::{Entry, Movements};
use utoipa::IntoParams;

/// The most entries of one report.
const MAX_ENTRIES: usize = 10_000;
/// How many entries are read at once.
const PAGE: usize = 1000;
/// How far clocks, and a decision from its expiry, may be apart.
const NEAR_MS: u64 = 60_000;
/// The longest account number of the standard (`Max34Text`).
const MAX_ACCOUNT: usize = 34;

/// Of which days a report is, in UTC.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Days {
    /// The first day, as YYYY-MM-DD; the last one without it.
    #[param(pattern = "^[0-9]{4}-[0-9]{2}-[0-9]{2}$")]
    from: Option<String>,
    /// The last day; today without it.
    #[param(pattern = "^[0-9]{4}-[0-9]{2}-[0-9]{2}$")]
    to: Option<String>,
}

/// An account's statement as a camt.053
///
/// The balances at the beginning and the end of the period, and between them every entry: at most 10,000.
#[utoipa::path(
    get,
    path = "/v1/accounts/{bic}/{account}/camt.053",
    tag = "accounts",
    params(
        ("bic" = String, Path, description = "BIC of the institution"),
        ("account" = String, Path, description = "IBAN or other alias, number, or role such as `own:EUR`"),
        Days
    ),
    responses(
        (status = 200, description = "A camt.053", body = String, content_type = "application/xml; charset=utf-8"),
        Refusals
    )
)]
pub(super) async fn camt_053(
    State(app): State<Arc<App>>,
    by: By<Reads>,
    Named((bic, name)): Named<(String, String)>,
    Asked(days): Asked<Days>,
) -> Result<impl IntoResponse, Failure> {
    let write = |header, period: Period| {
        let balances = vec![
            period.balance(BalanceKind::OpeningBooked, period.opening, period.from),
            period.balance(BalanceKind::ClosingBooked, period.closing, period.to),
        ];
        let statements = vec![Statement { report: period.report, balances }];
        statement(&StatementMessage { header, statements }).map_err(|error| unwritten(&error))
    };
    report(app, by, bic, name, days, write).await
}

/// An account's debits and credits as a camt.054
///
/// Every entry of the period: at least one, and at most 10,000.
#[utoipa::path(
    get,
    path = "/v1/accounts/{bic}/{account}/camt.054",
    tag = "accounts",
    params(
        ("bic" = String, Path, description = "BIC of the institution"),
        ("account" = String, Path, description = "IBAN or other alias, number, or role such as `own:EUR`"),
        Days
    ),
    responses(
        (status = 200, description = "A camt.054", body = String, content_type = "application/xml; charset=utf-8"),
        Refusals
    )
)]
pub(super) async fn camt_054(
    State(app): State<Arc<App>>,
    by: By<Reads>,
    Named((bic, name)): Named<(String, String)>,
    Asked(days): Asked<Days>,
) -> Result<impl IntoResponse, Failure> {
    let write = |header, period: Period| {
        if period.report.entries.is_empty() {
            return Err(Failure::not_found("nothing was booked on the account in that period"));
        }
        let notifications = vec![period.report];
        notification(&NotificationMessage { header, notifications }).map_err(|error| unwritten(&error))
    };
    report(app, by, bic, name, days, write).await
}

async fn report(
    app: Arc<App>,
    by: By<Reads>,
    bic: String,
    name: String,
    days: Days,
    write: impl FnOnce(ReportHeader, Period) -> Result<String, Failure> + Send + 'static,
) -> Result<impl IntoResponse, Failure> {
    let day = |name: &str, text: &Option<String>| match text {
        None => Ok(None),
        Some(text) => Date::parse(text)
            .map(Some)
            .ok_or_else(|| Failure::form(format!("{name}: no day of the calendar"))),
    };
    let today = codec::day(app.desk.now());
    let to = day("to", &days.to)?.unwrap_or(today);
    let from = day("from", &days.from)?.unwrap_or(to);
    if from > to {
        return Err(Failure::form("from: the period ends before it begins"));
    }
    let asked = Account::asked(&app, &by, &bic, name)?;
    catching_up(Arc::clone(&app), by.user(), |app| catch_up(app, Default::default())).await?;
    looking_up(app, by.user(), move |app| {
        let (view, alias) = asked.find(app)?;
        let message_id = message_id()?;
        let created = codec::time(app.desk.now());
        let period = app.period(&view, alias, (from, to), &message_id, &created)?;
        Ok((XML, write(ReportHeader { message_id, created, recipient: None }, period)?))
    })
    .await
}

/// What was booked on an account in some days.
struct Period {
    from: Date,
    to: Date,
    currency: [u8; 3],
    exponent: u8,
    opening: Amount,
    closing: Amount,
    report: AccountReport,
}

impl Period {
    fn balance(&self, kind: BalanceKind, amount: Amount, date: Date) -> Balance {
        let (amount, side) = money(self.currency, self.exponent, amount);
        Balance { kind, is_intermediate: false, amount, side, date }
    }
}

impl App {
    fn period(
        &self,
        view: &AccountView,
        alias: Option<String>,
        (from, to): (Date, Date),
        id: &str,
        created: &str,
    ) -> Result<Period, Failure> {
        let network = self.desk.network();
        let asset = &network.assets[view.asset.index()];
        let code = asset
            .code
            .as_bytes()
            .first_chunk()
            .filter(|_| asset.kind == AssetKind::Currency && asset.code.len() == 3);
        let currency: [u8; 3] = *code.ok_or_else(|| {
            let text = format!(
                "the account holds {}, and these messages are for money: ask for its statement",
                asset.code
            );
            Failure::new(404, "AM03", text)
        })?;
        let (entries, before) = self.booked(view, from, to)?;
        let mut told = self.told(&entries)?;
        let closing = entries.last().map_or(before, |entry| entry.balance);
        let bic = &network.participants[view.id.participant.index()].bic;
        let alias =
            alias.or_else(|| self.desk.alias(view.id)).filter(|alias| alias.chars().count() <= MAX_ACCOUNT);
        let number = alias.unwrap_or_else(|| crate::account_name::account_text(network, view.id.number));
        let account = match Iban::parse(&number) {
            Some(iban) => tally_iso20022::AccountId::Iban(iban),
            None => tally_iso20022::AccountId::Other { id: number, scheme: None },
        };
        let report = AccountReport {
            id: id.to_owned(),
            page: None,
            electronic_sequence: None,
            created: Some(created.to_owned()),
            period: Some((format!("{from}T00:00:00Z"), format!("{to}T23:59:59Z"))),
            account: ReportedAccount {
                id: account,
                currency: Some(currency),
                name: None,
                owner: None,
                servicer: Bic::parse(bic).map(Into::into),
            },
            entries: entries
                .iter()
                .map(|entry| {
                    let told = told.remove(&entry.sequence).unwrap_or_default();
                    booked_entry(currency, asset.exponent, entry, told)
                })
                .collect(),
            additional: None,
        };
        Ok(Period { from, to, currency, exponent: asset.exponent, opening: before, closing, report })
    }

    /// What the messages said by which entries were made, by sequence number; nothing of those that came without a message.
    fn told(&self, entries: &[Entry]) -> Result<HashMap<u64, EntryDetails>, Failure> {
        let mut wanted: HashMap<Hash, Vec<u64>> = HashMap::new();
        for entry in entries.iter().filter(|entry| entry.details != Hash::ZERO) {
            wanted.entry(entry.details).or_default().push(entry.sequence);
        }
        let mut told = HashMap::new();
        let (Some(first), Some(last), false) = (entries.first(), entries.last(), wanted.is_empty()) else {
            return Ok(told);
        };
        // A message is kept when its payments are handed in, and they are decided before they expire, or a little later.
        let before = self.desk.network().longest_validity_ms + NEAR_MS;
        let between = (Timestamp(first.timestamp.0.saturating_sub(before)), last.timestamp.plus_ms(NEAR_MS));
        self.desk.kept(between, &mut |bytes| {
            let Some(said) = Said::from_bytes(bytes) else { return };
            if let Some(sequences) = wanted.remove(&said.hash())
                && let Some(details) = said.told()
            {
                told.extend(sequences.into_iter().map(|sequence| (sequence, details.clone())));
            }
        })?;
        Ok(told)
    }

    /// The entries of those days in the order in which they were booked, and the balance before them.
    fn booked(&self, view: &AccountView, from: Date, to: Date) -> Result<(Vec<Entry>, Amount), Failure> {
        let mut entries = Vec::new();
        let mut wanted = Movements::latest(PAGE).since(codec::midnight(from));
        loop {
            let page = self.desk.statement(view.id, &wanted)?;
            let is_last = page.entries.len() < PAGE;
            wanted.before = page.entries.last().map(|entry| entry.sequence);
            entries.extend(page.entries.into_iter().filter(|entry| codec::day(entry.timestamp) <= to));
            if entries.len() > MAX_ENTRIES {
                let text =
                    format!("from, to: there are more than {MAX_ENTRIES} entries; ask for a shorter period");
                return Err(Failure::form(text));
            }
            if is_last {
                entries.reverse();
                return Ok((entries, page.opening));
            }
        }
    }
}

fn booked_entry(currency: [u8; 3], exponent: u8, entry: &Entry, told: EntryDetails) -> StatementEntry {
    let (amount, side) = money(currency, exponent, entry.amount);
    let (uetr, reference) = named(entry.uetr);
    let details = EntryDetails {
        uetr,
        transaction_id: reference.or(told.transaction_id),
        amount: Some((amount, side)),
        ..told
    };
    let day = codec::day(entry.timestamp);
    let reference = entry.sequence.to_string();
    StatementEntry {
        reference: Some(reference.clone()),
        amount,
        side,
        is_reversal: false,
        status: EntryStatus::Booked,
        booked_on: Some(day),
        value_on: Some(day),
        servicer_reference: Some(reference),
        code: match side {
            CreditDebit::Credit => BankTransactionCode::received_credit_transfer(),
            CreditDebit::Debit => BankTransactionCode::issued_credit_transfer(),
        },
        details: vec![details],
        additional: None,
    }
}

/// How a transaction is called: by its UETR if the standard calls it one (a UUID of version 4), else by the reference that the
/// network gave it, in 32 digits.
fn named(uetr: Uetr) -> (Option<[u8; 16]>, Option<String>) {
    let is_standard = uetr.0[6] >> 4 == 4 && uetr.0[8] >> 6 == 2;
    (is_standard.then_some(uetr.0), (!is_standard).then(|| codec::to_hex(&uetr.0)))
}

fn money(currency: [u8; 3], exponent: u8, amount: Amount) -> (Money, CreditDebit) {
    let side = if amount.is_debit() { CreditDebit::Debit } else { CreditDebit::Credit };
    (Money::from_minor_units(currency, amount.0.unsigned_abs(), exponent), side)
}
