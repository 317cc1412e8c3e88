//! What lets a block be proposed again, and what must not let another one be.

use alloy_consensus::Header;
use alloy_primitives::B256;

use super::*;
use crate::block::Block;
use crate::extra::{Cover, ExtraData};
use crate::message::{Certificate, PreparedRound, prepare_hash, proposal_hash, round_change_hash};
use crate::seal::SecretKey;

const PROTOCOLS: [Protocol; 2] = [Protocol::Ibft2, Protocol::QBFT];
const HEIGHT: u64 = 7;

struct Scene {
    protocol: Protocol,
    keys: Vec<SecretKey>,
    validators: ValidatorSet,
}

impl Scene {
    fn new(protocol: Protocol) -> Self {
        let mut keys: Vec<SecretKey> = (1..=4).map(|n| SecretKey::from_bytes(&[n; 32]).unwrap()).collect();
        keys.sort_by_key(Keys::address);
        let validators = ValidatorSet::new(keys.iter().map(Keys::address).collect());
        Self { protocol, keys, validators }
    }

    /// The validator `round` proposes in that round.
    fn context(&self) -> Context<'_> {
        Context {
            protocol: self.protocol,
            keys: &self.keys[0],
            validators: &self.validators,
            policy: ProposerPolicy::RoundRobin,
            previous: self.keys[3].address(),
        }
    }

    fn block(&self, maker: usize, round: u32, salt: u8) -> Block {
        let mut extra = ExtraData::of_validators(self.validators.addresses());
        extra.round = round;
        let header = Header {
            number: HEIGHT,
            beneficiary: self.keys[maker].address(),
            state_root: B256::repeat_byte(salt),
            extra_data: extra.encode(self.protocol, Cover::Everything).into(),
            ..Header::default()
        };
        let mut bytes = Vec::new();
        crate::rlp::list(&mut bytes, |out| alloy_rlp::Encodable::encode(&header, out));
        Block::decode(self.protocol, bytes.into()).unwrap()
    }

    fn prepare(&self, by: usize, block: &Block) -> Signed<Prepare> {
        let payload = Prepare { view: View { height: HEIGHT, round: block.round() }, digest: block.digest() };
        Signed { payload, seal: self.keys[by].sign(prepare_hash(self.protocol, &payload)).unwrap() }
    }

    /// Prepare messages that are just enough, beside the proposer's own share.
    fn prepares(&self, block: &Block) -> Vec<Signed<Prepare>> {
        [3, 2, 1].iter().take(self.protocol.prepares_needed(3)).map(|by| self.prepare(*by, block)).collect()
    }

    fn change(&self, by: usize, round: u32, on: Option<(&Block, Vec<Signed<Prepare>>)>) -> RoundChange {
        let prepared = on.as_ref().map(|(block, prepares)| {
            let view = View { height: HEIGHT, round: block.round() };
            let proposer = usize::try_from(block.round()).unwrap() % 4;
            let proposal_seal = self.keys[proposer].sign(proposal_hash(self.protocol, view, block)).unwrap();
            let certificate = Certificate { proposal_seal, prepares: prepares.clone() };
            let certificate = (self.protocol == Protocol::Ibft2).then_some(certificate);
            PreparedRound { round: block.round(), digest: block.digest(), certificate }
        });
        let payload = RoundChangePayload { view: View { height: HEIGHT, round }, prepared };
        let seal = self.keys[by].sign(round_change_hash(self.protocol, &payload)).unwrap();
        let (block, prepares) =
            on.map_or((None, Vec::new()), |(block, prepares)| (Some(block.clone()), prepares));
        let prepares = if self.protocol.proposer_prepares() { prepares } else { Vec::new() };
        RoundChange { signed: Signed { payload, seal }, block, prepares }
    }

    fn proposal(&self, block: Block, changes: &[RoundChange]) -> Proposal {
        let view = View { height: HEIGHT, round: block.round() };
        let highest =
            changes.iter().max_by_key(|change| change.signed.payload.prepared.as_ref().map(|p| p.round));
        Proposal {
            view,
            seal: self.keys[0].sign(B256::ZERO).unwrap(),
            block,
            round_changes: changes.iter().map(|change| change.signed.clone()).collect(),
            prepares: highest.map(|change| change.prepares.clone()).unwrap_or_default(),
        }
    }
}

#[test]
fn what_was_prepared_is_proposed_again() {
    for protocol in PROTOCOLS {
        let scene = Scene::new(protocol);
        let context = scene.context();
        let first = scene.block(0, 0, 1);
        let on = || Some((&first, scene.prepares(&first)));
        let changes = [scene.change(1, 1, on()), scene.change(2, 1, None), scene.change(3, 1, None)];
        for change in &changes {
            assert_eq!(context.round_change(change), Ok(()));
        }
        assert_eq!(context.proposal(&scene.proposal(first.with_round(1), &changes)), Ok(()));
        let other = scene.block(1, 1, 2);
        assert_eq!(context.proposal(&scene.proposal(other.clone(), &changes)), Err(Unjustified::OtherBlock));
        // Those who are not prepared let a new block pass, but only that of the round's proposer.
        let none = [scene.change(0, 1, None), scene.change(2, 1, None), scene.change(3, 1, None)];
        assert_eq!(context.proposal(&scene.proposal(other, &none)), Ok(()));
        assert_eq!(context.proposal(&scene.proposal(first.with_round(1), &none)), Err(Unjustified::Coinbase));
    }
}

#[test]
fn the_highest_prepared_round_counts() {
    for protocol in PROTOCOLS {
        let scene = Scene::new(protocol);
        let (zero, one) = (scene.block(0, 0, 1), scene.block(1, 1, 2));
        let one_prepares = match protocol {
            Protocol::Ibft2 => vec![scene.prepare(3, &one), scene.prepare(2, &one)],
            Protocol::Qbft(_) => scene.prepares(&one),
        };
        let changes = [
            scene.change(0, 2, Some((&zero, scene.prepares(&zero)))),
            scene.change(1, 2, Some((&one, one_prepares))),
            scene.change(3, 2, None),
        ];
        let context = scene.context();
        assert_eq!(context.proposal(&scene.proposal(one.with_round(2), &changes)), Ok(()));
        assert_eq!(
            context.proposal(&scene.proposal(zero.with_round(2), &changes)),
            Err(Unjustified::OtherBlock)
        );
    }
}

#[test]
fn quorums_are_of_distinct_validators_for_this_round() {
    for protocol in PROTOCOLS {
        let scene = Scene::new(protocol);
        let context = scene.context();
        let block = scene.block(1, 1, 1);
        let judge = |changes: &[RoundChange]| context.proposal(&scene.proposal(block.clone(), changes));
        let [a, b, c] = [0, 2, 3].map(|by| scene.change(by, 1, None));
        assert_eq!(judge(&[]), Err(Unjustified::RoundChanges));
        assert_eq!(judge(&[a.clone(), b.clone()]), Err(Unjustified::RoundChanges));
        assert_eq!(judge(&[a.clone(), b.clone(), b.clone()]), Err(Unjustified::RoundChanges));
        assert_eq!(judge(&[a.clone(), b.clone(), scene.change(3, 2, None)]), Err(Unjustified::OtherRound));
        assert_eq!(judge(&[a, b, c]), Ok(()));
        let first = scene.block(0, 0, 1);
        assert_eq!(context.proposal(&scene.proposal(first.clone(), &[])), Ok(()));
        let superfluous = scene.proposal(first, &[scene.change(3, 0, None)]);
        assert_eq!(context.proposal(&superfluous), Err(Unjustified::Superfluous));
    }
}

#[test]
fn claims_need_their_proof() {
    for protocol in PROTOCOLS {
        let scene = Scene::new(protocol);
        let context = scene.context();
        let first = scene.block(0, 0, 1);
        let good = scene.prepares(&first);
        let judge = |prepares: Vec<Signed<Prepare>>, round| {
            context.round_change(&scene.change(1, round, Some((&first, prepares))))
        };
        assert_eq!(judge(good.clone(), 1), Ok(()));
        assert_eq!(judge(good[1..].to_vec(), 1), Err(Unjustified::Prepares));
        let mut twice = good.clone();
        twice[1] = twice[0].clone();
        assert_eq!(judge(twice, 1), Err(Unjustified::Prepares));
        let mut other = good.clone();
        other[0] = scene.prepare(3, &scene.block(0, 0, 9));
        assert_eq!(judge(other, 1), Err(Unjustified::Prepares));
        assert_eq!(judge(good.clone(), 0), Err(Unjustified::PreparedRound));
        let mut without = scene.change(1, 1, Some((&first, good.clone())));
        without.block = None;
        assert_eq!(context.round_change(&without), Err(Unjustified::NoBlock));
        let mut wrong = scene.change(1, 1, Some((&first, good)));
        wrong.block = Some(scene.block(0, 0, 9));
        assert_eq!(context.round_change(&wrong), Err(Unjustified::OtherBlock));
        let mut extra = scene.change(1, 1, None);
        extra.block = Some(first.clone());
        assert_eq!(context.round_change(&extra), Err(Unjustified::Superfluous));
    }
    // In IBFT 2.0 the proposer's share is its proposal, which its prepare message must not double.
    let scene = Scene::new(Protocol::Ibft2);
    let first = scene.block(0, 0, 1);
    let doubled = vec![scene.prepare(0, &first), scene.prepare(2, &first)];
    let change = scene.change(1, 1, Some((&first, doubled)));
    assert_eq!(scene.context().round_change(&change), Err(Unjustified::Prepares));
}
