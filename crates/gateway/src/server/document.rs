//! The OpenAPI 3.1 document, made from the handlers; and the shapes of what other crates define, as it has them.

use serde::Deserialize;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::{Modify, OpenApi, ToSchema};

/// What is not said by a handler.
#[derive(OpenApi)]
#[openapi(
    info(
        title = "Tallystick gateway",
        description = "Settlement for institutions and their systems. Amounts are decimals as text; times are ISO 8601 in UTC; \
                       errors are problem details (RFC 9457) whose code is one of ISO 20022 where there is one."
    ),
    tags(
        (name = "payments", description = "Handed in, and what became of them"),
        (name = "accounts", description = "Balances, statements and orders"),
        (name = "network", description = "Who takes part, and how it runs")
    ),
    components(schemas(crate::wire::ProblemDetails)),
    security(("token" = [])),
    modifiers(&Token)
)]
pub(super) struct Document;

struct Token;

impl Modify for Token {
    fn modify(&self, document: &mut utoipa::openapi::OpenApi) {
        let scheme = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build();
        let components = document.components.get_or_insert_with(Default::default);
        components.add_security_scheme("token", SecurityScheme::Http(scheme));
    }
}

/// A server-sent event, by its fields (WHATWG HTML, section 9.2.6).
#[derive(ToSchema, Deserialize)]
#[expect(dead_code, reason = "the shape is what counts")]
pub(crate) struct EventView {
    /// The outcome's sequence number.
    #[schema(pattern = "^[0-9]+$")]
    id: String,
    event: EventKind,
    /// An `OutcomeView` as JSON.
    #[schema(content_media_type = "application/json")]
    data: String,
}

#[derive(ToSchema, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum EventKind {
    /// A transaction's outcome is final.
    Outcome,
}

/// The configuration on which all stages agree.
#[derive(ToSchema, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "the shape is what counts")]
pub(crate) struct Network {
    /// The network's id, to which every signature commits: BLAKE3 of its genesis file, 64
    /// lower-case hexadecimal digits.
    #[schema(pattern = "^[0-9a-f]{64}$")]
    id: String,
    /// By participant id.
    participants: Vec<Participant>,
    /// By asset id.
    assets: Vec<Asset>,
    signatures: SignaturePolicy,
    /// How far ahead an expiry may lie, in milliseconds; so long is every reference remembered.
    longest_validity_ms: u64,
}

/// A regulated institution.
#[derive(ToSchema, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "the shape is what counts")]
pub(crate) struct Participant {
    /// ISO 9362.
    bic: String,
    /// X.500.
    name: String,
    /// Ed25519 public key, in hexadecimal.
    key: String,
    /// Asset id and minor units: how far below zero its settlement account may go.
    settlement_floors: Vec<(u16, i64)>,
}

/// What accounts hold.
#[derive(ToSchema, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "the shape is what counts")]
pub(crate) struct Asset {
    /// ISO 4217 code or ISIN.
    code: String,
    kind: AssetKind,
    /// Decimals of the minor unit.
    exponent: u8,
    /// Participant id of where the others hold settlement accounts in it.
    settled_at: u16,
    /// Minor units.
    largest_payment: i64,
}

/// What an asset is.
#[derive(ToSchema, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum AssetKind {
    Currency,
    Security,
}

/// Which transactions need their payers' signatures.
#[derive(ToSchema, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum SignaturePolicy {
    Required,
    InstitutionsOnly,
}

/// Whether an account takes part in payments.
#[derive(ToSchema, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum AccountStatus {
    Open,
    Frozen,
    Closed,
}

/// A head of the Merkle log and its operator's signature.
#[derive(ToSchema, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "the shape is what counts")]
pub(crate) struct SignedTreeHead {
    head: TreeHead,
    /// Ed25519, in hexadecimal.
    signature: String,
}

/// The state of the Merkle log at one moment (RFC 9162, section 4.10).
#[derive(ToSchema, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "the shape is what counts")]
pub(crate) struct TreeHead {
    /// Number of leaves.
    size: u64,
    /// SHA-256, in hexadecimal.
    root: String,
    /// Milliseconds since the Unix epoch.
    timestamp_ms: u64,
}

/// Proof that a transaction has its place and its verdict in the one global order.
#[derive(ToSchema, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "the shape is what counts")]
pub(crate) struct Receipt {
    /// The transaction's id, in hexadecimal.
    id: String,
    /// Its place.
    sequence: u64,
    /// 0 for made, else the refusal's number.
    verdict: u16,
    /// Sequence number of the first decision of its batch.
    first: u64,
    /// How many decisions its batch has.
    count: u32,
    scheduler: u64,
    batch: u64,
    /// When its batch was sequenced, in milliseconds since the Unix epoch.
    timestamp: u64,
    /// From the decision to the root of its batch, from below; BLAKE3, in hexadecimal.
    decision_path: Vec<String>,
    /// The root of its batch.
    root: String,
    /// Which leaf of the Merkle log its batch is.
    leaf: u64,
    /// From the batch to the root of the Merkle log, from below; SHA-256, in hexadecimal.
    tree_path: Vec<String>,
    head: SignedTreeHead,
    /// Of witnesses on that head; left out where there are none, as in a network that runs in one process.
    #[serde(default)]
    cosignatures: Vec<HeadCosignature>,
}

/// An institution's signature, as a witness, on the tree head beside which it stands (C2SP tlog-cosignature).
#[derive(ToSchema, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "the shape is what counts")]
pub(crate) struct HeadCosignature {
    /// Participant id of the witness, which is not the operator.
    participant: u16,
    /// When it signed, by its own clock, in seconds since the Unix epoch; below 2^63.
    time_s: u64,
    /// Ed25519, in hexadecimal, over the lines `cosignature/v1`, `time` and that time, the log's name
    /// (`tallystick.settlement/v2/` and the network's id), size, and root in base64, each with a newline.
    signature: String,
}

/// Proof that a transaction has its outcome, for whoever holds the network's public keys.
#[derive(ToSchema, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "the shape is what counts")]
pub(crate) struct Proof {
    /// 2.
    version: u32,
    transaction: Contents,
    receipt: Receipt,
    /// The institutions' answers.
    approvals: Vec<Approval>,
    /// Participant ids whose answers could not be shown.
    missing: Vec<u16>,
}

/// What a transaction's id commits to.
#[derive(ToSchema, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "the shape is what counts")]
pub(crate) struct Contents {
    /// 1 transfer, 2 issue, 3 redeem, 4 account order.
    kind: u8,
    /// Participant ids of all whom it concerns, ascending.
    participants: Vec<u16>,
    /// The network's id: 64 lower-case hexadecimal digits.
    #[schema(pattern = "^[0-9a-f]{64}$")]
    network: String,
    /// Milliseconds since the Unix epoch.
    expiry: u64,
    uetr: String,
    /// Hash of the payment message or account order, in hexadecimal.
    details: String,
    legs: Vec<ProvenLeg>,
}

/// One leg: shown with the salt that shows that it belongs to the id, or its hash alone.
#[derive(ToSchema, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[expect(dead_code, reason = "the shape is what counts")]
pub(crate) enum ProvenLeg {
    Hidden(String),
    Shown {
        participant: u16,
        asset: u16,
        account: u32,
        /// Minor units; negative for a debit.
        amount: i64,
        salt: String,
    },
}

/// One institution's answer under its signature.
#[derive(ToSchema, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "the shape is what counts")]
pub(crate) struct Approval {
    participant: u16,
    /// 0 for yes, else the refusal's number.
    verdict: u16,
    index: u32,
    batch_len: u32,
    /// From the answer to the root of the institution's batch of answers, from below.
    path: Vec<Sibling>,
    signature: String,
}

/// A hash beside the path from an answer to the root, BLAKE3 in hexadecimal.
#[derive(ToSchema, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(dead_code, reason = "the shape is what counts")]
pub(crate) enum Sibling {
    Left(String),
    Right(String),
}

/// Two heads and the proof that the later log extends the earlier one (RFC 9162, section 2.1.4).
#[derive(ToSchema, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "the shape is what counts")]
pub(crate) struct Consistency {
    first: SignedTreeHead,
    second: SignedTreeHead,
    path: Vec<String>,
    /// Of witnesses on the first head; left out where there are none.
    #[serde(default)]
    first_cosignatures: Vec<HeadCosignature>,
    /// Of witnesses on the second head; left out where there are none.
    #[serde(default)]
    second_cosignatures: Vec<HeadCosignature>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use tally_crypto::SigningKey;
    use tally_ledger::{Amount, AssetId, NetworkId, ParticipantId};

    /// What another crate writes has the shape that the document says.
    fn fits<T: serde::de::DeserializeOwned>(value: impl serde::Serialize) {
        let text = serde_json::to_string(&value).unwrap();
        if let Err(error) = serde_json::from_str::<T>(&text) {
            panic!("{error}: {text}");
        }
    }

    #[test]
    fn shapes_are_those_of_what_is_written() {
        let key = SigningKey::from_seed([1; 32]).public_key();
        let participant = tally_ledger::Participant {
            bic: "TSCBDEFF".to_owned(),
            name: "O=X,C=DE".to_owned(),
            key,
            settlement_floors: vec![(AssetId(0), Amount(-5))],
        };
        let asset = tally_ledger::Asset {
            code: "EUR".to_owned(),
            kind: tally_ledger::AssetKind::Security,
            exponent: 2,
            settled_at: ParticipantId(0),
            largest_payment: Amount(7),
        };
        fits::<Network>(tally_ledger::Network {
            id: NetworkId([0xff; 32]),
            participants: vec![participant],
            assets: vec![asset],
            signatures: tally_ledger::SignaturePolicy::InstitutionsOnly,
            longest_validity_ms: 1,
        });
        fits::<AccountStatus>(tally_ledger::AccountStatus::Frozen);
        // With cosignatures, and without.
        for text in [
            include_str!("../../../proof/tests/golden/proof.json"),
            include_str!("../../../proof/tests/golden/cosigned_proof.json"),
        ] {
            let proof: tally_proof::Proof = serde_json::from_str(text).unwrap();
            fits::<Receipt>(&proof.receipt);
            let (head, cosignatures) = (proof.receipt.head, proof.receipt.cosignatures.clone());
            fits::<Consistency>(tally_proof::Consistency {
                first: head,
                second: head,
                path: Vec::new(),
                first_cosignatures: cosignatures.clone(),
                second_cosignatures: cosignatures,
            });
            fits::<Proof>(proof);
        }
    }

    #[test]
    fn every_operation_has_a_sentence_and_every_refusal_problem_details() {
        let document = serde_json::to_value(crate::server::document()).unwrap();
        assert!(document["openapi"].as_str().unwrap().starts_with("3.1"));
        let mut operations = std::collections::BTreeSet::new();
        for (path, item) in document["paths"].as_object().unwrap() {
            for (method, operation) in item.as_object().unwrap() {
                let id = operation["operationId"].as_str().unwrap();
                assert!(operations.insert(id), "{id} is the name of two operations");
                let has_summary = operation["summary"].as_str().is_some_and(|text| !text.is_empty());
                assert!(has_summary, "{method} {path}");
                for (status, response) in operation["responses"].as_object().unwrap() {
                    let details = response["content"]["application/problem+json"].is_object();
                    let is_health = response["content"]["application/json"].is_object();
                    assert!(status == "200" || details || is_health, "{method} {path} {status}");
                }
            }
        }
        assert!(operations.len() >= 25, "{operations:?}");
        // What is referred to is there.
        let text = document.to_string();
        for part in text.split("#/components/schemas/").skip(1) {
            let name = part.split('"').next().unwrap();
            assert!(document["components"]["schemas"][name].is_object(), "{name}");
        }
    }
}
