//! A shell line on the worker's own machine.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::{TaskFile, default_grace};
use crate::time::Span;

/// A line for a shell on the worker's own machine, as the worker's user and outside of any sandbox. Only workers that
/// were started with `--allow-commands` run it. See docs/commands.md for what it finds and what its exit code means.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Command {
    /// What the shell is given after `-c`.
    #[cfg_attr(feature = "schema", schema(example = "pg_dump shop | gzip > /backup/shop.gz"))]
    pub line: String,
    /// What lists and messages call it, such as the file name of a script. Absent: the first program of the line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(example = "backup.sh"))]
    pub name: Option<String>,
    /// The path of the shell. Absent: `/bin/sh`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shell: Option<String>,
    /// Its standard input. Absent: the job's input, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdin: Option<String>,
    /// The path of the folder that it starts in. Absent: the home folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub directory: Option<String>,
    /// Added to its environment, which has nothing else of the worker's than the user's name and home.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub environment: BTreeMap<String, String>,
    /// Uploaded files that it reads, in the folder that `PUNCTUAL_FILES` names. Copies, which go with the attempt.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<TaskFile>,
    /// The time from SIGTERM to SIGKILL, when it is cancelled or its time is over.
    #[serde(default = "default_grace")]
    #[cfg_attr(feature = "schema", schema(value_type = String, format = "x-duration", example = "PT10S"))]
    pub grace: Span,
}

impl Command {
    /// The shell of a line that names none.
    pub const SHELL: &str = "/bin/sh";

    /// A line with everything else as usual.
    pub fn new(line: impl Into<String>) -> Self {
        Self {
            line: line.into(),
            name: None,
            shell: None,
            stdin: None,
            directory: None,
            environment: BTreeMap::new(),
            files: Vec::new(),
            grace: default_grace(),
        }
    }

    pub fn shell(&self) -> &str {
        self.shell.as_deref().unwrap_or(Self::SHELL)
    }
}

/// Passwords are handed over in the environment and on standard input.
impl fmt::Debug for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { line, name, shell, stdin, directory, environment, files, grace } = self;
        f.debug_struct("Command")
            .field("line", line)
            .field("name", name)
            .field("shell", shell)
            .field("stdin", &stdin.as_ref().map(|_| "***"))
            .field("directory", directory)
            .field("environment", &environment.keys())
            .field("files", files)
            .field("grace", grace)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::super::Run;
    use super::*;

    #[test]
    fn a_line_is_all_that_must_be_said() {
        let run: Run = serde_json::from_str(r#"{"command":{"line":"date"}}"#).unwrap();
        assert_eq!(run, Run::Command(Command::new("date")));
        assert_eq!(serde_json::to_string(&run).unwrap(), r#"{"command":{"line":"date","grace":"PT10S"}}"#);
        assert_eq!((run.kind(), run.capability().as_str(), run.grace()), ("command", "command", default_grace()));
        assert!(Run::KINDS.contains(&run.kind()));
    }

    #[test]
    fn what_may_be_secret_is_not_in_its_debug_output() {
        let environment = [("PGPASSWORD".to_owned(), "s3cret".to_owned())].into();
        let command = Command { stdin: Some("s3cret".to_owned()), environment, ..Command::new("psql") };
        let debugged = format!("{:?}", Run::Command(command));
        assert!(debugged.contains("PGPASSWORD") && !debugged.contains("s3cret"), "{debugged}");
    }
}
