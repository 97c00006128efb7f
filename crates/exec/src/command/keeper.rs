//! Ends the commands of a worker that is gone.
//!
//! A worker that is killed cannot end what it has started. So a small process beside it knows which groups there are,
//! and holds the other end of a pipe. When the worker is gone, however that went, the pipe is closed, and the keeper
//! kills the groups that are left.
//!
//! Each group tells of itself before it runs, and holds the pipe open until then: the worker may die as early as it
//! likes. The worker tells of it again when it has it, for a keeper that came after the one that was told.

use std::collections::HashSet;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

use punctual_sandbox::{GroupWord, set_apart, tell_keeper};
use rustix::process::Pid;

/// Signals that end a worker in order are not for the keeper: it ends with the worker. A group that it is told of
/// twice it knows once.
const SCRIPT: &str = r#"
trap '' HUP INT TERM
groups=' '
while read -r word group; do
    case $groups in *" $group "*) groups="${groups%% "$group" *} ${groups#* "$group" }" ;; esac
    case $word in add) groups="$groups$group " ;; esac
done
for group in $groups; do kill -s KILL -- "-$group"; done
"#;

/// The keeper of this worker. Its process starts with the first group.
#[derive(Default)]
pub(super) struct Keeper(Mutex<KeeperState>);

#[derive(Default)]
struct KeeperState {
    process: Option<KeeperProcess>,
    groups: HashSet<Pid>,
}

/// A process group that does not outlive the worker while this value lives. Drop it after the group was killed, and
/// before its number can be reused.
pub(super) struct KeptGroup {
    keeper: Arc<Keeper>,
    group: Pid,
}

impl Keeper {
    /// The pipe to the keeper's process for a group that registers itself. Starts the process if there is none. The
    /// holder keeps the pipe open, so it is for one start only.
    pub(super) fn pipe(&self) -> io::Result<OwnedFd> {
        self.change(|state| {
            if !state.has_process() {
                state.process = None;
                state.start()?;
            }
            state.process.as_ref().ok_or_else(not_connected)?.pipe()?.as_fd().try_clone_to_owned()
        })
    }

    pub(super) fn keep(self: Arc<Self>, group: Pid) -> io::Result<KeptGroup> {
        self.change(|state| state.add(group))?;
        Ok(KeptGroup { keeper: self, group })
    }

    fn change<T>(&self, change: impl FnOnce(&mut KeeperState) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for KeptGroup {
    fn drop(&mut self) {
        self.keeper.change(|state| {
            state.groups.remove(&self.group);
            if state.tell(GroupWord::Remove, self.group).is_err() {
                // The next one is told only of groups that are left.
                state.process = None;
            }
        });
    }
}

impl KeeperState {
    fn add(&mut self, group: Pid) -> io::Result<()> {
        if !self.has_process() || self.tell(GroupWord::Add, group).is_err() {
            // There is none yet, or somebody killed it.
            self.process = None;
            self.start()?;
            self.tell(GroupWord::Add, group)?;
        }
        self.groups.insert(group);
        Ok(())
    }

    /// Whether the keeper's process runs. That its pipe can be written to does not prove it: a child that is being
    /// started may hold the keeper's end as well.
    fn has_process(&mut self) -> bool {
        self.process.as_mut().is_some_and(|process| matches!(process.child.try_wait(), Ok(None)))
    }

    fn tell(&self, word: GroupWord, group: Pid) -> io::Result<()> {
        self.process.as_ref().ok_or_else(not_connected)?.tell(word, group)
    }

    fn start(&mut self) -> io::Result<()> {
        let process = KeeperProcess::start()?;
        for group in &self.groups {
            process.tell(GroupWord::Add, *group)?;
        }
        self.process = Some(process);
        Ok(())
    }
}

struct KeeperProcess {
    /// The pipe to the process; `None` only while it is dropped.
    pipe: Option<ChildStdin>,
    child: Child,
}

impl KeeperProcess {
    fn start() -> io::Result<Self> {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", SCRIPT, "punctual-keeper"]).env_clear().current_dir("/");
        set_apart(command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()));
        let mut child = command.spawn()?;
        Ok(Self { pipe: child.stdin.take(), child })
    }

    fn pipe(&self) -> io::Result<&ChildStdin> {
        self.pipe.as_ref().ok_or_else(not_connected)
    }

    fn tell(&self, word: GroupWord, group: Pid) -> io::Result<()> {
        tell_keeper(self.pipe()?, word, group)
    }
}

fn not_connected() -> io::Error {
    io::ErrorKind::NotConnected.into()
}

impl Drop for KeeperProcess {
    fn drop(&mut self) {
        drop(self.pipe.take());
        // Its input has ended, and so does it.
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::{CommandExt, ExitStatusExt};

    use punctual_sandbox::set_apart_with_keeper;

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

    /// A group that registers itself.
    fn own_teller(keeper: &Keeper) -> (Child, Pid) {
        let mut command = Command::new("/bin/sleep");
        set_apart_with_keeper(command.arg("30").env_clear(), keeper.pipe().unwrap()).unwrap();
        let child = command.spawn().unwrap();
        let group = Pid::from_child(&child);
        (child, group)
    }

    fn kill(keeper: &Keeper) {
        keeper.change(|state| {
            let process = state.process.as_mut().unwrap();
            process.child.kill().unwrap();
            process.child.wait().unwrap();
        });
    }

    #[test]
    fn a_group_that_told_of_itself_is_kept_until_it_is_removed() {
        let keeper = Arc::new(Keeper::default());
        let (mut removed, group) = own_teller(&keeper);
        drop(keeper.clone().keep(group).unwrap());
        let (mut left, _) = own_teller(&keeper);
        keeper.change(|state| state.process = None);
        assert_eq!(left.wait().unwrap().signal(), Some(9));
        assert!(removed.try_wait().unwrap().is_none(), "it was known twice, and removed once");
        removed.kill().unwrap();
        removed.wait().unwrap();
    }

    #[test]
    fn a_group_never_tells_a_keeper_that_was_killed() {
        let keeper = Arc::new(Keeper::default());
        let (mut first, group) = own_teller(&keeper);
        let _first = keeper.clone().keep(group).unwrap();
        kill(&keeper);
        let (mut second, _) = own_teller(&keeper);
        keeper.change(|state| state.process = None);
        for child in [&mut first, &mut second] {
            assert_eq!(child.wait().unwrap().signal(), Some(9));
        }
    }

    #[test]
    fn a_keeper_that_was_killed_is_followed_by_another() {
        let keeper = Arc::new(Keeper::default());
        let (mut first, group) = sleeper();
        let _first = keeper.clone().keep(group).unwrap();
        kill(&keeper);
        let (mut second, group) = sleeper();
        let _second = keeper.clone().keep(group).unwrap();
        keeper.change(|state| state.process = None);
        for child in [&mut first, &mut second] {
            assert_eq!(child.wait().unwrap().signal(), Some(9));
        }
    }
}
