//! Requests in closed or in open loop over keep-alive connections.
//!
//! In closed loop one thread serves all connections, since every switch between threads would be the generator's cost and
//! not the node's; latency runs from the request to the whole answer. In open loop each connection has a thread that sleeps
//! until the next request is due; latency runs from when it was due.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tally_ops::shutdown::Shutdown;

use super::Method;
use crate::chain::ChainBenchError;
use crate::chain::history::History;
use crate::chain::http::{AsyncClient, Client, result};
use crate::recorder::Recorder;
use crate::statistics::SplitMix;

/// How often a driver looks whether it is to stop.
const LOOK: Duration = Duration::from_millis(50);
/// How long after its end a run may take until the last answer is there.
const DRAIN: Duration = Duration::from_secs(60);
/// A thread that asks needs little.
const STACK_BYTES: usize = 256 << 10;

/// Requests of several methods, made before time begins.
#[derive(Debug)]
pub struct Requests {
    methods: Vec<(Method, Vec<Vec<u8>>)>,
}

impl Requests {
    /// So many different ones of each method.
    #[must_use]
    pub fn new(methods: &[Method], history: &History, each: usize, seed: u64) -> Self {
        let mut random = SplitMix::new(seed);
        let made = methods.iter().map(|method| {
            // All requests for the newest block's number are one.
            let each = if *method == Method::BlockNumber { 1 } else { each.max(1) };
            (*method, (0..each).map(|_| method.request(history, &mut random)).collect())
        });
        Self { methods: made.collect() }
    }

    fn draw(&self, random: &mut SplitMix) -> (Method, &[u8]) {
        let (method, requests) = &self.methods[random.below(self.methods.len())];
        (*method, &requests[random.below(requests.len())])
    }
}

/// When a run is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// Before it is measured.
    pub warm_up: Duration,
    /// While it is measured.
    pub duration: Duration,
}

impl Window {
    fn end(&self) -> Duration {
        self.warm_up + self.duration
    }
}

/// What was seen of the answers.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Answers {
    /// Answers that came while measured.
    pub answered: u64,
    /// Their bytes, without heads.
    pub bytes: u64,
    /// Latency of those that were asked for while measured.
    pub latency: Recorder,
    /// Answers that were errors or nothing, warm-up included.
    pub wrong: u64,
    /// The first of them.
    pub first_wrong: Option<String>,
}

impl Answers {
    fn take(&mut self, method: Method, answer: &[u8], from: Duration, at: Duration, window: Window) {
        if !result(answer).is_some_and(|result| method.accepts(result)) {
            self.wrong += 1;
            self.first_wrong
                .get_or_insert_with(|| ChainBenchError::answer(method.name(), answer).to_string());
            return;
        }
        if at >= window.warm_up && at < window.end() {
            self.answered += 1;
            self.bytes += answer.len() as u64;
        }
        if from >= window.warm_up {
            self.latency.record(from, at);
        }
    }

    fn merge(&mut self, other: Self) {
        self.answered += other.answered;
        self.bytes += other.bytes;
        self.latency.merge(&other.latency);
        self.wrong += other.wrong;
        self.first_wrong = self.first_wrong.take().or(other.first_wrong);
    }

    /// Answers a second while measured.
    #[must_use]
    pub fn rate(&self, window: Window) -> f64 {
        let seconds = window.duration.as_secs_f64();
        if seconds > 0.0 { self.answered as f64 / seconds } else { 0.0 }
    }
}

/// Asks over so many connections, on each as soon as the answer before is there.
///
/// # Errors
/// [`ChainBenchError::Call`] when a connection fails, [`ChainBenchError::Stopped`].
pub fn closed(
    address: SocketAddr,
    requests: &Rc<Requests>,
    connections: usize,
    window: Window,
    seed: u64,
    stop: &Shutdown,
) -> Result<Answers, ChainBenchError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(ChainBenchError::system("cannot start the generator"))?;
    let answers = Rc::new(RefCell::new(Answers::default()));
    let local = tokio::task::LocalSet::new();
    local.block_on(&runtime, async {
        let mut clients = Vec::with_capacity(connections);
        for _ in 0..connections.max(1) {
            clients.push(AsyncClient::connect(address).await.map_err(ChainBenchError::call("the node"))?);
        }
        let start = Instant::now();
        let mut tasks = tokio::task::JoinSet::new();
        for (number, client) in (0_u64..).zip(clients) {
            let random = SplitMix::new(seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
            let (requests, answers) = (Rc::clone(requests), Rc::clone(&answers));
            tasks.spawn_local(ask(client, requests, random, start, window, answers));
        }
        loop {
            match tokio::time::timeout(LOOK, tasks.join_next()).await {
                Ok(None) => return Ok(()),
                Ok(Some(Ok(ended))) => ended.map_err(ChainBenchError::call("the node"))?,
                Ok(Some(Err(panic))) => std::panic::resume_unwind(panic.into_panic()),
                Err(_) if stop.is_requested() => return Err(ChainBenchError::Stopped),
                Err(_) if start.elapsed() > window.end() + DRAIN => {
                    return Err(ChainBenchError::Late {
                        what: "the last answers".into(),
                        seconds: DRAIN.as_secs(),
                    });
                }
                Err(_) => {}
            }
        }
    })?;
    Ok(answers.take())
}

async fn ask(
    mut client: AsyncClient,
    requests: Rc<Requests>,
    mut random: SplitMix,
    start: Instant,
    window: Window,
    answers: Rc<RefCell<Answers>>,
) -> Result<(), crate::chain::http::HttpError> {
    loop {
        let from = start.elapsed();
        if from >= window.end() {
            return Ok(());
        }
        let (method, request) = requests.draw(&mut random);
        let answer = client.ask(request).await?;
        answers.borrow_mut().take(method, answer, from, start.elapsed(), window);
    }
}

/// Asks so many times a second, over so many connections.
///
/// # Errors
/// [`ChainBenchError::Call`] when a connection fails, [`ChainBenchError::Stopped`].
pub fn open(
    address: SocketAddr,
    requests: &Requests,
    (connections, rate): (usize, u64),
    window: Window,
    seed: u64,
    stop: &Shutdown,
) -> Result<Answers, ChainBenchError> {
    let clients: Result<Vec<Client>, _> = (0..connections.max(1)).map(|_| Client::connect(address)).collect();
    let clients = clients.map_err(ChainBenchError::call("the node"))?;
    let next = AtomicU64::new(0);
    let start = Instant::now();
    std::thread::scope(|scope| {
        let mut askers = Vec::with_capacity(clients.len());
        for (number, mut client) in (0_u64..).zip(clients) {
            let next = &next;
            let body = move || {
                let mut random = SplitMix::new(seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
                let mut answers = Answers::default();
                loop {
                    let taken = u128::from(next.fetch_add(1, Ordering::Relaxed));
                    let due = taken * 1_000_000_000 / u128::from(rate.max(1));
                    let due = Duration::from_nanos(u64::try_from(due).unwrap_or(u64::MAX));
                    if due >= window.end() {
                        return Ok(answers);
                    }
                    let (method, request) = requests.draw(&mut random);
                    while let Some(left) = due.checked_sub(start.elapsed()).filter(|left| !left.is_zero()) {
                        std::thread::sleep(left.min(LOOK));
                        if stop.is_requested() {
                            return Err(ChainBenchError::Stopped);
                        }
                    }
                    let answer = client.ask(request).map_err(ChainBenchError::call("the node"))?;
                    answers.take(method, answer, due, start.elapsed(), window);
                }
            };
            let thread = std::thread::Builder::new().stack_size(STACK_BYTES).spawn_scoped(scope, body);
            askers.push(thread.map_err(ChainBenchError::system("there is no thread for a connection"))?);
        }
        let mut answers = Answers::default();
        for asker in askers {
            match asker.join() {
                Ok(part) => answers.merge(part?),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        Ok(answers)
    })
}
