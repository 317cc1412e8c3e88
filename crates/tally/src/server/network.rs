//! `GET /v1/network`, `GET /v1/tree-head`, `…/consistency`, `GET /health`

use super::failure::Failure;
use super::{App, blocking, looking_up};
use crate::wire::{HealthView, NetworkView, TotalView};
use axum::Json;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use serde::Deserialize;
use std::sync::Arc;
use tally_crypto::log::SignedTreeHead;
use tally_log::Health;
use tally_proof::Consistency;

pub(super) async fn network(State(app): State<Arc<App>>) -> Result<Json<NetworkView>, Failure> {
    // Totals go through every account.
    blocking(app, |app| Ok(Json(view(app)))).await
}

pub(super) async fn tree_head(State(app): State<Arc<App>>) -> Result<Json<SignedTreeHead>, Failure> {
    let head = app.desk.tree_head();
    head.map(Json).ok_or_else(|| Failure::not_found("nothing has been decided yet"))
}

#[derive(Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Sizes {
    /// Records of the earlier log.
    first: u64,
    /// Records of the later one.
    second: u64,
}

pub(super) async fn consistency(
    State(app): State<Arc<App>>,
    Query(Sizes { first, second }): Query<Sizes>,
) -> Result<Json<Consistency>, Failure> {
    if first == 0 || first > second {
        return Err(Failure::form(
            "first and second are numbers of records, from 1, and second is not smaller",
        ));
    }
    looking_up(app, move |app| {
        let none = || Failure::not_found(format!("the log has fewer than {second} records"));
        Ok(Json(app.desk.consistency(first, second)?.ok_or_else(none)?))
    })
    .await
}

pub(super) async fn health(State(app): State<Arc<App>>) -> (StatusCode, Json<HealthView>) {
    let health = health_view(&app);
    let status = if health.healthy { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, Json(health))
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

fn view(app: &App) -> NetworkView {
    let network = app.desk.network();
    let totals = app
        .desk
        .totals()
        .into_iter()
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
        network: network.clone(),
        kinds: app.configuration.participants.iter().map(|participant| participant.kind).collect(),
        totals,
        sequence: app.desk.sequenced(),
        tree_head: app.desk.tree_head(),
        health: health_view(app),
    }
}
