//! Traces of single instructions (EIP-3155): one JSON object per line.

use std::io::Write;

use alloy_primitives::hex;
use revm::Inspector;
use revm::bytecode::opcode::OpCode;
use revm::context_interface::{ContextTr, JournalTr};
use revm::interpreter::interpreter::EthInterpreter;
use revm::interpreter::interpreter_types::{Jumps, LoopControl, MemoryTr};
use revm::interpreter::{
    CallInputs, CallOutcome, CreateInputs, CreateOutcome, InstructionResult, Interpreter,
};

/// Writes a line for each instruction that is executed.
///
/// The fields are those of EIP-3155 as `evm` of go-ethereum writes them.
#[derive(Debug)]
pub struct OpcodeTrace<W> {
    output: W,
    with_memory: bool,
    line: Vec<u8>,
    gas: u64,
    error: Option<std::io::Error>,
    refund: i64,
    returned: Vec<u8>,
}

impl<W: Write> OpcodeTrace<W> {
    /// A trace to `output`, with the memory at each instruction when asked for.
    pub fn new(output: W, with_memory: bool) -> Self {
        Self { output, with_memory, line: Vec::new(), gas: 0, error: None, refund: 0, returned: Vec::new() }
    }

    /// Adds a line of its own and gives the output back.
    ///
    /// # Errors
    /// The output could not be written.
    pub fn finish(mut self, summary: &serde_json::Value) -> std::io::Result<W> {
        if let Some(error) = self.error.take() {
            return Err(error);
        }
        serde_json::to_writer(&mut self.output, summary)?;
        self.output.write_all(b"\n")?;
        self.output.flush()?;
        Ok(self.output)
    }

    fn flush(&mut self) {
        if self.error.is_none()
            && let Err(error) = self.output.write_all(&self.line)
        {
            self.error = Some(error);
        }
        self.line.clear();
    }

    fn text(&mut self, text: std::fmt::Arguments<'_>) {
        if let Err(error) = self.line.write_fmt(text) {
            self.error = Some(error);
        }
    }

    fn returned(&mut self, data: &[u8]) {
        self.returned.clear();
        self.returned.extend_from_slice(data);
    }
}

impl<C: ContextTr<Journal: JournalTr>, W: Write> Inspector<C, EthInterpreter> for OpcodeTrace<W> {
    fn step(&mut self, interpreter: &mut Interpreter<EthInterpreter>, context: &mut C) {
        let opcode = interpreter.bytecode.opcode();
        self.gas = interpreter.gas.remaining();
        self.refund = interpreter.gas.refunded();
        let pc = interpreter.bytecode.pc();
        let depth = context.journal_mut().depth();
        let size = interpreter.memory.size();
        let gas = self.gas;
        self.text(format_args!("{{\"pc\":{pc},\"op\":{opcode},\"gas\":\"{gas:#x}\",\"gasCost\":\""));
        // What follows the cost is of the moment before; it waits in `line` until the cost is known.
        let mut rest = Vec::new();
        let stack = interpreter.stack.data().iter().map(|word| format!("\"{word:#x}\"")).collect::<Vec<_>>();
        let written = (|| {
            if self.with_memory {
                let memory = interpreter.memory.slice(0..size);
                write!(rest, "\"memory\":\"{}\",", hex::encode_prefixed(&*memory))?;
            }
            write!(rest, "\"memSize\":{size},\"stack\":[{}],", stack.join(","))?;
            if !self.returned.is_empty() && self.with_memory {
                write!(rest, "\"returnData\":\"{}\",", hex::encode_prefixed(&self.returned))?;
            }
            write!(rest, "\"depth\":{depth},\"refund\":{},", self.refund)?;
            match OpCode::new(opcode) {
                Some(known) => write!(rest, "\"opName\":\"{}\"", known.as_str()),
                None => write!(rest, "\"opName\":\"opcode {opcode:#x} not defined\""),
            }
        })();
        if let Err(error) = written {
            self.error = Some(error);
        }
        self.line.push(0);
        self.line.extend_from_slice(&rest);
    }

    fn step_end(&mut self, interpreter: &mut Interpreter<EthInterpreter>, _: &mut C) {
        let cost = format!("{:#x}\",", self.gas.saturating_sub(interpreter.gas.remaining()));
        if let Some(at) = self.line.iter().position(|byte| *byte == 0) {
            self.line.splice(at..=at, cost.into_bytes());
        }
        let failure = interpreter
            .bytecode
            .action()
            .as_ref()
            .and_then(|action| action.instruction_result())
            .filter(|result| !result.is_ok());
        match failure {
            Some(result) => self.text(format_args!(",\"error\":\"{}\"}}\n", message(result))),
            None => self.text(format_args!("}}\n")),
        }
        self.flush();
    }

    fn call_end(&mut self, _: &mut C, _: &CallInputs, outcome: &mut CallOutcome) {
        self.returned(&outcome.result.output);
    }

    fn create_end(&mut self, _: &mut C, _: &CreateInputs, outcome: &mut CreateOutcome) {
        self.returned(&outcome.result.output);
    }
}

/// What go-ethereum says of a failure.
pub(crate) fn message(result: InstructionResult) -> String {
    use InstructionResult as R;
    match result {
        R::Revert => "execution reverted".into(),
        R::OutOfGas
        | R::MemoryOOG
        | R::MemoryLimitOOG
        | R::PrecompileOOG
        | R::InvalidOperandOOG
        | R::ReentrancySentryOOG => "out of gas".into(),
        R::StackOverflow => "stack limit reached 1024".into(),
        R::StackUnderflow => "stack underflow".into(),
        R::InvalidJump => "invalid jump destination".into(),
        R::OpcodeNotFound | R::NotActivated | R::InvalidFEOpcode => "invalid opcode".into(),
        R::StateChangeDuringStaticCall | R::CallNotAllowedInsideStatic => "write protection".into(),
        R::OutOfOffset => "return data out of bounds".into(),
        R::CallTooDeep => "max call depth exceeded".into(),
        R::OutOfFunds => "insufficient balance for transfer".into(),
        R::NonceOverflow => "nonce uint64 overflow".into(),
        R::CreateCollision => "contract address collision".into(),
        R::CreateContractSizeLimit => "max code size exceeded".into(),
        R::CreateInitCodeSizeLimit => "max initcode size exceeded".into(),
        R::CreateContractStartingWithEF => "invalid code: must not begin with 0xef".into(),
        other => format!("{other:?}"),
    }
}
