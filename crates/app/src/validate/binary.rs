//! Checks of tasks that run an uploaded binary.

use punctual_core::run::{Binary, Limits};
use punctual_core::size::ByteSize;

use super::argument;
use super::environment::{self, TEXT_CHARS_MAX};
use crate::{AppError, Faults, Result};

const ARGS_MAX: usize = 256;
const ENV_MAX: usize = 256;

pub(super) fn check(call: &Binary) -> Result<()> {
    let mut faults = Faults::default();
    faults.check(arguments(&call.args));
    faults.check(environment::variables("/run/binary/env", &call.env, ENV_MAX));
    faults.check(environment::files("/run/binary/files", &call.files));
    faults.check(environment::grace("/run/binary/grace", call.grace));
    limits(&call.limits, &mut faults);
    faults.finish()
}

fn arguments(args: &[String]) -> Result<()> {
    if args.len() > ARGS_MAX {
        return Err(AppError::too_long("/run/binary/args", format!("must be at most {ARGS_MAX}")));
    }
    for arg in args {
        argument("/run/binary/args", arg, TEXT_CHARS_MAX)?;
        environment::without_nul("/run/binary/args", arg)?;
    }
    Ok(())
}

fn limits(limits: &Limits, faults: &mut Faults) {
    let size = |name: &str, size: ByteSize, least: ByteSize, most: ByteSize| {
        if size < least || size > most {
            let detail = format!("must be from {least} to {most}");
            return Err(AppError::out_of_range(format!("/run/binary/limits/{name}"), detail));
        }
        Ok(())
    };
    // The walls of the sandbox need some of it themselves.
    faults.check(size("memory", limits.memory, ByteSize::mib(8), ByteSize::mib(1 << 20)));
    faults.check(size("output", limits.output, ByteSize::bytes(0), ByteSize::mib(1024)));
    faults.check(size("disk", limits.disk, ByteSize::bytes(64 << 10), ByteSize::mib(64 << 10)));
    if !(0.01..=1024.0).contains(&limits.cpu) {
        faults.check(Err(AppError::out_of_range("/run/binary/limits/cpu", "must be from 0.01 to 1024 cores")));
    }
    for (name, value) in [("pids", limits.pids), ("open_files", limits.open_files)] {
        if !(8..=65_536).contains(&value) {
            let error = AppError::out_of_range(format!("/run/binary/limits/{name}"), "must be from 8 to 65536");
            faults.check(Err(error));
        }
    }
}
