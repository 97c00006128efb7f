//! What storing, starting and settling a job costs, through the port:
//! `cargo bench -p punctual-store-sqlite --bench shapes -- [folder]`.
//!
//! Bulk submission in thousands; a drain of no-op jobs (load, start, settle, with
//! history kept); and single submissions by 64 callers at once. Each in an empty
//! store and beside a million jobs of the far future.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use punctual_core::attempt::{AttemptRecord, Ending};
use punctual_core::random::SplitMix64;
use punctual_core::shard::event::{Load, Sweep};
use punctual_core::shard::write::{
    Batch, BatchSeq, CancelMark, Epoch, JobWrite, Settle, SharedBatch, Start, StartsId, Void, Write,
};
use punctual_core::task::{Priority, Probe, Run, Task, TaskSpec};
use punctual_core::{
    AttemptNo, Counters, JobId, JobRow, JobState, NamespaceId, ServerId, ShardId, Span, TaskId, Timestamp, WorkerId,
};
use punctual_store::{Applied, Leases, NewJob, Owned, Submission, Submit, Tasks, Transitions};
use punctual_store_sqlite::{Durability, Options, SqliteStore};

const DRAINED: u64 = 200_000;
const FAR: u64 = 1_000_000;
const SUBMISSION_LEN: u64 = 1_000;
/// Of each shard, in one batch.
const LOAD_LEN: usize = 250;
const CALLERS: u64 = 64;
const CALLING: Duration = Duration::from_secs(3);

#[expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]
fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("the clock is past 1970");
    Timestamp::saturating_from_micros(since.as_micros() as i64)
}

#[tokio::main(worker_threads = 2)]
async fn main() {
    let folder = arguments().next().map_or_else(std::env::temp_dir, Into::into);
    println!("µs is the writer's processor time for a job, which other load on the machine does not change.\n");
    println!(
        "| store | far-future jobs | bulk submit k/s (µs) | drain k/s (µs) | 64 callers k/s (µs) | p50 / p99 ms | peak RSS MiB |"
    );
    println!("|---|---|---|---|---|---|---|");
    for durability in [Durability::Full, Durability::Normal] {
        for far in [0, FAR] {
            let folder = tempfile::tempdir_in(&folder).expect("a folder for the store");
            let options = Options { durability, ..Options::new(Arc::new(now)) };
            let store = SqliteStore::open(&folder.path().join("jobs.db"), options).expect("a fresh store");
            let bench = Bench::new(store).await;
            bench.submit_bulk(far, Span::from_secs(30 * 86_400)).await;
            let begun = Cost::start();
            bench.submit_bulk(DRAINED, Span::ZERO).await;
            let submit = begun.of(DRAINED);
            let begun = Cost::start();
            bench.drain().await;
            let drain = begun.of(DRAINED);
            let begun = Cost::start();
            let took = bench.call().await;
            let calls = begun.of(took.len() as u64);
            let ms = |part: usize| took[(took.len() - 1) * part / 100].as_secs_f64() * 1e3;
            println!(
                "| {} | {far} | {submit} | {drain} | {calls} | {:.2} / {:.2} | {} |",
                durability.as_str(),
                ms(50),
                ms(99),
                peak_rss_mib()
            );
            bench.store.close().await.expect("the last checkpoint");
        }
    }
}

fn peak_rss_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmHWM")).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0) / 1024
}

struct Cost {
    begun: Instant,
    writer_cpu: Duration,
}

impl Cost {
    fn start() -> Self {
        Self { begun: Instant::now(), writer_cpu: writer_cpu() }
    }

    fn of(&self, jobs: u64) -> String {
        let rate = jobs as f64 / self.begun.elapsed().as_secs_f64() / 1e3;
        let micros = (writer_cpu() - self.writer_cpu).as_secs_f64() * 1e6 / jobs as f64;
        format!("{rate:.0} ({micros:.1})")
    }
}

/// Linux tells it for each thread by name; elsewhere it is zero.
fn writer_cpu() -> Duration {
    let threads = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let writer = threads
        .map(|thread| thread.path())
        .find(|path| std::fs::read_to_string(path.join("comm")).is_ok_and(|name| name.trim_end() == "sqlite-writer"));
    let schedule = writer.and_then(|path| std::fs::read_to_string(path.join("schedstat")).ok()).unwrap_or_default();
    let nanos = schedule.split_whitespace().next().and_then(|nanos| nanos.parse().ok());
    Duration::from_nanos(nanos.unwrap_or(0))
}

struct Bench {
    store: SqliteStore,
    server: ServerId,
    worker: WorkerId,
    task: TaskId,
    owned: Vec<Owned>,
}

impl Bench {
    async fn new(store: SqliteStore) -> Self {
        let server = ServerId::new(now(), 1);
        let task = Task {
            namespace: NamespaceId::DEFAULT,
            id: TaskId::new(now(), 1),
            name: Some("noop".to_owned()),
            revision: 1,
            created_at: now(),
            updated_at: now(),
            spec: TaskSpec::new(Run::Probe(Probe::default())),
            waits_for: None,
            created_by: None,
            changed_by: None,
        };
        let id = task.id;
        store.create_task(task).await.expect("a task");
        let owned = store.acquire(server, Span::from_secs(3600), 1024).await.expect("all shards");
        Self { store, server, worker: WorkerId::new(now(), 1), task: id, owned }
    }

    fn job(&self, n: u64, due_at: Timestamp) -> NewJob {
        let shard = ShardId((n % self.owned.len() as u64) as u16);
        NewJob {
            namespace: NamespaceId::DEFAULT,
            id: JobId::new(due_at, shard, SplitMix64::new(n).bits()),
            task: self.task,
            priority: Priority::default(),
            submitted_at: now(),
            tracing_id: None,
            source: None,
            requester: None,
            node: None,
            member: None,
            input: None,
        }
    }

    async fn submit_bulk(&self, count: u64, ahead: Span) {
        let base = now() + ahead;
        for first in (0..count).step_by(SUBMISSION_LEN as usize) {
            let due = |n: u64| base + Span::from_micros(n as i64 * 3);
            let jobs = (first..first + SUBMISSION_LEN).map(|n| self.job(n, due(n))).collect();
            self.store.submit(Submission { jobs, idempotency: None, batch: None }).await.expect("a submission");
        }
    }

    /// Loads, starts and settles every job that is due.
    async fn drain(&self) {
        let until = now() + Span::from_secs(3600);
        let mut after = vec![None; self.owned.len()];
        let mut drained = 0;
        let mut seq = 0;
        while drained < DRAINED as usize {
            let mut rows = Vec::new();
            for (owned, after) in self.owned.iter().zip(&mut after) {
                let load = Load {
                    shard: owned.shard,
                    epoch: owned.epoch,
                    sweep: Sweep::All,
                    after: *after,
                    until,
                    limit: LOAD_LEN,
                    skip: Vec::new(),
                };
                let page = self.store.load(load).await.expect("a page").rows;
                *after = page.last().map(|row| row.key).or(*after);
                rows.extend(page);
            }
            seq += 1;
            self.apply(seq, rows.iter().map(|row| self.start(row)).collect()).await;
            let closed = self.owned.iter().map(|owned| self.close(owned, seq));
            let writes = rows.iter().map(|row| self.settle(row)).chain(closed).collect();
            seq += 1;
            self.apply(seq, writes).await;
            drained += rows.len();
        }
    }

    async fn apply(&self, seq: u64, writes: Vec<Write>) {
        let fences: Vec<(ShardId, Epoch)> = self.owned.iter().map(|owned| (owned.shard, owned.epoch)).collect();
        let batch = Batch { seq: BatchSeq(seq), server: self.server, fences, at: now(), writes };
        let applied = self.store.apply(SharedBatch::new(batch)).await.expect("a batch that fits");
        assert_eq!(applied, Applied::done(Void::default()));
    }

    fn start(&self, row: &JobRow) -> Write {
        let at = now();
        Write::Job(JobWrite::Start(Start {
            key: row.key,
            attempt: AttemptNo::FIRST,
            worker: self.worker,
            picked_up_at: at,
            started_at: at,
            gang: None,
        }))
    }

    fn settle(&self, row: &JobRow) -> Write {
        let at = now();
        let attempt = AttemptRecord {
            attempt: AttemptNo::FIRST,
            worker: self.worker,
            server: self.server,
            due_at: row.key.due_at,
            picked_up_at: at,
            started_at: at,
            finished_at: at,
            ending: Ending::Succeeded,
            reason: None,
            details: None,
            log: None,
        };
        Write::Job(JobWrite::Settle(Settle {
            key: row.key,
            state: JobState::Succeeded,
            finished_at: at,
            counters: Counters { next_attempt: AttemptNo(2), ..row.counters },
            attempt: Some(attempt),
            reason: None,
            output: None,
            cancel: CancelMark::None,
            notice: None,
            success_of: None,
            node: None,
            member: None,
        }))
    }

    fn close(&self, owned: &Owned, seq: u64) -> Write {
        Write::Job(JobWrite::CloseStarts(StartsId { shard: owned.shard, epoch: owned.epoch, seq: BatchSeq(seq) }))
    }

    /// How long each call took, in order.
    async fn call(&self) -> Vec<Duration> {
        let until = Instant::now() + CALLING;
        let calls = (0..CALLERS).map(|caller| {
            let bench = Self { owned: self.owned.clone(), store: self.store.clone(), ..*self };
            tokio::spawn(async move {
                let mut took = Vec::new();
                while Instant::now() < until {
                    let n = caller + CALLERS * took.len() as u64;
                    let begun = Instant::now();
                    let jobs = vec![bench.job(n, now() + Span::from_secs(60))];
                    bench
                        .store
                        .submit(Submission { jobs, idempotency: None, batch: None })
                        .await
                        .expect("a submission");
                    took.push(begun.elapsed());
                }
                took
            })
        });
        let calls: Vec<_> = calls.collect();
        let mut took = Vec::new();
        for caller in calls {
            took.extend(caller.await.expect("a caller"));
        }
        took.sort_unstable();
        took
    }
}

/// Without the `--bench` that cargo adds.
fn arguments() -> impl Iterator<Item = String> {
    std::env::args().skip(1).filter(|argument| argument != "--bench")
}
