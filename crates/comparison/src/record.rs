//! One figure of one run, and the file that keeps them all.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use anyhow::Context;
use serde_json::{Map, Value, json};

/// Above this share of stolen CPU time the figure does not count.
pub(crate) const STEAL_MAX_PERCENT: f64 = 2.0;

/// The fields of a driver's or Punctual's figure, and what was measured around it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Record(pub(crate) Map<String, Value>);

impl Record {
    pub(crate) fn parse(line: &str) -> anyhow::Result<Self> {
        Ok(Self(serde_json::from_str(line).with_context(|| format!("not a figure: {line}"))?))
    }

    /// A figure of a failed run. It counts against its system, so it is kept.
    pub(crate) fn failed(workload: &str, error: &anyhow::Error) -> Self {
        Self::default().with("workload", workload).with("error", format!("{error:#}"))
    }

    pub(crate) fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.0.insert(name.to_owned(), value.into());
        self
    }

    /// A field divided by the number of jobs.
    pub(crate) fn with_each(self, name: &str, amount: u64, jobs: u64) -> Self {
        self.with(name, json!(amount as f64 / jobs.max(1) as f64))
    }

    pub(crate) fn text(&self, name: &str) -> &str {
        self.0.get(name).and_then(Value::as_str).unwrap_or_default()
    }

    pub(crate) fn number(&self, name: &str) -> Option<f64> {
        self.0.get(name).and_then(Value::as_f64)
    }

    pub(crate) fn jobs(&self) -> u64 {
        self.0.get("jobs").and_then(Value::as_u64).unwrap_or_default()
    }

    pub(crate) fn is_failed(&self) -> bool {
        self.0.contains_key("error")
    }

    pub(crate) fn is_discarded(&self) -> bool {
        self.number("steal_percent").is_some_and(|steal| steal > STEAL_MAX_PERCENT)
    }
}

pub(crate) struct Log {
    file: File,
    records: Vec<Record>,
}

impl Log {
    pub(crate) fn open(path: &Path) -> std::io::Result<Self> {
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        let file = File::options().create(true).append(true).open(path)?;
        Ok(Self { file, records: Vec::new() })
    }

    /// Appends the figures at once, because a comparison takes hours and may be interrupted.
    pub(crate) fn add(&mut self, records: Vec<Record>) -> anyhow::Result<()> {
        for record in records {
            writeln!(self.file, "{}", Value::Object(record.0.clone()))?;
            self.records.push(record);
        }
        Ok(())
    }

    pub(crate) fn records(&self) -> &[Record] {
        &self.records
    }
}
