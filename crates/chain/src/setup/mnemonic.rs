//! Accounts from a mnemonic phrase (BIP-39), as wallets and tools of developers derive them (BIP-32, BIP-44 with Ethereum's
//! coin 60, SLIP-44): account `i` is at `m/44'/60'/0'/0/i`.

use std::str::FromStr;

use bip32::{DerivationPath, XPrv};
use bip39::Language;
use tally_peers::{KeyFault, NodeKey};
use zeroize::Zeroizing;

/// The path of all accounts; an account's number follows.
pub const PATH: &str = "m/44'/60'/0'/0/";

/// A phrase of 12 to 24 English words whose checksum is right. It is not printed by its debug form.
#[derive(Clone)]
pub struct Mnemonic(bip39::Mnemonic);

impl Mnemonic {
    /// The phrase that development networks of other tools begin with. Everybody knows its keys.
    ///
    /// # Panics
    /// Never: its words are in the list.
    #[must_use]
    pub fn of_developers() -> Self {
        "test test test test test test test test test test test junk"
            .parse()
            .expect("a phrase with its checksum")
    }

    /// The words, separated by single spaces.
    #[must_use]
    pub fn phrase(&self) -> String {
        self.0.to_string()
    }

    /// The keys of the first accounts.
    ///
    /// # Errors
    /// [`MnemonicError::Derivation`], for one phrase in 2^127.
    pub fn keys(&self, accounts: usize) -> Result<Vec<NodeKey>, MnemonicError> {
        let seed = Zeroizing::new(self.0.to_seed_normalized(""));
        (0..accounts)
            .map(|account| {
                let path = DerivationPath::from_str(&format!("{PATH}{account}"))?;
                let secret = Zeroizing::new(<[u8; 32]>::from(
                    XPrv::derive_from_path(seed.as_slice(), &path)?.private_key().to_bytes(),
                ));
                Ok(NodeKey::new(&secret)?)
            })
            .collect()
    }
}

impl FromStr for Mnemonic {
    type Err = MnemonicError;

    fn from_str(phrase: &str) -> Result<Self, MnemonicError> {
        bip39::Mnemonic::parse_in(Language::English, phrase).map(Self).map_err(MnemonicError::Phrase)
    }
}

impl std::fmt::Debug for Mnemonic {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Mnemonic(of {} words)", self.0.word_count())
    }
}

/// A phrase that names no accounts.
#[derive(Debug, thiserror::Error)]
pub enum MnemonicError {
    /// It is no phrase of BIP-39 in English.
    #[error("it is no phrase of 12, 15, 18, 21 or 24 English words of BIP-39")]
    Phrase(#[source] bip39::Error),
    /// It has no such account.
    #[error("an account cannot be derived from it")]
    Derivation(#[from] bip32::Error),
    /// The key of an account is out of range.
    #[error("an account's key cannot be used")]
    Key(#[from] KeyFault),
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The accounts that Hardhat and Anvil print for the same phrase.
    #[test]
    fn accounts_are_those_of_other_tools() {
        let keys = Mnemonic::of_developers().keys(3).unwrap();
        let found: Vec<String> = keys.iter().map(|key| key.address().to_string()).collect();
        let expected = [
            "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266",
            "0x70997970C51812dc3A010C7d01b50e0d17dc79C8",
            "0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC",
        ];
        assert_eq!(found, expected);
        let first = "ac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80";
        assert_eq!(alloy_primitives::hex::encode(keys[0].secret_bytes().as_slice()), first);
    }

    #[test]
    fn what_is_no_phrase_is_refused_and_none_is_shown() {
        for wrong in [
            "",
            "test",
            "test test test test test test test test test test test test",
            "test test test test test test test test test test test junkk",
            "\u{0}",
        ] {
            assert!(matches!(wrong.parse::<Mnemonic>(), Err(MnemonicError::Phrase(_))), "{wrong:?}");
        }
        let loose =
            "  test test test test test\ttest test test test test test  junk ".parse::<Mnemonic>().unwrap();
        assert_eq!(loose.phrase(), Mnemonic::of_developers().phrase());
        assert_eq!(format!("{loose:?}"), "Mnemonic(of 12 words)");
    }
}
