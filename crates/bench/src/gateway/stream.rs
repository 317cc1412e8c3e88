//! Batches over one stream of gRPC, as fast as they are taken.

use super::http::Clients;
use super::served::Served;
use super::{Done, GatewayBenchError, INTERVAL};
use crate::recorder::Throughput;
use bytes::Bytes;
use std::time::Instant;
use tally_gateway::grpc::wire::Status;
use tally_gateway::grpc::{Client, Said};

pub(super) fn pay(served: &Served, batches: Vec<Bytes>) -> Result<Done, GatewayBenchError> {
    Clients::new()?.run(async {
        let url = format!("http://{}", served.address);
        let client = Client::connect(&url, Some(served.token.reveal()), None)
            .await
            .map_err(GatewayBenchError::client)?;
        let (requests, mut responses) = client.submit().await.map_err(GatewayBenchError::client)?;
        let began = Instant::now();
        tokio::spawn(async move {
            for (tag, batch) in (0..).zip(batches) {
                if !requests.send_encoded(tag, batch).await {
                    break;
                }
            }
        });
        let mut payments = 0;
        let mut series = Throughput::every(INTERVAL);
        while let Some((_, said)) = responses.next().await.map_err(GatewayBenchError::client)? {
            match said {
                Said::Outcomes(outcomes) => {
                    if let Some(other) =
                        outcomes.statuses.iter().find(|status| **status != Status::Settled as i32)
                    {
                        return Err(GatewayBenchError::Refused(format!(
                            "status {other}: {:?}",
                            outcomes.refusals
                        )));
                    }
                    payments += outcomes.statuses.len();
                    series.add(began.elapsed(), outcomes.statuses.len() as u64);
                }
                Said::Refused(refused) => return Err(GatewayBenchError::Refused(refused.to_string())),
            }
        }
        Ok(Done { series: Some(series), ..Done::new(payments, began.elapsed()) })
    })
}
