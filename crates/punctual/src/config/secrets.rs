//! Settings that nobody should see: read from a file on request, and shown without what is secret.

use std::io::{ErrorKind, Read};
use std::path::Path;

use crate::input::io_reason;
use crate::secret_files::exposure;

/// Stands for what is not shown.
const HIDDEN: &str = "***";

/// More is not a list of keys, but the wrong file.
const FILE_BYTES_MAX: u64 = 256 << 10;

/// The value, or what is in the file that it names with an `@`.
pub(super) fn read(text: &str) -> Result<String, String> {
    match text.strip_prefix('@') {
        None => Ok(text.to_owned()),
        Some(path) => read_file(path).map_err(|error| {
            // What we say ourselves of a file may hold its path.
            let is_own = error.kind() == ErrorKind::Other && error.raw_os_error().is_none();
            let reason = if is_own { error.to_string() } else { io_reason(&error) };
            format!("cannot read {path}: {reason}")
        }),
    }
}

fn read_file(path: &str) -> std::io::Result<String> {
    let mut text = String::new();
    let file = std::fs::File::open(path)?;
    if let Some(exposure) = exposure(Path::new(path), &file.metadata()?) {
        return Err(std::io::Error::other(exposure));
    }
    file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text)?;
    if text.len() as u64 > FILE_BYTES_MAX {
        return Err(std::io::Error::other("it is too large for a file of secrets"));
    }
    Ok(text.trim_end_matches(['\r', '\n']).to_owned())
}

/// The names that are in it, or the file. What has neither is hidden as a whole.
pub(super) fn masked(text: &str) -> String {
    if text.is_empty() || text.starts_with('@') {
        return text.to_owned();
    }
    let names: Option<Vec<_>> = text
        .split(',')
        .map(|pair| {
            let (name, _) = pair.trim().split_once('=')?;
            let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
            name.chars().all(is_name).then(|| format!("{name}={HIDDEN}"))
        })
        .collect();
    names.map_or_else(|| HIDDEN.to_owned(), |names| names.join(","))
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::io::Write;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_file_that_others_can_read_is_refused_with_the_command_that_closes_it() {
        let mut file = tempfile::Builder::new().prefix("Its Name ").tempfile().unwrap();
        file.write_all(b"s3cret\n").unwrap();
        let written = format!("@{}", file.path().display());
        assert_eq!(read(&written).as_deref(), Ok("s3cret"));
        for mode in [0o644, 0o640, 0o602] {
            file.as_file().set_permissions(Permissions::from_mode(mode)).unwrap();
            let refused = read(&written).unwrap_err();
            let command = format!("(mode {mode:04o}); close it with chmod 600 '{}'", file.path().display());
            assert!(refused.contains(&command) && !refused.contains("s3cret"), "{refused}");
        }
    }
}
