//! A line between two nodes that may be cut at any byte.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use tally_sim::Rng;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

pub struct Line {
    pub address: SocketAddr,
    pub cuts: Arc<AtomicUsize>,
    /// Pieces that came back from the far end.
    pub answers: watch::Receiver<usize>,
}

impl Line {
    /// Forwards to `target`. The first `cuts` connections are cut after a random number of bytes below `reach`
    /// in both directions together; the others are left alone.
    pub async fn new(target: SocketAddr, seed: u64, cuts: usize, reach: u64) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let done = Arc::new(AtomicUsize::new(0));
        let (answered, answers) = watch::channel(0);
        let (counter, rng) = (Arc::clone(&done), Mutex::new(Rng::new(seed)));
        tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                let budget =
                    if counter.load(Relaxed) < cuts { rng.lock().unwrap().below(reach) } else { u64::MAX };
                tokio::spawn(forward(near, target, budget, Arc::clone(&counter), answered.clone()));
            }
        });
        Self { address, cuts: done, answers }
    }
}

async fn forward(
    near: TcpStream,
    target: SocketAddr,
    budget: u64,
    cuts: Arc<AtomicUsize>,
    answered: watch::Sender<usize>,
) {
    let Ok(far) = TcpStream::connect(target).await else { return };
    let (near_read, near_write) = near.into_split();
    let (far_read, far_write) = far.into_split();
    let budget = AtomicU64::new(budget);
    let answer = || answered.send_modify(|count| *count += 1);
    // Neither direction waits for the other; the end of one ends both.
    let cut = tokio::select! {
        cut = pass(near_read, far_write, &budget, || ()) => cut,
        cut = pass(far_read, near_write, &budget, answer) => cut,
    };
    if cut {
        cuts.fetch_add(1, Relaxed);
    }
}

/// Passes bytes on until the budget is used up (`true`) or an end closes.
async fn pass(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, budget: &AtomicU64, seen: impl Fn()) -> bool {
    let mut bytes = vec![0; 16 << 10];
    loop {
        let Ok(count @ 1..) = from.read(&mut bytes).await else { return false };
        seen();
        let left = budget.load(Relaxed);
        let passed = usize::try_from(left).unwrap_or(usize::MAX).min(count);
        budget.store(left - passed as u64, Relaxed);
        let written = to.write_all(&bytes[..passed]).await;
        if passed < count {
            return true;
        }
        if written.is_err() {
            return false;
        }
    }
}
