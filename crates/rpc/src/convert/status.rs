//! Refusals as gRPC statuses: the code and reason as a `Refusal` message in `google.rpc.Status` details, as standard
//! tools show them.

use prost::Message;
use tonic::Status;

use crate::refusal::{Refusal, RefusalCode};
use crate::wire;

const REFUSAL_TYPE: &str = "type.googleapis.com/tallystick.node.v1.Refusal";

/// `google.rpc.Status` of google/rpc/status.proto: what `grpc-status-details-bin` holds.
#[derive(Clone, PartialEq, Message)]
struct Details {
    #[prost(int32, tag = "1")]
    code: i32,
    #[prost(string, tag = "2")]
    message: String,
    #[prost(message, repeated, tag = "3")]
    details: Vec<prost_types::Any>,
}

impl From<Refusal> for wire::Refusal {
    fn from(refusal: Refusal) -> Self {
        Self { code: refusal.code.as_str().to_owned(), reason: refusal.reason }
    }
}

/// The status that tells a client of a refusal.
pub(crate) fn status(refusal: Refusal) -> Status {
    let code = refusal.code.grpc();
    let message = refusal.reason.clone();
    let details = Details {
        code: code as i32,
        message: message.clone(),
        details: vec![prost_types::Any {
            type_url: REFUSAL_TYPE.to_owned(),
            value: wire::Refusal::from(refusal).encode_to_vec(),
        }],
    };
    Status::with_details(code, message, details.encode_to_vec().into())
}

/// How a server answered a call that did not succeed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answered {
    /// With a refusal of ours.
    Refused(Refusal),
    /// With a status that tells no code known here.
    Other { code: String, message: String },
}

/// What a status from a server says.
pub(crate) fn answered(status: &Status) -> Answered {
    let detail = Details::decode(status.details())
        .ok()
        .and_then(|details| details.details.into_iter().find(|any| any.type_url == REFUSAL_TYPE))
        .and_then(|any| wire::Refusal::decode(any.value.as_slice()).ok());
    match detail {
        Some(detail) => refusal(detail),
        // A server or a proxy before it that honours the deadline on its own says so without our details.
        None if status.code() == tonic::Code::DeadlineExceeded => {
            Answered::Refused(Refusal::new(RefusalCode::DeadlineExceeded, status.message()))
        }
        None => {
            Answered::Other { code: format!("{:?}", status.code()), message: status.message().to_owned() }
        }
    }
}

/// What a refusal message from a server says.
pub(crate) fn refusal(refusal: wire::Refusal) -> Answered {
    match RefusalCode::from_words(&refusal.code) {
        Some(code) => Answered::Refused(Refusal { code, reason: refusal.reason }),
        None => Answered::Other { code: refusal.code, message: refusal.reason },
    }
}
