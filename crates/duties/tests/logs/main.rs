//! Logs on their way from the store into objects, on the model store with a clock of the test's own.

mod archiving;
#[path = "../context/mod.rs"]
mod context;
mod reading;
mod removal;
mod sharing;
#[path = "../../../app/tests/world/mod.rs"]
mod world;

use std::path::Path;

use bytes::Bytes;
use punctual_core::log::{LogMark, LogStream, encode_marks};
use punctual_core::shard::write::{JobWrite, Write};
use punctual_core::{AttemptNo, JobKey};
use punctual_duties::{Duty, LogArchive, StorageSweep};
use punctual_store::{LogChunk, NewJob, Store};
use punctual_store_tests::fixture::{Owner, at, new_job, original, owner_of, retried, succeed};

use crate::world::{World, by};

/// When the attempts of the fixture ended.
const ENDED: i64 = 102;

impl World {
    async fn print(&self, job: &NewJob, attempt: u32, offset: u64, content: &[u8]) {
        let bytes = Bytes::copy_from_slice(content);
        let chunk = LogChunk { job: job.id, attempt: AttemptNo(attempt), offset, bytes, marks: Bytes::new() };
        self.app.append_logs(vec![chunk]).await.unwrap();
    }

    /// With the time `at_ms` and a stream for all of it.
    async fn print_to(&self, stream: LogStream, at_ms: i64, job: &NewJob, offset: u64, content: &str) {
        let marks = encode_marks(offset, &[LogMark { offset, stream, at_ms }]).into();
        let bytes = Bytes::copy_from_slice(content.as_bytes());
        let chunk = LogChunk { job: job.id, attempt: AttemptNo(2), offset, bytes, marks };
        self.app.append_logs(vec![chunk]).await.unwrap();
    }

    /// Each line of the second attempt with its stream and its time in milliseconds.
    async fn lines(&self, job: &NewJob) -> Vec<(String, String, i64)> {
        let (mut lines, mut offset) = (Vec::new(), 0);
        loop {
            let view = self.app.log_lines(&by(&self.app), job.id, Some(2), offset).await.unwrap();
            lines.extend(view.lines);
            offset = view.next_offset;
            if view.is_complete {
                break;
            }
        }
        let shown = |line: punctual_api::LogLine| {
            let at_ms = line.time.map_or(-1, |time| time.as_micros() / 1000);
            (line.text, line.stream.unwrap_or_default(), at_ms)
        };
        lines.into_iter().map(shown).collect()
    }

    /// All of a log, piece by piece.
    async fn log(&self, job: &NewJob, attempt: u32) -> Vec<u8> {
        let mut log = Vec::new();
        loop {
            let view = self.app.log(&by(&self.app), job.id, Some(attempt), log.len() as u64).await.unwrap();
            log.extend_from_slice(&view.bytes);
            assert_eq!(view.next_offset, log.len() as u64);
            if view.is_complete {
                return log;
            }
        }
    }

    async fn path(&self, job: &NewJob, attempt: u32) -> Option<String> {
        let job = self.app.job(&by(&self.app), job.id, None).await.unwrap();
        job.attempts.into_iter().find(|found| found.attempt == attempt)?.log_path
    }

    /// Keys in the storage, and that the objects are what history says.
    fn objects(&self) -> Vec<String> {
        let mut found = Vec::new();
        collect(&self.folder.path().join("logs"), "logs", &mut found);
        found.sort();
        found
    }

    fn pieces(&self) -> usize {
        self.store.kept_logs_now(None, 1000).len()
    }

    async fn archive(&self) {
        LogArchive::new(&self.context()).tick().await.unwrap();
    }

    /// How many objects of logs a sweep of the storage removes.
    async fn sweep(&self) -> usize {
        let before = self.objects().len();
        StorageSweep::new(&self.context()).tick().await.unwrap();
        before - self.objects().len()
    }
}

fn day(secs: i64) -> String {
    at(secs).to_string().chars().take(10).collect()
}

fn collect(folder: &Path, key: &str, found: &mut Vec<String>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let key = format!("{key}/{}", entry.file_name().to_string_lossy());
        if entry.path().is_dir() {
            collect(&entry.path(), &key, found);
        } else {
            found.push(key);
        }
    }
}

/// A job whose first attempt failed and whose second succeeded.
async fn tried_twice(store: &dyn Store) -> (NewJob, Owner<'_>) {
    let job = new_job(1, 10, 0);
    let mut owner = owner_of(store, std::slice::from_ref(&job)).await;
    owner.done(vec![Write::Job(JobWrite::Requeue(retried(original(&job), 1, at(20))))]).await;
    owner.done(vec![succeed(JobKey { due_at: at(20), id: job.id }, 2)]).await;
    (job, owner)
}
