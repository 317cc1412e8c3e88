//! A process that is killed while it takes the state.

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tally_peers::Enode;
use tally_state::{Database, History, StoreOptions};

use crate::peers::Proxy;
use crate::world::{FAST, LEAD, World, wait_until};
use crate::{assert_same, assert_same_state};

const DIRECTORY: &str = "TALLY_FAST_SYNC_KILL_DIRECTORY";
const PEER: &str = "TALLY_FAST_SYNC_KILL_PEER";
const BLOCKS: u64 = LEAD + 30;

fn store(directory: &std::path::Path) -> Database {
    // Small, so that files are written and merged all the time.
    let options = StoreOptions { write_buffer_bytes: 64 << 10, ..StoreOptions::default() };
    Database::open(directory, options).unwrap()
}

/// Runs in a process of its own, until it is killed.
#[test]
#[ignore = "started by the other test"]
fn taker() {
    let directory = std::env::var(DIRECTORY).unwrap();
    let peer: Enode = std::env::var(PEER).unwrap().parse().unwrap();
    let world = World::new(0);
    let node = world.start_node(3, store(directory.as_ref()), &[peer], FAST);
    loop {
        std::thread::sleep(Duration::from_secs(1));
        assert!(node.network().is_some());
    }
}

#[test]
fn a_node_that_is_killed_at_any_moment_goes_on_and_is_whole_or_at_its_old_head() {
    let world = World::new(BLOCKS);
    let source = world.start_validator();
    let directory = tempfile::tempdir().unwrap();
    // So many requests are answered before the next kill.
    let allowed = Arc::new(AtomicU64::new(0));
    let left = Arc::clone(&allowed);
    let peer = Proxy::start(&world, 20, &source, move |_, answer| {
        let take = |left: u64| left.checked_sub(1);
        left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, take).ok().map(|_| answer.to_vec())
    });
    let mut whole = 0;
    let mut halves = 0;
    for round in 0..48_u64 {
        // Few at first, so that each step is interrupted, and more only slowly: all together are some forty, and what was under
        // way at a kill is asked for again. A round without a bound lets the last steps be.
        let few = round < 36;
        allowed.store(if few { 1 + round / 3 } else { u64::MAX }, Ordering::SeqCst);
        let mut taker = Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "kill::taker"])
            .env(DIRECTORY, directory.path())
            .env(PEER, peer.enode().to_string())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        if few {
            wait_until("all that is allowed is taken", || allowed.load(Ordering::SeqCst) == 0);
        } else {
            let before = peer.asked();
            wait_until("it asks", || peer.asked() > before || !peer.is_idle());
        }
        // Somewhere in what comes of the last answer.
        std::thread::sleep(Duration::from_millis(3 * (round % 12)));
        taker.kill().unwrap();
        taker.wait().unwrap();
        let chain = world.open(store(directory.path()), History::Blocks(512));
        let number = chain.head().number();
        if number == 0 {
            halves += 1;
            assert!(chain.reader().rlp(1).unwrap().is_none(), "a block that is not of the chain yet");
            continue;
        }
        assert!(number > LEAD);
        assert_same(source.chain(), &chain, number);
        assert_same_state(&world, source.chain(), &chain, number);
        whole += 1;
        break;
    }
    assert!(halves >= 10, "{halves} kills left the chain at its old head");
    if whole == 0 {
        let node = world.start_node(3, store(directory.path()), &[peer.enode()], FAST);
        wait_until("what was begun is ended", || node.chain().head().number() > 0);
        let number = node.chain().head().number();
        assert_same(source.chain(), node.chain(), number);
    }
}
