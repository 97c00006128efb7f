//! Turns a job into a request, and refuses jobs that could not be executed.

use std::ffi::CString;

use crate::cell::{FILES_PATH, RESULT_PATH};
use crate::error::LaunchError;
use crate::job::{File, ProgramUser, SandboxJob};
use crate::wire::{Request, STRINGS_LEN_MAX};

const RESULT_VARIABLE: &str = "PUNCTUAL_OUTPUT";
const FILES_VARIABLE: &str = "PUNCTUAL_FILES";

pub(crate) fn from_job(job: &SandboxJob) -> Result<Request, LaunchError> {
    if let Some(problem) = job.limits.problem() {
        return Err(LaunchError::Invalid(problem));
    }
    let args = ["program"].into_iter().chain(job.args.iter().map(String::as_str));
    let args = args.map(|arg| c_string(arg.to_owned())).collect::<Result<Vec<_>, _>>()?;
    let mut env = Vec::new();
    for (name, value) in &job.env {
        if name.is_empty() || name.contains('=') {
            return Err(LaunchError::Invalid("the name of a variable is empty or contains a ="));
        }
        if name != RESULT_VARIABLE && name != FILES_VARIABLE {
            env.push(c_string(format!("{name}={value}"))?);
        }
    }
    env.push(c_string(format!("{RESULT_VARIABLE}={RESULT_PATH}"))?);
    if !job.files.is_empty() {
        env.push(c_string(format!("{FILES_VARIABLE}={FILES_PATH}"))?);
    }
    if !job.env.iter().any(|(name, _)| name == "HOME") {
        env.push(c"HOME=/tmp".into());
    }
    // Each string takes eight bytes more on the wire, and a pointer in the kernel.
    let len: usize = args.iter().chain(&env).map(|string| string.as_bytes().len() + 9).sum();
    if len > STRINGS_LEN_MAX {
        return Err(LaunchError::Invalid("arguments and environment are more than 128 KiB; pass large data by stdin"));
    }
    let files = files(&job.files)?;
    if job.user == ProgramUser::Number(0) {
        return Err(LaunchError::Invalid("a program must not run as root"));
    }
    Ok(Request { limits: job.limits, network: job.network, user: job.user, args, env, files })
}

fn files(files: &[File]) -> Result<Vec<(CString, u64)>, LaunchError> {
    let is_word = |name: &str| !name.is_empty() && name.len() <= 255 && !name.starts_with('.') && !name.contains('/');
    if files.len() > File::COUNT_MAX || !files.iter().all(|file| is_word(&file.name)) {
        return Err(LaunchError::Invalid("there are too many files, or one has a name that is none"));
    }
    files.iter().map(|file| Ok((c_string(file.name.clone())?, file.len))).collect()
}

fn c_string(text: String) -> Result<CString, LaunchError> {
    CString::new(text).map_err(|_| LaunchError::Invalid("an argument or a variable contains a zero byte"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{Limits, Network, Stdin};

    fn job(args: &[&str], env: &[(&str, &str)]) -> SandboxJob {
        SandboxJob {
            program: std::fs::File::open("/dev/null").unwrap().into(),
            args: args.iter().map(|&arg| arg.to_owned()).collect(),
            env: env.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect(),
            stdin: Stdin::Empty,
            files: Vec::new(),
            limits: Limits::default(),
            network: Network::None,
            user: ProgramUser::Usual,
        }
    }

    #[test]
    fn the_environment_is_what_was_given_and_where_the_result_goes() {
        let request = from_job(&job(&["-v"], &[("A", "1"), ("PUNCTUAL_OUTPUT", "/etc")])).unwrap();
        assert_eq!(request.args, [c"program".into(), CString::from(c"-v")]);
        let expected = ["A=1", "PUNCTUAL_OUTPUT=/tmp/output", "HOME=/tmp"];
        assert_eq!(request.env, expected.map(|variable| CString::new(variable).unwrap()));
    }

    #[test]
    fn what_could_not_be_executed_is_refused() {
        let refused = |job: &SandboxJob| from_job(job).unwrap_err().to_string();
        assert!(refused(&job(&["a\0b"], &[])).contains("zero byte"));
        assert!(refused(&job(&[], &[("A=B", "")])).contains("contains a ="));
        assert!(refused(&job(&[], &[("", "")])).contains("empty"));
        assert!(refused(&job(&[&"x".repeat(200 << 10)], &[])).contains("128 KiB"));
        let root = SandboxJob { user: ProgramUser::Number(0), ..job(&[], &[]) };
        assert!(refused(&root).contains("as root"));
        let mut tight = job(&[], &[]);
        tight.limits.memory_bytes = 4096;
        assert!(refused(&tight).contains("memory_bytes"));
    }
}
