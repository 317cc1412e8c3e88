//! What goes over HTTP, version 1: the JSON that the server writes and the client reads.

mod payments;

pub use payments::{
    AccountName, Draft, GivenSignature, LegView, PaymentsBody, PreparedBody, PreparedPayment, SignedDraft,
    SignedPayment, SignedPaymentsBody, SubmitBody, WantedPayment,
};

use crate::server::document;
use crate::settings::ParticipantKind;
use serde::{Deserialize, Serialize};
use tally_crypto::PublicKey;
use tally_crypto::log::SignedTreeHead;
use tally_ledger::{AccountStatus, AssetKind, Network};
use utoipa::ToSchema;

/// Why something was refused: an ISO 20022 code and one sentence.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Problem {
    /// The code, such as `AM04`.
    pub code: String,
    /// What was wrong.
    pub text: String,
}

/// The body of every answer that is an error: problem details (RFC 9457), as `application/problem+json`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct ProblemDetails {
    /// What kind of problem it is: `urn:tallystick:problem:` and the code.
    #[serde(rename = "type")]
    pub kind: String,
    /// The kind of problem in words that do not depend on the request.
    pub title: String,
    /// HTTP status.
    pub status: u16,
    /// What was wrong with this request.
    pub detail: String,
    /// A code of ISO 20022 where there is one, such as `AC01`, else a word such as `not-found`.
    pub code: String,
}

/// Answer of `GET /v1/network`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct NetworkView {
    /// The configuration on which all stages agree.
    #[schema(value_type = document::Network)]
    pub network: Network,
    /// What each participant is, by participant id.
    pub kinds: Vec<ParticipantKind>,
    /// By participant and asset, where there is anything.
    pub totals: Vec<TotalView>,
    /// How many transactions have been decided.
    pub sequence: u64,
    /// The signed head of the log of decisions; none before the first.
    #[schema(value_type = Option<document::SignedTreeHead>)]
    pub tree_head: Option<SignedTreeHead>,
    /// How the network is.
    pub health: HealthView,
}

/// What an institution holds and owes in one asset, in minor units.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct TotalView {
    /// BIC.
    pub institution: String,
    /// Code of the asset.
    pub asset: String,
    /// How many customers' accounts it has in it.
    pub accounts: u64,
    /// What it issued.
    #[schema(value_type = i64)]
    pub issued: i128,
    /// What its customers have.
    #[schema(value_type = i64)]
    pub customers: i128,
    /// What it has itself.
    #[schema(value_type = i64)]
    pub own: i128,
    /// What others have on settlement accounts with it.
    #[schema(value_type = i64)]
    pub settlement: i128,
}

/// Answer of `GET /health`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct HealthView {
    /// Whether payments are taken.
    pub healthy: bool,
    /// One sentence.
    pub text: String,
}

/// Answer of `GET /v1/accounts/{bic}`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct BooksView {
    /// BIC.
    pub institution: String,
    /// The number of the account that is opened next.
    pub next_account: u32,
}

/// Answer of `GET /v1/accounts/{bic}/{account}`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct AccountBody {
    /// BIC.
    pub institution: String,
    /// Its number in the institution's books.
    pub number: u32,
    /// Its IBAN or other alias.
    pub alias: Option<String>,
    /// Code of the asset that it holds.
    pub asset: String,
    /// The balance as a decimal.
    pub balance: String,
    /// The balance in minor units.
    pub minor_units: i64,
    /// How far below zero it may go, as a decimal: zero or negative.
    pub floor: String,
    /// Whether it takes part in payments.
    #[schema(value_type = document::AccountStatus)]
    pub status: AccountStatus,
    /// Whose signature debits it: the customer's or, for an institution's own account, the institution's.
    #[schema(value_type = String)]
    pub owner: PublicKey,
}

/// Answer of `GET /v1/accounts/{bic}/{account}/statement`, the newest entry first.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct StatementBody {
    /// The account now.
    pub account: AccountBody,
    /// The entries.
    pub entries: Vec<EntryView>,
    /// What to give as `before` for the entries that follow; none when there are no more.
    pub next: Option<u64>,
}

/// One entry of a statement.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct EntryView {
    /// Its place in the global order.
    pub sequence: u64,
    /// When, as an ISO 8601 time.
    pub time: String,
    /// The transaction's reference.
    pub uetr: String,
    /// What the account got, negative for a debit; a decimal.
    pub amount: String,
    /// What it held then; a decimal.
    pub balance: String,
}

/// How far a transaction came.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub enum Status {
    /// Settled, for ever.
    #[serde(rename = "ACSC")]
    Settled,
    /// Refused.
    #[serde(rename = "RJCT")]
    Refused,
    /// Not decided yet.
    #[serde(rename = "PDNG")]
    Pending,
}

impl Status {
    /// The four letters of the standard.
    pub fn code(self) -> &'static str {
        match self {
            Self::Settled => "ACSC",
            Self::Refused => "RJCT",
            Self::Pending => "PDNG",
        }
    }
}

/// What became of one transaction.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct OutcomeView {
    /// The transaction's id, in hexadecimal.
    pub id: String,
    /// Its reference.
    pub uetr: String,
    /// How far it came.
    pub status: Status,
    /// Why it was refused.
    pub reason: Option<Problem>,
    /// Its place in the global order, if it has one.
    pub sequence: Option<u64>,
    /// When it was decided, as an ISO 8601 time.
    pub time: Option<String>,
    /// When it was refused as a duplicate: what became of the first with that reference.
    #[schema(no_recursion)]
    pub first: Option<Box<OutcomeView>>,
}

/// Answer of `POST /v1/transactions`, `POST /v1/payments` and `POST /v1/accounts`: one for each transaction, in order.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct OutcomesBody {
    /// The outcomes.
    pub outcomes: Vec<OutcomeView>,
}

/// Answer of `GET /v1/institutions`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct InstitutionsBody {
    /// By participant id.
    pub institutions: Vec<InstitutionView>,
}

/// A regulated institution.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct InstitutionView {
    /// ISO 9362.
    pub bic: String,
    /// X.500.
    pub name: String,
    /// What it is.
    pub kind: ParticipantKind,
    /// Its number in legs, keys and proofs.
    pub participant: u16,
    /// Its Ed25519 public key, in hexadecimal.
    #[schema(value_type = String)]
    pub key: PublicKey,
}

/// Answer of `GET /v1/assets`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct AssetsBody {
    /// By asset id.
    pub assets: Vec<AssetView>,
}

/// What accounts hold.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct AssetView {
    /// ISO 4217 code or ISIN.
    pub code: String,
    /// What it is.
    #[schema(value_type = document::AssetKind)]
    pub kind: AssetKind,
    /// Its number in legs and proofs.
    pub asset: u16,
    /// Decimals of the minor unit.
    pub exponent: u8,
    /// BIC of the institution where the others hold settlement accounts in it.
    pub settled_at: String,
    /// The largest payment, as a decimal.
    pub largest_payment: String,
}
