//! A payment between two banks over a central bank, with everything that its proof is made of.

pub(crate) mod flip;

use tally_crypto::log::{MerkleLog, SignedTreeHead, TreeHead};
use tally_crypto::{Hash, SigningKey, merkle};
use tally_ledger::transaction::Terms;
use tally_ledger::{
    AccountNumber, Amount, AssetId, Kind, Leg, NetworkId, ParticipantId, Timestamp, Transaction, Uetr,
};
use tally_proof::approval::{Answer, Sibling, Statement};
use tally_proof::sequence::{self, BatchLeaf};
use tally_proof::{Approval, Consistency, Contents, Institution, Keys, Proof, Receipt};

pub(crate) const NETWORK: NetworkId = NetworkId([
    0xdf, 0x84, 0x0a, 0x30, 0x4e, 0x77, 0x2e, 0xf4, 0xcd, 0xfb, 0x23, 0x29, 0x3d, 0x8a, 0xda, 0xdd, 0xe8,
    0xd4, 0x35, 0x67, 0xbd, 0xe4, 0xb0, 0x19, 0x0c, 0x3d, 0x95, 0x4f, 0x69, 0x6f, 0x0b, 0x0a,
]);
/// Another network, whose id begins with the same four bytes.
pub(crate) const NAMESAKE: NetworkId = {
    let mut id = NETWORK.0;
    id[4] ^= 1;
    NetworkId(id)
};
pub(crate) const BICS: [&str; 4] = ["CENTDEFF", "BANKDEFF", "BANKFRPP", "BANKESMM"];
const SCHEDULER: u64 = 1;
const BATCH: u64 = 40;
const BATCH_LEN: u32 = 9;
/// The payment's place in the accepted batch and among the decisions of its batch.
const INDEX: u32 = 5;
const POSITION: usize = 4;

pub(crate) fn key(participant: u8) -> SigningKey {
    SigningKey::from_seed([participant + 1; 32])
}

pub(crate) fn keys() -> Keys {
    let institutions = (0u8..).zip(BICS).map(|(number, bic)| Institution {
        participant: ParticipantId(u16::from(number)),
        bic: bic.to_owned(),
        key: key(number).public_key(),
    });
    Keys {
        network: NETWORK,
        operator: key(0).public_key(),
        witnesses: 0,
        institutions: institutions.collect(),
    }
}

pub(crate) fn payment() -> Transaction {
    let euro = AssetId(0);
    let leg = |participant, account, amount| Leg {
        participant: ParticipantId(participant),
        asset: euro,
        account,
        amount: Amount(amount),
    };
    let settlement = |holder| AccountNumber::settlement(euro, ParticipantId(holder));
    let legs = vec![
        leg(1, AccountNumber(7), -1_250),
        leg(0, settlement(1), -1_250),
        leg(0, settlement(2), 1_250),
        leg(2, AccountNumber(3), 1_250),
    ];
    let terms = Terms {
        network: NETWORK,
        uetr: "97ed4827-7b6f-4491-a06f-b548d5a7512d".parse::<Uetr>().unwrap(),
        expiry: Timestamp(1_750_000_060_000),
        details: tally_crypto::hash(b"invoice 4711"),
        seed: [9; 16],
    };
    Transaction::new(Kind::Transfer, &terms, legs)
}

/// The operator's log: `leaves` batches, of which the payment's is number 20, and their heads.
pub(crate) struct Ledger {
    pub(crate) tree: MerkleLog,
    pub(crate) heads: Vec<SignedTreeHead>,
    receipt: Receipt,
}

impl Ledger {
    pub(crate) fn new(verdict: u16, leaves: u64) -> Self {
        Self::of(NETWORK, payment().id(&NETWORK), verdict, leaves)
    }

    /// The same of another network, or with another transaction in the payment's place.
    pub(crate) fn of(network: NetworkId, id: Hash, verdict: u16, leaves: u64) -> Self {
        let other = |n: u64| tally_crypto::hash(&n.to_le_bytes());
        let (mut tree, mut heads, mut receipt) = (MerkleLog::new(), Vec::new(), None);
        for number in 0..leaves {
            let first = number * 7;
            let ids: Vec<Hash> = (0..7).map(|n| other(first + n)).collect();
            let mut decisions: Vec<Hash> =
                (first..).zip(&ids).map(|(at, id)| sequence::leaf(id, at, 0)).collect();
            let ours = number == 20;
            if ours {
                decisions[POSITION] = sequence::leaf(&id, first + POSITION as u64, verdict);
            }
            let leaf = BatchLeaf {
                root: merkle::root(&decisions),
                first,
                count: 7,
                scheduler: SCHEDULER,
                batch: BATCH + number - 20 * u64::from(number >= 20),
                timestamp: Timestamp(1_750_000_000_000 + number),
            };
            let at = tree.append(&leaf.data());
            let head = TreeHead { size: tree.len(), root: tree.root(), timestamp_ms: leaf.timestamp.0 };
            heads.push(SignedTreeHead::sign(head, &network.0, &key(0)));
            if ours {
                receipt = Some(Receipt {
                    id,
                    sequence: first + POSITION as u64,
                    verdict,
                    first,
                    count: 7,
                    scheduler: leaf.scheduler,
                    batch: leaf.batch,
                    timestamp: leaf.timestamp,
                    decision_path: merkle::path(&decisions, POSITION).unwrap(),
                    root: leaf.root,
                    leaf: at,
                    tree_path: Vec::new(),
                    head: heads[0],
                    cosignatures: Vec::new(),
                });
            }
        }
        Self { tree, heads, receipt: receipt.unwrap() }
    }

    /// The payment's receipt under the head of so many leaves.
    pub(crate) fn receipt(&self, size: u64) -> Receipt {
        let path = self.tree.inclusion_proof(self.receipt.leaf, size).unwrap();
        Receipt {
            tree_path: path.into_iter().map(Hash::from_bytes).collect(),
            head: self.heads[usize::try_from(size).unwrap() - 1],
            ..self.receipt.clone()
        }
    }

    pub(crate) fn consistency(&self, first: u64, second: u64) -> Consistency {
        let head = |size: u64| self.heads[usize::try_from(size).unwrap() - 1];
        let path = self.tree.consistency_proof(first, second).unwrap();
        Consistency {
            first: head(first),
            second: head(second),
            path: path.into_iter().map(Hash::from_bytes).collect(),
            first_cosignatures: Vec::new(),
            second_cosignatures: Vec::new(),
        }
    }
}

/// The answer of a participant, the third of the six that it signed together.
pub(crate) fn approval(participant: u8, verdict: u16) -> Approval {
    approval_of(&NETWORK, payment().id(&NETWORK), participant, verdict)
}

/// The same on another network, or to another transaction.
pub(crate) fn approval_of(network: &NetworkId, id: Hash, participant: u8, verdict: u16) -> Approval {
    let answers: Vec<Hash> = (0u32..6)
        .map(|n| {
            let other = tally_crypto::hash(&[participant, 77, u8::try_from(n).unwrap()]);
            let (id, index) = if n == 2 { (id, INDEX) } else { (other, n) };
            let verdict = if n == 2 { verdict } else { 0 };
            Answer { id, index, verdict }.leaf()
        })
        .collect();
    let statement = Statement {
        root: merkle::root(&answers),
        scheduler: SCHEDULER,
        batch: BATCH,
        participant: ParticipantId(u16::from(participant)),
        batch_len: BATCH_LEN,
    };
    Approval {
        participant: statement.participant,
        verdict,
        index: INDEX,
        batch_len: BATCH_LEN,
        path: Sibling::path(&answers, 2).unwrap(),
        signature: key(participant).sign(statement.hash(network).as_bytes()),
    }
}

/// The proof of the payment, which shows the first bank's leg.
pub(crate) fn proof() -> Proof {
    Proof {
        version: tally_proof::proof::VERSION,
        transaction: Contents::of(NETWORK, &payment(), |leg| leg.participant == ParticipantId(1)),
        receipt: Ledger::new(0, 50).receipt(50),
        approvals: (0..3).map(|participant| approval(participant, 0)).collect(),
        missing: Vec::new(),
    }
}
