//! A node's process.

use std::ffi::OsString;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use tally_ops::shutdown::Shutdown;

use crate::chain::ChainBenchError;

/// How long a node may take until it serves, or until it has ended.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often a process is looked at.
const EVERY: Duration = Duration::from_millis(5);

/// The program whose commands run nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// The file.
    pub file: PathBuf,
    /// What comes before each command.
    pub before: Vec<OsString>,
}

impl Program {
    /// This very program, which knows `chain run` and `chain import`, without log lines below errors.
    ///
    /// # Errors
    /// When the system does not say which program this is.
    pub fn this() -> Result<Self, ChainBenchError> {
        let file =
            std::env::current_exe().map_err(ChainBenchError::system("cannot tell which program this is"))?;
        Ok(Self { file, before: ["--log", "error"].map(OsString::from).to_vec() })
    }

    /// A command of it, with standard error going to a file.
    pub(in crate::chain) fn command(&self, words: &[&str], log: &Path) -> Result<Command, ChainBenchError> {
        let errors =
            File::options().create(true).append(true).open(log).map_err(ChainBenchError::file(log))?;
        let mut command = Command::new(&self.file);
        command.args(&self.before).args(words).stderr(errors);
        Ok(command)
    }
}

/// The process of a node that runs. It says `ready … http=ADDRESS` on a line of its own once it serves, and stops when its
/// standard input ends, so that it never outlives this process, however that ends.
#[derive(Debug)]
pub(super) struct Process {
    child: Child,
    http: SocketAddr,
}

impl Process {
    pub(super) fn start(
        program: &Program,
        label: &str,
        directory: &Path,
        log: &Path,
        stop: &Shutdown,
    ) -> Result<Self, ChainBenchError> {
        let mut child = program
            .command(&["chain", "run", "--until-input-ends"], log)?
            .arg(directory)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|source| ChainBenchError::Start { node: label.to_owned(), source })?;
        let http = child.stdout.take().and_then(|output| ready(output, stop));
        match http {
            Some(http) => Ok(Self { child, http }),
            None => {
                let _ = child.kill();
                let ended = child.wait();
                if stop.is_requested() {
                    return Err(ChainBenchError::Stopped);
                }
                let status = ended.map_or_else(|error| error.to_string(), |status| status.to_string());
                Err(ChainBenchError::Ended { node: label.to_owned(), status, log: log.to_owned() })
            }
        }
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(super) fn http(&self) -> SocketAddr {
        self.http
    }

    /// Ends it in order: its input ends.
    pub(super) fn end(mut self, label: &str) -> Result<(), ChainBenchError> {
        drop(self.child.stdin.take());
        let began = Instant::now();
        while began.elapsed() < PATIENCE {
            if let Ok(Some(_)) = self.child.try_wait() {
                return Ok(());
            }
            std::thread::sleep(EVERY);
        }
        Err(ChainBenchError::Late { what: format!("{label} to end"), seconds: PATIENCE.as_secs() })
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Nothing more is wanted of it, and its directory goes next.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits for the line that says where the node listens; a thread goes on reading, so that the node never waits for a reader.
fn ready(output: ChildStdout, stop: &Shutdown) -> Option<SocketAddr> {
    let (tell, told) = mpsc::channel();
    let read = move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            if let Some(address) = address(&line) {
                // Who waits no more needs no address.
                let _ = tell.send(address);
            }
        }
    };
    std::thread::Builder::new().name("output".to_owned()).spawn(read).ok()?;
    let began = Instant::now();
    while began.elapsed() < PATIENCE && !stop.is_requested() {
        match told.recv_timeout(EVERY) {
            Ok(address) => return Some(address),
            Err(mpsc::RecvTimeoutError::Timeout) => {}
            Err(mpsc::RecvTimeoutError::Disconnected) => return None,
        }
    }
    None
}

fn address(line: &str) -> Option<SocketAddr> {
    let rest = line.strip_prefix("ready ")?;
    rest.split_whitespace().find_map(|word| word.strip_prefix("http=")?.parse().ok())
}

/// Waits for a process to end by itself; it is killed when somebody asks to stop.
pub(in crate::chain) fn wait(mut child: Child, stop: &Shutdown) -> Result<ExitStatus, ChainBenchError> {
    let failed = ChainBenchError::system("cannot wait for a process");
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Ok(status),
            Ok(None) if stop.wait_timeout(EVERY) => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(ChainBenchError::Stopped);
            }
            Ok(None) => {}
            Err(error) => return Err(failed(error)),
        }
    }
}
