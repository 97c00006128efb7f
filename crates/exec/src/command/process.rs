//! A shell and all processes that it started.
//!
//! The shell leads a session and a process group. Its number belongs to the group until its exit status is collected,
//! so that is done last: a signal to the group can never hit another process.

use std::future::Future;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use punctual_sandbox::{Pipes, Status, set_apart_with_keeper};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use tokio::process::Child;
use tokio::signal::unix::{self, SignalKind};
use tokio::time::timeout;

use super::keeper::{Keeper, KeptGroup};
use crate::binary::judge::EndOrder;
use crate::binary::{print, reached};
use crate::{Call, LogSink};

/// Processes that a shell left running may hold its output open. They may print for this long, then they are killed.
const LAST_OUTPUT_TIME_MAX: Duration = Duration::from_secs(2);

/// How often to check whether all processes that were asked to end have ended. The kernel reports that for children
/// only.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// A running command. Dropping it kills the whole group.
pub(super) struct CommandProcess {
    pub(super) output: Pipes,
    shell: Shell,
}

enum ShellEvent {
    Ended,
    Ordered(EndOrder),
}

impl CommandProcess {
    pub(super) fn start(mut command: std::process::Command, output_max: u64, keeper: Arc<Keeper>) -> io::Result<Self> {
        let (stdout, their_stdout) = io::pipe()?;
        let (stderr, their_stderr) = io::pipe()?;
        let output = Pipes::new(stdout.into(), stderr.into(), output_max)?;
        // Before there is a child, or its end could be missed.
        let deaths = unix::signal(SignalKind::child())?;
        command.stdout(their_stdout).stderr(their_stderr);
        let child = spawn(command, &keeper)?;
        let id = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
        let group = id.expect("a child that was not waited for has a number");
        let mut shell = Shell { child, group, deaths, state: ShellState::Unkept };
        // One that cannot be kept is killed at once.
        shell.state = ShellState::Kept(keeper.keep(group)?);
        Ok(Self { output, shell })
    }

    /// Passes on the output until the shell has ended. When the timeout is over or the attempt was cancelled, the whole
    /// group is asked to end within `grace`.
    pub(super) async fn watch(&mut self, grace: Duration, call: &Call) -> Option<EndOrder> {
        let Self { output, shell } = self;
        let event = log_until(output, &call.log, shell.event(call)).await;
        let ordered = match event {
            // It printed too much.
            None => return None,
            Some(ShellEvent::Ended) => {
                log_the_rest(output, &call.log).await;
                return None;
            }
            Some(ShellEvent::Ordered(ordered)) => ordered,
        };
        shell.signal(Signal::TERM);
        let gone = timeout(grace, shell.all_ended());
        log_until(output, &call.log, gone).await;
        shell.signal(Signal::KILL);
        log_the_rest(output, &call.log).await;
        Some(ordered)
    }

    /// Kills the rest of the group, and returns how the shell ended.
    pub(super) async fn end(&mut self) -> io::Result<Status> {
        let shell = &mut self.shell;
        shell.signal(Signal::KILL);
        shell.state = ShellState::Killed;
        let status = shell.child.wait().await?;
        Ok(match (status.code(), status.signal()) {
            (Some(code), _) => Status::Code(code),
            (None, Some(signal)) => Status::Signal(signal),
            (None, None) => Status::Lost,
        })
    }
}

/// Starts the shell. The keeper knows its group before it runs.
fn spawn(mut command: std::process::Command, keeper: &Keeper) -> io::Result<Child> {
    set_apart_with_keeper(&mut command, keeper.pipe()?)?;
    tokio::process::Command::from(command).spawn().map_err(|error| match error.kind() {
        // Killed a moment ago. The next start finds that out, and starts another.
        io::ErrorKind::BrokenPipe => {
            io::Error::new(error.kind(), "the process that ends commands with their worker was killed")
        }
        _ => error,
    })
}

struct Shell {
    child: Child,
    group: Pid,
    deaths: unix::Signal,
    state: ShellState,
}

enum ShellState {
    Unkept,
    Kept(#[expect(dead_code, reason = "it is held, and dropped when the group was killed")] KeptGroup),
    /// The group was killed, and its number may have been reused.
    Killed,
}

impl Shell {
    fn signal(&self, signal: Signal) {
        // Fails for a group that has ended, and for processes that gave themselves to another user.
        let _ = kill_process_group(self.group, signal);
    }

    async fn event(&mut self, call: &Call) -> ShellEvent {
        tokio::select! {
            biased;
            () = self.ended() => ShellEvent::Ended,
            () = call.cancel.cancelled() => ShellEvent::Ordered(EndOrder::Cancelled),
            () = reached(call.deadline) => ShellEvent::Ordered(EndOrder::TimeOver),
        }
    }

    /// Waits until the shell has ended, without collecting its status.
    async fn ended(&mut self) {
        let look = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        // An error means that there is no such child any more.
        while let Ok(None) = waitid(WaitId::Pid(self.group), look) {
            self.deaths.recv().await;
        }
    }

    /// Waits until the shell and all processes of its group have ended.
    async fn all_ended(&mut self) {
        self.ended().await;
        while has_living_members(self.group) {
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        match self.state {
            // The child is waited for by tokio.
            ShellState::Unkept | ShellState::Kept(_) => self.signal(Signal::KILL),
            ShellState::Killed => {}
        }
    }
}

/// Passes on the output until `event` comes; `None` if there was too much output.
async fn log_until<T>(output: &mut Pipes, log: &LogSink, event: impl Future<Output = T>) -> Option<T> {
    let mut event = pin!(event);
    let mut is_open = true;
    loop {
        tokio::select! {
            event = &mut event => return Some(event),
            printed = output.next(), if is_open => match printed {
                Some(printed) => print(log, &printed),
                None if output.flooded() => return None,
                None => is_open = false,
            },
        }
    }
}

async fn log_the_rest(output: &mut Pipes, log: &LogSink) {
    let rest = async {
        while let Some(printed) = output.next().await {
            print(log, &printed);
        }
    };
    // Whoever still prints then is killed.
    let _ = timeout(LAST_OUTPUT_TIME_MAX, rest).await;
}

fn has_living_members(group: Pid) -> bool {
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    processes
        .filter(|entry| entry.file_name().as_encoded_bytes().first().is_some_and(u8::is_ascii_digit))
        .filter_map(|entry| std::fs::read_to_string(entry.path().join("stat")).ok())
        .any(|stat| is_living_member(&stat, group))
}

/// `stat` is `number (name) state parent group …`, and the name may hold anything.
fn is_living_member(stat: &str, group: Pid) -> bool {
    let Some((_, fields)) = stat.rsplit_once(") ") else { return false };
    let mut fields = fields.split(' ');
    let (state, of_group) = (fields.next(), fields.nth(1));
    state.is_some_and(|state| !matches!(state, "Z" | "X"))
        && of_group.and_then(|text| text.parse().ok()).and_then(Pid::from_raw) == Some(group)
}

#[cfg(test)]
mod tests {
    use rustix::process::{getpid, kill_process};

    use super::*;

    /// Set in the process that plays the worker: where it leaves the number of what it started.
    const WORKER: &str = "PUNCTUAL_TEST_WORKER";

    /// What is not gone by then never will be.
    const PATIENCE: Duration = Duration::from_secs(15);

    #[tokio::test]
    async fn a_worker_that_dies_as_soon_as_it_has_started_a_command_leaves_nothing() {
        if let Some(path) = std::env::var_os(WORKER) {
            let mut command = std::process::Command::new("/bin/sleep");
            command.arg("60").env_clear();
            let child = spawn(command, &Keeper::default()).unwrap();
            std::fs::write(path, child.id().unwrap().to_string()).unwrap();
            // Nothing is dropped.
            kill_process(getpid(), Signal::KILL).unwrap();
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("number");
        let name = "command::process::tests::a_worker_that_dies_as_soon_as_it_has_started_a_command_leaves_nothing";
        let mut worker = std::process::Command::new(std::env::current_exe().unwrap());
        let status = worker.args(["--exact", name]).env(WORKER, &path).status().unwrap();
        assert_eq!(status.signal(), Some(9));
        let group = std::fs::read_to_string(&path).unwrap().parse().ok().and_then(Pid::from_raw).unwrap();
        let gone = async {
            while has_living_members(group) {
                tokio::time::sleep(LOOK_EVERY).await;
            }
        };
        timeout(PATIENCE, gone).await.expect("the keeper kills it");
    }

    #[test]
    fn the_group_of_a_process_is_read_past_any_name() {
        let group = Pid::from_raw(70).unwrap();
        for (stat, is_member) in [
            ("71 (sleep) S 70 70 70 0 -1", true),
            ("71 (a) Z 1 2 (b) S 1 70 70 0", true),
            ("71 (sleep) Z 70 70 70 0 -1", false),
            ("71 (sleep) S 70 71 70 0 -1", false),
            ("", false),
            ("71 (sleep) S", false),
        ] {
            assert_eq!(is_living_member(stat, group), is_member, "{stat}");
        }
    }
}
