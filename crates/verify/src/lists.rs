//! `verify lists`: walks through lists of jobs while the jobs start, fail, wait for retries, end and are run again. No walk
//! shows a job twice, and none leaves out a job that was there when it began.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use clap::Args;
use futures_util::future::{join_all, try_join_all};
use punctual_api::{JobSummary, ListQuery};
use punctual_client::Client;
use punctual_core::random::SplitMix64;
use punctual_core::{JobId, Span, Timestamp};

use crate::clients::{Order, define_tasks, patiently};
use crate::clock::Moment;
use crate::cluster::{Cluster, DatabaseKind, Programs, Shape};
use crate::findings::Findings;
use crate::history::RunFolder;
use crate::witness::Work;

#[derive(Debug, Clone, Args)]
pub struct Lists {
    /// How many pages to read
    #[arg(long, default_value_t = 10_000)]
    pub pages: u64,
    /// Two servers with PostgreSQL instead of one with the embedded database
    #[arg(long)]
    pub postgres: bool,
    #[arg(long, default_value_t = 1)]
    pub rounds: u32,
}

/// Its jobs are retried until they succeed.
const TASK: &str = "at-least-once";
const SUBMITTERS: u64 = 4;
/// Between two jobs of one of them: a walk must end although jobs are added to its end.
const SUBMIT_PAUSE: Duration = Duration::from_millis(10);
const RERUN_PAUSE: Duration = Duration::from_millis(20);
/// A first page of jobs, so that the first walks have something to walk through.
const FIRST_JOBS: usize = 200;
const FAULTS_SHOWN_MAX: usize = 10;

/// One way through the list.
struct Walk {
    states: Option<&'static str>,
    order: &'static str,
    limit: u64,
    must_show: MustShow,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum MustShow {
    /// Every job that was acknowledged before the walk began.
    Acknowledged,
    /// Every job that had started by then and is started once only: it runs, or it has succeeded.
    Started,
}

const WALKS: [Walk; 4] = [
    Walk { states: None, order: "desc", limit: 50, must_show: MustShow::Acknowledged },
    Walk { states: None, order: "asc", limit: 100, must_show: MustShow::Acknowledged },
    Walk { states: Some("scheduled,running,succeeded"), order: "desc", limit: 30, must_show: MustShow::Acknowledged },
    Walk { states: Some("running,succeeded"), order: "asc", limit: 50, must_show: MustShow::Started },
];

/// What all know of the run so far.
#[derive(Default)]
struct Known {
    acknowledged: Mutex<Vec<JobId>>,
    /// Jobs that never fail and are never run again.
    started_once: Mutex<BTreeSet<JobId>>,
    /// Those of them that some list has shown as running or succeeded.
    started: Mutex<BTreeSet<JobId>>,
    faults: Mutex<Vec<String>>,
    pages: AtomicU64,
    walks: AtomicU64,
    rows: AtomicU64,
    /// Rows of jobs that ran, and of jobs whose due time was not their first any more.
    running: AtomicU64,
    moved: AtomicU64,
    reruns: AtomicU64,
    is_over: AtomicBool,
}

fn lock<T>(known: &Mutex<T>) -> MutexGuard<'_, T> {
    known.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Lists {
    /// One round in `folder`. An error is a fault of the machine, not of the system.
    pub async fn round(&self, round: u32, folder: &RunFolder) -> anyhow::Result<Findings> {
        let (servers, database) = match self.postgres {
            true => (2, DatabaseKind::Postgres),
            false => (1, DatabaseKind::Embedded),
        };
        let cluster = Cluster::start(Shape::new(servers, 2, database), folder.clone(), Programs::find()?).await?;
        let clients = cluster.clients()?;
        define_tasks(&clients[0], &folder.client_journal()?).await?;
        let known = Known::default();
        let begun = Moment::now();
        let submits = (0..SUBMITTERS).map(|number| {
            let client = &clients[number as usize % clients.len()];
            submit(client, &known, SplitMix64::new(u64::from(round) * SUBMITTERS + number))
        });
        let reruns = rerun(&clients[0], &known, SplitMix64::new(u64::from(round) + 1000));
        let walks =
            WALKS.iter().enumerate().map(|(place, walk)| self.walk_on(&clients[place % clients.len()], walk, &known));
        let walks = async {
            let walked = try_join_all(walks).await;
            known.is_over.store(true, Ordering::Relaxed);
            walked
        };
        let (walked, (), ()) = tokio::join!(walks, async { drop(join_all(submits).await) }, reruns);
        walked?;
        let seconds = Moment::now().ms_since(begun) as f64 / 1e3;
        cluster.stop().await?;
        Ok(self.judge(&known, seconds))
    }

    fn judge(&self, known: &Known, seconds: f64) -> Findings {
        let counted = |figure: &AtomicU64| figure.load(Ordering::Relaxed);
        eprintln!(
            "  {} pages of {} walks in {seconds:.1} s: {} rows, {} of them running and {} moved; {} jobs, {} run again",
            counted(&known.pages),
            counted(&known.walks),
            counted(&known.rows),
            counted(&known.running),
            counted(&known.moved),
            lock(&known.acknowledged).len(),
            counted(&known.reruns),
        );
        let mut findings = Findings::default();
        let faults = lock(&known.faults);
        findings.faults.extend(faults.iter().take(FAULTS_SHOWN_MAX).cloned());
        findings.expect(faults.len() <= FAULTS_SHOWN_MAX, || format!("and {} more", faults.len() - FAULTS_SHOWN_MAX));
        // Otherwise nothing was tried.
        for (figure, what) in [(&known.running, "running"), (&known.moved, "moved"), (&known.reruns, "run again")] {
            findings.expect(counted(figure) > 0, || format!("no job was {what}"));
        }
        findings
    }

    /// Walks again and again until enough pages were read.
    async fn walk_on(&self, client: &Client, walk: &Walk, known: &Known) -> anyhow::Result<()> {
        while lock(&known.acknowledged).len() < FIRST_JOBS {
            tokio::time::sleep(SUBMIT_PAUSE).await;
        }
        while known.pages.load(Ordering::Relaxed) < self.pages {
            let mut missing: BTreeSet<JobId> = match walk.must_show {
                MustShow::Acknowledged => lock(&known.acknowledged).iter().copied().collect(),
                MustShow::Started => lock(&known.started).clone(),
            };
            let shown = through(client, walk, known).await?;
            for id in &shown {
                missing.remove(id);
            }
            known.walks.fetch_add(1, Ordering::Relaxed);
            let mut faults = lock(&known.faults);
            let name = format!("{} {}", walk.order, walk.states.unwrap_or("all"));
            let in_order = |pair: &[JobId]| if walk.order == "asc" { pair[0] < pair[1] } else { pair[0] > pair[1] };
            faults.extend(
                shown
                    .windows(2)
                    .filter(|pair| !in_order(pair))
                    .map(|pair| format!("{name}: {} after {}", pair[1], pair[0])),
            );
            faults.extend(missing.iter().map(|id| format!("{name}: {id} is missing")));
        }
        Ok(())
    }
}

/// The jobs of all pages, as they came.
async fn through(client: &Client, walk: &Walk, known: &Known) -> anyhow::Result<Vec<JobId>> {
    let mut query = ListQuery {
        state: walk.states.map(str::to_owned),
        order: Some(walk.order.to_owned()),
        limit: Some(walk.limit.to_string()),
        ..ListQuery::default()
    };
    let mut shown = Vec::new();
    loop {
        let page = patiently(async || client.jobs(&query).await).await?;
        known.pages.fetch_add(1, Ordering::Relaxed);
        for job in &page.jobs {
            note(job, known);
        }
        shown.extend(page.jobs.iter().map(|job| job.id));
        query.cursor = page.next_cursor;
        if query.cursor.is_none() {
            return Ok(shown);
        }
    }
}

fn note(job: &JobSummary, known: &Known) {
    known.rows.fetch_add(1, Ordering::Relaxed);
    known.running.fetch_add(u64::from(job.state == "running"), Ordering::Relaxed);
    known.moved.fetch_add(u64::from(job.due_at != job.scheduled_at), Ordering::Relaxed);
    if ["running", "succeeded"].contains(&job.state.as_str()) && lock(&known.started_once).contains(&job.id) {
        lock(&known.started).insert(job.id);
    }
    if job.scheduled_at != job.id.due_at() {
        lock(&known.faults).push(format!("{} was asked for at another time than {}", job.id, job.scheduled_at));
    }
}

async fn submit(client: &Client, known: &Known, mut chance: SplitMix64) {
    while !known.is_over.load(Ordering::Relaxed) {
        let fail_first = if chance.percent(40) { 1 + chance.below(2) as u32 } else { 0 };
        let later = Span::from_millis(chance.below(3000) as i64);
        let now = Timestamp::saturating_from_micros(Moment::now().real_us);
        let order = Order {
            key: "lists".to_owned(),
            task: TASK,
            run_at: chance.percent(50).then(|| now + later),
            work: Work { sleep_ms: chance.below(60), fail_first },
        };
        // One that was not acknowledged may be there or not.
        if let Ok(submitted) = client.submit(&order.request()).await {
            if fail_first == 0 {
                lock(&known.started_once).insert(submitted.id);
            }
            lock(&known.acknowledged).push(submitted.id);
        }
        tokio::time::sleep(SUBMIT_PAUSE).await;
    }
}

/// Runs jobs again that have finished; only those that failed at first, so that the others are started once.
async fn rerun(client: &Client, known: &Known, mut chance: SplitMix64) {
    while !known.is_over.load(Ordering::Relaxed) {
        let chosen = {
            let jobs = lock(&known.acknowledged);
            if jobs.is_empty() { None } else { Some(*chance.pick(&jobs)) }
        };
        if let Some(id) = chosen.filter(|id| !lock(&known.started_once).contains(id))
            && client.retry(id).await.is_ok()
        {
            known.reruns.fetch_add(1, Ordering::Relaxed);
        }
        tokio::time::sleep(RERUN_PAUSE).await;
    }
}
