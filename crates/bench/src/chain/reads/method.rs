//! The methods, their requests, and what an answer must look like.

use crate::chain::history::History;
use crate::chain::http::request;
use crate::chain::registry::{Account, entries};
use crate::statistics::SplitMix;

/// A method that only reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Method {
    /// `eth_blockNumber`
    BlockNumber,
    /// `eth_getBalance` of an account that calls, now
    GetBalance,
    /// `eth_getBlockByNumber` of a block of calls, with hashes
    GetBlockByNumber,
    /// `eth_getTransactionReceipt` of a call
    GetTransactionReceipt,
    /// `eth_getLogs` of the contract in one block: all its calls'
    GetLogs,
    /// `eth_call` of `entries(bytes32)`, now
    Call,
    /// `eth_getTransactionByHash` of a call
    GetTransactionByHash,
    /// `eth_getTransactionCount` of an account that calls, now
    GetTransactionCount,
    /// `eth_getCode` of the contract, now
    GetCode,
}

impl Method {
    /// All of them, in the order of reports.
    pub const ALL: [Self; 9] = [
        Self::BlockNumber,
        Self::GetBalance,
        Self::GetBlockByNumber,
        Self::GetTransactionReceipt,
        Self::GetLogs,
        Self::Call,
        Self::GetTransactionByHash,
        Self::GetTransactionCount,
        Self::GetCode,
    ];

    /// Its name on the wire.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::BlockNumber => "eth_blockNumber",
            Self::GetBalance => "eth_getBalance",
            Self::GetBlockByNumber => "eth_getBlockByNumber",
            Self::GetTransactionReceipt => "eth_getTransactionReceipt",
            Self::GetLogs => "eth_getLogs",
            Self::Call => "eth_call",
            Self::GetTransactionByHash => "eth_getTransactionByHash",
            Self::GetTransactionCount => "eth_getTransactionCount",
            Self::GetCode => "eth_getCode",
        }
    }

    /// The bytes of a request about something drawn at random.
    pub(super) fn request(self, history: &History, random: &mut SplitMix) -> Vec<u8> {
        // Drawn from all calls: with a block, a sender and an identity of its own.
        let call = random.below(history.hashes.len().max(1));
        let number = call as u64;
        let block = history.block_of(number);
        let account = || Account::new(history.plan.seed, number % history.plan.accounts.max(1)).address();
        let hash = || history.hashes.get(call).copied().unwrap_or_default();
        let contract = history.contract;
        let params = match self {
            Self::BlockNumber => "[]".to_owned(),
            Self::GetBalance | Self::GetTransactionCount => format!(r#"["{:#x}","latest"]"#, account()),
            Self::GetBlockByNumber => format!(r#"["0x{block:x}",false]"#),
            Self::GetTransactionReceipt | Self::GetTransactionByHash => format!(r#"["{}"]"#, hash()),
            Self::GetLogs => format!(
                r#"[{{"fromBlock":"0x{block:x}","toBlock":"0x{block:x}","address":"{contract:#x}"}}]"#
            ),
            Self::Call => {
                let data = entries(history.identity(number));
                format!(r#"[{{"to":"{contract:#x}","data":"{data}"}},"latest"]"#)
            }
            Self::GetCode => format!(r#"["{contract:#x}","latest"]"#),
        };
        request(self.name(), &params)
    }

    /// Whether a result is of the form that this method's has here: something is there, and not nothing.
    #[must_use]
    pub fn accepts(self, result: &[u8]) -> bool {
        let hexadecimal = result.len() > 4 && result.starts_with(b"\"0x") && result.ends_with(b"\"");
        match self {
            Self::BlockNumber | Self::GetTransactionCount => hexadecimal && result != b"\"0x0\"",
            Self::GetBalance => hexadecimal,
            Self::GetBlockByNumber | Self::GetTransactionReceipt | Self::GetTransactionByHash => {
                result.starts_with(b"{\"") && result.ends_with(b"}")
            }
            Self::GetLogs => result.starts_with(b"[{") && result.ends_with(b"}]"),
            // Two words, the first of which is whoever registered the identity.
            Self::Call => {
                hexadecimal && result.len() == 132 && result[3..131].iter().any(|digit| *digit != b'0')
            }
            Self::GetCode => hexadecimal && result.len() > 100,
        }
    }
}

impl std::str::FromStr for Method {
    type Err = String;

    /// With or without `eth_`.
    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL
            .into_iter()
            .find(|method| method.name().trim_start_matches("eth_") == text.trim_start_matches("eth_"));
        found.ok_or_else(|| {
            let names: Vec<_> =
                Self::ALL.iter().map(|method| method.name().trim_start_matches("eth_")).collect();
            format!("one of mix, {}", names.join(", "))
        })
    }
}
