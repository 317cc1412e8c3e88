//! Which failures users may be told of.

use std::collections::BTreeSet;

use tally_contracts::StateRef;
use tally_flows::{FlowError, Outcome};

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
            let fits = self.explains(asked, error, raced, skewed)
                || self.was_signed_away(world, asked.order.node, error);
            assert!(fits, "order {index} failed with {error:?}: {:?}", asked.order);
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

    /// A person killed a flow of this node after it had signed for a state, which others went on to consume: whoever
    /// takes the state meanwhile learns so from the notary.
    fn was_signed_away(&self, world: &World, node: usize, error: &FlowError) -> bool {
        let FlowError::Conflict { state, consumed_by } = error else { return false };
        let audit = world.machines[node].disk.audit();
        let is_killed =
            |outcome: &Vec<u8>| matches!(borsh::from_slice(outcome), Ok(Outcome::Err(FlowError::Killed)));
        self.consumer.get(state) == Some(consumed_by) && audit.ended.values().any(is_killed)
    }

    fn explains(&self, asked: &Asked, error: &FlowError, raced: &BTreeSet<StateRef>, skewed: bool) -> bool {
        let about = &asked.order.about;
        let cut_off = self.kills > 0
            && match error {
                FlowError::Killed => asked.killed,
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
