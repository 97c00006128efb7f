//! The worker's side of the launcher: starts it, hands it jobs, and starts it again if it
//! died.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::Duration;

use rustix::pipe::{PipeFlags, pipe_with};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::Mutex;

use crate::channel::{self, Packet};
use crate::error::LaunchError;
use crate::job::{SandboxJob, Stdin};
use crate::level::{Level, Protection};
use crate::output::Pipes;
use crate::program::sealed_bytes;
use crate::request;
use crate::running::RunningProgram;
use crate::step::SetupStep;
use crate::sys;
use crate::wire::{self, MESSAGE_LEN_MAX, Report};

/// The probe alone may take five seconds twice.
const GREETING_TIME_MAX: Duration = Duration::from_secs(15);

#[derive(Clone, Debug)]
pub struct LauncherOptions {
    /// A program that calls [`launcher_main`](crate::launcher_main) when started with `args`:
    /// usually the worker's own.
    pub command: PathBuf,
    pub args: Vec<String>,
    /// The protections that must work beyond [`Protection::FLOOR`].
    pub required: Vec<Protection>,
}

/// Runs programs in sandboxes. Dropping it ends all of them.
#[derive(Debug)]
pub struct Launcher {
    options: LauncherOptions,
    level: Level,
    connection: Mutex<Connection>,
}

impl Launcher {
    pub async fn start(options: LauncherOptions) -> io::Result<Self> {
        let (connection, level) = Connection::open(&options).await?;
        Ok(Self { options, level, connection: Mutex::new(connection) })
    }

    /// The protections that are available here, as found at the start.
    pub fn level(&self) -> &Level {
        &self.level
    }

    /// Starts a program. It runs when this returns; dropping the future before ends it.
    pub async fn run(&self, job: SandboxJob) -> Result<RunningProgram, LaunchError> {
        check_required(&self.level, &self.options.required)?;
        let request = request::from_job(&job)?.encode();
        let plumbing = Plumbing::new(job).map_err(LaunchError::Launcher)?;
        self.hand_over(&request, &plumbing).await?;
        let Plumbing { ours, pipes, theirs } = plumbing;
        drop(theirs);

        let socket = sys::watch(ours).map_err(LaunchError::Launcher)?;
        match receive(&socket, 64).await.map_err(LaunchError::Launcher)? {
            None => Err(LaunchError::LauncherLost),
            Some(packet) => match Report::decode(&packet.bytes).map_err(LaunchError::Launcher)? {
                Report::Started => Ok(RunningProgram::new(socket, pipes)),
                Report::Refused { step, errno } => Err(refused(step, errno)),
                Report::Ended(_) => Err(LaunchError::LauncherLost),
            },
        }
    }

    async fn hand_over(&self, request: &[u8], plumbing: &Plumbing) -> Result<(), LaunchError> {
        let mut connection = self.connection.lock().await;
        match connection.send(request, plumbing).await {
            Err(error) if is_gone(&error) => {
                tracing::warn!("the sandbox launcher died and is started again");
                let (opened, level) = Connection::open(&self.options).await.map_err(LaunchError::Launcher)?;
                // It may have found less than the first one did, and attempts are recorded with what that found.
                let stood: Vec<Protection> = Protection::ALL.into_iter().filter(|it| self.level.has(*it)).collect();
                check_required(&level, &stood)?;
                *connection = opened;
                connection.send(request, plumbing).await
            }
            sent => sent,
        }
        .map_err(LaunchError::Launcher)
    }
}

fn check_required(level: &Level, required: &[Protection]) -> Result<(), LaunchError> {
    let mut needed = Protection::FLOOR.iter().chain(required);
    if needed.all(|protection| level.has(*protection)) {
        return Ok(());
    }
    let is_needed = |protection| Protection::FLOOR.contains(&protection) || required.contains(&protection);
    Err(LaunchError::BelowRequired { missing: level.sentences_about(is_needed) })
}

fn refused(step: SetupStep, errno: i32) -> LaunchError {
    let cause = match errno {
        0 => io::Error::other("no reason was given"),
        errno => io::Error::from_raw_os_error(errno),
    };
    match step {
        SetupStep::Execute => LaunchError::Execute(cause),
        SetupStep::Died => LaunchError::LimitsTooTight,
        step => LaunchError::Setup { step: step.words(), cause },
    }
}

fn is_gone(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset | io::ErrorKind::NotConnected)
}

/// The next packet on a socket; `None` when the other side is gone.
pub(crate) async fn receive(socket: &AsyncFd<OwnedFd>, len_max: usize) -> io::Result<Option<Packet>> {
    socket.async_io(Interest::READABLE, |socket| channel::receive(socket, len_max)).await
}

/// The descriptors of one job, on both sides.
struct Plumbing {
    ours: OwnedFd,
    pipes: Pipes,
    /// The launcher's descriptors: its socket, the program, stdin, stdout, stderr, and the files.
    theirs: Vec<OwnedFd>,
}

impl Plumbing {
    fn new(job: SandboxJob) -> io::Result<Self> {
        let stdin = match job.stdin {
            Stdin::Empty => std::fs::File::open("/dev/null")?.into(),
            Stdin::Bytes(bytes) => sealed_bytes(&bytes)?,
            Stdin::Descriptor(descriptor) => descriptor,
        };
        let output_bytes_max = job.limits.output_bytes;
        let (ours, socket) = channel::pair()?;
        let (stdout, stdout_inside) = pipe_with(PipeFlags::CLOEXEC)?;
        let (stderr, stderr_inside) = pipe_with(PipeFlags::CLOEXEC)?;
        Ok(Self {
            ours,
            pipes: Pipes::new(stdout, stderr, output_bytes_max)?,
            theirs: [socket, job.program, stdin, stdout_inside, stderr_inside]
                .into_iter()
                .chain(job.files.into_iter().map(|file| file.content))
                .collect(),
        })
    }
}

#[derive(Debug)]
struct Connection {
    socket: AsyncFd<OwnedFd>,
    child: Option<Child>,
}

impl Connection {
    async fn open(options: &LauncherOptions) -> io::Result<(Self, Level)> {
        let (ours, theirs) = channel::pair()?;
        let child = std::process::Command::new(&options.command)
            .args(&options.args)
            .env_clear()
            .stdin(Stdio::from(theirs))
            .stdout(Stdio::null())
            .spawn()?;
        let connection = Self { socket: sys::watch(ours)?, child: Some(child) };
        let greeting = tokio::time::timeout(GREETING_TIME_MAX, receive(&connection.socket, MESSAGE_LEN_MAX));
        match greeting.await {
            Ok(Ok(Some(packet))) => Ok((connection, wire::decode_level(&packet.bytes)?)),
            Ok(Ok(None)) => Err(io::Error::other("it ended at once")),
            Ok(Err(error)) => Err(error),
            Err(_) => Err(io::Error::new(io::ErrorKind::TimedOut, "it does not answer")),
        }
    }

    async fn send(&self, request: &[u8], plumbing: &Plumbing) -> io::Result<()> {
        let descriptors: Vec<_> = plumbing.theirs.iter().map(AsFd::as_fd).collect();
        self.socket.async_io(Interest::WRITABLE, |socket| channel::send(socket, request, &descriptors)).await
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // The launcher ends by itself when its socket closes, after its sandboxes. It is waited
        // for only so that no zombie stays; dropping must not block.
        if let Some(mut child) = self.child.take() {
            let _ = std::thread::Builder::new().name("sandbox-reaper".into()).spawn(move || child.wait());
        }
    }
}
