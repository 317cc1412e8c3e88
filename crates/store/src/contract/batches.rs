use super::vault::{Coin, Random, recorded};
use super::*;
use crate::Mark;

pub(super) const TESTS: &[Test] = &[one_batch_does_what_its_writes_do];

/// A history of writes, each allowed after those before it.
fn history(random: &mut Random, id: &mut u8) -> Vec<Write> {
    let (mut writes, mut running): (Vec<Write>, Vec<u8>) = (Vec::new(), Vec::new());
    let (mut sent, mut acknowledged) = ([0; 2], [0; 2]);
    for n in 0..60 {
        let peer = usize::from(random.byte(2));
        let peer_name = name(["A", "B"][peer]);
        let pick = random.byte(12);
        let flow_of = |random: &mut Random| (!running.is_empty()).then(|| random.pick(&running));
        match (pick, flow_of(random)) {
            (0 | 1, _) | (_, None) => {
                *id += 1;
                running.push(*id);
                writes.push(Write::FlowStarted(flow(*id)));
            }
            (2, Some(flow)) => {
                running.retain(|other| *other != flow);
                writes.push(Write::FlowEnded { flow: [flow; 16], outcome: vec![flow, n], at: at(n.into()) });
            }
            (3, Some(flow)) => {
                writes.push(Write::Steps { flow: [flow; 16], unit: n.into(), entries: vec![n] })
            }
            (4, Some(flow)) => writes.push(Write::Arrival {
                flow: [flow; 16],
                session: [random.byte(2); 16],
                number: n.into(),
                message: vec![n; 2],
            }),
            (5, Some(flow)) => {
                let states = vec![state_ref(random.byte(3), 0), state_ref(random.byte(3), 1)];
                writes.push(Write::Lock { flow: [flow; 16], states });
            }
            (6, Some(flow)) => {
                writes.push(Write::Unlock { flow: [flow; 16], states: vec![state_ref(random.byte(3), 0)] });
            }
            (7, Some(flow)) => {
                let mark = random.pick(&[Mark::Running, Mark::Paused, Mark::Held { reason: n.to_string() }]);
                writes.push(Write::FlowMarked { flow: [flow; 16], mark });
            }
            (8, Some(_)) => {
                sent[peer] += 1;
                writes.push(Write::Send { peer: peer_name, number: sent[peer], message: vec![n] });
            }
            (9, Some(_)) => {
                acknowledged[peer] = sent[peer].max(acknowledged[peer]);
                let up_to = random.below(acknowledged[peer] + 1);
                writes.push(Write::Acknowledged { peer: peer_name, up_to });
            }
            (10, Some(_)) => {
                let queue = [random.byte(2); 16];
                writes.push(Write::Received { peer: peer_name, queue, up_to: random.below(50) });
            }
            _ => {
                *id += 1;
                let input = random.one_in(2).then(|| state_ref(*id - 1, 0));
                let inputs: Vec<StateRef> = input.into_iter().collect();
                writes.push(recorded(*id, random.below(100), &[Coin::new(1, "USD", n.into())], &inputs));
            }
        }
    }
    writes
}

fn one_batch_does_what_its_writes_do(subject: &Subject<'_>) {
    let mut random = Random::new(7);
    let messages =
        |subject: &Subject<'_>, peer| subject.store().outbound(&name(peer), 0, usize::MAX).expect("messages");
    for round in 0..12 {
        let one_by_one = subject.another();
        let together = subject.another();
        let mut id = 0;
        let writes = history(&mut random, &mut id);
        for write in &writes {
            one_by_one.store().apply(std::slice::from_ref(write)).expect("each is allowed");
        }
        for batch in writes.chunks(1 + round * 5) {
            together.apply(batch);
        }
        let own = subject.seen().queues.own;
        let seen =
            |subject: &Subject| Seen { queues: Queues { own, ..subject.seen().queues }, ..subject.seen() };
        assert_eq!(seen(&one_by_one), seen(&together), "{writes:?}");
        for peer in ["A", "B"] {
            assert_eq!(messages(&one_by_one, peer), messages(&together, peer), "{writes:?}");
        }
    }
}
