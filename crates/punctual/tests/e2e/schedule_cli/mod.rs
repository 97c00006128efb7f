//! Schedules from the command line, on a real server with a real worker.

mod crontab;
mod life;

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::harness::{Home, PUNCTUAL, Process, Server};

/// A server, a worker, and the command line.
pub(crate) struct World {
    home: Home,
    server: Server,
    _worker: Process,
}

pub(crate) struct CommandOutput {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl World {
    fn new() -> Self {
        Self::with_worker(&[])
    }

    pub(crate) fn with_worker(flags: &[&str]) -> Self {
        let home = Home::new();
        let server = home.server();
        let worker = home.worker(&server, flags);
        Self { home, server, _worker: worker }
    }

    fn path(&self) -> &Path {
        self.home.path()
    }

    /// Runs a line; its words are parted by blanks, those in quotes are one.
    pub(crate) fn say(&self, line: &str) -> CommandOutput {
        let words = line.split('\'').enumerate().flat_map(|(place, part)| match place % 2 {
            0 => part.split_whitespace().collect::<Vec<_>>(),
            _ => vec![part],
        });
        let output = Command::new(PUNCTUAL)
            .args(["--server", &self.server.url])
            .args(words)
            .env("TZ", "Europe/Berlin")
            .current_dir(self.path())
            .stdin(Stdio::null())
            .output()
            .expect("the program starts");
        CommandOutput {
            code: output.status.code(),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// A line that succeeds; answers what it printed.
    #[track_caller]
    pub(crate) fn ok(&self, line: &str) -> String {
        let said = self.say(line);
        assert_eq!(said.code, Some(0), "{line}: {}{}", said.out, said.err);
        said.out
    }

    #[track_caller]
    pub(crate) fn json(&self, line: &str) -> Value {
        serde_json::from_str(&self.ok(&format!("{line} -o json"))).expect("it is JSON")
    }
}
