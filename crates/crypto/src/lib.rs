//! Hashes, keys, signatures, batch verification, Merkle trees and proofs, key stores.
