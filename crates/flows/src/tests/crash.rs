use serde_json::json;

use super::world::{World, name};
use crate::{Context, Flow, FlowError, Registry, Responder, Session};

/// Adds numbers up with the help of the other side, asking it for each; a timer, the time and randomness on the way.
struct Sum;

impl Flow for Sum {
    const NAME: &'static str = "Sum";
    const VERSION: u32 = 1;
    const ARGUMENTS: &'static [(&'static str, &'static str)] = &[("of", "how many numbers")];
    type Arguments = SumOf;
    type Output = Total;

    async fn run(context: Context, arguments: SumOf) -> Result<Total, FlowError> {
        let session = context.open(&name("Bob")).await?;
        let began = context.now().await;
        let mut total = 0;
        let mut salts = Vec::new();
        for index in 0..arguments.of {
            context.step("Asking");
            let square: u64 = session.exchange(&u64::from(index)).await?;
            total += square;
            salts.push(context.random(&format!("salt {index}")));
        }
        let later = tally_contracts::Timestamp::from_millis(began.as_millis() + 10);
        context.subflow("Resting", context.sleep_until(later)).await;
        session.send(&u64::MAX).await;
        let kept: Vec<[u8; 32]> = session.exchange(&salts).await?;
        if kept != salts {
            return Err(FlowError::refused("the salts came back changed"));
        }
        Ok(Total { total, began: began.as_millis() })
    }
}

#[derive(borsh::BorshSerialize, borsh::BorshDeserialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SumOf {
    of: u32,
}

#[derive(Debug, PartialEq, borsh::BorshSerialize, borsh::BorshDeserialize, serde::Serialize)]
pub(super) struct Total {
    total: u64,
    began: u64,
}

struct Square;

impl Responder for Square {
    const ANSWERS: &'static str = "Sum";
    const VERSION: u32 = 1;

    async fn run(_: Context, session: Session) -> Result<(), FlowError> {
        loop {
            let number: u64 = session.receive().await?;
            if number == u64::MAX {
                break;
            }
            session.send(&(number * number)).await;
        }
        let salts: Vec<[u8; 32]> = session.receive().await?;
        session.send(&salts).await;
        Ok(())
    }
}

fn registry() -> Registry {
    Registry::new().flow::<Sum>().responder::<Square>()
}

/// Runs to the end, restarting `who` after each number of turns in `crashes`.
fn run(crashes: &[(usize, &str)], copies: usize) -> (crate::Outcome, usize) {
    let mut world = World::new(registry);
    world.copies = copies;
    let flow = world.start("Alice", "Sum", &json!({ "of": 4 })).expect("a start");
    let mut turns = 0;
    loop {
        for (_, who) in crashes.iter().filter(|(at, _)| *at == turns) {
            // A crash before the first unit is durable loses the flow: nobody was told that it had started.
            if *who == "Alice" && world.node("Alice").desk.disk.lock().unwrap().units == 0 {
                continue;
            }
            world.restart(who, registry);
        }
        if !world.turn() {
            if let Some(outcome) = world.outcome("Alice", flow) {
                assert!(world.nodes.values().all(|node| node.engine.is_empty()), "every flow has ended");
                return (outcome, turns);
            }
            world.now = tally_contracts::Timestamp::from_millis(world.now.as_millis() + 10);
        }
        turns += 1;
        assert!(turns < 1000, "the flow goes on");
    }
}

#[test]
fn a_crash_between_any_two_turns_of_either_side_changes_nothing() {
    let (expected, turns) = run(&[], 1);
    let total = borsh::from_slice::<Total>(expected.as_ref().expect("success")).expect("a total");
    assert_eq!(total, Total { total: 14, began: 1_000_000 });
    assert!(turns > 15);
    for at in 0..turns {
        for who in ["Alice", "Bob"] {
            for copies in 1..3 {
                let (outcome, _) = run(&[(at, who)], copies);
                assert_eq!(outcome, expected, "{who} crashed after turn {at}");
                let (outcome, _) =
                    run(&[(at, who), (at + 1, who), (at + 3, "Bob"), (at + 4, "Alice")], copies);
                assert_eq!(outcome, expected, "{who} crashed after turns {at}, {}", at + 1);
            }
        }
    }
}

#[test]
fn a_flow_that_runs_again_tells_its_progress_once() {
    let mut world = World::new(registry);
    world.start("Alice", "Sum", &json!({ "of": 2 })).expect("a start");
    world.settle();
    world.restart("Alice", registry);
    world.now = tally_contracts::Timestamp::from_millis(world.now.as_millis() + 10);
    world.settle();
    let told = world.node("Alice").desk.progress.lock().unwrap().clone();
    assert_eq!(told, ["Sum / Asking", "Sum / Asking"]);
}

#[test]
fn what_nobody_has_seen_costs_nothing_durable() {
    let world = World::new(registry);
    world.start("Alice", "Sum", &json!({ "of": 0 })).expect("a start");
    world.settle();
    // The start; nothing more until the timer, though the flow asked for a party and for the time.
    assert_eq!(world.units(), 1);
}
