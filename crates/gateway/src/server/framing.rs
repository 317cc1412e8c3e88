//! Requests whose length, receiver or meaning two readers could understand differently: refused, for a proxy in front, or the
//! next part of the gateway, may be the other reader (RFC 9112, sections 3.2, 6.1 and 11.2; RFC 9110, section 5.3).

use super::failure::Failure;
use axum::extract::Request;
use axum::http::{HeaderMap, Version, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

pub(super) async fn check(request: Request, next: Next) -> Response {
    match unclear(request.version(), request.headers()) {
        None => next.run(request).await,
        Some(what) => Failure::form(what).closing().into_response(),
    }
}

/// Headers that say one thing, and what is answered where one is there more than once: the first and the last may not say the
/// same.
const SINGLE: [(&str, &str); 5] = [
    ("authorization", "authorization: it is there more than once"),
    ("idempotency-key", "Idempotency-Key: it is there more than once"),
    ("last-event-id", "Last-Event-ID: it is there more than once"),
    ("content-type", "content-type: it is there more than once"),
    ("content-length", "content-length: it is there more than once"),
];

/// What is unclear about a request's head.
fn unclear(version: Version, headers: &HeaderMap) -> Option<&'static str> {
    let count = |name| headers.get_all(name).iter().count();
    for (name, twice) in SINGLE {
        if headers.get_all(name).iter().count() > 1 {
            return Some(twice);
        }
    }
    if version >= Version::HTTP_2 {
        return None;
    }
    if count(header::HOST) > 1 || (version == Version::HTTP_11 && count(header::HOST) == 0) {
        return Some("host: one is wanted");
    }
    let mut encodings = headers.get_all(header::TRANSFER_ENCODING).iter();
    match (encodings.next(), encodings.next()) {
        (None, _) => None,
        (Some(one), None) if one.as_bytes().eq_ignore_ascii_case(b"chunked") => None,
        _ => Some("transfer-encoding: chunked alone is taken, once"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    #[test]
    fn what_can_be_read_in_two_ways_is_refused() {
        let is_clear = |version, given: &[(header::HeaderName, &'static str)]| {
            let mut headers = HeaderMap::new();
            for (name, value) in given {
                headers.append(name, HeaderValue::from_static(value));
            }
            unclear(version, &headers).is_none()
        };
        let host = (header::HOST, "x");
        let encoded = |value| (header::TRANSFER_ENCODING, value);
        assert!(is_clear(Version::HTTP_11, std::slice::from_ref(&host)));
        assert!(is_clear(Version::HTTP_11, &[host.clone(), encoded("Chunked")]));
        assert!(is_clear(Version::HTTP_2, &[]));
        assert!(is_clear(Version::HTTP_10, &[]));
        assert!(!is_clear(Version::HTTP_11, &[]));
        assert!(!is_clear(Version::HTTP_11, &[host.clone(), host.clone()]));
        assert!(!is_clear(Version::HTTP_11, &[host.clone(), encoded("identity, chunked")]));
        assert!(!is_clear(Version::HTTP_11, &[host.clone(), encoded("chunked"), encoded("chunked")]));
        for (name, _) in SINGLE {
            let name = header::HeaderName::from_static(name);
            assert!(is_clear(Version::HTTP_2, &[(name.clone(), "1")]), "{name}");
            for second in ["1", "2"] {
                assert!(!is_clear(Version::HTTP_2, &[(name.clone(), "1"), (name.clone(), second)]), "{name}");
            }
        }
    }
}
