//! Who is the sequencer: the one that was heard of last. Who stands by hears its records; once they stop for long enough
//! it opens the shard, which fences whoever had it. No group and no clock of another machine has a say in that, and
//! two that open it at once end with one.

use super::process::Membership;
use std::sync::Arc;
use std::time::Duration;
use tally_log::LogError;
use tally_log::cluster::{Cluster, Members, Partition};
use tally_settlement::process::sequence::Silence;
use tally_settlement::process::{Layout, Role};

/// A candidate for the one sequencer of a network.
pub(super) struct Standby {
    cluster: Arc<dyn Cluster>,
    layout: Layout,
    /// None while this process is active.
    silence: Option<Silence>,
    /// After how long a silence it takes over.
    after: Duration,
}

impl Standby {
    pub(super) fn new(cluster: Arc<dyn Cluster>, layout: Layout, after: Duration) -> Result<Self, LogError> {
        let silence = Some(Silence::watch(&*cluster, &layout)?);
        Ok(Self { cluster, layout, silence, after })
    }
}

impl Members for Standby {
    fn poll(&mut self, limit: Duration) -> Result<Option<Vec<Partition>>, LogError> {
        let Some(silence) = &mut self.silence else {
            std::thread::sleep(limit);
            return Ok(None);
        };
        match silence.wait(limit) {
            Ok(silent) if silent >= self.after => {
                self.silence = None;
                let topics = self.layout.shards_of(Role::Sequencer, &[]);
                Ok(Some(topics.into_iter().map(|topic| Partition::new(topic, 0)).collect()))
            }
            Ok(_) => Ok(None),
            // A cluster that is away is not a silent sequencer.
            Err(LogError::Stalled { .. } | LogError::Cluster { .. }) => {
                self.silence = Some(Silence::watch(&*self.cluster, &self.layout)?);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }
}

impl Membership for Standby {
    fn lost(&mut self, _shard: u16) -> Result<bool, LogError> {
        self.silence = Some(Silence::watch(&*self.cluster, &self.layout)?);
        Ok(true)
    }
}
