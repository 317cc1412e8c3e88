//! `tally network run DIR` for a network of nodes: each is a process of its own.

use super::{Ended, print};
use crate::flows_network::layout::{NetworkDirectory, NodeDirectory};
use anyhow::{Context, bail};
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};
use tally_ops::shutdown::Shutdown;

/// How long a node may take to serve.
const START: Duration = Duration::from_secs(60);
/// How long a node may take to end in order.
const DRAIN: Duration = Duration::from_secs(30);
/// How often it is seen whether this process is to end.
const LOOK: Duration = Duration::from_millis(50);
/// How much of a log is shown when its node ended.
const TAIL_LINES: usize = 12;
const TAIL_BYTES: u64 = 16 * 1024;

/// Something a node's process did.
enum Told {
    /// One serves; the line that it printed.
    Ready(String),
    /// That one ended its output, so that it ends or has ended.
    Ended(usize),
}

/// The nodes' processes. Those that still run are ended when this goes.
struct Nodes {
    nodes: Vec<NodeDirectory>,
    children: Vec<Child>,
    told: Receiver<Told>,
}

/// Starts every node of a network, and ends all when told to or when one ends.
pub(super) fn run(directory: &Path, settings: &[String], shutdown: &Shutdown) -> anyhow::Result<Ended> {
    let mut nodes = Nodes::start(NetworkDirectory::new(directory).nodes()?, settings)?;
    if let Some(ended) = nodes.until_ready(shutdown)? {
        return Err(nodes.failure(ended));
    }
    if !shutdown.is_requested() {
        print::line(&format!("network of {} nodes runs", nodes.nodes.len()));
        if let Some(ended) = nodes.until_shutdown(shutdown) {
            return Err(nodes.failure(ended));
        }
    }
    nodes.stop()?;
    print::line("stopped");
    Ok(Ended::Well)
}

impl Nodes {
    fn start(nodes: Vec<NodeDirectory>, settings: &[String]) -> anyhow::Result<Self> {
        let program = std::env::current_exe().context("cannot tell where this program is")?;
        let (tell, told) = channel();
        let mut all = Self { nodes: Vec::new(), children: Vec::new(), told };
        for node in nodes {
            let log = OpenOptions::new().create(true).append(true).open(node.log());
            let log = log.with_context(|| format!("cannot write {}", node.log().display()))?;
            let mut command = Command::new(&program);
            command.args(["--log", "info", "node", "run", "--until-input-ends"]).arg(node.root());
            command.args(settings.iter().flat_map(|setting| ["--set", setting.as_str()]));
            // A group of its own: a signal from the terminal comes once, by way of this process.
            command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log);
            let mut child =
                command.spawn().with_context(|| format!("cannot start {}", node.root().display()))?;
            let out = child.stdout.take().context("the node has no output")?;
            let (index, tell) = (all.children.len(), tell.clone());
            all.children.push(child);
            all.nodes.push(node);
            std::thread::Builder::new()
                .name("output".to_owned())
                .spawn(move || listen(index, out, &tell))
                .context("cannot start a thread that reads a node's output")?;
        }
        Ok(all)
    }

    /// Waits until all serve; says which one ended instead.
    fn until_ready(&self, shutdown: &Shutdown) -> anyhow::Result<Option<usize>> {
        let deadline = Instant::now() + START;
        let mut missing = self.children.len();
        while missing > 0 && !shutdown.is_requested() {
            match self.told.recv_timeout(LOOK) {
                Ok(Told::Ready(line)) => {
                    print::line(&line);
                    missing -= 1;
                }
                Ok(Told::Ended(node)) => return Ok(Some(node)),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
            }
            if Instant::now() > deadline {
                bail!("{missing} nodes do not serve after {} s; their logs say more", START.as_secs());
            }
        }
        Ok(None)
    }

    /// Waits until this process is to end; says which node ended before.
    fn until_shutdown(&self, shutdown: &Shutdown) -> Option<usize> {
        while !shutdown.is_requested() {
            match self.told.recv_timeout(LOOK) {
                Ok(Told::Ended(node)) => return Some(node),
                Ok(Told::Ready(..)) | Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
            }
        }
        None
    }

    /// Why the network ends: how that node ended, with the end of its log. The others are ended.
    fn failure(mut self, ended: usize) -> anyhow::Error {
        let status = self.children[ended].wait();
        let node = &self.nodes[ended];
        let how = match status {
            Ok(status) => describe(status),
            Err(error) => error.to_string(),
        };
        let text = format!(
            "the node in {} ended by itself ({how}), so the network ends; the last lines of {}:\n{}",
            node.root().display(),
            node.log().display(),
            tail(&node.log())
        );
        match self.stop() {
            Ok(()) => anyhow::anyhow!(text),
            Err(error) => error.context(text),
        }
    }

    /// Ends the nodes in order, by the end of their standard input.
    fn stop(&mut self) -> anyhow::Result<()> {
        for child in &mut self.children {
            drop(child.stdin.take());
        }
        let deadline = Instant::now() + DRAIN;
        let mut failed = Vec::new();
        for (child, node) in self.children.iter_mut().zip(&self.nodes) {
            loop {
                match child.try_wait() {
                    Ok(Some(status)) if status.success() => break,
                    Ok(Some(status)) => {
                        failed.push(format!("{} ended with {}", node.root().display(), describe(status)));
                        break;
                    }
                    Ok(None) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(2)),
                    Ok(None) | Err(_) => {
                        let _ = child.kill();
                        let _ = child.wait();
                        let seconds = DRAIN.as_secs();
                        failed.push(format!("{} was killed after {seconds} s", node.root().display()));
                        break;
                    }
                }
            }
        }
        if failed.is_empty() { Ok(()) } else { bail!("not every node ended in order: {}", failed.join("; ")) }
    }
}

impl Drop for Nodes {
    fn drop(&mut self) {
        // Those that were stopped have ended; for the others this is the quick end, which loses nothing.
        for child in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn listen(index: usize, out: impl Read, tell: &Sender<Told>) {
    for line in BufReader::new(out).lines() {
        match line {
            Ok(line) if line.starts_with("ready ") => {
                let _ = tell.send(Told::Ready(line));
            }
            Ok(_) => {}
            Err(_) => break,
        }
    }
    let _ = tell.send(Told::Ended(index));
}

fn describe(status: ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt;
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit status {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => status.to_string(),
    }
}

/// The last lines of a file.
fn tail(path: &Path) -> String {
    let read = || -> std::io::Result<String> {
        let mut file = File::open(path)?;
        let length = file.seek(SeekFrom::End(0))?;
        file.seek(SeekFrom::Start(length.saturating_sub(TAIL_BYTES)))?;
        let mut bytes = Vec::new();
        file.take(TAIL_BYTES).read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    let text = read().unwrap_or_else(|error| format!("(it cannot be read: {error})"));
    let lines: Vec<&str> = text.lines().collect();
    let last = lines.len().saturating_sub(TAIL_LINES);
    lines[last..].iter().map(|line| format!("  {line}")).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_of_a_log_are_shown() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        let text: String = (0..5_000).map(|line| format!("line {line}\n")).collect();
        std::fs::write(&path, text).unwrap();
        let lines = tail(&path);
        assert_eq!(lines.lines().count(), TAIL_LINES);
        assert!(lines.ends_with("  line 4999"), "{lines}");
        assert!(tail(&directory.path().join("none")).contains("cannot be read"));
    }
}
