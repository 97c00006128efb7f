//! What storing, starting and settling a job costs, through the port, on a PostgreSQL of its own
//! that keeps what it acknowledges:
//! `cargo bench -p punctual-store-postgres --bench shapes -- [jobs]`.
//!
//! First each step alone, for its share of the write-ahead log, and what failures cost with and without a notice for
//! each. Then a drain of no-op jobs (load, start,
//! settle, with history kept) on all lanes at once, and single submissions by 64 callers.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use futures_util::future::join_all;
use punctual_core::attempt::{AttemptRecord, Ending};
use punctual_core::notice::{Notice, NoticeKind};
use punctual_core::random::SplitMix64;
use punctual_core::shard::event::{Load, Sweep};
use punctual_core::shard::write::{
    Batch, BatchSeq, CancelMark, JobWrite, Settle, SharedBatch, Start, StartsId, Void, Write,
};
use punctual_core::task::{Priority, Probe, Run, Task, TaskSpec};
use punctual_core::{
    AttemptNo, Counters, JobId, JobKey, JobRow, JobState, NamespaceId, ServerId, ShardId, Span, TaskId, Timestamp,
    WorkerId,
};
use punctual_local_postgres::{Postgres, Settings};
use punctual_store::{Applied, Leases, NewJob, Owned, Submission, Submit, Tasks, Transitions};
use punctual_store_postgres::{Options, PostgresStore};

const SUBMISSION_LEN: u64 = 1_000;
const BATCH_LEN: usize = 2_000;
const LANES: u16 = 2;
const CALLERS: u64 = 64;
const CALLING: Duration = Duration::from_secs(3);

#[expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]
fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("the clock is past 1970");
    Timestamp::saturating_from_micros(since.as_micros() as i64)
}

#[tokio::main(worker_threads = 2)]
async fn main() {
    let jobs = std::env::args().nth(1).and_then(|arg| arg.parse().ok()).unwrap_or(100_000);
    // Vacuum would come in somewhere or not; without it runs are alike.
    let server = Settings::durable().set("autovacuum", "off").start().expect("a PostgreSQL");
    let url = server.create_database("shapes").expect("a database");
    let store = PostgresStore::connect(Options { lanes: LANES, ..Options::new(url) }).await.expect("a fresh store");
    let bench = Bench::new(store, server).await;
    println!(
        "{}, {jobs} jobs, {} shards, {LANES} lanes",
        punctual_store::Store::description(&bench.store),
        bench.owned.len()
    );
    println!("µs is the processor time for a job, of PostgreSQL and of this process.\n");
    println!("| step | k/s | µs PostgreSQL | µs client | WAL bytes |");
    println!("|---|---|---|---|---|");
    // Statements are planned and pages are new: not part of what a job costs.
    bench.submit_bulk(4_000).await;
    bench.drain(4_000).await;
    bench.server.execute_in("shapes", "CHECKPOINT").expect("a checkpoint");

    let cost = bench.cost();
    bench.submit_bulk(jobs).await;
    println!("| submit, {SUBMISSION_LEN} each | {}", cost.of(jobs));
    let rows = bench.load_all().await;
    let cost = bench.cost();
    bench.apply_all(&rows, 1_000, Step::Start).await;
    println!("| start, {BATCH_LEN} each | {}", cost.of(jobs));
    let cost = bench.cost();
    bench.apply_all(&rows, 1_000, Step::Settle).await;
    println!("| settle, {BATCH_LEN} each | {}", cost.of(jobs));

    // In turn, because later rows find other tables.
    for (round, step, name) in [
        (0, Step::Fail, "fail"),
        (1, Step::FailAndTell, "fail with notices"),
        (2, Step::Fail, "fail"),
        (3, Step::FailAndTell, "fail with notices"),
    ] {
        bench.submit_bulk(jobs).await;
        let rows = bench.load_all().await;
        let cost = bench.cost();
        bench.apply_all(&rows, 100_000 * (round + 1), step).await;
        println!("| {name}, {BATCH_LEN} each | {}", cost.of(jobs));
    }

    bench.submit_bulk(jobs).await;
    let cost = bench.cost();
    bench.drain(jobs).await;
    println!("| drain on {LANES} lanes | {}", cost.of(jobs));
    let cost = bench.cost();
    let took = bench.call().await;
    println!("| submit, {CALLERS} callers, one each | {}", cost.of(took.len() as u64));
    let ms = |part: usize| took[(took.len() - 1) * part / 100].as_secs_f64() * 1e3;
    println!("\nof a caller: p50 {:.2} ms, p99 {:.2} ms", ms(50), ms(99));
    bench.store.close().await.expect("it closes");
}

struct Cost<'b> {
    bench: &'b Bench,
    begun: Instant,
    server_cpu: f64,
    client_cpu: f64,
    wal: u64,
}

impl Cost<'_> {
    fn of(&self, jobs: u64) -> String {
        let per_job = |value: f64| value / jobs as f64;
        let rate = jobs as f64 / self.begun.elapsed().as_secs_f64() / 1e3;
        let server = per_job((self.bench.server_cpu() - self.server_cpu) * 1e6);
        let client = per_job((cpu("self") - self.client_cpu) * 1e6);
        let wal = per_job((self.bench.wal() - self.wal) as f64);
        format!("{rate:.1} | {server:.1} | {client:.1} | {wal:.0} |")
    }
}

/// Seconds that a process worked, in user and in kernel mode.
fn cpu(pid: &str) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let ticks = stat.rsplit(')').next().unwrap_or_default().split_whitespace().skip(11).take(2);
    ticks.filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>() / 100.0
}

#[derive(Clone, Copy)]
enum Step {
    Start,
    Settle,
    Fail,
    FailAndTell,
}

struct Bench {
    store: PostgresStore,
    server: Postgres,
    id: ServerId,
    worker: WorkerId,
    task: TaskId,
    owned: Vec<Owned>,
}

impl Bench {
    async fn new(store: PostgresStore, server: Postgres) -> Self {
        let id = ServerId::new(now(), 1);
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
        let task_id = task.id;
        store.create_task(task).await.expect("a task");
        let owned = store.acquire(id, Span::from_secs(3600), 1024).await.expect("all shards");
        Self { store, server, id, worker: WorkerId::new(now(), 1), task: task_id, owned }
    }

    fn cost(&self) -> Cost<'_> {
        let (server_cpu, client_cpu) = (self.server_cpu(), cpu("self"));
        Cost { bench: self, begun: Instant::now(), server_cpu, client_cpu, wal: self.wal() }
    }

    fn server_cpu(&self) -> f64 {
        let postmaster = self.server.pid().unwrap_or_default();
        let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        let children = processes.filter_map(|process| {
            let pid = process.file_name().to_str()?.to_owned();
            let stat = std::fs::read_to_string(process.path().join("stat")).ok()?;
            let parent: u32 = stat.rsplit(')').next()?.split_whitespace().nth(1)?.parse().ok()?;
            (parent == postmaster).then_some(pid)
        });
        children.map(|pid| cpu(&pid)).sum()
    }

    fn wal(&self) -> u64 {
        let text = self.server.execute("SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint").expect("a position");
        text.parse().expect("a number")
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

    async fn submit_bulk(&self, count: u64) {
        let base = now();
        for first in (0..count).step_by(SUBMISSION_LEN as usize) {
            let due = |n: u64| base + Span::from_micros(n as i64 * 3);
            let jobs = (first..first + SUBMISSION_LEN).map(|n| self.job(n, due(n))).collect();
            self.store.submit(Submission { jobs, idempotency: None, batch: None }).await.expect("a submission");
        }
    }

    fn owned_by(&self, lane: u16) -> Vec<Owned> {
        self.owned.iter().filter(|owned| owned.shard.0 % LANES == lane).copied().collect()
    }

    async fn load(&self, owned: &Owned, after: Option<JobKey>, limit: usize) -> Vec<JobRow> {
        let until = now() + Span::from_secs(3600);
        let load =
            Load { shard: owned.shard, epoch: owned.epoch, sweep: Sweep::All, after, until, limit, skip: Vec::new() };
        self.store.load(load).await.expect("a page").rows
    }

    /// All jobs, those of each lane in the order of their due times.
    async fn load_all(&self) -> Vec<Vec<JobRow>> {
        let mut lanes = vec![Vec::new(); usize::from(LANES)];
        for owned in &self.owned {
            lanes[usize::from(owned.shard.0 % LANES)].extend(self.load(owned, None, 1_000_000).await);
        }
        for rows in &mut lanes {
            rows.sort_by_key(|row| row.key);
        }
        lanes
    }

    async fn apply_all(&self, lanes: &[Vec<JobRow>], first_seq: u64, step: Step) {
        join_all(lanes.iter().zip(0..).map(|(rows, lane)| async move {
            for (chunk, seq) in rows.chunks(BATCH_LEN).zip(first_seq..) {
                let writes = match step {
                    Step::Start => chunk.iter().map(|row| self.start(row)).collect(),
                    Step::Settle => {
                        let closed = self.owned_by(lane).into_iter().map(|owned| close(&owned, seq));
                        chunk.iter().map(|row| self.settle(row)).chain(closed).collect()
                    }
                    Step::Fail => chunk.iter().map(|row| self.fail(row, None)).collect(),
                    Step::FailAndTell => chunk.iter().map(|row| self.fail(row, Some(self.notice(row)))).collect(),
                };
                self.apply(lane, seq, writes).await;
            }
        }))
        .await;
    }

    /// Loads, starts and settles every job that is due.
    async fn drain(&self, count: u64) {
        join_all((0..LANES).map(|lane| async move {
            let owned = self.owned_by(lane);
            let mut after = vec![None; owned.len()];
            let mut drained = 0;
            let mut seq = 1_000_000;
            while drained < count as usize / usize::from(LANES) {
                let pages = owned
                    .iter()
                    .zip(&after)
                    .map(|(owned, after)| self.load(owned, *after, BATCH_LEN / owned_len(&self.owned)));
                let pages = join_all(pages).await;
                let rows: Vec<JobRow> = pages.into_iter().flatten().collect();
                for (owned, after) in owned.iter().zip(&mut after) {
                    let last = rows.iter().filter(|row| row.key.shard() == owned.shard).map(|row| row.key).max();
                    *after = last.or(*after);
                }
                self.apply(lane, seq, rows.iter().map(|row| self.start(row)).collect()).await;
                let closed = owned.iter().map(|owned| close(owned, seq));
                self.apply(lane, seq + 1, rows.iter().map(|row| self.settle(row)).chain(closed).collect()).await;
                seq += 2;
                drained += rows.len();
            }
        }))
        .await;
    }

    async fn apply(&self, lane: u16, seq: u64, writes: Vec<Write>) {
        let fences = self.owned_by(lane).iter().map(|owned| (owned.shard, owned.epoch)).collect();
        let batch = Batch { seq: BatchSeq(seq), server: self.id, fences, at: now(), writes };
        let applied = self.store.apply(SharedBatch::new(batch)).await.expect("a batch that fits");
        assert_eq!(applied, Applied::done(Void::default()));
    }

    fn start(&self, row: &JobRow) -> Write {
        let at = now();
        let (key, worker) = (row.key, self.worker);
        Write::Job(JobWrite::Start(Start {
            key,
            attempt: AttemptNo::FIRST,
            worker,
            picked_up_at: at,
            started_at: at,
            gang: None,
        }))
    }

    fn settle(&self, row: &JobRow) -> Write {
        Write::Job(JobWrite::Settle(self.settled(row)))
    }

    fn fail(&self, row: &JobRow, notice: Option<Notice>) -> Write {
        let mut settle = self.settled(row);
        settle.state = JobState::Failed;
        settle.counters.failures = 1;
        settle.notice = notice.map(Box::new);
        if let Some(attempt) = &mut settle.attempt {
            attempt.ending = Ending::Failed;
            attempt.reason = Some("connection refused".to_owned());
        }
        Write::Job(JobWrite::Settle(settle))
    }

    fn notice(&self, row: &JobRow) -> Notice {
        Notice::of_job(NoticeKind::Failed, row.key.id, Some(self.task), None, now())
    }

    fn settled(&self, row: &JobRow) -> Settle {
        let at = now();
        let attempt = AttemptRecord {
            attempt: AttemptNo::FIRST,
            worker: self.worker,
            server: self.id,
            due_at: row.key.due_at,
            picked_up_at: at,
            started_at: at,
            finished_at: at,
            ending: Ending::Succeeded,
            reason: None,
            details: None,
            log: None,
        };
        Settle {
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
        }
    }

    /// How long each call took, in order.
    async fn call(&self) -> Vec<Duration> {
        let until = Instant::now() + CALLING;
        let calls = (0..CALLERS).map(|caller| async move {
            let mut took = Vec::new();
            while Instant::now() < until {
                let n = caller + CALLERS * took.len() as u64;
                let begun = Instant::now();
                let jobs = vec![self.job(n, now() + Span::from_secs(60))];
                self.store.submit(Submission { jobs, idempotency: None, batch: None }).await.expect("a submission");
                took.push(begun.elapsed());
            }
            took
        });
        let mut took = join_all(calls).await.concat();
        took.sort_unstable();
        took
    }
}

fn owned_len(owned: &[Owned]) -> usize {
    (owned.len() / usize::from(LANES)).max(1)
}

fn close(owned: &Owned, seq: u64) -> Write {
    Write::Job(JobWrite::CloseStarts(StartsId { shard: owned.shard, epoch: owned.epoch, seq: BatchSeq(seq) }))
}
