//! Ping: is a node there, do its flows wait and wake?

use std::time::Duration;

use borsh::{BorshDeserialize, BorshSerialize};
use serde::{Deserialize, Serialize};
use tally_contracts::{Name, Timestamp};
use tally_flows::{Context, Flow, FlowError, Responder, Session};

/// The longest that a node lets a peer's flow sleep: a minute.
pub const LONGEST_MS: u64 = 60 * 1000;

/// Whom to ask, and how long it shall wait.
#[derive(Clone, Debug, BorshSerialize, BorshDeserialize, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PingArguments {
    /// Who answers.
    pub to: Name,
    /// How long it waits before it does, in milliseconds; not at all if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after_ms: Option<u64>,
}

/// What came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize, Serialize)]
pub struct Pong {
    /// When the other node answered, by its clock.
    pub answered_at: Timestamp,
    /// How long it took by this node's clock, in milliseconds.
    pub took_ms: u64,
}

/// Asks a node for an answer, at once or later: shows whether it can be reached, and that flows which wait survive a
/// restart of either node.
pub struct Ping;

impl Flow for Ping {
    const NAME: &'static str = "Ping";
    const VERSION: u32 = 1;
    const ARGUMENTS: &'static [(&'static str, &'static str)] = &[
        ("to", "who is to answer, such as O=PartyB, L=London, C=GB"),
        ("after_ms", "how many milliseconds it waits before it answers; none if absent"),
    ];
    type Arguments = PingArguments;
    type Output = Pong;

    async fn run(context: Context, arguments: PingArguments) -> Result<Pong, FlowError> {
        let began = context.now().await;
        let session = context.open(&arguments.to).await?;
        context.step("Waiting for the answer");
        let answered_at = session.exchange(&arguments.after_ms.unwrap_or_default()).await?;
        let took = context.now().await.since(began);
        Ok(Pong { answered_at, took_ms: u64::try_from(took.as_millis()).unwrap_or(u64::MAX) })
    }
}

/// The answer to a [`Ping`].
pub struct Answer;

impl Responder for Answer {
    const ANSWERS: &'static str = Ping::NAME;
    const VERSION: u32 = Ping::VERSION;

    async fn run(context: Context, session: Session) -> Result<(), FlowError> {
        let after_ms: u64 = session.receive().await?;
        if after_ms > LONGEST_MS {
            return Err(FlowError::refused(format!(
                "{after_ms} ms is longer than {LONGEST_MS} ms, which is a minute"
            )));
        }
        if after_ms > 0 {
            context.step("Sleeping");
            let until = context.now().await.saturating_add(Duration::from_millis(after_ms));
            context.sleep_until(until).await;
        }
        session.send(&context.now().await).await;
        Ok(())
    }
}
