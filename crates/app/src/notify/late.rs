//! Jobs that still wait although they should have started.
//!
//! Each is told once: a cursor in the order of due times says which were looked at (`scan_progress.rs`). The owner tells of jobs
//! that started late; one that was told as waiting is not told again.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap, HashSet};

use punctual_core::namespace::NamespaceId;
use punctual_core::{JobId, JobKey, ShardId, Span, Timestamp};
use punctual_store::{DueWindow, HotJob, Page};
use tokio::time::Instant;

use super::cursor::{LateLook, after};
use super::event::{Event, EventKind};
use super::outages::{is_outage, skip_unreadable};
use super::scan_progress::{End, ScanProgress};
use crate::route::Live;
use crate::{App, Result};

/// Jobs that are read at a time.
const PAGE: usize = 1000;
/// Pages of one `late_after` in one look; the next look goes on where it ended.
const PAGES_AT_ONCE: usize = 10;
/// Pages of one look. With very many different `late_after` they take turns.
const PAGES_IN_ALL: usize = 50;
/// A microsecond.
const INSTANT: Span = Span::from_micros(1);

/// Jobs that deliver notifications. Nobody is told of them, or each would make another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Quiet {
    LeftOut,
    Shown,
}

/// What is left of one look.
struct Budget {
    pages: usize,
    deadline: Instant,
}

impl Budget {
    fn is_used_up(&self) -> bool {
        self.pages == 0 || Instant::now() >= self.deadline
    }
}

impl App {
    /// Looks for jobs that are late now; once for all with the same limit. Begins with those after `turn`, and also returns
    /// where the next look is to begin.
    pub(super) async fn look_for_late(
        &self,
        limits: &[(Span, &ScanProgress)],
        turn: Option<Span>,
        now: Timestamp,
        deadline: Instant,
    ) -> Result<(BTreeMap<Span, LateLook>, Option<Span>)> {
        let mut starts: BTreeMap<Span, &ScanProgress> = BTreeMap::new();
        for (late_after, progress) in limits {
            let first = starts.entry(*late_after).or_insert(progress);
            if progress.end() < first.end() {
                *first = progress;
            }
        }
        let first = starts.iter().filter(|(late_after, _)| Some(**late_after) > turn);
        let then = starts.iter().filter(|(late_after, _)| Some(**late_after) <= turn);
        let mut looks = BTreeMap::new();
        let mut turn = None;
        let mut budget = Budget { pages: PAGES_IN_ALL, deadline };
        for (late_after, progress) in first.chain(then) {
            if budget.is_used_up() {
                return Ok((looks, turn));
            }
            match self.late_since(progress, now - *late_after, now, &mut budget).await {
                Ok(look) => drop(looks.insert(*late_after, look)),
                Err(error) if is_outage(&error) => return Err(error),
                // What it needs cannot be read; the next look tries again.
                Err(_) => {}
            }
            turn = Some(*late_after);
        }
        Ok((looks, None))
    }

    async fn late_since(
        &self,
        progress: &ScanProgress,
        until: Timestamp,
        now: Timestamp,
        budget: &mut Budget,
    ) -> Result<LateLook> {
        let mut position = after(progress.end());
        let all = End { upto: until + INSTANT, job: None };
        let mut look = LateLook { found: Vec::new(), end: all, at: now };
        let from = progress.end().upto;
        if until < from {
            return Ok(look);
        }
        for page in 0..PAGES_AT_ONCE {
            // At least one, or nobody would ever get on.
            if page > 0 && budget.is_used_up() {
                break;
            }
            budget.pages = budget.pages.saturating_sub(1);
            let page = self.due_page(None, from, until, position, PAGE).await?;
            for job in self.waiting_of(page.rows, Quiet::LeftOut).await? {
                look.found.push((place_of(&job), late_event(&job, now)));
            }
            // One that starts from now on was seen, and is told.
            look.at = self.now();
            look.end = page.next.map_or(all, |next| End { upto: next.due_at, job: Some(next.id) });
            position = page.next;
            if position.is_none() {
                break;
            }
        }
        Ok(look)
    }

    /// Hot jobs that should have run by `until` and not before `from`, in order of their places. A job that was given back
    /// is due at its next try, and is late all the same.
    pub(super) async fn due_page(
        &self,
        namespace: Option<NamespaceId>,
        from: Timestamp,
        until: Timestamp,
        after: Option<JobKey>,
        limit: usize,
    ) -> Result<Page<HotJob, JobKey>> {
        let window = DueWindow { namespace, from, before: until + INSTANT, after };
        let due = self.0.store.list_due(window, limit).await?;
        let before_from = JobKey { due_at: from - INSTANT, id: JobId::last_at(Timestamp::MAX) };
        let after = after.map_or(before_from, |after| after.max(before_from));
        let given_back = self.0.store.given_back(namespace, Some(after), until, limit).await?;
        // Neither was read beyond its end, so that nothing beyond the nearer of the two is known.
        let next = match (due.next, given_back.next) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
        let due = due.rows.into_iter().filter(|job| job.given_back().is_none());
        let mut rows: Vec<HotJob> = due.chain(given_back.rows).collect();
        rows.retain(|job| next.is_none_or(|next| place_of(job) <= next));
        rows.sort_by_key(place_of);
        Ok(Page { rows, next })
    }

    /// Those that have not started.
    pub(crate) async fn waiting_of(&self, jobs: Vec<HotJob>, quiet: Quiet) -> Result<Vec<HotJob>> {
        let ids: Vec<JobId> = jobs.iter().map(|job| job.key.id).collect();
        let lives = self.lives(&ids).await?;
        let tasks = self.readable_tasks(jobs.iter().map(|job| job.task).collect()).await?;
        let mut started: HashMap<ShardId, Option<HashSet<JobId>>> = HashMap::new();
        let mut waiting: Vec<JobKey> = Vec::new();
        for (job, live) in jobs.into_iter().zip(lives) {
            if quiet == Quiet::LeftOut && tasks.get(&job.task).is_some_and(|task| task.spec.quiet) {
                continue;
            }
            let is_waiting = match live {
                // One that was given back is being tried again, which need not be a start.
                Live::Running { .. } => job.given_back().is_some(),
                Live::Waiting => true,
                // Its owner is away: the store knows what was started, unless that cannot be read.
                Live::Unknown => {
                    let shard = job.key.shard();
                    let known = match started.entry(shard) {
                        Entry::Occupied(known) => known.into_mut(),
                        Entry::Vacant(unknown) => unknown.insert(self.started_in(shard).await?),
                    };
                    // Told too often is better than never.
                    known.as_ref().is_none_or(|known| !known.contains(&job.key.id))
                }
            };
            if is_waiting {
                waiting.push(job.key);
            }
        }
        // One that has ended since it was read does not run either.
        Ok(if waiting.is_empty() { Vec::new() } else { self.0.store.hot_jobs(waiting).await? })
    }

    async fn started_in(&self, shard: ShardId) -> Result<Option<HashSet<JobId>>> {
        let open = skip_unreadable(self.0.store.open_starts(shard).await.map(Some))?;
        Ok(open.map(|open| open.running.into_iter().map(|(_, row)| row.key.id).collect()))
    }
}

/// Where a job stands among those that may be late.
fn place_of(job: &HotJob) -> JobKey {
    JobKey { due_at: job.given_back().map_or(job.key.due_at, |last| last.since), id: job.key.id }
}

fn late_event(job: &HotJob, now: Timestamp) -> Event {
    Event {
        kind: EventKind::Late,
        at: now,
        task: Some(job.task),
        job: Some(job.key.id),
        planned: job.source.map(|source| (source.schedule, source.at)),
        count: 1,
        lateness: Some(now.since(job.due_since())),
        is_waiting: true,
    }
}
