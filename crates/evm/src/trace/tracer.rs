//! What watches the machine: tracers of `revm-inspectors` or the logs of steps, both with a bound.

use alloy_primitives::{Address, Log, U256};
use alloy_rpc_types_trace::geth::GethDebugTracingOptions;
use revm::Inspector;
use revm::context::{BlockEnv, TxEnv};
use revm::context_interface::ContextTr;
use revm::context_interface::context::ContextError;
use revm::context_interface::result::ResultAndState;
use revm::handler::FrameResult;
use revm::inspector::JournalExt;
use revm::interpreter::interpreter_types::LoopControl;
use revm::interpreter::{CallInputs, CallOutcome, CreateInputs, CreateOutcome, FrameInput, Interpreter};
use revm::primitives::hardfork::SpecId;
use revm_inspectors::tracing::{DebugInspector, TransactionContext};
use tally_state::Read;

use super::TraceError;
use super::output::{Interrupted, Output, Pen};
use super::steps::StepLogs;
use crate::call::STOPPED;
use crate::execute::Cache;

/// Bytes that a tracer takes for a call, its data aside: the node of the tree, the frame that is made of it,
/// and the vectors around them.
const CALL_BYTES: usize = 2048;
/// Bytes that a tracer takes for an instruction that it records, its stack and memory aside.
const STEP_BYTES: usize = 512;
/// Bytes that a tracer takes for a log, its data aside.
const LOG_BYTES: usize = 512;
/// Bytes that a tracer of states takes for an account, and for a slot.
const ACCOUNT_BYTES: usize = 1024;
const SLOT_BYTES: usize = 256;

/// A tracer over an output. What it holds grows only as far as the output allows.
pub(super) struct Tracer<'o> {
    pub(super) pen: Pen<'o>,
    /// Whether anything of the transaction's trace was written.
    pub(super) begun: bool,
    kind: Kind,
}

enum Kind {
    Steps(StepLogs),
    Collected {
        inspector: Box<DebugInspector>,
        /// How many copies of everything the tracer makes.
        copies: usize,
        /// Whether it records instructions.
        steps: bool,
    },
}

impl<'o> Tracer<'o> {
    pub(super) fn new(
        options: &GethDebugTracingOptions,
        output: &'o mut dyn Output,
    ) -> Result<Self, TraceError> {
        let failed = |error: &dyn std::fmt::Display| TraceError::Tracer(error.to_string());
        let inspector = DebugInspector::new(options.clone()).map_err(|error| failed(&error))?;
        let kind = match &inspector {
            DebugInspector::Default(_, options) => Kind::Steps(StepLogs::new(*options)),
            _ => {
                let steps = matches!(inspector, DebugInspector::Erc7562Tracer(..));
                let copies = match &inspector {
                    DebugInspector::Mux(_, config) => config.0.len().max(1) + 1,
                    DebugInspector::FlatCallTracer(_) => 2,
                    _ => 1,
                };
                Kind::Collected { inspector: Box::new(inspector), copies, steps }
            }
        };
        Ok(Self { pen: Pen::new(output), begun: false, kind })
    }

    /// Begins a transaction.
    pub(super) fn begin(&mut self) -> Result<(), TraceError> {
        self.begun = false;
        match &mut self.kind {
            Kind::Steps(logs) => {
                self.begun = true;
                logs.begin(&mut self.pen);
            }
            Kind::Collected { inspector, .. } => {
                inspector.fuse().map_err(|error| TraceError::Tracer(error.to_string()))?;
            }
        }
        Ok(())
    }

    /// Writes the end of a transaction's trace, or all of it.
    pub(super) fn end<R: Read>(
        &mut self,
        context: Option<TransactionContext>,
        transaction: &TxEnv,
        block: &BlockEnv,
        spec: SpecId,
        result: &ResultAndState,
        cache: &mut Cache<'_, R>,
    ) -> Result<(), TraceError> {
        match &mut self.kind {
            Kind::Steps(logs) => logs.end(&mut self.pen, spec, &result.result)?,
            Kind::Collected { inspector, copies, .. } => {
                if matches!(**inspector, DebugInspector::PreStateTracer(..) | DebugInspector::Mux(..)) {
                    let slots = result.state.values().map(|account| account.storage.len()).sum::<usize>();
                    let accounts = result.state.len();
                    self.pen.hold(*copies * (accounts * ACCOUNT_BYTES + slots * SLOT_BYTES))?;
                }
                let trace = inspector.get_result(context, transaction, block, result, cache)?;
                self.begun = true;
                self.pen.whole(&trace)?;
                drop(trace);
                inspector.fuse().map_err(|error| TraceError::Tracer(error.to_string()))?;
                self.pen.release()?;
                self.pen.portion()?;
            }
        }
        Ok(())
    }

    /// Closes what was begun and not ended, so that the text is JSON.
    pub(super) fn close(&mut self) {
        if let Kind::Steps(logs) = &mut self.kind {
            logs.close(&mut self.pen);
        }
    }

    fn hold(&mut self, bytes: usize) -> Result<(), Interrupted> {
        match &self.kind {
            Kind::Steps(_) => Ok(()),
            Kind::Collected { copies, .. } => self.pen.hold(bytes.saturating_mul(*copies)),
        }
    }

    fn collected(&mut self) -> Option<&mut DebugInspector> {
        let interrupted = self.pen.is_interrupted();
        match &mut self.kind {
            Kind::Collected { inspector, .. } if !interrupted => Some(inspector),
            _ => None,
        }
    }

    fn before_step<C: ContextTr<Journal: JournalExt>>(
        &mut self,
        interpreter: &mut Interpreter,
        context: &mut C,
    ) -> Result<(), Interrupted> {
        self.pen.step()?;
        match &mut self.kind {
            Kind::Steps(logs) => logs.step(&mut self.pen, interpreter, context),
            Kind::Collected { inspector, steps, .. } => {
                if *steps {
                    // The memory is recorded anew after each instruction that may change it.
                    let words = 32 * interpreter.stack.len();
                    self.pen.hold(STEP_BYTES + words + interpreter.memory.len())?;
                }
                inspector.step(interpreter, context);
                Ok(())
            }
        }
    }
}

/// Ends the execution: nothing is traced anymore.
fn end_execution<C: ContextTr>(context: &mut C) {
    if context.error().is_ok() {
        *context.error() = Err(ContextError::Custom(STOPPED.into()));
    }
}

fn halt<C: ContextTr>(interpreter: &mut Interpreter, context: &mut C) {
    end_execution(context);
    // In the place of a call or a return that may wait.
    interpreter.bytecode.action().take();
    interpreter.bytecode.reset_action();
    interpreter.halt_fatal();
}

impl<C: ContextTr<Journal: JournalExt>> Inspector<C> for Tracer<'_> {
    fn initialize_interp(&mut self, interpreter: &mut Interpreter, context: &mut C) {
        if self.pen.is_interrupted() {
            return halt(interpreter, context);
        }
        if let Some(inspector) = self.collected() {
            inspector.initialize_interp(interpreter, context);
        }
    }

    fn step(&mut self, interpreter: &mut Interpreter, context: &mut C) {
        if self.pen.is_interrupted() || self.before_step(interpreter, context).is_err() {
            halt(interpreter, context);
        }
    }

    fn step_end(&mut self, interpreter: &mut Interpreter, context: &mut C) {
        if self.pen.is_interrupted() {
            return halt(interpreter, context);
        }
        match &mut self.kind {
            Kind::Steps(logs) => {
                if logs.step_end(&mut self.pen, interpreter).is_err() {
                    halt(interpreter, context);
                }
            }
            Kind::Collected { inspector, .. } => inspector.step_end(interpreter, context),
        }
    }

    fn log(&mut self, context: &mut C, log: Log) {
        if self.hold(LOG_BYTES + log.data.data.len()).is_err() {
            return end_execution(context);
        }
        if let Some(inspector) = self.collected() {
            inspector.log(context, log);
        }
    }

    fn log_full(&mut self, interpreter: &mut Interpreter, context: &mut C, log: Log) {
        if self.hold(LOG_BYTES + log.data.data.len()).is_err() {
            return halt(interpreter, context);
        }
        if let Some(inspector) = self.collected() {
            inspector.log_full(interpreter, context, log);
        }
    }

    fn call(&mut self, context: &mut C, inputs: &mut CallInputs) -> Option<CallOutcome> {
        if self.hold(CALL_BYTES + inputs.input.len()).is_err() {
            end_execution(context);
            return None;
        }
        self.collected().and_then(|inspector| inspector.call(context, inputs))
    }

    fn call_end(&mut self, context: &mut C, inputs: &CallInputs, outcome: &mut CallOutcome) {
        if self.hold(outcome.result.output.len()).is_err() {
            return end_execution(context);
        }
        if let Some(inspector) = self.collected() {
            inspector.call_end(context, inputs, outcome);
        }
    }

    fn create(&mut self, context: &mut C, inputs: &mut CreateInputs) -> Option<CreateOutcome> {
        if self.hold(CALL_BYTES + inputs.init_code().len()).is_err() {
            end_execution(context);
            return None;
        }
        self.collected().and_then(|inspector| inspector.create(context, inputs))
    }

    fn create_end(&mut self, context: &mut C, inputs: &CreateInputs, outcome: &mut CreateOutcome) {
        if self.hold(outcome.result.output.len()).is_err() {
            return end_execution(context);
        }
        if let Some(inspector) = self.collected() {
            inspector.create_end(context, inputs, outcome);
        }
    }

    fn selfdestruct(&mut self, contract: Address, target: Address, value: U256) {
        if let Some(inspector) = self.collected() {
            <DebugInspector as Inspector<C>>::selfdestruct(inspector, contract, target, value);
        }
    }

    fn frame_start(&mut self, context: &mut C, input: &mut FrameInput) -> Option<FrameResult> {
        self.collected().and_then(|inspector| inspector.frame_start(context, input))
    }

    fn frame_end(&mut self, context: &mut C, input: &FrameInput, result: &mut FrameResult) {
        if let Some(inspector) = self.collected() {
            inspector.frame_end(context, input, result);
        }
    }
}
