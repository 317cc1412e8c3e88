//! Answers that stay the same, which clients need not fetch twice (RFC 9110, section 8.8.3).

use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use std::sync::Arc;

/// A text in JSON and its entity tag.
#[derive(Clone)]
pub(super) struct Tagged {
    text: Arc<str>,
    tag: HeaderValue,
}

impl Tagged {
    pub(super) fn new(text: String) -> Self {
        let tag = format!("\"{}\"", tally_crypto::hash(text.as_bytes()));
        Self { text: text.into(), tag: HeaderValue::try_from(tag).expect("hexadecimal is visible ASCII") }
    }

    /// The text, or that it is the one that the client has.
    pub(super) fn answer(&self, headers: &HeaderMap) -> Response {
        let has = |value: &HeaderValue| {
            let tags = value.to_str().unwrap_or_default().split(',').map(str::trim);
            // The weak comparison (section 8.8.3.2).
            tags.map(|tag| tag.strip_prefix("W/").unwrap_or(tag)).any(|tag| tag == "*" || self.tag == tag)
        };
        let tag =
            [(header::ETAG, self.tag.clone()), (header::CACHE_CONTROL, HeaderValue::from_static("no-cache"))];
        if headers.get_all(header::IF_NONE_MATCH).iter().any(has) {
            return (StatusCode::NOT_MODIFIED, tag).into_response();
        }
        (tag, [(header::CONTENT_TYPE, "application/json")], self.text.to_string()).into_response()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_client_has_is_not_sent_again() {
        let tagged = Tagged::new("{}".to_owned());
        let first = tagged.answer(&HeaderMap::new());
        assert_eq!(first.status(), 200);
        let tag = first.headers()[header::ETAG].to_str().unwrap().to_owned();
        let ask = |value: String| {
            let mut headers = HeaderMap::new();
            headers.insert(header::IF_NONE_MATCH, HeaderValue::try_from(value).unwrap());
            tagged.answer(&headers).status().as_u16()
        };
        assert_eq!(ask(tag.clone()), 304);
        assert_eq!(ask(format!("\"other\", W/{tag}")), 304);
        assert_eq!(ask("*".to_owned()), 304);
        assert_eq!(ask("\"other\"".to_owned()), 200);
        let other = Tagged::new("[]".to_owned()).answer(&HeaderMap::new());
        assert_ne!(other.headers()[header::ETAG], tag);
    }
}
