//! The folder of the embedded database that is in use, and whether the database in it is intact.

use std::path::{Path, PathBuf};
use std::time::Duration;

use punctual_api::Node;
use punctual_store::StoreError;
use punctual_store_sqlite::check_whole;

use super::Check;
use crate::output::{Output, counted};
use crate::stores::{CORRUPT_HINT, DATABASE_FILE};

const FOLDER: &str = "data folder";
const DATABASE: &str = "database";
/// A table that takes longer to check is named, so that people see why they wait.
const TOLD_AFTER: Duration = Duration::from_secs(1);
/// Less than this and a busy server may stop within the hour.
const DISK_WARN_BYTES: u64 = 1 << 30;

fn data_dir(path: &Path) -> Check {
    const FIX: &str = "name another folder with --data-dir";
    // Before the first start there is only a place for it.
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let Some(place) = absolute.ancestors().find(|dir| dir.is_dir()) else {
        return Check::fail(FOLDER, format!("{} cannot be made", path.display()), FIX);
    };
    if let Err(error) = tempfile::tempfile_in(place) {
        return Check::fail(FOLDER, format!("{} is not writable: {error}", place.display()), FIX);
    }
    let free = match rustix::fs::statvfs(place) {
        Ok(stat) => stat.f_bavail.saturating_mul(stat.f_frsize),
        Err(error) => return Check::warn(FOLDER, format!("cannot tell the free space: {error}"), FIX),
    };
    let gib = free as f64 / f64::from(1 << 30);
    let reason = format!("{} is writable, {gib:.1} GiB free", path.display());
    if free < DISK_WARN_BYTES {
        return Check::warn(FOLDER, reason, "make room, or shorten `retention`");
    }
    Check::pass(FOLDER, reason)
}

/// `folder` is what the settings name; a server that answers knows better.
pub(super) async fn checks(folder: &Path, server: Option<&Node>, out: &Output) -> Vec<Check> {
    let file = match server {
        None => folder.join(DATABASE_FILE),
        Some(Node { database_file: Some(file), .. }) => PathBuf::from(file),
        Some(node) => {
            return vec![Check::skip(
                FOLDER,
                format!("not checked: the server has no database of its own ({})", node.store),
            )];
        }
    };
    if !file.exists() {
        return match server {
            Some(_) => {
                let reason = format!("not checked: {} is not on this machine, or gone", file.display());
                vec![Check::skip(FOLDER, format!("{reason}; run `punctual doctor` on the server's"))]
            }
            None => vec![before_the_first_start(folder)],
        };
    }
    let folder = file.parent().unwrap_or(Path::new(".")).to_owned();
    vec![data_dir(&folder), intact(file, out).await]
}

/// No server answers, and none has been here.
fn before_the_first_start(folder: &Path) -> Check {
    let found = data_dir(folder);
    match found.verdict {
        super::Verdict::Fail => found,
        _ => Check::skip(
            FOLDER,
            format!("there is no database in {} yet; a server here would make one", folder.display()),
        ),
    }
}

async fn intact(file: PathBuf, out: &Output) -> Check {
    let shown = file.display().to_string();
    let (tables, mut checked_tables) = tokio::sync::mpsc::unbounded_channel();
    let checking = tokio::task::spawn_blocking(move || {
        check_whole(&file, |table| {
            let _ = tables.send(table.to_owned());
        })
    });
    let mut current = None;
    loop {
        match tokio::time::timeout(TOLD_AFTER, checked_tables.recv()).await {
            Ok(Some(table)) => current = Some(table),
            Ok(None) => break,
            Err(_) => {
                if let Some(table) = current.take() {
                    out.hint(&format!("Checking table {table} of {shown} ..."));
                }
            }
        }
    }
    match checking.await {
        Ok(Ok(checked)) => Check::pass(DATABASE, format!("{shown} is intact ({})", counted(checked.tables, "table"))),
        Ok(Err(error @ StoreError::Faulty { .. })) => Check::fail(DATABASE, error.to_string(), CORRUPT_HINT),
        Ok(Err(error)) => {
            Check::warn(DATABASE, format!("{shown} could not be checked: {error}"), "run this as the server's user")
        }
        Err(error) => Check::warn(DATABASE, format!("{shown} could not be checked: {error}"), "see above"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Verdict;
    use super::*;

    #[test]
    fn a_folder_that_cannot_be_written_fails() {
        let dir = tempfile::tempdir().unwrap();
        assert_ne!(data_dir(&dir.path().join("not/yet/there")).verdict, Verdict::Fail);
        let found = data_dir(Path::new("/proc/punctual"));
        assert!(found.verdict == Verdict::Fail && found.reason.contains("not writable"), "{found:?}");
    }

    #[test]
    fn a_folder_without_a_database_is_not_said_to_be_fine() {
        let dir = tempfile::tempdir().unwrap();
        let found = before_the_first_start(dir.path());
        assert!(found.verdict == Verdict::Skip && found.reason.contains("no database"), "{found:?}");
    }
}
