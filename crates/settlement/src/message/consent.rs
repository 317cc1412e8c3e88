//! Consents: that an institution agreed to transactions, shown to another that they concern as well.

use super::{ApprovalBatch, Message, Source, decode_all};
use std::collections::BTreeMap;
use tally_crypto::merkle::{Tree, root_of_part};
use tally_crypto::{Hash, PublicKey, Signature};
use tally_ledger::batch::MAX_BATCH;
use tally_ledger::wire::{DecodeError, write, write_count, write_slice};
use tally_ledger::{NetworkId, ParticipantId, TransactionId};
use tally_proof::approval::{Answer, AnswerHasher, Statement};

/// What one participant agreed to of an [`ApprovalBatch`], as it is shown to one other whom it concerns. The ids are not in
/// it: who is shown it recomputes them from its own proposals. Of other transactions it learns hashes, and how many the answers are.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConsentBatch {
    /// The accepted batch.
    pub source: Source,
    /// How many transactions the accepted batch has.
    pub source_len: u32,
    /// Who agreed.
    pub participant: ParticipantId,
    /// How many answers it signed together.
    pub answers: u32,
    /// At which leaves of the tree over these answers those shown stand, ascending.
    pub positions: Vec<u32>,
    /// The transaction of the accepted batch that each is about.
    pub indices: Vec<u32>,
    /// The hashes that lead from them to the root ([`Tree::beside`]).
    pub beside: Vec<Hash>,
    /// The signature under the answers.
    pub signature: Signature,
}

impl ConsentBatch {
    /// What is shown to each other participant of a batch of answers. `agreed` has the position in it of each yes, and the
    /// participants of that transaction.
    pub(crate) fn of<'a>(
        batch: &ApprovalBatch,
        agreed: impl Iterator<Item = (usize, &'a [ParticipantId])>,
    ) -> Vec<(ParticipantId, Self)> {
        let places = batch.places();
        let mut shown: BTreeMap<ParticipantId, Vec<(u32, u32)>> = BTreeMap::new();
        for (item, participants) in agreed {
            for participant in participants.iter().filter(|other| **other != batch.participant) {
                shown.entry(*participant).or_default().push((places[item], batch.indices[item]));
            }
        }
        if shown.is_empty() {
            return Vec::new();
        }
        let mut leaves = Vec::new();
        AnswerHasher::default().hash(batch.leaves(), &mut leaves);
        let tree = Tree::new(&leaves);
        let to = |(participant, mut shown): (ParticipantId, Vec<(u32, u32)>)| {
            shown.sort_unstable();
            let (positions, indices): (Vec<u32>, Vec<u32>) = shown.into_iter().unzip();
            let beside = tree.beside(&positions).expect("each is a leaf of the tree, once");
            let consents = Self {
                source: batch.source,
                source_len: batch.source_len,
                participant: batch.participant,
                answers: u32::try_from(batch.indices.len()).expect("batches are bounded"),
                positions,
                indices,
                beside,
                signature: batch.signature,
            };
            (participant, consents)
        };
        shown.into_iter().map(to).collect()
    }

    /// About how many bytes its canonical form has.
    pub(crate) fn bytes(&self) -> usize {
        128 + 8 * self.indices.len() + 32 * self.beside.len()
    }

    /// Whether `key` signed that it agrees to all of these transactions in `network`; `id` has those that the reader knows.
    pub fn verifies(
        &self,
        network: &NetworkId,
        key: &PublicKey,
        id: impl Fn(u32) -> Option<TransactionId>,
    ) -> bool {
        let yes = |index: &u32| Some(Answer { id: id(*index)?, index: *index, verdict: 0 });
        let Some(answers) = self.indices.iter().map(yes).collect::<Option<Vec<Answer>>>() else {
            return false;
        };
        let mut leaves = Vec::new();
        AnswerHasher::default().hash(answers.into_iter(), &mut leaves);
        let Ok(root) = root_of_part(self.answers, &self.positions, &leaves, &self.beside) else {
            return false;
        };
        let statement = Statement {
            root,
            scheduler: self.source.scheduler,
            batch: self.source.number,
            participant: self.participant,
            batch_len: self.source_len,
        };
        tally_crypto::verify(key, statement.hash(network).as_bytes(), &self.signature).is_ok()
    }
}

const VERSION: u8 = 1;
/// The most hashes beside: of each leaf no more than its path has.
const MAX_BESIDE: usize = MAX_BATCH * 16;

impl Message for ConsentBatch {
    fn encode(&self, out: &mut Vec<u8>) {
        out.push(VERSION);
        self.source.encode(out);
        write(out, &self.source_len);
        write(out, &self.participant);
        write(out, &self.answers);
        write_count(out, self.positions.len());
        write_count(out, self.beside.len());
        write_slice(out, &self.positions);
        write_slice(out, &self.indices);
        write_slice(out, &self.beside);
        write(out, &self.signature);
    }

    fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        decode_all("consents", bytes, |reader| {
            reader.version(VERSION)?;
            let (source, source_len, participant) =
                (Source::decode(reader)?, reader.value::<u32>()?, reader.value()?);
            let answers = reader.value::<u32>()?;
            if source_len as usize > MAX_BATCH || answers > source_len {
                return Err(reader.error("a count is above its limit"));
            }
            let items = reader.count(MAX_BATCH)?;
            let beside = reader.count(MAX_BESIDE)?;
            let batch = Self {
                source,
                source_len,
                participant,
                answers,
                positions: reader.values(items)?,
                indices: reader.values(items)?,
                beside: reader.values(beside)?,
                signature: reader.value()?,
            };
            let ascending = batch.positions.windows(2).all(|pair| pair[0] < pair[1]);
            if !ascending || batch.positions.last().is_none_or(|last| *last >= answers) {
                return Err(reader.error("the positions do not ascend within the answers"));
            }
            if batch.indices.iter().any(|index| *index >= source_len) {
                return Err(reader.error("a transaction is outside the source"));
            }
            Ok(batch)
        })
    }
}
