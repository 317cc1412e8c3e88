//! Seeded scheduler, clock and disk that fail on purpose.
