//! The published service: who calls, may they, what do they ask. Questions are answered by what answers them over HTTP.

use super::super::accounts::{Consistency, When};
use super::super::asked::{Asked, Named};
use super::super::caller::{By, Credential, Right, Submits};
use super::super::transactions::Legs;
use super::super::{App, accounts, transactions};
use super::answers::Answers;
use super::metered::Memory;
use super::stream::{Session, WINDOW, serve};
use super::{Failure, forms, status};
use crate::access::Denied;
use crate::grpc::wire::settlement_server::Settlement;
use crate::grpc::wire::{self};
use crate::grpc::wire::{
    Balance, Document, GetBalanceRequest, GetProofRequest, GetReceiptRequest, GetStatusRequest, Outcome,
    SubmitRequest,
};
use axum::Json;
use axum::extract::State;
use serde::Serialize;
use std::sync::{Arc, Mutex};
use tokio::sync::mpsc;
use tonic::{Request, Response, Status, Streaming};

pub(super) struct Calls(pub(super) Arc<App>);

type Answer<T> = Result<Response<T>, Status>;

impl Calls {
    /// The user who calls, who must have that role.
    fn by<R: Right, T>(&self, request: &Request<T>) -> Result<By<R>, Status> {
        let credential = request.extensions().get::<Credential>().ok_or(Denied::Nobody);
        let by = credential.and_then(|credential| By::request(&self.0, credential));
        by.map_err(|denied| status(denied.into()))
    }

    fn app(&self) -> State<Arc<App>> {
        State(Arc::clone(&self.0))
    }
}

fn document<T: Serialize>(value: Result<Json<T>, Failure>) -> Answer<Document> {
    let Json(value) = value.map_err(status)?;
    let json = serde_json::to_vec(&value).map_err(|error| status(Failure::internal(&error)))?;
    Ok(Response::new(Document { json }))
}

#[tonic::async_trait]
impl Settlement for Calls {
    type SubmitStream = Answers;

    async fn submit(&self, request: Request<Streaming<SubmitRequest>>) -> Answer<Answers> {
        let by: By<Submits> = self.by(&request)?;
        let extensions = request.extensions();
        let kept = self.0.streams.keep(&by.user().name, extensions).map_err(status)?;
        let session = Session {
            app: Arc::clone(&self.0),
            credential: extensions
                .get::<Credential>()
                .cloned()
                .ok_or_else(|| status(Denied::Nobody.into()))?,
            by: Mutex::new(Arc::new(by)),
            memory: extensions.get::<Arc<Memory>>().cloned().unwrap_or_default(),
            _kept: kept,
        };
        // One more for how the stream ends.
        let (next, waiting) = mpsc::channel(WINDOW + 1);
        let (answers, outlet) = Answers::new(waiting);
        tokio::spawn(serve(session, request.into_inner(), next, outlet));
        Ok(Response::new(answers))
    }

    async fn get_status(&self, request: Request<GetStatusRequest>) -> Answer<Outcome> {
        let by = self.by(&request)?;
        let asked = Named(request.into_inner().transaction);
        let Json(view) = transactions::status(self.app(), by, asked).await.map_err(status)?;
        Ok(Response::new(forms::single(view)))
    }

    async fn get_receipt(&self, request: Request<GetReceiptRequest>) -> Answer<Document> {
        let by = self.by(&request)?;
        document(transactions::receipt(self.app(), by, Named(request.into_inner().transaction)).await)
    }

    async fn get_proof(&self, request: Request<GetProofRequest>) -> Answer<Document> {
        let by = self.by(&request)?;
        let GetProofRequest { transaction, legs } = request.into_inner();
        let legs = Asked(Legs { legs: legs.join(",") });
        document(transactions::proof(self.app(), by, Named(transaction), legs).await)
    }

    async fn get_balance(&self, request: Request<GetBalanceRequest>) -> Answer<Balance> {
        let by = self.by(&request)?;
        let GetBalanceRequest { institution, account, consistency } = request.into_inner();
        let consistency = match wire::Consistency::try_from(consistency) {
            Ok(wire::Consistency::Unspecified | wire::Consistency::Latest) => Consistency::Latest,
            Ok(wire::Consistency::Local) => Consistency::Local,
            Err(_) => return Err(status(Failure::form("consistency: there is no such value"))),
        };
        let when = Asked(When { consistency });
        let found = accounts::account(self.app(), by, Named((institution, account)), when).await;
        let Json(found) = found.map_err(status)?;
        Ok(Response::new(Balance {
            institution: found.institution,
            account: found.number,
            asset: found.asset,
            minor_units: found.minor_units,
            balance: found.balance,
        }))
    }
}
