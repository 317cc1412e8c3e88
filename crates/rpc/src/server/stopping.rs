use std::future::Future;
use std::pin::Pin;

use tokio::sync::watch;

use crate::refusal::{Refusal, RefusalCode};

/// Tells everything in a server that it is to stop.
#[derive(Debug)]
pub(super) struct Stop(watch::Sender<bool>);

/// Hears it.
#[derive(Clone, Debug)]
pub(super) struct Stopping(watch::Receiver<bool>);

/// Is done once the server is to stop.
pub(super) type Stopped = Pin<Box<dyn Future<Output = ()> + Send>>;

impl Stop {
    pub(super) fn new() -> Self {
        Self(watch::Sender::new(false))
    }

    pub(super) fn stopping(&self) -> Stopping {
        Stopping(self.0.subscribe())
    }

    pub(super) fn tell(&self) {
        self.0.send_replace(true);
    }
}

impl Stopping {
    pub(super) fn stopped(&self) -> Stopped {
        let mut told = self.0.clone();
        Box::pin(async move {
            // An error says that the server is gone, which is as good.
            let _ = told.wait_for(|stop| *stop).await;
        })
    }
}

pub(super) fn stopping() -> Refusal {
    Refusal::new(RefusalCode::Unavailable, "the node is stopping; ask again when it is back")
}
