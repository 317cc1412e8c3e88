//! A network whose stages are processes, with brokers of its own.

pub(crate) use crate::said::{Said, tally};
use std::collections::BTreeMap;
use std::fmt::{self, Display};
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tally::client::Client;
use tally::layout::Layout;
use tally_log::kafka::broker::{Brokers, Setup};
use tally_log::kafka::{KafkaOptions, Tls};
use tempfile::TempDir;

/// How long anything may take before a test gives up.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// The stages, and how many processes of each there are.
pub(crate) const STAGES: [(&str, usize); 6] =
    [("scheduler", 2), ("approver", 2), ("assembler", 2), ("sequencer", 2), ("updater", 2), ("gateway", 2)];

/// Tries until it is so.
#[track_caller]
pub(crate) fn eventually<T>(what: impl Display, mut attempt: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = attempt() {
            return found;
        }
        assert!(Instant::now() < deadline, "in vain: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A network in a directory that goes when this does.
pub(crate) struct Network {
    // Fields end in this order: processes before the brokers that they use.
    processes: BTreeMap<(&'static str, usize), Process>,
    pub(crate) brokers: Brokers,
    /// How many brokers.
    pub(crate) nodes: u16,
    /// Whether the second process of each stage reaches them by a way that can be cut.
    far: bool,
    home: TempDir,
    directory: PathBuf,
    /// One network at a time: each is a dozen processes beside its brokers, and what a test is to find is that they go
    /// on, not what several such networks make of a small machine.
    _turn: MutexGuard<'static, ()>,
}

static TURN: Mutex<()> = Mutex::new(());

impl Network {
    /// The network of that plan on such brokers, its topics made and begun, and no process yet.
    pub(crate) fn new(plan: &str, setup: Setup) -> Self {
        // A test that failed has left nothing behind.
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let brokers = Brokers::start(setup).unwrap();
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("plan.toml");
        std::fs::write(&file, plan).unwrap();
        let directory = home.path().join("network");
        let network = Self {
            processes: BTreeMap::new(),
            brokers,
            nodes: setup.nodes,
            far: setup.far,
            home,
            directory,
            _turn: turn,
        };
        let made = tally()
            .args(["network", "init", "--weak-keys", "--plan"])
            .args([&file, &network.directory])
            .output()
            .unwrap();
        Said::from(made).well();
        let replicas = setup.nodes;
        network.write(&network.brokers.options(), replicas, "");
        let said = network.command(&["network", "apply", network.directory.to_str().unwrap()]).well();
        assert!(said.contains("is the beginning of the topics"), "{said}");
        network
    }

    /// Writes cluster.toml, with `more` sections of it.
    pub(crate) fn write(&self, options: &KafkaOptions, replicas: u16, more: &str) {
        let brokers: Vec<String> = options.brokers.iter().map(|broker| format!("{broker:?}")).collect();
        let tls = options.tls.as_ref().map_or_else(String::new, |Tls { authority, certificate, key }| {
            format!("tls = {{ authority = {authority:?}, certificate = {certificate:?}, key = {key:?} }}\n")
        });
        let text = format!(
            "[layout]\nschedulers = 2\nassemblers = 2\ngateways = 3\n\
             [topics]\nreplicas = {replicas}\nin_sync = {}\n\
             [witnesses]\nrequired = 1\n\
             [stages]\nsnapshot_every_ms = 1000\ntakeover_after_ms = 1000\n{more}\n\
             [kafka]\nbrokers = [{}]\nsession_timeout_ms = 2000\nsync_timeout_ms = 2000\nrequest_timeout_ms = 5000\n{tls}",
            replicas / 2 + 1,
            brokers.join(", ")
        );
        std::fs::write(self.layout().cluster(), text).unwrap();
    }

    pub(crate) fn layout(&self) -> Layout {
        Layout::new(&self.directory)
    }

    /// Runs a command to its end.
    pub(crate) fn command(&self, arguments: &[&str]) -> Said {
        tally().args(arguments).output().unwrap().into()
    }

    /// Audits the ledger in the topics.
    pub(crate) fn audit(&self) -> String {
        self.command(&["audit", "--log", "kafka", self.directory.to_str().unwrap()]).well()
    }

    /// Starts every process.
    pub(crate) fn start_all(&mut self) {
        for (stage, count) in STAGES {
            for number in 0..count {
                self.start(stage, number);
            }
        }
    }

    /// Starts a process that does not run.
    pub(crate) fn start(&mut self, stage: &'static str, number: usize) {
        let log = self.home.path().join(format!("{stage}-{number}.log"));
        let log = std::fs::OpenOptions::new().create(true).append(true).open(log).unwrap();
        let mut command = tally();
        command.args(["--log", "info", "stage", stage, "--network"]).arg(&self.directory);
        if stage == "gateway" {
            command.args(["--set", "http.answer_timeout_ms=3000"]);
        }
        if self.far && number == 1 {
            command.args(["--set", &format!("kafka.brokers={:?}", self.brokers.far_options().brokers)]);
        }
        let process = Process::spawn(command, &format!("{stage} {number}"), log);
        assert!(self.processes.insert((stage, number), process).is_none());
    }

    pub(crate) fn process(&mut self, stage: &'static str, number: usize) -> &mut Process {
        self.processes.get_mut(&(stage, number)).unwrap()
    }

    /// SIGKILL, at once.
    pub(crate) fn kill(&mut self, stage: &'static str, number: usize) {
        drop(self.processes.remove(&(stage, number)).unwrap());
    }

    /// SIGTERM; how it ended.
    pub(crate) fn stop(&mut self, stage: &'static str, number: usize) -> Option<i32> {
        self.processes.remove(&(stage, number)).unwrap().stop()
    }

    /// What every process has written to its log.
    pub(crate) fn logs(&self) -> BTreeMap<String, String> {
        let log = |(stage, number): &(&str, usize)| {
            let text = std::fs::read_to_string(self.home.path().join(format!("{stage}-{number}.log")));
            (format!("{stage} {number}"), text.unwrap())
        };
        self.processes.keys().map(log).collect()
    }

    /// Asserts that every process runs, and that no shard or gateway of it stopped since the logs were such.
    #[track_caller]
    pub(crate) fn all_run_since(&mut self, before: &BTreeMap<String, String>) {
        for ((stage, number), process) in &mut self.processes {
            assert!(process.runs(), "{stage} {number} ended");
            assert_eq!(process.metric("tally_stage_failed_shards"), Some(0.0), "{stage} {number}");
        }
        for (process, log) in self.logs() {
            let stops = |line: &&str| {
                ["the shard stopped", "the gateway stopped", "cannot go on", "invariant"]
                    .iter()
                    .any(|what| line.contains(what))
            };
            let before = before.get(&process).map_or(0, String::len);
            assert_eq!(log[before..].lines().find(stops), None, "{process}");
        }
    }

    /// A client of each gateway that runs.
    pub(crate) fn clients(&self) -> Vec<Client> {
        let token = std::fs::read_to_string(self.layout().token()).unwrap().trim().to_owned();
        let urls = self.processes.values().filter_map(|process| process.http.as_deref());
        urls.map(|url| Client::new(url, Some(token.clone()), None).unwrap()).collect()
    }

    /// A client of a gateway that runs.
    pub(crate) fn client(&self) -> Client {
        self.clients().remove(0)
    }

    /// Waits until every process is ready, all at the same time: a process that joins may take over from another.
    pub(crate) fn until_ready(&self) {
        let lacking = || {
            let lacking = self.processes.iter().filter(|(_, process)| !process.is_ready());
            lacking.map(|(name, _)| name).collect::<Vec<_>>()
        };
        let what = fmt::from_fn(|f| write!(f, "all are ready, without {:?}", lacking()));
        eventually(what, || lacking().is_empty().then_some(()));
    }
}

/// A stage's process; killed when this goes.
pub(crate) struct Process {
    child: Child,
    _out: BufReader<ChildStdout>,
    metrics: String,
    http: Option<String>,
}

impl Process {
    /// Starts a stage, and waits until it has said where it answers.
    #[track_caller]
    pub(crate) fn spawn(mut command: Command, name: &str, log: File) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(log).spawn().unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        let address = |name: &str| {
            let (_, after) = line.split_once(name)?;
            Some(after.split(|c: char| c == ';' || c.is_whitespace()).next()?.to_owned())
        };
        let metrics = address("metrics on ").unwrap_or_else(|| panic!("{name} said {line:?}"));
        let http = address("listens on ");
        Self { child, _out: out, metrics, http }
    }

    /// SIGTERM; how it ended.
    pub(crate) fn stop(mut self) -> Option<i32> {
        self.signal("TERM");
        self.child.wait().unwrap().code()
    }

    /// Sends it a signal.
    pub(crate) fn signal(&self, name: &str) {
        let sent = Command::new("kill").arg(format!("-{name}")).arg(self.child.id().to_string()).status();
        assert!(sent.unwrap().success());
    }

    /// Whether it has not ended.
    pub(crate) fn runs(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    pub(crate) fn is_ready(&self) -> bool {
        get(&format!("{}/ready", self.metrics)).is_some_and(|(status, _)| status == 200)
    }

    /// A metric's value, summed over its labels.
    pub(crate) fn metric(&self, name: &str) -> Option<f64> {
        let (_, text) = get(&format!("{}/metrics", self.metrics))?;
        let values = text.lines().filter(|line| line.starts_with(name));
        Some(values.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The status and text of an answer over HTTP/1.0.
fn get(url: &str) -> Option<(u16, String)> {
    use std::io::Write;
    let (authority, path) = url.strip_prefix("http://")?.split_once('/')?;
    let mut stream = std::net::TcpStream::connect(authority).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
    write!(stream, "GET /{path} HTTP/1.0\r\nHost: {authority}\r\n\r\n").ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    let (head, body) = text.split_once("\r\n\r\n")?;
    Some((head.split(' ').nth(1)?.parse().ok()?, body.to_owned()))
}

impl Said {
    /// The standard output of a command that went well.
    #[track_caller]
    pub(crate) fn well(self) -> String {
        assert_eq!(self.code, Some(0), "{self:?}");
        self.out
    }
}
