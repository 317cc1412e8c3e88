//! Ordered durable queues: memory, file; the seam that Kafka fits.
