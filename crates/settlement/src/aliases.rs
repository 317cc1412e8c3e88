//! A partition's directory: from IBAN or other alias to account. Names lie end to end in one buffer,
//! so that ten million of them cost little more than their letters, and only ever grow.

use hashbrown::HashTable;
use std::hash::BuildHasher;
use tally_ledger::AccountNumber;

/// From alias to account.
#[derive(Clone, Default)]
pub struct Aliases {
    names: Vec<u8>,
    /// End of the name in `names`, and its account, in the order in which they were added.
    entries: Vec<(u64, AccountNumber)>,
    table: HashTable<u32>,
    hasher: std::hash::RandomState,
}

impl std::fmt::Debug for Aliases {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl PartialEq for Aliases {
    fn eq(&self, other: &Self) -> bool {
        self.names == other.names && self.entries == other.entries
    }
}

impl Aliases {
    fn name(&self, at: usize) -> &[u8] {
        let start = if at == 0 { 0 } else { self.entries[at - 1].0 };
        &self.names[start as usize..self.entries[at].0 as usize]
    }

    fn hash(&self, name: &[u8]) -> u64 {
        self.hasher.hash_one(name)
    }

    /// The account of that alias.
    pub fn get(&self, alias: &str) -> Option<AccountNumber> {
        let alias = alias.as_bytes();
        let at = self.table.find(self.hash(alias), |at| self.name(*at as usize) == alias)?;
        Some(self.entries[*at as usize].1)
    }

    /// Adds an alias; the first account that has it keeps it.
    pub fn insert(&mut self, alias: &str, number: AccountNumber) {
        if self.get(alias).is_some() {
            return;
        }
        let at = u32::try_from(self.entries.len()).expect("at most one alias an account");
        self.names.extend_from_slice(alias.as_bytes());
        self.entries.push((self.names.len() as u64, number));
        let mut table = std::mem::take(&mut self.table);
        table.insert_unique(self.hash(alias.as_bytes()), at, |at| self.hash(self.name(*at as usize)));
        self.table = table;
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.entries.len()
    }
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Those from position `from` on, in the order in which they were added.
    pub fn iter_from(&self, from: usize) -> impl Iterator<Item = (&str, AccountNumber)> {
        (from..self.entries.len()).map(|at| {
            let name = std::str::from_utf8(self.name(at)).expect("names come in as text");
            (name, self.entries[at].1)
        })
    }

    /// All, in the order in which they were added.
    pub fn iter(&self) -> impl Iterator<Item = (&str, AccountNumber)> {
        self.iter_from(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_to_have_an_alias_keeps_it() {
        let mut aliases = Aliases::default();
        for number in 0..1000u32 {
            aliases.insert(&format!("alias-{}", number % 700), AccountNumber(number));
        }
        assert_eq!(aliases.len(), 700);
        assert!((0..700u32).all(|n| aliases.get(&format!("alias-{n}")) == Some(AccountNumber(n))));
        assert_eq!(aliases.get("alias-700"), None);
        assert_eq!(aliases.iter_from(699).collect::<Vec<_>>(), [("alias-699", AccountNumber(699))]);
    }
}
