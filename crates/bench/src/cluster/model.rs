//! What more processes and more machines are predicted to do, from what each stage took alone.
//!
//! It is arithmetic over measured figures, and says no more than they do: the assumptions are [`ASSUMED`].

use super::alone::Repeated;
use tally_settlement::process::Role;

/// Brokers' copies of each record where there is more than one machine.
pub const REPLICAS: f64 = 3.0;

/// What a stage takes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cost {
    /// Which.
    pub role: Role,
    /// Processor time of its processes for a payment, in nanoseconds.
    pub cpu_ns: f64,
    /// Processor time of the broker for a payment, in nanoseconds.
    pub broker_ns: f64,
    /// Payments a second of one instance between its topics.
    pub rate: f64,
    /// Records read a second at that rate.
    pub records: f64,
    /// Processor time for a payment of a process whom it does not concern, in nanoseconds.
    pub bystander_ns: f64,
}

impl Cost {
    /// What was measured of one instance.
    #[must_use]
    pub fn of(stage: &Repeated) -> Self {
        let bystander = stage.runs.iter().filter_map(|one| Some(one.per_payment(one.bystander?)));
        Self {
            role: stage.role(),
            cpu_ns: stage.each(|one| one.cpu),
            broker_ns: stage.broker().unwrap_or(0.0),
            rate: stage.rate(),
            records: stage.median(|one| one.records_read() as f64 / one.elapsed.as_secs_f64().max(1e-9)),
            bystander_ns: crate::statistics::median(&bystander.collect::<Vec<_>>()).unwrap_or(0.0),
        }
    }
}

/// What limits a prediction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bound {
    /// Processor time of all stages and brokers.
    Processors,
    /// The sequencer, which is one.
    Sequencer,
}

impl Bound {
    /// In words.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Processors => "processor time of all stages and brokers",
            Self::Sequencer => "the sequencer, which is one",
        }
    }
}

/// What is predicted of more machines.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Prediction {
    /// How many machines like this one.
    pub machines: u32,
    /// Payments a second.
    pub rate: f64,
    /// What limits it.
    pub bound: Bound,
    /// Processor time of all for a payment there, in nanoseconds.
    pub cpu_ns: f64,
    /// How busy the one sequencer is: its share of the rate that it reached alone.
    pub sequencer: f64,
}

/// What so many machines of `cores` cores would do.
#[must_use]
pub fn predict(costs: &[Cost], machines: u32, cores: usize) -> Prediction {
    let copies = if machines > 1 { REPLICAS } else { 1.0 };
    let others = f64::from(machines.saturating_sub(1));
    let cpu_ns: f64 =
        costs.iter().map(|cost| cost.cpu_ns + cost.broker_ns * copies + cost.bystander_ns * others).sum();
    let spread = f64::from(machines) * cores as f64 * 1e9 / cpu_ns.max(1.0);
    let sequencer = sequencer(costs).map_or(f64::INFINITY, |cost| cost.rate);
    let rate = spread.min(sequencer);
    let bound = if sequencer < spread { Bound::Sequencer } else { Bound::Processors };
    Prediction { machines, rate, bound, cpu_ns, sequencer: rate / sequencer }
}

/// The one that is not split.
#[must_use]
pub fn sequencer(costs: &[Cost]) -> Option<&Cost> {
    costs.iter().find(|cost| cost.role == Role::Sequencer)
}

/// What so many instances of a stage would do together on this one machine: as many times what one does, until the cores are
/// busy with them and the broker.
#[must_use]
pub fn instances(cost: &Cost, instances: u16, cores: usize) -> f64 {
    let busy = cores as f64 * 1e9 / (cost.cpu_ns + cost.broker_ns).max(1.0);
    (f64::from(instances) * cost.rate).min(busy)
}

/// What is assumed, for a reader. `{cores}` stands for the cores of a machine, `{batch}` for the payments of a batch, `{copies}` for [`REPLICAS`].
pub const ASSUMED: &str = "A model, not a measurement: the rate at which either all cores are busy or the sequencer is. Assumed: a payment takes the \
processor time there that it took here, the brokers' for each of {copies} copies where there is more than one machine; machines \
have {cores} cores each; one institution for each machine, each with an approver and an updater that also learn of the \
others' payments (measured, of those whom none concerned); the work spreads evenly; gateways batch {batch} payments as here. \
The sequencer is not split: it does at most what it did here alone, broker beside it. Left out: the network between \
machines, skew, rebalances, clients. So it is the most there can be.";

#[cfg(test)]
mod tests {
    use super::super::alone::tests::alone;
    use super::*;

    fn cost(role: Role, cpu_ns: f64, broker_ns: f64, rate: f64) -> Cost {
        Cost { role, cpu_ns, broker_ns, rate, records: rate / 100.0, bystander_ns: 0.0 }
    }

    #[test]
    fn more_machines_do_more_until_the_sequencer_is_busy() {
        // A payment takes 4 µs, of which 1 µs is the broker's.
        let all = [cost(Role::Scheduler, 2500.0, 800.0, 3e5), cost(Role::Sequencer, 500.0, 200.0, 2e6)];
        let one = predict(&all, 1, 2);
        assert!((one.rate - 500_000.0).abs() < 1.0 && one.bound == Bound::Processors, "{one:?}");
        // With three copies 6 µs on 6 cores: a million a second.
        let three = predict(&all, 3, 2);
        assert!((three.rate - 1e6).abs() < 1.0 && (three.sequencer - 0.5).abs() < 1e-9, "{three:?}");
        let hundred = predict(&all, 100, 2);
        assert!((hundred.rate - 2e6).abs() < 1.0 && hundred.bound == Bound::Sequencer, "{hundred:?}");
        assert!((hundred.sequencer - 1.0).abs() < 1e-9);
    }

    #[test]
    fn each_institution_more_costs_what_it_takes_to_hear_of_the_others() {
        let updater = Cost { bystander_ns: 10.0, ..cost(Role::Updater, 100.0, 0.0, 1e6) };
        assert!((predict(&[updater], 1, 1).cpu_ns - 100.0).abs() < 1e-9);
        assert!((predict(&[updater], 11, 1).cpu_ns - 200.0).abs() < 1e-9);
    }

    #[test]
    fn instances_on_one_machine_share_its_cores() {
        let scheduler = cost(Role::Scheduler, 800.0, 200.0, 700_000.0);
        assert!((instances(&scheduler, 1, 2) - 700_000.0).abs() < 1.0);
        assert!((instances(&scheduler, 2, 2) - 1.4e6).abs() < 1.0);
        assert!((instances(&scheduler, 4, 2) - 2e6).abs() < 1.0);
    }

    #[test]
    fn costs_are_those_that_were_measured() {
        let stage = Repeated { runs: vec![alone(Role::Updater, 2000, 500, 100)] };
        let cost = Cost::of(&stage);
        assert_eq!((cost.cpu_ns, cost.broker_ns, cost.bystander_ns), (500.0, 100.0, 1.0));
        assert!((cost.rate - 500_000.0).abs() < 1.0 && (cost.records - 2000.0).abs() < 1e-6);
    }
}
