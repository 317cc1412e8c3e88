//! Who is the sequencer: the one that was heard of last. Who stands by hears its records; once they stop for long enough
//! it opens the shard, which fences whoever had it. No group and no clock of another machine has a say in that, and
//! two that open it at once end with one.

use super::layout::{Layout, Role};
use super::sequence::Silence;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tally_log::LogError;
use tally_log::cluster::{Cluster, Members, Partition};

/// A candidate for the one sequencer of a network. As a member it is given the sequencer's shard when it is to open it.
pub struct Standby {
    cluster: Arc<dyn Cluster>,
    layout: Layout,
    /// None while this process is active.
    silence: Option<Silence>,
    /// After how long a silence it takes over.
    after: Duration,
    heard: Instant,
}

impl Standby {
    /// Begins to stand by; it takes over after a silence of `after`.
    ///
    /// # Errors
    /// When the cluster cannot be reached.
    pub fn new(cluster: Arc<dyn Cluster>, layout: Layout, after: Duration) -> Result<Self, LogError> {
        let silence = Silence::watch(&*cluster, &layout)?;
        let heard = silence.heard_at();
        Ok(Self { cluster, layout, silence: Some(silence), after, heard })
    }

    /// Stands by again: another process turned out to be the sequencer, or this one could not go on.
    ///
    /// # Errors
    /// When the cluster cannot be reached.
    pub fn stand_by(&mut self) -> Result<(), LogError> {
        let silence = Silence::watch(&*self.cluster, &self.layout)?;
        self.heard = silence.heard_at();
        self.silence = Some(silence);
        Ok(())
    }

    /// When the active sequencer was last heard of before this one took over, or when it began to listen.
    pub fn heard_at(&self) -> Instant {
        self.silence.as_ref().map_or(self.heard, Silence::heard_at)
    }
}

impl Members for Standby {
    fn poll(&mut self, limit: Duration) -> Result<Option<Vec<Partition>>, LogError> {
        let Some(silence) = &mut self.silence else {
            std::thread::sleep(limit);
            return Ok(None);
        };
        // Not a whole `limit` longer than it has to be.
        let left = self.after.saturating_sub(silence.heard_at().elapsed());
        match silence.wait(limit.min(left)) {
            Ok(silent) if silent >= self.after => {
                self.heard = silence.heard_at();
                self.silence = None;
                let topics = self.layout.shards_of(Role::Sequencer, &[]);
                Ok(Some(topics.into_iter().map(|topic| Partition::new(topic, 0)).collect()))
            }
            Ok(_) => Ok(None),
            // A cluster that is away is not a silent sequencer.
            Err(LogError::Stalled { .. } | LogError::Cluster { .. }) => {
                self.stand_by()?;
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::Stop;
    use crate::process::sequence::{HEARTBEAT_MS, open};
    use tally_crypto::SigningKey;
    use tally_ledger::Timestamp;
    use tally_log::cluster::MemoryCluster;

    const AFTER: Duration = Duration::from_millis(300);

    #[test]
    fn the_silent_sequencer_is_replaced_and_the_one_that_speaks_is_not() {
        let layout = Layout {
            prefix: "test".into(),
            participants: vec!["BANKDEFF".into()],
            schedulers: 1,
            assemblers: 1,
            gateways: 1,
        };
        let topics = layout.topics().into_iter().map(|topic| (topic.name, topic.partitions));
        let cluster = Arc::new(MemoryCluster::new(topics));
        let mut standby =
            Standby::new(Arc::clone(&cluster) as Arc<dyn Cluster>, layout.clone(), AFTER).unwrap();
        let key = SigningKey::from_seed([1; 32]);
        let network = tally_ledger::NetworkId([7; 32]);
        let mut active = open(&*cluster, &layout, network, key, Timestamp(1), &Stop::default()).unwrap();
        // Each turn is a heartbeat later: it has nothing to do, and says so.
        for turn in 1..=4 {
            active.turn(Timestamp(1 + turn * HEARTBEAT_MS)).unwrap();
            let before = Instant::now();
            assert_eq!(standby.poll(Duration::ZERO).unwrap(), None, "it was heard of in turn {turn}");
            assert!(standby.heard_at() >= before, "that was a word of it");
        }
        let heard = standby.heard_at();
        let given = loop {
            if let Some(given) = standby.poll(Duration::from_secs(60)).unwrap() {
                break given;
            }
        };
        assert!(
            heard.elapsed() >= AFTER && heard.elapsed() < Duration::from_secs(50),
            "{:?}",
            heard.elapsed()
        );
        assert_eq!(standby.heard_at(), heard, "nothing was heard since");
        assert_eq!(given.iter().map(|one| layout.shard(Role::Sequencer, one)).collect::<Vec<_>>(), [Some(0)]);
        assert_eq!(standby.poll(Duration::ZERO).unwrap(), None, "it is told once");
        standby.stand_by().unwrap();
        assert!(standby.heard_at() > heard, "it listens again, from now on");
    }
}
