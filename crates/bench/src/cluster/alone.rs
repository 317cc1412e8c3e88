//! Each stage alone between its topics: what it reads lies ready in them, and nothing else runs.

use super::member::Counters;
use super::network::{Broker, Launcher, Running};
use super::{ClusterError, Shape, Traffic};
use crate::processes::{Watched, read};
use crate::settlement::{Port, Run};
use crate::workload::{Generator, Mix};
use std::time::{Duration, Instant};
use tally_settlement::engine::wall_clock;
use tally_settlement::process::Role;

/// One stage, all its instances at once.
#[derive(Debug, Clone, PartialEq)]
pub struct Alone {
    /// Which.
    pub role: Role,
    /// How many processes shared the work.
    pub instances: u16,
    /// Payments that passed.
    pub payments: u64,
    /// How long they took from the word to go to the last commit.
    pub elapsed: Duration,
    /// Processor time of its processes.
    pub cpu: Duration,
    /// Processor time of the broker; none where it was not started here.
    pub broker: Option<Duration>,
    /// Turns that became visible, of all its processes.
    pub commits: u64,
    /// What went through their topics.
    pub traffic: Traffic,
}

impl Alone {
    /// Payments a second.
    #[must_use]
    pub fn rate(&self) -> f64 {
        self.payments as f64 / self.elapsed.as_secs_f64()
    }

    /// A time for each payment, in nanoseconds.
    #[must_use]
    pub fn per_payment(&self, time: Duration) -> f64 {
        time.as_secs_f64() * 1e9 / self.payments.max(1) as f64
    }

    /// Payload bytes appended and read for each payment.
    #[must_use]
    pub fn bytes(&self) -> (f64, f64) {
        let sum = |of: fn(&super::Through) -> u64| self.traffic.values().map(of).sum::<u64>() as f64;
        let each = |bytes: f64| bytes / self.payments.max(1) as f64;
        (each(sum(|through| through.appended_bytes)), each(sum(|through| through.read_bytes)))
    }
}

/// The stages, in the order in which a payment meets them.
pub const STAGES: [Role; 5] =
    [Role::Scheduler, Role::Approver, Role::Assembler, Role::Sequencer, Role::Updater];

/// After this time without progress everything that was there has been taken.
const QUIET: Duration = Duration::from_millis(400);
/// How often progress is looked at.
const LOOK: Duration = Duration::from_millis(10);
/// How long a stage may take.
const LIMIT: Duration = Duration::from_secs(120);

/// Measures every stage on a network of this shape, of which `batches` batches of the run's payments pass.
///
/// # Errors
/// When the network fails.
pub fn run(
    broker: &Broker,
    shape: &Shape,
    run: &Run,
    batches: usize,
    launcher: &Launcher,
) -> Result<Vec<Alone>, ClusterError> {
    let mut network = Running::start(broker, shape, launcher)?;
    network.open_accounts(run)?;
    network.stop_stages();
    let mut port = network.take_port()?;
    let schedulers = usize::from(shape.schedulers);
    let mut generator = Generator::new(&run.workload, shape.network().0.id, schedulers);
    for at in 0..batches {
        let scheduler = at % schedulers;
        port.submit(scheduler, generator.batch(scheduler, run.batch, wall_clock()))?;
        port.flush()?;
        while !port.has_room(scheduler) {
            std::thread::sleep(LOOK);
        }
    }
    port.settled()?;
    drop(port);
    let payments = (batches * run.batch) as u64;
    let found = STAGES
        .into_iter()
        .map(|role| one(&network, role, payments, run.workload.mix, launcher))
        .collect::<Result<Vec<_>, _>>()?;
    network.end()?;
    Ok(found)
}

fn one(
    network: &Running,
    role: Role,
    payments: u64,
    mix: Mix,
    launcher: &Launcher,
) -> Result<Alone, ClusterError> {
    let mut stages = Vec::new();
    for (_, shard) in network.shape.shards().into_iter().filter(|(of, _)| *of == role) {
        let mut member = network.member(role, shard);
        member.paused = true;
        let mut stage = launcher.start(&member)?;
        stage.ready()?;
        stages.push(stage);
    }
    let cpu = |stages: &[super::network::Stage]| -> Result<Duration, ClusterError> {
        stages.iter().try_fold(Duration::ZERO, |sum, stage| {
            let reading = read(&Watched::new(stage.label(), stage.pid()))?;
            Ok(sum + reading.user + reading.system)
        })
    };
    let of_broker = || -> Result<Option<Duration>, ClusterError> {
        let reading = network.broker().map(read).transpose()?;
        Ok(reading.map(|reading| reading.user + reading.system))
    };
    let (cpu_before, broker_before) = (cpu(&stages)?, of_broker()?);
    // The first word lets it go, and is answered like every other.
    let mut before = Vec::new();
    let began = Instant::now();
    for stage in &mut stages {
        before.push(stage.counters()?);
    }
    let mut last: Vec<Counters> = before.clone();
    let (mut moved, mut cpu_at, mut broker_at) = (Duration::ZERO, cpu_before, broker_before);
    loop {
        std::thread::sleep(LOOK);
        let mut changed = false;
        for (stage, last) in stages.iter_mut().zip(&mut last) {
            let now = stage.counters()?;
            changed |= now != *last;
            *last = now;
        }
        let elapsed = began.elapsed();
        if changed {
            (moved, cpu_at, broker_at) = (elapsed, cpu(&stages)?, of_broker()?);
        } else if !moved.is_zero() && elapsed > moved + QUIET {
            break;
        }
        if elapsed > LIMIT {
            return Err(ClusterError::process(role.name(), "it does not come to an end"));
        }
    }
    let mut traffic = Traffic::new();
    let mut commits = 0;
    for (before, now) in before.iter().zip(&last) {
        let since = now.since(before);
        commits += since.commits;
        for (topic, through) in since.traffic {
            traffic.entry(topic).or_default().add(through);
        }
    }
    // Inside an institution one of them has all the work, and the others are told that there is none for them.
    let concerned = match (role, mix) {
        (Role::Approver | Role::Updater, Mix::Inside) => 1,
        _ => u16::try_from(stages.len()).unwrap_or(u16::MAX),
    };
    Ok(Alone {
        role,
        instances: concerned,
        payments,
        elapsed: moved,
        cpu: cpu_at.saturating_sub(cpu_before),
        broker: broker_at.zip(broker_before).map(|(after, before)| after.saturating_sub(before)),
        commits,
        traffic,
    })
}

/// What is predicted of more machines.
#[derive(Debug, Clone, PartialEq)]
pub struct Prediction {
    /// How many machines like this one.
    pub machines: u32,
    /// Payments a second.
    pub rate: f64,
    /// What limits it.
    pub by: &'static str,
}

/// Brokers' copies of each record where there is more than one machine.
pub const REPLICAS: f64 = 3.0;

/// What so many machines of `cores` cores would do, from what each stage took alone: every payment takes the same
/// processor time there, the brokers' for each of [`REPLICAS`] copies; the work spreads evenly; only the sequencer is not
/// split. Networks between machines, skew and rebalances are left out, so that this is the most there can be.
#[must_use]
pub fn predict(alone: &[Alone], machines: u32, cores: usize) -> Prediction {
    let each: f64 = alone
        .iter()
        .map(|one| {
            let broker = one.broker.map_or(0.0, |time| one.per_payment(time));
            one.per_payment(one.cpu) + broker * if machines > 1 { REPLICAS } else { 1.0 }
        })
        .sum();
    let spread = f64::from(machines) * cores as f64 * 1e9 / each.max(1.0);
    let sequencer = alone
        .iter()
        .find(|one| one.role == Role::Sequencer)
        .map_or(f64::INFINITY, |one| 1e9 / one.per_payment(one.cpu).max(1.0));
    if sequencer < spread {
        Prediction { machines, rate: sequencer, by: "the sequencer, which is one" }
    } else {
        Prediction { machines, rate: spread, by: "processor time of all stages and brokers" }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn alone(role: Role, cpu_us: u64, broker_us: u64) -> Alone {
        Alone {
            role,
            instances: 1,
            payments: 1000,
            elapsed: Duration::from_millis(10),
            cpu: Duration::from_micros(cpu_us),
            broker: Some(Duration::from_micros(broker_us)),
            commits: 1,
            traffic: Traffic::new(),
        }
    }

    #[test]
    fn more_machines_do_more_until_the_sequencer_is_busy() {
        // A payment takes 4 µs, of which 1 µs is the broker's; 0.5 µs is the sequencer's.
        let all = [alone(Role::Scheduler, 2500, 800), alone(Role::Sequencer, 500, 200)];
        let one = predict(&all, 1, 2);
        assert!((one.rate - 500_000.0).abs() < 1.0, "{one:?}");
        // With three copies 6 µs on 6 cores: a million a second.
        let three = predict(&all, 3, 2);
        assert!((three.rate - 1e6).abs() < 1.0, "{three:?}");
        let hundred = predict(&all, 100, 2);
        assert!((hundred.rate - 2e6).abs() < 1.0 && hundred.by.contains("sequencer"), "{hundred:?}");
    }
}
