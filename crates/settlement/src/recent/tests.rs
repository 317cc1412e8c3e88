use super::*;
use proptest::prelude::*;
use std::collections::HashMap;

fn reference(participant: u16, uetr: u16) -> Reference {
    let mut bytes = [7; 16];
    bytes[..2].copy_from_slice(&uetr.to_le_bytes());
    Reference { participant: ParticipantId(participant), uetr: Uetr(bytes) }
}

/// Offers a reference that expires a second later.
fn offer(recent: &mut Recent, participant: u16, uetr: u16, now: u64) -> Seen {
    let reference = reference(participant, uetr);
    let place = recent.place(&reference);
    recent.insert(place, &reference, 0, 0, Timestamp(now + 1000), Timestamp(now))
}

/// How many of 100 new references of an institution are taken, from number `first` on.
fn taken(recent: &mut Recent, participant: u16, first: u16, now: u64) -> usize {
    (first..first + 100).filter(|uetr| offer(recent, participant, *uetr, now) == Seen::New).count()
}

/// A table with a limit, for so many institutions and a longest validity.
#[derive(Clone, Copy, Debug)]
struct Plan {
    limit: usize,
    institutions: u16,
    longest_validity_s: u64,
}

impl Plan {
    fn recent(self) -> Recent {
        Recent::new(3, self.limit, (usize::from(self.institutions), self.longest_validity_s * 1000), [1, 2])
    }

    /// A second in spans, as they are documented.
    fn span(self, second: u64) -> u64 {
        second / (self.longest_validity_s / 2048 + 1)
    }
}

/// Nothing is forgotten, and everything is counted anew each time.
struct Model {
    plan: Plan,
    /// Every reference, with the batch that used it last and its expiry in seconds.
    used: HashMap<Reference, (u64, u64)>,
    /// Whatever was taken, by institution and expiry, except what was released.
    taken: Vec<(u16, u64)>,
}

impl Model {
    fn known(&self, reference: &Reference, now: u64) -> Option<u64> {
        self.used.get(reference).filter(|(_, expiry)| *expiry >= now).map(|(number, _)| *number)
    }

    fn held(&self, participant: u16, now: u64) -> usize {
        let counts =
            |(of, expiry): &&(u16, u64)| *of == participant && self.plan.span(*expiry) >= self.plan.span(now);
        self.taken.iter().filter(counts).count()
    }

    fn has_room(&self, participant: u16, now: u64) -> bool {
        let Plan { limit, institutions, .. } = self.plan;
        let own = (limit / 2 / usize::from(institutions)).max(1);
        let beyond: usize = (0..institutions).map(|of| self.held(of, now).saturating_sub(own)).sum();
        let common = limit.saturating_sub(own * usize::from(institutions));
        self.held(participant, now) < own || beyond < common
    }

    /// Frees a reference: the batch that used it. What has expired counts as long as it would have.
    fn release(&mut self, reference: &Reference, now: u64) -> Option<u64> {
        let (number, expiry) = self.used.remove(reference)?;
        if expiry >= now {
            let taken = |(of, until): &(u16, u64)| (*of, *until) == (reference.participant.0, expiry);
            let at = self.taken.iter().position(taken).expect("it was counted");
            self.taken.swap_remove(at);
        }
        Some(number)
    }
}

/// What is done with a reference, its validity in seconds, and the time that passes before.
type Step = (u8, u16, u64, u64);

fn follow(plan: Plan, steps: Vec<Step>) -> Result<(), TestCaseError> {
    let mut recent = plan.recent();
    let mut model = Model { plan, used: HashMap::new(), taken: Vec::new() };
    let institutions = plan.institutions;
    let mut now = 1_000u64;
    for (number, (what, uetr, validity, wait)) in (0u64..).zip(steps) {
        now += wait;
        // Few references, each of every institution.
        let participant = uetr % institutions;
        let uetr = reference(participant, uetr / institutions);
        let at = Timestamp(now * 1000);
        let known = model.known(&uetr, now);
        prop_assert_eq!(recent.find(&uetr, at), known.map(|n| (Source::new(3, n), 5)));
        let expiry = now + validity;
        let (place, until) = (recent.place(&uetr), Timestamp(expiry * 1000));
        let seen = match what {
            1 => recent.restore(place, &uetr, number, 5, until, at),
            _ => recent.insert(place, &uetr, number, 5, until, at),
        };
        let wanted = match known {
            Some(used) => Seen::Before(Source::new(3, used), 5),
            None if what == 1 || model.has_room(participant, now) => Seen::New,
            None => Seen::Full,
        };
        prop_assert_eq!(seen, wanted, "step {}", number);
        if seen == Seen::New {
            model.used.insert(uetr, (number, expiry));
            model.taken.push((participant, expiry));
        }
        if what == 0
            && let Some(used) = model.release(&uetr, now)
        {
            recent.release(&uetr, used, 4);
            recent.release(&uetr, used, 5);
            recent.release(&uetr, used, 5);
            prop_assert_eq!(recent.find(&uetr, at), None);
        }
        let held: usize = (0..institutions).map(|of| model.held(of, now)).sum();
        prop_assert_eq!(recent.len(), held, "step {}", number);
    }
    Ok(())
}

proptest! {
    #[test]
    fn agrees_with_a_map(
        steps in prop::collection::vec((0u8..8, 0u16..600, 1u64..20, 0u64..3), 1..1500),
    ) {
        follow(Plan { limit: 1 << 20, institutions: 2, longest_validity_s: 20 }, steps)?;
    }

    /// Expiries lie near, far and beyond the longest validity, as after a restart with a shorter one.
    #[test]
    fn agrees_with_a_map_when_little_is_remembered(
        institutions in 1u16..5,
        limit in 1usize..60,
        longest_validity_s in prop_oneof![Just(20u64), Just(6_000), Just(20_000)],
        steps in prop::collection::vec(
            (0u8..12, 0u16..300, prop_oneof![4 => 0u64..30, 1 => 0u64..40_000], prop_oneof![
                20 => Just(0u64), 4 => 0u64..4, 1 => 0u64..10_000,
            ]),
            1..600,
        ),
    ) {
        follow(Plan { limit, institutions, longest_validity_s }, steps)?;
    }
}

#[test]
fn holds_no_more_than_its_limit_until_what_it_holds_expires() {
    let mut recent = Plan { limit: 10, institutions: 1, longest_validity_s: 1 }.recent();
    for round in 0..3 {
        let now = 1_000 + round * 3_000;
        assert_eq!(taken(&mut recent, 0, 0, now), 10);
        assert_eq!(
            offer(&mut recent, 0, 10, now + 1_000),
            Seen::Full,
            "it is remembered to the end of its second"
        );
        assert!(matches!(offer(&mut recent, 0, 3, now), Seen::Before(..)));
    }
    assert_eq!(offer(&mut recent, 0, 10, 12_000), Seen::New);
}

/// The table is that of a scheduler: an institution that fills it leaves others what is theirs.
#[test]
fn an_institution_that_fills_the_table_leaves_others_their_part() {
    let mut recent = Plan { limit: 60, institutions: 3, longest_validity_s: 1 }.recent();
    for now in [1_000, 4_000, 7_000] {
        assert_eq!(taken(&mut recent, 1, 0, now), 40, "half of all, and a third of the other half");
        assert_eq!(offer(&mut recent, 2, 0, now), Seen::New);
        assert_eq!(taken(&mut recent, 2, 1, now), 9, "what is beyond its own part is taken");
        assert_eq!(taken(&mut recent, 0, 0, now), 10);
        assert_eq!(recent.len(), 60);
    }
    // Two that fill it together leave the third its part as well.
    assert_eq!((taken(&mut recent, 0, 0, 10_000), taken(&mut recent, 1, 0, 10_000)), (40, 10));
    assert_eq!(taken(&mut recent, 2, 0, 10_000), 10);
}
