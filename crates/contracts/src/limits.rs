//! How large anything may be. A transaction beyond a limit is refused by `build` and by `decode`,
//! so no node ever meets one; raising a limit is a change of the ledger's rules.

/// Longest encoding of a transaction, in bytes (1 MiB).
pub const TRANSACTION_BYTES: usize = 1 << 20;
/// Longest encoding of a transaction with its signatures, in bytes.
pub const SIGNED_TRANSACTION_BYTES: usize = TRANSACTION_BYTES + (1 << 16);
/// Longest encoding of a tear-off, in bytes: everything shown, with proofs.
pub const TEAR_OFF_BYTES: usize = 2 << 20;
/// Most inputs, and most references, and most outputs of a transaction.
pub const STATES: usize = 1024;
/// Most commands of a transaction.
pub const COMMANDS: usize = 64;
/// Most signers of one command.
pub const SIGNERS: usize = 128;
/// Most keys whose signatures consume one state.
pub const CONSUMERS: usize = 16;
/// Most signatures that a transaction may require, the notary's aside.
pub const SIGNATURES: usize = 256;
/// Most members of a composite key.
pub const COMPOSITE_MEMBERS: usize = 31;
/// Most attachments of a transaction.
pub const ATTACHMENTS: usize = 64;
/// Most contracts that a transaction names.
pub const CONTRACTS: usize = 32;
/// Longest data of one state or one command, in bytes.
pub const DATA_BYTES: usize = 1 << 16;
/// Longest attachment, in bytes (10 MiB).
pub const ATTACHMENT_BYTES: usize = 10 << 20;
/// Longest name of a contract, in bytes.
pub const CONTRACT_NAME_BYTES: usize = 31;
/// Longest value of one attribute of a [`Name`](crate::Name), in characters (X.520 `ub-common-name`).
pub const NAME_ATTRIBUTE_CHARACTERS: usize = 64;
/// Longest text of a [`Name`](crate::Name), in bytes.
pub const NAME_BYTES: usize = 400;
