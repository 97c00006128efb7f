//! Folders of control groups: making ours, knowing which belong to the living, removing the
//! rest.
//!
//! A launcher holds a lock on its folder for as long as it lives. The kernel gives the lock
//! up with the process, so a folder that can be locked is nobody's. Process ids would not do:
//! two containers may share a folder and not see each other's processes.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

use rustix::fs::{FlockOperation, Mode, OFlags, flock};
use rustix::process::{Pid, Signal, kill_process};

const PREFIX: &str = "punctual-jobs-";

/// A folder name that no other launcher has.
pub(super) fn new_name() -> String {
    let tick = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    format!("{PREFIX}{}-{:x}", rustix::process::getpid().as_raw_nonzero(), tick.tv_nsec)
}

pub(super) fn open_folder(path: &Path) -> io::Result<OwnedFd> {
    Ok(rustix::fs::open(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?)
}

/// Creates a folder and locks it; it belongs to this launcher for as long as the lock is held.
pub(super) fn create_locked(path: &Path) -> io::Result<OwnedFd> {
    fs::create_dir(path)?;
    let lock = open_folder(path)?;
    flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
    Ok(lock)
}

/// Removes the folders in `parent` whose launchers are gone.
pub(super) fn sweep(parent: &Path) {
    for name in names(parent) {
        let path = parent.join(&name);
        let Ok(lock) = open_folder(&path) else { continue };
        if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok() {
            tracing::info!(folder = %path.display(), "removes the control groups of a launcher that is gone");
            clear(&path);
        }
    }
}

fn names(parent: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(parent) else { return Vec::new() };
    entries
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| name.starts_with(PREFIX))
        .collect()
}

/// Removes a launcher's folder and the jobs in it.
pub(super) fn clear(home: &Path) {
    let Ok(entries) = fs::read_dir(home) else { return };
    for job in entries.filter_map(Result::ok).filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
        kill_members(&job.path());
        remove_patiently(&job.path());
    }
    remove_patiently(home);
}

fn kill_members(job: &Path) {
    let members = fs::read_to_string(job.join("cgroup.procs")).unwrap_or_default();
    for pid in members.lines().filter_map(|line| Pid::from_raw(line.parse().ok()?)) {
        let _ = kill_process(pid, Signal::KILL);
    }
}

fn remove_patiently(folder: &Path) {
    // What was killed takes a moment to leave.
    for _ in 0..50 {
        match fs::remove_dir(folder) {
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                std::thread::sleep(Duration::from_millis(5));
            }
            _ => return,
        }
    }
    tracing::warn!(folder = %folder.display(), "cannot remove a control group");
}

/// A number from a file that holds nothing else.
pub(super) fn read_number(path: &Path) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// The number behind `key` in a file with a key and a number on each line.
pub(super) fn read_keyed(path: &Path, key: &str) -> Option<u64> {
    let text = fs::read_to_string(path).ok()?;
    text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' ')?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_living_keep_their_folder_and_the_dead_lose_it() {
        let machine = tempfile::tempdir().unwrap();
        fs::create_dir_all(machine.path().join("punctual-jobs-dead/job-1")).unwrap();
        fs::create_dir(machine.path().join("somebody-else")).unwrap();
        let _alive = create_locked(&machine.path().join("punctual-jobs-alive")).unwrap();

        sweep(machine.path());

        assert_eq!(names(machine.path()), ["punctual-jobs-alive"]);
        assert!(machine.path().join("somebody-else").exists());
    }

    #[test]
    fn numbers_are_read_by_their_key() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("events");
        fs::write(&file, "oom 3\noom_kill 2\n").unwrap();
        assert_eq!(read_keyed(&file, "oom_kill"), Some(2));
        assert_eq!(read_keyed(&file, "oom"), Some(3));
        assert_eq!(read_keyed(&file, "max"), None);
    }
}
