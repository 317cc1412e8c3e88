//! What a member counts, as Prometheus reads it.

use std::sync::atomic::{AtomicU64, AtomicUsize};

use tally_ops::metrics::{Gauge, MetricError, Registry};

/// What is counted while the member runs.
#[derive(Default)]
pub(super) struct Counts {
    pub(super) height: AtomicU64,
    pub(super) waiting: AtomicUsize,
    pub(super) blames: AtomicU64,
    pub(super) strangers: AtomicU64,
    pub(super) faulty_links: AtomicU64,
}

/// How a member stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClusterFigures {
    /// Batches that are decided and carried out here.
    pub height: u64,
    /// Requests that wait here to be ordered.
    pub waiting_requests: usize,
    /// This node's own requests whose end is not known.
    pub requests_under_way: usize,
    /// Other members to which there is a link.
    pub connected_members: usize,
    /// All other members.
    pub other_members: usize,
    /// What members did that none that is right does.
    pub blames: u64,
    /// Links that were ended because of what came over them.
    pub faulty_links: u64,
    /// Connections of nodes that are no members.
    pub strangers: u64,
    /// Frames to other members that were not sent.
    pub dropped_frames: u64,
    /// Whether the member has ended with an error.
    pub failed: bool,
}

/// The meters of a member.
#[derive(Clone)]
pub struct ClusterMeters {
    gauges: [Gauge; 10],
}

impl ClusterMeters {
    /// Meters in a registry.
    ///
    /// # Errors
    /// A name that the registry has already.
    pub fn new(registry: &Registry) -> Result<Self, MetricError> {
        let gauge = |name: &str, help: &str| registry.gauge(name, help, &[]);
        let gauges = [
            gauge(
                "tally_cluster_decided_batches",
                "Batches of the clustered notary that are carried out here.",
            )?,
            gauge("tally_cluster_waiting_requests", "Requests that wait here to be ordered.")?,
            gauge("tally_cluster_own_requests", "Requests of this node whose end is not known.")?,
            gauge("tally_cluster_connected_members", "Other members to which there is a link.")?,
            gauge("tally_cluster_other_members", "Other members of the clustered notary.")?,
            gauge("tally_cluster_blamed_faults", "What members did that none that is right does.")?,
            gauge("tally_cluster_faulty_links", "Links that were ended because of what came over them.")?,
            gauge("tally_cluster_refused_strangers", "Connections of nodes that are no members.")?,
            gauge("tally_cluster_dropped_frames", "Frames to other members that were not sent.")?,
            gauge("tally_cluster_failed_members", "1 when the member of this node ended with an error.")?,
        ];
        Ok(Self { gauges })
    }

    /// Brings them up to date.
    pub fn measure(&self, figures: &ClusterFigures) {
        let count = |value: usize| value as u64;
        let values = [
            figures.height,
            count(figures.waiting_requests),
            count(figures.requests_under_way),
            count(figures.connected_members),
            count(figures.other_members),
            figures.blames,
            figures.faulty_links,
            figures.strangers,
            figures.dropped_frames,
            u64::from(figures.failed),
        ];
        for (gauge, value) in self.gauges.iter().zip(values) {
            gauge.set(i64::try_from(value).unwrap_or(i64::MAX));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_read_under_their_names() {
        let registry = Registry::new();
        let meters = ClusterMeters::new(&registry).expect("meters");
        let figures =
            ClusterFigures { height: 7, connected_members: 3, failed: true, ..ClusterFigures::default() };
        meters.measure(&figures);
        let text = registry.render();
        for (name, value) in
            [("decided_batches", 7), ("connected_members", 3), ("failed_members", 1), ("dropped_frames", 0)]
        {
            assert!(text.contains(&format!("tally_cluster_{name}{{}} {value}\n")), "{name}: {text}");
        }
    }
}
