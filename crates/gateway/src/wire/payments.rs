//! Payments on their way in: as JSON or as messages, prepared and signed.

use super::Problem;
use serde::{Deserialize, Serialize};
use tally_crypto::PublicKey;
use utoipa::ToSchema;

/// Body of `POST /v1/payments/prepare`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PaymentsBody {
    /// 1 to 1000 payments.
    #[schema(min_items = 1, max_items = 1000)]
    pub payments: Vec<WantedPayment>,
}

/// A payment to make.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct WantedPayment {
    /// Its end-to-end reference, a UUID; without one it gets one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(pattern = "^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$")]
    pub uetr: Option<String>,
    /// The account that pays.
    pub from: AccountName,
    /// The account that is paid.
    pub to: AccountName,
    /// How much: a decimal above zero, such as `10.50`.
    pub amount: String,
    /// Currency code or ISIN.
    pub asset: String,
    /// Hash of what the payment is for, kept elsewhere: 32 bytes in hexadecimal, which the payer signs too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<String>,
}

/// How an account is called.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AccountName {
    /// BIC of the institution that holds it.
    pub institution: String,
    /// IBAN or other alias, number, or role such as `own:EUR`.
    pub account: String,
}

/// Body of `POST /v1/payments`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SignedPaymentsBody {
    /// 1 to 1000 payments.
    #[schema(min_items = 1, max_items = 1000)]
    pub payments: Vec<SignedPayment>,
}

/// A draft and who signed it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SignedPayment {
    /// The draft's transaction, as it was prepared.
    pub transaction: String,
    /// One signature of each of the draft's signers.
    #[schema(max_items = 255)]
    pub signatures: Vec<GivenSignature>,
}

/// A signature over a transaction's id.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct GivenSignature {
    /// Whose: an Ed25519 public key in hexadecimal.
    pub key: String,
    /// Over the 32 bytes of the id: Ed25519 (RFC 8032), in hexadecimal.
    pub signature: String,
}

/// Answer of `POST /v1/iso20022/prepare` and `POST /v1/payments/prepare`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct PreparedBody {
    /// Why the message as a whole cannot be read; then there are no payments.
    pub refused: Option<Problem>,
    /// One for each payment, in order.
    pub payments: Vec<PreparedPayment>,
}

/// A payment of a message: refused already, or ready to be signed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct PreparedPayment {
    /// Its reference.
    pub uetr: String,
    /// Why it is refused.
    pub refused: Option<Problem>,
    /// What to sign.
    pub draft: Option<Draft>,
}

/// A transaction that wants signatures.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Draft {
    /// A batch of one, encoded and in hexadecimal.
    pub transaction: String,
    /// Its id, which is what is signed; in hexadecimal.
    pub id: String,
    /// Its legs, for people.
    pub legs: Vec<LegView>,
    /// Who must sign.
    #[schema(value_type = Vec<String>)]
    pub signers: Vec<PublicKey>,
}

/// A leg, for people.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct LegView {
    /// BIC.
    pub institution: String,
    /// The account's alias, number, or role.
    pub account: String,
    /// The amount as a decimal, negative for a debit.
    pub amount: String,
    /// Code of the asset.
    pub asset: String,
}

/// Body of `POST /v1/iso20022/submit`. The answer is a pain.002 to a pain.001, else a pacs.002.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SubmitBody {
    /// The message as it was prepared, in base64.
    pub message: String,
    /// The signed drafts: the payment's position in the message, and the batch of one in hexadecimal.
    pub signed: Vec<SignedDraft>,
}

/// A signed draft.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SignedDraft {
    /// Position of the payment in the message, from 0.
    pub position: usize,
    /// The batch of one, encoded and in hexadecimal.
    pub transaction: String,
}
