//! Jobs that still wait although they should have started.
//!
//! Each is told once: a cursor in the order of due times says which were looked at. The owner tells of jobs that
//! started late; one that was told as waiting is not told again.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap, HashSet};

use punctual_core::notice::{NoticeKind, RuleSpec};
use punctual_core::{JobId, JobKey, ShardId, Span, Timestamp};
use punctual_store::{Filter, HotJob, Order, Position};
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::event::{Event, EventKind};
use super::tolerate::is_away;
use crate::route::Live;
use crate::{App, Result};

/// Jobs that are read at a time.
const PAGE: usize = 1000;
/// Pages of one `late_after` in one look; the next look goes on where it ended.
const PAGES_AT_ONCE: usize = 10;
/// Pages of one look. With very many different `late_after` they take turns.
const PAGES_IN_ALL: usize = 50;
/// A job that waits for this long after it became late has been seen: looks are never farther apart while the
/// cursor says that they were not interrupted.
pub(super) const SEEN_WITHIN: Span = Span::from_secs(5);
/// A microsecond.
const INSTANT: Span = Span::from_micros(1);

/// How far one rule has looked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct LateCursor {
    /// Jobs due before this were looked at; of those due at it, the ones up to `job`.
    upto: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    job: Option<JobId>,
    /// Since when it has looked without interruption, and for the same.
    since: Timestamp,
    pub(super) looked_at: Timestamp,
    /// Of the rule.
    #[serde(default)]
    pub(super) revision: u32,
}

impl LateCursor {
    /// What is late already when a rule begins is not told.
    pub(super) fn begin(revision: u32, late_after: Span, now: Timestamp) -> Self {
        Self { upto: now - late_after, job: None, since: now, looked_at: now, revision }
    }

    fn place(&self) -> (u32, Timestamp, Option<JobId>) {
        (self.revision, self.upto, self.job)
    }

    /// From what is stored, and what this server knows of its last look. Mostly it knows more: not each look is stored.
    /// But another server may have looked meanwhile, or the answer to our own write got lost.
    pub(super) fn go_on(&self, known: Option<&Self>, now: Timestamp) -> Self {
        match known {
            Some(known) if known.place() >= self.place() => known.clone(),
            Some(_) | None => Self { since: now, ..self.clone() },
        }
    }

    /// A rule that was changed looks for something else: what it passed over before is not told.
    pub(super) fn of_revision(self, revision: u32, late_after: Span, now: Timestamp) -> Self {
        if self.revision == revision {
            return self;
        }
        let begin = Self::begin(revision, late_after, now);
        let upto_first = (self.upto, self.job).min((begin.upto, begin.job));
        Self { upto: upto_first.0, job: upto_first.1, ..begin }
    }

    fn has_passed(&self, key: JobKey) -> bool {
        match self.job {
            Some(job) => (key.due_at, key.id) <= (self.upto, job),
            None => key.due_at < self.upto,
        }
    }

    /// Whether jobs that started late were told while they waited. `own` is what their schedule says of when it is
    /// late: if that is longer, they were not late yet when the rule looked.
    pub(super) fn was_told(&self, started: &Event, late_after: Span, own: Option<Span>) -> bool {
        if own.is_some_and(|own| own > late_after) {
            return false;
        }
        // The event is that of the latest of them. All were due before `last_due` if that one was.
        let late_at = started.waited_from() + late_after;
        let last_due = started.at - late_after - SEEN_WITHIN;
        late_at >= self.since && started.at >= late_at + SEEN_WITHIN && self.upto > last_due
    }

    fn looked(&self, upto: Timestamp, job: Option<JobId>, now: Timestamp) -> Self {
        let is_interrupted = now.since(self.looked_at) > SEEN_WITHIN || now < self.looked_at;
        let since = if is_interrupted { now } else { self.since };
        Self { upto, job, since, looked_at: now, revision: self.revision }
    }
}

/// What one look found, for all rules with the same `late_after`.
pub(super) struct LateLook {
    found: Vec<(JobKey, Event)>,
    upto: Timestamp,
    job: Option<JobId>,
    at: Timestamp,
}

impl LateLook {
    pub(super) fn events(&self) -> impl Iterator<Item = &Event> {
        self.found.iter().map(|(_, event)| event)
    }

    /// Those that are new to a rule, whose cursor goes on.
    pub(super) fn new_to(&self, cursor: &mut LateCursor) -> Vec<&Event> {
        let before = cursor.clone();
        if (self.upto, self.job) > (cursor.upto, cursor.job) {
            *cursor = before.looked(self.upto, self.job, self.at);
        } else {
            *cursor = before.looked(before.upto, before.job, self.at);
        }
        self.found.iter().filter(|(key, _)| !before.has_passed(*key)).map(|(_, event)| event).collect()
    }
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

/// Whether a rule wants to know of what is late.
pub(super) fn is_watching(rule: &RuleSpec) -> bool {
    rule.enabled && rule.wants(NoticeKind::Late)
}

impl App {
    /// Looks for jobs that are late now; once for all rules with the same `late_after`. Begins with those after `turn`,
    /// and also returns where the next look is to begin.
    pub(super) async fn look_for_late(
        &self,
        rules: &[(Span, &LateCursor)],
        turn: Option<Span>,
        now: Timestamp,
        deadline: Instant,
    ) -> Result<(BTreeMap<Span, LateLook>, Option<Span>)> {
        let mut starts: BTreeMap<Span, &LateCursor> = BTreeMap::new();
        for (late_after, cursor) in rules {
            let first = starts.entry(*late_after).or_insert(cursor);
            if (cursor.upto, cursor.job) < (first.upto, first.job) {
                *first = cursor;
            }
        }
        let first = starts.iter().filter(|(late_after, _)| Some(**late_after) > turn);
        let then = starts.iter().filter(|(late_after, _)| Some(**late_after) <= turn);
        let mut looks = BTreeMap::new();
        let mut turn = None;
        let mut budget = Budget { pages: PAGES_IN_ALL, deadline };
        for (late_after, cursor) in first.chain(then) {
            if budget.is_used_up() {
                return Ok((looks, turn));
            }
            match self.late_since(cursor, now - *late_after, now, &mut budget).await {
                Ok(look) => drop(looks.insert(*late_after, look)),
                Err(error) if is_away(&error) => return Err(error),
                // Somewhere there is a row that nobody can read; the next look tries again.
                Err(_) => {}
            }
            turn = Some(*late_after);
        }
        Ok((looks, None))
    }

    async fn late_since(
        &self,
        cursor: &LateCursor,
        until: Timestamp,
        now: Timestamp,
        budget: &mut Budget,
    ) -> Result<LateLook> {
        let mut after = cursor.job.map(|id| JobKey { due_at: cursor.upto, id });
        let mut look = LateLook { found: Vec::new(), upto: until + INSTANT, job: None, at: now };
        if until < cursor.upto {
            return Ok(look);
        }
        let filter = Filter { due_from: Some(cursor.upto), due_before: Some(until + INSTANT), ..Filter::default() };
        for page in 0..PAGES_AT_ONCE {
            // At least one, or nobody would ever get on.
            if page > 0 && budget.is_used_up() {
                break;
            }
            budget.pages = budget.pages.saturating_sub(1);
            let position = Position { after, order: Order::Ascending, limit: PAGE };
            let page = self.0.store.list_hot(filter.clone(), position).await?;
            for job in self.waiting_of(page.rows).await? {
                look.found.push((job.key, late_event(&job, now)));
            }
            let Some(next) = page.next else { return Ok(look) };
            after = Some(next);
            (look.upto, look.job) = (next.due_at, Some(next.id));
        }
        Ok(look)
    }

    /// Those that wait, and that people may be told of.
    pub(super) async fn waiting_of(&self, jobs: Vec<HotJob>) -> Result<Vec<HotJob>> {
        let ids: Vec<JobId> = jobs.iter().map(|job| job.key.id).collect();
        let lives = self.lives(&ids).await?;
        let tasks = self.readable_tasks(jobs.iter().map(|job| job.task).collect()).await?;
        let mut started: HashMap<ShardId, HashSet<JobId>> = HashMap::new();
        let mut waiting: Vec<JobKey> = Vec::new();
        for (job, live) in jobs.into_iter().zip(lives) {
            if tasks.get(&job.task).is_some_and(|task| task.spec.quiet) {
                continue;
            }
            let is_waiting = match live {
                Live::Running { .. } => false,
                Live::Waiting => true,
                // Its owner is away: the store knows what was started.
                Live::Unknown => {
                    let shard = job.key.shard();
                    let known = match started.entry(shard) {
                        Entry::Occupied(known) => known.into_mut(),
                        Entry::Vacant(unknown) => unknown.insert(self.started_in(shard).await?),
                    };
                    !known.contains(&job.key.id)
                }
            };
            if is_waiting {
                waiting.push(job.key);
            }
        }
        // One that has ended since it was read does not run either.
        Ok(if waiting.is_empty() { Vec::new() } else { self.0.store.hot_jobs(waiting).await? })
    }

    async fn started_in(&self, shard: ShardId) -> Result<HashSet<JobId>> {
        let open = self.0.store.open_starts(shard).await?;
        Ok(open.running.into_iter().map(|(_, row)| row.key.id).collect())
    }
}

fn late_event(job: &HotJob, now: Timestamp) -> Event {
    Event {
        kind: EventKind::Late,
        at: now,
        task: Some(job.task),
        job: Some(job.key.id),
        planned: job.source.map(|source| (source.schedule, source.at)),
        count: 1,
        lateness: Some(now.since(job.key.due_at)),
        is_waiting: true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LATE_AFTER: Span = Span::from_secs(60);

    fn at(secs: i64) -> Timestamp {
        Timestamp::EPOCH + Span::from_secs(100_000 + secs)
    }

    fn started(due: i64, start: i64) -> Event {
        Event {
            kind: EventKind::Late,
            at: at(start),
            task: None,
            job: None,
            planned: None,
            count: 1,
            lateness: Some(at(start).since(at(due))),
            is_waiting: false,
        }
    }

    fn key(due: i64, number: u64) -> JobKey {
        JobKey::original(JobId::new(at(due), ShardId(0), number))
    }

    fn look(upto: i64, job: Option<JobId>, now: i64, keys: &[JobKey]) -> LateLook {
        let found = keys.iter().map(|key| (*key, started(0, now))).collect();
        LateLook { found, upto: at(upto), job, at: at(now) }
    }

    #[test]
    fn each_job_is_new_to_a_rule_once() {
        let mut cursor = LateCursor::begin(1, LATE_AFTER, at(0));
        let (first, second) = (key(1, 1), key(1, 2));
        let half = look(1, Some(first.id), 62, &[key(-70, 9), first]);
        assert_eq!(half.new_to(&mut cursor).len(), 1, "one was late before the rule began");
        assert_eq!(look(3, None, 64, &[first, second]).new_to(&mut cursor).len(), 1);
        assert_eq!(look(3, None, 66, &[first, second]).new_to(&mut cursor).len(), 0);
    }

    #[test]
    fn a_late_start_is_told_unless_the_job_was_told_while_it_waited() {
        let mut cursor = LateCursor::begin(1, LATE_AFTER, at(0));
        for now in (2..=100).step_by(2) {
            look(now - 60, None, now, &[]).new_to(&mut cursor);
        }
        let told = |due, start| cursor.was_told(&started(due, start), LATE_AFTER, None);
        assert!(told(10, 90), "it was seen waiting from 70 on");
        assert!(!told(10, 74), "it may have started before the first look after 70");
        assert!(told(10, 75));
        assert!(!told(-61, 90), "it was late before the rule looked");
        assert!(!told(50, 115), "nobody has looked so far");
    }

    #[test]
    fn after_an_interruption_nothing_is_taken_as_told() {
        let mut cursor = LateCursor::begin(1, LATE_AFTER, at(0));
        look(-58, None, 2, &[]).new_to(&mut cursor);
        look(140, None, 200, &[]).new_to(&mut cursor);
        assert!(!cursor.was_told(&started(10, 90), LATE_AFTER, None), "nobody looked between 2 and 200");
        assert_eq!(cursor.since, at(200));
        let taken_over = cursor.go_on(None, at(300));
        assert_eq!((taken_over.upto, taken_over.since), (at(140), at(300)));
    }

    #[test]
    fn what_is_stored_counts_where_it_is_ahead_of_what_is_known() {
        let known = LateCursor::begin(1, LATE_AFTER, at(0));
        let stored = LateCursor { upto: at(50), ..known.clone() };
        assert_eq!(known.go_on(Some(&stored), at(300)), stored, "not each look is stored");
        let ahead = stored.go_on(Some(&known), at(300));
        assert_eq!((ahead.upto, ahead.since), (at(50), at(300)));
        let changed = LateCursor { revision: 2, ..known };
        assert_eq!(changed.go_on(Some(&stored), at(300)).revision, 2, "the rule was changed since");
    }

    #[test]
    fn what_a_rule_passed_over_before_it_was_changed_is_not_taken_as_told() {
        let cursor = LateCursor { upto: at(100), ..LateCursor::begin(1, LATE_AFTER, at(0)) };
        assert_eq!(cursor.clone().of_revision(1, LATE_AFTER, at(160)), cursor);
        let other_scope = cursor.clone().of_revision(2, LATE_AFTER, at(160));
        assert_eq!((other_scope.upto, other_scope.since, other_scope.revision), (at(100), at(160), 2));
        let longer = cursor.of_revision(2, Span::from_secs(100), at(160));
        assert_eq!(
            (longer.upto, longer.since),
            (at(60), at(160)),
            "what is not late by the new limit is looked at again"
        );
    }
}
