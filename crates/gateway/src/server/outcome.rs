//! How outcomes are told: as JSON, and as the payments of a pacs.002.

use crate::codec;
use crate::wire::{OutcomeView, Problem, Status};
use tally_iso20022::{Outcome as Reported, Reason, StatusReason};
use tally_ledger::Refusal;
use tally_settlement::engine::{Answer, FirstUse, Outcome};

/// The outcome for JSON.
pub(super) fn view(answer: &Answer) -> OutcomeView {
    let mut view = OutcomeView {
        id: answer.id.to_string(),
        uetr: answer.uetr.to_string(),
        status: Status::Pending,
        reason: None,
        sequence: None,
        time: None,
        first: None,
    };
    match &answer.outcome {
        Outcome::Pending => {}
        Outcome::Refused(refusal) => {
            view.status = Status::Refused;
            view.reason = Some(problem(*refusal));
        }
        Outcome::Duplicate { first } => {
            view.status = Status::Refused;
            view.reason = Some(Problem { code: "AM05".to_owned(), text: duplicate(first.as_deref()) });
            view.first = first.as_deref().map(|first| Box::new(self::view(&first.answer)));
        }
        Outcome::Final(finality) => {
            view.sequence = Some(finality.sequence);
            view.time = Some(codec::time(finality.timestamp));
            view.status = if finality.verdict.is_ok() { Status::Settled } else { Status::Refused };
            view.reason = finality.verdict.err().map(problem);
        }
    }
    view
}

fn problem(refusal: Refusal) -> Problem {
    Problem { code: refusal.iso_code().to_owned(), text: refusal.sentence().to_owned() }
}

/// The sentence for a reference that was used before: what became of its first use.
fn duplicate(first: Option<&FirstUse>) -> String {
    match first {
        Some(first) => received_before(&first.answer),
        None => "a transaction with this reference was received before".to_owned(),
    }
}

/// What became of the first use of a reference, as a sentence.
pub(super) fn received_before(first: &Answer) -> String {
    let became = match &first.outcome {
        Outcome::Final(finality) => {
            let at = format!("at {}, sequence {}", codec::time(finality.timestamp), finality.sequence);
            match finality.verdict {
                Ok(()) => format!("was settled {at}"),
                Err(refusal) => format!("was refused with {} {at}", refusal.iso_code()),
            }
        }
        _ => "is not decided yet".to_owned(),
    };
    format!("the reference {} was received before: its transaction {} {became}", first.uetr, first.id)
}

/// The outcome for a pacs.002.
pub(super) fn reported(answer: &Answer) -> Reported {
    match &answer.outcome {
        Outcome::Pending => Reported::Pending,
        Outcome::Refused(refusal) => Reported::Rejected(reason(*refusal)),
        Outcome::Duplicate { first } => {
            Reported::Rejected(Reason::new(StatusReason::AM05, duplicate(first.as_deref())))
        }
        Outcome::Final(finality) => match finality.verdict {
            Ok(()) => Reported::Settled {
                accepted: Some(codec::time(finality.timestamp)),
                settled_on: Some(codec::day(finality.timestamp)),
                reference: Some(format!("sequence {}", finality.sequence)),
            },
            Err(refusal) => Reported::Rejected(reason(refusal)),
        },
    }
}

fn reason(refusal: Refusal) -> Reason {
    match StatusReason::from_code(refusal.iso_code()) {
        Some(code) => Reason::new(code, refusal.sentence()),
        None => Reason::new(StatusReason::NARR, format!("{}: {}", refusal.iso_code(), refusal.sentence())),
    }
}
