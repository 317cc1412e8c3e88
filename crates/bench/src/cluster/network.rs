//! A network whose stages are processes, on a broker that was there or was started for it.

use super::kept::Traffic;
use super::member::{Counters, DETAIL, GO, Member, Place};
use super::{ClusterError, GatewayPort, Shape};
use crate::processes::{Reading, Watched, read};
use crate::settlement::{self, Measured, Moment, Run};
use crate::workload::WorkloadError;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};
use tally_log::kafka::broker::{Brokers, Setup};
use tally_log::kafka::{Compression, KafkaCluster, KafkaOptions};
use tally_settlement::engine::wall_clock;
use tally_settlement::process::Role;

/// A broker to measure on.
pub struct Broker {
    options: KafkaOptions,
    started: Option<Brokers>,
}

/// The heap of a broker that is started here, in MiB.
pub const HEAP_MIB: u32 = 1024;

impl Broker {
    /// Brokers that are there, as `host:port`.
    #[must_use]
    pub fn given(brokers: Vec<String>) -> Self {
        Self { options: KafkaOptions { brokers, ..KafkaOptions::default() }, started: None }
    }

    /// Starts one from the installed jars; it ends when this is dropped.
    ///
    /// # Errors
    /// When Java or the jars are missing, or it does not come up.
    pub fn start() -> Result<Self, ClusterError> {
        let setup = Setup { fast: true, heap_mib: HEAP_MIB, ..Setup::default() };
        let started = Brokers::start(setup)?;
        Ok(Self { options: started.options(), started: Some(started) })
    }

    /// How it is reached.
    #[must_use]
    pub fn options(&self) -> &KafkaOptions {
        &self.options
    }

    /// The same with record batches compressed, or not.
    #[must_use]
    pub fn compressed(mut self, lz4: bool) -> Self {
        self.options.compression = if lz4 { Compression::Lz4 } else { Compression::None };
        self
    }

    /// It as a cluster.
    ///
    /// # Errors
    /// When the options make no sense.
    pub fn cluster(&self) -> Result<KafkaCluster, ClusterError> {
        Ok(KafkaCluster::new(self.options.clone())?)
    }

    /// Its process, if it was started here.
    #[must_use]
    pub fn watched(&self) -> Option<Watched> {
        let pid = self.started.as_ref()?.process(1)?;
        Some(Watched::new("broker", pid))
    }
}

/// One shard's process.
pub struct Stage {
    /// Which shard.
    pub role: Role,
    /// Its number.
    pub shard: u16,
    label: String,
    child: Child,
    /// The process ends when this does.
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

/// How stages' processes are started.
#[derive(Debug, Clone)]
pub struct Launcher {
    program: PathBuf,
}

impl Launcher {
    /// By this very program, which knows `bench stage-process`.
    ///
    /// # Errors
    /// When the system does not say which program this is.
    pub fn this_program() -> Result<Self, ClusterError> {
        let program = std::env::current_exe();
        Ok(Self { program: program.map_err(|error| ClusterError::process("tally", error))? })
    }

    /// Starts a shard's process, and does not wait until it is ready.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(&self, member: &Member) -> Result<Stage, ClusterError> {
        let label = format!("{} {}", member.role, member.shard);
        let failed = |what: &dyn std::fmt::Display| ClusterError::process(&label, what);
        let role = Role::ALL.into_iter().find(|role| role.name() == member.role);
        let role = role.ok_or_else(|| failed(&"no stage has this name"))?;
        let text = serde_json::to_string(member).map_err(|error| failed(&error))?;
        let mut child = Command::new(&self.program)
            .args(["--log", "error", "bench", "stage-process", &text])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| failed(&error))?;
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let output = output.ok_or_else(|| failed(&"it has no standard output"))?;
        Ok(Stage { role, shard: member.shard, label, child, input, output: BufReader::new(output) })
    }
}

impl Stage {
    /// What it is called in reports.
    #[must_use]
    pub fn label(&self) -> &str {
        &self.label
    }

    /// Its process.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    fn line(&mut self) -> Result<String, ClusterError> {
        let mut line = String::new();
        match self.output.read_line(&mut line) {
            Ok(1..) => Ok(line),
            Ok(0) => Err(ClusterError::process(&self.label, "it has ended")),
            Err(error) => Err(ClusterError::process(&self.label, error)),
        }
    }

    /// Waits until it is ready.
    ///
    /// # Errors
    /// When it ends before.
    pub fn ready(&mut self) -> Result<(), ClusterError> {
        match self.line()?.trim() {
            "ready" => Ok(()),
            other => Err(ClusterError::process(&self.label, format!("it said `{other}`"))),
        }
    }

    /// What it has done.
    ///
    /// # Errors
    /// When it has ended.
    pub fn counters(&mut self) -> Result<Counters, ClusterError> {
        self.ask("")
    }

    /// What it has done, with what it takes longer to find out.
    ///
    /// # Errors
    /// When it has ended.
    pub fn detail(&mut self) -> Result<Counters, ClusterError> {
        self.ask(DETAIL)
    }

    /// Lets it go, where it was started paused. It counts its work from now on.
    ///
    /// # Errors
    /// When it has ended.
    pub fn go(&mut self) -> Result<(), ClusterError> {
        self.ask(GO).map(drop)
    }

    fn ask(&mut self, what: &str) -> Result<Counters, ClusterError> {
        let asked = self.input.as_mut().map(|input| writeln!(input, "{what}").and_then(|()| input.flush()));
        if let Some(Err(error)) = asked {
            return Err(ClusterError::process(&self.label, error));
        }
        let line = self.line()?;
        serde_json::from_str(&line).map_err(|error| ClusterError::process(&self.label, error))
    }

    /// Kills it as a crash would.
    pub fn kill(&mut self) {
        // One that has ended already cannot be killed, and need not.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.input = None;
        let deadline = Instant::now() + Duration::from_secs(5);
        while Instant::now() < deadline {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        self.kill();
    }
}

/// A network that runs.
pub struct Running {
    /// What it is like.
    pub shape: Shape,
    /// Its stages' processes.
    pub stages: Vec<Stage>,
    port: Option<GatewayPort>,
    broker: Option<Watched>,
    topics: Vec<String>,
    cluster: KafkaCluster,
}

/// What a process used while something was measured.
#[derive(Debug, Clone)]
pub struct Used {
    /// The process.
    pub label: String,
    /// The stage, if it is one.
    pub role: Option<Role>,
    /// Processor time in the program and in the kernel.
    pub cpu: (Duration, Duration),
    /// Resident memory at the end, in bytes.
    pub resident_bytes: u64,
    /// What it has done, where it counts.
    pub counters: Counters,
}

impl Used {
    /// Processor time, all of it.
    #[must_use]
    pub fn cpu(&self) -> Duration {
        self.cpu.0 + self.cpu.1
    }
}

/// A run over a cluster, measured.
pub struct Outcome {
    /// Rate and latency; processor time of the generator's process.
    pub run: Measured,
    /// Every process: stages, the generator, and the broker where it was started here.
    pub used: Vec<Used>,
}

impl Running {
    /// Makes the topics, starts every shard and waits until each is ready.
    ///
    /// # Errors
    /// When something does not start.
    pub fn start(broker: &Broker, shape: &Shape, launcher: &Launcher) -> Result<Self, ClusterError> {
        Self::some(broker, shape, launcher, |_| true)
    }

    /// The same without the shards of one stage, which others are to start.
    ///
    /// # Errors
    /// When something does not start.
    pub fn without(
        broker: &Broker,
        shape: &Shape,
        launcher: &Launcher,
        role: Role,
    ) -> Result<Self, ClusterError> {
        Self::some(broker, shape, launcher, |other| other != role)
    }

    fn some(
        broker: &Broker,
        shape: &Shape,
        launcher: &Launcher,
        wanted: impl Fn(Role) -> bool,
    ) -> Result<Self, ClusterError> {
        let cluster = broker.cluster()?;
        let plans = shape.topics();
        let topics = plans.iter().map(|plan| plan.name.clone()).collect();
        cluster.create_topics(&plans)?;
        let mut running = Self {
            shape: shape.clone(),
            stages: Vec::new(),
            port: None,
            broker: broker.watched(),
            topics,
            cluster: cluster.clone(),
        };
        for (role, shard) in shape.shards().into_iter().filter(|(role, _)| wanted(*role)) {
            let member = running.member(role, shard);
            running.stages.push(launcher.start(&member)?);
        }
        for stage in &mut running.stages {
            stage.ready()?;
        }
        running.port = Some(GatewayPort::open(&cluster, shape)?);
        Ok(running)
    }

    /// What the process of a shard is told.
    #[must_use]
    pub fn member(&self, role: Role, shard: u16) -> Member {
        let options = self.cluster.options();
        Member {
            place: Place::Kafka {
                brokers: options.brokers.clone(),
                lz4: options.compression == Compression::Lz4,
            },
            shape: self.shape.clone(),
            role: role.name().to_owned(),
            shard,
            paused: false,
            stands_by_ms: None,
        }
    }

    /// Opens the accounts of a workload and issues money to them.
    ///
    /// # Errors
    /// When the network refuses.
    pub fn open_accounts(&mut self, run: &Run) -> Result<(), ClusterError> {
        let (network, keys) = self.shape.network();
        let port = self.port.as_mut().ok_or_else(gone)?;
        let send = &mut |transactions: Vec<_>| port.settle(&transactions);
        Ok(run.workload.opening(&network, &keys, wall_clock, send)?)
    }

    /// Runs a workload whose accounts are open. The gateway ends with it.
    ///
    /// # Errors
    /// When the network fails.
    pub fn drive(&mut self, run: &Run, progress: Option<&str>) -> Result<Outcome, ClusterError> {
        let port = self.take_port()?;
        let network = self.shape.network().0.id;
        let logs = port.kept();
        let (mut before, mut after) = (Vec::new(), Vec::new());
        let mut at = |moment: Moment| {
            let read =
                self.read(logs.traffic()).map_err(|error| WorkloadError::Refused(error.to_string()))?;
            match moment {
                Moment::Begin => before = read,
                Moment::End => after = read,
            }
            Ok(())
        };
        let measured = settlement::drive(port, network, run, progress, &mut at)?;
        let used = before.into_iter().zip(after).map(|(before, after)| Used {
            cpu: after.reading.cpu_since(&before.reading),
            resident_bytes: after.reading.resident_bytes,
            counters: after.counters.since(&before.counters),
            label: after.label,
            role: after.role,
        });
        Ok(Outcome { run: measured, used: used.collect() })
    }

    /// The gateway, for whoever drives it.
    ///
    /// # Errors
    /// When somebody has it already.
    pub fn take_port(&mut self) -> Result<GatewayPort, ClusterError> {
        self.port.take().ok_or_else(gone)
    }

    /// Ends the stages' processes in order; what they have done lies in their topics.
    pub fn stop_stages(&mut self) {
        self.stages.clear();
    }

    /// The cluster it is on.
    #[must_use]
    pub fn cluster(&self) -> &KafkaCluster {
        &self.cluster
    }

    /// The broker's process, if it was started for the measurement.
    #[must_use]
    pub fn broker(&self) -> Option<&Watched> {
        self.broker.as_ref()
    }

    fn read(&mut self, gateway: Traffic) -> Result<Vec<At>, ClusterError> {
        let mut all = Vec::new();
        for stage in &mut self.stages {
            let counters = stage.counters()?;
            let reading = read(&Watched::new(stage.label(), stage.pid()))?;
            all.push(At { label: stage.label().to_owned(), role: Some(stage.role), reading, counters });
        }
        let generator = Watched::new("generator and gateway", std::process::id());
        let counters = Counters { traffic: gateway, ..Counters::default() };
        all.push(At { reading: read(&generator)?, label: generator.label, role: None, counters });
        if let Some(broker) = &self.broker {
            let (reading, label) = (read(broker)?, broker.label.clone());
            all.push(At { label, role: None, reading, counters: Counters::default() });
        }
        Ok(all)
    }

    /// Ends the processes and deletes the topics, so that their bytes do not stay on the disk.
    ///
    /// # Errors
    /// When the cluster does not delete them.
    pub fn end(mut self) -> Result<(), ClusterError> {
        self.port = None;
        self.stages.clear();
        let names: Vec<_> = self.topics.iter().map(String::as_str).collect();
        Ok(self.cluster.delete_topics(&names)?)
    }
}

struct At {
    label: String,
    role: Option<Role>,
    reading: Reading,
    counters: Counters,
}

fn gone() -> ClusterError {
    ClusterError::process("gateway", "it has ended")
}
