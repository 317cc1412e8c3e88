//! What a session carries on this machine, both ends in one process over loopback:
//! `cargo run --release -p tally-peers --example throughput`. One JSON line for each measurement.

use alloy_primitives::B256;
use bytes::Bytes;
use std::error::Error;
use std::fs;
use std::time::{Duration, Instant};
use tally_peers::{Config, Event, Events, Kinds, Lane, Network, NodeKey, SendError};
use tokio::runtime::{Builder, Runtime};

const VOTE: u8 = 1;
const BULK: u8 = 2;
const ASK: u8 = 3;

struct Pair {
    a: Network,
    b: Network,
    at_b: Events,
    _at_a: Events,
    _runtimes: [Runtime; 2],
}

fn pair() -> Result<Pair, Box<dyn Error>> {
    let kinds = Kinds::new()
        .message(VOTE, "vote", Lane::Urgent, 16 << 20)
        .message(BULK, "bulk", Lane::Bulk, 16 << 20)
        .request(ASK, "ask", Lane::Urgent, 1024, 1024);
    let runtime = || Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let runtimes = [runtime()?, runtime()?];
    let config = |number: u8| -> Result<Config, Box<dyn Error>> {
        let key = NodeKey::new(&[number; 32])?;
        let mut config = Config::new(key, 1, B256::ZERO, kinds.clone(), Box::new(move || u64::from(number)));
        config.listen = Some(([127, 0, 0, 1], 0).into());
        Ok(config)
    };
    let (b, at_b) = Network::start(config(2)?, runtimes[0].handle())?;
    let mut of_a = config(1)?;
    of_a.known.extend(b.enode());
    let (a, at_a) = Network::start(of_a, runtimes[1].handle())?;
    for events in [&at_a, &at_b] {
        if !matches!(events.recv(), Some(Event::Connected { .. })) {
            return Err("the two do not meet".into());
        }
    }
    Ok(Pair { a, b, at_b, _at_a: at_a, _runtimes: runtimes })
}

/// Processor time of this process, user and system.
fn processor() -> Result<Duration, Box<dyn Error>> {
    let stat = fs::read_to_string("/proc/self/stat")?;
    let after = stat.rsplit_once(')').ok_or("no processor time")?.1;
    let fields: Vec<&str> = after.split_whitespace().collect();
    let ticks: u64 = fields[11].parse::<u64>()? + fields[12].parse::<u64>()?;
    Ok(Duration::from_millis(ticks * 10))
}

/// Sends so many messages of a kind, and waits until all have come.
fn carry(pair: &Pair, kind: u8, length: usize, count: u64) -> Result<(), Box<dyn Error>> {
    let payload = Bytes::from(vec![7; length]);
    let to = pair.b.address();
    let (began, used) = (Instant::now(), processor()?);
    std::thread::scope(|scope| -> Result<(), Box<dyn Error>> {
        scope.spawn(|| {
            for _ in 0..count {
                // The bench measures the session, not what the host does when there is no room.
                while let Err(SendError::Full { .. }) = pair.a.send(&to, kind, payload.clone()) {
                    std::thread::yield_now();
                }
                while kind == VOTE && pair.a.peers().first().is_some_and(|peer| peer.urgent_waiting > 4 << 20)
                {
                    std::thread::yield_now();
                }
            }
        });
        for _ in 0..count {
            pair.at_b.recv().ok_or("the network stopped")?;
        }
        Ok(())
    })?;
    let (took, used) = (began.elapsed().as_secs_f64(), (processor()? - used).as_secs_f64());
    let megabytes = count as f64 * length as f64 / 1e6;
    println!(
        "{{\"measurement\":\"carry\",\"kind\":{kind},\"bytes\":{length},\"messages_per_s\":{:.0},\"mb_per_s\":{:.1},\"cpu_ms_per_mb\":{:.2},\"cpu_us_per_message\":{:.2}}}",
        count as f64 / took,
        megabytes / took,
        used * 1e3 / megabytes,
        used * 1e6 / count as f64
    );
    Ok(())
}

/// The time of a small urgent request and its answer, alone or while bulk is sent as fast as it goes.
fn latency(pair: &Pair, saturated: bool, count: usize) -> Result<(), Box<dyn Error>> {
    let stop = std::sync::atomic::AtomicBool::new(false);
    let to = pair.b.address();
    let mut times = Vec::with_capacity(count);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while let Some(event) = pair.at_b.recv() {
                match event {
                    Event::Request { respond, .. } => drop(respond.send(Bytes::new())),
                    Event::Message { kind: VOTE, .. } => break,
                    _ => {}
                }
            }
        });
        let bulk = scope.spawn(|| {
            let block = Bytes::from(vec![7; 4 << 20]);
            while saturated && !stop.load(std::sync::atomic::Ordering::Relaxed) {
                if pair.a.send(&to, BULK, block.clone()).is_err() {
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
        });
        for _ in 0..count {
            let began = Instant::now();
            drop(pair.a.request(&to, ASK, Bytes::from_static(&[1; 200]), Duration::from_secs(60)).wait());
            times.push(began.elapsed());
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        drop(bulk.join());
        drop(pair.a.send(&to, VOTE, Bytes::new()));
    });
    times.sort();
    let at = |share: f64| times[((count - 1) as f64 * share) as usize].as_micros();
    println!(
        "{{\"measurement\":\"urgent_round_trip\",\"bulk_saturated\":{saturated},\"p50_us\":{},\"p99_us\":{},\"max_us\":{}}}",
        at(0.5),
        at(0.99),
        at(1.0)
    );
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let pair = pair()?;
    carry(&pair, VOTE, 200, 300_000)?;
    carry(&pair, BULK, 200, 500_000)?;
    carry(&pair, BULK, 64 << 10, 20_000)?;
    carry(&pair, BULK, 4 << 20, 400)?;
    latency(&pair, false, 2000)?;
    latency(&pair, true, 2000)?;
    pair.a.stop_and_wait();
    pair.b.stop_and_wait();
    Ok(())
}
