//! One process of a cluster. It ends with its stdin, so it does not outlive the verifier.

use std::fs::{File, OpenOptions};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::Context;
use rustix::process::{Pid, Signal, kill_process};
use tokio::time::Instant;

use super::PATIENCE;

pub struct Process {
    child: Child,
    name: String,
}

impl Process {
    /// Its stderr goes to `log`; its stdout too, unless the command says otherwise.
    pub fn start(mut command: Command, name: &str, log: &Path) -> anyhow::Result<Self> {
        let log = OpenOptions::new().create(true).append(true).open(log)?;
        command.stdin(Stdio::piped()).stderr(log);
        let child = command.spawn().with_context(|| format!("cannot start {name}"))?;
        Ok(Self { child, name: name.to_owned() })
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// For a command whose stdout is piped; once.
    pub fn stdout(&mut self) -> Option<File> {
        self.child.stdout.take().map(|stdout| File::from(std::os::fd::OwnedFd::from(stdout)))
    }

    pub fn has_ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    pub fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.pid()).ok().and_then(Pid::from_raw).expect("a child has a process id");
        // It may have ended by itself; whoever needs it alive will see.
        let _ = kill_process(pid, signal);
    }

    /// SIGKILL; returns when it is dead.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// All its threads stand still, and its connections stay open.
    pub fn pause(&self) {
        self.signal(Signal::STOP);
    }

    pub fn resume(&self) {
        self.signal(Signal::CONT);
    }

    pub fn ask_to_end(&mut self) {
        drop(self.child.stdin.take());
    }

    /// Asks it to end, and waits until it has.
    pub async fn stop(&mut self) -> anyhow::Result<()> {
        self.ask_to_end();
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.has_ended() {
                anyhow::ensure!(status.success(), "{} ended with {status}", self.name);
                return Ok(());
            }
            anyhow::ensure!(Instant::now() < deadline, "{} did not end within {PATIENCE:?}", self.name);
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}
