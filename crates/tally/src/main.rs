//! The command line of Tallystick.
fn main() {}
