//! What a client says by itself: kept, so that an error can tell more than its code.

use rdkafka::client::ClientContext;
use rdkafka::consumer::ConsumerContext;
use rdkafka::error::KafkaError;
use rdkafka::message::DeliveryResult;
use rdkafka::producer::{NoCustomPartitioner, ProducerContext};
use rdkafka::types::RDKafkaErrorCode;
use std::sync::{Mutex, PoisonError};

/// Keeps the last complaint of a client.
#[derive(Default)]
pub(super) struct Context {
    last: Mutex<Option<String>>,
}

impl Context {
    fn keep(&self, what: String) {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(what);
    }

    fn has_complained(&self) -> bool {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// `what`, and what the client complained about last.
    pub(super) fn explain(&self, what: impl std::fmt::Display) -> String {
        match &*self.last.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(last) => format!("{what}; the last complaint was: {last}"),
            None => what.to_string(),
        }
    }
}

impl ClientContext for Context {
    fn error(&self, error: KafkaError, reason: &str) {
        // That no broker is left follows from what was wrong with each, which says more.
        if error.rdkafka_error_code() == Some(RDKafkaErrorCode::AllBrokersDown) && self.has_complained() {
            return;
        }
        self.keep(format!("{error}: {reason}"));
    }
}

impl ConsumerContext for Context {}

impl ProducerContext<NoCustomPartitioner> for Context {
    type DeliveryOpaque = ();

    /// Only failures are reported.
    fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
        if let Err((error, _)) = result {
            self.keep(error.to_string());
        }
    }
}
