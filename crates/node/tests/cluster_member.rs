//! Members of a clustered notary, run by nodes: over TLS with the network's certificates.

mod cluster_world;

use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use cluster_world::wire::{ANSWER, HEARTBEAT, Line, MESSAGE, REQUEST, accept, frame, hello};
use cluster_world::{MEMBERS, PANIC, STRANGER, World, name, request};
use tally_contracts::{Scheme, SigningKey, TransactionId, encode};
use tally_crypto::Hash;
use tally_node::{ClusterError, CustodyError, Decision, Undecided};
use tally_notary::{Answer, Message, Outcome, Rejection, TransactionForm};

#[test]
fn four_members_commit_refuse_and_remember_after_a_start_of_all() {
    let mut world = World::with(0..MEMBERS);
    // Many at once, of all members.
    let asked: Vec<_> = (0..40_u8)
        .map(|n| {
            let of = usize::from(n) % MEMBERS;
            (n, world.submit(of, request(of, n, u32::from(n))))
        })
        .collect();
    for (n, decision) in asked {
        world.is_committed(&decision.recv_timeout(cluster_world::PATIENCE).expect("a decision"), n);
    }
    let refused = world.conflicts(1, 100, 7, 7);
    assert!(refused.len() > world.cluster.faulty());
    // An equal request that is under way is joined, and each is told.
    let twice = [0, 0].map(|of| world.submit(of, request(of, 101, 101)));
    for decision in twice {
        world.is_committed(&decision.recv_timeout(cluster_world::PATIENCE).expect("a decision"), 101);
        assert!(decision.recv().is_err(), "once");
    }
    // What members do not take.
    assert_eq!(world.decide(0, request(1, 102, 102)), Decision::Rejected(Rejection::Requester));
    let mut unfounded = request(0, 102, 102);
    unfounded.evidence.push(0);
    let found = world.decide(0, unfounded);
    assert!(matches!(found, Decision::Rejected(Rejection::Unfounded(_))), "{found:?}");
    let mut large = request(0, 102, 102);
    large.evidence = vec![0; (1 << 20) + 1];
    assert_eq!(world.decide(0, large), Decision::Rejected(Rejection::TooLarge));

    world.connected(0, 3);
    let figures = world.member(0).figures();
    assert!(figures.height > 0 && figures.connected_members == 3 && figures.other_members == 3);
    assert_eq!((figures.blames, figures.faulty_links, figures.strangers), (0, 0, 0));
    assert_eq!((figures.requests_under_way, figures.failed), (0, false));

    (0..MEMBERS).for_each(|index| world.stop(index));
    (0..MEMBERS).for_each(|index| world.start(index));
    world.commits(2, 7, 7);
    assert!(world.member(2).figures().height >= figures.height, "from its folder");
    world.conflicts(3, 100, 7, 7);
    world.conflicts(3, 103, 39, 39);
}

#[test]
fn one_that_is_dead_or_silent_costs_no_answer_and_one_comes_back_from_its_folder() {
    // The last one's address takes connections, and nobody answers.
    let mut world = World::new();
    let silent = TcpListener::bind(("127.0.0.1", world.ports[3])).expect("a listener");
    (0..3).for_each(|index| world.start(index));
    (0..10).for_each(|n| world.commits(usize::from(n) % 3, n, n.into()));
    drop(silent);
    world.start(3);
    world.connected(3, 3);
    (10..20).for_each(|n| world.commits(usize::from(n) % 4, n, n.into()));
    // One ends; the one that was away is needed now, with all that it missed.
    world.members[1] = None;
    (20..30).for_each(|n| world.commits(3, n, n.into()));
    world.conflicts(3, 100, 5, 5);
    world.start(1);
    world.stop(0);
    (30..40).for_each(|n| world.commits(1, n, n.into()));
    world.conflicts(1, 101, 25, 25);
    // Two are away: nothing is decided, and it is said in time.
    world.stop(3);
    let mut section = world.section(2);
    (section.decide_ms, section.ask_again_ms) = (600, 100);
    world.stop(2);
    world.try_start_with(2, &section).expect("it starts");
    let found = world.decide(2, request(2, 102, 102));
    assert!(matches!(found, Decision::Undecided(Undecided::Deadline { .. })), "{found:?}");
    let waits = world.submit(1, request(1, 103, 103));
    world.stop(1);
    assert_eq!(waits.recv(), Ok(Decision::Undecided(Undecided::Stopping)), "told by the end");
}

#[test]
fn strangers_garbage_and_silence_end_their_own_link_and_no_other() {
    let world = World::with(0..3);
    world.connected(0, 2);
    world.runtime.block_on(async {
        // A node of the network that is no member, and one that speaks of something else.
        let mut stranger = Line::open(&world, STRANGER, 0).await;
        stranger.send(&hello(world.cluster.id())).await;
        assert_eq!(stranger.next().await, None, "not even a hello");
        let other = Line::try_open(&world, 3, 0, b"tally-peer/1").await;
        assert!(other.is_err(), "messages of nodes are not for here");
        // A member with other parameters.
        let mut other = Line::open(&world, 3, 0).await;
        other.send(&hello(&Hash::from_bytes([1; 32]))).await;
        assert_eq!(other.next().await.map(|(kind, _)| kind), Some(cluster_world::wire::HELLO));
        other.closed().await;
        // A member that says what none does.
        let too_large = [&(64_u32 << 20).to_le_bytes()[..], &[MESSAGE]].concat();
        for garbage in [
            frame(99, &[]),
            vec![0; 64],
            too_large,
            frame(REQUEST, &[1; 40]),
            frame(HEARTBEAT, &[1]),
            frame(MESSAGE, &[0xff; 40]),
            hello(world.cluster.id()),
        ] {
            let mut line = Line::greeted(&world, 3, 0).await;
            line.send(&garbage).await;
            line.closed().await;
        }
        // One that says nothing.
        let mut line = Line::greeted(&world, 3, 0).await;
        let since = Instant::now();
        line.closed().await;
        assert!(since.elapsed() > Duration::from_millis(1_000), "it had its time");
    });
    world.connected(0, 2);
    let figures = world.member(0).figures();
    assert_eq!((figures.strangers, figures.failed), (1, false));
    assert!(figures.faulty_links >= 7, "{figures:?}");
    world.commits(0, 1, 1);
    // Once it does what is right, it is let in again.
    let mut world = world;
    world.start(3);
    world.connected(0, 3);
    world.connected(3, 3);
    world.commits(3, 2, 2);
}

#[test]
fn who_answers_at_a_members_address_has_its_certificate_and_lives_and_is_not_revoked() {
    let mut world = World::with(0..1);
    let address = ("127.0.0.1", world.ports[3]);
    world.runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind(address).await.expect("a listener");
        for _ in 0..3 {
            assert!(accept(&world, STRANGER, &listener).await.is_none(), "another's certificate");
        }
        assert_eq!(world.member(0).figures().connected_members, 0);
        // The member itself, which then says nothing more.
        let _held = loop {
            if let Some(held) = accept(&world, 3, &listener).await {
                break held;
            }
        };
        tokio::task::block_in_place(|| {
            world.connected(0, 1);
            world.connected(0, 0);
        });
    });
    (1..MEMBERS).for_each(|index| world.start(index));
    (0..MEMBERS).for_each(|index| world.connected(index, 3));
    world.revoke(3, 0);
    // The links in both directions end, and are not made again.
    world.connected(0, 2);
    world.connected(3, 2);
    world.commits(0, 1, 1);
    world.commits(3, 2, 2);
    assert_eq!(world.member(0).figures().connected_members, 2);
}

#[test]
fn a_member_that_floods_costs_the_others_no_answer() {
    let world = Arc::new(World::with(0..3));
    let ended = Arc::new(AtomicBool::new(false));
    let liar = SigningKey::from_secret(Scheme::Ed25519, &[7; 32]).expect("a key");
    let committed = Answer { transaction: TransactionId::from_bytes([1; 32]), outcome: Outcome::Committed };
    let forged = TransactionForm.sign(&world.cluster, &liar, committed);
    let large = Message::Round { code: 0x12, bytes: vec![0; 1 << 20] }.to_bytes();
    let all: Vec<Vec<u8>> = vec![
        frame(MESSAGE, &Message::Fetch { from: 1 }.to_bytes()).repeat(200),
        frame(MESSAGE, &large),
        frame(REQUEST, &encode(&(1_u64, request(3, 200, 200)))).repeat(200),
        frame(REQUEST, &encode(&(1_u64, request(0, 200, 200)))).repeat(200),
        frame(ANSWER, &encode(&(1_u64, forged))).repeat(200),
    ];
    let runtime = world.runtime.handle().clone();
    let floods: Vec<_> = all
        .into_iter()
        .enumerate()
        .map(|(n, bytes)| {
            let (world, ended, to) = (Arc::clone(&world), Arc::clone(&ended), n % 3);
            let flood = async move {
                while !ended.load(Ordering::Relaxed) {
                    let mut line = Line::greeted(&world, 3, to).await;
                    while !ended.load(Ordering::Relaxed) && line.send(&bytes).await {}
                }
            };
            runtime.spawn(flood)
        })
        .collect();
    for n in 0..20 {
        world.commits(usize::from(n) % 3, n, n.into());
    }
    world.conflicts(1, 100, 5, 5);
    ended.store(true, Ordering::Relaxed);
    world.runtime.block_on(async {
        for flood in floods {
            flood.await.expect("it ends");
        }
    });
    for index in 0..3 {
        world.connected(index, 2);
        assert_eq!(world.member(index).failure(), None);
    }
}

#[test]
fn what_does_not_belong_together_does_not_start_and_an_end_of_its_own_is_reported() {
    let mut world = World::new();
    world.panics = true;
    (0..MEMBERS).for_each(|index| world.start(index));
    world.commits(0, 1, 1);
    assert_eq!(world.member(0).failure(), None);
    // The judge of the first member panics. The others say why they do not take the request.
    let mut bad = request(0, 2, 2);
    bad.evidence = PANIC.to_vec();
    let found = world.decide(0, bad);
    assert!(matches!(found, Decision::Rejected(Rejection::Unfounded(_))), "{found:?}");
    world.until("the failure", |world| world.member(0).failure().is_some());
    assert!(world.member(0).failure().expect("a failure").contains("panicked"));
    assert!(world.member(0).figures().failed);
    // This node still asks the others.
    world.commits(0, 3, 3);
    world.stop(0);

    // The folder is lost, the key is not: it does not vote again.
    std::fs::rename(world.storage(0), world.storage(0).with_extension("lost")).expect("moved away");
    let found = world.try_start(0);
    assert!(matches!(found, Err(ClusterError::Custody(CustodyError::Forgotten { .. }))), "{found:?}");
    std::fs::remove_dir_all(world.storage(0)).expect("the empty folder");
    std::fs::rename(world.storage(0).with_extension("lost"), world.storage(0)).expect("moved back");
    // Two processes with one folder.
    let found = world.try_start(1);
    assert!(matches!(found, Err(ClusterError::Storage(_))), "{found:?}");
    let mut section = world.section(0);
    section.members.remove(&name(3));
    assert!(matches!(world.try_start_with(0, &section), Err(ClusterError::Section(_))));
    section = world.section(0);
    section.listen.set_port(world.ports[1]);
    let found = world.try_start_with(0, &section);
    assert!(matches!(found, Err(ClusterError::Listen { .. })), "{found:?}");
    world.panics = false;
    world.start(0);
    world.commits(0, 3, 3);
    world.conflicts(0, 4, 1, 1);
}
