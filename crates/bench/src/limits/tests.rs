use super::*;
use crate::result;

/// As quick as it gets: one round for each measurement.
fn quick(directory: &std::path::Path) -> Options {
    Options {
        total: Duration::ZERO,
        repetitions: 2,
        cores: 2,
        memory_bytes: 4 * 1024 * 1024,
        directory: directory.to_owned(),
        ..Options::default()
    }
}

fn limits_of(limits: &[Limit]) -> String {
    crate::report::limits(limits).text(false)
}

#[test]
fn every_limit_of_the_table_is_measured_once() {
    let directory = tempfile::tempdir().unwrap();
    let options = quick(directory.path());
    let mut shown = Vec::new();
    let limits = run_each(&options, |limit| shown.push(limit.name.clone())).unwrap();
    let names: Vec<_> = limits.iter().map(|limit| limit.name.clone()).collect();
    assert_eq!(names, shown);
    assert_eq!(limits.len(), Area::ALL.iter().map(|area| area.count()).sum::<usize>());

    // The documentation names every limit, and nothing else.
    let documented = include_str!("mod.rs").lines().filter_map(|line| line.strip_prefix("//! | `"));
    let mut expected: Vec<String> = documented
        .flat_map(|line| {
            let cell = line.split(" |").next().unwrap_or_default();
            cell.split(", ").map(|name| name.trim_matches('`').to_owned()).collect::<Vec<_>>()
        })
        .flat_map(|name| {
            let other = if name.starts_with("write") || name.starts_with("fdatasync") {
                "-overwrite"
            } else {
                ALL_CORES
            };
            [format!("{name}{other}"), name]
        })
        .collect();
    let mut names = names;
    expected.sort();
    names.sort();
    assert_eq!(names, expected);

    for limit in &limits {
        assert!(limit.value > 0.0 && limit.samples.len() == 2, "{limit:?}");
        assert_eq!(limit.cores, if limit.name.ends_with(ALL_CORES) { 2 } else { 1 });
    }
    let idle: Vec<_> =
        limits.iter().map(|limit| Limit { processor_share: Some(BUSY), ..limit.clone() }).collect();
    let table = limits_of(&idle);
    assert_eq!(
        table.lines().count(),
        1 + hash::COUNT + sign::COUNT + memory::COUNT + disk::COUNT + pay::COUNT,
        "{table}"
    );
    assert_eq!(find(&limits, "fdatasync-4k").unwrap().better, Better::Lower);

    let mut busy = idle;
    busy[3].processor_share = Some(0.5);
    assert_eq!(busy[3].idle(), 2.0 * busy[3].value);
    assert!(limits_of(&busy).ends_with("had 50.0 % of a processor. It can do more than this.\n"));

    let results = directory.path().join("results");
    let mut writer = ResultWriter::create(&results).unwrap();
    write(&limits, &options, &mut writer).unwrap();
    let records = result::read(&results).unwrap();
    assert_eq!(records.len(), limits.len());
    assert_eq!(records[0].metrics["value"].value, limits[0].value);
}

#[test]
fn options_that_leave_nothing_to_do_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let good = quick(directory.path());
    for options in [
        Options { areas: vec![], ..good.clone() },
        Options { repetitions: 0, ..good.clone() },
        Options { cores: 0, ..good.clone() },
        Options { memory_bytes: 64, areas: vec![Area::Memory], ..good.clone() },
    ] {
        assert!(matches!(run(&options), Err(LimitError::Options(_))), "{options:?}");
    }
    let absent =
        Options { directory: directory.path().join("absent"), areas: vec![Area::Disk], ..good.clone() };
    assert!(matches!(run(&absent), Err(LimitError::Disk { .. })));
    let huge = Options { memory_bytes: usize::MAX, areas: vec![Area::Memory], ..good };
    assert!(matches!(run(&huge), Err(LimitError::Memory { .. })));
}
