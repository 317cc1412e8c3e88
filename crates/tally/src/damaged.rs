//! Texts that somebody mistyped, cut off or mixed up, for the tests of what reads configuration.

use tally_sim::Rng;

/// What stands where it should not.
const ODD: &[&str] = &[
    "",
    "-1",
    "0",
    "9223372036854775807",
    "-9223372036854775808",
    "99999999999999999999",
    "1e308",
    "nan",
    "true",
    "[]",
    "{}",
    "\"\"",
    "\"\\u0000\"",
    "\"ä\"",
    "''",
    "[[",
    "1979-05-27T07:32:00Z",
    "\"0.001\"",
    "\"-5.00\"",
    "\"92233720368547758.08\"",
    "\"..\"",
    "\"DE00\"",
];

/// Hands thousands of damaged `samples` to `read`, whose errors all have to name the file `named`; how many were read
/// all the same, and how many were not.
pub(crate) fn survives(
    samples: &[&str],
    named: &str,
    mut read: impl FnMut(&str) -> anyhow::Result<()>,
) -> (usize, usize) {
    let (mut good, mut bad) = (0, 0);
    for seed in 0..4_000 {
        match read(&damaged(&mut Rng::new(seed), samples)) {
            Ok(()) => good += 1,
            Err(error) => {
                bad += 1;
                assert!(format!("{error:#}").contains(named), "seed {seed}: {error:#}");
            }
        }
    }
    (good, bad)
}

/// One of `samples` after a few mistakes; what is left is text.
fn damaged(rng: &mut Rng, samples: &[&str]) -> String {
    let mut lines: Vec<String> = samples[rng.index(samples.len())].lines().map(str::to_owned).collect();
    for _ in 0..rng.between(1, 4) {
        if lines.is_empty() {
            break;
        }
        let at = rng.index(lines.len());
        let other = rng.index(lines.len());
        match rng.below(8) {
            0 => drop(lines.remove(at)),
            1 => lines.insert(at, lines[other].clone()),
            2 => lines.swap(at, other),
            3 => lines.truncate(at),
            // A value of another key, or an odd one.
            4 => {
                if let (Some((key, _)), Some((_, value))) =
                    (lines[at].split_once('='), lines[other].split_once('='))
                {
                    lines[at] = format!("{key}={value}");
                }
            }
            5 | 6 => {
                if let Some((key, _)) = lines[at].split_once('=') {
                    lines[at] = format!("{key}= {}", ODD[rng.index(ODD.len())]);
                }
            }
            _ => {
                let mut characters: Vec<char> = lines[at].chars().collect();
                if !characters.is_empty() {
                    let place = rng.index(characters.len());
                    characters[place] = ['"', '=', '[', '.', ' ', 'x', '\0', 'é'][rng.index(8)];
                }
                lines[at] = characters.into_iter().collect();
            }
        }
    }
    lines.join("\n")
}
