use std::fmt;

/// Why a call was refused: a stable code to act on and a reason for a person.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason} [{code}]")]
pub struct Refusal {
    /// What kind of refusal it is.
    pub code: RefusalCode,
    /// What was wrong and what to do, in a sentence.
    pub reason: String,
}

impl Refusal {
    /// A refusal with its reason.
    pub fn new(code: RefusalCode, reason: impl Into<String>) -> Self {
        Self { code, reason: reason.into() }
    }
}

macro_rules! codes {
    ($($(#[doc = $doc:literal])+ $name:ident = $text:literal, $grpc:ident;)+) => {
        /// The stable codes of refusals. On the wire they are words; each maps to one gRPC status code.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum RefusalCode {
            $($(#[doc = $doc])+ $name,)+
        }

        impl RefusalCode {
            /// Every code.
            pub const ALL: &[Self] = &[$(Self::$name),+];

            /// The code in words, as on the wire and in the documentation.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)+
                }
            }

            /// The code of these words.
            pub fn from_words(words: &str) -> Option<Self> {
                match words {
                    $($text => Some(Self::$name),)+
                    _ => None,
                }
            }

            pub(crate) const fn grpc(self) -> tonic::Code {
                match self {
                    $(Self::$name => tonic::Code::$grpc,)+
                }
            }
        }
    };
}

codes! {
    /// The password is wrong or the user is unknown; the answer does not say which.
    BadCredentials = "bad-credentials", Unauthenticated;
    /// Too many failed logins, or too many logins at once; try again later.
    LoginThrottled = "login-throttled", ResourceExhausted;
    /// The call carries no token.
    TokenMissing = "token-missing", Unauthenticated;
    /// The token is not one of this node's, or was withdrawn.
    TokenUnknown = "token-unknown", Unauthenticated;
    /// The token's time is over; log in again.
    TokenExpired = "token-expired", Unauthenticated;
    /// The user lacks the permission that the reason names.
    PermissionMissing = "permission-missing", PermissionDenied;
    /// No flow of this name can be started here.
    FlowUnknown = "flow-unknown", NotFound;
    /// No flow has this id.
    FlowIdUnknown = "flow-id-unknown", NotFound;
    /// The flow's state does not allow this, for example to pause a flow that has ended.
    FlowState = "flow-state", FailedPrecondition;
    /// The flow's arguments are not a JSON object or not what the flow takes.
    ArgumentsInvalid = "arguments-invalid", InvalidArgument;
    /// A field of the request is malformed or out of range.
    RequestInvalid = "request-invalid", InvalidArgument;
    /// The request id was used before for another start.
    RequestIdReused = "request-id-reused", AlreadyExists;
    /// A cursor is not one that this node gave for this query.
    CursorInvalid = "cursor-invalid", InvalidArgument;
    /// No recorded transaction has this id.
    TransactionUnknown = "transaction-unknown", NotFound;
    /// No stored attachment has this id.
    AttachmentUnknown = "attachment-unknown", NotFound;
    /// The attachment is longer than the limit.
    AttachmentTooLarge = "attachment-too-large", ResourceExhausted;
    /// A message is longer than the limit.
    MessageTooLarge = "message-too-large", ResourceExhausted;
    /// The client read its stream too slowly and was disconnected; start again from a new snapshot.
    ClientSlow = "client-slow", ResourceExhausted;
    /// The node has as many connections as it takes.
    ConnectionsExceeded = "connections-exceeded", ResourceExhausted;
    /// The call's deadline passed before its answer. What it started may go on.
    DeadlineExceeded = "deadline-exceeded", DeadlineExceeded;
    /// The node has as much work as it takes; try again later.
    Overloaded = "overloaded", ResourceExhausted;
    /// The node is stopping, or not ready yet.
    Unavailable = "unavailable", Unavailable;
    /// The node cannot write or read its database at the moment; nothing was accepted.
    StoreUnavailable = "store-unavailable", Unavailable;
    /// The node itself is at fault; its log says more.
    Internal = "internal", Internal;
}

impl fmt::Display for RefusalCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
