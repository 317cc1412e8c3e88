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
use tally_ledger::{AccountId, Participant, ParticipantId};
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
    catching_up(app, move |app| {
        catch_up(app, when.consistency)?;
        let (participant, found) = participant(app, &by, &bic)?;
        let next = app.desk.next_account(participant).map_or(0, |number| number.0);
        Ok(Json(BooksView { institution: found.bic.clone(), next_account: next }))
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
    catching_up(app, move |app| {
        catch_up(app, when.consistency)?;
        let (view, alias) = find(app, &by, &bic, &name)?;
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
    catching_up(Arc::clone(&app), move |app| catch_up(app, consistency)).await?;
    looking_up(app, move |app| {
        let (view, alias) = find(app, &by, &bic, &name)?;
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

/// The participant of that BIC, for which the user must act.
fn participant<'a>(
    app: &'a App,
    by: &By<Reads>,
    bic: &str,
) -> Result<(ParticipantId, &'a Participant), Failure> {
    let found = app.desk.network().participant(bic);
    let found =
        found.ok_or_else(|| Failure::new(404, "RC01", format!("the network has no participant {bic}")))?;
    by.acts_for(app, found.0)?;
    Ok(found)
}

/// The account of that alias, number or role, with its alias if it was found by that.
pub(super) fn find(
    app: &App,
    by: &By<Reads>,
    bic: &str,
    name: &str,
) -> Result<(AccountView, Option<String>), Failure> {
    let (participant, _) = participant(app, by, bic)?;
    let by_alias = app.desk.account_by_alias(participant, name);
    let id = by_alias.or_else(|| {
        let number = account_number(app.desk.network(), name)?;
        Some(AccountId { participant, number })
    });
    let view = id.and_then(|id| app.desk.account(id));
    let view = view.ok_or_else(|| Failure::new(404, "AC01", format!("{bic} has no account {name}")))?;
    Ok((view, by_alias.map(|_| name.to_owned())))
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
