//! The settlement stages as pure state machines, the runtime that joins them by logs, the gateway.
