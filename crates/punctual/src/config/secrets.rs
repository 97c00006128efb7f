//! Settings that nobody should see: read from a file on request, and shown without what is secret.

use std::io::Read;

use crate::input::io_reason;

/// Stands for what is not shown.
const HIDDEN: &str = "***";

/// More is not a list of keys, but the wrong file.
const FILE_BYTES_MAX: u64 = 256 << 10;

/// The value, or what is in the file that it names with an `@`.
pub(super) fn read(text: &str) -> Result<String, String> {
    match text.strip_prefix('@') {
        None => Ok(text.to_owned()),
        Some(path) => read_file(path).map_err(|error| format!("cannot read {path}: {}", io_reason(&error))),
    }
}

fn read_file(path: &str) -> std::io::Result<String> {
    let mut text = String::new();
    std::fs::File::open(path)?.take(FILE_BYTES_MAX + 1).read_to_string(&mut text)?;
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
