use alloy_consensus::Header;
use alloy_consensus::constants::EMPTY_WITHDRAWALS;
use alloy_eips::eip7685::EMPTY_REQUESTS_HASH;
use alloy_eips::eip7840::BlobParams;
use alloy_primitives::{B256, Bytes, U256};

use super::*;
use crate::schedule::{Fork, Schedule};

fn parent() -> Header {
    Header {
        number: 9,
        timestamp: 100,
        gas_limit: 10_000_000,
        gas_used: 5_000_000,
        base_fee_per_gas: Some(1_000_000_000),
        difficulty: U256::from(1_000_000),
        ..Header::default()
    }
}

#[test]
fn the_base_fee_follows_the_examples_of_eip_1559() {
    let schedule = Schedule::named("London").unwrap();
    let after = |used, fee| {
        let parent = Header { gas_used: used, base_fee_per_gas: Some(fee), ..parent() };
        next_base_fee(&schedule, &parent, 101).unwrap()
    };
    assert_eq!(after(5_000_000, 1_000_000_000), 1_000_000_000);
    assert_eq!(after(10_000_000, 1_000_000_000), 1_125_000_000);
    assert_eq!(after(0, 1_000_000_000), 875_000_000);
    assert_eq!(after(5_000_001, 1), 2);
    assert_eq!(after(u64::MAX, u64::MAX), u64::MAX);
    assert_eq!(next_base_fee(&Schedule::named("Berlin").unwrap(), &parent(), 101), None);
    let none = Header { gas_limit: 0, gas_used: 0, ..parent() };
    assert!(next_base_fee(&schedule, &none, 101).is_some());
}

#[test]
fn difficulty_follows_each_formula() {
    let step = 1_000_000 / 2048;
    let difficulty = |fork, time| next_difficulty(fork, &parent(), time).to::<u64>();
    assert_eq!(difficulty(Fork::Frontier, 112), 1_000_000 + step);
    assert_eq!(difficulty(Fork::Frontier, 113), 1_000_000 - step);
    assert_eq!(difficulty(Fork::Homestead, 109), 1_000_000 + step);
    assert_eq!(difficulty(Fork::Homestead, 110), 1_000_000);
    assert_eq!(difficulty(Fork::Homestead, 100_000), 1_000_000 - 99 * step);
    assert_eq!(difficulty(Fork::Byzantium, 108), 1_000_000 + step);
    assert_eq!(difficulty(Fork::Byzantium, 109), 1_000_000);
    let late = Header { number: 299_999, ..parent() };
    assert_eq!(next_difficulty(Fork::Homestead, &late, 110), U256::from(1_000_000 + 2));
    assert_eq!(next_difficulty(Fork::GrayGlacier, &late, 109), U256::from(1_000_000));
    let absurd = Header { number: u64::MAX, difficulty: U256::MAX, ..parent() };
    assert_eq!(next_difficulty(Fork::Frontier, &absurd, 0), U256::MAX);
}

#[test]
fn blob_prices_are_those_of_the_library_and_end() {
    for blobs in [BlobParams::cancun(), BlobParams::prague(), BlobParams::bpo2()] {
        for excess in [0, 1, 393_216, 10_000_000, 150_000_000] {
            assert_eq!(blob_price(&blobs, excess), blobs.calc_blob_fee(excess));
        }
        assert_eq!(blob_price(&blobs, u64::MAX), u128::MAX);
        for (excess, used, fee) in [(0, 0, 7), (1_000_000, 786_432, 7), (5_000_000, 131_072, 50_000_000_000)]
        {
            let parent = Header {
                excess_blob_gas: Some(excess),
                blob_gas_used: Some(used),
                base_fee_per_gas: Some(fee),
                ..parent()
            };
            let expected = blobs.next_block_excess_blob_gas_osaka(excess, used, fee);
            assert_eq!(next_excess_blob_gas(&blobs, &parent), expected);
        }
    }
}

#[test]
fn headers_that_break_a_rule_are_refused_by_name() {
    let schedule = Schedule::named("London").unwrap();
    let parent = parent();
    let hash = parent.hash_slow();
    let good = Header {
        parent_hash: hash,
        number: 10,
        timestamp: 113,
        gas_limit: 10_009_000,
        base_fee_per_gas: Some(1_000_000_000),
        difficulty: next_difficulty(Fork::London, &parent, 113),
        ..Header::default()
    };
    let sealing = Sealing::Ethereum { parent_total_difficulty: None };
    let check = |change: &dyn Fn(&mut Header)| {
        let mut header = good.clone();
        change(&mut header);
        let checked = validate_header(&schedule, &header, &parent, hash, &sealing);
        checked.err().map(|error| error.test_name())
    };
    assert_eq!(check(&|_| {}), None);
    assert_eq!(check(&|header| header.number = 11), Some("BlockException.INVALID_BLOCK_NUMBER"));
    assert_eq!(check(&|header| header.gas_limit = 10_009_766), Some("BlockException.INVALID_GASLIMIT"));
    assert_eq!(check(&|header| header.gas_used = u64::MAX), Some("BlockException.GAS_USED_OVERFLOW"));
    assert_eq!(
        check(&|header| header.timestamp = 100),
        Some("BlockException.INVALID_BLOCK_TIMESTAMP_OLDER_THAN_PARENT")
    );
    assert_eq!(
        check(&|header| header.extra_data = Bytes::from([0; 33])),
        Some("BlockException.EXTRA_DATA_TOO_BIG")
    );
    assert_eq!(check(&|header| header.difficulty += U256::ONE), Some("BlockException.INVALID_DIFFICULTY"));
    assert_eq!(
        check(&|header| header.base_fee_per_gas = Some(1)),
        Some("BlockException.INVALID_BASEFEE_PER_GAS")
    );
    assert_eq!(
        check(&|header| header.withdrawals_root = Some(B256::ZERO)),
        Some("BlockException.INCORRECT_BLOCK_FORMAT")
    );
}

#[test]
fn sealed_headers_are_checked_by_the_host() {
    let mut schedule = Schedule::named("London").unwrap();
    schedule.sealed = true;
    schedule.zero_base_fee = true;
    let parent = Header { base_fee_per_gas: Some(0), difficulty: U256::ONE, ..parent() };
    let hash = parent.hash_slow();
    let header = Header {
        parent_hash: hash,
        number: 10,
        // Several blocks in one second.
        timestamp: parent.timestamp,
        extra_data: vec![7; 200].into(),
        difficulty: U256::ONE,
        gas_limit: parent.gas_limit,
        base_fee_per_gas: Some(0),
        ..Header::default()
    };
    let take: &SealCheck<'_> = &|_, _| Ok(());
    let refuse: &SealCheck<'_> = &|_, _| Err("no seal".into());
    assert!(validate_header(&schedule, &header, &parent, hash, &Sealing::Validators(take)).is_ok());
    let refused = validate_header(&schedule, &header, &parent, hash, &Sealing::Validators(refuse));
    assert!(matches!(refused, Err(BlockError::Seal(_))));
    let work = Header { difficulty: U256::from(2), ..header };
    assert!(validate_header(&schedule, &work, &parent, hash, &Sealing::Validators(take)).is_err());
}

/// A chain becomes free when `zeroBaseFee` is added to its file: its older blocks have the market's price, as Besu
/// allows (`BaseFeeMarketBlockHeaderGasPriceValidationRule`). Nobody may choose any other.
#[test]
fn a_free_network_takes_the_prices_of_its_past_and_no_other() {
    let mut schedule = Schedule::named("London").unwrap();
    schedule.sealed = true;
    schedule.zero_base_fee = true;
    let check = |base_fee: u64, gas_used: u64, found: u64| {
        let parent = Header { base_fee_per_gas: Some(base_fee), difficulty: U256::ONE, gas_used, ..parent() };
        let header = Header {
            parent_hash: parent.hash_slow(),
            number: 10,
            timestamp: parent.timestamp + 1,
            difficulty: U256::ONE,
            gas_limit: parent.gas_limit,
            base_fee_per_gas: Some(found),
            ..Header::default()
        };
        let take: &SealCheck<'_> = &|_, _| Ok(());
        validate_header(&schedule, &header, &parent, parent.hash_slow(), &Sealing::Validators(take)).is_ok()
    };
    let full = parent().gas_limit;
    assert!(check(1_000_000_000, 0, 0), "free from the block after genesis on");
    assert!(check(1_000_000_000, 0, 875_000_000) && check(1_000_000_000, full, 1_125_000_000));
    assert!(check(0, full, 1), "what Besu did before it had zeroBaseFee (its issue 4218)");
    assert!(check(0, 0, 0) && check(0, full, 0));
    for found in [1, 874_999_999, 1_000_000_000, u64::MAX] {
        assert!(!check(1_000_000_000, 0, found), "{found}");
    }
    assert!(!check(0, 0, 1) && !check(0, full, 2));
}

/// Everything in a header that only a beacon chain can know has one value where validators seal: nobody may choose it.
#[test]
fn sealed_headers_have_nothing_of_a_beacon_chain() {
    let mut schedule = Schedule::named("Prague").unwrap();
    schedule.sealed = true;
    schedule.zero_base_fee = true;
    let parent = Header {
        base_fee_per_gas: Some(0),
        difficulty: U256::ONE,
        blob_gas_used: Some(0),
        excess_blob_gas: Some(0),
        ..parent()
    };
    let hash = parent.hash_slow();
    let header = Header {
        parent_hash: hash,
        number: 10,
        timestamp: parent.timestamp + 1,
        difficulty: U256::ONE,
        gas_limit: parent.gas_limit,
        base_fee_per_gas: Some(0),
        withdrawals_root: Some(EMPTY_WITHDRAWALS),
        blob_gas_used: Some(0),
        excess_blob_gas: Some(0),
        ..Header::default()
    };
    let take: &SealCheck<'_> = &|_, _| Ok(());
    let check = |change: &dyn Fn(&mut Header)| {
        let mut header = header.clone();
        change(&mut header);
        validate_header(&schedule, &header, &parent, hash, &Sealing::Validators(take))
    };
    let beacon = |root: B256| {
        move |header: &mut Header| {
            header.parent_beacon_block_root = Some(root);
            header.requests_hash = Some(EMPTY_REQUESTS_HASH);
        }
    };
    // As Besu's validators write them, and with the root that stands for none.
    assert!(check(&|_| {}).is_ok());
    assert!(check(&beacon(B256::ZERO)).is_ok());
    let chosen = check(&beacon(B256::with_last_byte(1)));
    assert!(matches!(chosen, Err(BlockError::NoBeaconChain(_))), "{chosen:?}");
    let withdrawal = Withdrawal { amount: u64::MAX, ..Withdrawal::default() };
    let root = calculate_withdrawals_root(&[withdrawal]);
    let minted = check(&|header| header.withdrawals_root = Some(root));
    assert!(matches!(minted, Err(BlockError::NoBeaconChain("withdrawals"))), "{minted:?}");
    // The form of the fork is demanded all the same, and nothing of a later one is there.
    assert!(check(&|header| header.withdrawals_root = None).is_err());
    assert!(check(&|header| header.requests_hash = Some(EMPTY_REQUESTS_HASH)).is_err());
    assert!(check(&|header| header.slot_number = Some(0)).is_err());
    assert!(check(&|header| header.block_access_list_hash = Some(B256::ZERO)).is_err());
    assert!(check(&|header| header.excess_blob_gas = Some(1)).is_err());
    assert!(check(&|header| header.base_fee_per_gas = Some(1)).is_err());
    assert!(check(&|header| header.ommers_hash = B256::ZERO).is_err());
    assert!(check(&|header| header.gas_limit += parent.gas_limit / 1_024).is_err());
    assert!(check(&|header| header.timestamp = parent.timestamp - 1).is_err());
    let mut amsterdam = Schedule::named("Amsterdam").unwrap();
    (amsterdam.sealed, amsterdam.zero_base_fee) = (true, true);
    let slot = |number| {
        let header = Header {
            block_access_list_hash: Some(EMPTY_BLOCK_ACCESS_LIST_HASH),
            slot_number: Some(number),
            ..header.clone()
        };
        validate_header(&amsterdam, &header, &parent, hash, &Sealing::Validators(take))
    };
    assert!(slot(0).is_ok(), "{:?}", slot(0));
    assert!(matches!(slot(1), Err(BlockError::NoBeaconChain(_))), "{:?}", slot(1));
    // Where there is a beacon chain it says what it likes.
    schedule.sealed = false;
    schedule.zero_base_fee = false;
    schedule.terminal_total_difficulty = Some(U256::ZERO);
    let merged = Header {
        difficulty: U256::ZERO,
        base_fee_per_gas: next_base_fee(&schedule, &parent, header.timestamp),
        withdrawals_root: Some(root),
        parent_beacon_block_root: Some(B256::with_last_byte(1)),
        requests_hash: Some(EMPTY_REQUESTS_HASH),
        ..header
    };
    let ethereum = Sealing::Ethereum { parent_total_difficulty: Some(U256::ZERO) };
    let taken = validate_header(&schedule, &merged, &parent, hash, &ethereum);
    assert!(taken.is_ok(), "{taken:?}");
}

#[test]
fn blocks_are_read_as_they_are_written_and_never_panic() {
    let body = Body {
        transactions: Vec::new(),
        ommers: vec![parent()],
        withdrawals: Some(vec![Withdrawal { index: 1, validator_index: 2, amount: 3, ..Default::default() }]),
    };
    let block = Block { header: parent(), body: body.clone() };
    let bytes = block.encode();
    assert_eq!(Block::decode(&bytes).unwrap(), block);
    assert_eq!(Body::decode(&body.encode()).unwrap(), body);
    let mut two = bytes.clone();
    two.extend_from_slice(&bytes);
    let mut rest = &two[..];
    assert_eq!(Block::decode_next(&mut rest).unwrap(), block);
    assert_eq!(rest, bytes);
    assert!(Block::decode(&two).is_err());
    for end in 0..bytes.len() {
        assert!(Block::decode(&bytes[..end]).is_err());
    }
    for at in 0..bytes.len() {
        for change in [1, 0x40, 0x80, 0xff] {
            let mut changed = bytes.clone();
            changed[at] ^= change;
            if let Ok(decoded) = Block::decode(&changed) {
                assert_ne!(decoded, block);
            }
        }
    }
}

#[test]
fn ommers_are_refused_by_name() {
    let schedule = Schedule::named("London").unwrap();
    // Each generation lists no ommers; the last one is the parent.
    let mut headers = vec![parent()];
    for _ in 0..8 {
        let before = headers.last().unwrap();
        headers.push(child(before, 13));
    }
    let mut ancestors: Vec<Ancestor> = headers
        .iter()
        .rev()
        .map(|header| Ancestor { hash: header.hash_slow(), header: header.clone(), ommers: Vec::new() })
        .collect();
    let check = |ommers: &[Header], ancestors: &[Ancestor]| {
        validate_ommers(&schedule, ommers, ancestors).err().map(|error| error.test_name())
    };
    let good = child(&ancestors[1].header, 20);
    assert_eq!(check(std::slice::from_ref(&good), &ancestors), None);
    assert_eq!(check(&[good.clone(), good.clone()], &ancestors), Some("BlockException.UNCLE_IS_BROTHER"));
    let sibling = child(&ancestors[0].header, 20);
    assert_eq!(check(&[sibling], &ancestors), Some("BlockException.UNCLE_IS_BROTHER"));
    assert_eq!(check(&[headers[7].clone()], &ancestors), Some("BlockException.UNCLE_IS_ANCESTOR"));
    let old = child(&headers[0], 20);
    assert_eq!(check(&[old], &ancestors), Some("BlockException.UNCLE_PARENT_INCORRECT"));
    let wrong = Header { gas_limit: 1, ..good.clone() };
    assert_eq!(check(&[wrong], &ancestors), Some("BlockException.INVALID_GASLIMIT"));
    let three = [good.clone(), good.clone(), good.clone()];
    assert_eq!(check(&three, &ancestors), Some("BlockException.TOO_MANY_UNCLES"));
    ancestors[1].ommers.push(good.hash_slow());
    assert_eq!(check(&[good], &ancestors), Some("BlockException.UNCLE_IN_CHAIN"));
}

/// A header of work on top of another.
fn child(parent: &Header, seconds: u64) -> Header {
    let schedule = Schedule::named("London").unwrap();
    let timestamp = parent.timestamp + seconds;
    Header {
        parent_hash: parent.hash_slow(),
        number: parent.number + 1,
        timestamp,
        gas_limit: parent.gas_limit,
        base_fee_per_gas: next_base_fee(&schedule, parent, timestamp),
        difficulty: next_difficulty(Fork::London, parent, timestamp),
        ..Header::default()
    }
}
