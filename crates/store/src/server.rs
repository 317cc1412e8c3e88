//! A PostgreSQL server of one's own, for tests and benchmarks, from Debian's package.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// How long the server may take to answer.
const START: Duration = Duration::from_secs(60);

/// Why there is no server.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The package is not installed.
    #[error(
        "no PostgreSQL server in /usr/lib/postgresql/*/bin; run scripts/setup --test, or: apt-get install postgresql"
    )]
    NotInstalled,
    /// A file or a process could not be made.
    #[error("the PostgreSQL server could not be set up")]
    Io(#[from] io::Error),
    /// A program of the server failed.
    #[error("{program} of PostgreSQL failed:\n{output}")]
    Failed {
        /// Which program.
        program: &'static str,
        /// What it said.
        output: String,
    },
}

/// A server with its own data, on a socket of a temporary directory and a free port of the loopback
/// interface. It stops, and its data is removed, when this is dropped or when the process ends in whatever way.
///
/// PostgreSQL refuses to run as root; then it runs as `postgres`, or as `nobody`.
#[derive(Debug)]
pub struct PostgresServer {
    directory: TempDir,
    binaries: PathBuf,
    user: Option<(u32, u32)>,
    port: u16,
    settings: Vec<String>,
    server: Mutex<Option<Child>>,
    /// Stops the server when its input ends.
    watch: Child,
}

impl PostgresServer {
    /// A new server.
    ///
    /// # Errors
    /// [`ServerError`] says what is missing.
    pub fn start() -> Result<Self, ServerError> {
        Self::start_with(&[])
    }

    /// A new server with settings such as `max_connections=20`.
    ///
    /// # Errors
    /// [`ServerError`] says what is missing.
    pub fn start_with(settings: &[&str]) -> Result<Self, ServerError> {
        Self::start_with_files(settings, &[])
    }

    /// A new server with settings, and files in its data directory that they name, such as certificates.
    ///
    /// # Errors
    /// [`ServerError`] says what is missing.
    pub fn start_with_files(settings: &[&str], files: &[(&str, &str)]) -> Result<Self, ServerError> {
        let binaries = binaries()?;
        let user = unprivileged()?;
        let directory = tempfile::Builder::new().prefix("tally-postgres-").tempdir()?;
        if let Some((user, group)) = user {
            chown(directory.path(), Some(user), Some(group))?;
        }
        let data = directory.path().join("data");
        let mut initdb = command(&binaries.join("initdb"), user);
        initdb.arg("--pgdata").arg(&data);
        // Only whoever may enter the directory of the socket is let in; the port takes no one without a password.
        initdb.args(["--username=tally", "--auth-local=trust", "--auth-host=scram-sha-256"]);
        initdb.args(["--encoding=UTF8", "--no-locale", "--no-sync"]);
        run("initdb", initdb.current_dir(directory.path()))?;
        for (name, content) in files {
            let path = data.join(name);
            fs::write(&path, content)?;
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600))?;
            if let Some((user, group)) = user {
                chown(&path, Some(user), Some(group))?;
            }
        }
        let script = "trap '' INT TERM HUP; cat >/dev/null; \
                      if read -r pid <\"$1/data/postmaster.pid\" 2>/dev/null; then \
                      kill -QUIT \"$pid\" 2>/dev/null && while kill -0 \"$pid\" 2>/dev/null; do sleep 0.02; done; fi; \
                      rm -rf \"$1\"";
        let mut watch = command(Path::new("/bin/sh"), user);
        watch.args(["-c", script, "sh"]).arg(directory.path()).stdin(Stdio::piped());
        let watch = watch.stdout(Stdio::null()).stderr(Stdio::null()).process_group(0).spawn()?;
        let settings = settings.iter().map(|setting| (*setting).to_owned()).collect();
        let port = tally_ops::ports::free(1)?[0];
        let server = Self { directory, binaries, user, port, settings, server: Mutex::new(None), watch };
        server.restart()?;
        Ok(server)
    }

    /// The one server that this process shares; each test takes its own schema.
    ///
    /// # Panics
    /// When there is none: tests are never skipped.
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<PostgresServer> = OnceLock::new();
        SHARED.get_or_init(|| match Self::start() {
            Ok(server) => server,
            Err(error) => panic!("{error}"),
        })
    }

    /// How to connect to its database as its superuser.
    pub fn url(&self) -> String {
        let socket = self.directory.path().display();
        format!("host={socket} port={} user=tally dbname=postgres", self.port)
    }

    /// How to connect over TCP to a host name that leads to this machine, as a role that has a password.
    pub fn url_over_tcp(&self, host: &str, role: &str, password: &str) -> String {
        format!("host={host} port={} user={role} password={password} dbname=postgres", self.port)
    }

    /// Runs SQL as the superuser.
    ///
    /// # Errors
    /// [`ServerError::Failed`] with what the server said.
    pub fn run(&self, sql: &str) -> Result<(), ServerError> {
        let mut psql = command(&self.binaries.join("psql"), self.user);
        psql.args([
            "--no-psqlrc",
            "--quiet",
            "--set=ON_ERROR_STOP=1",
            "--username=tally",
            "--dbname=postgres",
        ]);
        psql.args(["--port", &self.port.to_string(), "--host"]).arg(self.directory.path());
        run("psql", psql.args(["--command", sql]).current_dir(self.directory.path()))
    }

    /// The server's process, while it runs.
    pub fn process(&self) -> Option<u32> {
        self.server().as_ref().map(Child::id)
    }

    fn server(&self) -> MutexGuard<'_, Option<Child>> {
        self.server.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Kills the server with SIGKILL, as a crash would; its sessions end with it.
    ///
    /// # Errors
    /// When the process cannot be waited for.
    pub fn kill(&self) -> io::Result<()> {
        if let Some(mut child) = self.server().take() {
            child.kill()?;
            child.wait()?;
        }
        Ok(())
    }

    /// Starts the server on its data after [`kill`](Self::kill), and waits until it answers.
    ///
    /// # Errors
    /// [`ServerError::Failed`] with the server's log.
    pub fn restart(&self) -> Result<(), ServerError> {
        let deadline = Instant::now() + START;
        loop {
            let failed = match self.attempt(deadline) {
                Ok(()) => return Ok(()),
                Err(failed) => failed,
            };
            // Processes of a killed server take a moment to notice.
            let busy =
                matches!(&failed, ServerError::Failed { output, .. } if output.contains("still in use"));
            if !busy || Instant::now() > deadline {
                return Err(failed);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn attempt(&self, deadline: Instant) -> Result<(), ServerError> {
        let log = self.directory.path().join("log");
        let file = File::create(&log)?;
        let mut postgres = command(&self.binaries.join("postgres"), self.user);
        postgres.arg("-D").arg(self.directory.path().join("data")).arg("-k").arg(self.directory.path());
        postgres.args(["-h", "127.0.0.1", "-p", &self.port.to_string()]);
        for setting in &self.settings {
            postgres.args(["-c", setting]);
        }
        postgres
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file)
            .current_dir(self.directory.path());
        let mut child = postgres.process_group(0).spawn()?;
        let failed = |program| {
            let mut output = String::new();
            File::open(&log).and_then(|mut file| file.read_to_string(&mut output))?;
            Err(ServerError::Failed { program, output })
        };
        loop {
            if child.try_wait()?.is_some() {
                return failed("postgres");
            }
            let mut ready = Command::new(self.binaries.join("pg_isready"));
            ready.args(["-q", "-p", &self.port.to_string(), "-h"]).arg(self.directory.path());
            if ready.status()?.success() {
                break;
            }
            if Instant::now() > deadline {
                child.kill()?;
                child.wait()?;
                return failed("postgres");
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        *self.server() = Some(child);
        Ok(())
    }
}

impl Drop for PostgresServer {
    fn drop(&mut self) {
        // The end of its input makes the watch stop the server and remove the data.
        drop(self.watch.stdin.take());
        if let Some(mut child) = self.server().take() {
            let _ = child.wait();
        }
        let _ = self.watch.wait();
    }
}

/// Where the newest installed server is.
fn binaries() -> Result<PathBuf, ServerError> {
    let versions = fs::read_dir("/usr/lib/postgresql").map_err(|_| ServerError::NotInstalled)?;
    let installed = versions.filter_map(|entry| {
        let version: u32 = entry.as_ref().ok()?.file_name().to_str()?.parse().ok()?;
        let binaries = entry.ok()?.path().join("bin");
        binaries.join("initdb").exists().then_some((version, binaries))
    });
    installed.max().map(|(_, binaries)| binaries).ok_or(ServerError::NotInstalled)
}

/// User and group to run as when this process is root's.
fn unprivileged() -> io::Result<Option<(u32, u32)>> {
    use std::os::unix::fs::MetadataExt as _;
    if fs::metadata("/proc/self")?.uid() != 0 {
        return Ok(None);
    }
    let users = fs::read_to_string("/etc/passwd")?;
    let find = |name| {
        users.lines().find_map(|line| {
            let mut fields = line.split(':');
            (fields.next()? == name).then_some(())?;
            let mut numbers = fields.skip(1).map(str::parse);
            Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
        })
    };
    let found = find("postgres").or_else(|| find("nobody"));
    found
        .map(Some)
        .ok_or_else(|| io::Error::other("PostgreSQL does not run as root, and there is no other user"))
}

fn command(program: &Path, user: Option<(u32, u32)>) -> Command {
    let mut command = Command::new(program);
    if let Some((user, group)) = user {
        command.uid(user).gid(group);
    }
    command
}

fn run(program: &'static str, command: &mut Command) -> Result<(), ServerError> {
    let output = command.stdin(Stdio::null()).output()?;
    if output.status.success() {
        return Ok(());
    }
    let output = [output.stdout, output.stderr].concat();
    Err(ServerError::Failed { program, output: String::from_utf8_lossy(&output).into_owned() })
}
