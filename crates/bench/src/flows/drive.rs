//! Driving flows through a node's remote interface, in closed or in open loop.
//!
//! A flow is timed from just before its request (in open loop: from when its request was to be made) to its
//! completed result. Flows go over streams that run many at once, one stream for each connection.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use tally_rpc::{Client, FlowEnds, FlowStarts, Outcome, StartFlow};
use tokio::sync::mpsc;

use super::FlowsError;
use crate::pace::{ClosedLoop, OpenLoop};
use crate::recorder::{Recorder, Throughput};

/// How flows come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Load {
    /// So many a second, whatever the nodes do.
    Open(u64),
    /// So many under way at any time.
    Closed(u64),
}

/// The most flows that a connection carries at once; a node takes no more of one stream.
const PER_CONNECTION: u64 = 1000;
/// How long after the last start the last end may come.
const DRAIN: Duration = Duration::from_secs(120);
/// How long the driver sleeps at most when nothing is to be done.
const IDLE: Duration = Duration::from_secs(1);

/// How flows are driven.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    /// How they come.
    pub load: Load,
    /// Over how many connections.
    pub connections: usize,
    /// How long they run before they are measured.
    pub warm_up: Duration,
    /// How long they are measured.
    pub duration: Duration,
    /// How many there are at most, warm-up included: the run ends earlier when all have been started.
    pub total: Option<u64>,
}

/// What was measured.
#[derive(Debug, Clone, PartialEq)]
pub struct Measured {
    /// Flows completed a second while measured.
    pub rate: f64,
    /// From just before the request to the completed result, of flows that were started while measured.
    pub latency: Recorder,
    /// Flows completed a second, interval by interval, warm-up and end included.
    pub series: Vec<f64>,
    /// How long such an interval is.
    pub interval: Duration,
    /// Flows completed while measured.
    pub completed: u64,
    /// Flows completed in all.
    pub completed_in_all: u64,
    /// Flows that failed or were refused, in all.
    pub failed: u64,
    /// The first failure.
    pub first_failure: Option<String>,
    /// When measuring began.
    pub from: Instant,
    /// How long it went on.
    pub elapsed: Duration,
}

impl Measured {
    /// The same, if no flow failed.
    ///
    /// # Errors
    /// [`FlowsError::Failed`].
    pub fn all_well(self) -> Result<Self, FlowsError> {
        match &self.first_failure {
            None => Ok(self),
            Some(first) => Err(FlowsError::Failed {
                failed: self.failed,
                all: self.failed + self.completed_in_all,
                first: first.clone(),
            }),
        }
    }
}

/// A flow that ended, or the end of a stream.
enum News {
    Ended { number: u64, at: Duration, failure: Option<String> },
    StreamEnded(Result<(), tally_rpc::ClientError>),
}

enum Pace {
    Open(OpenLoop),
    Closed(ClosedLoop),
}

impl Pace {
    fn new(run: &Run) -> Result<Self, FlowsError> {
        Ok(match run.load {
            Load::Open(rate) => Self::Open(OpenLoop::new(rate, 1, run.total)?),
            Load::Closed(window) => Self::Closed(ClosedLoop::new(window, 1, run.total)?),
        })
    }

    fn take(&mut self, elapsed: Duration) -> Option<crate::pace::Due> {
        match self {
            Self::Open(pace) => pace.take(elapsed),
            Self::Closed(pace) => pace.take(elapsed),
        }
    }

    /// When the next is due; `None` when that depends on others' ends, or none is left.
    fn next_at(&self) -> Option<Duration> {
        match self {
            Self::Open(pace) => pace.next_at(),
            Self::Closed(_) => None,
        }
    }
}

/// Drives flows over the connections that the clients stand for; `start` makes the request of each by its number.
///
/// # Errors
/// [`FlowsError`] when a stream breaks or ends are missing. Flows that fail are counted, see [`Measured::all_well`].
pub async fn drive(
    clients: &[Client],
    run: &Run,
    mut start: impl FnMut(u64) -> StartFlow,
) -> Result<Measured, FlowsError> {
    let (tell, mut news) = mpsc::unbounded_channel();
    let window = match run.load {
        Load::Open(_) => PER_CONNECTION,
        Load::Closed(window) => window,
    };
    let fewest = usize::try_from(window.div_ceil(PER_CONNECTION)).unwrap_or(usize::MAX);
    let wanted = run.connections.max(fewest).max(1);
    let mut streams: Vec<FlowStarts> = Vec::with_capacity(wanted);
    let began = Instant::now();
    for index in 0..wanted {
        let client = &clients[index % clients.len().max(1)];
        let (starts, ends) = client.run_flows().await?;
        streams.push(starts);
        tokio::spawn(listen(ends, began, tell.clone()));
    }
    drop(tell);

    // The streams were opened; now time begins.
    let offset = began.elapsed();
    let interval = interval(run.duration);
    let end = run.warm_up + run.duration;
    let mut pace = Pace::new(run)?;
    let mut intended: HashMap<u64, Duration> = HashMap::new();
    let mut tally = Tally::new(interval, run.warm_up);
    let mut last_start = Duration::ZERO;
    let mut exhausted = false;
    loop {
        let elapsed = began.elapsed().saturating_sub(offset);
        if elapsed >= end || exhausted {
            break;
        }
        while let Some(due) = pace.take(elapsed) {
            if due.intended >= end {
                break;
            }
            intended.insert(due.first, due.intended);
            let stream = usize::try_from(due.first).unwrap_or(0) % streams.len();
            // A stream that has ended says why where its ends are read.
            streams[stream].send(due.first, &start(due.first)).await;
            last_start = elapsed;
            if run.total.is_some_and(|total| due.first + 1 >= total) {
                exhausted = true;
                break;
            }
        }
        if exhausted {
            break;
        }
        let until =
            pace.next_at().unwrap_or(end).min(end).saturating_sub(began.elapsed().saturating_sub(offset));
        if let Ok(Some(first)) = tokio::time::timeout(until.min(IDLE), news.recv()).await {
            let mut next = Some(first);
            while let Some(one) = next {
                tally.take(one, offset, &mut intended, &mut pace)?;
                next = news.try_recv().ok();
            }
        }
    }
    // Throughput is that of the time in which flows were started: after it the window empties.
    let stopped = if exhausted { last_start.max(run.warm_up) } else { end };
    drop(streams);
    while !intended.is_empty() {
        let waiting = intended.len();
        let one = tokio::time::timeout(DRAIN, news.recv()).await.ok().flatten().ok_or_else(|| {
            FlowsError::Late { what: format!("{waiting} flows to end"), seconds: DRAIN.as_secs() }
        })?;
        tally.take(one, offset, &mut intended, &mut pace)?;
    }
    Ok(tally.measured(began + offset, stopped))
}

/// Long enough for a few hundred points of a curve, short enough for a run of a second.
fn interval(duration: Duration) -> Duration {
    if duration >= Duration::from_secs(5) { Duration::from_secs(1) } else { Duration::from_millis(100) }
}

async fn listen(mut ends: FlowEnds, began: Instant, tell: mpsc::UnboundedSender<News>) {
    loop {
        let one = match ends.next().await {
            Ok(Some((number, end))) => {
                let failure = match end {
                    Ok(end) => match end.outcome {
                        Outcome::Completed(_) => None,
                        Outcome::Failed(failure) => Some(failure.to_string()),
                        Outcome::Unknown(fate) => Some(format!("unknown: {}", fate.reason)),
                    },
                    Err(error) => Some(error.to_string()),
                };
                News::Ended { number, at: began.elapsed(), failure }
            }
            Ok(None) => News::StreamEnded(Ok(())),
            Err(error) => News::StreamEnded(Err(error)),
        };
        let last = matches!(one, News::StreamEnded(_));
        if tell.send(one).is_err() || last {
            return;
        }
    }
}

/// What has ended so far.
struct Tally {
    warm_up: Duration,
    interval: Duration,
    latency: Recorder,
    throughput: Throughput,
    /// When each flow completed, from the end of the warm-up on: how many by when.
    ends: Vec<Duration>,
    completed_in_all: u64,
    failed: u64,
    first_failure: Option<String>,
}

impl Tally {
    fn new(interval: Duration, warm_up: Duration) -> Self {
        Self {
            warm_up,
            interval,
            latency: Recorder::new(),
            throughput: Throughput::every(interval),
            ends: Vec::new(),
            completed_in_all: 0,
            failed: 0,
            first_failure: None,
        }
    }

    fn take(
        &mut self,
        news: News,
        offset: Duration,
        intended: &mut HashMap<u64, Duration>,
        pace: &mut Pace,
    ) -> Result<(), FlowsError> {
        let (number, at, failure) = match news {
            News::Ended { number, at, failure } => (number, at.saturating_sub(offset), failure),
            News::StreamEnded(Err(error)) => return Err(error.into()),
            News::StreamEnded(Ok(())) => return Ok(()),
        };
        let Some(start) = intended.remove(&number) else {
            return Err(FlowsError::Unexpected(format!("flow {number} ended twice, or was never started")));
        };
        if let Pace::Closed(pace) = pace {
            pace.complete(1);
        }
        match failure {
            None => {
                self.completed_in_all += 1;
                self.throughput.add(at, 1);
                if at >= self.warm_up {
                    self.ends.push(at);
                }
                if start >= self.warm_up {
                    self.latency.record(start, at);
                }
            }
            Some(failure) => {
                self.failed += 1;
                self.first_failure.get_or_insert(failure);
            }
        }
        Ok(())
    }

    fn measured(self, began: Instant, stopped: Duration) -> Measured {
        let elapsed = stopped.saturating_sub(self.warm_up);
        let completed = self.ends.iter().filter(|at| **at <= stopped).count() as u64;
        let rate = if elapsed.is_zero() { 0.0 } else { completed as f64 / elapsed.as_secs_f64() };
        Measured {
            rate,
            latency: self.latency,
            series: self.throughput.rates(stopped),
            interval: self.interval,
            completed,
            completed_in_all: self.completed_in_all,
            failed: self.failed,
            first_failure: self.first_failure,
            from: began + self.warm_up,
            elapsed,
        }
    }
}
