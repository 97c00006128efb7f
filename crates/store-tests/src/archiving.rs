//! What moving logs out of a store costs it, for the examples that measure.

use std::time::{Duration, Instant};

use bytes::Bytes;
use punctual_core::attempt::ArchivedLog;
use punctual_core::{AttemptNo, JobId, NamespaceId};
use punctual_store::{Archived, Archiving, LogChunk, Store};

const LOOKS: u32 = 200;
/// How many attempts the app reads and archives at a time.
const PAGE: usize = 128;

/// With the first attempts of these jobs in history, and without any log: prints a table of what an idle look costs, and
/// what one log of 1 KiB costs in each step.
///
/// # Panics
/// If the store fails.
pub async fn measure(store: &dyn Store, jobs: &[JobId]) {
    println!("| step | µs |\n|---|---|");
    row("a look when there is nothing", look(store, 0).await);
    let pieces: Vec<LogChunk> = jobs
        .iter()
        .map(|job| LogChunk {
            job: *job,
            attempt: AttemptNo(1),
            offset: 0,
            bytes: Bytes::from(vec![b'x'; 1024]),
            marks: Bytes::new(),
        })
        .collect();
    let count = u32::try_from(jobs.len()).expect("a few thousand");
    let begun = Instant::now();
    for piece in pieces {
        store.append_logs(vec![piece]).await.expect("it is kept");
    }
    row("a log of 1 KiB, kept", begun.elapsed() / count);
    row(&format!("a look that finds {PAGE}"), look(store, PAGE).await);
    let begun = Instant::now();
    let mut archiving = Vec::new();
    for job in jobs {
        let whole = store.assemble_log(*job, AttemptNo(1), Bytes::new(), 1 << 20).await.expect("it is read");
        let log = ArchivedLog { path: format!("logs/2026-12-24/{job}/1-0123456789ab.log"), bytes: 1024 };
        let (namespace, attempt) = (NamespaceId::DEFAULT, AttemptNo(1));
        archiving.push(Archiving { job: *job, namespace, attempt, log, replaces: None, pieces: whole.pieces });
    }
    row("a log, read", begun.elapsed() / count);
    let begun = Instant::now();
    for page in archiving.chunks(PAGE) {
        let became = store.archive_logs(page.to_vec()).await.expect("it is recorded");
        assert!(became.iter().all(|became| *became == Archived::Done), "nothing changed meanwhile");
    }
    row("a log, recorded and its piece removed", begun.elapsed() / count);
    row("a look when all is done", look(store, 0).await);
}

async fn look(store: &dyn Store, found: usize) -> Duration {
    let begun = Instant::now();
    for _ in 0..LOOKS {
        assert_eq!(store.kept_logs(None, PAGE).await.expect("an answer").len(), found);
    }
    begun.elapsed() / LOOKS
}

fn row(step: &str, took: Duration) {
    println!("| {step} | {:.0} |", took.as_secs_f64() * 1e6);
}
