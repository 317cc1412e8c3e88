//! What a desk's threads do.

use super::waiting::HandedIn;
use super::witnesses::WitnessFault;
use super::{LOCK, Shared};
use crate::engine::COLLECT;
use crate::message::SequenceBatch;
use crate::process::gateway::{Listener, Sender};
use crate::process::ledger::Ledger;
use crate::process::shard::{Opened, ShardError};
use crate::runtime::executor::Stage;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tally_ledger::{Timestamp, Transaction, TransactionBatch};

/// How long an idle thread sleeps at most.
const IDLE: Duration = Duration::from_millis(20);
/// How long it waits before it asks a cluster again that could not be reached.
const AGAIN: Duration = Duration::from_millis(100);
/// What one commit hands in, at most and a batch more.
const MAX_COMMIT_BYTES: usize = 8 << 20;
/// Records of the sequence that are read and not told, at most.
const MAX_UNHEARD: usize = 1 << 14;
/// Records of witnesses that are heard in one turn, at most.
const MAX_COSIGNATURES: usize = 64;
/// How large a batch grows at most, in legs and signatures.
const MAX_BATCH_PARTS: usize = 1 << 14;

/// Hands in what has gathered, again and again.
pub(super) fn send(sender: &Sender, shared: &Shared) -> Result<(), ShardError> {
    while !shared.stop.is_set() {
        let events = shared.arrivals.events();
        // What the cluster did not take is handed in before anything else.
        if sender.pending_bytes() == 0 {
            withdraw(sender, shared)?;
            for scheduler in 0..sender.schedulers() {
                while sender.pending_bytes() < MAX_COMMIT_BYTES && hand_in(sender, shared, scheduler)? {}
            }
        }
        if sender.pending_bytes() == 0 {
            shared.arrivals.wait(events, IDLE);
            continue;
        }
        let began = Instant::now();
        if sender.flush()? {
            let took = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
            shared.counts.commits.fetch_add(1, Ordering::Relaxed);
            shared.counts.commit_ns.fetch_add(took, Ordering::Relaxed);
        } else {
            std::thread::sleep(AGAIN);
        }
    }
    Ok(())
}

/// Hands in what is to be withdrawn. What the cluster does not take is asked for again.
fn withdraw(sender: &Sender, shared: &Shared) -> Result<(), ShardError> {
    let withdrawals = std::mem::take(&mut shared.beside.lock().expect(LOCK).withdrawals);
    for withdrawal in withdrawals {
        match sender.withdraw(withdrawal) {
            Err(error) if !error.is_transient() => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// Hands in the texts that are to be kept.
fn keep(sender: &Sender, shared: &Shared) -> Result<(), ShardError> {
    let texts = {
        let mut beside = shared.beside.lock().expect(LOCK);
        if beside.texts.is_empty() {
            return Ok(());
        }
        beside.bytes = 0;
        std::mem::take(&mut beside.texts)
    };
    let kept = sender.keep(shared.clock.now(), texts.clone());
    if kept.is_err() {
        // Those of which some were kept are kept twice: they are found by what they are.
        let mut beside = shared.beside.lock().expect(LOCK);
        beside.bytes += texts.iter().map(Vec::len).sum::<usize>();
        beside.texts.extend(texts);
    }
    kept
}

/// Puts what has gathered for a scheduler into a batch; whether there was anything, and room for it.
fn hand_in(sender: &Sender, shared: &Shared, scheduler: usize) -> Result<bool, ShardError> {
    let mut batch = TransactionBatch::default();
    let mut taken: Vec<(Transaction, HandedIn)> = Vec::new();
    {
        let mut gathered = shared.gathered.lock().expect(LOCK);
        while batch.len() < COLLECT
            && batch.legs.len() + batch.signers.len() < MAX_BATCH_PARTS
            && let Some((transaction, handed_in)) = gathered[scheduler].pop_front()
        {
            // What fits no batch was refused when it came.
            if batch.push(&transaction) {
                taken.push((transaction, handed_in));
            }
        }
    }
    if taken.is_empty() {
        return Ok(false);
    }
    let count = taken.len() as u64;
    // The scheduler's answer must not come before its waiters are there.
    let mut waiting = shared.waiting();
    // Texts that were given before these transactions go with them.
    match keep(sender, shared).and_then(|()| sender.submit(scheduler, batch)) {
        Ok(origin) => {
            waiting.submit(origin, taken.into_iter().map(|(_, handed_in)| handed_in));
            shared.counts.handed_in.fetch_add(count, Ordering::Relaxed);
            Ok(true)
        }
        Err(error) => {
            let mut gathered = shared.gathered.lock().expect(LOCK);
            for one in taken.into_iter().rev() {
                gathered[scheduler].push_front(one);
            }
            drop((gathered, waiting));
            if !error.is_transient() {
                return Err(error);
            }
            std::thread::sleep(AGAIN);
            Ok(false)
        }
    }
}

/// Hears what became of what was handed in, and tells it.
pub(super) fn listen(mut listener: Listener, shared: &Shared) -> Result<(), ShardError> {
    let end = listener.end();
    let mut unheard = Unheard { records: VecDeque::new(), end: &end, asked: Instant::now() };
    while !shared.stop.is_set() {
        let events = shared.progress.events();
        let heard = hear(&mut listener, shared, &mut unheard);
        if !reached(shared, "listen", &heard) {
            std::thread::sleep(AGAIN);
            continue;
        }
        // Also where nothing is heard: what is full empties by itself.
        shared.waiting().forget(Instant::now());
        if heard? {
            shared.progress.notify();
        } else if !unheard.records.is_empty() {
            shared.progress.wait(events, IDLE);
        } else {
            listener.wait(IDLE);
        }
    }
    Ok(())
}

/// What was read of the sequence and is not told yet.
struct Unheard<'a> {
    records: VecDeque<Arc<SequenceBatch>>,
    /// Asks for the end of the sequence.
    end: &'a dyn Fn() -> Option<u64>,
    /// When it was asked for last.
    asked: Instant,
}

/// One turn; whether there was anything.
fn hear(listener: &mut Listener, shared: &Shared, unheard: &mut Unheard<'_>) -> Result<bool, ShardError> {
    let mut progress = false;
    while let Some(intake) = listener.intake()? {
        shared.waiting().intake(&intake);
        progress = true;
    }
    if unheard.records.len() < MAX_UNHEARD
        && let Some((_, batch)) = listener.sequence()?
    {
        let gap = |what| ShardError::History { shard: listener.name().to_owned(), what };
        shared.waiting().hear(&batch).map_err(gap)?;
        let faults = shared.witnesses().read(&batch);
        judge(listener, shared, faults)?;
        unheard.records.push_back(batch);
        progress = true;
    }
    // However much a witness writes, the sequence goes on.
    for _ in 0..MAX_COSIGNATURES {
        let heard = listener.cosignatures(|of| shared.witnesses().waits(of))?;
        let Some((participant, cosigned)) = heard else { break };
        let faults = shared.witnesses().hear(participant, &cosigned);
        judge(listener, shared, faults)?;
        progress = true;
    }
    if unheard.asked.elapsed() > AGAIN && shared.witnesses().is_any_far_ahead() {
        unheard.asked = Instant::now();
        if let Some(end) = (unheard.end)() {
            let faults = shared.witnesses().give_up_beyond(end);
            judge(listener, shared, faults)?;
        }
        if unheard.records.len() >= MAX_UNHEARD && shared.is_passed_by_witnesses()? {
            let what =
                format!("witnesses have cosigned more than {MAX_UNHEARD} records beyond what was told");
            return Err(ShardError::History { shard: listener.name().to_owned(), what });
        }
    }
    let is_told = |batch: &Arc<SequenceBatch>| {
        shared.applied() >= batch.first + u64::from(batch.count) && shared.witnessed() >= batch.tree_size
    };
    while let Some(batch) = unheard.records.pop_front_if(|batch| is_told(batch)) {
        shared.waiting().sequenced(&batch);
        progress = true;
    }
    Ok(progress)
}

/// What a witness says and does not count concerns that witness alone. But the operator's two histories cannot both be
/// told: this gateway tells neither from here on.
fn judge(listener: &Listener, shared: &Shared, faults: Vec<WitnessFault>) -> Result<(), ShardError> {
    for fault in faults {
        if let WitnessFault::TwoHistories { participant, heads } = fault {
            let witness = shared.network.participants.get(participant.index());
            let witness = witness.map_or_else(String::new, |witness| witness.bic.clone());
            return Err(ShardError::TwoHistories { shard: listener.name().to_owned(), witness, heads });
        }
        tracing::error!(%fault, "what a witness wrote does not count");
    }
    Ok(())
}

/// Follows one participant's proposals and the sequence.
pub(super) fn follow(opened: &Opened, ledger: &mut Ledger, shared: &Shared) -> Result<(), ShardError> {
    while !shared.stop.is_set() {
        let polled = ledger.shell.poll(Timestamp(0)).map_err(ShardError::from);
        if !reached(shared, &opened.name, &polled) {
            std::thread::sleep(AGAIN);
            continue;
        }
        if polled? {
            shared.progress.notify();
        } else {
            opened.log.wait(IDLE);
        }
    }
    Ok(())
}

/// Whether the cluster could be reached, for those who ask for the desk's health.
fn reached(shared: &Shared, thread: &str, result: &Result<bool, ShardError>) -> bool {
    let trouble = result.as_ref().err().filter(|error| error.is_transient());
    shared.trouble(thread, trouble);
    trouble.is_none()
}
