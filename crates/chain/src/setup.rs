//! Setting up a private network, and reading what a node is configured with.
//!
//! [`init`] writes what `besu operator generate-blockchain-config` and the steps after it in Besu's
//! documentation give: a genesis file, and for each node its key, its peers and its configuration. A
//! node's configuration is read by [`Settings`], whose options have Besu's names.

mod besu;
mod directory;
mod genesis;
mod init;
mod mnemonic;
mod nearest;
mod options;
mod settings;

pub use genesis::{GenesisPlan, NewestFork, genesis_json};
pub use init::{Account, Init, InitError, Made, MadeNode, Plan, account_file, init, mnemonic_file};
pub use mnemonic::{Mnemonic, MnemonicError, PATH as MNEMONIC_PATH};
pub use options::{Ineffective, Place, SettingsError, SettingsFault, SettingsFaults};
pub use settings::{
    Api, Metrics, P2p, PermissionFiles, PoolSettings, RpcServer, RpcSocket, Settings, Sources, StateHistory,
    SyncMode, TraceSettings,
};
