//! Agents as processes beside the worker: the same program, in an empty folder and a session of its own. They end with
//! their worker, however it ends.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use async_trait::async_trait;
use tokio::io::AsyncReadExt;
use tokio::process::{Child, ChildStderr, ChildStdin, Command};
use tokio::sync::oneshot;

use super::environments::{AgentEnd, AgentStart, Environment, Environments, SpawnError, StartFailure};
use super::last_words::LastWords;
use super::workplace::Workplace;
use crate::host::HostId;

/// How long the launcher of the agent's sandbox may take to end everything that it started after the agent is gone.
const REST_LIMIT: Duration = Duration::from_secs(10);

pub struct Processes {
    program: PathBuf,
    args: Vec<String>,
    workplace: Arc<Workplace>,
    starter: mpsc::Sender<StartOrder>,
}

type StartOrder = (Command, oneshot::Sender<io::Result<Child>>);

impl Processes {
    /// `program` with `args` is an agent that is tied to its worker: see [`crate::Tie::Worker`]. Must be called on the
    /// worker's runtime.
    pub fn new(program: PathBuf, args: Vec<String>, workplace: Arc<Workplace>) -> io::Result<Self> {
        Ok(Self { program, args, workplace, starter: start_starter()? })
    }
}

/// Starts the thread that starts agents. The kernel ends an agent when the *thread* that started it ends, so that
/// thread must live as long as the worker, unlike the threads of the runtime.
fn start_starter() -> io::Result<mpsc::Sender<StartOrder>> {
    let (starter, orders) = mpsc::channel::<StartOrder>();
    let runtime = tokio::runtime::Handle::current();
    thread::Builder::new().name("agent-starter".to_owned()).spawn(move || {
        let _context = runtime.enter();
        for (mut command, answer) in orders {
            // A child that nobody takes is killed as it is dropped.
            let _ = answer.send(command.spawn());
        }
    })?;
    Ok(starter)
}

#[async_trait]
impl Environments for Processes {
    fn name(&self, host: &HostId) -> String {
        format!("process-{host}")
    }

    async fn start(&self, agent: AgentStart) -> Result<Box<dyn Environment>, StartFailure> {
        let failed = |what: &str, error: &dyn std::fmt::Display| SpawnError::NotStarted(format!("{what}: {error}"));
        let folder = AgentFolder(self.workplace.folder().join(agent.host.as_str()));
        std::fs::create_dir(&folder.0).map_err(|error| failed("its folder cannot be made", &error))?;
        let mut command = Command::new(&self.program);
        command
            .arg0("punctual")
            .args(&self.args)
            .env_clear()
            .envs(agent.variables)
            .current_dir(&folder.0)
            // Never written to: the agent sees in it whether its worker lives.
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        let (answer, child) = oneshot::channel();
        let gone = || "the thread that starts agents is gone".to_owned();
        self.starter.send((command, answer)).map_err(|_| SpawnError::NotStarted(gone()))?;
        let child = child.await.map_err(|_| SpawnError::InDoubt(gone()))?;
        let mut child = child.map_err(|error| failed("its process cannot be started", &error))?;
        let (stdin, stderr) = (child.stdin.take(), child.stderr.take());
        Ok(Box::new(AgentProcess { child, _stdin: stdin, stderr, last_words: LastWords::default(), folder }))
    }

    /// Ends nothing: only the folder of a process survives its worker, and it was removed when the workplace was
    /// opened.
    async fn sweep(&self) -> Result<usize, SpawnError> {
        Ok(0)
    }
}

struct AgentProcess {
    child: Child,
    /// Kept open for as long as the agent may run; see [`Environments::start`].
    _stdin: Option<ChildStdin>,
    stderr: Option<ChildStderr>,
    last_words: LastWords,
    /// Declared after the child, so that it is removed after the child is killed.
    folder: AgentFolder,
}

struct AgentFolder(PathBuf);

impl Drop for AgentFolder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[async_trait]
impl Environment for AgentProcess {
    async fn ended(&mut self) -> AgentEnd {
        let Self { child, stderr, last_words, .. } = self;
        // Whoever wants to write must be read, or he waits.
        let status = tokio::select! {
            status = child.wait() => status,
            status = async { listen(stderr, last_words).await; std::future::pending().await } => status,
        };
        let _ = tokio::time::timeout(REST_LIMIT, listen(stderr, last_words)).await;
        let last_words = last_words.text();
        match status {
            Ok(status) => AgentEnd { exit_code: status.code(), signal: status.signal(), last_words },
            Err(_) => AgentEnd { last_words, ..AgentEnd::default() },
        }
    }

    async fn end(mut self: Box<Self>) {
        let _ = self.child.kill().await;
        // The launcher of its sandbox writes to the same stderr, and ends after all that it started.
        let rest = listen(&mut self.stderr, &mut self.last_words);
        if tokio::time::timeout(REST_LIMIT, rest).await.is_err() {
            let folder = self.folder.0.display();
            tracing::warn!(%folder, "an agent was killed, and something that it started still runs after {REST_LIMIT:?}");
        }
    }
}

/// Reads stderr until nobody can write to it any more.
async fn listen(stderr: &mut Option<ChildStderr>, last_words: &mut LastWords) {
    let mut buffer = [0; 1024];
    while let Some(pipe) = stderr {
        match pipe.read(&mut buffer).await {
            Ok(0) | Err(_) => *stderr = None,
            Ok(len) => last_words.add(&buffer[..len]),
        }
    }
}
