//! Attachments that the receiver lacks.

use tally_contracts::limits::ATTACHMENT_BYTES;
use tally_contracts::{Attachment, AttachmentId, Name};
use tally_flows::{AttachmentPart, Context, FlowError, Session};

use super::{FETCHED_ATTACHMENTS, FETCHED_BYTES, PART_BYTES, Part, Reply};

/// Where the attachments of transactions come from: this node, or else whoever offers the transactions.
pub struct Attachments<'a> {
    sender: Option<&'a Session>,
    fetched: usize,
    bytes: u64,
}

impl<'a> Attachments<'a> {
    /// Those that this node has, and no others.
    pub fn here() -> Self {
        Self { sender: None, fetched: 0, bytes: 0 }
    }

    /// Those that this node has; others are asked for in `session`, at whose other end [`super::Offered`] serves.
    pub fn from(session: &'a Session) -> Self {
        Self { sender: Some(session), ..Self::here() }
    }

    /// An attachment, which is durable here together with whatever this flow does next.
    ///
    /// # Errors
    /// [`FlowError::Invalid`] when nobody is asked, or the bytes are those of another attachment;
    /// [`FlowError::TooLarge`]; [`FlowError::Unexpected`] when the sender does not have it or sends something else;
    /// what the session fails with.
    pub async fn get(&mut self, context: &Context, id: AttachmentId) -> Result<Attachment, FlowError> {
        if let Some(found) = context.attachment(id).await? {
            return Ok(found);
        }
        let missing = || {
            FlowError::invalid(format!(
                "attachment {id} is not at this node; get it from its author and add it"
            ))
        };
        self.fetch(context, self.sender.ok_or_else(missing)?, id).await?;
        context.attachment(id).await?.ok_or_else(missing)
    }

    async fn fetch(
        &mut self,
        context: &Context,
        session: &Session,
        id: AttachmentId,
    ) -> Result<(), FlowError> {
        context.step("Fetching attachments");
        if self.fetched == FETCHED_ATTACHMENTS {
            return Err(FlowError::invalid(format!(
                "it and its history have more than {FETCHED_ATTACHMENTS} attachments that are not at this node"
            )));
        }
        self.fetched += 1;
        let length = self.part(session, id, 0, None).await?;
        let parts = parts(length);
        for number in 1..parts {
            self.part(session, id, number, Some(length)).await?;
        }
        self.bytes = self.bytes.saturating_add(length);
        context.attach(id, parts).await
    }

    /// Asks for a part, and gives the length of the attachment, which is that of the parts `before`.
    async fn part(
        &self,
        session: &Session,
        id: AttachmentId,
        number: u32,
        before: Option<u64>,
    ) -> Result<u64, FlowError> {
        session.send(&Reply::<()>::Part(id, number)).await;
        let due = Due { id, number, before, others: self.bytes };
        session
            .receive_part(|part| {
                let Part { length, bytes } = due.check(session.peer(), part)?;
                Ok((length, AttachmentPart { attachment: id, number, bytes: bytes.into() }))
            })
            .await
    }
}

/// A part that was asked for.
struct Due {
    id: AttachmentId,
    number: u32,
    /// Bytes of the attachment, as the parts before said it.
    before: Option<u64>,
    /// Bytes of the attachments before.
    others: u64,
}

impl Due {
    /// # Errors
    /// What came is not this part, or too much.
    fn check(&self, sender: &Name, part: Option<Part>) -> Result<Part, FlowError> {
        let Self { id, number, before, others } = *self;
        let unexpected = |reason: String| FlowError::Unexpected { party: sender.clone(), reason };
        let Some(part) = part else {
            return Err(unexpected(format!(
                "it does not have attachment {id}, which a transaction of its names"
            )));
        };
        let limit = ATTACHMENT_BYTES as u64;
        if part.length > limit {
            let what = format!("attachment {id}");
            return Err(FlowError::TooLarge { what, bytes: part.length, limit });
        }
        let bytes = others.saturating_add(part.length);
        if bytes > FETCHED_BYTES {
            let what = "what is attached to a transaction and its history".to_owned();
            return Err(FlowError::TooLarge { what, bytes, limit: FETCHED_BYTES });
        }
        if before.is_some_and(|before| before != part.length) {
            return Err(unexpected(format!("the length of attachment {id} changes from part to part")));
        }
        let size = PART_BYTES as u64;
        let due = part.length.saturating_sub(u64::from(number) * size).min(size);
        if part.bytes.len() as u64 != due {
            return Err(unexpected(format!(
                "part {number} of attachment {id} has {} bytes instead of {due}",
                part.bytes.len()
            )));
        }
        Ok(part)
    }
}

/// How many parts an attachment of this length has.
pub(super) fn parts(length: u64) -> u32 {
    u32::try_from(length.div_ceil(PART_BYTES as u64).max(1)).unwrap_or(u32::MAX)
}

/// A part of an attachment; `None` when it does not have so many.
pub(super) fn cut(attachment: &Attachment, number: u32) -> Option<Part> {
    let content = attachment.content();
    let length = content.len() as u64;
    if number >= parts(length) {
        return None;
    }
    let from = usize::try_from(number).ok()?.checked_mul(PART_BYTES)?;
    let until = content.len().min(from.saturating_add(PART_BYTES));
    Some(Part { length, bytes: content.get(from..until)?.to_vec() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_fetched_for_one_offer_is_bounded() {
        let sender = Name::new("Mallory", "London", "GB").expect("a name");
        let part = || Some(Part { length: 10, bytes: vec![1; 10] });
        let due = |others| Due { id: AttachmentId::of(b""), number: 0, before: None, others };
        assert_eq!(due(FETCHED_BYTES - 10).check(&sender, part()), Ok(part().expect("a part")));
        let refused = due(FETCHED_BYTES - 9).check(&sender, part());
        assert!(
            matches!(refused, Err(FlowError::TooLarge { bytes, limit: FETCHED_BYTES, .. }) if bytes == FETCHED_BYTES + 1),
            "{refused:?}"
        );
    }

    #[test]
    fn parts_are_the_whole() {
        for length in [0, 1, PART_BYTES - 1, PART_BYTES, PART_BYTES + 1, 2 * PART_BYTES] {
            let whole = Attachment::new(vec![7; length]).expect("not too long");
            let count = parts(length as u64);
            let cuts: Vec<_> = (0..count).map(|number| cut(&whole, number).expect("a part")).collect();
            assert_eq!(cuts.iter().map(|part| part.bytes.len()).sum::<usize>(), length);
            assert!(cuts.iter().all(|part| part.length == length as u64));
            assert_eq!(cut(&whole, count), None);
            assert_eq!(cut(&whole, u32::MAX), None);
        }
    }
}
