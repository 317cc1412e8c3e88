use super::{SECTOR_BYTES, SimDisk};
use crate::Rng;
use std::io::ErrorKind;

/// A disk with a durable file `a` of `sectors` sectors of ones.
fn disk_with_file(sectors: usize) -> SimDisk {
    let disk = SimDisk::new(0);
    let file = disk.create("a").unwrap();
    file.write_at(&vec![1; sectors * SECTOR_BYTES], 0).unwrap();
    file.sync_all().unwrap();
    disk.sync_dir().unwrap();
    disk
}

#[test]
fn reads_see_writes_before_any_sync() {
    let disk = SimDisk::new(0);
    let file = disk.create("a").unwrap();
    file.write_at(b"hello", 3).unwrap();
    let mut buffer = [9; 10];
    assert_eq!(file.read_at(&mut buffer, 0).unwrap(), 8);
    assert_eq!(&buffer[..8], b"\0\0\0hello");
    assert_eq!(file.read_at(&mut buffer, 100).unwrap(), 0);
}

#[test]
fn an_open_file_outlives_its_name_and_then_gives_its_room_back() {
    let disk = disk_with_file(1);
    disk.limit_space(Some(SECTOR_BYTES as u64));
    let (file, again) = (disk.open("a").unwrap(), disk.open("a").unwrap());
    disk.remove("a").unwrap();
    disk.sync_dir().unwrap();
    drop(again);
    let mut buffer = [0; 1];
    assert_eq!((file.read_at(&mut buffer, 0).unwrap(), buffer), (1, [1]));
    let next = disk.create("b").unwrap();
    assert_eq!(next.write_at(&[2], 0).unwrap_err().kind(), ErrorKind::StorageFull);
    drop(file);
    assert_eq!(next.write_at(&[2], 0).unwrap(), 1);
}

#[test]
fn a_process_that_is_gone_has_no_file_open() {
    let disk = disk_with_file(1);
    let file = disk.open("a").unwrap();
    disk.remove("a").unwrap();
    disk.sync_dir().unwrap();
    disk.kill();
    file.read_at(&mut [0], 0).unwrap_err();
    disk.limit_space(Some(SECTOR_BYTES as u64));
    disk.create("b").unwrap().write_at(&[2; SECTOR_BYTES], 0).unwrap();
}

#[test]
fn never_loses_what_was_synced() {
    for seed in 0..500 {
        let disk = disk_with_file(4);
        disk.crash(&mut Rng::new(seed));
        assert_eq!(disk.content("a").unwrap(), vec![1; 4 * SECTOR_BYTES]);
    }
}

#[test]
fn loses_keeps_and_tears_what_was_not() {
    let (mut lost, mut kept, mut torn) = (0, 0, 0);
    for seed in 0..500 {
        let disk = disk_with_file(4);
        disk.open("a").unwrap().write_at(&[2; 4 * SECTOR_BYTES], 0).unwrap();
        disk.crash(&mut Rng::new(seed));
        let content = disk.content("a").unwrap();
        for sector in content.chunks(SECTOR_BYTES) {
            assert!(sector.iter().all(|&byte| byte == sector[0]), "a sector was torn");
        }
        match content.iter().filter(|&&byte| byte == 2).count() {
            0 => lost += 1,
            n if n == content.len() => kept += 1,
            _ => torn += 1,
        }
    }
    assert!(lost > 100 && kept > 100 && torn > 50, "{lost} {kept} {torn}");
}

#[test]
fn a_later_write_can_survive_an_earlier_one() {
    let survives = (0..200).any(|seed| {
        let disk = disk_with_file(2);
        let file = disk.open("a").unwrap();
        file.write_at(&[2; SECTOR_BYTES], 0).unwrap();
        file.write_at(&[3; SECTOR_BYTES], SECTOR_BYTES as u64).unwrap();
        disk.crash(&mut Rng::new(seed));
        let content = disk.content("a").unwrap();
        content[0] == 1 && content[SECTOR_BYTES] == 3
    });
    assert!(survives);
}

#[test]
fn names_and_lengths_may_be_lost_until_synced() {
    let (mut created, mut renamed, mut removed, mut cut) = (0, 0, 0, 0);
    for seed in 0..200 {
        let disk = disk_with_file(1);
        disk.create("b").unwrap().sync_all().unwrap();
        disk.crash(&mut Rng::new(seed));
        created += u32::from(disk.content("b").is_some());
        disk.rename("a", "c").unwrap();
        disk.crash(&mut Rng::new(seed));
        assert_ne!(disk.content("a").is_some(), disk.content("c").is_some());
        renamed += u32::from(disk.content("c").is_some());

        let disk = disk_with_file(1);
        disk.remove("a").unwrap();
        assert!(disk.content("a").is_none());
        disk.crash(&mut Rng::new(seed));
        removed += u32::from(disk.content("a").is_none());

        let disk = disk_with_file(1);
        disk.open("a").unwrap().set_len(7).unwrap();
        disk.crash(&mut Rng::new(seed));
        cut += u32::from(disk.content("a").unwrap().len() == 7);
    }
    for count in [created, renamed, removed, cut] {
        assert!((40..190).contains(&count), "{created} {renamed} {removed} {cut}");
    }
    let disk = disk_with_file(1);
    disk.rename("a", "b").unwrap();
    disk.sync_dir().unwrap();
    disk.crash(&mut Rng::new(1));
    assert_eq!(disk.list().unwrap(), ["b"]);
}

#[test]
fn a_failed_sync_is_not_made_good_by_a_later_one() {
    let mut lost = 0;
    for seed in 0..100 {
        let disk = SimDisk::new(seed);
        let file = disk.create("a").unwrap();
        file.write_at(&[1; SECTOR_BYTES], 0).unwrap();
        file.sync_all().unwrap();
        disk.sync_dir().unwrap();
        disk.fail_sync(seed % 2);
        file.write_at(&[2; SECTOR_BYTES], 0).unwrap();
        if seed % 2 == 1 {
            disk.sync_dir().unwrap();
        }
        assert!(file.sync_data().is_err());
        let mut seen = [0];
        file.read_at(&mut seen, 0).unwrap();
        assert_eq!(seen, [2], "the cache still has what the medium may lack");
        file.write_at(&[3; SECTOR_BYTES], SECTOR_BYTES as u64).unwrap();
        file.sync_data().unwrap();
        disk.crash(&mut Rng::new(seed));
        let content = disk.content("a").unwrap();
        lost += u32::from(content[0] == 1);
        assert_eq!(content[SECTOR_BYTES], 3);
    }
    assert!((10..90).contains(&lost), "{lost}");
}

#[test]
fn a_full_disk_refuses_growth_and_only_growth() {
    let disk = disk_with_file(1);
    let file = disk.open("a").unwrap();
    disk.fail_space(1);
    assert_eq!(file.write_at(b"x", 0).unwrap_err().kind(), ErrorKind::StorageFull);
    file.write_at(b"x", 0).unwrap();
    disk.limit_space(Some(600));
    assert_eq!(file.allocate(601).unwrap_err().kind(), ErrorKind::StorageFull);
    file.allocate(600).unwrap();
    file.write_at(&[1; 600], 0).unwrap();
    assert_eq!(file.write_at(b"x", 600).unwrap_err().kind(), ErrorKind::StorageFull);
}

#[test]
fn short_writes_make_progress() {
    let disk = disk_with_file(1);
    disk.short_writes(true);
    let file = disk.open("a").unwrap();
    let lens: Vec<usize> = (0..50).map(|_| file.write_at(&[5; 100], 0).unwrap()).collect();
    assert!(lens.iter().all(|&len| (1..=100).contains(&len)));
    assert!(lens.iter().any(|&len| len < 100));
}

#[test]
fn without_power_nothing_works_until_the_crash() {
    let disk = disk_with_file(1);
    let file = disk.open("a").unwrap();
    disk.power_off_after(1);
    file.write_at(b"x", 0).unwrap();
    assert!(file.sync_data().is_err());
    assert!(file.read_at(&mut [0], 0).is_err());
    disk.crash(&mut Rng::new(0));
    assert!(file.read_at(&mut [0], 0).is_err(), "a handle from before the crash");
    assert!(disk.open("a").is_ok());
}

#[test]
fn locks_end_with_their_holder_or_a_crash() {
    let disk = SimDisk::new(0);
    let lock = disk.try_lock("l").unwrap().unwrap();
    assert!(disk.try_lock("l").unwrap().is_none());
    drop(lock);
    let before = disk.try_lock("l").unwrap().unwrap();
    disk.crash(&mut Rng::new(0));
    let _after = disk.try_lock("l").unwrap().unwrap();
    drop(before);
    assert!(disk.try_lock("l").unwrap().is_none(), "a dead holder gave away the new holder's lock");
}

#[test]
fn snapshots_flips_and_the_same_crash_twice() {
    let disk = disk_with_file(8);
    disk.open("a").unwrap().write_at(&[2; 8 * SECTOR_BYTES], 0).unwrap();
    let snapshot = disk.snapshot();
    disk.crash(&mut Rng::new(9));
    let once = disk.content("a");
    disk.restore(&snapshot);
    disk.crash(&mut Rng::new(9));
    assert_eq!(disk.content("a"), once);
    disk.restore(&snapshot);
    assert!(disk.flip_bit("a", 8));
    assert!(!disk.flip_bit("a", 1 << 40));
    assert_eq!(disk.content("a").unwrap()[..3], [2, 3, 2]);
}
