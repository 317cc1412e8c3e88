//! How long a network is without a sequencer when the one that works is killed and another waits.

use super::member::Counters;
use super::network::{Broker, Launcher, Running, Stage};
use super::{ClusterError, GatewayPort, Shape};
use crate::settlement::{Port, Run};
use crate::workload::Generator;
use std::time::{Duration, Instant};
use tally_settlement::engine::wall_clock;
use tally_settlement::message::SequenceBatch;
use tally_settlement::process::Role;

/// What is to be measured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// How often the sequencer is killed.
    pub kills: usize,
    /// Payments a second meanwhile.
    pub rate: u64,
    /// After which silence a process is taken for dead, in milliseconds.
    pub session_ms: u32,
}

impl Default for Options {
    fn default() -> Self {
        Self { kills: 5, rate: 5_000, session_ms: 600 }
    }
}

/// What was measured.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Takeovers {
    /// From the last record of the one that was killed to the first record of the next, by their own clocks, in seconds.
    pub seconds: Vec<f64>,
    /// From the kill until the gateway heard the first record of the next, in seconds.
    pub heard: Vec<f64>,
    /// Records of the sequence that were looked at. Each went on exactly where the one before it ended.
    pub records: u64,
    /// Decisions in them.
    pub decisions: u64,
}

/// How long a takeover is waited for.
const LIMIT: Duration = Duration::from_secs(60);
/// How long payments run before each kill, and after the first record of the next sequencer.
const SETTLED: Duration = Duration::from_millis(1500);
/// Payments of a batch.
const BATCH: usize = 50;

/// Follows the sequence, each record of which must go on where the one before it ended.
#[derive(Default)]
struct Follower {
    last: Option<(u64, u64, u64)>,
    found: Takeovers,
}

impl Follower {
    /// Takes the next record; the time of the one before it and its own, in milliseconds.
    fn take(&mut self, batch: &SequenceBatch) -> Result<Option<(u64, u64)>, ClusterError> {
        let wrong = |what: String| Err(ClusterError::process("sequence", what));
        let mut times = None;
        if let Some((next, size, at)) = self.last {
            if batch.first != next {
                return wrong(format!("decision {} follows where decision {next} should", batch.first));
            }
            if batch.tree_size != size + 1 {
                return wrong(format!("leaf {} follows where leaf {} should", batch.tree_size, size + 1));
            }
            times = Some((at, batch.timestamp.0));
        }
        self.last = Some((batch.first + u64::from(batch.count), batch.tree_size, batch.timestamp.0));
        self.found.records += 1;
        self.found.decisions += u64::from(batch.count);
        Ok(times)
    }
}

/// Kills the working one of two sequencers again and again while payments run; the killed one comes back and waits.
///
/// # Errors
/// When nobody takes over, or the sequence has a gap.
pub fn run(
    broker: &Broker,
    shape: &Shape,
    run: &Run,
    launcher: &Launcher,
    options: &Options,
) -> Result<Takeovers, ClusterError> {
    let mut network = Running::without(broker, shape, launcher, Role::Sequencer)?;
    let mut candidates = Vec::new();
    for _ in 0..2 {
        candidates.push(candidate(&network, launcher, options)?);
    }
    network.open_accounts(run)?;
    let mut port = network.take_port()?;
    let mut load = Load {
        generator: Generator::new(&run.workload, shape.network().0.id, usize::from(shape.schedulers)),
        began: Instant::now(),
        sent: 0,
        rate: options.rate,
        turn: 0,
    };
    let mut follower = Follower::default();
    for _ in 0..options.kills {
        load.until(&mut port, &mut follower, SETTLED, None)?;
        let active = active(&mut candidates)?;
        candidates[active].kill();
        let killed = Instant::now();
        let killed_at = wall_clock().0;
        load.until(&mut port, &mut follower, LIMIT, Some(killed_at))?;
        follower.found.heard.push(killed.elapsed().as_secs_f64());
        candidates[active] = candidate(&network, launcher, options)?;
    }
    load.until(&mut port, &mut follower, SETTLED, None)?;
    drop(port);
    drop(candidates);
    network.end()?;
    Ok(follower.found)
}

fn candidate(network: &Running, launcher: &Launcher, options: &Options) -> Result<Stage, ClusterError> {
    let mut member = network.member(Role::Sequencer, 0);
    member.session_ms = Some(options.session_ms);
    let mut stage = launcher.start(&member)?;
    stage.ready()?;
    Ok(stage)
}

/// Which of them works; it is waited for.
fn active(candidates: &mut [Stage]) -> Result<usize, ClusterError> {
    let deadline = Instant::now() + LIMIT;
    while Instant::now() < deadline {
        for (at, stage) in candidates.iter_mut().enumerate() {
            if matches!(stage.counters()?, Counters { active: true, .. }) {
                return Ok(at);
            }
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Err(ClusterError::process("sequencer", "none of the two works"))
}

struct Load {
    generator: Generator,
    began: Instant,
    sent: u64,
    rate: u64,
    turn: usize,
}

impl Load {
    /// Hands in payments for so long; or, where something was killed, until a later record has come.
    fn until(
        &mut self,
        port: &mut GatewayPort,
        follower: &mut Follower,
        limit: Duration,
        killed_at: Option<u64>,
    ) -> Result<(), ClusterError> {
        let deadline = Instant::now() + limit;
        while Instant::now() < deadline {
            let due = (self.began.elapsed().as_secs_f64() * self.rate as f64) as u64;
            while self.sent + BATCH as u64 <= due && port.has_room(self.turn) {
                self.turn = (self.turn + 1) % port.schedulers();
                let batch = self.generator.batch(self.turn, BATCH, wall_clock());
                port.submit(self.turn, batch)?;
                self.sent += BATCH as u64;
            }
            port.flush()?;
            while port.intake()?.is_some() {}
            while let Some(batch) = port.sequence()? {
                let times = follower.take(&batch)?;
                // What the killed one had committed is earlier, by the clock of the same machine.
                if let (Some(killed_at), Some((before, after))) = (killed_at, times)
                    && after > killed_at
                {
                    follower.found.seconds.push(after.saturating_sub(before) as f64 / 1e3);
                    return Ok(());
                }
            }
            port.wait(0, Duration::from_millis(2));
        }
        match killed_at {
            Some(_) => Err(ClusterError::process("sequencer", "nobody took over")),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tally_crypto::{Hash, SigningKey};
    use tally_ledger::Timestamp;
    use tally_settlement::message::Source;

    fn batch(first: u64, count: u32, tree_size: u64, at: u64) -> SequenceBatch {
        SequenceBatch {
            first,
            count,
            source: Source::new(0, 0),
            timestamp: Timestamp(at),
            runs: Vec::new(),
            root: Hash::ZERO,
            tree_root: [0; 32],
            tree_size,
            signature: SigningKey::from_seed([1; 32]).sign(b"a head"),
        }
    }

    #[test]
    fn a_gap_or_a_fork_is_seen() {
        let mut follower = Follower::default();
        assert_eq!(follower.take(&batch(7, 3, 1, 100)).unwrap(), None);
        assert_eq!(follower.take(&batch(10, 2, 2, 350)).unwrap(), Some((100, 350)));
        assert!(follower.take(&batch(13, 1, 3, 400)).is_err(), "a decision is missing");
        assert!(follower.take(&batch(12, 1, 2, 400)).is_err(), "a leaf comes twice");
        assert_eq!((follower.found.records, follower.found.decisions), (2, 5));
    }
}
