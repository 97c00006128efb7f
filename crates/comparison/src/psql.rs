//! One connection that stays open, so that reading a counter costs the server next to nothing.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, bail};

const END: &str = "-- end of answer";

pub(crate) struct Psql {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Psql {
    pub(crate) fn open(url: &str) -> anyhow::Result<Self> {
        let mut command = Command::new("psql");
        command.args(["--no-psqlrc", "--quiet", "--tuples-only", "--no-align", "--set=ON_ERROR_STOP=1", "--dbname"]);
        let mut child = command.arg(url).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let input = child.stdin.take().context("it was just piped")?;
        let output = BufReader::new(child.stdout.take().context("it was just piped")?);
        Ok(Self { child, input, output })
    }

    /// Runs one query and returns what `psql` prints: a line for each row.
    pub(crate) fn ask(&mut self, sql: &str) -> anyhow::Result<String> {
        writeln!(self.input, "{sql};\n\\echo {END}")?;
        let mut answer = String::new();
        loop {
            let start = answer.len();
            if self.output.read_line(&mut answer)? == 0 {
                bail!("psql ended at: {sql}");
            }
            if answer[start..].trim_end() == END {
                answer.truncate(start);
                return Ok(answer.trim_end().to_owned());
            }
        }
    }

    pub(crate) fn number(&mut self, sql: &str) -> anyhow::Result<u64> {
        let answer = self.ask(sql)?;
        answer.parse().with_context(|| format!("not a number: {answer}"))
    }

    pub(crate) fn counters(&mut self) -> anyhow::Result<Counters> {
        let sql = "select pg_current_wal_insert_lsn() - '0/0'::pg_lsn, pg_snapshot_xmax(pg_current_snapshot())";
        let answer = self.ask(sql)?;
        let (wal_bytes, commits) = answer.split_once('|').context("two columns were asked for")?;
        Ok(Counters { wal_bytes: wal_bytes.parse()?, commits: commits.parse()? })
    }
}

/// The counters of the whole database server since it was created.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counters {
    pub(crate) wal_bytes: u64,
    /// Transactions that wrote. The number of the next one is exact at once; the server's statistics come seconds later.
    pub(crate) commits: u64,
}

impl Drop for Psql {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
