//! Runs a child that prints marks and figures, line by line, and reads the counters at its marks.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use anyhow::{Context, bail};

use crate::machine;

/// A child that prints nothing for this long hangs. Loading and draining with the slowest system takes minutes.
const SILENCE_LIMIT: Duration = Duration::from_secs(900);

/// A child with its output, killed with all its descendants when dropped.
pub(crate) struct Running {
    child: Child,
    input: ChildStdin,
    lines: Receiver<String>,
    log: tempfile::NamedTempFile,
}

impl Running {
    pub(crate) fn spawn(command: &mut Command) -> anyhow::Result<Self> {
        let log = tempfile::NamedTempFile::new()?;
        let shown = Path::new(command.get_program()).display().to_string();
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log.reopen()?);
        let mut child = command.spawn().with_context(|| format!("cannot run {shown}"))?;
        let input = child.stdin.take().context("it was just piped")?;
        let output = BufReader::new(child.stdout.take().context("it was just piped")?);
        let (sender, lines) = channel();
        std::thread::spawn(move || output.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
        Ok(Self { child, input, lines, log })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The next line; `None` after the child has exited successfully.
    pub(crate) fn line(&mut self) -> anyhow::Result<Option<String>> {
        match self.lines.recv_timeout(SILENCE_LIMIT) {
            Ok(line) => Ok(Some(line)),
            Err(RecvTimeoutError::Timeout) => bail!("silent for {} s", SILENCE_LIMIT.as_secs()),
            Err(RecvTimeoutError::Disconnected) => {
                let status = self.child.wait()?;
                if !status.success() {
                    bail!("{status}; its log ends with:\n{}", self.last_words());
                }
                Ok(None)
            }
        }
    }

    /// Lets the child continue after a mark.
    pub(crate) fn go_on(&mut self) -> anyhow::Result<()> {
        writeln!(self.input)?;
        Ok(self.input.flush()?)
    }

    fn last_words(&self) -> String {
        let mut text = String::new();
        let _ = File::open(self.log.path()).map(|mut log| std::io::Read::read_to_string(&mut log, &mut text));
        let lines: Vec<_> = text.lines().rev().take(8).collect();
        lines.into_iter().rev().collect::<Vec<_>>().join("\n")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            let pids = machine::members(self.child.id()).into_iter().map(|pid| pid.to_string());
            let _ = Command::new("kill").arg("-KILL").args(pids).status();
        }
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Running {
        Running::spawn(Command::new("sh").args(["-c", script])).unwrap()
    }

    #[test]
    fn a_child_waits_at_its_mark() {
        let mut child = shell("echo '# begin'; read go; echo after");
        assert_eq!(child.line().unwrap().as_deref(), Some("# begin"));
        child.go_on().unwrap();
        assert_eq!(child.line().unwrap().as_deref(), Some("after"));
        assert_eq!(child.line().unwrap(), None);
    }

    #[test]
    fn a_failure_brings_its_last_words() {
        let mut child = shell("echo why >&2; exit 3");
        assert!(child.line().unwrap_err().to_string().contains("why"));
    }
}
