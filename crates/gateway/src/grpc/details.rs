//! What the status of a refused call holds: `google.rpc.Status` with a `Refused` of ours and, where it makes sense, the
//! standard `google.rpc.RetryInfo`.

use super::wire::Refused;
use prost::Message;
use prost_types::Any;

const REFUSED: &str = "type.googleapis.com/tallystick.v1.Refused";
const RETRY_INFO: &str = "type.googleapis.com/google.rpc.RetryInfo";

/// `google.rpc.Status` of google/rpc/status.proto: what `grpc-status-details-bin` holds.
#[derive(Clone, PartialEq, Message)]
struct Details {
    #[prost(int32, tag = "1")]
    code: i32,
    #[prost(string, tag = "2")]
    message: String,
    #[prost(message, repeated, tag = "3")]
    details: Vec<Any>,
}

/// `google.rpc.RetryInfo` of google/rpc/error_details.proto.
#[derive(Clone, PartialEq, Message)]
struct RetryInfo {
    #[prost(message, optional, tag = "1")]
    retry_delay: Option<prost_types::Duration>,
}

/// The status of a call that was refused so.
pub(crate) fn status(refused: &Refused) -> tonic::Status {
    let mut details =
        Details { code: refused.status, message: refused.text.clone(), details: vec![any(REFUSED, refused)] };
    if refused.retry_after_ms > 0 {
        let after = std::time::Duration::from_millis(refused.retry_after_ms);
        let info = RetryInfo { retry_delay: prost_types::Duration::try_from(after).ok() };
        details.details.push(any(RETRY_INFO, &info));
    }
    let code = tonic::Code::from_i32(refused.status);
    tonic::Status::with_details(code, refused.text.clone(), details.encode_to_vec().into())
}

/// What a status says; from its details, where it has ours.
pub(crate) fn refused(status: &tonic::Status) -> Refused {
    let ours = |details: Details| {
        let found = details.details.into_iter().find(|any| any.type_url == REFUSED)?;
        Refused::decode(found.value.as_slice()).ok()
    };
    Details::decode(status.details()).ok().and_then(ours).unwrap_or_else(|| Refused {
        status: status.code() as i32,
        code: format!("{:?}", status.code()),
        text: status.message().to_owned(),
        retry_after_ms: 0,
    })
}

fn any(type_url: &str, message: &impl Message) -> Any {
    Any { type_url: type_url.to_owned(), value: message.encode_to_vec() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_read_back_and_others_are_told_as_they_are() {
        let told = Refused {
            status: 8,
            code: "quota".to_owned(),
            text: "too much".to_owned(),
            retry_after_ms: 1500,
        };
        let sent = status(&told);
        assert_eq!((sent.code(), sent.message()), (tonic::Code::ResourceExhausted, "too much"));
        assert_eq!(refused(&sent), told);
        let details = Details::decode(sent.details()).unwrap();
        let retry = details.details.iter().find(|any| any.type_url == RETRY_INFO).unwrap();
        let delay = RetryInfo::decode(retry.value.as_slice()).unwrap().retry_delay.unwrap();
        assert_eq!((delay.seconds, delay.nanos), (1, 500_000_000));
        let other = refused(&tonic::Status::cancelled("gone"));
        assert_eq!((other.status, other.code.as_str(), other.text.as_str()), (1, "Cancelled", "gone"));
    }
}
