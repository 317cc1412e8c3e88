//! What a validator's host does around the engine.

use std::sync::Arc;

use alloy_consensus::proofs::ordered_trie_root_encoded;
use alloy_consensus::{EMPTY_OMMER_ROOT_HASH, Header};
use alloy_primitives::{Address, B256, Bytes, U256};
use alloy_rlp::Encodable;
use tally_consensus::{
    Block, BuildRequest, Config, Engine, ExtraData, Head, MIX_HASH, Proposals, Protocol, Tally,
    ValidatorsFrom, View, Vote,
};

use super::check::INVALID;
use super::keys::{PlainKeys, address};
use super::plan::{Broken, Plan};

/// Chains begin here, in seconds since 1970.
pub(super) const GENESIS_S: u64 = 1_000;

/// One running validator: its disk, and the engine while it is up.
pub(super) struct Host {
    pub(super) node: usize,
    pub(super) engine: Option<Engine>,
    /// How often it was started.
    pub(super) life: u64,
    /// On disk: final blocks from the genesis on.
    pub(super) chain: Vec<Block>,
    /// On disk: what the engine wants kept.
    pub(super) record: Option<Vec<u8>>,
    /// The validators after each block of the chain.
    tallies: Vec<Tally>,
    wishes: Proposals,
    transactions: bool,
}

/// The transactions of the block with this state root: none to three.
fn transactions(salt: B256) -> Vec<Bytes> {
    let transaction = |index: u8| [&[2, index], &salt.0[..]].concat().into();
    (0..salt.0[31] % 4).map(transaction).collect()
}

/// Makes the block that was asked for; `salt` makes it differ from others.
pub(super) fn build(request: &BuildRequest, salt: B256) -> Bytes {
    let transactions = transactions(salt);
    let header = Header {
        parent_hash: request.parent,
        transactions_root: ordered_trie_root_encoded(&transactions),
        ommers_hash: EMPTY_OMMER_ROOT_HASH,
        beneficiary: request.proposer,
        state_root: salt,
        difficulty: U256::from(1),
        number: request.view.height,
        timestamp: request.timestamp_s,
        extra_data: request.extra_data.clone(),
        mix_hash: MIX_HASH,
        ..Header::default()
    };
    block_bytes(&header, &transactions)
}

/// What a host finds that executes the block: whether it is right, header and body.
pub(super) fn is_right(block: &Block) -> bool {
    let state_root = block.header().state_root;
    let right = block_bytes(block.header(), &transactions(state_root));
    state_root.0[0] != INVALID && *block.bytes() == right
}

/// The same header with one transaction more, or with none.
pub(super) fn with_other_body(protocol: Protocol, block: &Block) -> Block {
    let mut other = transactions(block.header().state_root);
    if other.len() == 3 {
        other.clear();
    } else {
        other.push(Bytes::from_static(&[2, 0xee]));
    }
    Block::decode(protocol, block_bytes(block.header(), &other)).expect("a header and a body")
}

fn block_bytes(header: &Header, transactions: &[Bytes]) -> Bytes {
    let mut payload = Vec::new();
    header.encode(&mut payload);
    alloy_rlp::encode_list::<_, Bytes>(transactions, &mut payload);
    payload.push(alloy_rlp::EMPTY_LIST_CODE);
    let mut bytes = Vec::new();
    alloy_rlp::Header { list: true, payload_length: payload.len() }.encode(&mut bytes);
    bytes.extend_from_slice(&payload);
    bytes.into()
}

fn genesis(plan: &Plan) -> Block {
    let founders: Vec<Address> = (0..plan.founders).map(address).collect();
    let extra = ExtraData::of_validators(&founders).encode(plan.protocol, tally_consensus::Cover::Everything);
    let header = Header { timestamp: GENESIS_S, extra_data: extra.into(), ..Header::default() };
    Block::decode(plan.protocol, block_bytes(&header, &[])).expect("the genesis can be read")
}

impl Host {
    pub(super) fn new(plan: &Plan, node: usize) -> Self {
        let genesis = genesis(plan);
        let tally = Tally::new(&genesis.extra().validators);
        let mut wishes = Proposals::default();
        if plan.founders < plan.nodes() {
            wishes.propose(Vote { recipient: address(plan.founders), add: true });
        }
        Self {
            node,
            engine: None,
            life: 0,
            chain: vec![genesis],
            record: None,
            tallies: vec![tally],
            wishes,
            transactions: false,
        }
    }

    pub(super) fn start(&mut self, plan: &Plan) {
        self.life += 1;
        let mut config = Config::new(plan.protocol);
        config.policy = plan.policy;
        config.max_request_timeout_ms = plan.max_timeout_ms;
        config.relay = plan.relay;
        let mut engine = Engine::new(config, Arc::new(PlainKeys(address(self.node))));
        if let Some(record) = &self.record
            && plan.broken != Some(Broken::Persist)
        {
            engine.restore(record).expect("a record can be read");
        }
        self.engine = Some(engine);
    }

    /// The height and round of the engine, while it is up.
    pub(super) fn view(&self) -> Option<View> {
        self.engine.as_ref()?.status().view
    }

    pub(super) fn height(&self) -> u64 {
        self.last().number()
    }

    pub(super) fn last(&self) -> &Block {
        self.chain.last().expect("a chain has its genesis")
    }

    fn tally(&self) -> &Tally {
        self.tallies.last().expect("there is one for each block")
    }

    /// What the engine is told of the chain.
    pub(super) fn head(&self, plan: &Plan) -> Head {
        let last = self.last();
        let next = last.number() + 1;
        Head {
            number: last.number(),
            hash: if last.number() == 0 { last.header().hash_slow() } else { last.hash() },
            timestamp_s: last.header().timestamp,
            proposer: last.proposer(),
            validators: self.tally().validators(),
            named: ValidatorsFrom::Headers,
            vote: self.wishes.next(self.tally(), address(self.node), next),
            settings: plan.settings,
        }
    }

    /// The earliest timestamp of the next block.
    pub(super) fn earliest_s(&self, plan: &Plan) -> u64 {
        self.last().header().timestamp + plan.settings.timestamp_gap_s()
    }

    /// Appends a final block; whether it was the next one.
    pub(super) fn import(&mut self, plan: &Plan, block: &Block) -> bool {
        let head = self.head(plan);
        if block.number() != head.number + 1 || block.parent() != head.hash {
            return false;
        }
        let mut tally = self.tally().clone();
        tally.apply(block.number(), plan.epoch, block.proposer(), block.extra().vote);
        self.tallies.push(tally);
        self.chain.push(block.clone());
        true
    }

    pub(super) fn set_transactions(&mut self, waiting: bool) {
        self.transactions = waiting;
    }

    pub(super) fn has_transactions(&self) -> bool {
        self.transactions
    }

    pub(super) fn decode(protocol: Protocol, bytes: &Bytes) -> Option<Block> {
        Block::decode(protocol, bytes.clone()).ok()
    }
}
