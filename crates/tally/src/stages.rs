//! Settlement as processes of its own: how a process reaches the cluster, which shards it runs, what it tells of them.

mod configuration;
mod gateway;
mod institution;
mod process;
mod telemetry;
mod topics;

pub use configuration::{
    ClusterConfiguration, LayoutSection, StagesSection, TooManyWitnesses, TopicsSection, WitnessesSection,
    is_section,
};
pub use gateway::{GatewayWork, run as run_gateway};
pub use institution::{InstitutionError, works_for};
pub use process::{Stage, Work};
pub use telemetry::{Telemetry, serve};
pub use topics::{apply, check, grants, plans, reach};
