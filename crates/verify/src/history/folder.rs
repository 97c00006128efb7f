//! The folder of a run: journals in JSON lines, written as things happen, so that what is
//! there after a crash of the verifier itself is true as far as it goes.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Answer, Call, ClientLine, Fault, FinalJob, History};
use crate::clock::Moment;
use crate::witness::WitnessLine;

const CLIENT: &str = "client.jsonl";
const NEMESIS: &str = "nemesis.jsonl";
const JOBS: &str = "jobs.jsonl";
const AGAIN: &str = "jobs-again.jsonl";
const COUNTED: &str = "counted.json";
const WITNESS: &str = "witness-";

/// A journal that many tasks write to.
#[derive(Debug, Clone)]
pub struct Journal(Arc<Mutex<File>>);

impl Journal {
    fn open(path: &Path) -> anyhow::Result<Self> {
        let file = OpenOptions::new().create(true).append(true).open(path);
        let file = file.with_context(|| format!("cannot write {}", path.display()))?;
        Ok(Self(Arc::new(Mutex::new(file))))
    }

    pub fn write(&self, line: &impl Serialize) {
        let mut text = serde_json::to_string(line).expect("a line is plain data");
        text.push('\n');
        let mut file = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        file.write_all(text.as_bytes()).expect("the journal can be written");
    }
}

#[derive(Debug, Clone)]
pub struct RunFolder(PathBuf);

impl RunFolder {
    pub fn create(path: impl Into<PathBuf>) -> anyhow::Result<Self> {
        let path = path.into();
        std::fs::create_dir_all(&path).with_context(|| format!("cannot make {}", path.display()))?;
        Ok(Self(path.canonicalize()?))
    }

    /// A new folder below `keep`, whose name says what and when.
    pub fn fresh(keep: &Path, name: &str) -> anyhow::Result<Self> {
        let seconds = Moment::now().real_us / 1_000_000;
        Self::create(keep.join(format!("{name}-{seconds}-{}", std::process::id())))
    }

    pub fn remove(&self) -> anyhow::Result<()> {
        Ok(std::fs::remove_dir_all(&self.0)?)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub fn client_journal(&self) -> anyhow::Result<Journal> {
        Journal::open(&self.file(CLIENT))
    }

    pub fn nemesis_journal(&self) -> anyhow::Result<Journal> {
        Journal::open(&self.file(NEMESIS))
    }

    pub fn witness(&self, worker: &str) -> PathBuf {
        self.file(&format!("{WITNESS}{worker}"))
    }

    pub fn write_jobs(&self, jobs: &[FinalJob], again: &[FinalJob]) -> anyhow::Result<()> {
        for (name, jobs) in [(JOBS, jobs), (AGAIN, again)] {
            let mut text = String::new();
            for job in jobs {
                text += &serde_json::to_string(job)?;
                text.push('\n');
            }
            std::fs::write(self.file(name), text)?;
        }
        Ok(())
    }

    pub fn write_counted(&self, counted: &BTreeMap<String, u64>) -> anyhow::Result<()> {
        Ok(std::fs::write(self.file(COUNTED), serde_json::to_string(counted)?)?)
    }

    /// What the witnesses have said so far.
    pub fn witness_lines(&self) -> anyhow::Result<Vec<WitnessLine>> {
        let mut witness_lines = Vec::new();
        for found in std::fs::read_dir(&self.0)? {
            let found = found?;
            if !found.file_name().to_string_lossy().starts_with(WITNESS) {
                continue;
            }
            for line in BufReader::new(File::open(found.path())?).lines() {
                let line = line?;
                let read = WitnessLine::parse(&line);
                witness_lines.push(read.with_context(|| format!("{}: {line:?}", found.path().display()))?);
            }
        }
        witness_lines.sort_by_key(|line| line.at);
        Ok(witness_lines)
    }

    pub fn read(&self) -> anyhow::Result<History> {
        let lines: Vec<ClientLine> = self.lines(CLIENT)?;
        let mut history = History { witness: self.witness_lines()?, ..History::default() };
        let mut place_of = BTreeMap::new();
        for line in lines {
            match line {
                ClientLine::Task { name, rules } => {
                    history.tasks.insert(name, rules);
                }
                ClientLine::Invoke { call, at, asked } => {
                    place_of.insert(call, history.calls.len());
                    let answer = Answer::Unknown { why: "the run ended first".to_owned() };
                    history.calls.push(Call { invoked: at, returned: None, asked, answer });
                }
                ClientLine::Return { call, at, answer } => {
                    let place = place_of.get(&call).context("an answer without a question")?;
                    let call = &mut history.calls[*place];
                    (call.returned, call.answer) = (Some(at), answer);
                }
            }
        }
        history.faults = self.lines::<Fault>(NEMESIS)?;
        history.jobs = self.lines(JOBS)?;
        history.again = self.lines(AGAIN)?;
        if self.file(COUNTED).exists() {
            history.counted = Some(serde_json::from_str(&std::fs::read_to_string(self.file(COUNTED))?)?);
        }
        Ok(history)
    }

    /// A journal that was never begun is empty.
    fn lines<T: DeserializeOwned>(&self, name: &str) -> anyhow::Result<Vec<T>> {
        let path = self.file(name);
        if !path.exists() {
            return Ok(Vec::new());
        }
        let lines = BufReader::new(File::open(&path)?).lines();
        lines
            .map(|line| serde_json::from_str(&line?).with_context(|| format!("cannot read {}", path.display())))
            .collect()
    }
}
