//! Ends the commands of a worker that is gone.
//!
//! A worker that is killed cannot end what it has started. So a small process beside it knows which groups there are,
//! and holds the other end of a pipe. When the worker is gone, however that went, the pipe is closed, and the keeper
//! kills the groups that are left.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

use punctual_sandbox::set_apart;
use rustix::process::Pid;

/// Signals that end a worker in order are not for the keeper: it ends with the worker.
const SCRIPT: &str = r#"
trap '' HUP INT TERM
groups=' '
while read -r word group; do
    case $word in
        add) groups="$groups$group " ;;
        remove) groups="${groups%% "$group" *} ${groups#* "$group" }" ;;
    esac
done
for group in $groups; do kill -s KILL -- "-$group"; done
"#;

/// Starts its process with the first group.
#[derive(Default)]
pub(super) struct Keeper(Mutex<State>);

#[derive(Default)]
struct State {
    process: Option<Process>,
    groups: BTreeSet<i32>,
}

/// A group that does not outlive the worker while this lives. Drop it when the group was killed, and before its number
/// can be given to another.
pub(super) struct Kept {
    keeper: Arc<Keeper>,
    group: Pid,
}

impl Keeper {
    /// Starts its process, if there is none, so that a group is kept a moment after it exists.
    pub(super) fn prepare(&self) -> io::Result<()> {
        self.change(|state| if state.process.is_none() { state.start() } else { Ok(()) })
    }

    pub(super) fn keep(self: Arc<Self>, group: Pid) -> io::Result<Kept> {
        self.change(|state| state.add(group.as_raw_pid()))?;
        Ok(Kept { keeper: self, group })
    }

    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        let group = self.group.as_raw_pid();
        self.keeper.change(|state| {
            state.groups.remove(&group);
            if state.tell("remove", group).is_err() {
                // The next one is told only of groups that are left.
                state.process = None;
            }
        });
    }
}

impl State {
    fn add(&mut self, group: i32) -> io::Result<()> {
        if self.tell("add", group).is_err() {
            // There is none yet, or somebody killed it.
            self.process = None;
            self.start()?;
            self.tell("add", group)?;
        }
        self.groups.insert(group);
        Ok(())
    }

    fn tell(&mut self, word: &str, group: i32) -> io::Result<()> {
        let Some(process) = &mut self.process else { return Err(io::ErrorKind::NotConnected.into()) };
        process.tell(word, group)
    }

    fn start(&mut self) -> io::Result<()> {
        let mut process = Process::start()?;
        for group in &self.groups {
            process.tell("add", *group)?;
        }
        self.process = Some(process);
        Ok(())
    }
}

struct Process {
    /// `None` only while it is dropped.
    pipe: Option<ChildStdin>,
    child: Child,
}

impl Process {
    fn start() -> io::Result<Self> {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", SCRIPT, "punctual-keeper"]).env_clear().current_dir("/");
        set_apart(command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()));
        let mut child = command.spawn()?;
        Ok(Self { pipe: child.stdin.take(), child })
    }

    fn tell(&mut self, word: &str, group: i32) -> io::Result<()> {
        let Some(pipe) = &mut self.pipe else { return Err(io::ErrorKind::NotConnected.into()) };
        // One write, so that no half of a line is left when this process is killed.
        pipe.write_all(format!("{word} {group}\n").as_bytes())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.pipe.take());
        // Its input has ended, and so does it.
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::{CommandExt, ExitStatusExt};

    use super::*;

    fn sleeper() -> (Child, Pid) {
        let child = Command::new("/bin/sleep").arg("30").process_group(0).spawn().unwrap();
        let group = Pid::from_child(&child);
        (child, group)
    }

    #[test]
    fn groups_that_are_left_end_with_the_pipe() {
        let keeper = Arc::new(Keeper::default());
        let [(mut first, _), (mut second, _), (mut third, _)] = [(); 3].map(|()| {
            let (child, group) = sleeper();
            // As in a process that is killed: nothing is dropped.
            (child, std::mem::forget(keeper.clone().keep(group).unwrap()))
        });
        let (mut removed, group) = sleeper();
        drop(keeper.clone().keep(group).unwrap());
        keeper.change(|state| state.process = None);
        for child in [&mut first, &mut second, &mut third] {
            assert_eq!(child.wait().unwrap().signal(), Some(9));
        }
        assert!(removed.try_wait().unwrap().is_none(), "it was not left");
        removed.kill().unwrap();
        removed.wait().unwrap();
    }

    #[test]
    fn a_keeper_that_was_killed_is_followed_by_another() {
        let keeper = Arc::new(Keeper::default());
        let (mut first, group) = sleeper();
        let _first = keeper.clone().keep(group).unwrap();
        keeper.change(|state| {
            let process = state.process.as_mut().unwrap();
            process.child.kill().unwrap();
            process.child.wait().unwrap();
        });
        let (mut second, group) = sleeper();
        let _second = keeper.clone().keep(group).unwrap();
        keeper.change(|state| state.process = None);
        for child in [&mut first, &mut second] {
            assert_eq!(child.wait().unwrap().signal(), Some(9));
        }
    }
}
