//! What any request may be answered with instead, for the OpenAPI document.

use crate::wire::ProblemDetails;
use std::collections::BTreeMap;
use utoipa::openapi::{ContentBuilder, Ref, RefOr, Response, ResponseBuilder};
use utoipa::{IntoResponses, ToSchema};

/// Statuses of refusals, and when they are given.
const STATUSES: [(&str, &str); 12] = [
    ("400", "The request is malformed"),
    ("401", "Nobody was recognised"),
    ("403", "The user may not do this"),
    ("404", "There is no such thing"),
    ("405", "The path has another method"),
    ("408", "The body did not come in time"),
    ("413", "The body is too large"),
    ("415", "The body is of another kind"),
    ("422", "Another payment was made under the reference"),
    ("429", "More was sent than agreed"),
    ("500", "The gateway failed"),
    ("503", "The network cannot answer now"),
];

pub(super) struct Refusals;

impl IntoResponses for Refusals {
    fn responses() -> BTreeMap<String, RefOr<Response>> {
        let content = || {
            let schema = Ref::from_schema_name(ProblemDetails::name());
            ContentBuilder::new().schema(Some(schema)).build()
        };
        let response = |text: &str| {
            ResponseBuilder::new().description(text).content("application/problem+json", content()).build()
        };
        STATUSES.iter().map(|(status, text)| ((*status).to_owned(), response(text).into())).collect()
    }
}
