//! Checks of tasks that run an uploaded binary.

use punctual_core::Span;
use punctual_core::run::{Binary, Limits};
use punctual_core::size::ByteSize;

use super::text;
use crate::{AppError, Result};

const ARGS_MAX: usize = 256;
const ENV_MAX: usize = 256;
const TEXT_CHARS_MAX: usize = 8192;
/// Set for the program by the worker.
const ENV_RESERVED: &str = "PUNCTUAL_";
const GRACE_MAX: Span = Span::from_secs(600);

pub(super) fn check(call: &Binary) -> Result<()> {
    if call.args.len() > ARGS_MAX {
        return Err(AppError::field("/run/binary/args", format!("must be at most {ARGS_MAX}")));
    }
    for arg in &call.args {
        text("/run/binary/args", arg, TEXT_CHARS_MAX)?;
        without_nul("/run/binary/args", arg)?;
    }
    if call.env.len() > ENV_MAX {
        return Err(AppError::field("/run/binary/env", format!("must be at most {ENV_MAX}")));
    }
    for (name, value) in &call.env {
        env_name(name)?;
        text("/run/binary/env", value, TEXT_CHARS_MAX)?;
        without_nul("/run/binary/env", value)?;
    }
    if call.grace > GRACE_MAX {
        return Err(AppError::field("/run/binary/grace", "must be at most 10 minutes"));
    }
    limits(&call.limits)
}

fn env_name(name: &str) -> Result<()> {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let is_name = !name.is_empty() && name.len() <= 256 && name.chars().all(is_allowed);
    if !is_name || name.starts_with(|c: char| c.is_ascii_digit()) {
        let detail = format!("{name:?} is not a name of letters, digits and underscores");
        return Err(AppError::field("/run/binary/env", detail));
    }
    if name.starts_with(ENV_RESERVED) {
        return Err(AppError::field("/run/binary/env", format!("{name} begins with {ENV_RESERVED}, which is ours")));
    }
    Ok(())
}

fn without_nul(pointer: &str, value: &str) -> Result<()> {
    if value.contains('\0') {
        return Err(AppError::field(pointer, "must not contain a NUL"));
    }
    Ok(())
}

fn limits(limits: &Limits) -> Result<()> {
    let size = |name: &str, size: ByteSize, least: ByteSize, most: ByteSize| {
        if size < least || size > most {
            let detail = format!("must be from {least} to {most}");
            return Err(AppError::field(format!("/run/binary/limits/{name}"), detail));
        }
        Ok(())
    };
    // The walls of the sandbox need some of it themselves.
    size("memory", limits.memory, ByteSize::mib(8), ByteSize::mib(1 << 20))?;
    size("output", limits.output, ByteSize::bytes(0), ByteSize::mib(1024))?;
    size("disk", limits.disk, ByteSize::bytes(64 << 10), ByteSize::mib(64 << 10))?;
    if !(0.01..=1024.0).contains(&limits.cpu) {
        return Err(AppError::field("/run/binary/limits/cpu", "must be from 0.01 to 1024 cores"));
    }
    for (name, value) in [("pids", limits.pids), ("open_files", limits.open_files)] {
        if !(8..=65_536).contains(&value) {
            return Err(AppError::field(format!("/run/binary/limits/{name}"), "must be from 8 to 65536"));
        }
    }
    Ok(())
}
