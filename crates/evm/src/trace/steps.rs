//! The log of each instruction, as geth's default tracer gives it, written while the code runs.
//!
//! Form: execution-apis, `schemas/opcode-tracer`. What is known at the end stands at the end: objects of JSON
//! have no order.

use std::collections::BTreeMap;

use alloy_primitives::map::AddressMap;
use alloy_primitives::{U256, hex};
use alloy_rpc_types_trace::geth::GethDefaultTracingOptions;
use revm::bytecode::opcode::{OpCode, SLOAD, SSTORE};
use revm::context_interface::result::ExecutionResult;
use revm::context_interface::{ContextTr, JournalTr};
use revm::interpreter::Interpreter;
use revm::interpreter::interpreter_types::{InputsTr, Jumps, MemoryTr, ReturnData, RuntimeFlag};
use revm::primitives::hardfork::SpecId;

use super::output::{Interrupted, PORTION, Pen};
use crate::tool::message;

/// Bytes that a slot of storage takes in the map of what was seen, with what the map needs around it.
const SLOT_BYTES: usize = 128;

/// Writes the logs of one transaction.
#[derive(Debug)]
pub(super) struct StepLogs {
    options: GethDefaultTracingOptions,
    /// Logs that may still be written.
    left: u64,
    first: bool,
    /// What the code has read and written of each contract's storage.
    storage: AddressMap<BTreeMap<U256, U256>>,
    open: Option<Open>,
    /// What closes the text where it stands.
    tail: &'static str,
}

/// A log that waits for the end of its instruction.
#[derive(Debug)]
struct Open {
    gas: u64,
    state_gas: i64,
    /// The slot that is read, or written with a value.
    slot: Option<(U256, Option<U256>)>,
}

impl StepLogs {
    pub(super) fn new(options: GethDefaultTracingOptions) -> Self {
        let left = options.limit.filter(|limit| *limit != 0).unwrap_or(u64::MAX);
        Self { options, left, first: true, storage: AddressMap::default(), open: None, tail: "" }
    }

    pub(super) fn begin(&mut self, pen: &mut Pen<'_>) {
        *self = Self::new(self.options);
        pen.add("{\"structLogs\":[");
        self.tail = "]}";
    }

    pub(super) fn step<C: ContextTr>(
        &mut self,
        pen: &mut Pen<'_>,
        interpreter: &mut Interpreter,
        context: &mut C,
    ) -> Result<(), Interrupted> {
        if self.left == 0 {
            return Ok(());
        }
        self.left -= 1;
        let opcode = interpreter.bytecode.opcode();
        let stack = interpreter.stack.data();
        let gas = interpreter.gas.remaining();
        if !std::mem::take(&mut self.first) {
            pen.add(",");
        }
        self.tail = "}]}";
        pen.format(format_args!("{{\"pc\":{},\"op\":\"", interpreter.bytecode.pc()));
        match OpCode::new(opcode) {
            Some(known) => pen.add(known.as_str()),
            None => pen.format(format_args!("opcode {opcode:#x} not defined")),
        }
        let depth = context.journal_mut().depth();
        let refund = u64::try_from(interpreter.gas.refunded()).unwrap_or(0);
        pen.format(format_args!("\",\"gas\":{gas},\"depth\":{depth},\"refund\":{refund}"));
        if interpreter.runtime_flag.spec_id().is_enabled_in(SpecId::AMSTERDAM) {
            pen.format(format_args!(",\"stateGasReservoir\":{}", interpreter.gas.reservoir()));
        }
        if self.options.is_stack_enabled() {
            pen.add(",\"stack\":[");
            for (index, word) in stack.iter().enumerate() {
                let comma = if index > 0 { "," } else { "" };
                pen.format(format_args!("{comma}\"{word:#x}\""));
            }
            pen.add("]");
        }
        let slot = match (opcode, stack.as_slice()) {
            (SLOAD, [.., key]) => Some((*key, None)),
            (SSTORE, [.., value, key]) => Some((*key, Some(*value))),
            _ => None,
        };
        self.open = Some(Open { gas, state_gas: interpreter.gas.state_gas_spent(), slot });
        if self.options.is_return_data_enabled() {
            pen.add(",\"returnData\":\"0x");
            self.long(pen, "\"}]}", interpreter.return_data.buffer(), PORTION / 4, |pen, part, _| {
                digits(pen.text(), part);
            })?;
            pen.add("\"");
        }
        if self.options.is_memory_enabled() {
            pen.add(",\"memory\":[");
            let memory = interpreter.memory.slice(0..interpreter.memory.size());
            self.long(pen, "]}]}", &memory, 32, |pen, word, first| {
                pen.add(if first { "\"0x" } else { ",\"0x" });
                digits(pen.text(), word);
                (word.len()..32).for_each(|_| pen.add("00"));
                pen.add("\"");
            })?;
            pen.add("]");
        }
        pen.portion()
    }

    /// Writes what may be longer than a portion, in parts of at most `length` bytes.
    fn long(
        &mut self,
        pen: &mut Pen<'_>,
        tail: &'static str,
        bytes: &[u8],
        length: usize,
        write: impl Fn(&mut Pen<'_>, &[u8], bool),
    ) -> Result<(), Interrupted> {
        let outer = std::mem::replace(&mut self.tail, tail);
        for (index, part) in bytes.chunks(length).enumerate() {
            write(pen, part, index == 0);
            pen.portion()?;
        }
        self.tail = outer;
        Ok(())
    }

    pub(super) fn step_end(
        &mut self,
        pen: &mut Pen<'_>,
        interpreter: &mut Interpreter,
    ) -> Result<(), Interrupted> {
        use revm::interpreter::interpreter_types::LoopControl;
        let Some(open) = self.open.take() else { return Ok(()) };
        pen.add(",\"gasCost\":");
        pen.number(open.gas.saturating_sub(interpreter.gas.remaining()));
        let state_gas = interpreter.gas.state_gas_spent().saturating_sub(open.state_gas);
        if state_gas != 0 && interpreter.runtime_flag.spec_id().is_enabled_in(SpecId::AMSTERDAM) {
            pen.format(format_args!(",\"stateGasCost\":{state_gas}"));
        }
        let failure = interpreter.bytecode.instruction_result().filter(|result| result.is_halt());
        if let Some(failure) = failure {
            pen.format(format_args!(",\"error\":\"{}\"", message(failure)));
        }
        if let Some((key, written)) = open.slot
            && self.options.is_storage_enabled()
        {
            let value = written.or_else(|| interpreter.stack.data().last().copied());
            let seen = self.storage.entry(interpreter.input.target_address()).or_default();
            if failure.is_none()
                && let Some(value) = value
                && seen.insert(key, value).is_none()
            {
                pen.hold(SLOT_BYTES)?;
            }
            self.tail = "}}]}";
            pen.add(",\"storage\":{");
            for (index, (key, value)) in seen.iter().enumerate() {
                let comma = if index > 0 { "," } else { "" };
                pen.format(format_args!("{comma}\"{key:#066x}\":\"{value:#066x}\""));
                pen.portion()?;
            }
            pen.add("}");
        }
        pen.add("}");
        self.tail = "]}";
        pen.portion()
    }

    /// Writes what is known at the end.
    pub(super) fn end(
        &mut self,
        pen: &mut Pen<'_>,
        spec: SpecId,
        result: &ExecutionResult,
    ) -> Result<(), Interrupted> {
        let gas = result.gas();
        pen.format(format_args!("],\"gas\":{},\"failed\":{}", gas.tx_gas_used(), !result.is_success()));
        if spec.is_enabled_in(SpecId::AMSTERDAM) {
            pen.format(format_args!(
                ",\"executionGasUsed\":\"{:#x}\",\"stateGasUsed\":\"{:#x}\",\"gasRefund\":\"{:#x}\"",
                gas.block_regular_gas_used(),
                gas.block_state_gas_used(),
                gas.final_refunded()
            ));
        }
        pen.add(",\"returnValue\":\"0x");
        let output = result.output().cloned().unwrap_or_default();
        self.long(pen, "\"}", &output, PORTION / 4, |pen, part, _| digits(pen.text(), part))?;
        pen.add("\"}");
        self.tail = "";
        self.storage.clear();
        pen.release()?;
        pen.portion()
    }

    /// Closes what was begun, so that the text is JSON though the trace is not whole.
    pub(super) fn close(&mut self, pen: &mut Pen<'_>) {
        pen.add(std::mem::take(&mut self.tail));
    }
}

/// Writes two digits for each byte.
fn digits(text: &mut Vec<u8>, bytes: &[u8]) {
    let start = text.len();
    text.resize(start + 2 * bytes.len(), b'0');
    // The slice is exactly as long as the digits are.
    let _ = hex::encode_to_slice(bytes, &mut text[start..]);
}
