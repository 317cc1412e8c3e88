//! `GET /v1/institutions…` and `GET /v1/assets…`

use super::App;
use super::asked::Named;
use super::caller::{By, Reads};
use super::etag::Tagged;
use super::failure::Failure;
use super::refusals::Refusals;
use crate::settings::Settings;
use crate::wire::{AssetView, AssetsBody, InstitutionView, InstitutionsBody};
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use serde::Serialize;
use std::collections::HashMap;
use std::sync::Arc;
use tally_iso20022::Bic;
use tally_ledger::Network;

/// What a network is made of, which stays as it is while a gateway runs.
pub(super) struct Register {
    institutions: Tagged,
    assets: Tagged,
    by_bic: HashMap<Bic, Tagged>,
    by_code: HashMap<String, Tagged>,
}

impl Register {
    pub(super) fn new(network: &Network, settings: &Settings) -> Self {
        let institutions: Vec<InstitutionView> = (0..)
            .zip(network.participants.iter().zip(&settings.institutions))
            .map(|(participant, (found, institution))| InstitutionView {
                bic: found.bic.clone(),
                name: found.name.clone(),
                kind: institution.kind,
                participant,
                key: found.key,
            })
            .collect();
        let settled_at = |asset: &tally_ledger::Asset| {
            network.participants.get(asset.settled_at.index()).map(|at| at.bic.clone()).unwrap_or_default()
        };
        let assets: Vec<AssetView> = (0..)
            .zip(&network.assets)
            .map(|(number, asset)| AssetView {
                code: asset.code.clone(),
                kind: asset.kind,
                asset: number,
                exponent: asset.exponent,
                settled_at: settled_at(asset),
                largest_payment: asset.largest_payment.display(asset.exponent).to_string(),
            })
            .collect();
        Self {
            by_bic: institutions
                .iter()
                .filter_map(|view| Some((Bic::parse(&view.bic)?, tagged(view))))
                .collect(),
            by_code: assets.iter().map(|view| (view.code.clone(), tagged(view))).collect(),
            institutions: tagged(&InstitutionsBody { institutions }),
            assets: tagged(&AssetsBody { assets }),
        }
    }
}

fn tagged(view: &impl Serialize) -> Tagged {
    Tagged::new(serde_json::to_string(view).expect("a view is plain data"))
}

/// The institutions that take part
#[utoipa::path(
    get,
    path = "/v1/institutions",
    tag = "network",
    responses((status = 200, body = InstitutionsBody), Refusals)
)]
pub(super) async fn institutions(State(app): State<Arc<App>>, _: By<Reads>, headers: HeaderMap) -> Response {
    app.register.institutions.answer(&headers)
}

/// An institution
#[utoipa::path(
    get,
    path = "/v1/institutions/{bic}",
    tag = "network",
    params(("bic" = String, Path, description = "Its BIC")),
    responses((status = 200, body = InstitutionView), Refusals)
)]
pub(super) async fn institution(
    State(app): State<Arc<App>>,
    _: By<Reads>,
    Named(bic): Named<String>,
    headers: HeaderMap,
) -> Result<Response, Failure> {
    let none = || Failure::new(404, "RC01", format!("the network has no participant {bic}"));
    let found = Bic::parse(&bic).and_then(|bic| app.register.by_bic.get(&bic));
    Ok(found.ok_or_else(none)?.answer(&headers))
}

/// What accounts can hold
#[utoipa::path(
    get,
    path = "/v1/assets",
    tag = "network",
    responses((status = 200, body = AssetsBody), Refusals)
)]
pub(super) async fn assets(State(app): State<Arc<App>>, _: By<Reads>, headers: HeaderMap) -> Response {
    app.register.assets.answer(&headers)
}

/// An asset
#[utoipa::path(
    get,
    path = "/v1/assets/{code}",
    tag = "network",
    params(("code" = String, Path, description = "Its currency code or ISIN")),
    responses((status = 200, body = AssetView), Refusals)
)]
pub(super) async fn asset(
    State(app): State<Arc<App>>,
    _: By<Reads>,
    Named(code): Named<String>,
    headers: HeaderMap,
) -> Result<Response, Failure> {
    let none = || Failure::new(404, "AM03", format!("the network does not settle {code}"));
    Ok(app.register.by_code.get(&code).ok_or_else(none)?.answer(&headers))
}
