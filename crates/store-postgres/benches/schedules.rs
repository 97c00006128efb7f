//! What schedules cost, through the port, on a PostgreSQL of its own that keeps what it acknowledges:
//! `cargo bench -p punctual-store-postgres --bench schedules -- [schedules]`.
//!
//! Stores them, decides about two planned times of a fifth of them with the jobs that they make, beside a month
//! of older ones, raises watermarks, and reads all schedules as a takeover of every shard does.

use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use futures_util::future::join_all;
use punctual_core::random::SplitMix64;
use punctual_core::schedule::{
    By, Marks, OccurrenceRow, ScheduleEdit, ScheduleRow, ScheduleState, Source, SourceKind, Verdict,
};
use punctual_core::shard::write::{Batch, BatchSeq, Decision, FiredJob, ScheduleWrite, SharedBatch, Void, Write};
use punctual_core::task::{Priority, Probe, Run, Task, TaskSpec};
use punctual_core::{JobId, NamespaceId, ScheduleId, ServerId, ShardId, Span, TaskId, Timestamp};
use punctual_local_postgres::{Postgres, Settings};
use punctual_store::{Applied, Leases, Owned, Schedules, Tasks, Transitions};
use punctual_store_postgres::{Options, PostgresStore};

const BATCH_LEN: usize = 2_000;
const PAGE_LEN: usize = 1_000;
const LANES: u16 = 2;
const ROUNDS: u64 = 200;

const SPEC: &str = r#"{"when":{"timing":{"cron":"*/5 * * * *"},"zone":"Europe/Berlin","gap":"shift","fold":"first"},"overlap":"allow","catch_up":{"mode":"last","max":100,"window":"1d","per_minute":60}}"#;

#[expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]
fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("the clock is past 1970");
    Timestamp::saturating_from_micros(since.as_micros() as i64)
}

#[tokio::main(worker_threads = 2)]
async fn main() {
    let count: u64 = std::env::args().nth(1).and_then(|arg| arg.parse().ok()).unwrap_or(1_000_000);
    let server = Settings::durable().start().expect("a PostgreSQL");
    let url = server.create_database("schedules").expect("a database");
    let store = PostgresStore::connect(Options { lanes: LANES, ..Options::new(url) }).await.expect("a fresh store");
    let bench = Bench::new(store, server).await;
    println!("{}, {count} schedules, {LANES} lanes", punctual_store::Store::description(&bench.store));
    println!("| step | k/s | WAL bytes |\n|---|---|---|");
    let ids: Vec<ScheduleId> = (0..count).map(|n| bench.id(n)).collect();
    let one_in_five = ids.iter().copied().step_by(5).collect::<Vec<_>>();
    let begun = bench.begin();
    bench.apply_all(&ids, |n, id| bench.add(n, id)).await;
    bench.report("add", begun, ids.len());
    let at = now();
    bench.decide_a_month(&ids, at).await;
    let begun = bench.begin();
    bench.apply_all(&one_in_five, |n, id| bench.decide(n, id, at)).await;
    bench.report("decide and fire", begun, one_in_five.len());
    let begun = bench.begin();
    bench.apply_all(&one_in_five, |n, id| bench.decide(n + count, id, at + Span::from_secs(300))).await;
    bench.report("decide and fire again", begun, one_in_five.len());
    let begun = bench.begin();
    bench.raise_watermarks().await;
    bench.report("batches with watermarks alone", begun, ROUNDS as usize);
    let begun = bench.begin();
    let loaded = bench.load().await;
    assert_eq!(loaded, ids.len());
    bench.report("load", begun, loaded);
    bench.store.close().await.expect("it closes");
}

struct Bench {
    store: PostgresStore,
    server: Postgres,
    id: ServerId,
    task: TaskId,
    owned: Vec<Owned>,
}

impl Bench {
    async fn new(store: PostgresStore, server: Postgres) -> Self {
        let (id, task) = (ServerId::new(now(), 1), TaskId::new(now(), 1));
        let noop = Task {
            namespace: NamespaceId::DEFAULT,
            id: task,
            name: Some("noop".to_owned()),
            revision: 1,
            created_at: now(),
            updated_at: now(),
            spec: TaskSpec::new(Run::Probe(Probe::default())),
            waits_for: None,
            created_by: None,
            changed_by: None,
        };
        store.create_task(noop).await.expect("a task");
        let owned = store.acquire(id, Span::from_secs(3600), 1024).await.expect("all shards");
        Self { store, server, id, task, owned }
    }

    fn wal(&self) -> u64 {
        let text = self.server.execute("SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint").expect("a position");
        text.parse().expect("a number")
    }

    fn begin(&self) -> (Instant, u64) {
        (Instant::now(), self.wal())
    }

    fn report(&self, step: &str, (begun, wal): (Instant, u64), count: usize) {
        let rate = count as f64 / begun.elapsed().as_secs_f64() / 1e3;
        println!("| {step} | {rate:.1} | {} |", (self.wal() - wal) / count as u64);
    }

    fn id(&self, n: u64) -> ScheduleId {
        let shard = ShardId((n % self.owned.len() as u64) as u16);
        ScheduleId::new(now(), shard, SplitMix64::new(n).bits())
    }

    fn add(&self, n: u64, id: ScheduleId) -> Write {
        let by = By { at: now(), who: "somebody@example.com".to_owned() };
        Write::Schedule(ScheduleWrite::Add(Arc::new(ScheduleRow {
            namespace: NamespaceId::DEFAULT,
            id,
            name: format!("tenant-{:05}/report-{n:07}", n % 7919),
            edit: ScheduleEdit {
                task: self.task,
                spec: SPEC.into(),
                calendars: Vec::new(),
                priority: None,
                input: n.is_multiple_of(4).then(|| vec![b'x'; 200].into()),
            },
            state: ScheduleState::new(by.at),
            created: by.clone(),
            changed: by,
        })))
    }

    fn decide(&self, n: u64, schedule: ScheduleId, at: Timestamp) -> Write {
        let job = JobId::new(at, schedule.shard(), SplitMix64::new(n).bits());
        let source = Source { schedule, at, kind: SourceKind::Planned, is_tracked: false };
        let (verdict, marks, decided_at) = (Verdict::Fired, Marks::NONE, now());
        Write::Schedule(ScheduleWrite::Decide(Box::new(Decision {
            occurrence: OccurrenceRow {
                schedule,
                at,
                slot: at,
                verdict,
                decided_at,
                marks,
                count: 1,
                job: Some(job),
                started_at: None,
                reason: None,
                requested_by: None,
            },
            job: Some(FiredJob {
                id: job,
                task: self.task,
                priority: Priority::default(),
                source,
                has_input: n.is_multiple_of(4),
                is_counted: false,
            }),
            notice: None,
        })))
    }

    async fn apply_all(&self, ids: &[ScheduleId], write: impl Fn(u64, ScheduleId) -> Write) {
        let write = &write;
        join_all((0..LANES).map(|lane| async move {
            let ours: Vec<(u64, ScheduleId)> =
                (0..).zip(ids.iter().copied()).filter(|(_, id)| id.shard().0 % LANES == lane).collect();
            for (chunk, seq) in ours.chunks(BATCH_LEN).zip(1..) {
                self.apply(lane, seq, chunk.iter().map(|(n, id)| write(*n, *id)).collect()).await;
            }
        }))
        .await;
    }

    /// One time a day, so that the ledger has a partition for each.
    async fn decide_a_month(&self, ids: &[ScheduleId], until: Timestamp) {
        for day in 1..=30 {
            let at = until - Span::from_secs(day * 86_400);
            self.apply_all(&ids[..1], |n, id| self.decide(n, id, at)).await;
        }
    }

    /// As each shard does once in a second or so.
    async fn raise_watermarks(&self) {
        for round in 0..ROUNDS {
            let lane = (round % u64::from(LANES)) as u16;
            let shards = self.owned.iter().map(|owned| owned.shard).filter(|shard| shard.0 % LANES == lane);
            let writes = shards.map(|shard| Write::Schedule(ScheduleWrite::Watermark { shard, at: now() })).collect();
            self.apply(lane, round, writes).await;
        }
    }

    async fn apply(&self, lane: u16, seq: u64, writes: Vec<Write>) {
        let ours = self.owned.iter().filter(|owned| owned.shard.0 % LANES == lane);
        let fences = ours.map(|owned| (owned.shard, owned.epoch)).collect();
        let batch = Batch { seq: BatchSeq(seq), server: self.id, fences, at: now(), writes };
        let applied = self.store.apply(SharedBatch::new(batch)).await.expect("a batch that fits");
        assert_eq!(applied, Applied::done(Void::default()));
    }

    async fn load(&self) -> usize {
        let mut loaded = 0;
        for owned in &self.owned {
            self.store.shard_schedules(owned.shard).await.expect("what a takeover has to know");
            let mut after = None;
            loop {
                let page = self.store.load_schedules(owned.shard, after, PAGE_LEN).await.expect("a page");
                loaded += page.len();
                let Some(last) = page.last() else { break };
                after = Some(last.id);
            }
        }
        loaded
    }
}
