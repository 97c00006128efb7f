//! Runs a line by a shell on the worker's own machine, as the worker's user and outside of any sandbox.
//!
//! What it prints, leaves and exits with means the same as for a binary, see [`judge`]. It inherits nothing of the
//! worker but its user: no environment, no open files, no terminal. When the shell has ended, all that is left of its
//! process group is killed; so it is when the worker is gone. A process that leaves the group, as a daemon does, is not
//! followed.

mod account;
mod keeper;
mod process;

use std::fs::Permissions;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use punctual_core::attempt::{Details, Failure, FailureClass, Outcome, Ran};
use punctual_core::run::{Command, Limits, Run};
use punctual_sandbox::{Exit, LimitHit, ResultFound, Status, read_result, sealed_bytes};
use rustix::fs::{Mode, OFlags};
use tempfile::TempDir;

use crate::binary::files::OpenFile;
use crate::binary::programs::ProgramError;
use crate::binary::{Programs, environment, judge};
use crate::{Call, ExecutionEnd, Executor, wrong_kind};
pub use account::Account;
use keeper::Keeper;
use process::CommandProcess;

/// The default search path of programs.
const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// How long to wait after the grace period for the last output, and for the kernel to end killed processes.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// The sandbox level in details of commands, which have no sandbox.
const NO_SANDBOX: &str = "none";

/// The executor of commands. Everyone who can create tasks can make a worker that has it do anything that its user can.
pub struct Commands {
    account: Account,
    keeper: Arc<Keeper>,
    files: Option<Arc<Programs>>,
}

impl Commands {
    /// Runs commands as `account`, which is the worker's own user.
    pub fn new(account: Account) -> Self {
        Self { account, keeper: Arc::default(), files: None }
    }

    /// Fetches the files that commands read.
    #[must_use]
    pub fn files(mut self, files: Arc<Programs>) -> Self {
        self.files = Some(files);
        self
    }
}

#[async_trait]
impl Executor for Commands {
    fn kind(&self) -> &'static str {
        "command"
    }

    fn capabilities(&self) -> Vec<String> {
        vec!["command".to_owned()]
    }

    fn runs_as(&self) -> Option<String> {
        // By its number: a container may not know the name.
        let is_root = rustix::process::geteuid().is_root();
        Some(if is_root { "root".to_owned() } else { self.account.name.clone() })
    }

    fn ends_by_itself(&self) -> bool {
        true
    }

    fn grace(&self, run: &Run) -> Duration {
        let Run::Command(spec) = run else { return Duration::ZERO };
        spec.grace.to_std() + LAST_WORDS
    }

    async fn execute(self: Arc<Self>, call: Call) -> ExecutionEnd {
        let Run::Command(spec) = &*call.run else { return wrong_kind(&call.run).into() };
        if call.cancel.is_cancelled() {
            return Outcome::Cancelled.into();
        }
        let result = match ResultFile::new() {
            Ok(result) => result,
            Err(error) => return not_started(&error).into(),
        };
        if !spec.files.is_empty() {
            let placed = tokio::select! {
                biased;
                () = call.cancel.cancelled() => return Outcome::Cancelled.into(),
                placed = self.place_files(spec, &call, result.files()) => placed,
            };
            if let Err(outcome) = placed {
                return outcome.into();
            }
        }
        let started = self.start(spec, &call, &result).map(|process| (process, result));
        let (mut process, result) = match started {
            Ok(started) => started,
            Err(error) => return not_started(&error).into(),
        };
        let ordered = process.watch(spec.grace.to_std(), &call).await;
        let status = match process.end().await {
            Ok(status) => status,
            Err(error) => return lost(&error).into(),
        };
        let exit = exit(status, process.output.flooded(), result.read());
        let details = details(&exit);
        let outcome = judge::outcome(exit, ordered, &Limits::default(), &call);
        ExecutionEnd { outcome, details: Some(Box::new(details)) }
    }
}

impl Commands {
    /// Places copies of the files, so that a command that changes one does not affect others.
    async fn place_files(&self, spec: &Command, call: &Call, folder: PathBuf) -> Result<(), Outcome> {
        let Some(source) = &self.files else {
            return Err(Outcome::NotStarted { reason: "this worker has no folder for files of commands".to_owned() });
        };
        let files = source.files(call, &spec.files).await.map_err(ProgramError::into_outcome)?;
        let copied = tokio::task::spawn_blocking(move || copy_files(&folder, files)).await;
        copied.unwrap_or_else(|error| Err(io::Error::other(error))).map_err(|error| not_started(&error))
    }

    fn start(&self, spec: &Command, call: &Call, result: &ResultFile) -> io::Result<CommandProcess> {
        let stdin = match (&spec.stdin, &call.input) {
            (Some(text), _) => Stdio::from(sealed_bytes(text.as_bytes())?),
            (None, Some(input)) => Stdio::from(sealed_bytes(input)?),
            (None, None) => Stdio::null(),
        };
        let folder = self.folder(spec)?;
        let mut command = std::process::Command::new(spec.shell());
        command
            .args(["-c", &spec.line])
            .env_clear()
            .env("PATH", PATH)
            .env("HOME", &self.account.home)
            .env("LOGNAME", &self.account.name)
            .env("USER", &self.account.name)
            // As with cron it is the shell that runs the line: a user for services has none that runs anything.
            .env("SHELL", spec.shell())
            .envs(environment::of(&spec.environment, call))
            .env("PUNCTUAL_OUTPUT", result.path())
            .envs((!spec.files.is_empty()).then(|| ("PUNCTUAL_FILES", result.files())))
            .current_dir(folder)
            .stdin(stdin);
        let output_max = Limits::default().output.get();
        CommandProcess::start(command, output_max, self.keeper.clone())
            .map_err(|error| named(error, &format!("cannot start {}", spec.shell())))
    }

    /// The working folder. A missing home folder is no reason to fail; a missing folder that the task names is.
    fn folder(&self, spec: &Command) -> io::Result<PathBuf> {
        if let Some(folder) = &spec.directory {
            let metadata =
                std::fs::metadata(folder).map_err(|error| named(error, &format!("cannot enter {folder}")))?;
            let problem = || io::Error::new(io::ErrorKind::NotADirectory, format!("{folder} is not a folder"));
            return if metadata.is_dir() { Ok(folder.into()) } else { Err(problem()) };
        }
        let home = spec.environment.get("HOME").map_or(self.account.home.as_path(), Path::new);
        Ok(if home.is_absolute() && home.is_dir() { home } else { Path::new("/") }.to_owned())
    }
}

fn copy_files(folder: &Path, files: Vec<OpenFile>) -> io::Result<()> {
    std::fs::create_dir(folder)?;
    for mut file in files {
        let path = folder.join(&file.name);
        let mut copy = std::fs::File::create_new(&path)?;
        io::copy(&mut file.content, &mut copy)?;
        copy.set_permissions(std::fs::Permissions::from_mode(0o444))?;
    }
    Ok(())
}

fn named(error: io::Error, what: &str) -> io::Error {
    io::Error::new(error.kind(), format!("{what}: {error}"))
}

/// The file in which the command leaves the job's output, in a folder that only this user can enter.
struct ResultFile(TempDir);

impl ResultFile {
    fn new() -> io::Result<Self> {
        let private = Permissions::from_mode(0o700);
        tempfile::Builder::new().prefix("punctual-").permissions(private).tempdir().map(Self)
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("output")
    }

    /// The folder of the files that the command reads.
    fn files(&self) -> PathBuf {
        self.0.path().join("files")
    }

    fn read(&self) -> ResultFound {
        // A link would lead elsewhere, and a pipe would have us wait.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        rustix::fs::open(self.path(), flags, Mode::empty()).map_or(ResultFound::Nothing, read_result)
    }
}

fn exit(status: Status, flooded: bool, left: ResultFound) -> Exit {
    let (result, too_much) = match left {
        ResultFound::Nothing => (None, false),
        ResultFound::Result(result) => (Some(result), false),
        ResultFound::TooMuch => (None, true),
    };
    let hit = match (flooded, too_much) {
        (true, _) => Some(LimitHit::Output),
        (false, true) => Some(LimitHit::Result),
        (false, false) => None,
    };
    Exit { status, hit, peak_memory_bytes: 0, cpu: Duration::ZERO, wall: Duration::ZERO, result }
}

fn details(exit: &Exit) -> Details {
    let (exit_code, signal) = match exit.status {
        Status::Code(code) => (Some(code), None),
        Status::Signal(signal) => (None, Some(signal)),
        Status::Lost => (None, None),
    };
    Details {
        exit_code,
        signal,
        limit: exit.hit.map(|hit| hit.name().to_owned()),
        sandbox: Some(NO_SANDBOX.to_owned()),
        ..Details::default()
    }
}

/// This machine lacks something that the command needs; the task's retry policy decides.
fn not_started(error: &io::Error) -> Outcome {
    Outcome::Failed(Failure { class: FailureClass::Environment, ran: Ran::No, ..Failure::new(error.to_string()) })
}

fn lost(error: &io::Error) -> Outcome {
    Outcome::Failed(Failure {
        class: FailureClass::Environment,
        ran: Ran::Unknown,
        ..Failure::new(format!("cannot tell how the shell ended: {error}"))
    })
}
