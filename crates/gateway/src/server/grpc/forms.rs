//! Between messages of gRPC and what settlement knows.

use super::super::failure::Failure;
use super::super::{outcome, transactions};
use crate::codec;
use crate::grpc::wire::submit_request::Transactions;
use crate::grpc::wire::{self, Outcomes};
use crate::wire::{OutcomeView, Problem, Status};
use bytes::Buf as _;
use prost::encoding::{DecodeContext, WireType, check_wire_type, decode_key, decode_varint, skip_field};
use prost::{DecodeError, Message as _};
use tally_crypto::{Hash, PublicKey, Signature};
use tally_ledger::batch::MAX_BATCH;
use tally_ledger::transaction::Terms;
use tally_ledger::{
    AccountNumber, Amount, AssetId, Kind, Leg, NetworkId, ParticipantId, Signer, Timestamp, Transaction, Uetr,
};
use tally_settlement::engine::{Answer, Outcome};

/// The most bytes of a transaction as a message: 30 legs and 16 signers have some 2,600.
const MAX_TRANSACTION: usize = 4096;

/// The transactions of a request, in either form.
pub(super) fn transactions(form: &Transactions) -> Result<Vec<Transaction>, Failure> {
    match form {
        Transactions::Batch(bytes) => {
            let batch = codec::decode(bytes).map_err(|error| Failure::form(error.to_string()))?;
            Ok(transactions::separate(&batch))
        }
        Transactions::List(list) => read_list(list),
    }
}

/// The transactions of an encoded `TransactionList`: each is converted before the next is read, because what a message
/// takes in memory can be many times what it takes on the wire.
fn read_list(mut list: &[u8]) -> Result<Vec<Transaction>, Failure> {
    let mut transactions = Vec::new();
    while list.has_remaining() {
        let at = transactions.len();
        let failed = |error: DecodeError| Failure::form(format!("transaction {at}: {error}"));
        let (field, wire_type) = decode_key(&mut list).map_err(failed)?;
        if field != 1 {
            skip_field(wire_type, field, &mut list, DecodeContext::default()).map_err(failed)?;
            continue;
        }
        check_wire_type(WireType::LengthDelimited, wire_type).map_err(failed)?;
        let length = decode_varint(&mut list).map_err(failed)?;
        let length = usize::try_from(length).ok().filter(|length| *length <= MAX_TRANSACTION);
        let length = length.ok_or_else(|| {
            Failure::form(format!("transaction {at} has more than {MAX_TRANSACTION} bytes"))
        })?;
        let (message, rest) = list
            .split_at_checked(length)
            .ok_or_else(|| Failure::form(format!("transaction {at} ends early")))?;
        if at == MAX_BATCH {
            return Err(Failure::form(format!("a request has at most {MAX_BATCH} transactions")));
        }
        let message = wire::Transaction::decode(message).map_err(failed)?;
        transactions.push(transaction(at, &message)?);
        list = rest;
    }
    Ok(transactions)
}

fn transaction(at: usize, from: &wire::Transaction) -> Result<Transaction, Failure> {
    let terms = Terms {
        network: NetworkId(fixed(at, "network", &from.network)?),
        uetr: Uetr(fixed(at, "uetr", &from.uetr)?),
        expiry: Timestamp(from.expiry_ms),
        details: match from.details.as_slice() {
            [] => Hash::default(),
            details => Hash::from_bytes(fixed(at, "details", details)?),
        },
        seed: fixed(at, "seed", &from.seed)?,
    };
    let leg = |leg: &wire::Leg| {
        Ok(Leg {
            participant: ParticipantId(small(at, "participant", leg.participant)?),
            asset: AssetId(small(at, "asset", leg.asset)?),
            account: AccountNumber(leg.account),
            amount: Amount(leg.amount),
        })
    };
    let signer = |signer: &wire::Signer| {
        Ok(Signer {
            key: PublicKey::from_bytes(fixed(at, "key", &signer.key)?),
            signature: Signature::from_bytes(fixed(at, "signature", &signer.signature)?),
        })
    };
    let legs = from.legs.iter().map(leg).collect::<Result<_, Failure>>()?;
    let mut transaction = Transaction::new(Kind::Transfer, &terms, legs);
    // A kind that there is not is refused by the scheduler, as in a batch.
    transaction.header.kind = u8::try_from(from.kind).unwrap_or_default();
    transaction.signers = from.signers.iter().map(signer).collect::<Result<_, Failure>>()?;
    transaction.header.signers = u8::try_from(transaction.signers.len()).unwrap_or(u8::MAX);
    Ok(transaction)
}

fn fixed<const N: usize>(at: usize, field: &str, bytes: &[u8]) -> Result<[u8; N], Failure> {
    bytes.try_into().map_err(|_| {
        Failure::form(format!("transaction {at}, {field}: {N} bytes are wanted, these are {}", bytes.len()))
    })
}

fn small(at: usize, field: &str, number: u32) -> Result<u16, Failure> {
    u16::try_from(number)
        .map_err(|_| Failure::form(format!("transaction {at}, {field}: {number} is above {}", u16::MAX)))
}

/// Outcomes in columns.
pub(super) fn outcomes(answers: &[Answer]) -> Outcomes {
    let mut outcomes = Outcomes {
        statuses: Vec::with_capacity(answers.len()),
        sequences: Vec::with_capacity(answers.len()),
        times_ms: Vec::with_capacity(answers.len()),
        refusals: Vec::new(),
    };
    for (index, answer) in (0..).zip(answers) {
        let (status, sequence, time) = match &answer.outcome {
            Outcome::Final(finality) => {
                let is_settled = finality.verdict.is_ok();
                let status = if is_settled { wire::Status::Settled } else { wire::Status::Refused };
                (status, finality.sequence, finality.timestamp.0)
            }
            Outcome::Refused(_) | Outcome::Duplicate { .. } => (wire::Status::Refused, 0, 0),
            Outcome::Pending => (wire::Status::Pending, 0, 0),
        };
        outcomes.statuses.push(status.into());
        outcomes.sequences.push(sequence);
        outcomes.times_ms.push(time);
        if status == wire::Status::Refused {
            let view = outcome::view(answer);
            let (reason, first) = (view.reason.map(reason), view.first.map(|first| single(*first)));
            outcomes.refusals.push(wire::Refusal { index, reason, first });
        }
    }
    outcomes
}

/// One outcome.
pub(super) fn single(view: OutcomeView) -> wire::Outcome {
    let status = match view.status {
        Status::Settled => wire::Status::Settled,
        Status::Refused => wire::Status::Refused,
        Status::Pending => wire::Status::Pending,
    };
    wire::Outcome {
        id: view.id,
        uetr: view.uetr,
        status: status.into(),
        reason: view.reason.map(reason),
        sequence: view.sequence,
        time: view.time.unwrap_or_default(),
        first: view.first.map(|first| Box::new(single(*first))),
    }
}

fn reason(problem: Problem) -> wire::Reason {
    wire::Reason { code: problem.code, text: problem.text }
}
