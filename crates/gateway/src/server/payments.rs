//! `POST /v1/payments/prepare` and `POST /v1/payments`

use super::body::Body;
use super::caller::{By, Submits};
use super::failure::Failure;
use super::messages::{is_same, may_be_behind, problem};
use super::refusals::Refusals;
use super::{App, FEW, blocking, making, outcome, part};
use crate::account_name::account_number;
use crate::payments::{Accounts as _, Order, signers};
use crate::wire::{
    AccountName, OutcomesBody, PaymentsBody, PreparedBody, PreparedPayment, SignedPayment,
    SignedPaymentsBody, WantedPayment,
};
use crate::{codec, random_uetr};
use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use std::sync::Arc;
use tally_crypto::{Hash, PublicKey, Signature};
use tally_iso20022::{Reason, StatusReason};
use tally_ledger::transaction::Signer;
use tally_ledger::{AccountId, Amount, Kind, Leg, ParticipantId, Transaction, Uetr};
use tally_settlement::engine::{Answer, FirstUse, Outcome};
use tally_settlement::path;

/// The most payments of one request.
const MAX_PAYMENTS: usize = 1000;
/// Bytes of a request that is read where it came: what takes longer gets a thread.
const FEW_BYTES: usize = 16 << 10;
/// The longest `Idempotency-Key`.
const MAX_KEY: usize = 64;
/// The most signatures that one transaction can have.
const MAX_SIGNATURES: usize = 255;

/// Turns payments into drafts to sign
///
/// For each a draft, or why it is refused. Nothing is kept. With an `Idempotency-Key`, payments without a reference get one that
/// follows from the payer's institution, user, key and position and a secret of the network's gateways, so that the same request
/// prepares the same payments however often it is sent, and to whichever gateway.
#[utoipa::path(
    post,
    path = "/v1/payments/prepare",
    operation_id = "prepare_payments",
    tag = "payments",
    params(("Idempotency-Key" = Option<String>, Header, description = "1 to 64 visible characters of ASCII", pattern = "^[!-~]{1,64}$")),
    request_body(content = PaymentsBody, content_type = "application/json"),
    responses((status = 200, body = PreparedBody), Refusals)
)]
pub(super) async fn prepare(
    State(app): State<Arc<App>>,
    by: By<Submits>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<PreparedBody>, Failure> {
    let key = idempotency_key(&headers)?.map(str::to_owned);
    blocking(app, move |app| {
        let body: PaymentsBody = body.json()?;
        count(body.payments.len())?;
        by.charge(app, body.payments.len())?;
        let reference = |position: usize, payment: &WantedPayment| match (&payment.uetr, &key) {
            (Some(uetr), _) => {
                uetr.parse().map_err(|error| Failure::form(format!("payments[{position}].uetr: {error}")))
            }
            (None, Some(key)) => {
                let network = app.desk.network();
                let payer = network.participant(&payment.from.institution).map(|(payer, _)| payer);
                let user = by.user();
                Ok(app.references.of_request(user.institution(network, payer), &user.name, key, position))
            }
            (None, None) => random_uetr().map_err(|error| Failure::internal(&error)),
        };
        let references = body.payments.iter().enumerate();
        let references: Vec<Uetr> =
            references.map(|(position, payment)| reference(position, payment)).collect::<Result<_, _>>()?;
        let read = || -> Vec<_> {
            let orders = body.payments.iter().zip(&references);
            orders.map(|(payment, uetr)| app.wanted(payment, *uetr, &by)).collect()
        };
        let mut orders = read();
        if orders.iter().any(may_be_behind) {
            // An account that is not known here may have been opened elsewhere a moment ago.
            app.catch_up()?;
            orders = read();
        }
        let prepared = references.iter().zip(orders).map(|(uetr, order)| {
            let (refused, draft) = match order {
                Ok(order) => (None, Some(app.draft(&order)?)),
                Err(reason) => (Some(problem(&reason)), None),
            };
            Ok(PreparedPayment { uetr: uetr.to_string(), refused, draft })
        });
        Ok(Json(PreparedBody { refused: None, payments: prepared.collect::<Result<_, Failure>>()? }))
    })
    .await
}

/// Makes payments whose drafts are signed
///
/// Answers when every outcome is durable, or with `PDNG` for those that are not in time. With an `Idempotency-Key`, a payment
/// that was received before under its reference is answered with the outcome of the first.
#[utoipa::path(
    post,
    path = "/v1/payments",
    operation_id = "submit_payments",
    tag = "payments",
    params(("Idempotency-Key" = Option<String>, Header, description = "1 to 64 visible characters of ASCII", pattern = "^[!-~]{1,64}$")),
    request_body(content = SignedPaymentsBody, content_type = "application/json"),
    responses((status = 200, description = "One outcome for each, in order", body = OutcomesBody), Refusals)
)]
pub(super) async fn submit(
    State(app): State<Arc<App>>,
    by: By<Submits>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<OutcomesBody>, Failure> {
    let is_repeatable = idempotency_key(&headers)?.is_some();
    let few = body.bytes.len() <= FEW_BYTES;
    let user = Arc::clone(by.user());
    let read = move |app: &App| {
        let body: SignedPaymentsBody = body.json()?;
        count(body.payments.len())?;
        by.charge(app, body.payments.len())?;
        let one = |(position, payment): (usize, &SignedPayment)| {
            let wrong = |what: String| Failure::form(format!("payments[{position}].{what}"));
            let transaction = signed(payment).map_err(wrong)?;
            by.hands_in_signed(app, Kind::Transfer, &transaction)?;
            Ok(transaction)
        };
        body.payments.iter().enumerate().map(one).collect::<Result<Vec<_>, Failure>>()
    };
    let transactions = if few { read(&app)? } else { blocking(Arc::clone(&app), read).await? };
    let legs: Vec<Vec<Leg>> = match is_repeatable {
        true => transactions.iter().map(|transaction| transaction.legs.clone()).collect(),
        false => Vec::new(),
    };
    let mut answers = if transactions.len() <= FEW {
        app.make_few(transactions).await?
    } else {
        making(app, &user, |app| app.make(transactions)).await?
    };
    if is_repeatable {
        part::leave_open(&mut answers);
    }
    part::own(&user, &mut answers);
    for (answer, legs) in answers.iter_mut().zip(&legs) {
        if let Outcome::Duplicate { first: Some(first) } = &answer.outcome {
            *answer = self::first(legs, first)?;
        }
    }
    Ok(Json(OutcomesBody { outcomes: answers.iter().map(outcome::view).collect() }))
}

impl App {
    /// What makes a payment, or why it is refused.
    fn wanted(&self, payment: &WantedPayment, uetr: Uetr, by: &By<Submits>) -> Result<Order, Reason> {
        let network = self.desk.network();
        let (asset, properties) = network.asset(&payment.asset).ok_or_else(|| {
            Reason::new(StatusReason::AM03, format!("the network does not settle {}", shown(&payment.asset)))
        })?;
        let amount = Amount::parse(&payment.amount, properties.exponent)
            .map_err(|error| Reason::new(StatusReason::AM12, error.to_string()))?;
        if amount == Amount::ZERO {
            return Err(StatusReason::AM01.into());
        }
        if amount < Amount::ZERO {
            return Err(Reason::new(StatusReason::AM12, "an amount above zero is wanted"));
        }
        let refused = |failure: Failure| Reason::new(StatusReason::AG01, failure.detail());
        let payer = self.institution(&payment.from, StatusReason::RC03)?;
        // Asked before anything is looked up in its books.
        by.acts_for(self, payer).map_err(refused)?;
        let from = self.named(payer, &payment.from, StatusReason::AC02)?;
        let payee = self.institution(&payment.to, StatusReason::RC04)?;
        let to = self.named(payee, &payment.to, StatusReason::AC03)?;
        if from == to {
            return Err(Reason::new(StatusReason::AC03, "debtor and creditor have the same account"));
        }
        let legs = path::payment(network, from, to, asset, amount);
        by.hands_in(self, Kind::Transfer, &legs).map_err(refused)?;
        let signers = signers(network, &legs, &|account| self.owner(account));
        let details = payment.details.as_ref().map_or(Ok(Hash::ZERO), |text| text.parse());
        let details = details.map_err(|_| {
            Reason::new(StatusReason::FF01, "details: a hash of 32 bytes in hexadecimal is wanted")
        })?;
        Ok(Order { uetr, legs, signers, details, said: None, first: None })
    }

    /// The institution of an account's name.
    fn institution(&self, name: &AccountName, none: StatusReason) -> Result<ParticipantId, Reason> {
        let found = self.desk.network().participant(&name.institution);
        found.map(|(participant, _)| participant).ok_or_else(|| {
            Reason::new(none, format!("the network has no participant {}", shown(&name.institution)))
        })
    }

    /// The account of that name in the institution's books.
    fn named(
        &self,
        participant: ParticipantId,
        name: &AccountName,
        no_account: StatusReason,
    ) -> Result<AccountId, Reason> {
        let network = self.desk.network();
        let number =
            || account_number(network, &name.account).map(|number| AccountId { participant, number });
        let found = self.desk.account_by_alias(participant, &name.account).or_else(number);
        let known = |id: &AccountId| self.desk.account(*id).is_some() || !self.keeps_books_of(participant);
        found.filter(known).ok_or_else(|| {
            let text = format!("{} has no account {}", name.institution, shown(&name.account));
            Reason::new(no_account, text)
        })
    }

    /// Whether accounts of that participant can be looked up here.
    fn keeps_books_of(&self, participant: ParticipantId) -> bool {
        self.desk.next_account(participant).is_some()
    }
}

/// What is answered to a payment that was received before: the outcome of the first, if that was this payment.
fn first(legs: &[Leg], first: &FirstUse) -> Result<Answer, Failure> {
    if is_same(legs, first) {
        return Ok(first.answer.clone());
    }
    let text = format!("another payment was made under the reference {}", first.answer.uetr);
    Err(Failure::new(422, "idempotency-key", text))
}

/// The transaction of a signed draft.
fn signed(payment: &SignedPayment) -> Result<Transaction, String> {
    let mut transaction =
        codec::decode_one(&payment.transaction).map_err(|error| format!("transaction: {error}"))?;
    if transaction.header.kind != Kind::Transfer.number() {
        return Err(
            "transaction: a transfer is wanted; others go to /v1/transactions and /v1/accounts".to_owned()
        );
    }
    for (position, given) in payment.signatures.iter().enumerate() {
        let wrong = |what: &str| format!("signatures[{position}].{what}");
        let key: PublicKey =
            given.key.parse().map_err(|_| wrong("key: no Ed25519 public key in hexadecimal"))?;
        let signature: Signature =
            given.signature.parse().map_err(|_| wrong("signature: no Ed25519 signature in hexadecimal"))?;
        transaction.signers.push(Signer { key, signature });
    }
    if transaction.signers.len() > MAX_SIGNATURES {
        return Err(format!("signatures: more than {MAX_SIGNATURES}"));
    }
    transaction.header.signers = u8::try_from(transaction.signers.len()).unwrap_or(u8::MAX);
    Ok(transaction)
}

fn count(payments: usize) -> Result<(), Failure> {
    match payments {
        1..=MAX_PAYMENTS => Ok(()),
        _ => Err(Failure::form(format!("payments: 1 to {MAX_PAYMENTS} are taken at once"))),
    }
}

/// Of a text from outside, as much as is worth repeating.
fn shown(text: &str) -> String {
    text.chars().take(140).collect()
}

/// The header of that name, if there is one (draft-ietf-httpapi-idempotency-key-header).
fn idempotency_key(headers: &HeaderMap) -> Result<Option<&str>, Failure> {
    let Some(value) = headers.get("idempotency-key") else { return Ok(None) };
    let key = value
        .to_str()
        .ok()
        .filter(|key| (1..=MAX_KEY).contains(&key.len()) && key.bytes().all(|byte| byte.is_ascii_graphic()));
    let wrong =
        || Failure::form(format!("Idempotency-Key: 1 to {MAX_KEY} visible characters of ASCII are wanted"));
    key.map(Some).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_visible_and_short() {
        let key = |value: &[u8]| {
            let mut headers = HeaderMap::new();
            headers.insert("Idempotency-Key", axum::http::HeaderValue::from_bytes(value).unwrap());
            idempotency_key(&headers).map(|key| key.map(str::to_owned)).ok().flatten()
        };
        assert_eq!(key(b"8e03978e-40d5-43e8"), Some("8e03978e-40d5-43e8".to_owned()));
        assert_eq!(key(&[b'a'; 64]).map(|key| key.len()), Some(64));
        for wrong in [&b""[..], b"two words", &[b'a'; 65], b"\xC3\xA9"] {
            assert_eq!(key(wrong), None, "{wrong:?}");
        }
        assert_eq!(idempotency_key(&HeaderMap::new()).unwrap(), None);
    }
}
