//! Runs an uploaded static binary in a sandbox.
//!
//! The file comes from [`Programs`], verified; the sandbox from `punctual-sandbox`. What the program
//! prints is the attempt's log, what it leaves in the file named by `PUNCTUAL_OUTPUT` is the job's
//! output, and its exit code says how it went; see [`judge`].

pub(crate) mod environment;
mod fetch;
pub(crate) mod files;
pub(crate) mod judge;
pub(crate) mod programs;
mod users;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use punctual_core::attempt::{Details, Failure, FailureClass, Last, Outcome, Ran};
use punctual_core::log::LogStream;
use punctual_core::run::{BINARY_WITH_NETWORK, Binary, Network, Run};
use punctual_sandbox::{Exit, LaunchError, Launcher, Limits, Output, RunningProgram, SandboxJob, Stdin};
use tokio::time::Instant;

use crate::{Call, ExecutionEnd, Executor, LogSink, root_cause, wrong_kind};
use files::OpenFile;
use judge::EndOrder;
pub use programs::{ProgramCache, Programs};
pub use users::{ProgramUsers, UserRange};

/// How long the launcher may take to notice that the program is gone and to report it.
const LAST_WORDS: Duration = Duration::from_secs(5);

pub struct Binaries {
    launcher: Launcher,
    programs: Arc<Programs>,
    network: NetworkPolicy,
    users: ProgramUsers,
}

/// Whether programs that request a network get one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum NetworkPolicy {
    #[default]
    Refused,
    Allowed,
}

impl NetworkPolicy {
    /// The capabilities that a worker that runs programs announces.
    pub fn capabilities(self) -> Vec<String> {
        let network = (self == Self::Allowed).then(|| BINARY_WITH_NETWORK.to_owned());
        ["binary".to_owned()].into_iter().chain(network).collect()
    }

    /// Refuses a program that requests a network without this policy. Servers assign no such job to a worker that did
    /// not announce it, so this only catches mistakes.
    pub fn check(self, spec: &Binary) -> Result<(), Outcome> {
        match (self, spec.network) {
            (Self::Refused, Network::Host) => {
                let reason = "this worker gives programs no network; start one with --allow-network".to_owned();
                Err(Outcome::NotStarted { reason })
            }
            (Self::Allowed, Network::Host) | (_, Network::None) => Ok(()),
        }
    }
}

impl Binaries {
    pub fn new(launcher: Launcher, programs: Arc<Programs>, network: NetworkPolicy, users: ProgramUsers) -> Self {
        Self { launcher, programs, network, users }
    }
}

#[async_trait]
impl Executor for Binaries {
    fn kind(&self) -> &'static str {
        "binary"
    }

    fn capabilities(&self) -> Vec<String> {
        self.network.capabilities()
    }

    fn ends_by_itself(&self) -> bool {
        true
    }

    fn grace(&self, run: &Run) -> Duration {
        let Run::Binary(spec) = run else { return Duration::ZERO };
        spec.grace.to_std() + LAST_WORDS
    }

    async fn execute(self: Arc<Self>, call: Call) -> ExecutionEnd {
        let Run::Binary(spec) = &*call.run else { return wrong_kind(&call.run).into() };
        if let Err(refused) = self.network.check(spec) {
            return refused.into();
        }
        let user = match self.users.of(call.namespace) {
            Ok(user) => user,
            Err(refused) => return refused.into(),
        };
        let program = tokio::select! {
            biased;
            () = call.cancel.cancelled() => return Outcome::Cancelled.into(),
            program = self.programs.get(&call, spec.artifact) => program,
        };
        let program = match program.and_then(|program| program.descriptor()) {
            Ok(program) => program,
            Err(problem) => return problem.into_outcome().into(),
        };
        let files = tokio::select! {
            biased;
            () = call.cancel.cancelled() => return Outcome::Cancelled.into(),
            files = self.programs.files(&call, &spec.files) => files,
        };
        let files = match files {
            Ok(files) => files,
            Err(problem) => return problem.into_outcome().into(),
        };
        if let Some(reason) = too_large(&files, spec) {
            return Outcome::Failed(Failure { last: Last::Yes, ran: Ran::No, ..Failure::new(reason) }).into();
        }
        let job = SandboxJob {
            program,
            args: spec.args.clone(),
            env: environment::of(&spec.env, &call),
            stdin: call.input.clone().map_or(Stdin::Empty, Stdin::Bytes),
            files: files.into_iter().map(OpenFile::into_sandbox).collect(),
            limits: limits(spec),
            network: match spec.network {
                Network::None => punctual_sandbox::Network::None,
                Network::Host => punctual_sandbox::Network::Host,
            },
            user,
        };
        match self.launcher.run(job).await {
            Ok(running) => self.watch(running, spec, &call).await,
            Err(error) => not_launched(&error).into(),
        }
    }
}

impl Binaries {
    /// Passes on what the program prints, and ends it when its time is over or it was cancelled.
    async fn watch(&self, mut running: RunningProgram, spec: &Binary, call: &Call) -> ExecutionEnd {
        let mut ordered = None;
        let mut kill_at: Option<Instant> = None;
        loop {
            let deadline = kill_at.or(call.deadline);
            tokio::select! {
                output = running.next_output() => match output {
                    Some(output) => print(&call.log, &output),
                    None => break,
                },
                () = call.cancel.cancelled(), if ordered.is_none() => {
                    ordered = Some(EndOrder::Cancelled);
                    running.terminate();
                    kill_at = Some(Instant::now() + spec.grace.to_std());
                }
                () = reached(deadline) => {
                    if kill_at.is_some() {
                        running.kill();
                        break;
                    }
                    ordered = Some(EndOrder::TimeOver);
                    running.terminate();
                    kill_at = Some(Instant::now() + spec.grace.to_std());
                }
            }
        }
        let exit = self.last_word(&mut running, kill_at.or(call.deadline), spec).await;
        let details = self.details(&exit);
        ExecutionEnd { outcome: judge::outcome(exit, ordered, &spec.limits, call), details: Some(Box::new(details)) }
    }

    /// Waits for the end of a program that closed its outputs and continues to run.
    async fn last_word(&self, running: &mut RunningProgram, deadline: Option<Instant>, spec: &Binary) -> Exit {
        tokio::select! {
            biased;
            exit = running.wait() => return exit,
            () = reached(deadline) => running.terminate(),
        }
        tokio::select! {
            biased;
            exit = running.wait() => return exit,
            () = tokio::time::sleep(spec.grace.to_std()) => running.kill(),
        }
        running.wait().await
    }

    fn details(&self, exit: &Exit) -> Details {
        let (exit_code, signal) = match exit.status {
            punctual_sandbox::Status::Code(code) => (Some(code), None),
            punctual_sandbox::Status::Signal(signal) => (None, Some(signal)),
            punctual_sandbox::Status::Lost => (None, None),
        };
        Details {
            exit_code,
            signal,
            limit: exit.hit.map(|hit| hit.name().to_owned()),
            peak_memory_bytes: Some(exit.peak_memory_bytes),
            cpu_us: Some(u64::try_from(exit.cpu.as_micros()).unwrap_or(u64::MAX)),
            sandbox: Some(self.launcher.level().to_string()),
            ..Details::default()
        }
    }
}

pub(crate) fn print(log: &LogSink, output: &Output) {
    match output {
        Output::Stdout(bytes) => log.write(LogStream::Stdout, bytes),
        Output::Stderr(bytes) => log.write(LogStream::Stderr, bytes),
    }
}

pub(crate) async fn reached(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

impl OpenFile {
    fn into_sandbox(self) -> punctual_sandbox::File {
        punctual_sandbox::File { name: self.name, content: self.content.into(), len: self.len }
    }
}

/// Why the files are too large, if they are: they count as the program's memory.
fn too_large(files: &[OpenFile], spec: &Binary) -> Option<String> {
    let bytes: u64 = files.iter().map(|file| file.len).sum();
    let memory = spec.limits.memory;
    (bytes >= memory.get())
        .then(|| format!("its files of {bytes} bytes do not fit into the {memory} of `limits.memory`"))
}

fn limits(spec: &Binary) -> Limits {
    let wanted = &spec.limits;
    Limits {
        memory_bytes: wanted.memory.get(),
        cpu_millis: (wanted.cpu * 1000.0).ceil() as u32,
        pids: wanted.pids,
        output_bytes: wanted.output.get(),
        disk_bytes: wanted.disk.get(),
        open_files: wanted.open_files,
    }
}

fn not_launched(error: &LaunchError) -> Outcome {
    let reason = match std::error::Error::source(error) {
        Some(_) => format!("{error}: {}", root_cause(error)),
        None => error.to_string(),
    };
    match error {
        // The program is at fault: the next worker would find the same.
        LaunchError::Execute(_) | LaunchError::Invalid(_) | LaunchError::LimitsTooTight => {
            Outcome::Failed(Failure { last: Last::Yes, ran: Ran::No, ..Failure::new(reason) })
        }
        LaunchError::LauncherLost => {
            Outcome::Failed(Failure { class: FailureClass::Environment, ran: Ran::Unknown, ..Failure::new(reason) })
        }
        // This machine is: somebody else may do it.
        LaunchError::BelowRequired { .. } | LaunchError::Setup { .. } | LaunchError::Launcher(_) => {
            Outcome::NotStarted { reason }
        }
    }
}
