use super::*;

fn quick() -> Options {
    Options {
        repetitions: 2,
        repetition: Duration::ZERO,
        batch: 64,
        batches: 5,
        accounts: 50,
        payers: 8,
        seed: 3,
    }
}

#[test]
fn every_stage_is_measured_for_both_kinds_of_payment() {
    let options = quick();
    let mut shown = 0;
    let measured = run_each(&options, |_| shown += 1);
    assert_eq!(shown, measured.len());
    let of = |legs, signed| measured.iter().filter(|m| m.legs == legs && m.signed == signed).count();
    assert_eq!((of(2, false), of(4, false), of(2, true), of(4, true)), (6, 8, 2, 2));
    for one in &measured {
        assert!(one.rates.len() == 2 && one.rate() > 0.0, "{one:?}");
        let record = one.record(&options, &[]);
        assert_eq!(record.check(), Ok(()));
        assert_eq!(record.limit, None, "no share of a limit that was not measured");
        assert_eq!(record.published.len(), 1);
    }
}

/// The bytes that the limits count are those of the batches.
#[test]
fn the_work_of_a_stage_is_that_of_its_batches() {
    for (mix, legs) in [(Mix::Inside, 2), (Mix::Between, 4)] {
        for payers in [0, 8] {
            let options = quick();
            let workload = options.workload(mix, payers);
            let inputs = Inputs::make(&workload, 1, 64);
            let signed = payers > 0;
            let mut record = Vec::new();
            inputs.transactions[0].encode(&mut record);
            let per_payment = |bytes: usize| bytes as f64 / 64.0;
            let generator = Stage::Generator.work(legs, signed);
            assert!((per_payment(record.len()) - generator.bytes).abs() < 1.0);

            let mut scheduler = Scheduler::new(Arc::clone(&inputs.network), 0, 0, REMEMBER, SECRET);
            let scheduled = scheduler.step(NOW, inputs.transactions[0].clone());
            let mut sent = record.len();
            for proposals in scheduled.asked.proposals.iter().filter(|proposals| !proposals.is_empty()) {
                record.clear();
                proposals.encode(&mut record);
                sent += record.len();
            }
            record.clear();
            scheduled.asked.participation.expect("the batch was accepted").encode(&mut record);
            sent += record.len();
            let work = Stage::Scheduler.work(legs, signed);
            // Versions, sources and counts of the batches are some 60 bytes each, here for only 64 payments.
            assert!((per_payment(sent) - work.bytes).abs() < 4.0, "{} {work:?}", per_payment(sent));

            let answered = |stage: Stage| stage.work(legs, signed).bytes;
            record.clear();
            inputs.approvals[PAYING][0].encode(&mut record);
            assert!((per_payment(record.len()) - answered(Stage::Approver)).abs() < 2.0, "{}", record.len());
            record.clear();
            inputs.decisions[0].encode(&mut record);
            assert!((per_payment(record.len()) - answered(Stage::Assembler)).abs() < 2.0, "{}", record.len());
        }
    }
}

#[test]
fn the_network_needs_what_its_stages_need() {
    let inside = network_work(Mix::Inside, false);
    let between = network_work(Mix::Between, false);
    assert_eq!(inside.hashes, 6.0 + 6.0 + 2.0 + 2.0);
    assert_eq!(between.hashes, 12.0 + 3.0 * 8.0 + 6.0 + 2.0);
    assert_eq!(network_work(Mix::Mixed(50), false).hashes, (inside.hashes + between.hashes) / 2.0);
    assert_eq!(network_work(Mix::Inside, true).verified, 1.0, "one process verifies a signature once");
    assert_eq!(Stage::Approver.work(2, true).verified, 1.0, "and an approver's own process once more");
    assert_eq!(Stage::Approver.work(4, true).verified, 0.5, "of what its institution debits");
}

/// An approver answers no batch a second time, and an updater applies no decision twice: rounds that repeat the same
/// numbers would measure nothing, and say that it went fast.
#[test]
fn rounds_that_do_nothing_are_found_out() {
    let workload = quick().workload(Mix::Inside, 0);
    let inputs = Inputs::make(&workload, 2, 64);
    let rounds = inputs.rounds(PAYING);
    let updater = Updater::new(inputs.accounts(PAYING), Aliases::default(), 0);
    let movements = Movements::of(&rounds, updater.accounts());
    let mut updating = Updating { updater, rounds, movements, done: 0, len: inputs.len };
    for _ in 0..3 {
        assert_eq!(stopwatch::Rounds::round(&mut updating, &mut Stopwatch::default()), 128);
        stopwatch::Rounds::check(&updating);
    }
    updating.done += 1;
    let skipped = std::panic::AssertUnwindSafe(|| stopwatch::Rounds::check(&updating));
    let found = std::panic::catch_unwind(skipped).unwrap_err();
    let found = found.downcast_ref::<String>().unwrap();
    assert!(found.contains("the benchmark of the state updater is wrong"), "{found}");
}
