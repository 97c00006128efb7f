//! Checks of what programs are started with, in a sandbox and outside.

use std::collections::BTreeMap;

use punctual_api::FieldCode;
use punctual_core::Span;
use punctual_core::run::TaskFile;

use super::{argument, name};
use crate::{AppError, Result};

pub(super) const TEXT_CHARS_MAX: usize = 8192;
/// Set for the program by the worker.
const RESERVED: &str = "PUNCTUAL_";
const GRACE_MAX: Span = Span::from_secs(600);

pub(super) fn variables(pointer: &str, variables: &BTreeMap<String, String>, max: usize) -> Result<()> {
    if variables.len() > max {
        return Err(AppError::too_long(pointer, format!("must be at most {max}")));
    }
    for (variable, value) in variables {
        variable_name(pointer, variable)?;
        argument(pointer, value, TEXT_CHARS_MAX)?;
        without_nul(pointer, value)?;
    }
    Ok(())
}

fn variable_name(pointer: &str, name: &str) -> Result<()> {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let is_name = !name.is_empty() && name.len() <= 256 && name.chars().all(is_allowed);
    if !is_name || name.starts_with(|c: char| c.is_ascii_digit()) {
        let detail = format!("{name:?} is not a name of letters, digits and underscores");
        return Err(AppError::field(pointer, detail));
    }
    if name.starts_with(RESERVED) {
        return Err(AppError::field(pointer, format!("{name} begins with {RESERVED}, which is ours")));
    }
    Ok(())
}

/// Files that the program reads: each has a name of its own in one folder.
pub(super) fn files(pointer: &str, files: &[TaskFile]) -> Result<()> {
    if files.len() > TaskFile::COUNT_MAX {
        let detail = format!("must be at most {}", TaskFile::COUNT_MAX);
        return Err(AppError::too_long(pointer, detail).hint("put more of them into one archive"));
    }
    for (place, file) in files.iter().enumerate() {
        let pointer = format!("{pointer}/{place}/name");
        name(&pointer, &file.name)?;
        if files[..place].iter().any(|other| other.name == file.name) {
            return Err(AppError::field(pointer, format!("{} is the name of another file", file.name)));
        }
    }
    Ok(())
}

pub(super) fn without_nul(pointer: &str, value: &str) -> Result<()> {
    if value.contains('\0') {
        return Err(AppError::field(pointer, "must not contain a NUL").code(FieldCode::ForbiddenCharacter));
    }
    Ok(())
}

pub(super) fn grace(pointer: &str, grace: Span) -> Result<()> {
    if grace > GRACE_MAX {
        return Err(AppError::out_of_range(pointer, "must be at most 10 minutes"));
    }
    Ok(())
}
