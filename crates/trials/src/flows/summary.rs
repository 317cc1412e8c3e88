//! What runs came to.

use std::collections::BTreeMap;

/// What a run came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Its seed.
    pub seed: u64,
    /// Hash over everything that happened: equal for two runs of one seed.
    pub trace: u64,
    /// Things that happened.
    pub events: u64,
    /// Times that a node's process was started.
    pub lives: u64,
    /// Flows that users started.
    pub orders: u64,
    /// Of these, carried out.
    pub done: u64,
    /// Times that users asked again for what had begun.
    pub repeats: u64,
    /// Final transactions.
    pub transactions: u64,
    /// Flows that lost a race for a coin at the notary.
    pub races: u64,
    /// Flows that a person killed.
    pub kills: u64,
    /// Whole transactions, parts of transactions, and traces of either that nodes received.
    pub seen: [u64; 3],
    /// Failures told, by kind.
    pub failures: BTreeMap<&'static str, u64>,
}

/// What many runs came to.
#[derive(Clone, Debug, Default)]
pub struct Total {
    runs: u64,
    sum: [u64; 10],
    failures: BTreeMap<&'static str, u64>,
}

impl Total {
    /// One more.
    pub fn add(&mut self, summary: &Summary) {
        let Summary { events, lives, orders, done, repeats, transactions, races, kills, .. } = summary;
        let [_, parts, traces] = summary.seen;
        let all = [*events, *lives, *orders, *done, *repeats, *transactions, *races, *kills, parts, traces];
        self.runs += 1;
        for (sum, one) in self.sum.iter_mut().zip(all) {
            *sum += one;
        }
        for (kind, count) in &summary.failures {
            *self.failures.entry(kind).or_default() += count;
        }
    }

    /// A run with good nodes, and one with liars.
    pub fn add_both(&mut self, summaries: &[Summary; 2]) {
        summaries.iter().for_each(|summary| self.add(summary));
    }

    /// Races for a coin that were lost at a notary, kills, tear-offs received, traces found where they may be.
    pub fn evidence(&self) -> [u64; 4] {
        let [_, _, _, _, _, _, races, kills, parts, traces] = self.sum;
        [races, kills, parts, traces]
    }

    /// Failures of a kind that users were told.
    pub fn failures(&self, kind: &str) -> u64 {
        self.failures.get(kind).copied().unwrap_or_default()
    }
}

impl std::fmt::Display for Total {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [events, lives, orders, done, repeats, transactions, races, kills, parts, traces] = self.sum;
        write!(
            f,
            "{orders} flows asked for, {done} carried out, {repeats} asked for again, {transactions} transactions, \
             {races} races lost, {kills} kills, {lives} lives, {events} events, {parts} tear-offs, {traces} traces"
        )?;
        for (kind, count) in &self.failures {
            write!(f, ", {count} {kind}")?;
        }
        Ok(())
    }
}
