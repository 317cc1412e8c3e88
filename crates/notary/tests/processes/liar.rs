//! What the lying member does to what its program says.

use std::time::{SystemTime, UNIX_EPOCH};

use alloy_primitives::B256;
use tally_consensus::message::{Commit, Prepare, Signed, commit_hash, prepare_hash};
use tally_consensus::{Keys, Message as Round, Packet, Protocol, SecretKey};
use tally_notary::{Answer, Message, Outcome};
use tally_sim::Rng;

use super::wire::voter;

const PROTOCOL: Protocol = Protocol::QBFT;

pub(crate) struct Liar {
    key: SecretKey,
    rng: Rng,
    heard: Vec<Vec<u8>>,
    digest: B256,
}

fn rng() -> Rng {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Rng::new(u64::from(since.subsec_nanos()) ^ since.as_secs())
}

/// Says in one of three cases that all is committed, or that nothing is.
pub(crate) fn answer(answer: Answer) -> Answer {
    match (rng().below(3), answer.outcome) {
        (0, _) => Answer { outcome: Outcome::Committed, ..answer },
        (1, _) => Answer { outcome: Outcome::OutsideTimeWindow { at: Default::default() }, ..answer },
        _ => answer,
    }
}

impl Liar {
    pub(crate) fn new(node: usize) -> Self {
        Self { key: voter(node), rng: rng(), heard: Vec::new(), digest: B256::ZERO }
    }

    /// What is sent in place of a message.
    pub(crate) fn sends(&mut self, bytes: Vec<u8>) -> Vec<Vec<u8>> {
        if self.heard.len() < 200 {
            self.heard.push(bytes.clone());
        } else {
            let at = self.rng.index(200);
            self.heard[at].clone_from(&bytes);
        }
        match self.rng.below(6) {
            0 => Vec::new(),
            1 => {
                let at = self.rng.index(self.heard.len());
                vec![self.heard[at].clone(), bytes]
            }
            2 => vec![self.contradict(&bytes), bytes],
            3 => vec![self.contradict(&bytes)],
            _ => vec![bytes],
        }
    }

    /// The same vote for another digest, signed; or decided batches that are cut short.
    fn contradict(&mut self, bytes: &[u8]) -> Vec<u8> {
        match Message::from_bytes(bytes, usize::MAX) {
            Ok(Message::Batches(mut batches)) => {
                if let Some(last) = batches.last_mut().and_then(|batch| batch.last_mut()) {
                    *last ^= 1;
                }
                Message::Batches(batches).to_bytes()
            }
            Ok(Message::Round { code, bytes: packet }) => {
                let packet = Packet { code, bytes: packet.into() };
                let Ok(message) = Round::decode(PROTOCOL, &packet) else { return bytes.to_vec() };
                let before = self.digest;
                let other = match message {
                    Round::Prepare(Signed { payload, .. }) => {
                        self.digest = payload.digest;
                        let payload = Prepare { digest: before, ..payload };
                        let Some(seal) = self.key.sign(prepare_hash(PROTOCOL, &payload)) else {
                            return bytes.to_vec();
                        };
                        Round::Prepare(Signed { payload, seal })
                    }
                    Round::Commit(Signed { payload, .. }) => {
                        let Some(commit_seal) = self.key.sign(before) else { return bytes.to_vec() };
                        let payload = Commit { digest: before, commit_seal, ..payload };
                        let Some(seal) = self.key.sign(commit_hash(PROTOCOL, &payload)) else {
                            return bytes.to_vec();
                        };
                        Round::Commit(Signed { payload, seal })
                    }
                    other => other,
                };
                let packet = other.encode(PROTOCOL);
                Message::Round { code: packet.code, bytes: packet.bytes.to_vec() }.to_bytes()
            }
            _ => bytes.to_vec(),
        }
    }
}
