//! Configuration, telemetry, shutdown.
