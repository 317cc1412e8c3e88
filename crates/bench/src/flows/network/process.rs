//! How a node is run: as a process of its own, or, for tests, inside this one.

use std::ffi::OsString;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tally_node::{Running, Settings};
use tally_ops::shutdown::Shutdown;

use crate::flows::FlowsError;

/// How nodes are run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Launcher {
    /// Each by this program, with these arguments and then its directory. It says `ready … rpc=ADDRESS
    /// http=ADDRESS` on a line of its own once it serves, and stops when its standard input ends.
    Program(PathBuf, Vec<OsString>),
    /// All inside this process: what they use cannot be told apart.
    Inside,
}

impl Launcher {
    /// This very program, which knows `node run`.
    ///
    /// # Errors
    /// When the system does not say which program this is.
    pub fn this_program() -> Result<Self, FlowsError> {
        let program =
            std::env::current_exe().map_err(FlowsError::system("cannot tell which program this is"))?;
        let arguments = ["--log", "error", "node", "run", "--until-input-ends"];
        Ok(Self::Program(program, arguments.map(OsString::from).to_vec()))
    }
}

/// A node that runs.
pub(super) enum Life {
    Process(Child),
    Inside(Box<Running>),
}

/// Where a node that runs listens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Addresses {
    pub(super) rpc: SocketAddr,
    pub(super) http: SocketAddr,
}

pub(super) fn start(
    launcher: &Launcher,
    label: &str,
    directory: &Path,
    settings: &Settings,
) -> Result<(Life, Addresses), FlowsError> {
    match launcher {
        Launcher::Inside => {
            let running = Running::start(directory, settings, &Shutdown::new())?;
            let (rpc, http) = (running.addresses().rpc, running.addresses().http);
            let http = http.ok_or_else(|| FlowsError::Unexpected(format!("{label} serves no metrics")))?;
            Ok((Life::Inside(Box::new(running)), Addresses { rpc, http }))
        }
        Launcher::Program(program, arguments) => {
            let log = directory.join("log");
            let errors =
                File::options().create(true).append(true).open(&log).map_err(FlowsError::file(&log))?;
            let mut child = Command::new(program)
                .args(arguments)
                .arg(directory)
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(errors)
                .spawn()
                .map_err(|source| FlowsError::Start { node: label.to_owned(), source })?;
            match ready(&mut child) {
                Some(addresses) => Ok((Life::Process(child), addresses)),
                None => {
                    let _ = child.kill();
                    let _ = child.wait();
                    Err(FlowsError::Ended { node: label.to_owned(), log })
                }
            }
        }
    }
}

/// Waits for the line that says where the node listens.
fn ready(child: &mut Child) -> Option<Addresses> {
    let lines = BufReader::new(child.stdout.take()?).lines();
    let line = lines.map_while(Result::ok).find(|line| line.starts_with("ready "))?;
    addresses(&line)
}

fn addresses(line: &str) -> Option<Addresses> {
    let find = |key: &str| line.split_whitespace().find_map(|word| word.strip_prefix(key)?.parse().ok());
    Some(Addresses { rpc: find("rpc=")?, http: find("http=")? })
}

impl Life {
    pub(super) fn pid(&self) -> u32 {
        match self {
            Self::Process(child) => child.id(),
            Self::Inside(_) => std::process::id(),
        }
    }

    pub(super) fn kill(self, label: &str) -> Result<(), FlowsError> {
        match self {
            Self::Process(mut child) => {
                let ended = child.kill().and_then(|()| child.wait());
                ended.map(drop).map_err(|source| FlowsError::Start { node: label.to_owned(), source })
            }
            Self::Inside(running) => Ok(running.stop()?),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_ends_is_told_from_one_that_serves() {
        let directory = tempfile::tempdir().unwrap();
        let text = "[network]\nfolder = \"x\"\n[messaging]\nlisten = \"127.0.0.1:1\"\n[rpc]\nlisten = \"127.0.0.1:1\"";
        let settings: Settings = toml::from_str(text).unwrap();
        let run = |script: &str| {
            let launcher = Launcher::Program("/bin/sh".into(), vec!["-c".into(), script.into()]);
            start(&launcher, "PartyA", directory.path(), &settings)
        };
        let error = run("echo not yet; exit 3").map(drop).unwrap_err();
        assert!(matches!(error, FlowsError::Ended { .. }), "{error}");
        let line = "ready PartyA messaging=127.0.0.1:1 rpc=127.0.0.1:2 http=127.0.0.1:3";
        let (life, addresses) = run(&format!("echo {line}; cat")).unwrap();
        assert_eq!((addresses.rpc.port(), addresses.http.port()), (2, 3));
        assert!(life.pid() != std::process::id());
        life.kill("PartyA").unwrap();
        assert!(super::addresses("ready PartyA rpc=nowhere http=127.0.0.1:3").is_none());
    }
}
