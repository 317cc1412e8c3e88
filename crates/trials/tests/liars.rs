//! Members that lie under their own keys, in both forms of settlement; `make sim LEDGER=liars` runs more seeds.

use tally_trials::processes::{self, LiarsTotal, Lie, Member};
use tally_trials::simulation;

#[test]
fn no_member_that_lies_harms_another() {
    let mut all = LiarsTotal::default();
    let mut institutions = 0;
    for seed in 1..=1000 {
        let run = processes::run_liars(seed);
        assert!(seed % 50 > 0 || processes::run_liars(seed) == run, "seed {seed} replays");
        institutions += u64::from(matches!(run.member, Member::Institution(..)));
        all.add(&run);
    }
    println!("{all}\n{:#?}\n{:#?}", all.told, all.reasons);
    // Each lie was told, and each check said its reason: a simulation in which nothing happens proves nothing.
    for lie in Lie::ALL {
        assert!(all.told.contains_key(lie), "nobody tried {lie:?}");
    }
    let reasons = [
        "NotCounted::Foreign",
        "NotCounted::UnknownBatch",
        "NotCounted::WrongLength",
        "NotCounted::WrongSignature",
        "NotCounted::NotAsked",
        "NotCounted::Contradiction",
        "DecideError::NotApproved",
        "DecideError::Twice",
        "DecideError::Order",
        "UpdateError::NotApproved",
        "UpdateError::BelowFloor",
        "UpdateError::DecidedTwice",
        "UpdateError::OrderOutOfPlace",
        "UpdateError::Gap",
        "LogFault::WrongTree",
        "LogFault::WrongSignature",
        "LogFault::TimeWentBack",
    ];
    for reason in reasons {
        assert!(all.reasons.contains_key(reason), "nobody said {reason}");
    }
    assert!(institutions > 100 && all.of_others > 1_000 && all.made_by_honest > 1_000, "{all}");
    assert!(all.without_consent > 20, "{all}");
}

#[test]
fn no_customer_or_institution_that_lies_is_believed_in_one_process() {
    let mut lies = std::collections::BTreeMap::new();
    let mut made = 0;
    for seed in 1..=300 {
        let run = simulation::run_liars(seed);
        assert!(seed % 50 > 0 || simulation::run_liars(seed) == run, "seed {seed} replays");
        made += run.made;
        for (lie, count) in run.lies {
            *lies.entry(lie).or_insert(0) += count;
        }
    }
    println!("{lies:#?}");
    for lie in simulation::Lie::ALL {
        assert!(lies.get(lie).is_some_and(|count| *count > 100), "{lie:?}: {lies:?}");
    }
    assert!(made > 10_000, "only {made} were made");
}

#[test]
fn what_seeds_found_stays_mended() {
    let split: [(&str, &[u64]); 7] = [
        ("a scheduler that started again freed a reference that had been used since", &[350]),
        ("a gateway handed one payment to two schedulers, and it was made twice", &[2, 4, 113, 123, 157]),
        ("two debits of one account, each covered, were approved together", &[101]),
        ("an approver waited for ever for what a decision in the sequence rests on", &[14]),
        ("a process that had been replaced stops because of a lie", &[109]),
        ("the judge counted what is set aside before a scheduler had read it", &[7430]),
        ("a gateway whose clock had gone back took answers to an earlier process of it for its own", &[5800]),
    ];
    for (what, seeds) in split {
        for seed in seeds {
            println!("{seed}: {what}");
            let _ = processes::run_liars(*seed);
        }
    }
    let in_one_process: [(&str, &[u64]); 3] = [
        ("the audit of one institution took another's reference for its own", &[17, 30, 124, 134, 172]),
        ("what was refused unsigned twice in one batch was told as it was decided first", &[1599]),
        ("who asked without time about what had expired was never told", &[4689]),
    ];
    for (what, seeds) in in_one_process {
        for seed in seeds {
            println!("{seed}: {what}");
            let _ = simulation::run_liars(*seed);
        }
    }
}
