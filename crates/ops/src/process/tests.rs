use std::sync::mpsc;
use std::thread;

use super::*;

#[test]
fn memory_that_is_touched_is_counted() {
    const BYTES: usize = 64 * 1024 * 1024;
    let before = usage().unwrap();
    let memory = vec![1_u8; BYTES];
    let after = usage().unwrap();
    assert_eq!(std::hint::black_box(&memory).len(), BYTES);
    assert!(after.peak_resident_bytes >= before.resident_bytes + BYTES as u64 / 2, "{before:?} {after:?}");
    assert!(after.peak_resident_bytes >= after.resident_bytes / 2);
}

#[test]
fn processor_time_is_counted_for_process_and_thread() {
    let before = usage().unwrap();
    let (ready, is_ready) = mpsc::channel();
    let (finish, finished) = mpsc::channel::<()>();
    let worker = thread::Builder::new()
        .name("spinner".to_owned())
        .spawn(move || {
            // Work until the clock of this very process has moved, however busy the machine is.
            while usage().unwrap().cpu_since(&before) == (Duration::ZERO, Duration::ZERO) {}
            while thread_cpu().unwrap() < Duration::from_millis(1) {}
            ready.send(()).unwrap();
            let _ = finished.recv();
        })
        .unwrap();
    is_ready.recv().unwrap();
    let found = threads().unwrap();
    let spinner = found.iter().find(|thread| thread.name == "spinner").unwrap();
    assert_eq!(spinner.threads, 1);
    drop(finish);
    worker.join().unwrap();
    assert!(threads().unwrap().iter().all(|thread| thread.name != "spinner"));
}

#[test]
fn the_machine_is_described() {
    let machine = machine();
    assert!(machine.cores >= 1);
    assert!(machine.memory_bytes.unwrap() > 1024 * 1024);
    assert!(machine.kernel.starts_with("Linux "), "{machine:?}");
}

#[test]
fn fields_of_the_process_file_system_are_parsed() {
    let text = "Name:\tcat\nVmRSS:\t    2060 kB\nmodel name\t: Fast: 3 GHz\nVmBad: 9 MB\n";
    assert_eq!(procfs::kib_field(text, "VmRSS"), Some(2060 * 1024));
    assert_eq!(procfs::field(text, "model name"), Some("Fast: 3 GHz"));
    assert_eq!(procfs::kib_field(text, "VmBad"), None);
    assert_eq!(procfs::kib_field(text, "VmHWM"), None);
    assert_eq!(procfs::run_time("5000000000 1 2\n"), Some(Duration::from_secs(5)));
    assert_eq!(procfs::run_time(""), None);
}
