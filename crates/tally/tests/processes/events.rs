//! Outcomes as server-sent events: who is told what, and what somebody who comes again has missed.

use super::access::grant;
use super::support::{ALICE, Network, PLAN, Pain, Running};
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};
use tally_gateway::wire::{OutcomeView, Status};

/// A stream of events.
struct Events(BufReader<TcpStream>);

impl Events {
    /// Asks for events; or the status line of another answer.
    fn ask(running: &Running<'_>, token: &str, query: &str, headers: &str) -> Result<Self, String> {
        let mut stream = TcpStream::connect(running.address()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        let request = format!(
            "GET /v1/events{query} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\n{headers}\r\n"
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut events = Self(BufReader::new(stream));
        let status = events.line().unwrap();
        if !status.contains(" 200 ") {
            return Err(status);
        }
        while events.line().is_some_and(|line| !line.is_empty()) {}
        Ok(events)
    }

    fn open(running: &Running<'_>, token: &str, headers: &str) -> Self {
        Self::ask(running, token, "", headers).unwrap_or_else(|status| panic!("{status}"))
    }

    /// The next line; none where the stream ends.
    fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        let read = self.0.read_line(&mut line).unwrap();
        (read > 0).then(|| line.trim_end().to_owned())
    }

    /// The next event: its id and its data.
    fn next(&mut self) -> Option<(u64, OutcomeView)> {
        let mut id = None;
        loop {
            let line = self.line()?;
            if let Some(number) = line.strip_prefix("id: ") {
                id = Some(number.parse().unwrap());
            } else if let Some(data) = line.strip_prefix("data: ") {
                return Some((id.unwrap(), serde_json::from_str(data).unwrap()));
            }
        }
    }
}

#[test]
fn outcomes_are_told_to_those_whom_they_concern_and_nobody_misses_any() {
    let network = Network::of(PLAN);
    let running = network.run();
    let files = tempfile::tempdir().unwrap();
    let user = |name: &str, institution: &str| {
        grant(&running, &[name, "--institution", institution, "--roles", "read"])
    };
    let (alpha, other) = (user("alpha", "ALPHDEFF"), user("other", "EMONNL2A"));
    let mut own = Events::open(&running, &alpha, "");
    let mut others = Events::open(&running, &other, "");
    let pay = |id: &'static str, amount: &'static str| {
        running.pay(&[&Pain { id, amount, ..Pain::default() }.write(&files)]).answers()
    };
    assert_eq!(pay("one", "10.00"), ["ACSC -"]);
    let (first, told) = own.next().unwrap();
    assert_eq!((told.status, told.sequence), (Status::Settled, Some(first)));
    let asked = running.client_of(&alpha).status(&told.uetr).unwrap();
    assert_eq!(asked, told);
    drop(own);

    // Paid while nobody listened.
    assert_eq!(pay("two", "1.00"), ["ACSC -"]);
    assert_eq!(pay("three", "99999.00"), ["RJCT AM02"]);
    assert_eq!(pay("four", "5000.00"), ["RJCT AM04"]);
    let mut again = Events::open(&running, &alpha, &format!("last-event-id: {first}\r\n"));
    let (second, told) = again.next().unwrap();
    assert!(second > first && told.status == Status::Settled, "{told:?}");
    let (third, told) = again.next().unwrap();
    assert_eq!((third > second, told.reason.unwrap().code.as_str()), (true, "AM02"));
    let (fourth, told) = again.next().unwrap();
    assert_eq!((fourth > third, told.reason.unwrap().code.as_str()), (true, "AM04"));
    let query = format!("?from={}", second + 1);
    let mut asked = Events::ask(&running, &alpha, &query, "").unwrap_or_else(|status| panic!("{status}"));
    assert_eq!(asked.next().unwrap().0, third);

    // From the beginning: everything that is the user's, in order, with the opening of the accounts.
    let opened = running.command(&["account", "freeze", "ALPHDEFF", ALICE]);
    assert_eq!(opened.code, Some(0), "{opened:?}");
    let end = again.next().unwrap().0;
    let mut all = Events::ask(&running, &alpha, "?from=0", "").unwrap_or_else(|status| panic!("{status}"));
    let mut before = None;
    while before != Some(end) {
        let (id, told) = all.next().unwrap();
        assert!(
            before.is_none_or(|before| before < id) && told.sequence == Some(id),
            "{told:?} after {before:?}"
        );
        before = Some(id);
    }

    // Nobody else was told of any of it.
    let opened = running.command(&["account", "open", "EMONNL2A", "wallet-9", "EUR"]);
    assert_eq!(opened.code, Some(0), "{opened:?}");
    assert!(others.next().unwrap().0 > end);

    for (query, headers) in [("?from=x", ""), ("?after=1", ""), ("", "last-event-id: -1\r\n")] {
        let status = Events::ask(&running, &alpha, query, headers).err().unwrap();
        assert!(status.contains(" 400 "), "{query} {headers}: {status}");
    }
    assert!(Events::ask(&running, "tally_00", "", "").err().unwrap().contains(" 401 "));
    let held: Vec<_> = (0..64).map(|_| Events::ask(&running, &other, "", "")).collect();
    assert!(held.iter().flat_map(|one| one.as_ref().err()).all(|status| status.contains(" 429 ")));
    let places = held.iter().filter(|one| one.is_ok()).count();
    assert!((1..64).contains(&places), "{places}");
    assert_eq!(pay("five", "1.00"), ["RJCT AC06"], "the account is frozen, and payments are answered");

    // A user who may no more is told nothing more.
    assert_eq!(running.command(&["access", "revoke", "alpha"]).code, Some(0));
    let began = Instant::now();
    while all.line().is_some() {
        assert!(began.elapsed() < Duration::from_secs(20), "a revoked user is told on");
    }
    assert_eq!(running.stop().code, Some(0), "streams do not keep a network from stopping");
}
