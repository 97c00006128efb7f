//! A folder that belongs to one run of a worker for as long as it lives.
//!
//! The worker holds a lock on it. The kernel gives the lock up with the process, so a folder that
//! can be locked is nobody's, and what was started from it may be ended. Process ids
//! would not do: they are used again, and mean nothing in another container.
//!
//! What was started bears the id of the place that the workers share. Names of machines and paths would not do:
//! others have the same, and their runs are not known here.

use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use crate::host::HostId;

/// The file in the shared folder that holds its id; written once.
const ID_FILE: &str = "id";

pub struct Workplace {
    all: PathBuf,
    /// The id of the shared folder.
    id: String,
    /// The name of this run and of its folder.
    run: String,
    _lock: File,
}

impl Workplace {
    /// Creates a folder in `all`, which the workers of a machine may share, and removes those of dead workers.
    pub fn open(all: &Path) -> io::Result<Self> {
        fs::create_dir_all(all)?;
        // Others may have to find it from elsewhere.
        let all = fs::canonicalize(all)?;
        // One at a time: a folder that is made and not locked yet looks like one of the dead.
        let turn = File::open(&all)?;
        turn.lock()?;
        let id = shared_id(&all)?;
        let run = HostId::random()?.to_string();
        let folder = all.join(&run);
        fs::DirBuilder::new().mode(0o700).create(&folder)?;
        let lock = File::open(&folder)?;
        lock.lock()?;
        let workplace = Self { all, id, run, _lock: lock };
        workplace.sweep()?;
        Ok(workplace)
    }

    /// The folder in which all workers of this machine have theirs.
    pub fn all(&self) -> &Path {
        &self.all
    }

    /// The id of the shared folder. It distinguishes what was started from there from everything else.
    pub fn id(&self) -> &str {
        &self.id
    }

    pub fn run(&self) -> &str {
        &self.run
    }

    pub(super) fn folder(&self) -> PathBuf {
        self.all.join(&self.run)
    }

    /// Whether the worker of this run is dead, if the run belongs to this workplace. A run without a folder is.
    pub(super) fn is_gone(&self, run: &str) -> bool {
        if run == self.run || HostId::parse(run).is_none() {
            return false;
        }
        match File::open(self.all.join(run)) {
            Ok(folder) => folder.try_lock().is_ok(),
            Err(error) => error.kind() == io::ErrorKind::NotFound,
        }
    }

    fn sweep(&self) -> io::Result<()> {
        for entry in fs::read_dir(&self.all)? {
            let path = entry?.path();
            if !path.is_dir() {
                continue;
            }
            let Ok(folder) = File::open(&path) else { continue };
            match folder.try_lock() {
                // Just removed by another, perhaps.
                Ok(()) => drop(fs::remove_dir_all(&path)),
                Err(TryLockError::WouldBlock) => {}
                Err(TryLockError::Error(error)) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Reads the id of the shared folder, which the first worker writes. Must not be called concurrently.
fn shared_id(all: &Path) -> io::Result<String> {
    let path = all.join(ID_FILE);
    match fs::read_to_string(&path) {
        Ok(text) => match HostId::parse(text.trim()) {
            Some(id) => Ok(id.to_string()),
            None => {
                let hint = format!("{} is not an id; remove the file while no worker runs here", path.display());
                Err(io::Error::new(io::ErrorKind::InvalidData, hint))
            }
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let id = HostId::random()?.to_string();
            // Whole or not at all, whenever the power fails: it must never be another one later.
            let draft = all.join(format!("{ID_FILE}.new"));
            let mut file = File::create(&draft)?;
            writeln!(file, "{id}")?;
            file.sync_all()?;
            fs::rename(&draft, &path)?;
            File::open(all)?.sync_all()?;
            Ok(id)
        }
        Err(error) => Err(error),
    }
}

impl Drop for Workplace {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(self.folder());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_living_keep_their_folder_and_the_dead_lose_it() {
        let machine = tempfile::tempdir().unwrap();
        let alive = Workplace::open(machine.path()).unwrap();
        let dead = machine.path().join("11111111-dead");
        fs::create_dir(&dead).unwrap();
        fs::write(dead.join("left"), "over").unwrap();
        assert!(alive.is_gone("11111111-dead") && alive.is_gone("22222222-never"));
        let second = Workplace::open(machine.path()).unwrap();
        assert!(!dead.exists() && alive.folder().exists());
        assert!(!second.is_gone(alive.run()) && !alive.is_gone(second.run()) && !second.is_gone(second.run()));
        assert!(!second.is_gone("../elsewhere"), "what is not a run is not ours to end");
        let former = alive.run().to_owned();
        drop(alive);
        assert!(second.is_gone(&former));
    }

    #[test]
    fn the_shared_folder_keeps_its_id() {
        let (machine, another) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        // As if the power had failed before the id was whole.
        fs::write(machine.path().join("id.new"), "half").unwrap();
        let first = Workplace::open(machine.path()).unwrap();
        let id = first.id().to_owned();
        assert_eq!(id.len(), 36);
        assert_eq!(Workplace::open(machine.path()).unwrap().id(), id, "beside another");
        drop(first);
        assert_eq!(Workplace::open(machine.path()).unwrap().id(), id, "after all others");
        assert_ne!(Workplace::open(another.path()).unwrap().id(), id);
        fs::write(machine.path().join(ID_FILE), "").unwrap();
        let refused = Workplace::open(machine.path()).err().unwrap().to_string();
        assert!(refused.contains("is not an id; remove the file"), "{refused}");
    }
}
