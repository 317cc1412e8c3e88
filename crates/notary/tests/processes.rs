//! Four members as processes over sockets: one lies with its own key all the time, and any of them
//! is killed with SIGKILL at random. `TALLY_HOSTILE_S` says for how many seconds.
//!
//! The sockets are of this test: they authenticate nobody. This file runs itself as the members.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "processes/client.rs"]
mod client;
#[path = "processes/liar.rs"]
mod liar;
#[path = "processes/member.rs"]
mod member;
#[path = "processes/wire.rs"]
mod wire;

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tally_sim::Rng;

const MEMBERS: usize = 4;
/// The one that lies.
const LIAR: usize = 3;

/// Not a test of its own: what runs as a member.
#[test]
fn runs_as_a_member() {
    if let (Ok(node), Ok(directory)) = (std::env::var("TALLY_MEMBER"), std::env::var("TALLY_DIRECTORY")) {
        member::run(node.parse().unwrap(), Path::new(&directory));
    }
}

fn start(node: usize, directory: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "runs_as_a_member", "--nocapture", "--test-threads", "1"])
        .env("TALLY_MEMBER", node.to_string())
        .env("TALLY_DIRECTORY", directory)
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

/// Ends the members whatever happens to the test.
struct Members(Vec<Option<Child>>);

impl Members {
    fn kill(&mut self, node: usize) {
        if let Some(mut child) = self.0[node].take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }
}

impl Drop for Members {
    fn drop(&mut self) {
        (0..self.0.len()).for_each(|node| self.kill(node));
    }
}

#[test]
fn members_that_are_killed_and_one_that_lies_cost_no_client_an_answer_and_no_state_is_consumed_twice() {
    let seconds = std::env::var("TALLY_HOSTILE_S").ok().and_then(|value| value.parse().ok()).unwrap_or(15);
    let directory = tempfile::tempdir().unwrap();
    let mut members = Members((0..MEMBERS).map(|node| Some(start(node, directory.path()))).collect());
    let client = client::start(directory.path());
    let mut rng = Rng::new(seconds);
    let begun = Instant::now();
    let mut kills = 0;
    while begun.elapsed() < Duration::from_secs(seconds) {
        std::thread::sleep(Duration::from_millis(rng.between(300, 3_000)));
        let node = rng.index(MEMBERS);
        members.kill(node);
        kills += 1;
        std::thread::sleep(Duration::from_millis(rng.between(1, 1_500)));
        members.0[node] = Some(start(node, directory.path()));
    }
    let report = client.finish();
    for (node, member) in members.0.iter_mut().enumerate() {
        let ended = member.as_mut().unwrap().try_wait().unwrap();
        assert!(ended.is_none(), "member {node} ended by itself: {ended:?}");
    }
    println!("{kills} kills in {seconds} s: {report:?}");
    assert!(kills > 0 && report.committed > 20 && report.refused > 20, "{report:?}");
}
