//! `GET /v1/accounts/…`

use super::asked::{Asked, Named};
use super::caller::{By, Reads};
use super::failure::Failure;
use super::refusals::Refusals;
use super::{App, catching_up, looking_up};
use crate::account_name::account_number;
use crate::codec;
use crate::wire::{AccountBody, BooksView, EntryView, StatementBody};
use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use std::sync::Arc;
use tally_ledger::{AccountId, AccountNumber, Participant, ParticipantId};
use tally_settlement::engine::AccountView;
use tally_settlement::statement::Movements;
use utoipa::{IntoParams, ToSchema};

/// The most entries of one answer.
const MAX_ENTRIES: usize = 1000;

/// Of when an answer is.
#[derive(Clone, Copy, Default, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum Consistency {
    /// Not older than the question: everything that anybody was told before shows in it.
    #[default]
    Latest,
    /// What is known here, at once, also where the others cannot be reached.
    Local,
}

#[derive(Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct When {
    /// Of when the answer is.
    #[serde(default)]
    #[param(inline)]
    pub(super) consistency: Consistency,
}

pub(super) fn catch_up(app: &App, consistency: Consistency) -> Result<(), Failure> {
    if consistency == Consistency::Latest {
        app.catch_up()?;
    }
    Ok(())
}

/// An institution's books
#[utoipa::path(
    get,
    path = "/v1/accounts/{bic}",
    tag = "accounts",
    params(("bic" = String, Path, description = "BIC of the institution"), When),
    responses((status = 200, body = BooksView), Refusals)
)]
pub(super) async fn books(
    State(app): State<Arc<App>>,
    by: By<Reads>,
    Named(bic): Named<String>,
    Asked(when): Asked<When>,
) -> Result<Json<BooksView>, Failure> {
    let (participant, institution) = participant(&app, &bic)?;
    let institution = institution.bic.clone();
    by.acts_for(&app, participant)?;
    catching_up(app, by.user(), move |app| {
        catch_up(app, when.consistency)?;
        let next = app.desk.next_account(participant).map_or(0, |number| number.0);
        Ok(Json(BooksView { institution, next_account: next }))
    })
    .await
}

/// An account and its balance
#[utoipa::path(
    get,
    path = "/v1/accounts/{bic}/{account}",
    tag = "accounts",
    params(
        ("bic" = String, Path, description = "BIC of the institution"),
        ("account" = String, Path, description = "IBAN or other alias, number, or role such as `own:EUR`"),
        When
    ),
    responses((status = 200, body = AccountBody), Refusals)
)]
pub(super) async fn account(
    State(app): State<Arc<App>>,
    by: By<Reads>,
    Named((bic, name)): Named<(String, String)>,
    Asked(when): Asked<When>,
) -> Result<Json<AccountBody>, Failure> {
    let asked = Account::asked(&app, &by, &bic, name)?;
    catching_up(app, by.user(), move |app| {
        catch_up(app, when.consistency)?;
        let (view, alias) = asked.find(app)?;
        Ok(Json(body(app, &view, alias)))
    })
    .await
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Page {
    /// How many entries at most.
    #[param(minimum = 1, maximum = 1000, default = 50)]
    limit: Option<usize>,
    /// Only entries with lower sequence numbers: `next` of the page before.
    before: Option<u64>,
    /// Of when the answer is.
    #[serde(default)]
    #[param(inline)]
    consistency: Consistency,
}

/// An account's entries, the newest first
#[utoipa::path(
    get,
    path = "/v1/accounts/{bic}/{account}/statement",
    tag = "accounts",
    params(
        ("bic" = String, Path, description = "BIC of the institution"),
        ("account" = String, Path, description = "IBAN or other alias, number, or role such as `own:EUR`"),
        Page
    ),
    responses((status = 200, body = StatementBody), Refusals)
)]
pub(super) async fn statement(
    State(app): State<Arc<App>>,
    by: By<Reads>,
    Named((bic, name)): Named<(String, String)>,
    Asked(page): Asked<Page>,
) -> Result<Json<StatementBody>, Failure> {
    let limit = page.limit.unwrap_or(50);
    if !(1..=MAX_ENTRIES).contains(&limit) {
        return Err(Failure::form(format!("limit: 1 to {MAX_ENTRIES} entries can be asked for")));
    }
    let consistency = page.consistency;
    let asked = Account::asked(&app, &by, &bic, name)?;
    catching_up(Arc::clone(&app), by.user(), move |app| catch_up(app, consistency)).await?;
    looking_up(app, by.user(), move |app| {
        let (view, alias) = asked.find(app)?;
        let wanted = Movements::latest(limit).before(page.before);
        let entries = app.desk.statement(view.id, &wanted)?.entries;
        let account = body(app, &view, alias);
        let exponent = exponent(app, &view);
        let next = entries.last().filter(|_| entries.len() == limit).map(|entry| entry.sequence);
        let entries = entries
            .iter()
            .map(|entry| EntryView {
                sequence: entry.sequence,
                time: codec::time(entry.timestamp),
                uetr: entry.uetr.to_string(),
                amount: entry.amount.display(exponent).to_string(),
                balance: entry.balance.display(exponent).to_string(),
            })
            .collect();
        Ok(Json(StatementBody { account, entries, next }))
    })
    .await
}

/// The participant of that BIC. Who takes part is known to everybody who reads.
fn participant<'a>(app: &'a App, bic: &str) -> Result<(ParticipantId, &'a Participant), Failure> {
    let found = app.desk.network().participant(bic);
    found.ok_or_else(|| Failure::new(404, "RC01", format!("the network has no participant {bic}")))
}

/// An account that the user may ask about; whether there is one is not known yet.
pub(super) struct Account {
    participant: ParticipantId,
    /// Its institution, as the user calls it.
    institution: String,
    /// Its alias, number or role, as the user calls it.
    name: String,
    /// What its name says without a look into the books.
    number: Option<AccountNumber>,
    /// Whether the user may ask about every account of the institution, and so about aliases.
    is_own: bool,
}

impl Account {
    /// That the user may ask about the account of that alias, number or role. Nothing is looked up: what is not the user's to
    /// ask about is refused in the same way whether it is there or not.
    pub(super) fn asked(app: &App, by: &By<Reads>, bic: &str, name: String) -> Result<Self, Failure> {
        let (participant, _) = participant(app, bic)?;
        let number = account_number(app.desk.network(), &name);
        let is_own = by.user().acts_for(participant);
        match number {
            Some(number) => by.reads(app, AccountId { participant, number })?,
            None => by.acts_for(app, participant)?,
        }
        Ok(Self { participant, institution: bic.to_owned(), name, number, is_own })
    }

    /// The account, with its alias if it was found by that.
    pub(super) fn find(&self, app: &App) -> Result<(AccountView, Option<String>), Failure> {
        let Self { participant, institution, name, number, is_own } = self;
        // Somebody else's alias may look like the name of the account that the user may ask about.
        let by_alias = if *is_own { app.desk.account_by_alias(*participant, name) } else { None };
        let id = by_alias.or(number.map(|number| AccountId { participant: *participant, number }));
        let view = id.and_then(|id| app.desk.account(id));
        let none = || Failure::new(404, "AC01", format!("{institution} has no account {name}"));
        Ok((view.ok_or_else(none)?, by_alias.map(|_| name.clone())))
    }
}

fn exponent(app: &App, view: &AccountView) -> u8 {
    app.desk.network().assets.get(view.asset.index()).map_or(0, |asset| asset.exponent)
}

fn body(app: &App, view: &AccountView, alias: Option<String>) -> AccountBody {
    let network = app.desk.network();
    let participant = &network.participants[view.id.participant.index()];
    let asset = &network.assets[view.asset.index()];
    AccountBody {
        institution: participant.bic.clone(),
        number: view.id.number.0,
        alias,
        asset: asset.code.clone(),
        balance: view.balance.display(asset.exponent).to_string(),
        minor_units: view.balance.0,
        floor: view.floor.display(asset.exponent).to_string(),
        status: view.status,
        owner: view.owner.unwrap_or(participant.key),
    }
}
