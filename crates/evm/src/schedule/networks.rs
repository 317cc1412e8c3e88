//! The networks of the Ethereum tests, by name: one fork from the start, or a change between two.

use alloy_primitives::U256;

use super::{Activation, Fork, Schedule};

/// A network name that no test uses.
#[derive(Debug, thiserror::Error)]
#[error(
    "the network `{name}` is not known; expected a fork such as `Cancun` or a change such as `ShanghaiToCancunAtTime15k`"
)]
pub struct UnknownNetwork {
    /// The name.
    pub name: String,
}

impl Schedule {
    /// The schedule of a test network such as `EIP150`, `HomesteadToDaoAt5` or
    /// `ShanghaiToCancunAtTime15k`, with chain identifier 1.
    ///
    /// # Errors
    /// A name that is not one of these.
    pub fn named(name: &str) -> Result<Self, UnknownNetwork> {
        let unknown = || UnknownNetwork { name: name.to_owned() };
        let mut schedule = Self::frontier(1);
        let Some((from, rest)) = name.split_once("To") else {
            schedule.begin_at_genesis(fork(name).ok_or_else(unknown)?);
            return Ok(schedule);
        };
        let (to, at) = rest.rsplit_once("At").ok_or_else(unknown)?;
        let (from, to) = (fork(from).ok_or_else(unknown)?, fork(to).ok_or_else(unknown)?);
        schedule.begin_at_genesis(from);
        if let Some(difficulty) = at.strip_prefix("Diff") {
            let total = U256::from_str_radix(difficulty, 16).map_err(|_| unknown())?;
            schedule.terminal_total_difficulty = Some(total);
        } else if let Some(time) = at.strip_prefix("Time") {
            let seconds = match time.strip_suffix('k') {
                Some(thousands) => thousands.parse::<u64>().ok().and_then(|count| count.checked_mul(1000)),
                None => time.parse().ok(),
            };
            schedule.activations[to.index()] = Activation::Time(seconds.ok_or_else(unknown)?);
        } else {
            schedule.activations[to.index()] = Activation::Block(at.parse().map_err(|_| unknown())?);
        }
        Ok(schedule)
    }

    fn begin_at_genesis(&mut self, fork: Fork) {
        if fork >= Fork::Paris {
            self.terminal_total_difficulty = Some(U256::ZERO);
        }
        // Later forks include earlier ones; the DAO fork alone is an event of its own block.
        if fork != Fork::Paris {
            self.activations[fork.index()] =
                if fork.by_time() { Activation::Time(0) } else { Activation::Block(0) };
        } else {
            self.activations[Fork::GrayGlacier.index()] = Activation::Block(0);
        }
    }
}

fn fork(name: &str) -> Option<Fork> {
    let known = match name {
        "EIP150" | "TangerineWhistle" | "Tangerine" => Fork::Tangerine,
        "EIP158" | "SpuriousDragon" | "Spurious" => Fork::SpuriousDragon,
        "ConstantinopleFix" => Fork::Petersburg,
        "Dao" | "DAOFork" => Fork::Dao,
        "Merge" => Fork::Paris,
        _ => return Fork::ALL.into_iter().find(|fork| fork.name().eq_ignore_ascii_case(name)),
    };
    Some(known)
}
