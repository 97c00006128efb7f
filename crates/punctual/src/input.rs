//! What people hand in: texts, files and stdin, and what is wrong with them.

use std::io::Read;

use anyhow::Context as _;
use punctual_api::{FieldCode, Misfit};

use crate::exit::usage;

/// What is wrong with JSON that can be read and does not fit, with the name that was written where there is one.
pub(crate) fn misfit(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let misfit = Misfit::read(&text);
    match (misfit.code, &misfit.missing) {
        (_, Some(missing)) => format!("`{missing}` {}", misfit.detail),
        (FieldCode::UnknownField, None) => {
            let written = text.split('`').nth(1).unwrap_or_default();
            format!("`{written}`: {}", misfit.detail)
        }
        (_, None) => misfit.detail,
    }
}

/// What the system says of a file, without its numbers.
pub(crate) fn io_reason(error: &std::io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error ").next().unwrap_or_default().to_lowercase()
}

/// Reads `TEXT`, `@file` or `-` for stdin.
pub(crate) fn text_or_file(argument: &str) -> anyhow::Result<String> {
    match argument.strip_prefix('@') {
        Some(path) => read_file(path),
        None if argument == "-" => read_file("-"),
        None => Ok(argument.to_owned()),
    }
}

/// Reads a file, or stdin for `-`.
pub(crate) fn read_file(path: &str) -> anyhow::Result<String> {
    if path == "-" {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).context("cannot read from stdin")?;
        return Ok(text);
    }
    std::fs::read_to_string(path).map_err(|error| unreadable(path, &error))
}

/// Reads a file that may be no text, or stdin for `-`.
pub(crate) fn read_bytes(path: &str) -> anyhow::Result<Vec<u8>> {
    if path == "-" {
        let mut bytes = Vec::new();
        std::io::stdin().read_to_end(&mut bytes).context("cannot read from stdin")?;
        return Ok(bytes);
    }
    std::fs::read(path).map_err(|error| unreadable(path, &error))
}

fn unreadable(path: &str, error: &std::io::Error) -> anyhow::Error {
    usage(format!("cannot read {path}: {}", io_reason(error)), "name a file that exists, or - for stdin")
}
