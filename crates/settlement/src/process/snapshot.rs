//! A participant's balances in its topic of snapshots: pieces, then a record that says they are all.
//!
//! A process that dies between the pieces leaves some that no such record names; they are passed over.

use super::shard::{Opened, ShardError};
use crate::message::{Message, Source};
use crate::replay::Partition;
use crate::runtime::shell::SharedState;
use crate::snapshot::{Blocks, RestoreError, Source as Saved, capture_partition, restore_partition};
use crate::stage::Updater;
use crate::stage::updater::UpdaterProgress;
use bytes::Bytes;
use tally_crypto::log::Frontier;
use tally_ledger::wire::{DecodeError, Reader, write, write_count};
use tally_ledger::{Network, NetworkId, ParticipantId};
use tally_log::cluster::SharedLog;
use tally_log::{LogError, Offset, TopicId};

/// Where a ledger stood when it was saved.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Position {
    /// The next record of the sequence.
    pub(super) sequence: u64,
    /// The sequence number up to which decisions are applied.
    pub(super) applied: u64,
    /// The first record of each scheduler's proposals that has to be read again.
    pub(super) proposals: Vec<u64>,
    /// The first record of the participant's answers to each assembler that has to be read again.
    pub(super) answers: Vec<u64>,
    /// The first record of what each assembler shows of others' consents that has to be read again.
    pub(super) consents: Vec<u64>,
    /// The Merkle log up to there.
    pub(super) tree: Frontier,
    /// What was under way.
    pub(super) progress: UpdaterProgress,
}

/// One record of the topic of snapshots.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Piece {
    /// A piece, and where the last complete snapshot before it ends.
    Part { before: Option<u64>, bytes: Bytes },
    /// The snapshot that the records from `first` to this one are is complete.
    End { before: Option<u64>, first: u64, length: u64, hash: [u8; 32] },
}

/// 1 had four bytes of the network's id, 2 had no consents.
const VERSION: u8 = 3;
const PART: u8 = 0;
const END: u8 = 1;
const PART_BYTES: usize = 4 << 20;
const NONE: u64 = u64::MAX;
/// The longest form of a frontier in bytes: one hash for each bit of a size, and more.
const MAX_TREE: usize = 4 << 10;

impl Message for Piece {
    fn encode(&self, out: &mut Vec<u8>) {
        let (kind, before) = match self {
            Self::Part { before, .. } => (PART, before),
            Self::End { before, .. } => (END, before),
        };
        out.extend_from_slice(&[VERSION, kind]);
        write(out, &before.unwrap_or(NONE));
        match self {
            Self::Part { bytes, .. } => {
                write_count(out, bytes.len());
                out.extend_from_slice(bytes);
            }
            Self::End { first, length, hash, .. } => {
                write(out, first);
                write(out, length);
                write(out, hash);
            }
        }
    }

    fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new("piece of a snapshot", bytes);
        reader.version(VERSION)?;
        let kind: u8 = reader.value()?;
        let before: u64 = reader.value()?;
        let before = (before != NONE).then_some(before);
        let piece = match kind {
            PART => {
                let length = reader.count(tally_log::MAX_RECORD_BYTES)?;
                Self::Part { before, bytes: Bytes::copy_from_slice(reader.take(length)?) }
            }
            END => {
                Self::End { before, first: reader.value()?, length: reader.value()?, hash: reader.value()? }
            }
            _ => return Err(reader.error("its kind is unknown")),
        };
        reader.end()?;
        Ok(piece)
    }
}

/// Where a complete snapshot lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Extent {
    /// Its first record.
    first: u64,
    /// The record that says that it is complete.
    end: u64,
}

/// Appends what an updater has come to, and lets go of what is before the `last` complete snapshot, which must be visible.
/// That one stays until the new one is visible, too, and `last` names the new one then. Whether there was room for
/// all of it: where there was not, what was appended is passed over later.
///
/// # Errors
/// When the log refuses for good.
pub(super) fn save(
    log: &dyn SharedLog,
    topic: TopicId,
    network: NetworkId,
    state: &SharedState<Updater>,
    position: &Position,
    last: &mut Option<Extent>,
) -> Result<bool, LogError> {
    if let Some(Extent { first, .. }) = last
        && let Err(error) = log.release(topic, Offset(*first))
    {
        tracing::warn!(%error, "older snapshots stay");
    }
    let mut bytes = Vec::new();
    let mut blocks = Blocks::new(&mut bytes);
    encode(&mut blocks.block, network, state, position);
    let written =
        blocks.end().and_then(|()| capture_partition(state, &mut blocks)).and_then(|()| blocks.finish());
    written.expect("memory takes every byte");
    match append(log, topic, bytes.into(), last.map(|last| last.end)) {
        Ok(saved) => *last = Some(saved),
        Err(LogError::Stalled { .. } | LogError::Backpressure { .. }) => return Ok(false),
        Err(error) => return Err(error),
    }
    Ok(true)
}

fn append(
    log: &dyn SharedLog,
    topic: TopicId,
    bytes: Bytes,
    before: Option<u64>,
) -> Result<Extent, LogError> {
    let length = bytes.len() as u64;
    let hash = *blake3::hash(&bytes).as_bytes();
    let mut first = None;
    let mut scratch = Vec::new();
    let mut append = |piece: Piece| -> Result<u64, LogError> {
        scratch.clear();
        piece.encode(&mut scratch);
        Ok(log.append(topic, &[&scratch])?.offset.0)
    };
    for at in (0..bytes.len()).step_by(PART_BYTES) {
        let part = bytes.slice(at..bytes.len().min(at + PART_BYTES));
        let offset = append(Piece::Part { before, bytes: part })?;
        first.get_or_insert(offset);
        // A large snapshot need not become visible at once: its last record says that it is complete.
        if log.pending_bytes() >= 8 * PART_BYTES {
            log.sync()?;
        }
    }
    let first = first.unwrap_or_else(|| log.next(topic).0);
    let end = append(Piece::End { before, first, length, hash })?;
    Ok(Extent { first, end })
}

fn encode(out: &mut Vec<u8>, network: NetworkId, state: &SharedState<Updater>, position: &Position) {
    let participant = state.lock().expect("no step panics and goes on").accounts().participant();
    write(out, &network);
    write(out, &participant);
    write(out, &position.sequence);
    write(out, &position.applied);
    super::shard::write_numbers(out, &position.proposals);
    super::shard::write_numbers(out, &position.answers);
    super::shard::write_numbers(out, &position.consents);
    let tree = position.tree.to_bytes();
    write_count(out, tree.len());
    out.extend_from_slice(&tree);
    write_count(out, position.progress.seen.len());
    for (scheduler, next) in &position.progress.seen {
        write(out, scheduler);
        write(out, next);
    }
    write_count(out, position.progress.open.len());
    for (source, decided) in &position.progress.open {
        source.encode(out);
        write_count(out, decided.len());
        out.extend(decided.iter().map(|decided| u8::from(*decided)));
    }
}

fn decode(reader: &mut Reader<'_>) -> Result<(NetworkId, ParticipantId, Position), DecodeError> {
    let (network, participant) = (reader.value()?, reader.value()?);
    let (sequence, applied) = (reader.value()?, reader.value()?);
    let count = reader.count(1 << 16)?;
    let proposals = reader.values(count)?;
    let count = reader.count(1 << 16)?;
    let answers = reader.values(count)?;
    let count = reader.count(1 << 16)?;
    let consents = reader.values(count)?;
    let length = reader.count(MAX_TREE)?;
    let tree = Frontier::from_bytes(reader.take(length)?);
    let tree = tree.map_err(|_| reader.error("the Merkle log's frontier is broken"))?;
    let mut progress = UpdaterProgress::default();
    for _ in 0..reader.count(1 << 16)? {
        progress.seen.push((reader.value()?, reader.value()?));
    }
    for _ in 0..reader.count(1 << 24)? {
        let source = Source::decode(reader)?;
        let length = reader.count(tally_ledger::batch::MAX_BATCH)?;
        progress.open.push((source, reader.take(length)?.iter().map(|byte| *byte != 0).collect()));
    }
    let position = Position { sequence, applied, proposals, answers, consents, tree, progress };
    Ok((network, participant, position))
}

/// The last complete snapshot: the balances, where they stood, and where the snapshot lies.
pub(super) struct Found {
    pub(super) partition: Partition,
    pub(super) position: Position,
    pub(super) extent: Option<Extent>,
}

/// Reads the last complete snapshot; an empty partition if there is none.
pub(super) fn load(
    opened: &Opened,
    topic: TopicId,
    network: &Network,
    participant: ParticipantId,
) -> Result<Found, ShardError> {
    let mut found = Found {
        partition: Partition::new(network, participant),
        position: Position::default(),
        extent: None,
    };
    let Some(Ended { end, first, length, hash }) = last_end(opened, topic)? else { return Ok(found) };
    let mut bytes = Vec::new();
    opened.read(topic, first..end, |_, piece: Piece| {
        if let Piece::Part { bytes: part, .. } = piece {
            bytes.extend_from_slice(&part);
        }
        Ok(())
    })?;
    let damaged =
        |what: String| opened.history(format!("the snapshot of {} is damaged: {what}", participant.0));
    if bytes.len() as u64 != length || blake3::hash(&bytes).as_bytes() != &hash {
        return Err(damaged("its bytes are not those that were written".into()));
    }
    let mut saved = Saved::new(&bytes[..], length.saturating_sub(32));
    let (id, whose, position) =
        read(&mut saved, &mut found.partition).map_err(|error| damaged(error.to_string()))?;
    if id != network.id || whose != participant {
        return Err(damaged("it is another network's or participant's".into()));
    }
    found.partition.accounts.agree_floors(network);
    found.position = position;
    found.extent = Some(Extent { first, end });
    Ok(found)
}

/// Reads a snapshot's bytes into an empty partition: whose it is, and where it stood.
pub(super) fn read(
    saved: &mut Saved<&[u8]>,
    partition: &mut Partition,
) -> Result<(NetworkId, ParticipantId, Position), RestoreError> {
    let mut head = saved.block()?;
    let read = decode(&mut head)?;
    head.end()?;
    restore_partition(saved, partition)?;
    Ok(read)
}

/// The record at `end` that says that a snapshot is complete.
pub(super) struct Ended {
    pub(super) end: u64,
    pub(super) first: u64,
    pub(super) length: u64,
    pub(super) hash: [u8; 32],
}

fn last_end(opened: &Opened, topic: TopicId) -> Result<Option<Ended>, ShardError> {
    // Another process may be writing one.
    let next = opened.log.next(topic).0;
    let mut look = next.checked_sub(1);
    while let Some(at) = look {
        let mut piece = None;
        opened.read(topic, at..at + 1, |_, found: Piece| {
            piece = Some(found);
            Ok(())
        })?;
        match piece {
            Some(Piece::End { first, length, hash, .. }) => {
                return Ok(Some(Ended { end: at, first, length, hash }));
            }
            Some(Piece::Part { before, .. }) => look = before,
            None => look = None,
        }
    }
    Ok(None)
}
