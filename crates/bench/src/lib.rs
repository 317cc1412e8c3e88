//! Workloads, load drivers, recorders, experiments, reports.
