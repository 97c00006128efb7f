//! Folders for this user alone: they hold inputs and outputs of jobs, programs and secrets.

use std::fs::{DirBuilder, File, Metadata, Permissions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::exit::failed;

const PRIVATE: u32 = 0o700;
/// What group and others may do.
const OTHERS: u32 = 0o077;

/// Set on folders that users share, such as /tmp.
const STICKY: u32 = 0o1000;

/// What group and others may change.
const OTHERS_WRITE: u32 = 0o022;

/// How the names of what Punctual keeps in folders begin: in that of the database, in the storage, the cache and the spool.
const OURS: [&str; 12] = [
    "punctual.db",
    "token",
    "root.key",
    "storage",
    "spool",
    "identity",
    "programs",
    "agents",
    "artifact",
    "logs",
    ".uploads",
    "worker_",
];

/// So far below a folder its sub-folders are looked at. Those of the storage that lie deeper have one for each job, and nobody
/// else can have made any in a folder that only we can write to.
const DEPTH: usize = 1;

/// Makes the folder, or takes away what others may do with one that is there, and with the files and folders in it. Only a
/// folder of this user that is empty or holds nothing but Punctual's files is changed so. Refuses a folder of somebody else,
/// one that holds a folder of somebody else, because whoever owns it can change what is in it, and one that others can enter
/// and that is used for something else.
/// `setting` names another folder.
pub(crate) fn make_private(path: &Path, setting: &str) -> anyhow::Result<()> {
    let made = DirBuilder::new().recursive(true).mode(PRIVATE).create(path);
    made.and_then(|()| close(path, own_uid())).map_err(|error| {
        // What we say ourselves of a folder is no error of the system.
        let reason = if error.raw_os_error().is_some() { crate::input::io_reason(&error) } else { error.to_string() };
        failed(
            format!("cannot use the folder {}: {reason}", path.display()),
            format!("name another one with {setting}"),
        )
    })
}

/// As [`make_private`]. A new folder tells Git to pass it over.
pub(crate) fn make_data_dir(path: &Path, setting: &str) -> anyhow::Result<()> {
    let is_new = !path.exists();
    make_private(path, setting)?;
    if is_new && let Err(error) = std::fs::write(path.join(".gitignore"), "*\n") {
        return Err(failed(
            format!("cannot write to the folder {}: {}", path.display(), crate::input::io_reason(&error)),
            format!("name another one with {setting}"),
        ));
    }
    Ok(())
}

fn own_uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Changes nothing before every check has passed.
fn close(path: &Path, own: u32) -> io::Result<()> {
    let folder = File::open(path)?;
    let found = folder.metadata()?;
    if found.uid() != own {
        return Err(refused(format!(
            "it belongs to uid {}, who could read what is in it, and this process runs as uid {own}; give it to this user \
             with chown, or use a new folder inside it",
            found.uid()
        )));
    }
    let mut repairs = Repairs::plan(path, own)?;
    if mode(&found) & OTHERS != 0 {
        if mode(&found) & STICKY != 0 {
            return Err(refused(format!(
                "it is shared with other users (mode {:04o}); use a new folder inside it",
                mode(&found)
            )));
        }
        if let Some(foreign) = &repairs.foreign {
            return Err(refused(format!(
                "others can enter it (mode {:04o}), and it holds {foreign}, which is not Punctual's; use a new folder inside \
                 it, or close it with chmod 700",
                mode(&found)
            )));
        }
        folder.set_permissions(Permissions::from_mode(PRIVATE))?;
        // Nobody else can add to it any more, so what is found now is all there is.
        repairs = match Repairs::plan(path, own) {
            Ok(repairs) if repairs.foreign.is_none() => repairs,
            again => {
                folder.set_permissions(Permissions::from_mode(mode(&found)))?;
                again?;
                return Err(refused("another process writes to it; use a new folder inside it".to_owned()));
            }
        };
        let before = format!("{:04o}", mode(&found));
        tracing::warn!(folder = %path.display(), before, "others could enter the folder; now only this user can");
    }
    // A folder that was named by mistake may hold other things, and nobody else gets to them.
    if repairs.foreign.is_some() {
        return Ok(());
    }
    for (path, closed) in repairs.changes {
        std::fs::set_permissions(path, Permissions::from_mode(closed))?;
    }
    Ok(())
}

fn refused(reason: String) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, reason)
}

/// What is to be corrected in a folder.
#[derive(Default)]
struct Repairs {
    changes: Vec<(PathBuf, u32)>,
    /// The name of something in it that Punctual does not make.
    foreign: Option<String>,
}

impl Repairs {
    /// Refuses a folder in which something of ours belongs to somebody else.
    fn plan(path: &Path, own: u32) -> io::Result<Self> {
        let mut repairs = Self::default();
        for entry in std::fs::read_dir(path)? {
            let name = entry?.file_name();
            if OURS.iter().any(|ours| name.as_bytes().starts_with(ours.as_bytes())) {
                repairs.add(&path.join(name), own, DEPTH)?;
            } else if name != ".gitignore" {
                repairs.foreign = Some(name.to_string_lossy().into_owned());
            }
        }
        Ok(repairs)
    }

    /// `depth` is how many levels of folders are looked at; below one that others could write to, all of them.
    fn add(&mut self, path: &Path, own: u32, depth: usize) -> io::Result<()> {
        let found = match path.symlink_metadata() {
            // A file of another process that has ended since.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            found => found?,
        };
        let refused = |reason: String| Err(refused(format!("{} in it {reason}; remove it", path.display())));
        if found.uid() != own && found.uid() != 0 {
            return refused(format!("belongs to uid {}", found.uid()));
        }
        let is_writable = mode(&found) & OTHERS_WRITE != 0 && !found.is_symlink();
        if found.uid() == own && (found.is_file() || found.is_dir()) {
            if mode(&found) & OTHERS != 0 {
                self.changes.push((path.to_owned(), mode(&found) & !OTHERS));
            }
        } else if is_writable {
            return refused(format!("belongs to root, and others can write to it (mode {:04o})", mode(&found)));
        }
        let depth = if is_writable { usize::MAX } else { depth };
        if found.is_dir() && depth > 0 {
            for entry in std::fs::read_dir(path)? {
                let entry = entry?;
                // Files in a folder that others cannot write to are ours, and nobody else gets to them.
                if is_writable || entry.file_type()?.is_dir() {
                    self.add(&entry.path(), own, depth - 1)?;
                }
            }
        }
        Ok(())
    }
}

fn mode(found: &Metadata) -> u32 {
    found.mode() & 0o7777
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode_of(path: &Path) -> u32 {
        mode(&path.symlink_metadata().unwrap())
    }

    #[test]
    fn a_new_folder_is_private_and_kept_out_of_git_and_an_old_one_gets_no_file() {
        let dir = tempfile::tempdir().unwrap();
        let new = dir.path().join("new/er");
        make_data_dir(&new, "--data-dir").unwrap();
        assert_eq!(std::fs::read_to_string(new.join(".gitignore")).unwrap(), "*\n");
        assert_eq!((mode_of(&new), mode_of(new.parent().unwrap())), (0o700, 0o700));
        let old = dir.path().join("old");
        std::fs::create_dir(&old).unwrap();
        make_data_dir(&old, "--data-dir").unwrap();
        assert!(!old.join(".gitignore").exists());
        assert_eq!(mode_of(&old), 0o700);
    }

    #[test]
    fn an_open_folder_of_ours_is_closed_with_the_files_in_it() {
        let dir = tempfile::tempdir().unwrap();
        for (name, open) in
            [("punctual.db", 0o644), ("punctual.db-wal", 0o666), ("token", 0o604), (".gitignore", 0o644)]
        {
            std::fs::write(dir.path().join(name), "x").unwrap();
            std::fs::set_permissions(dir.path().join(name), Permissions::from_mode(open)).unwrap();
        }
        std::fs::create_dir(dir.path().join("storage")).unwrap();
        let target = tempfile::NamedTempFile::new().unwrap();
        std::fs::set_permissions(target.path(), Permissions::from_mode(0o644)).unwrap();
        std::os::unix::fs::symlink(target.path(), dir.path().join("spool-link")).unwrap();
        for open in [0o755, 0o777, 0o710] {
            std::fs::set_permissions(dir.path(), Permissions::from_mode(open)).unwrap();
            make_private(dir.path(), "--data-dir").unwrap();
            assert_eq!(mode_of(dir.path()), 0o700);
        }
        for (name, closed) in [("punctual.db", 0o600), ("punctual.db-wal", 0o600), ("token", 0o600), ("storage", 0o700)]
        {
            assert_eq!(mode_of(&dir.path().join(name)), closed, "{name}");
        }
        assert_eq!(mode_of(&dir.path().join(".gitignore")), 0o644, "it is no secret");
        assert_eq!(mode_of(target.path()), 0o644, "what a link leads to is not ours to change");
    }

    #[test]
    fn a_folder_with_another_use_is_refused_and_not_changed() {
        let dir = tempfile::tempdir().unwrap();
        let open = |path: &Path, mode| std::fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
        let refused = |reason: &str, before: u32| {
            open(dir.path(), before);
            let said = make_private(dir.path(), "--data-dir").unwrap_err().to_string();
            assert!(said.contains(reason) && said.contains("use a new folder inside it"), "{said}");
            assert_eq!(mode_of(dir.path()), before, "nothing was changed");
        };
        refused("shared with other users (mode 1777)", 0o1777);
        std::fs::write(dir.path().join("punctual.db"), "").unwrap();
        open(&dir.path().join("punctual.db"), 0o644);
        std::fs::write(dir.path().join("passwd"), "").unwrap();
        for before in [0o755, 0o777] {
            refused("it holds passwd, which is not Punctual's", before);
        }
        // Nobody else gets to what is in a closed one.
        open(dir.path(), 0o700);
        make_private(dir.path(), "--data-dir").unwrap();
        assert_eq!(mode_of(&dir.path().join("punctual.db")), 0o644, "it may be part of something else");
    }

    #[test]
    fn a_folder_of_somebody_else_is_refused_with_what_to_do() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("punctual.db"), "").unwrap();
        let stranger = own_uid() + 1;
        let refused = close(dir.path(), stranger).unwrap_err().to_string();
        assert!(refused.contains(&format!("belongs to uid {}", own_uid())) && refused.contains("chown"), "{refused}");
        if own_uid() != 0 {
            return eprintln!("only root can give files away");
        }
        std::os::unix::fs::chown(dir.path().join("punctual.db"), Some(65534), None).unwrap();
        std::fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).unwrap();
        let refused = make_private(dir.path(), "--data-dir").unwrap_err().to_string();
        assert!(refused.contains("punctual.db in it belongs to uid 65534"), "{refused}");
        assert_eq!(mode_of(dir.path()), 0o755, "nothing was changed");
    }

    #[test]
    fn folders_below_it_are_closed_or_refused_like_itself() {
        let dir = tempfile::tempdir().unwrap();
        let day = dir.path().join("logs/2026-11-16");
        let deep = day.join("job_1/deeper");
        std::fs::create_dir_all(&deep).unwrap();
        let open = |path: &Path, mode| std::fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
        open(&day, 0o755);
        open(&deep, 0o777);
        make_private(dir.path(), "--storage").unwrap();
        assert_eq!((mode_of(&day), mode_of(&deep)), (0o700, 0o777), "nobody gets to what is deeper");
        // Others could have made anything below it.
        open(&day, 0o777);
        std::fs::write(day.join("file"), "").unwrap();
        open(&day.join("file"), 0o666);
        make_private(dir.path(), "--storage").unwrap();
        assert_eq!((mode_of(&day), mode_of(&deep), mode_of(&day.join("file"))), (0o700, 0o700, 0o600));
        if own_uid() != 0 {
            return eprintln!("only root can give files away");
        }
        std::os::unix::fs::chown(&day, Some(65534), None).unwrap();
        let refused = make_private(dir.path(), "--storage").unwrap_err().to_string();
        assert!(refused.contains("logs/2026-11-16 in it belongs to uid 65534; remove it"), "{refused}");
        std::os::unix::fs::chown(&day, Some(0), None).unwrap();
        std::os::unix::fs::chown(&deep, Some(65534), None).unwrap();
        make_private(dir.path(), "--storage").unwrap();
        open(&day, 0o720);
        let refused = make_private(dir.path(), "--storage").unwrap_err().to_string();
        assert!(refused.contains("deeper in it belongs to uid 65534"), "{refused}");
    }
}
