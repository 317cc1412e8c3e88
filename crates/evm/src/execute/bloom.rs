//! Blooms of logs. The same addresses and topics come again and again within a block, and each costs a
//! hash.

use alloy_primitives::map::{AddressMap, B256Map};
use alloy_primitives::{B256, Bloom, Log, keccak256};

/// Where a hash sets its three bits: the byte from the end, and the bit in it.
type Bits = [(u8, u8); 3];

/// The bits of what a block has logged so far.
#[derive(Debug, Default)]
pub(super) struct Blooms {
    addresses: AddressMap<Bits>,
    topics: B256Map<Bits>,
}

impl Blooms {
    /// The bloom of a transaction's logs.
    pub(super) fn of(&mut self, logs: &[Log]) -> Bloom {
        let mut bloom = Bloom::ZERO;
        for log in logs {
            set(
                &mut bloom,
                self.addresses.entry(log.address).or_insert_with(|| bits(keccak256(log.address))),
            );
            for topic in log.topics() {
                set(&mut bloom, self.topics.entry(*topic).or_insert_with(|| bits(keccak256(topic))));
            }
        }
        bloom
    }
}

/// The low eleven bits of the first three pairs of bytes (Yellow Paper, 4.3.1).
fn bits(hash: B256) -> Bits {
    [0, 2, 4].map(|at| {
        let bit = u16::from_be_bytes([hash[at], hash[at + 1]]) & 0x7ff;
        ((bit >> 3) as u8, (bit & 7) as u8)
    })
}

fn set(bloom: &mut Bloom, bits: &Bits) {
    for (byte, bit) in bits {
        bloom.0[255 - usize::from(*byte)] |= 1 << bit;
    }
}

#[cfg(test)]
mod tests {
    use alloy_primitives::{Address, Bytes};

    use super::*;

    #[test]
    fn blooms_are_those_of_the_library() {
        let mut blooms = Blooms::default();
        for round in 0..40_u8 {
            let logs: Vec<_> = (0..round % 4)
                .map(|index| {
                    let topics = (0..index).map(|topic| B256::repeat_byte(topic ^ (round / 3))).collect();
                    Log::new_unchecked(Address::repeat_byte(round / 2 + index), topics, Bytes::new())
                })
                .collect();
            assert_eq!(blooms.of(&logs), logs.iter().collect::<Bloom>());
        }
    }
}
