//! Which failures users may be told of.

use std::collections::BTreeSet;

use tally_contracts::StateRef;
use tally_flows::{Fate, FlowError, Outcome};
use tally_protocols::cash::CashPayArguments;

use super::books::Books;
use super::clients::Asked;
use super::orders::About;
use super::world::World;

impl Books {
    /// Nobody was told of a failure that could not happen.
    pub(crate) fn explain_failures(&self, world: &World, raced: &BTreeSet<StateRef>, skewed: bool) {
        for (index, asked) in world.clients.asked.iter().enumerate() {
            let Some(Err(error)) = &asked.outcome else {
                assert!(
                    asked.lost || asked.order.about != About::Nonsense,
                    "order {index} is nonsense, and was carried out"
                );
                continue;
            };
            // Who deals with a liar may hear anything; only that what is final has not failed is in the books.
            if !world.lied.is_empty() && !is_among_good(world, asked) {
                continue;
            }
            let fits = self.explains(asked, error, raced, skewed)
                || self.was_signed_away(world, asked.order.node, error);
            assert!(fits, "order {index} failed with {error:?}: {:?}", asked.order);
        }
        if !world.lied.is_empty() {
            return;
        }
        for machine in &world.machines {
            let audit = machine.disk.audit();
            assert!(audit.held.is_empty(), "flows wait for a person: {:?}", audit.held);
            for outcome in audit.ended.values() {
                let outcome: Outcome = borsh::from_slice(outcome).expect("an outcome");
                if let Err(error) = outcome {
                    assert!(
                        !is_broken(&error)
                            || matches!(&error, FlowError::Invalid { reason } if is_value(reason)),
                        "a flow of {} failed: {error:?}",
                        machine.me
                    );
                }
            }
        }
    }

    /// This node had signed for a state, and the flow that was to make that final ended otherwise: a person killed it
    /// here or at the counterparty, or the counterparty lies. Others went on to consume the state: a flow that takes it
    /// meanwhile learns so from the notary.
    fn was_signed_away(&self, world: &World, node: usize, error: &FlowError) -> bool {
        let FlowError::Conflict { state, consumed_by } = error else { return false };
        let left_open = |outcome: &Vec<u8>| match borsh::from_slice(outcome) {
            Ok(Outcome::Err(FlowError::Counterparty { party, kind, .. })) => {
                kind == "killed" || world.lied.contains(&world.index(&party))
            }
            Ok(Outcome::Err(error)) => error.code() == "killed" || error.fate() != Fate::Refused,
            _ => false,
        };
        let audit = world.machines[node].disk.audit();
        self.consumer.get(state) == Some(consumed_by) && audit.ended.values().any(left_open)
    }

    fn explains(&self, asked: &Asked, error: &FlowError, raced: &BTreeSet<StateRef>, skewed: bool) -> bool {
        let about = &asked.order.about;
        let cut_off = self.kills > 0
            && match error {
                FlowError::Killed | FlowError::Final { .. } => asked.killed,
                // Its notary's flow may have been killed instead.
                FlowError::Unknown { kind, .. } => kind != "killed" || asked.killed,
                FlowError::SessionEnded { .. } => true,
                FlowError::Counterparty { kind, .. } => {
                    ["killed", "session_ended", "refused"].contains(&&**kind)
                }
                _ => false,
            };
        let usual = match error {
            FlowError::Conflict { state, consumed_by } => {
                let stale = self.orphans.contains(consumed_by);
                self.consumer.get(state) == Some(consumed_by) && (raced.contains(state) || stale)
            }
            FlowError::Insufficient { .. } => matches!(
                about,
                About::Pay { .. }
                    | About::Exit { .. }
                    | About::PayAtRate { .. }
                    | About::Transfer { .. }
                    | About::Deliver { .. }
            ),
            FlowError::OutsideTimeWindow { .. } => {
                skewed && matches!(about, About::Deliver { .. } | About::Redeem { .. })
            }
            // A window that has not begun by the notary's clock is no refusal: it is asked again later.
            FlowError::Unknown { reason, .. } => {
                skewed
                    && matches!(about, About::Deliver { .. } | About::Redeem { .. })
                    && reason.contains("it is asked again")
            }
            FlowError::Refused { .. } => matches!(about, About::Settle { .. } | About::Redeem { .. }),
            FlowError::Counterparty { kind, reason, .. } => match about {
                About::Deliver { .. } | About::Redeem { .. } => {
                    ["refused", "insufficient"].contains(&&**kind)
                }
                // An oracle is not bound for long by what it said.
                About::PayAtRate { .. } => reason.contains("300 s ago"),
                _ => false,
            },
            _ => false,
        };
        cut_off || usual || *about == About::Nonsense
    }
}

/// Is it a payment between two nodes that never lied, by way of a notary that did not?
fn is_among_good(world: &World, asked: &Asked) -> bool {
    let About::Pay { to, .. } = asked.order.about else { return false };
    let arguments: CashPayArguments = borsh::from_slice(&asked.order.arguments).expect("its arguments");
    let notary = arguments.notary.map_or(world.notaries[0], |name| world.index(&name));
    [asked.order.node, to, notary].iter().all(|node| !world.lied.contains(node))
}

/// An IOU without a good value, which is what some users ask for.
fn is_value(reason: &str) -> bool {
    reason.contains("the value is")
}

/// What no flow of honest nodes ends with.
fn is_broken(error: &FlowError) -> bool {
    matches!(
        error,
        FlowError::Invalid { .. }
            | FlowError::Unexpected { .. }
            | FlowError::UnknownFlow { .. }
            | FlowError::Version { .. }
            | FlowError::Timeout { .. }
            | FlowError::TooLarge { .. }
            | FlowError::Busy { .. }
    )
}
