//! `GET /v1/network`, `GET /v1/tree-head`, `GET /health`, `GET /ready`

use super::asked::Asked;
use super::caller::{By, Reads};
use super::failure::Failure;
use super::refusals::Refusals;
use super::{App, blocking, document, looking_up};
use crate::wire::{HealthView, NetworkView, TotalView};
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::Deserialize;
use std::sync::Arc;
use tally_crypto::log::SignedTreeHead;
use tally_ledger::{AssetId, Network, ParticipantId};
use tally_log::Health;
use tally_proof::Consistency;
use utoipa::IntoParams;

/// Who takes part, and the sums of the books that the user may see
#[utoipa::path(
    get,
    path = "/v1/network",
    tag = "network",
    responses((status = 200, body = NetworkView), Refusals)
)]
pub(super) async fn network(
    State(app): State<Arc<App>>,
    by: By<Reads>,
) -> Result<Json<NetworkView>, Failure> {
    // Totals go through every account.
    blocking(app, move |app| Ok(Json(view(app, &by)))).await
}

/// The signed head of the Merkle log of decisions
#[utoipa::path(
    get,
    path = "/v1/tree-head",
    tag = "network",
    responses((status = 200, body = document::SignedTreeHead), Refusals)
)]
pub(super) async fn tree_head(
    State(app): State<Arc<App>>,
    _: By<Reads>,
) -> Result<Json<SignedTreeHead>, Failure> {
    let head = app.desk.tree_head();
    head.map(Json).ok_or_else(|| Failure::not_found("nothing has been decided yet"))
}

/// Two sizes of the log.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Sizes {
    /// How many leaves the earlier head had.
    #[param(minimum = 1)]
    first: u64,
    /// How many the later one has.
    #[param(minimum = 1)]
    second: u64,
}

/// Proof that the log was only ever appended to between two heads
#[utoipa::path(
    get,
    path = "/v1/tree-head/consistency",
    tag = "network",
    params(Sizes),
    responses((status = 200, body = document::Consistency), Refusals)
)]
pub(super) async fn consistency(
    State(app): State<Arc<App>>,
    by: By<Reads>,
    Asked(sizes): Asked<Sizes>,
) -> Result<Json<Consistency>, Failure> {
    let Sizes { first, second } = sizes;
    if first == 0 || first > second {
        return Err(Failure::form(
            "first and second: 1 or more are wanted, and second is not the smaller one",
        ));
    }
    looking_up(app, by.user(), move |app| {
        let none = || Failure::not_found(format!("the log has not {second} leaves yet"));
        Ok(Json(app.desk.consistency(first, second)?.ok_or_else(none)?))
    })
    .await
}

/// Whether the gateway lives
#[utoipa::path(
    get,
    path = "/health",
    tag = "network",
    security(()),
    responses(
        (status = 200, description = "It does", body = HealthView),
        (status = 503, description = "It has stopped and must be started again", body = HealthView)
    )
)]
pub(super) async fn health(State(app): State<Arc<App>>) -> (StatusCode, Json<HealthView>) {
    let health = health_view(&app);
    let status = if health.healthy { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, Json(health))
}

/// Whether payments are taken now
#[utoipa::path(
    get,
    path = "/ready",
    tag = "network",
    security(()),
    responses(
        (status = 200, description = "They are", body = HealthView),
        (status = 503, description = "They are not", body = HealthView)
    )
)]
pub(super) async fn ready(State(app): State<Arc<App>>) -> (StatusCode, Json<HealthView>) {
    health(State(app)).await
}

fn health_view(app: &App) -> HealthView {
    match app.desk.health() {
        Health::Ok => HealthView { healthy: true, text: "payments are taken".to_owned() },
        Health::Stalled { reason } => {
            HealthView { healthy: false, text: format!("the journal cannot be written now: {reason}") }
        }
        Health::Failed { reason } => HealthView {
            healthy: false,
            text: format!("the network has stopped and must be restarted: {reason}"),
        },
    }
}

/// The network without what concerns others alone: how far below zero a settlement account may go is its holder's and the
/// settling institution's business.
fn known_to(network: &Network, by: &By<Reads>) -> Network {
    let settles = |asset: AssetId| {
        network.assets.get(asset.index()).is_some_and(|asset| by.user().acts_for(asset.settled_at))
    };
    let mut known = network.clone();
    for (holder, participant) in (0..).map(ParticipantId).zip(&mut known.participants) {
        if !by.user().acts_for(holder) {
            participant.settlement_floors.retain(|(asset, _)| settles(*asset));
        }
    }
    known
}

fn view(app: &App, by: &By<Reads>) -> NetworkView {
    let network = app.desk.network();
    let totals = app
        .desk
        .totals()
        .into_iter()
        .filter(|total| by.user().acts_for(total.participant))
        .map(|total| TotalView {
            institution: network.participants[total.participant.index()].bic.clone(),
            asset: network.assets[total.asset.index()].code.clone(),
            accounts: total.accounts,
            issued: total.issued,
            customers: total.customers,
            own: total.own,
            settlement: total.settlement,
        })
        .filter(|t| {
            t.accounts > 0 || [t.issued, t.customers, t.own, t.settlement].iter().any(|sum| *sum != 0)
        })
        .collect();
    NetworkView {
        network: known_to(network, by),
        kinds: app.settings.institutions.iter().map(|institution| institution.kind).collect(),
        totals,
        sequence: app.desk.sequenced(),
        tree_head: app.desk.tree_head(),
        health: health_view(app),
    }
}
