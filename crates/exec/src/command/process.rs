//! A shell with all that it started.
//!
//! The shell leads a session and a process group. Its number belongs to the group for as long as nobody has asked
//! how it ended, so that is asked last: a signal to the group can never hit someone else.

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

use super::keeper::{Keeper, Kept};
use crate::binary::judge::Ordered;
use crate::binary::{print, reached};
use crate::{Call, LogSink};

/// What a shell left running may hold its output open. So long it may go on to print, then it is killed.
const LAST_OUTPUT_TIME_MAX: Duration = Duration::from_secs(2);

/// How often it is looked whether all that were asked to end have. The kernel tells that of children only.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Dropping it kills the whole group.
pub(super) struct Process {
    pub(super) output: Pipes,
    shell: Shell,
}

enum Event {
    Ended,
    Ordered(Ordered),
}

impl Process {
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
        let mut shell = Shell { child, group, deaths, state: State::Unkept };
        // One that cannot be kept is killed at once.
        shell.state = State::Kept(keeper.keep(group)?);
        Ok(Self { output, shell })
    }

    /// Passes on what is printed until the shell has ended. When the time is over, or the attempt was cancelled, the whole
    /// group is asked to end, and has `grace` for it.
    pub(super) async fn watch(&mut self, grace: Duration, call: &Call) -> Option<Ordered> {
        let Self { output, shell } = self;
        let event = log_until(output, &call.log, shell.event(call)).await;
        let ordered = match event {
            // It printed too much.
            None => return None,
            Some(Event::Ended) => {
                log_the_rest(output, &call.log).await;
                return None;
            }
            Some(Event::Ordered(ordered)) => ordered,
        };
        shell.signal(Signal::TERM);
        let gone = timeout(grace, shell.all_ended());
        log_until(output, &call.log, gone).await;
        shell.signal(Signal::KILL);
        log_the_rest(output, &call.log).await;
        Some(ordered)
    }

    /// Kills what is left of the group, and tells how the shell ended.
    pub(super) async fn end(&mut self) -> io::Result<Status> {
        let shell = &mut self.shell;
        shell.signal(Signal::KILL);
        shell.state = State::Killed;
        let status = shell.child.wait().await?;
        Ok(match (status.code(), status.signal()) {
            (Some(code), _) => Status::Code(code),
            (None, Some(signal)) => Status::Signal(signal),
            (None, None) => Status::Lost,
        })
    }
}

/// The keeper knows of it before it runs.
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
    state: State,
}

enum State {
    Unkept,
    Kept(#[expect(dead_code, reason = "it is held, and dropped when the group was killed")] Kept),
    /// The group's number may be that of another.
    Killed,
}

impl Shell {
    fn signal(&self, signal: Signal) {
        // Fails for a group that has ended, and for processes that gave themselves to another user.
        let _ = kill_process_group(self.group, signal);
    }

    async fn event(&mut self, call: &Call) -> Event {
        tokio::select! {
            biased;
            () = self.ended() => Event::Ended,
            () = call.cancel.cancelled() => Event::Ordered(Ordered::Cancelled),
            () = reached(call.deadline) => Event::Ordered(Ordered::TimeOver),
        }
    }

    /// Returns when the shell has ended, and leaves it as it is.
    async fn ended(&mut self) {
        let look = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        // An error means that there is no such child any more.
        while let Ok(None) = waitid(WaitId::Pid(self.group), look) {
            self.deaths.recv().await;
        }
    }

    /// Returns when the shell has ended, and all that is in its group.
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
            State::Unkept | State::Kept(_) => self.signal(Signal::KILL),
            State::Killed => {}
        }
    }
}

/// Passes on what is printed until `event` comes; `None` if it was too much.
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
