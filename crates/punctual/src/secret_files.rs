//! Files that hold secrets and that others can read. What runs for long refuses its own, as `ssh` does with keys. What is read
//! once, for one command, causes a warning: it has been readable already, and the command changes nothing about that.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::output::note;
use crate::view::quoted;

/// How a file of this user is open to others, and the command that closes it. `None` for files of other users, which are theirs
/// to close, and for pipes.
pub(crate) fn exposure(path: &Path, found: &Metadata) -> Option<String> {
    let is_own = found.is_file() && found.uid() == rustix::process::geteuid().as_raw();
    let mode = found.mode() & 0o7777;
    (is_own && mode & 0o077 != 0).then(|| {
        let path = quoted(&path.display().to_string());
        format!("others can read or change it (mode {mode:04o}); close it with chmod 600 {path}")
    })
}

/// Warns of a file whose content becomes a part of a request. `-` is stdin.
pub(crate) fn warn(path: &str) {
    let found = (path != "-").then(|| std::fs::metadata(path).ok()).flatten();
    if let Some(exposure) = found.and_then(|found| exposure(Path::new(path), &found)) {
        note(&format!("warning: {path}: {exposure}"));
    }
}
