//! Settlement as processes of its own: how a process reaches the cluster, which shards it runs, what it tells of them.

mod configuration;
mod gateway;
mod process;
mod standby;
mod telemetry;
mod topics;

pub use configuration::{ClusterConfiguration, LayoutSection, StagesSection, TopicsSection};
pub use gateway::{GatewayWork, run as run_gateway};
pub use process::{Stage, Work};
pub use telemetry::{Telemetry, serve};
pub use topics::{apply, check, grants, plans};
