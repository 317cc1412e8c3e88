//! The standard health service (grpc.health.v1): what `/ready` says, for everybody.

use super::super::App;
use super::SERVICE_NAME;
use futures_util::Stream;
use futures_util::stream;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tally_log::Health as State;
use tonic::{Request, Response, Status};
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse, health_server};

/// How often those who watch are told, when it changes.
const LOOK: Duration = Duration::from_millis(500);

pub(super) struct Health(pub(super) Arc<App>);

impl Health {
    fn serving(&self, service: &str) -> ServingStatus {
        if !["", SERVICE_NAME].contains(&service) {
            return ServingStatus::ServiceUnknown;
        }
        let stops = *self.0.stop.borrow();
        match self.0.desk.health() {
            State::Ok if !stops => ServingStatus::Serving,
            _ => ServingStatus::NotServing,
        }
    }
}

fn response(serving: ServingStatus) -> HealthCheckResponse {
    HealthCheckResponse { status: serving.into() }
}

#[tonic::async_trait]
impl health_server::Health for Health {
    async fn check(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<HealthCheckResponse>, Status> {
        match self.serving(&request.into_inner().service) {
            ServingStatus::ServiceUnknown => Err(Status::not_found("there is no such service")),
            serving => Ok(Response::new(response(serving))),
        }
    }

    type WatchStream = Pin<Box<dyn Stream<Item = Result<HealthCheckResponse, Status>> + Send>>;

    async fn watch(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let service = request.into_inner().service;
        let watcher = (Self(Arc::clone(&self.0)), self.0.stop.subscribe(), None);
        let changes = stream::unfold(watcher, move |(health, mut stop, told)| {
            let service = service.clone();
            async move {
                loop {
                    let serving = health.serving(&service);
                    if told != Some(serving) {
                        return Some((Ok(response(serving)), (health, stop, Some(serving))));
                    }
                    if *stop.borrow() {
                        return None;
                    }
                    tokio::select! {
                        () = tokio::time::sleep(LOOK) => {}
                        _ = stop.changed() => {}
                    }
                }
            }
        });
        Ok(Response::new(Box::pin(changes)))
    }
}
