//! Receiving what is too much to hold for as long as a flow runs.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use borsh::{BorshDeserialize, BorshSerialize};
use tally_contracts::SignedTransaction;

use super::Session;
use crate::cell::{Next, State};
use crate::journal::Step;
use crate::message::{Body, encode};
use crate::service::{AttachmentPart, Request};
use crate::{FlowError, Message};

impl Session {
    /// Waits for the next value, takes the transactions out of it that [`Context::keep`](crate::Context::keep) is to
    /// keep, and gives what else `digest` makes of it. From then on neither memory nor journal has the value: a flow
    /// that runs again gets what was made of it. For values of which a flow receives very many.
    ///
    /// `digest` depends on nothing but the value and what the flow knows; it may be called more than once and changes
    /// nothing.
    ///
    /// # Errors
    /// The other flow failed or ended, or sent something else; what `digest` fails with.
    pub async fn receive_kept<T: BorshDeserialize, R: BorshSerialize + BorshDeserialize>(
        &self,
        digest: impl Fn(T) -> Result<(R, Vec<Arc<SignedTransaction>>), FlowError>,
    ) -> Result<R, FlowError> {
        let digest = |value| digest(value).map(|(rest, kept)| (rest, Request::Keep(kept)));
        self.begin().await;
        poll_fn(|_| self.take_kept(&digest)).await
    }

    /// The same for a value that holds a part of an attachment, which is kept until
    /// [`Context::attach`](crate::Context::attach) puts the attachment together or the flow ends.
    ///
    /// # Errors
    /// The other flow failed or ended, or sent something else; what `digest` fails with.
    pub async fn receive_part<T: BorshDeserialize, R: BorshSerialize + BorshDeserialize>(
        &self,
        digest: impl Fn(T) -> Result<(R, AttachmentPart), FlowError>,
    ) -> Result<R, FlowError> {
        let digest = |value| digest(value).map(|(rest, part)| (rest, Request::KeepPart(part)));
        self.begin().await;
        poll_fn(|_| self.take_kept(&digest)).await
    }

    fn take_kept<T: BorshDeserialize, R: BorshSerialize + BorshDeserialize>(
        &self,
        digest: &impl Fn(T) -> Result<(R, Request), FlowError>,
    ) -> Poll<Result<R, FlowError>> {
        let cell = &self.context.0;
        let bytes = {
            let mut state = cell.state();
            if state.trouble.is_some() {
                return Poll::Pending;
            }
            if let Next::Again(Step::Digested(result)) = state.next() {
                let Some(Ok(_)) = self.take(&mut state) else {
                    state.disagrees(&Step::Digested(Vec::new()), "receive a message that is not there");
                    return Poll::Pending;
                };
                state.cursor += 1;
                self.empty(&mut state);
                state.session(self.id).remember(&result);
                drop(state);
                return Poll::Ready(self.decode(&result));
            }
            let timed_out = || FlowError::Timeout { party: self.peer().clone() };
            if let (Some(_), Next::Again(Step::Chose(1))) = (self.until, state.next()) {
                state.cursor += 1;
                return Poll::Ready(Err(timed_out()));
            }
            let Some(taken) = self.take(&mut state) else {
                if let Some(deadline) = self.until.filter(|_| !state.is_replaying()) {
                    if state.now >= deadline {
                        state.waiting = crate::cell::Waiting::Nothing;
                        state.did(Step::Chose(1));
                        return Poll::Ready(Err(timed_out()));
                    }
                    state.wants(deadline);
                }
                return Poll::Pending;
            };
            match taken {
                Ok(bytes) => bytes,
                Err(error) => return Poll::Ready(Err(error)),
            }
        };
        let digested = self.decode(&bytes).and_then(digest);
        let (result, keep) = match digested {
            Ok(digested) => digested,
            Err(error) => return Poll::Ready(Err(error)),
        };
        let now = {
            let mut state = cell.state();
            if let Next::Again(step) = state.next() {
                state.disagrees(&step, "receive a message");
                return Poll::Pending;
            }
            state.now
        };
        // The state is not locked while the node works.
        let performed = cell.host.perform(cell.id, now, &keep);
        let mut state = cell.state();
        match performed {
            Ok(performed) => {
                let digest = encode(&result);
                state.session(self.id).remember(&digest);
                state.did(Step::Digested(digest));
                state.writes.extend(performed.writes);
                self.empty(&mut state);
                Poll::Ready(Ok(result))
            }
            Err(trouble) => {
                // The flow runs again from its beginning, and reads the message again.
                state.trouble = Some(trouble);
                Poll::Pending
            }
        }
    }

    /// Forgets what the message said that was read last; that it was there is not forgotten.
    fn empty(&self, state: &mut State) {
        let session = state.session(self.id);
        let (id, number) = (session.hears, session.read - 1);
        let Some(arrived) = session.inbound.get_mut(&number) else { return };
        let last = arrived.last;
        let freed = match std::mem::replace(&mut arrived.body, Body::Data(Vec::new())) {
            Body::Data(bytes) | Body::Open { payload: Some(bytes), .. } => bytes.len(),
            _ => 0,
        };
        session.held_bytes = session.held_bytes.saturating_sub(freed);
        // If it has not been submitted yet, it need not be written down at all.
        let unsubmitted =
            state.arrivals.iter_mut().find(|arrival| arrival.session == id && arrival.number == number);
        if let Some(arrival) = unsubmitted {
            arrival.message = Message { session: id, number, last, body: Body::Data(Vec::new()) }.encode();
        }
    }
}
