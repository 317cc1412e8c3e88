use super::*;

#[test]
fn test_networks_begin_and_change_as_they_are_named() {
    let fork = |name: &str, number, timestamp, merged| {
        Schedule::named(name).unwrap().fork(number, timestamp, merged)
    };
    assert_eq!(fork("Frontier", 1_000_000_000, u64::MAX, false), Fork::Frontier);
    assert_eq!(fork("EIP150", 0, 0, false), Fork::Tangerine);
    assert_eq!(fork("EIP158", 0, 0, false), Fork::SpuriousDragon);
    assert_eq!(fork("Constantinople", 0, 0, false), Fork::Constantinople);
    assert_eq!(fork("ConstantinopleFix", 0, 0, false), Fork::Petersburg);
    assert_eq!(fork("Merge", 1, 0, true), Fork::Paris);
    assert_eq!(fork("FrontierToHomesteadAt5", 4, 0, false), Fork::Frontier);
    assert_eq!(fork("FrontierToHomesteadAt5", 5, 0, false), Fork::Homestead);
    assert_eq!(fork("ShanghaiToCancunAtTime15k", 9, 14_999, true), Fork::Shanghai);
    assert_eq!(fork("ShanghaiToCancunAtTime15k", 9, 15_000, true), Fork::Cancun);
    assert_eq!(fork("BPO1ToBPO2AtTime15k", 9, 15_000, true), Fork::Bpo2);
    assert_eq!(fork("ArrowGlacierToParisAtDiffC0000", 9, 0, false), Fork::ArrowGlacier);
    assert_eq!(fork("ArrowGlacierToParisAtDiffC0000", 9, 0, true), Fork::Paris);
    let dao = Schedule::named("HomesteadToDaoAt5").unwrap();
    assert!(dao.is_dao_fork(5) && !dao.is_dao_fork(4) && !dao.is_dao_fork(6));
    let merge = Schedule::named("ArrowGlacierToParisAtDiffC0000").unwrap();
    assert_eq!(merge.terminal_total_difficulty, Some(U256::from(0xC0000)));
    for name in
        ["", "To", "Nowhere", "FrontierTo", "FrontierToHomestead", "FrontierToHomesteadAtx", "AToBAtTimek"]
    {
        assert!(Schedule::named(name).is_err(), "{name}");
    }
}

#[test]
fn blobs_follow_the_newest_fork_that_changes_them() {
    let schedule = Schedule::named("Amsterdam").unwrap();
    assert_eq!(schedule.rules(1, 0, true).blobs, Some(BlobParams::bpo2()));
    assert_eq!(Schedule::named("Shanghai").unwrap().rules(1, 0, true).blobs, None);
    assert_eq!(Schedule::named("Prague").unwrap().rules(1, 0, true).max_blobs_per_block(), 9);
    let genesis = Genesis::parse(
        r#"{"gasLimit":1,"difficulty":"0","config":{"terminalTotalDifficulty":0,"cancunTime":0,"osakaTime":5,
        "blobSchedule":{"cancun":{"target":1,"max":2,"baseFeeUpdateFraction":5},"osaka":{"target":3,"max":4}}}}"#,
    )
    .unwrap();
    let schedule = genesis.schedule().unwrap();
    let cancun = schedule.rules(1, 4, true).blobs.unwrap();
    assert_eq!((cancun.target_blob_count, cancun.max_blob_count, cancun.update_fraction), (1, 2, 5));
    assert_eq!(schedule.rules(1, 5, true).blobs.unwrap().max_blob_count, 4);
}

#[test]
fn a_later_fork_includes_those_that_are_not_listed() {
    let genesis = Genesis::parse(
        r#"{"gasLimit":1,"difficulty":"1","config":{"qbft":{},"londonBlock":7,"shanghaiTime":50}}"#,
    )
    .unwrap();
    let schedule = genesis.schedule().unwrap();
    assert_eq!(schedule.fork(6, 0, false), Fork::Frontier);
    assert!(schedule.is_active(Fork::Byzantium, 7, 0));
    assert_eq!(schedule.rules(8, 50, false).spec, SpecId::SHANGHAI);
    assert_eq!(
        schedule.list(),
        [
            (Fork::Frontier, ForkStart::Block(0)),
            (Fork::London, ForkStart::Block(7)),
            (Fork::Shanghai, ForkStart::Time(50))
        ]
    );
}

#[test]
fn work_goes_on_until_the_terminal_difficulty() {
    let genesis = Genesis::parse(
        r#"{"gasLimit":1,"difficulty":"1","config":{"grayGlacierBlock":0,"terminalTotalDifficulty":"58750000000000000000000"}}"#,
    )
    .unwrap();
    let schedule = genesis.schedule().unwrap();
    let worked = Header { number: 9, difficulty: U256::ONE, ..Header::default() };
    assert_eq!(schedule.rules_of(&worked).fork, Fork::GrayGlacier);
    let merged = Header { number: 9, difficulty: U256::ZERO, ..Header::default() };
    assert_eq!(schedule.rules_of(&merged).fork, Fork::Paris);
}
