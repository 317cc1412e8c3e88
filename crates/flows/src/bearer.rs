//! Who a node is, now and before.

use std::sync::Arc;

use tally_contracts::{Name, Party, PublicKey, Timestamp};

/// A key that a node's legal identity had before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormerKey {
    /// The key.
    pub key: PublicKey,
    /// When it was given up: flows that began before keep it as theirs.
    pub until: Timestamp,
}

/// A node's legal identity: its name, its present key, and the keys that it had before.
#[derive(Clone, Debug)]
pub struct Bearer {
    /// The former ones, oldest first, and the present one last.
    parties: Vec<Arc<Party>>,
    /// Until when it was each of the former ones.
    until: Vec<Timestamp>,
}

impl Bearer {
    /// The identity `present`, which had the `former` keys before, oldest first.
    pub fn new(present: Party, former: &[FormerKey]) -> Self {
        let name = |key: PublicKey| Arc::new(Party { name: present.name.clone(), key });
        let mut parties: Vec<_> = former.iter().map(|former| name(former.key)).collect();
        let until = former.iter().map(|former| former.until).collect();
        parties.push(Arc::new(present));
        Self { parties, until }
    }

    /// Name and present key.
    pub fn present(&self) -> &Arc<Party> {
        self.at(self.until.len())
    }

    pub(crate) fn name(&self) -> &Name {
        &self.present().name
    }

    /// The place of what this was at a time: the first former one that was given up after it, else the present one.
    pub(crate) fn place(&self, at: Timestamp) -> usize {
        self.until.iter().position(|until| *until > at).unwrap_or(self.until.len())
    }

    /// When a flow begins that begins now by the clock: under the present key, also while the clock is behind the time at
    /// which the last one was given up.
    pub(crate) fn beginning(&self, now: Timestamp) -> Timestamp {
        self.until.last().map_or(now, |last| now.max(*last))
    }

    pub(crate) fn at(&self, place: usize) -> &Arc<Party> {
        &self.parties[place]
    }

    /// All keys, oldest first.
    pub fn keys(&self) -> impl Iterator<Item = &PublicKey> {
        self.parties.iter().map(|party| &party.key)
    }

    /// Is this its key, or was it once?
    pub fn owns(&self, key: &PublicKey) -> bool {
        self.keys().any(|own| own == key)
    }
}

impl From<Party> for Bearer {
    fn from(party: Party) -> Self {
        Self::new(party, &[])
    }
}

#[cfg(test)]
mod tests {
    use tally_contracts::{Scheme, SigningKey};

    use super::*;

    fn key(number: u8) -> PublicKey {
        SigningKey::from_secret(Scheme::Ed25519, &[number; 32]).expect("a key").public_key()
    }

    #[test]
    fn a_flow_keeps_the_key_of_the_time_at_which_it_began() {
        let at = Timestamp::from_millis;
        let name = Name::new("PartyA", "London", "GB").expect("a name");
        let former = [FormerKey { key: key(1), until: at(10) }, FormerKey { key: key(2), until: at(20) }];
        let bearer = Bearer::new(Party { name, key: key(3) }, &former);
        let then = |ms| bearer.at(bearer.place(at(ms))).key;
        assert_eq!([then(9), then(10), then(19), then(20)], [key(1), key(2), key(2), key(3)]);
        let begins = |ms| bearer.at(bearer.place(bearer.beginning(at(ms)))).key;
        assert_eq!([begins(0), begins(19), begins(20)], [key(3); 3], "what begins now is of the present key");
        assert_eq!(bearer.keys().copied().collect::<Vec<_>>(), [key(1), key(2), key(3)]);
        assert!(bearer.owns(&key(1)) && bearer.owns(&key(3)) && !bearer.owns(&key(4)));
    }
}
