//! Which of the databases that the node ever ran on this is, and what peers told of theirs.
//!
//! A database has a *standing*: the era, which is raised when the node goes on from a database that is not the newest;
//! the generation, raised at each start and now and then under load; and two random ids, one of the database's life and
//! one of the process. A standing is durable before it is told, and told with a signature. Of two standings of one node
//! the higher is the newer; two that are equal and of different lives or processes are of copies. Whoever is shown a
//! newer standing of its own, with its own signature, knows that its database is not the newest. Until it is recovered
//! such a node marks its standing as outdated and judges no peer: what two databases of one node say of the world counts
//! for nobody, and a peer that has no memory must not take the older for the newer.

use std::collections::HashMap;

use borsh::{BorshDeserialize, BorshSerialize};
use tally_contracts::{Name, NetworkId, Party, PublicKey, Signature, SigningKey};
use tally_store::Write;

/// What a standing is signed under, before the network's id and the node's name: a node that has one key in two networks
/// is not told of one network's databases in the other.
const DOMAIN: &[u8] = b"tallystick node standing 2\0";

/// How many eras each key of the node may sign for: those of its first key begin at 0, and a recovery under a later key
/// begins above all of those of the keys before. So what a thief of a former key signs stops the node once at most, and
/// no era that somebody makes up leaves the node without a higher one.
const ERAS_OF_A_KEY: u64 = 1 << 32;

/// The first era of the key at this place among the node's keys, oldest first.
fn first_era(place: usize) -> u64 {
    u64::try_from(place).unwrap_or(u64::MAX).saturating_mul(ERAS_OF_A_KEY)
}

/// Where a database stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub(crate) struct Standing {
    pub(crate) era: u64,
    pub(crate) generation: u64,
    pub(crate) life: [u8; 16],
    pub(crate) instance: [u8; 16],
}

#[derive(BorshSerialize, BorshDeserialize)]
struct Signed {
    standing: Standing,
    signature: Signature,
}

/// What the store keeps of this node's own standing.
#[derive(BorshSerialize, BorshDeserialize)]
struct Own {
    standing: Standing,
    /// The lowest era in which this database is the newest that is known.
    least_era: u64,
}

/// What a node tells of its database.
#[derive(BorshSerialize, BorshDeserialize)]
struct Told {
    signed: Signed,
    /// The node knows of a newer database of its own. Only a node that wants to be believed less sets it, so that nobody
    /// signs it.
    outdated: bool,
}

/// What is known of a peer's database.
struct Known {
    signed: Vec<u8>,
    standing: Standing,
}

/// What to make of what a peer told.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Nothing new.
    Known,
    /// The peer told a newer standing before: this one.
    Superseded(Vec<u8>),
    /// The peer says itself that it runs on an older database.
    Outdated,
    /// To be remembered.
    News {
        /// The standing with its signature, as it is kept.
        signed: Vec<u8>,
        /// The peer goes on from another database: it knows nothing of our queue to it.
        anew: bool,
        /// It knows nothing of the sessions with it either, or it set its queue to us anew.
        forgotten: bool,
    },
}

/// A row of the store that does not decode.
#[derive(Debug, thiserror::Error)]
#[error("{what} in the database does not decode: {source}")]
pub(crate) struct PastError {
    what: String,
    source: std::io::Error,
}

/// The node's memory of its own past and of its peers'.
#[derive(Default)]
pub(crate) struct Past {
    network: [u8; 32],
    own: Option<Standing>,
    least_era: u64,
    /// The standing that is durable, and its signature.
    told: Option<Signed>,
    recovery: Option<String>,
    peers: HashMap<Name, Known>,
}

fn written(signed: &Signed) -> Vec<u8> {
    borsh::to_vec(signed).expect("a standing is written to memory")
}

fn message(network: &[u8; 32], name: &Name, standing: &Standing) -> Vec<u8> {
    let mut message = DOMAIN.to_vec();
    message.extend(network);
    message.extend(borsh::to_vec(name.as_str()).expect("a name is written to memory"));
    message.extend(borsh::to_vec(standing).expect("a standing is written to memory"));
    message
}

impl Past {
    /// With which of these keys this party signed this standing for this network: its place.
    fn signer(
        &self,
        name: &Name,
        keys: &[PublicKey],
        Signed { standing, signature }: &Signed,
    ) -> Option<usize> {
        let message = message(&self.network, name, standing);
        keys.iter().position(|key| signature.verify(key, &message).is_ok())
    }

    /// What the store remembers of a node in this network.
    pub(crate) fn restore(network: NetworkId, past: tally_store::Past) -> Result<Self, PastError> {
        let decode = |what: &str| {
            let what = what.to_owned();
            move |source| PastError { what, source }
        };
        let own: Option<Own> = past
            .standing
            .map(|bytes| borsh::from_slice(&bytes).map_err(decode("the node's own standing")))
            .transpose()?;
        let mut peers = HashMap::new();
        for (name, signed) in past.acquaintances {
            let Signed { standing, .. } =
                borsh::from_slice(&signed).map_err(decode(&format!("the standing of {name}")))?;
            peers.insert(name, Known { signed, standing });
        }
        Ok(Self {
            network: *network.as_bytes(),
            own: own.as_ref().map(|own| own.standing),
            least_era: own.map_or(0, |own| own.least_era),
            told: None,
            recovery: past.recovery,
            peers,
        })
    }

    /// A process begins on this database, whose life is `life` if no process did before.
    pub(crate) fn begin(&mut self, life: [u8; 16], instance: [u8; 16]) {
        let before = self.own.unwrap_or(Standing { era: 1, generation: 0, life, instance });
        let own = Standing { generation: before.generation.saturating_add(1), instance, ..before };
        self.own = Some(own);
        self.least_era = self.least_era.max(own.era);
    }

    /// The next generation of the same process.
    pub(crate) fn beat(&mut self) {
        if let Some(own) = &mut self.own {
            own.generation = own.generation.saturating_add(1);
        }
    }

    /// The node goes on from this database as the newest. What peers told is forgotten: they told it to a database that
    /// was not the newest, and perhaps from one that was not either. `former` is how many keys the node had before its
    /// present one.
    pub(crate) fn renew(&mut self, life: [u8; 16], former: usize) {
        if let Some(own) = &mut self.own {
            let era = own.era.saturating_add(1).max(self.least_era).max(first_era(former));
            *own = Standing { era, generation: 1, life, instance: own.instance };
            self.least_era = era;
        }
        self.peers.clear();
    }

    pub(crate) fn own(&self) -> Option<Standing> {
        self.own
    }

    /// Why the node has to be recovered, if it has.
    pub(crate) fn recovery(&self) -> Option<&str> {
        self.recovery.as_deref()
    }

    /// The node has to be recovered, for this reason unless there is one.
    pub(crate) fn need(&mut self, reason: String) {
        self.recovery.get_or_insert(reason);
    }

    /// Whether no newer database of this node is known.
    pub(crate) fn is_newest(&self) -> bool {
        self.own.is_some_and(|own| own.era >= self.least_era)
    }

    /// A recovery ended. It counts unless a peer has shown meanwhile that the node went on from yet another database.
    pub(crate) fn recovered(&mut self) {
        if self.is_newest() {
            self.recovery = None;
        }
    }

    /// The node's own standing as the store keeps it.
    pub(crate) fn write(&self) -> Option<Write> {
        let own = Own { standing: self.own?, least_era: self.least_era };
        let standing = borsh::to_vec(&own).expect("a standing is written to memory");
        Some(Write::Standing { standing, recovery: self.recovery.clone() })
    }

    /// This standing is durable and may be told.
    pub(crate) fn durable(&mut self, name: &Name, key: &SigningKey, standing: &Standing) {
        let signature = key.sign(&message(&self.network, name, standing));
        let signed = Signed { standing: *standing, signature };
        self.told = Some(signed);
    }

    /// What to tell; empty before a standing is durable.
    pub(crate) fn told(&self) -> Vec<u8> {
        let Some(signed) = &self.told else { return Vec::new() };
        let outdated = signed.standing.era < self.least_era;
        borsh::to_vec(&(signed, outdated)).expect("a standing is written to memory")
    }

    /// What to make of what `peer` told; `None` when it is not signed by it. `another`: it sends over another queue than
    /// it did before. A node that runs on an outdated database itself has nothing to say.
    pub(crate) fn judge(&self, peer: &Party, told: &[u8], another: bool) -> Option<Verdict> {
        let Told { signed, outdated } = borsh::from_slice(told).ok()?;
        self.signer(&peer.name, &[peer.key], &signed)?;
        if !self.is_newest() {
            return Some(Verdict::Known);
        }
        let standing = signed.standing;
        let Some(known) = self.peers.get(&peer.name) else {
            return Some(if outdated {
                Verdict::Outdated
            } else {
                Verdict::News { signed: written(&signed), anew: false, forgotten: another }
            });
        };
        let before = &known.standing;
        let (rank, rank_before) = ((standing.era, standing.generation), (before.era, before.generation));
        let is_older = rank <= rank_before || (standing.era == before.era && standing.life != before.life);
        Some(if standing != *before && is_older {
            Verdict::Superseded(known.signed.clone())
        } else if outdated {
            Verdict::Outdated
        } else if standing == *before && !another {
            Verdict::Known
        } else {
            let anew = standing.era > before.era;
            Verdict::News { signed: written(&signed), anew, forgotten: anew || another }
        })
    }

    /// What `peer` told is durable. It was judged before.
    pub(crate) fn met(&mut self, peer: &Name, signed: Vec<u8>) {
        let Ok(Signed { standing, .. }) = borsh::from_slice(&signed) else { return };
        if self.is_newest() {
            self.peers.insert(peer.clone(), Known { signed, standing });
        }
    }

    /// `peer` shows a standing of this node. `true` when it proves that the node has to be recovered, which it did not
    /// know before, or more than it knew.
    ///
    /// It may have been signed with a key that the node had before: peers show what they have. Such a key may be a
    /// thief's, so that it counts for no era that it cannot have signed for. `own_keys` are all keys of the node, oldest
    /// first.
    pub(crate) fn superseded(
        &mut self,
        me: &Name,
        own_keys: &[PublicKey],
        peer: &Name,
        evidence: &[u8],
    ) -> bool {
        let (Some(own), Ok(signed)) = (self.own, borsh::from_slice::<Signed>(evidence)) else { return false };
        let Some(place) = self.signer(me, own_keys, &signed) else { return false };
        let shown = signed.standing;
        if shown.era >= first_era(place.saturating_add(1)) {
            return false;
        }
        let same_life = shown.life == own.life && shown.era == own.era;
        let newer = if same_life {
            let (rank, own_rank) = (shown.generation, own.generation);
            rank > own_rank || (rank == own_rank && shown.instance != own.instance)
        } else {
            shown.era >= own.era
        };
        if !newer || (self.recovery.is_some() && shown.era < self.least_era) {
            return false;
        }
        self.least_era = self.least_era.max(shown.era.saturating_add(1));
        let place = |standing: &Standing| format!("{}.{}", standing.era, standing.generation);
        let (seen, is) = (place(&shown), place(&own));
        self.recovery = Some(if same_life {
            format!(
                "another process has gone on from this database, or the database is older than it was: {peer} has \
                 seen its standing {seen}, here it is {is}"
            )
        } else {
            format!(
                "the node ran on another database, which is not this one: {peer} has seen its standing {seen}, here \
                 it is {is}"
            )
        });
        true
    }
}

#[cfg(test)]
mod tests {
    use tally_contracts::Scheme;

    use super::*;

    fn party(organisation: &str) -> (Party, SigningKey) {
        let secret = tally_crypto::hash(organisation.as_bytes());
        let key = SigningKey::from_secret(Scheme::Ed25519, secret.as_bytes()).expect("a key");
        (Party { name: Name::new(organisation, "London", "GB").expect("a name"), key: key.public_key() }, key)
    }

    fn signed(
        (party, key): &(Party, SigningKey),
        era: u64,
        generation: u64,
        life: u8,
        instance: u8,
    ) -> Vec<u8> {
        let standing = Standing { era, generation, life: [life; 16], instance: [instance; 16] };
        let mut past = Past::default();
        past.durable(&party.name, key, &standing);
        written(past.told.as_ref().expect("it is durable"))
    }

    fn told(signed: &[u8], outdated: bool) -> Vec<u8> {
        [signed, &[u8::from(outdated)]].concat()
    }

    /// One of this generation.
    fn node(generation: u64) -> Past {
        let mut past = Past::default();
        past.begin([1; 16], [2; 16]);
        (1..generation).for_each(|_| past.beat());
        past
    }

    #[test]
    fn a_peer_is_believed_when_it_is_newer_and_shown_what_it_told_when_it_is_not() {
        let a = party("A");
        let mut past = node(1);
        let judge = |past: &Past, signed: &[u8], another| {
            past.judge(&a.0, &told(signed, false), another).expect("it is signed")
        };
        let news =
            |signed: &[u8], anew, forgotten| Verdict::News { signed: signed.to_vec(), anew, forgotten };
        let first = signed(&a, 1, 5, 1, 1);
        assert_eq!(judge(&past, &first, false), news(&first, false, false));
        past.met(&a.0.name, first.clone());
        assert_eq!(judge(&past, &first, false), Verdict::Known);
        // A later start of the same database, and a queue that it set anew.
        let later = signed(&a, 1, 6, 1, 2);
        assert_eq!(judge(&past, &later, false), news(&later, false, false));
        assert_eq!(judge(&past, &first, true), news(&first, false, true));
        // A recovered database.
        let recovered = signed(&a, 2, 1, 9, 3);
        assert_eq!(judge(&past, &recovered, false), news(&recovered, true, true));
        // An older one, a copy in another process, one that was made anew.
        for older in [signed(&a, 1, 4, 1, 1), signed(&a, 1, 5, 1, 2), signed(&a, 1, 9, 8, 1)] {
            for outdated in [false, true] {
                let verdict = past.judge(&a.0, &told(&older, outdated), false);
                assert_eq!(verdict, Some(Verdict::Superseded(first.clone())));
            }
        }
        // Nor does what it signed for another network.
        let elsewhere = Past { network: [7; 32], ..node(1) };
        assert_eq!(elsewhere.judge(&a.0, &told(&first, false), false), None);
        // What another signed is nobody's standing.
        assert_eq!(past.judge(&a.0, &told(&signed(&party("B"), 9, 9, 9, 9), false), false), None);
        assert_eq!(past.judge(&a.0, b"", false), None);
    }

    #[test]
    fn a_database_that_is_known_to_be_outdated_is_believed_by_nobody_and_judges_nobody() {
        let (a, b) = (party("A"), party("B"));
        let (copy, original) = (signed(&a, 1, 3, 1, 1), signed(&a, 1, 3, 1, 2));
        // One without a memory of A meets its copy first, which another has refused.
        let mut past = node(1);
        assert_eq!(past.judge(&a.0, &told(&copy, true), true), Some(Verdict::Outdated));
        assert!(matches!(past.judge(&a.0, &told(&original, false), true), Some(Verdict::News { .. })));
        // It met the copy before anybody refused that, and learns that it has lost its own past.
        past.met(&a.0.name, copy.clone());
        let superseded = Verdict::Superseded(copy.clone());
        assert_eq!(past.judge(&a.0, &told(&original, false), false), Some(superseded));
        past.durable(&b.0.name, &b.1, &past.own().expect("it began"));
        assert_eq!(past.told().last(), Some(&0));
        assert!(past.superseded(&b.0.name, &[b.0.key], &a.0.name, &signed(&b, 1, 9, 8, 8)));
        assert_eq!(past.told().last(), Some(&1));
        for of in [&original, &copy] {
            assert_eq!(past.judge(&a.0, &told(of, false), false), Some(Verdict::Known));
        }
        // What it recovered it may say again, and it begins to remember anew.
        past.renew([5; 16], 0);
        assert_eq!(past.told().last(), Some(&1), "the new standing is not durable");
        past.durable(&b.0.name, &b.1, &past.own().expect("it began"));
        assert_eq!(past.told().last(), Some(&0));
        assert!(matches!(past.judge(&a.0, &told(&original, false), false), Some(Verdict::News { .. })));
    }

    #[test]
    fn only_its_own_signature_convinces_a_node_that_its_database_is_not_the_newest() {
        let (a, b) = (party("A"), party("B"));
        let shows =
            |past: &mut Past, evidence: &[u8]| past.superseded(&a.0.name, &[a.0.key], &b.0.name, evidence);
        // A member makes up a past.
        assert!(!shows(&mut node(3), &signed(&b, 9, 9, 1, 1)));
        assert!(!shows(&mut node(3), b"you are old"));
        // What it told itself before is no news.
        assert!(!shows(&mut node(3), &signed(&a, 1, 2, 1, 7)));
        assert!(!shows(&mut node(3), &signed(&a, 1, 3, 1, 2)));
        for evidence in [signed(&a, 1, 4, 1, 7), signed(&a, 1, 3, 1, 7), signed(&a, 1, 1, 8, 7)] {
            let mut past = node(3);
            assert!(shows(&mut past, &evidence));
            assert!(past.recovery().is_some());
            // It goes on from here, as the newest.
            past.renew([5; 16], 0);
            past.recovered();
            assert!(!shows(&mut past, &evidence));
        }
    }

    #[test]
    fn whoever_has_a_former_key_stops_its_node_once_and_a_recovery_ends_it() {
        let (a, former) = (party("A"), party("A before its key was stolen"));
        let own = [former.0.key, a.0.key];
        let thief = (a.0.clone(), former.1);
        let shows = |past: &mut Past, evidence: &[u8]| past.superseded(&a.0.name, &own, &a.0.name, evidence);
        let mut past = node(3);
        // An era above which there is none.
        for by in [&thief, &a] {
            assert!(!shows(&mut past, &signed(by, u64::MAX, u64::MAX, 8, 8)));
        }
        assert!(!shows(&mut past, &signed(&thief, ERAS_OF_A_KEY, 1, 8, 8)), "the next key's");
        // The highest one that it may have signed for. It cannot be told from a true one of before the rotation.
        let evidence = signed(&thief, ERAS_OF_A_KEY - 1, u64::MAX, 8, 8);
        assert!(shows(&mut past, &evidence));
        past.renew([5; 16], 1);
        past.recovered();
        assert_eq!(past.recovery(), None);
        let after = past.own().expect("it began");
        assert!(after.era >= ERAS_OF_A_KEY);
        // From here on the former key says nothing.
        for forged in
            [evidence, signed(&thief, after.era, u64::MAX, 5, 8), signed(&thief, after.era + 1, 1, 8, 8)]
        {
            assert!(!shows(&mut past, &forged));
        }
        // The present one does.
        assert!(shows(&mut past, &signed(&a, after.era + 1, 1, 8, 8)));
        past.renew([6; 16], 1);
        past.recovered();
        assert_eq!(past.recovery(), None);
    }

    #[test]
    fn a_recovery_does_not_count_once_another_database_has_gone_on() {
        let (a, b) = (party("A"), party("B"));
        let mut past = Past::default();
        past.begin([1; 16], [2; 16]);
        past.need("a restored database".to_owned());
        past.renew([5; 16], 0);
        // While the recovery runs, a peer shows that a copy was recovered later.
        assert!(past.superseded(&a.0.name, &[a.0.key], &b.0.name, &signed(&a, 3, 1, 8, 7)));
        past.recovered();
        assert!(past.recovery().is_some() && !past.is_newest());
        past.renew([6; 16], 0);
        past.recovered();
        assert_eq!(past.recovery(), None);
    }
}
