//! Flows on engines joined by a post that repeats itself, with crashes between any two units.

mod behaviour;
mod crash;
mod ends;
mod limits;
mod world;
