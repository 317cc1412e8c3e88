//! A member that lies. It has nothing but its own key: what others signed it can only pass on,
//! change around, or withhold.

use std::collections::VecDeque;

use alloy_primitives::{Address, B256, Bytes, U256, keccak256};
use alloy_rlp::Encodable;
use tally_consensus::message::{
    Commit as Seal, Prepare, Proposal, RoundChange, RoundChangePayload, Signed, commit_hash, prepare_hash,
    proposal_hash, round_change_hash,
};
use tally_consensus::{Block, Message as Round, Packet, Protocol, View};
use tally_contracts::{StateRef, Timestamp, TransactionId, encode};
use tally_crypto::hash;
use tally_notary::{Answer, Batch, Message, Outcome, Request};
use tally_sim::Rng;

use super::keys::{address, seal};
use super::plan::Plan;

const MEMORY: usize = 48;
const PROTOCOL: Protocol = Protocol::QBFT;

pub(crate) struct Liar {
    me: Address,
    rng: Rng,
    heard: VecDeque<Vec<u8>>,
    requests: Vec<Request>,
    blocks: VecDeque<Block>,
    changes: Vec<RoundChange>,
    view: View,
    /// The last round in which it proposed, and the false block that it proposes to all in place of
    /// its program's.
    plot: Option<(View, Option<Block>)>,
}

type Letters = Vec<(usize, Vec<u8>)>;

fn round(message: &Round) -> Vec<u8> {
    let packet = message.encode(PROTOCOL);
    Message::Round { code: packet.code, bytes: packet.bytes.to_vec() }.to_bytes()
}

fn keep<T>(all: &mut VecDeque<T>, item: T) {
    if all.len() == MEMORY {
        all.pop_front();
    }
    all.push_back(item);
}

impl Liar {
    pub(crate) fn new(node: usize, rng: Rng) -> Self {
        Self {
            me: address(node),
            rng,
            heard: VecDeque::new(),
            requests: Vec::new(),
            blocks: VecDeque::new(),
            changes: Vec::new(),
            view: View { height: 1, round: 0 },
            plot: None,
        }
    }

    /// Notes what it hears, or says itself.
    fn learn(&mut self, bytes: &[u8]) {
        keep(&mut self.heard, bytes.to_vec());
        let Ok(Message::Round { code, bytes }) = Message::from_bytes(bytes, usize::MAX) else { return };
        let Ok(message) = Round::decode(PROTOCOL, &Packet { code, bytes: bytes.into() }) else { return };
        if message.view().height > self.view.height {
            self.changes.clear();
        }
        self.view = self.view.max(message.view());
        match message {
            Round::Proposal(proposal) => keep(&mut self.blocks, proposal.block),
            Round::RoundChange(change) => {
                if self.changes.len() < MEMORY {
                    self.changes.push(*change);
                }
            }
            Round::Prepare(_) | Round::Commit(_) => {}
        }
    }

    /// A client asks it for this.
    pub(crate) fn is_asked(&mut self, request: &Request) {
        if !self.requests.contains(request) {
            self.requests.push(request.clone());
        }
    }

    /// What it says of its own accord after it has heard something.
    pub(crate) fn hears(&mut self, plan: &Plan, bytes: &[u8]) -> Letters {
        self.learn(bytes);
        let mut letters = Letters::new();
        if self.rng.chance(1, 3) {
            self.make_up(plan, &mut letters);
        }
        letters
    }

    /// What becomes of something that its program wants to send.
    pub(crate) fn sends(&mut self, plan: &Plan, to: usize, bytes: Vec<u8>) -> Letters {
        self.learn(&bytes);
        if let Some(other) = self.plots(plan, &bytes) {
            return vec![(to, other)];
        }
        match self.rng.below(10) {
            // Withheld.
            0 | 1 => Letters::new(),
            2 => {
                let mut letters = vec![(to, bytes)];
                self.make_up(plan, &mut letters);
                letters
            }
            3 => match Message::from_bytes(&bytes, usize::MAX) {
                Ok(Message::Round { code, bytes }) => {
                    let packet = Packet { code, bytes: bytes.into() };
                    let Ok(message) = Round::decode(PROTOCOL, &packet) else { return Letters::new() };
                    let other = self.contradict(plan, message);
                    vec![(to, round(&other))]
                }
                _ => vec![(to, bytes)],
            },
            _ => vec![(to, bytes)],
        }
    }

    /// What it sends in place of a proposal of its program, to everybody alike: so it has the votes
    /// of all who believe it.
    fn plots(&mut self, plan: &Plan, bytes: &[u8]) -> Option<Vec<u8>> {
        let Ok(Message::Round { code, bytes }) = Message::from_bytes(bytes, usize::MAX) else { return None };
        let message = Round::decode(PROTOCOL, &Packet { code, bytes: bytes.into() }).ok()?;
        let Round::Proposal(proposal) = message else { return None };
        if self.plot.as_ref().is_none_or(|(view, _)| *view != proposal.view) {
            let block = self.rng.chance(1, 2).then(|| self.other_block(plan, &proposal.block)).flatten();
            self.plot = Some((proposal.view, block));
        }
        let block = self.plot.as_ref()?.1.clone()?;
        Some(round(&self.propose(*proposal, block)))
    }

    /// The same kind of message for the same round that says something else.
    fn contradict(&mut self, plan: &Plan, message: Round) -> Round {
        match message {
            Round::Prepare(signed) => self.prepare(signed.payload.view),
            Round::Commit(signed) => self.commit(signed.payload.view),
            Round::RoundChange(change) => {
                let payload = RoundChangePayload { view: change.signed.payload.view, prepared: None };
                let signed = Signed { seal: self.sign(round_change_hash(PROTOCOL, &payload)), payload };
                Round::RoundChange(Box::new(RoundChange { signed, block: None, prepares: Vec::new() }))
            }
            Round::Proposal(proposal) => {
                let block = self.other_block(plan, &proposal.block).unwrap_or_else(|| proposal.block.clone());
                self.propose(*proposal, block)
            }
        }
    }

    fn propose(&self, proposal: Proposal, block: Block) -> Round {
        let seal = self.sign(proposal_hash(PROTOCOL, proposal.view, &block));
        Round::Proposal(Box::new(Proposal { block, seal, ..proposal }))
    }

    fn sign(&self, hash: B256) -> tally_consensus::Seal {
        seal(self.me, hash)
    }

    fn any_digest(&mut self, round: u32) -> B256 {
        if self.blocks.is_empty() || self.rng.chance(1, 8) {
            return B256::repeat_byte(3);
        }
        let at = self.rng.index(self.blocks.len());
        self.blocks[at].with_round(round).digest()
    }

    fn prepare(&mut self, view: View) -> Round {
        let payload = Prepare { view, digest: self.any_digest(view.round) };
        Round::Prepare(Signed { payload, seal: self.sign(prepare_hash(PROTOCOL, &payload)) })
    }

    fn commit(&mut self, view: View) -> Round {
        let digest = self.any_digest(view.round);
        let sealed = if self.rng.chance(1, 8) { B256::ZERO } else { digest };
        let payload = Seal { view, digest, commit_seal: self.sign(sealed) };
        Round::Commit(Signed { payload, seal: self.sign(commit_hash(PROTOCOL, &payload)) })
    }

    /// A block for the same place with a batch that is another, or no good.
    fn other_block(&mut self, plan: &Plan, block: &Block) -> Option<Block> {
        let mut batch = batch_of(block)?;
        let mut header = block.header().clone();
        let mut bound = true;
        match self.rng.below(7) {
            0 => batch.requests.reverse(),
            1 => drop(batch.requests.pop()),
            2 => batch.requests.push(self.forged(plan)),
            3 => {
                // As far back as it dares: some of the others may find it late.
                let back_ms = self.rng.below(20_000);
                let time_ms = batch.time.as_millis().saturating_sub(back_ms);
                batch.time = Timestamp::from_millis(time_ms);
                header.timestamp = time_ms / 1_000;
            }
            4 => {
                // One header for two batches.
                batch.requests.push(self.forged(plan));
                bound = false;
            }
            5 => header.receipts_root = B256::repeat_byte(9),
            _ => batch.requests.extend(plan.wishes.first().map(|wish| wish.request.clone())),
        }
        let body = encode(&batch);
        if bound {
            header.transactions_root = keccak256(&body);
        }
        if header.receipts_root == block.header().receipts_root && self.rng.chance(3, 4) {
            // What it would be if all of it were committed.
            let outcomes = vec![Outcome::Committed; batch.requests.len()];
            header.receipts_root = B256::from(*hash(&encode(&outcomes)).as_bytes());
        }
        header.difficulty = U256::from(1);
        Block::decode(PROTOCOL, block_bytes(&header, &body)).ok()
    }

    /// Somebody's states, consumed by a transaction that nobody consented to; or one that was asked
    /// for, with other inputs.
    fn forged(&mut self, plan: &Plan) -> Request {
        let at = self.rng.index(plan.wishes.len());
        let mut request = plan.wishes[at].request.clone();
        let other = self.rng.index(plan.wishes.len());
        request.commit.inputs = plan.wishes[other].request.commit.inputs.clone();
        request.evidence = vec![0; 32];
        request
    }

    fn make_up(&mut self, plan: &Plan, letters: &mut Letters) {
        let bytes = match self.rng.below(10) {
            0 => round(&self.prepare(self.view)),
            1 => round(&self.commit(self.view)),
            2 => {
                let view =
                    View { round: self.view.round + 1 + u32::from(self.rng.chance(1, 4)), ..self.view };
                let payload = RoundChangePayload { view, prepared: None };
                let signed = Signed { seal: self.sign(round_change_hash(PROTOCOL, &payload)), payload };
                round(&Round::RoundChange(Box::new(RoundChange {
                    signed,
                    block: None,
                    prepares: Vec::new(),
                })))
            }
            3 | 4 => match self.proposal(plan) {
                Some(proposal) => round(&proposal),
                None => return,
            },
            5 => {
                // A request that was asked for once, whatever became of it.
                let known = (!self.requests.is_empty()).then(|| self.rng.index(self.requests.len()));
                let request = match known.filter(|_| self.rng.chance(2, 3)) {
                    Some(known) => self.requests[known].clone(),
                    None => self.forged(plan),
                };
                Message::Forward(vec![request]).to_bytes()
            }
            6 => Message::Fetch { from: self.rng.below(self.view.height + 2) }.to_bytes(),
            7 => {
                let Some(block) = self.blocks.back().cloned() else { return };
                let false_one = self.other_block(plan, &block).unwrap_or(block);
                Message::Batches(vec![self.sealed(&false_one)]).to_bytes()
            }
            _ => {
                if self.heard.is_empty() {
                    return;
                }
                let at = self.rng.index(self.heard.len());
                let mut bytes = self.heard[at].clone();
                if self.rng.chance(1, 3) {
                    let at = self.rng.index(bytes.len());
                    bytes[at] ^= 1 << self.rng.below(8);
                }
                bytes
            }
        };
        // To some only: the others hear something else.
        let to = self.rng.next_u64();
        letters.extend(
            (0..plan.nodes())
                .filter(|node| to >> node & 1 == 1 && address(*node) != self.me)
                .map(|node| (node, bytes.clone())),
        );
    }

    /// A block for the current height in its own name, in a round of its own or of others.
    fn proposal(&mut self, plan: &Plan) -> Option<Round> {
        let at = self.rng.index(self.blocks.len().max(1));
        let block = self.blocks.get(at)?.clone();
        let round = self.view.round + u32::from(self.rng.chance(1, 2));
        let view = View { height: block.number(), round };
        let block = self.other_block(plan, &block.with_round(round))?;
        let mut header = block.header().clone();
        header.beneficiary = self.me;
        let block = Block::decode(PROTOCOL, block_bytes(&header, &body_of(&block)?)).ok()?;
        let round_changes: Vec<_> = if round == 0 {
            Vec::new()
        } else {
            let of_round = self.changes.iter().filter(|change| change.signed.payload.view == view);
            // Rather those that claim nothing, so that what is prepared gets lost.
            of_round
                .map(|change| change.signed.clone())
                .filter(|signed| signed.payload.prepared.is_none())
                .collect()
        };
        let proposal = Proposal {
            view,
            seal: self.sign(B256::ZERO),
            block: block.clone(),
            round_changes,
            prepares: vec![],
        };
        keep(&mut self.blocks, block.clone());
        Some(self.propose(proposal, block))
    }

    /// A block with seals of which one is good: its own, as often as it takes.
    fn sealed(&mut self, block: &Block) -> Vec<u8> {
        let mut seals = vec![self.sign(block.digest()); 3];
        if self.rng.chance(1, 2) {
            // In others' names, which does not verify.
            seals = (0..3).map(|node| seal(address(node), B256::repeat_byte(1))).collect();
        }
        block.with_seals(seals).bytes().to_vec()
    }

    /// Decided batches as it tells of them.
    pub(crate) fn tells(&mut self, plan: &Plan, mut batches: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
        match self.rng.below(6) {
            0 => batches.reverse(),
            1 => drop(batches.remove(0)),
            2 | 3 => {
                let at = self.rng.index(batches.len());
                let block =
                    Block::decode(PROTOCOL, Bytes::from(batches[at].clone())).expect("a decided batch");
                let seals = block.extra().seals.clone();
                if let Some(other) = self.other_block(plan, &block.with_round(block.round())) {
                    batches[at] = other.with_seals(seals).bytes().to_vec();
                }
            }
            4 => {
                let at = self.rng.index(batches.len());
                let block =
                    Block::decode(PROTOCOL, Bytes::from(batches[at].clone())).expect("a decided batch");
                let mut seals = block.extra().seals.clone();
                seals.pop();
                if self.rng.chance(1, 2) {
                    seals.extend(seals.first().copied());
                }
                batches[at] = block.with_seals(seals).bytes().to_vec();
            }
            _ => {}
        }
        batches
    }

    /// What it answers where its program answers this.
    pub(crate) fn answers(&mut self, plan: &Plan, answer: Answer) -> Option<Answer> {
        let any = |rng: &mut Rng| plan.wishes[rng.index(plan.wishes.len())].request.commit.transaction;
        match self.rng.below(4) {
            0 => None,
            1 => Some(Answer { outcome: Outcome::Committed, ..answer }),
            2 => {
                let state = StateRef { transaction: TransactionId::from_bytes([0x80; 32]), index: 0 };
                let consumed_by = any(&mut self.rng);
                Some(Answer { outcome: Outcome::Conflict { state, consumed_by }, ..answer })
            }
            _ => Some(answer),
        }
    }
}

fn body_of(block: &Block) -> Option<Vec<u8>> {
    let mut bytes: &[u8] = block.bytes();
    alloy_rlp::Header::decode(&mut bytes).ok()?;
    <alloy_consensus::Header as alloy_rlp::Decodable>::decode(&mut bytes).ok()?;
    alloy_rlp::Header::decode_bytes(&mut bytes, false).ok().map(<[u8]>::to_vec)
}

fn batch_of(block: &Block) -> Option<Batch> {
    borsh::from_slice(&body_of(block)?).ok()
}

fn block_bytes(header: &alloy_consensus::Header, body: &[u8]) -> Bytes {
    let mut payload = alloy_rlp::encode(header);
    body.encode(&mut payload);
    let mut bytes = Vec::new();
    alloy_rlp::Header { list: true, payload_length: payload.len() }.encode(&mut bytes);
    bytes.extend_from_slice(&payload);
    bytes.into()
}
