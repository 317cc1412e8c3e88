//! How long a network is without a sequencer when the one that works is killed and another waits.

use super::member::{Counters, TakenOver, unix_us};
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
    /// After which silence the one that stands by takes over, in milliseconds.
    pub after_ms: u64,
}

impl Default for Options {
    /// The program's own standby waits as long.
    fn default() -> Self {
        Self { kills: 5, rate: 5_000, after_ms: 600 }
    }
}

/// Where the time of one takeover went, from the kill to the first decision of the next sequencer that is visible to all.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Split {
    /// Until the one that stood by decided: the silence, less what had passed of it when the other was killed.
    pub silence: Duration,
    /// Until its log was open: the writer before is fenced, and the ends of what it writes are known.
    pub fence: Duration,
    /// Until it had recovered what the one before had recorded.
    pub recovery: Duration,
    /// Until its first decisions were committed.
    pub commit: Duration,
}

impl Split {
    /// Reads it from what the new sequencer says.
    fn of(killed_us: u64, counters: &Counters) -> Option<Self> {
        let TakenOver { decided_us, fence_ns, recovery_ns, .. } = counters.taken_over?;
        Some(Self {
            silence: Duration::from_micros(decided_us.checked_sub(killed_us)?),
            fence: Duration::from_nanos(fence_ns),
            recovery: Duration::from_nanos(recovery_ns),
            commit: Duration::from_nanos(counters.worked.first_ns),
        })
        .filter(|_| counters.worked.first_ns > 0)
    }

    /// All of it.
    #[must_use]
    pub fn total(&self) -> Duration {
        self.silence + self.fence + self.recovery + self.commit
    }
}

/// What was measured.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Takeovers {
    /// From the last record of the one that was killed to the first record of the next, by their own clocks, in seconds.
    pub seconds: Vec<f64>,
    /// From the kill until the gateway heard the first record of the next, in seconds.
    pub heard: Vec<f64>,
    /// Where the time went.
    pub splits: Vec<Split>,
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
    let mut candidates = vec![candidate(&network, launcher, options)?];
    active(&mut candidates)?;
    candidates.push(candidate(&network, launcher, options)?);
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
        let (killed, killed_us) = (Instant::now(), unix_us());
        candidates[active].kill();
        load.until(&mut port, &mut follower, LIMIT, Some(wall_clock().0))?;
        follower.found.heard.push(killed.elapsed().as_secs_f64());
        follower.found.splits.push(split(&mut candidates[1 - active], killed_us)?);
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
    member.stands_by_ms = Some(options.after_ms);
    let mut stage = launcher.start(&member)?;
    stage.ready()?;
    Ok(stage)
}

/// How the new sequencer took over. It may be heard of before it knows itself that it has committed.
fn split(next: &mut Stage, killed_us: u64) -> Result<Split, ClusterError> {
    let deadline = Instant::now() + LIMIT;
    while Instant::now() < deadline {
        if let Some(split) = Split::of(killed_us, &next.counters()?) {
            return Ok(split);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Err(ClusterError::process(next.label(), "it does not say how it took over"))
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
    fn the_parts_of_a_takeover_are_its_whole() {
        let taken_over = TakenOver {
            heard_us: 999_000,
            decided_us: 1_600_000,
            fence_ns: 30_000_000,
            recovery_ns: 5_000_000,
        };
        let mut counters = Counters { taken_over: Some(taken_over), ..Counters::default() };
        assert_eq!(Split::of(1_000_000, &counters), None, "it has not committed anything yet");
        counters.worked.first_ns = 12_000_000;
        let split = Split::of(1_000_000, &counters).unwrap();
        assert_eq!((split.silence.as_millis(), split.total().as_millis()), (600, 647));
        assert_eq!(Split::of(1_700_000, &counters), None, "it took over before the other was killed");
        assert_eq!(Split::of(0, &Counters::default()), None, "it never took over");
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
