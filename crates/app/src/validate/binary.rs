//! Checks of tasks that run an uploaded binary.

use punctual_core::run::{Binary, Limits};
use punctual_core::size::ByteSize;

use super::environment::{self, TEXT_CHARS_MAX};
use super::text;
use crate::{AppError, Result};

const ARGS_MAX: usize = 256;
const ENV_MAX: usize = 256;

pub(super) fn check(call: &Binary) -> Result<()> {
    if call.args.len() > ARGS_MAX {
        return Err(AppError::too_long("/run/binary/args", format!("must be at most {ARGS_MAX}")));
    }
    for arg in &call.args {
        text("/run/binary/args", arg, TEXT_CHARS_MAX)?;
        environment::without_nul("/run/binary/args", arg)?;
    }
    environment::variables("/run/binary/env", &call.env, ENV_MAX)?;
    environment::files("/run/binary/files", &call.files)?;
    environment::grace("/run/binary/grace", call.grace)?;
    limits(&call.limits)
}

fn limits(limits: &Limits) -> Result<()> {
    let size = |name: &str, size: ByteSize, least: ByteSize, most: ByteSize| {
        if size < least || size > most {
            let detail = format!("must be from {least} to {most}");
            return Err(AppError::out_of_range(format!("/run/binary/limits/{name}"), detail));
        }
        Ok(())
    };
    // The walls of the sandbox need some of it themselves.
    size("memory", limits.memory, ByteSize::mib(8), ByteSize::mib(1 << 20))?;
    size("output", limits.output, ByteSize::bytes(0), ByteSize::mib(1024))?;
    size("disk", limits.disk, ByteSize::bytes(64 << 10), ByteSize::mib(64 << 10))?;
    if !(0.01..=1024.0).contains(&limits.cpu) {
        return Err(AppError::out_of_range("/run/binary/limits/cpu", "must be from 0.01 to 1024 cores"));
    }
    for (name, value) in [("pids", limits.pids), ("open_files", limits.open_files)] {
        if !(8..=65_536).contains(&value) {
            return Err(AppError::out_of_range(format!("/run/binary/limits/{name}"), "must be from 8 to 65536"));
        }
    }
    Ok(())
}
