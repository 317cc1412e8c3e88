//! A few inputs for every target; `make fuzz` feeds more.

use std::time::Duration;
use tally_trials::fuzz::TARGETS;

#[test]
fn no_input_breaks_a_decoder_or_a_core() {
    for target in TARGETS {
        let inputs = target.feed_for(1, Duration::from_millis(500));
        assert!(inputs > 0, "{} was not fed", target.name);
    }
}
