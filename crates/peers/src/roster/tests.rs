use super::*;
use crate::key::NodeKey;

fn enode(number: u8, port: u16) -> Enode {
    let id = NodeKey::new(&[number; 32]).unwrap().id();
    Enode::new(id, ([127, 0, 0, 1], port).into())
}

#[test]
fn a_peer_is_tried_less_and_less_often_but_often_enough() {
    let mut now = Instant::now();
    let mut roster = Roster::new(Backoff::default());
    let peer = enode(1, 1);
    assert!(roster.add(peer.clone(), false, now));
    assert!(!roster.add(peer.clone(), false, now));
    let mut waits = Vec::new();
    for _ in 0..8 {
        assert_eq!(roster.due(now), std::slice::from_ref(&peer));
        assert!(roster.due(now).is_empty(), "under way");
        roster.failed(&peer.id, Duration::ZERO, "refused".to_owned(), 0, now);
        let next = roster.next_due().unwrap();
        assert!(roster.due(next - Duration::from_millis(1)).is_empty());
        waits.push((next - now).as_millis());
        now = next;
    }
    assert_eq!(waits, [125, 250, 500, 1000, 2000, 4000, 4000, 4000], "half of the full time, without luck");
    assert_eq!(roster.entries().next().unwrap().2, Some("refused"));
    roster.due(now);
    roster.connected(&peer.id);
    assert_eq!((roster.next_due(), roster.entries().next().unwrap().1), (None, true));
    roster.disconnected(&peer.id, Duration::from_secs(60), 0, now);
    assert_eq!(roster.next_due(), Some(now + Duration::from_millis(125)), "it was a good session");
}

#[test]
fn randomness_spreads_attempts() {
    let backoff = Backoff::default();
    let waits: Vec<_> = (0..100).map(|n| backoff.wait(6, n * 77_777_777_777)).collect();
    assert!(waits.iter().all(|wait| (4000..8000).contains(&wait.as_millis())), "{waits:?}");
    assert!(waits.iter().max().unwrap().as_millis() > waits.iter().min().unwrap().as_millis() + 2000);
    assert!(backoff.wait(u32::MAX, u64::MAX) <= backoff.longest);
}

#[test]
fn a_refusal_with_a_time_is_kept_to() {
    let now = Instant::now();
    let mut roster = Roster::new(Backoff::default());
    let peer = enode(1, 1);
    roster.add(peer.clone(), false, now);
    roster.due(now);
    roster.failed(&peer.id, Duration::from_secs(30), "exile".to_owned(), 0, now);
    assert_eq!(roster.next_due(), Some(now + Duration::from_secs(30)));
    roster.retry_all(now);
    assert_eq!(roster.next_due(), Some(now));
    roster.due(now);
    roster.failed(&peer.id, Duration::from_secs(30), "exile".to_owned(), 0, now);
    let moved = enode(1, 2);
    assert!(!roster.add(moved.clone(), false, now));
    assert_eq!(roster.due(now), [moved], "another address is tried at once");
    assert!(roster.remove(&peer.id) && !roster.remove(&peer.id));
    roster.failed(&peer.id, Duration::ZERO, String::new(), 0, now);
    assert_eq!(roster.next_due(), None);
}
