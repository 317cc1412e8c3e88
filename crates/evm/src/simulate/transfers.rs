//! Logs in order, with transfers of ether among them as ERC-20 would log them.

use alloy_primitives::{Address, B256, Bytes, Log, U256, b256};
use revm::Inspector;
use revm::context_interface::{ContextTr, CreateScheme, JournalTr};
use revm::interpreter::interpreter::EthInterpreter;
use revm::interpreter::{CallInputs, CallOutcome, CallScheme, CreateInputs, CreateOutcome};

use super::TRANSFER_ADDRESS;

/// keccak-256 of `Transfer(address,address,uint256)`.
const TRANSFER: B256 = b256!("ddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef");

/// Collects logs and transfers; those of frames that fail are dropped.
#[derive(Debug, Default)]
pub(super) struct Transfers {
    logs: Vec<Log>,
    /// How many there were when each open frame began.
    frames: Vec<usize>,
}

impl Transfers {
    pub(super) fn into_logs(self) -> Vec<Log> {
        self.logs
    }

    fn transfer(&mut self, from: Address, to: Address, wei: U256) {
        if wei.is_zero() {
            return;
        }
        let topics = vec![TRANSFER, from.into_word(), to.into_word()];
        let data = Bytes::from(wei.to_be_bytes::<32>());
        self.logs.push(Log::new_unchecked(TRANSFER_ADDRESS, topics, data));
    }

    fn end(&mut self, success: bool) {
        let before = self.frames.pop().unwrap_or(0);
        if !success {
            self.logs.truncate(before);
        }
    }
}

impl<C: ContextTr<Journal: JournalTr>> Inspector<C, EthInterpreter> for Transfers {
    fn log(&mut self, _: &mut C, log: Log) {
        self.logs.push(log);
    }

    fn call(&mut self, _: &mut C, inputs: &mut CallInputs) -> Option<CallOutcome> {
        self.frames.push(self.logs.len());
        // What runs with its caller's own account, and value, moves nothing.
        if !matches!(inputs.scheme, CallScheme::DelegateCall | CallScheme::CallCode)
            && let Some(wei) = inputs.transfer_value()
        {
            self.transfer(inputs.caller, inputs.target_address, wei);
        }
        None
    }

    fn call_end(&mut self, _: &mut C, _: &CallInputs, outcome: &mut CallOutcome) {
        self.end(outcome.result.is_ok());
    }

    fn create(&mut self, context: &mut C, inputs: &mut CreateInputs) -> Option<CreateOutcome> {
        self.frames.push(self.logs.len());
        let address = match inputs.scheme() {
            CreateScheme::Custom { address } => address,
            CreateScheme::Create | CreateScheme::Create2 { .. } => {
                let caller = context.journal_mut().load_account(inputs.caller());
                let nonce = caller.map_or(0, |account| account.data.info.nonce);
                inputs.created_address(nonce)
            }
        };
        self.transfer(inputs.caller(), address, inputs.value());
        None
    }

    fn create_end(&mut self, _: &mut C, _: &CreateInputs, outcome: &mut CreateOutcome) {
        self.end(outcome.result.is_ok());
    }

    fn selfdestruct(&mut self, contract: Address, target: Address, value: U256) {
        self.transfer(contract, target, value);
    }
}
