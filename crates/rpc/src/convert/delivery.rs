use super::{not_empty, optional, page_size};
use crate::refusal::Refusal;
use crate::types::{Undelivered, UndeliveredPage, UndeliveredQuery, Unresolved};
use crate::wire;

impl TryFrom<wire::ListUndeliveredRequest> for UndeliveredQuery {
    type Error = Refusal;

    fn try_from(request: wire::ListUndeliveredRequest) -> Result<Self, Refusal> {
        Ok(Self {
            transaction_id: optional("transaction_id", request.transaction_id)?,
            page_size: page_size(request.page_size)?,
            cursor: optional("cursor", request.cursor)?,
        })
    }
}

impl From<&UndeliveredQuery> for wire::ListUndeliveredRequest {
    fn from(query: &UndeliveredQuery) -> Self {
        Self {
            transaction_id: query.transaction_id.clone().unwrap_or_default(),
            page_size: query.page_size,
            cursor: query.cursor.clone().unwrap_or_default(),
        }
    }
}

impl From<UndeliveredPage> for wire::ListUndeliveredResponse {
    fn from(page: UndeliveredPage) -> Self {
        let undelivered = page.undelivered.into_iter().map(|row| wire::Undelivered {
            transaction_id: row.transaction_id,
            party: row.party,
            is_member: row.is_member,
            first_tried_at_ms: row.first_tried_at_ms,
            last_tried_at_ms: row.last_tried_at_ms,
            due_at_ms: row.due_at_ms,
            reason: row.reason,
        });
        let unresolved = page.unresolved.into_iter().map(|row| wire::Unresolved {
            transaction_id: row.transaction_id,
            first_tried_at_ms: row.first_tried_at_ms,
            last_tried_at_ms: row.last_tried_at_ms,
            due_at_ms: row.due_at_ms,
            reason: row.reason,
        });
        Self {
            undelivered: undelivered.collect(),
            unresolved: unresolved.collect(),
            next: page.next.unwrap_or_default(),
        }
    }
}

impl From<wire::ListUndeliveredResponse> for UndeliveredPage {
    fn from(page: wire::ListUndeliveredResponse) -> Self {
        let undelivered = page.undelivered.into_iter().map(|row| Undelivered {
            transaction_id: row.transaction_id,
            party: row.party,
            is_member: row.is_member,
            first_tried_at_ms: row.first_tried_at_ms,
            last_tried_at_ms: row.last_tried_at_ms,
            due_at_ms: row.due_at_ms,
            reason: row.reason,
        });
        let unresolved = page.unresolved.into_iter().map(|row| Unresolved {
            transaction_id: row.transaction_id,
            first_tried_at_ms: row.first_tried_at_ms,
            last_tried_at_ms: row.last_tried_at_ms,
            due_at_ms: row.due_at_ms,
            reason: row.reason,
        });
        Self {
            undelivered: undelivered.collect(),
            unresolved: unresolved.collect(),
            next: not_empty(page.next),
        }
    }
}
