//! Documents that a transaction names by hash.

use crate::limits::ATTACHMENT_BYTES;
use crate::{AttachmentId, DecodeError};
use std::sync::Arc;

/// A document and its id, which always belong together. Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attachment {
    id: AttachmentId,
    content: Arc<[u8]>,
}

impl Attachment {
    /// The attachment with this content.
    ///
    /// # Errors
    /// [`DecodeError::TooLong`] beyond [`ATTACHMENT_BYTES`].
    pub fn new(content: impl Into<Arc<[u8]>>) -> Result<Self, DecodeError> {
        let content = content.into();
        if content.len() > ATTACHMENT_BYTES {
            let got = content.len();
            return Err(DecodeError::TooLong { what: "an attachment", limit: ATTACHMENT_BYTES, got });
        }
        Ok(Self { id: AttachmentId::of(&content), content })
    }

    /// The hash of the content.
    pub fn id(&self) -> AttachmentId {
        self.id
    }

    /// The document.
    pub fn content(&self) -> &[u8] {
        &self.content
    }
}
