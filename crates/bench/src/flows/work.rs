//! The flows that are measured, as a client asks for them.

use serde_json::{Value, json};
use tally_rpc::StartFlow;

use super::network::name;

/// What a node is asked to do, over and over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    /// To issue cash to itself: no other node takes part, not even the notary.
    Issue,
    /// To pay PartyB, each time with one coin of an issuance of its own, whole, in so many coins.
    Pay {
        /// In how many.
        outputs: u32,
    },
    /// To owe PartyB something.
    Iou,
    /// To ask PartyB for an answer, which waits so many milliseconds.
    Ping {
        /// How many.
        after_ms: u64,
    },
}

/// What one issuance makes, and one payment pays: a coin of 100.00.
pub const AMOUNT: &str = "100.00 USD";

impl Work {
    /// The flow's name.
    #[must_use]
    pub fn flow(self) -> &'static str {
        match self {
            Self::Issue => "CashIssue",
            Self::Pay { .. } => "CashPay",
            Self::Iou => "IouCreate",
            Self::Ping { .. } => "Ping",
        }
    }

    /// The request. All are the same: a client's numbering would only be carried along.
    #[must_use]
    pub fn request(self) -> StartFlow {
        let party_b = name("PartyB").to_string();
        let arguments = match self {
            Self::Issue => json!({ "amount": AMOUNT }),
            Self::Pay { outputs } => json!({ "amount": AMOUNT, "to": party_b, "outputs": outputs }),
            Self::Iou => json!({ "value": 42, "lender": party_b }),
            Self::Ping { after_ms } => json!({ "to": party_b, "after_ms": after_ms }),
        };
        request(self.flow(), arguments)
    }
}

/// A request with these arguments, an object.
pub(crate) fn request(flow: &str, arguments: Value) -> StartFlow {
    let arguments = match arguments {
        Value::Object(arguments) => arguments,
        _ => serde_json::Map::new(),
    };
    StartFlow { flow: flow.to_owned(), arguments, request_id: None }
}
