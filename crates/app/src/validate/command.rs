//! Checks of tasks that run a line on the worker's own machine.

use punctual_core::run::Command;

use super::{argument, environment, text};
use crate::{AppError, Faults, Result};

const LINE_BYTES_MAX: usize = 32 << 10;
const STDIN_BYTES_MAX: usize = 64 << 10;
/// What the kernel takes.
const PATH_BYTES_MAX: usize = 4095;
const ENVIRONMENT_MAX: usize = 100;
/// Longer than the name of any file.
const NAME_CHARS_MAX: usize = 255;

pub(super) fn check(command: &Command) -> Result<()> {
    let Command { line, name, shell, stdin, directory, environment: variables, files, grace } = command;
    let mut faults = Faults::default();
    faults.check(self::line(line));
    match name.as_deref() {
        Some(name) if name.trim().is_empty() => {
            faults.check(Err(AppError::field("/run/command/name", "must not be empty").hint("leave it out")));
        }
        Some(name) => faults.check(text("/run/command/name", name, NAME_CHARS_MAX)),
        None => {}
    }
    for (pointer, path) in [("/run/command/shell", shell), ("/run/command/directory", directory)] {
        faults.check(path.as_ref().map_or(Ok(()), |path| absolute(pointer, path)));
    }
    if stdin.as_ref().is_some_and(|stdin| stdin.len() > STDIN_BYTES_MAX) {
        let detail = format!("must be at most {STDIN_BYTES_MAX} bytes");
        let error = AppError::too_long("/run/command/stdin", detail);
        faults.check(Err(error.hint("pass it as the job's input, or in a file")));
    }
    faults.check(environment::variables("/run/command/environment", variables, ENVIRONMENT_MAX));
    faults.check(environment::files("/run/command/files", files));
    faults.check(environment::grace("/run/command/grace", *grace));
    faults.finish()
}

fn line(line: &str) -> Result<()> {
    if line.trim().is_empty() {
        return Err(AppError::field("/run/command/line", "must not be empty"));
    }
    if line.len() > LINE_BYTES_MAX {
        let detail = format!("must be at most {LINE_BYTES_MAX} bytes");
        return Err(
            AppError::too_long("/run/command/line", detail).hint("put it into a script on the worker's machine")
        );
    }
    environment::without_nul("/run/command/line", line)
}

fn absolute(pointer: &str, path: &str) -> Result<()> {
    let detail = || format!("must be a path that begins with a slash, of at most {PATH_BYTES_MAX} bytes");
    if !path.starts_with('/') {
        return Err(AppError::field(pointer, detail()));
    }
    if path.len() > PATH_BYTES_MAX {
        return Err(AppError::too_long(pointer, detail()));
    }
    argument(pointer, path, PATH_BYTES_MAX)
}
