use super::*;

fn reading(cpu_ms: u64, resident: u64) -> Reading {
    Reading {
        user: Duration::from_millis(cpu_ms),
        system: Duration::from_millis(cpu_ms / 2),
        resident_bytes: resident,
        peak_bytes: resident,
        read_bytes: cpu_ms,
        written_bytes: 2 * cpu_ms,
    }
}

#[test]
fn a_line_of_stat_is_read_whatever_the_process_is_called() {
    let line = "42 (a) b (c) S 7 42 42 0 -1 4194560 1 0 0 0 250 50 0 0 20 0 1 0 1 2 3";
    let (user, system, parent) = procfs::times(line).unwrap();
    assert_eq!((user.as_millis() > 0, user > system, parent), (true, true, 7));
    assert_eq!(procfs::times("42 (a) S"), None);
    assert_eq!(procfs::value("VmHWM:\t  10 kB\nVmRSS:\t 12 kB\n", "VmRSS:"), Some(12));
}

#[test]
fn a_part_of_a_series_is_told_from_the_rest() {
    let at = Duration::from_secs;
    let samples = [(0, 0), (1, 500), (2, 1500), (3, 1600)];
    let samples = samples.map(|(s, cpu)| Sample { at: at(s), reading: reading(cpu, 10 * s) }).to_vec();
    let series = Series { label: "node".into(), samples };
    assert_eq!(series.cpu(at(1), at(2)), (Duration::from_secs(1), Duration::from_millis(500)));
    assert_eq!(series.moved(at(1), at(3)), (1100, 2200));
    assert_eq!(series.cpu(at(5), at(6)), (Duration::ZERO, Duration::ZERO));
    assert_eq!(series.cores()[1], (at(2), 1.5));
    assert_eq!((series.resident_bytes(), series.peak_bytes()), (30, 30));
}

#[test]
fn this_process_and_its_children_are_watched() {
    let mut child = std::process::Command::new("cat").stdin(std::process::Stdio::piped()).spawn().unwrap();
    let me = std::process::id();
    let watched = vec![
        Watched::new("alone", me),
        Watched { with_children: true, ..Watched::new("with children", me) },
        Watched::new("nobody", u32::MAX - 1),
    ];
    let watch = Watch::start(watched, Duration::from_millis(5)).unwrap();
    let before = read(&Watched::new("me", me)).unwrap();
    let mut now = before;
    // Work until the clock of this very process has moved, however busy the machine is.
    while now.cpu_since(&before) == (Duration::ZERO, Duration::ZERO) {
        now = read(&Watched::new("me", me)).unwrap();
    }
    let series = watch.stop();
    child.kill().unwrap();
    child.wait().unwrap();
    let [alone, children, nobody] = series.as_slice() else { panic!("{series:?}") };
    assert!(alone.samples.len() >= 2 && alone.peak_bytes() > 1 << 20);
    let first = |series: &Series| series.samples[0].reading.resident_bytes;
    assert!(first(children) > 0 && children.label == "with children");
    assert_eq!(nobody.samples, []);
}
