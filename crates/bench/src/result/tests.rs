use std::fs;

use super::*;
use crate::published;

fn example() -> Record {
    let before = process::usage().unwrap();
    let mut recorder = Recorder::new();
    recorder.record_latency(Duration::from_micros(1500), 10);
    recorder.record_latency(Duration::from_micros(9000), 1);
    Record::new("settlement-pipeline", "scheduler")
        .setting("batch", 1024)
        .setting("durable", true)
        .setting("log", "file")
        .sampled("throughput", vec![900.5, 1000.0, 1100.0], "tx/s", Better::Higher)
        .metric("bytes", 1e9, "B", Better::Lower)
        .latency(&recorder)
        .against(&Ceiling { name: "ed25519-verify-batch".into(), rate: 4000.0 }, 1000.0)
        .published(published::figure("rln-scheduler-single").unwrap())
        .used_since(&before)
        .unwrap()
}

#[test]
fn what_is_written_is_read_back() {
    let directory = tempfile::tempdir().unwrap();
    let nested = directory.path().join("a/b");
    let mut writer = ResultWriter::create(&nested).unwrap();
    let first = example();
    let second = Record::new("limits", "memcpy");
    writer.append(&first).unwrap();
    writer.append(&second).unwrap();
    assert_eq!(read(writer.path()).unwrap(), [first.clone(), second.clone()]);
    fs::write(nested.join("notes.txt"), "not results").unwrap();
    assert_eq!(read(&nested).unwrap(), [first, second]);
    assert!(matches!(read(directory.path()), Err(ResultError::Nothing { .. })));
    assert!(matches!(read(&nested.join("absent")), Err(ResultError::Io { action: "read", .. })));
}

#[test]
fn records_beyond_their_limit_are_written_and_remembered() {
    let directory = tempfile::tempdir().unwrap();
    let mut writer = ResultWriter::create(directory.path()).unwrap();
    writer.append(&example()).unwrap();
    assert_eq!(writer.beyond(), []);
    let limit = Ceiling { name: "memcpy".into(), rate: 10.0 };
    let wrong = Record::new("settlement", "inside").against(&limit, 11.0);
    writer.append(&wrong).unwrap();
    let [found] = writer.beyond() else { panic!("{:?}", writer.beyond()) };
    assert_eq!((found.benchmark.as_str(), found.figure, found.value), ("settlement inside", 11.0, 10.0));
    assert_eq!(read(writer.path()).unwrap().len(), 2, "what was found is kept, so that it can be looked at");
}

#[test]
fn of_two_limits_the_nearer_one_counts() {
    let ceiling = |name: &str, rate| Ceiling { name: name.to_owned(), rate };
    let record =
        Record::new("x", "y").against(&ceiling("far", 10.0), 1.0).against(&ceiling("near", 2.0), 1.0);
    assert_eq!(record.against(&ceiling("farthest", 99.0), 1.0).limit.unwrap().name, "near");
}

#[test]
fn a_record_holds_what_it_was_given() {
    let record = example();
    assert_eq!(record.metrics["throughput"].value, 1000.0);
    assert_eq!(record.limit.as_ref().unwrap().share, 0.25);
    assert_eq!(
        record.published[0],
        PublishedValue { id: "rln-scheduler-single".to_owned(), value: 11_019.0 }
    );
    assert_eq!(record.key(), "settlement-pipeline scheduler batch=1024 durable=true log=\"file\"");
    assert_eq!(record.recorder().unwrap().unwrap().count(), 11);
    assert_eq!(record.metrics["latency_p99"].better, Better::Lower);
    assert!(record.rss_bytes > 0);
    let none =
        Record::new("x", "y").sampled("throughput", vec![], "tx/s", Better::Higher).latency(&Recorder::new());
    assert!(none.metrics.is_empty() && none.samples.is_empty() && none.latency.is_none());
    let used = Record { cpu_user_s: 1.5, cpu_system_s: 0.5, ..none };
    assert_eq!(used.cpu_per(1000), Some(Duration::from_millis(2)));
    assert_eq!(used.cpu_per(0), None);
}

#[test]
fn a_contradiction_is_neither_written_nor_read() {
    let directory = tempfile::tempdir().unwrap();
    let mut writer = ResultWriter::create(directory.path()).unwrap();
    type Change = fn(&mut Record);
    let broken: [(&str, Change); 6] = [
        ("schema 2 is not 1", |record| record.schema = 2),
        ("experiment or name is empty", |record| record.name.clear()),
        ("throughput is not a finite number", |record| {
            record.samples.get_mut("throughput").unwrap().push(f64::NAN);
        }),
        ("samples of `other`", |record| {
            record.samples.insert("other".to_owned(), vec![1.0]);
        }),
        ("the percentiles are not those", |record| record.latency.as_mut().unwrap().percentiles.p50_us = 1),
        ("latency: the histogram is not base64", |record| {
            record.latency.as_mut().unwrap().histogram.push('?');
        }),
    ];
    let file = directory.path().join("results-edited.jsonl");
    for (expected, change) in broken {
        let mut record = example();
        change(&mut record);
        let error = writer.append(&record).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");

        // JSON has no way to write what is not a number; everything else must be refused on reading as well.
        let text = serde_json::to_string(&record).unwrap();
        fs::write(&file, format!("{}\n{text}\n", serde_json::to_string(&example()).unwrap())).unwrap();
        let error = read(&file).unwrap_err().to_string();
        assert!(error.contains("results-edited.jsonl:2: "), "{error}");
    }
    assert!(read(writer.path()).unwrap().is_empty());
}

#[test]
fn a_line_of_another_form_is_refused_by_its_number() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("results-x.jsonl");
    let good = serde_json::to_string(&example()).unwrap();
    let cases = [
        "".to_owned(),
        "{}".to_owned(),
        good[..good.len() - 1].to_owned(),
        good.replacen("{", "{\"surprise\":1,", 1),
        good.replacen("\"better\":\"lower\"", "\"better\":\"sideways\"", 1),
        good.replacen("Z\"", "\"", 1),
        format!("{good} {good}"),
        "\u{0}".to_owned(),
    ];
    for case in cases {
        fs::write(&file, format!("{good}\n{good}\n{case}\n")).unwrap();
        let error = read(&file).unwrap_err();
        assert!(matches!(error, ResultError::Form { line: 3, .. }), "{case}: {error}");
    }
    fs::write(&file, format!("{good}\n{}", " ".repeat(file::MAX_LINE_BYTES + 1))).unwrap();
    assert!(matches!(read(&file), Err(ResultError::TooLong { line: 2, .. })));
}

#[test]
fn moments_are_rfc_3339() {
    let now = Timestamp::now();
    let text = serde_json::to_string(&now).unwrap();
    assert_eq!(text.len(), "\"2025-01-31T12:00:00Z\"".len());
    assert_eq!(serde_json::from_str::<Timestamp>(&text).unwrap(), now);
    let leap: Timestamp = serde_json::from_str("\"2024-02-29T23:59:59Z\"").unwrap();
    assert_eq!(leap.compact(), "20240229T235959Z");
    assert!(serde_json::from_str::<Timestamp>("\"2023-02-29T00:00:00Z\"").is_err());
}
