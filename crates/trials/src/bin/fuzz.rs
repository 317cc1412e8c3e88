//! Feeds every decoder and core with damaged bytes: `tally-fuzz SECONDS [TARGET [SEED]]`.

use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tally_trials::fuzz::TARGETS;

const USAGE: &str = "usage: tally-fuzz SECONDS [TARGET [SEED]]: feeds each target, or one, for so long; \
                     with 0 seconds, the one input of the seed";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let seconds = arguments.first().and_then(|text| text.parse::<u64>().ok());
    let seed = arguments.get(2).map(|text| text.parse::<u64>());
    let (Some(seconds), None, Ok(seed)) = (seconds, arguments.get(3), seed.transpose()) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    let wanted = |name: &str| arguments.get(1).is_none_or(|wanted| wanted == name || wanted == "all");
    let targets: Vec<_> = TARGETS.iter().filter(|target| wanted(target.name)).collect();
    if targets.is_empty() {
        let names: Vec<_> = TARGETS.iter().map(|target| target.name).collect();
        eprintln!("{USAGE}\ntargets: {}", names.join(", "));
        return ExitCode::from(2);
    }
    // Other inputs every time; a finding names its own.
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_micros();
    let seed = seed.unwrap_or(u64::try_from(now).unwrap_or(0));
    for target in targets {
        let time = Duration::from_secs(seconds);
        let feed = || {
            if seconds == 0 {
                target.feed(seed);
                1
            } else {
                target.feed_for(seed, time)
            }
        };
        let Ok(inputs) = std::panic::catch_unwind(feed) else { return ExitCode::FAILURE };
        println!("{:18} {inputs:>10} inputs from {seed} on, clean", target.name);
    }
    ExitCode::SUCCESS
}
