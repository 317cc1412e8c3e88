//! From the text of a request to the text of its answer (JSON-RPC 2.0, sections 4 to 6).

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Instant, SystemTime};

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use crate::error::{
    INVALID_REQUEST, METHOD_NOT_ENABLED, METHOD_NOT_FOUND, PARSE_ERROR, RpcError, UNAUTHORIZED,
};
use crate::params::Params;

use super::authentication::Permissions;
use super::connection::Service;
use super::registry::{Around, CallContext, Lane, Place};
use super::share::Taken;
use super::stream::{Cut, Outgoing};
use super::websocket::Session;

/// Calls of a batch that are tried on an IO thread; a longer batch is costly as a whole.
const INLINE_BATCH: usize = 16;

/// Who calls.
#[derive(Debug, Clone)]
pub(super) enum Caller {
    /// Nobody asks.
    Anyone,
    /// Nobody asks, and a web page calls: whatever page is open in the browser of somebody who reaches this node.
    Page,
    /// Whoever holds a token with these permissions.
    Holder(Arc<Permissions>),
    /// Somebody without a token, who may call what needs none.
    Nobody,
}

/// What became of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The buffer holds the answer.
    Answered,
    /// The buffer holds an error about the request as a whole.
    Malformed,
    /// It asked for no answer.
    Nothing,
    /// The call of this index and those after it go to the pool, with the buffer as it is.
    Costly(usize, Lane),
}

/// One request being answered.
pub(super) struct Answering<'a> {
    pub(super) service: &'a Service,
    pub(super) caller: &'a Caller,
    pub(super) session: Option<&'a Arc<Session>>,
    pub(super) place: Place,
    pub(super) deadline: Instant,
    pub(super) stop: &'a AtomicBool,
    /// What the request takes of what all answers share.
    pub(super) taken: &'a Taken,
    /// Where an answer to one call may leave while it is made.
    pub(super) outgoing: Option<&'a Outgoing>,
}

#[derive(Deserialize)]
struct Request<'a> {
    #[serde(borrow, default)]
    jsonrpc: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    method: Option<&'a RawValue>,
    #[serde(borrow, default)]
    params: Option<&'a RawValue>,
}

/// Keeps `"id": null`, which wants an answer, apart from no `id`, which wants none.
fn present<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&'de RawValue>::deserialize(deserializer).map(Some)
}

impl Answering<'_> {
    /// Answers a request from its call of index `from` on; `out` is empty, or what was left by an earlier
    /// [`Outcome::Costly`].
    pub(super) fn request(&self, body: &[u8], from: usize, out: &mut Vec<u8>) -> Outcome {
        let limits = &self.service.limits;
        if from == 0 && too_deep(body, limits.depth) {
            return self.malformed(out, &RpcError::new(PARSE_ERROR, "Parse error: nested too deep"));
        }
        match body.iter().find(|byte| !byte.is_ascii_whitespace()) {
            Some(b'{') => match serde_json::from_slice::<Request<'_>>(body) {
                Ok(request) => match self.single(&request, out, self.outgoing) {
                    Ok(true) => Outcome::Answered,
                    Ok(false) => Outcome::Nothing,
                    Err(Later(lane)) => Outcome::Costly(0, lane),
                },
                Err(error) if error.is_data() => self.malformed(out, &invalid()),
                Err(error) => self.malformed(out, &unreadable(&error)),
            },
            Some(b'[') => match serde_json::from_slice::<Vec<&RawValue>>(body) {
                Ok(calls) if calls.is_empty() => self.malformed(out, &invalid()),
                Ok(calls) if calls.len() > limits.batch_calls => {
                    let most = limits.batch_calls;
                    self.malformed(
                        out,
                        &RpcError::limit(format!("limit exceeded: a batch has at most {most} calls")),
                    )
                }
                Ok(calls) => self.batch(&calls, from, out),
                Err(error) => self.malformed(out, &unreadable(&error)),
            },
            _ => match serde_json::from_slice::<IgnoredAny>(body) {
                Ok(_) => self.malformed(out, &invalid()),
                Err(error) => self.malformed(out, &unreadable(&error)),
            },
        }
    }

    fn malformed(&self, out: &mut Vec<u8>, error: &RpcError) -> Outcome {
        self.service.meters.malformed.increment();
        out.clear();
        write_error(out, None, error);
        Outcome::Malformed
    }

    fn batch(&self, calls: &[&RawValue], from: usize, out: &mut Vec<u8>) -> Outcome {
        let long = calls.len() > INLINE_BATCH;
        if long && self.place == Place::Inline {
            // Batches mostly repeat one method.
            let first = serde_json::from_str::<Request<'_>>(calls[0].get()).ok().and_then(|call| call.method);
            let name = first.and_then(|name| crate::params::text(name.get()).ok());
            return Outcome::Costly(0, name.map_or(Lane::Work, |name| self.service.registry.lane(&name)));
        }
        if out.is_empty() {
            out.push(b'[');
        }
        for (index, call) in calls.iter().enumerate().skip(from) {
            let start = out.len();
            if out.last() != Some(&b'[') {
                out.push(b',');
            }
            // Nothing is called anymore once the answer is as long as it may be.
            let full = out.len() > self.service.limits.batch_answer_bytes;
            let text = call.get();
            let written = if !text.starts_with('{') {
                write_error(out, None, &invalid());
                Ok(true)
            } else {
                match serde_json::from_str::<Request<'_>>(text) {
                    Ok(request) if full => {
                        write_error(
                            out,
                            request.id,
                            &RpcError::limit("limit exceeded: the batch's answer is too large"),
                        );
                        Ok(request.id.is_some())
                    }
                    Ok(request) if long && self.place == Place::Refused => {
                        write_error(out, request.id, &RpcError::costly());
                        Ok(request.id.is_some())
                    }
                    // The calls after it would wait for its reader.
                    Ok(request) => self.single(&request, out, None),
                    Err(_) => {
                        write_error(out, None, &invalid());
                        Ok(true)
                    }
                }
            };
            match written {
                Ok(true) => {}
                Ok(false) => out.truncate(start),
                Err(Later(lane)) => {
                    out.truncate(start);
                    return Outcome::Costly(index, lane);
                }
            }
        }
        if out.len() == 1 {
            out.clear();
            return Outcome::Nothing;
        }
        out.push(b']');
        Outcome::Answered
    }

    /// Answers one call; false when it wants no answer, and then nothing is written.
    fn single(
        &self,
        request: &Request<'_>,
        out: &mut Vec<u8>,
        outgoing: Option<&Outgoing>,
    ) -> Result<bool, Later> {
        let start = out.len();
        let id = request.id;
        if id.is_some_and(|id| !matches!(id.get().as_bytes().first(), Some(b'"' | b'-' | b'0'..=b'9' | b'n')))
        {
            write_error(out, None, &invalid());
            return Ok(true);
        }
        let version = request.jsonrpc.map(RawValue::get);
        let method = request.method.and_then(|method| crate::params::text(method.get()).ok());
        let (Some("\"2.0\""), Some(method)) = (version, method) else {
            write_error(out, id, &invalid());
            return Ok(true);
        };
        if request.params.is_some_and(|params| !params.get().starts_with(['[', '{', 'n'])) {
            write_error(out, id, &invalid());
            return Ok(true);
        }
        open_answer(out, id);
        out.extend_from_slice(b"\"result\":");
        let around = Around {
            taken: self.taken,
            before: start,
            gate: &self.service.gate,
            // What is not answered does not leave.
            outgoing: outgoing.filter(|_| id.is_some()),
        };
        let context =
            CallContext::new(self.place, self.deadline, self.service.limits.answer_bytes, self.stop)
                .within(around);
        match self.call(&method, Params::new(request.params.map(RawValue::get)), out, &context) {
            Ok(()) => out.push(b'}'),
            Err(error) if error.is_costly() && self.place == Place::Inline => {
                out.truncate(start);
                return Err(Later(self.service.registry.lane(&method)));
            }
            Err(error) => {
                if error.code == crate::error::LIMIT_EXCEEDED {
                    self.service.meters.refused_calls.increment();
                }
                if context.is_leaving() {
                    // The result has left as far as it came. Readers of JSON take the last of two members of one
                    // name, or neither: nobody takes the part for the whole.
                    out.extend_from_slice(b",\"error\":");
                    error.write(out);
                    out.extend_from_slice(b",\"result\":null}");
                } else {
                    out.truncate(start);
                    write_error(out, id, &error);
                }
            }
        }
        if id.is_none() {
            out.truncate(start);
            return Ok(false);
        }
        Ok(true)
    }

    fn call(
        &self,
        name: &str,
        params: Params<'_>,
        out: &mut Vec<u8>,
        context: &CallContext<'_>,
    ) -> Result<(), RpcError> {
        let service = self.service;
        let subscription = matches!(name, "eth_subscribe" | "eth_unsubscribe");
        let handler = service.registry.get(name);
        if handler.is_none() && !subscription {
            let name = name.chars().take(64).collect::<String>();
            return Err(RpcError::new(
                METHOD_NOT_FOUND,
                format!("the method {name} does not exist/is not available"),
            ));
        }
        let namespace = name.split('_').next().unwrap_or(name);
        if !service.namespaces.contains(namespace) {
            return Err(RpcError::new(METHOD_NOT_ENABLED, format!("Method not enabled: {name}")));
        }
        if !self.may_call(name) {
            service.meters.unauthorized.increment();
            return Err(RpcError::new(UNAUTHORIZED, "Unauthorized"));
        }
        context.check()?;
        let start = out.len();
        let began = Instant::now();
        let result = match (handler, self.session) {
            (None, Some(session)) => session.subscribe_or_not(service, name, params, out),
            (None, None) => Err(RpcError::new(METHOD_NOT_FOUND, "notifications not supported")),
            // A panic is a fault of ours: it must not take the connection's other calls along.
            (Some(handler), _) => catch_unwind(AssertUnwindSafe(|| handler(params, out, context)))
                .unwrap_or_else(|_| {
                    tracing::error!(method = name, "a method panicked");
                    if let Some(outgoing) = self.outgoing.filter(|_| context.is_leaving()) {
                        // What has left ends anywhere.
                        outgoing.cut(Cut::Failed);
                    }
                    Err(RpcError::internal("Internal error"))
                }),
        };
        let result = result.and_then(|()| match context.is_leaving() {
            true => Ok(()),
            false => context.check_size(out.len() - start),
        });
        if let Some(meters) = service.meters.method(name)
            && !matches!(&result, Err(error) if error.is_costly())
        {
            meters.seconds.observe(began.elapsed().as_secs_f64());
            if result.is_err() {
                meters.failed.increment();
            }
        }
        result
    }

    fn may_call(&self, method: &str) -> bool {
        match self.caller {
            Caller::Anyone => true,
            Caller::Page => is_public(method) || self.service.free_methods.contains(method),
            Caller::Holder(permissions) => {
                (permissions.allow(method) && permissions.hold(SystemTime::now()))
                    || self.service.free_methods.contains(method)
            }
            Caller::Nobody => self.service.free_methods.contains(method),
        }
    }
}

/// Whether a method neither changes how this node takes part in the chain, nor costs as much as a trace.
fn is_public(method: &str) -> bool {
    matches!(method.split('_').next(), Some("eth" | "net" | "web3" | "rpc" | "txpool"))
        && method != "txpool_drop"
}

/// The call is costly and was not made.
struct Later(Lane);

fn invalid() -> RpcError {
    RpcError::new(INVALID_REQUEST, "Invalid Request")
}

fn unreadable(error: &serde_json::Error) -> RpcError {
    RpcError::new(PARSE_ERROR, format!("Parse error: {error}"))
}

fn open_answer(out: &mut Vec<u8>, id: Option<&RawValue>) {
    out.extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"id\":");
    out.extend_from_slice(id.map_or("null", RawValue::get).as_bytes());
    out.push(b',');
}

/// Writes the whole answer to a call that failed.
pub(super) fn write_error(out: &mut Vec<u8>, id: Option<&RawValue>, error: &RpcError) {
    open_answer(out, id);
    out.extend_from_slice(b"\"error\":");
    error.write(out);
    out.push(b'}');
}

/// How many calls a request makes.
pub(super) fn calls_in(body: &[u8]) -> usize {
    match body.iter().find(|byte| !byte.is_ascii_whitespace()) {
        Some(b'[') => serde_json::from_slice::<Vec<IgnoredAny>>(body).map_or(1, |calls| calls.len().max(1)),
        _ => 1,
    }
}

/// Whether brackets nest deeper than `depth`. Readers of JSON recurse, or keep a stack.
fn too_deep(body: &[u8], depth: usize) -> bool {
    let mut open = 0_usize;
    let mut in_text = false;
    let mut escaped = false;
    for byte in body {
        if in_text {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => in_text = false,
                _ => {}
            }
            continue;
        }
        match byte {
            b'"' => in_text = true,
            b'[' | b'{' => {
                open += 1;
                if open > depth {
                    return true;
                }
            }
            b']' | b'}' => open = open.saturating_sub(1),
            _ => {}
        }
    }
    false
}
