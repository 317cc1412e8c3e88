use alloy_primitives::{Bytes, hex};
use alloy_rpc_types_eth::state::StateOverride;
use serde_json::{Value, json};

use super::*;
use crate::call::tests::with_call;
use crate::execute::Env;
use crate::tool::Memory;

/// Keeps what it is given, as long as it may, and remembers the most that was in memory.
#[derive(Default)]
pub(crate) struct Paper {
    text: Vec<u8>,
    sent: Vec<u8>,
    /// Whether text leaves, and whether it is kept.
    streams: bool,
    keeps: bool,
    gone: usize,
    most_text: usize,
    most_held: usize,
    steps: u64,
    may_send: Option<usize>,
    may_hold: Option<usize>,
    may_step: Option<u64>,
}

fn within<T: PartialOrd>(found: T, most: Option<T>) -> Result<(), Interrupted> {
    if most.is_some_and(|most| found > most) { Err(Interrupted) } else { Ok(()) }
}

impl Output for Paper {
    fn text(&mut self) -> &mut Vec<u8> {
        &mut self.text
    }

    fn pass_on(&mut self) -> Result<(), Interrupted> {
        self.most_text = self.most_text.max(self.text.len());
        within(self.gone + self.text.len(), self.may_send)?;
        if self.streams {
            self.gone += self.text.len();
            if self.keeps {
                self.sent.append(&mut self.text);
            }
            self.text.clear();
        }
        Ok(())
    }

    fn grown(&mut self) -> Result<(), Interrupted> {
        self.most_text = self.most_text.max(self.text.len());
        within(self.text.len(), self.may_hold)
    }

    fn hold(&mut self, bytes: usize) -> Result<(), Interrupted> {
        self.most_held = self.most_held.max(bytes);
        within(bytes, self.may_hold)
    }

    fn stepped(&mut self, instructions: u64) -> Result<(), Interrupted> {
        self.steps += instructions;
        within(self.steps, self.may_step)
    }
}

impl Paper {
    pub(crate) fn json(&mut self) -> Value {
        self.sent.append(&mut self.text);
        let text = String::from_utf8(std::mem::take(&mut self.sent)).unwrap();
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
    }
}

/// Works with a call to `code` that has so much gas, in a block with room for any.
fn with_gas<T>(
    code: &str,
    gas: u64,
    work: impl FnOnce(&Place<'_, Memory>, &TransactionRequest, &StateOverride) -> T,
) -> T {
    let env = Env { number: 1, gas_limit: 1 << 40, excess_blob_gas: Some(0), ..Env::default() };
    with_call(Bytes::from(hex::decode(code).unwrap()), &env, gas, work)
}

fn trace(code: &str, gas: u64, options: &Value, paper: &mut Paper) -> Result<(), TraceError> {
    let options = serde_json::from_value(options.clone()).unwrap();
    with_gas(code, gas, |place, request, overrides| {
        trace_call(place, request, Some(overrides), None, &options, paper)
    })
}

/// Makes a memory of a mebibyte, then goes round: `MSTORE(2^20, 1)`, `JUMPDEST`, `JUMP`.
const LARGE_MEMORY: &str = "600162100000525b600756";
/// Only goes round.
const ROUND: &str = "5b5f56";
/// Puts 1,000 words of all bits onto the stack, then goes round, with `JUMPDEST PUSH0 NOT`.
fn deep_stack() -> String {
    format!("{}5b6107d056", "5f19".repeat(1000))
}
/// Reads one slot after the other: `SLOAD(n)`, `n + 1`.
const SLOTS: &str = "5f5b8054506001016001 56";

#[test]
fn what_a_trace_holds_does_not_grow_with_its_memory_its_stack_or_its_instructions() {
    let large = json!({ "enableMemory": true });
    let slots = SLOTS.replace(' ', "");
    for (code, gas, options) in [
        (LARGE_MEMORY, 3_000_000, &large),
        (ROUND, 3_000_000, &json!({})),
        (deep_stack().as_str(), 3_000_000, &json!({})),
        (slots.as_str(), 9_000_000, &json!({})),
    ] {
        let mut paper = Paper { streams: true, keeps: true, may_send: Some(16 << 20), ..Paper::default() };
        let traced = trace(code, gas, options, &mut paper);
        assert!(matches!(traced, Err(TraceError::Interrupted(_))), "{traced:?}");
        assert!(paper.most_text < 200 << 10, "{} bytes of text were held", paper.most_text);
        assert!(paper.most_held < 1 << 20, "{} bytes beside the text", paper.most_held);
        // What was written until then is JSON.
        assert!(paper.json()["structLogs"].as_array().unwrap().len() > 3);
        // The same limit heals.
        let mut paper = Paper { streams: true, keeps: true, may_send: Some(16 << 20), ..Paper::default() };
        trace("5f5ff3", 100_000, options, &mut paper).unwrap();
        assert_eq!(paper.json()["structLogs"].as_array().unwrap().len(), 3);
    }
}

#[test]
fn a_trace_of_two_million_instructions_is_whole_and_holds_little() {
    let mut paper = Paper { streams: true, ..Paper::default() };
    trace(ROUND, 8_000_000, &json!({}), &mut paper).unwrap();
    assert!(paper.steps > 2_000_000 && paper.gone > 150 << 20, "{} {}", paper.steps, paper.gone);
    assert!(paper.most_text < 100 << 10 && paper.most_held == 0);
}

#[test]
fn instructions_are_bounded_where_nothing_is_written_of_them() {
    for options in
        [json!({ "limit": 1 }), json!({ "tracer": "callTracer" }), json!({ "tracer": "noopTracer" })]
    {
        let mut paper = Paper { may_step: Some(100_000), ..Paper::default() };
        let traced = trace(ROUND, 8_000_000, &options, &mut paper);
        assert!(matches!(traced, Err(TraceError::Interrupted(_))), "{traced:?}");
        assert!(paper.steps < 102_000);
    }
}

#[test]
fn tracers_that_collect_stop_at_what_they_may_hold() {
    // A mebibyte of memory, and calls with all of it: `CALL(gas, 0xff, 0, 0, 2^20, 0, 0)`, again and again.
    let calls = "600162100000525b5f5f621000005f5f60ff5af15060075600";
    for (name, memory) in [("callTracer", 1 << 20), ("flatCallTracer", 2 << 20), ("erc7562Tracer", 2 << 20)] {
        let options = json!({ "tracer": name });
        let mut paper = Paper { may_hold: Some(32 << 20), ..Paper::default() };
        let traced = trace(calls, 30_000_000, &options, &mut paper);
        assert!(matches!(traced, Err(TraceError::Interrupted(_))), "{name}: {traced:?}");
        assert!(paper.most_held < (32 << 20) + memory + (1 << 16), "{name}: {}", paper.most_held);
        let mut paper = Paper { may_hold: Some(32 << 20), ..Paper::default() };
        trace("5f5ff3", 100_000, &options, &mut paper).unwrap();
        let traced = paper.json();
        assert!(traced.is_object() || traced.is_array());
    }
}

#[test]
fn logs_of_instructions_are_those_of_another_tracer() {
    // Writes and reads storage, keccak, calls itself with less gas until that is over, reverts nothing, fails.
    let code = "60015f5560025460015401600155600a60205260405f2060205260205f60405f305af1506103e85a10601f5760005ffd5bfe";
    for options in [
        json!({}),
        json!({ "enableMemory": true, "enableReturnData": true }),
        json!({ "disableStack": true, "disableStorage": true }),
        json!({ "limit": 7 }),
    ] {
        let mut paper = Paper::default();
        trace(code, 200_000, &options, &mut paper).unwrap();
        let mut found = paper.json();
        let options: GethDebugTracingOptions = serde_json::from_value(options).unwrap();
        let mut wanted = with_gas(code, 200_000, |place, request, overrides| {
            let mut inspector = revm_inspectors::tracing::DebugInspector::new(options.clone()).unwrap();
            let mut parts = CallParts::new(place, Some(overrides), None).unwrap();
            let transaction = parts.transaction(request).unwrap();
            let result = parts.machine(&transaction, &mut inspector).inspect_tx(transaction.clone());
            let (result, block) = (result.unwrap(), parts.block(&transaction));
            let trace = inspector.get_result(None, &transaction, &block, &result, &mut parts.cache);
            serde_json::to_value(trace.unwrap()).unwrap()
        });
        for trace in [&mut found, &mut wanted] {
            for log in trace["structLogs"].as_array_mut().unwrap() {
                // The other has its own words for failures.
                if let Some(error) = log.get_mut("error") {
                    *error = json!("failed");
                }
            }
        }
        assert!(wanted["structLogs"].as_array().unwrap().len() > 6);
        assert_eq!(found, wanted);
    }
}
