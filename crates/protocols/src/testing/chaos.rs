//! Faults drawn from a seed.

use tally_contracts::Name;
use tally_flows::Trouble;
use tally_sim::Rng;

use super::network::LONG;
use super::{Event, Network};

/// How often something goes wrong: in so many of a thousand events.
#[derive(Clone, Copy, Debug)]
pub struct Chaos {
    /// A node crashes and starts again.
    pub crash: u64,
    /// A message arrives twice.
    pub duplicate: u64,
    /// Messages on their way get lost and are sent again.
    pub lose: u64,
    /// Two nodes lose sight of each other, for some events.
    pub cut: u64,
    /// The memory of a node cannot be reached, for some events.
    pub trouble: u64,
    /// Messages overtake each other, of the same sender too.
    pub reorder: bool,
}

impl Chaos {
    /// Nothing goes wrong; only the order of events is drawn.
    pub const NONE: Self = Self { crash: 0, duplicate: 0, lose: 0, cut: 0, trouble: 0, reorder: false };
    /// Everything goes wrong now and then.
    pub const ALL: Self = Self { crash: 15, duplicate: 50, lose: 30, cut: 10, trouble: 10, reorder: true };
}

impl Network {
    /// Lets everything happen that can, in an order drawn from `rng` and with these faults; heals every cut in the end.
    ///
    /// # Panics
    /// It does not come to rest.
    pub fn settle_with(&mut self, rng: &mut Rng, chaos: &Chaos) {
        let names = self.names();
        let mut cuts: Vec<(Name, Name, u64)> = Vec::new();
        let mut troubles: Vec<(Name, u64)> = Vec::new();
        let mut happened = 0_u64;
        loop {
            happened += 1;
            assert!(happened < 1_000_000, "the network does not come to rest");
            self.fault(rng, chaos, &names, &mut cuts, happened);
            self.trouble(rng, chaos, &names, &mut troubles, happened);
            let mut events = self.events();
            if !chaos.reorder {
                keep_order(&mut events);
            }
            if events.is_empty() || self.only_waits_long(&events) {
                if cuts.is_empty() && troubles.is_empty() {
                    return;
                }
                for (who, _) in troubles.drain(..) {
                    self.switch(&who, |switches| switches.trouble = None);
                }
                for (one, other, _) in cuts.drain(..) {
                    self.set_cut(&one, &other, false);
                }
                continue;
            }
            let event = events.swap_remove(rng.index(events.len()));
            if let Event::Deliver { .. } = &event
                && rng.chance(chaos.duplicate, 1000)
            {
                self.happen(&event);
            }
            self.happen(&event);
        }
    }

    fn trouble(
        &mut self,
        rng: &mut Rng,
        chaos: &Chaos,
        names: &[Name],
        troubles: &mut Vec<(Name, u64)>,
        happened: u64,
    ) {
        if rng.chance(chaos.trouble, 1000) {
            let who = names[rng.index(names.len())].clone();
            let trouble = Trouble::Passing("the database cannot be reached".to_owned());
            self.switch(&who, |switches| switches.trouble = Some(trouble));
            troubles.push((who, happened + rng.between(1, 20)));
        }
        for (who, _) in troubles.extract_if(.., |(_, until)| *until <= happened) {
            self.switch(&who, |switches| switches.trouble = None);
        }
    }

    fn only_waits_long(&self, events: &[Event]) -> bool {
        matches!(events, [Event::Wait(until)] if until.since(self.now()) > LONG)
    }

    fn fault(
        &mut self,
        rng: &mut Rng,
        chaos: &Chaos,
        names: &[Name],
        cuts: &mut Vec<(Name, Name, u64)>,
        happened: u64,
    ) {
        if rng.chance(chaos.crash, 1000) {
            self.crash(&names[rng.index(names.len())]);
        }
        let pair =
            |rng: &mut Rng| (names[rng.index(names.len())].clone(), names[rng.index(names.len())].clone());
        if rng.chance(chaos.lose, 1000) {
            let (from, to) = pair(rng);
            self.lose(&from, &to);
        }
        if rng.chance(chaos.cut, 1000) {
            let (one, other) = pair(rng);
            self.set_cut(&one, &other, true);
            cuts.push((one, other, happened + rng.between(1, 60)));
        }
        let healed: Vec<_> = cuts.extract_if(.., |(_, _, until)| *until <= happened).collect();
        for (one, other, _) in healed {
            if !cuts.iter().any(|(a, b, _)| (a, b) == (&one, &other) || (b, a) == (&one, &other)) {
                self.set_cut(&one, &other, false);
            }
        }
    }
}

/// Of the messages of one node to another only the oldest can arrive.
fn keep_order(events: &mut Vec<Event>) {
    let mut last: Option<(Name, Name)> = None;
    events.retain(|event| {
        let Event::Deliver { from, to, .. } = event else { return true };
        let pair = (from.clone(), to.clone());
        let first = last.as_ref() != Some(&pair);
        last = Some(pair);
        first
    });
}
