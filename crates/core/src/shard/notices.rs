//! What people may want to be told of what the owner sees.
//!
//! The end of a job and a missed time carry their notices themselves. Late starts come in floods, when
//! nobody was there for a while, so they are counted by task and told once a second.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::attempt::Ending;
use crate::id::{JobId, ScheduleId, TaskId};
use crate::lifecycle::JobState;
use crate::notice::{Notice, NoticeKind};
use crate::schedule::{OccurrenceRow, Verdict};
use crate::shard::event::Watch;
use crate::shard::live::{Live, Run};
use crate::shard::schedules::Schedules;
use crate::shard::write::Write;
use crate::shard::{Owner, planted};
use crate::task::Task;
use crate::time::{Span, Timestamp};

/// Failed tasks that are remembered, so that their next success is reported as a recovery. Of tasks beyond this only
/// failures are reported.
const AILING_MAX: usize = 10_000;

/// Kinds of late starts that are counted at a time. Late starts of further kinds are not reported.
const LATE_MAX: usize = 10_000;

/// After this time, a failure that was seen here is in the received list of failed tasks, however old that list is.
const TOLD_WITHIN: Span = Span::from_secs(3600);

/// The watcher of waiting jobs has reported a job that waits for this much longer than allowed.
const SEEN_WITHIN: Span = Span::from_secs(5);

#[derive(Default)]
pub(super) struct Notices {
    /// Tasks whose last known end was a failure, with the time at which it was seen here; `None` for those from the
    /// received list.
    ailing: BTreeMap<TaskId, Option<Timestamp>>,
    /// A job that starts later than the first of these is late; empty while no rule asks for late jobs.
    late_after: Vec<Span>,
    late: BTreeMap<LateKind, Notice>,
}

/// Late starts that share one notice, because every rule treats them alike.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct LateKind {
    task: TaskId,
    schedule: Option<ScheduleId>,
    /// How many of the limits of all rules they exceed, and by how many of those for long.
    exceeds: (usize, usize),
    /// Whether they exceed that of their schedule for long.
    exceeds_own: bool,
}

impl Notices {
    /// Sets what to watch for, as the rules currently require.
    pub(super) fn watch(&mut self, watch: Watch, now: Timestamp) {
        let Watch { ailing, late_after } = watch;
        self.late_after = late_after;
        self.ailing.retain(|_, seen| seen.is_some_and(|seen| now.since(seen) < TOLD_WITHIN));
        for task in ailing.into_iter().take(AILING_MAX) {
            self.ailing.entry(task).or_insert(None);
        }
    }

    /// A job in memory ends: what there is to say of it.
    fn of_end(&mut self, live: &Live, state: JobState, now: Timestamp) -> Option<Box<Notice>> {
        if live.task.spec.quiet {
            return None;
        }
        let task = live.task.id;
        let kind = match NoticeKind::of_end(state) {
            Some(kind) => kind,
            None if state == JobState::Succeeded && self.ailing.remove(&task).is_some() => NoticeKind::Recovered,
            None => return None,
        };
        Some(Box::new(Notice::of_job(kind, live.key.id, Some(task), live.source.as_deref(), now)))
    }

    /// The end of a job is durable: its task ails if it failed. That of a one-off job has nothing to recover for.
    pub(super) fn settled(&mut self, notice: &Notice, task: &Task, now: Timestamp) {
        let is_failure = notice.kind != NoticeKind::Recovered && task.name.is_some();
        if is_failure && (self.ailing.len() < AILING_MAX || self.ailing.contains_key(&task.id)) {
            self.ailing.insert(task.id, Some(now));
        }
    }

    /// An attempt is known to have started: whether it did so late. `at` is when that is known.
    fn started(&mut self, live: &Live, schedules: &Schedules, started_at: Timestamp, at: Timestamp) {
        if live.task.spec.quiet {
            return;
        }
        let (due_at, objective) = live.promised(schedules);
        let Some(late_after) = objective.or(self.late_after.first().copied()) else { return };
        if started_at.since(due_at) <= late_after {
            return;
        }
        let (task, lateness) = (live.task.id, at.since(due_at));
        let notice = Notice::of_job(NoticeKind::Late, live.key.id, Some(task), live.source.as_deref(), at);
        self.late(task, Notice { lateness: Some(lateness), ..notice }, lateness, objective);
    }

    fn late(&mut self, task: TaskId, notice: Notice, lateness: Span, own: Option<Span>) {
        let exceeded = self.late_after.partition_point(|limit| *limit < lateness);
        let is_for_long = |limit: &Span| limit.as_micros() + SEEN_WITHIN.as_micros() <= lateness.as_micros();
        let for_long = self.late_after.partition_point(is_for_long);
        let schedule = notice.planned.map(|(schedule, _)| schedule);
        let exceeds_own = own.as_ref().is_some_and(is_for_long);
        let key = LateKind { task, schedule, exceeds: (exceeded, for_long), exceeds_own };
        if self.late.len() >= LATE_MAX && !self.late.contains_key(&key) {
            return;
        }
        let count = self.late.get(&key).map_or(0, |known| known.count).saturating_add(1);
        let known = self.late.entry(key).or_insert_with(|| notice.clone());
        if known.lateness <= notice.lateness {
            *known = notice;
        }
        known.count = count;
    }
}

impl Owner {
    /// A job in memory ends: what there is to say of it.
    pub(super) fn notice_of_end(&mut self, id: JobId, state: JobState) -> Option<Box<Notice>> {
        let notice = self.notices.of_end(self.shards.live(id)?, state, self.now)?;
        let is_told = notice.kind == NoticeKind::Recovered || !planted!(self.config, FailureNotTold);
        is_told.then_some(notice)
    }

    /// Checks, when the start of a job is durable, whether it is late. A job that was given back may be given back
    /// again, so its notice waits until an attempt has run.
    pub(super) fn notice_start(&mut self, id: JobId, run: &Run) {
        let Some(shard) = self.shards.get(id.shard()) else { return };
        if let Some(live) = shard.jobs.get(&id).filter(|live| live.given_back().is_none()) {
            self.notices.started(live, &shard.schedules, run.started_at, run.started_at);
        }
    }

    /// An attempt has ended. Whoever looks for jobs that wait has told of a job that was given back and is late, if they
    /// looked by now.
    pub(super) fn notice_run(&mut self, id: JobId, run: &Run, ending: Ending) {
        let Some(shard) = self.shards.get(id.shard()).filter(|_| ending != Ending::NotStarted) else { return };
        if let Some(live) = shard.jobs.get(&id).filter(|live| live.given_back().is_some()) {
            self.notices.started(live, &shard.schedules, run.started_at, self.now);
        }
    }

    /// Passes on what was counted.
    pub(super) fn tell_late(&mut self) {
        for (_, notice) in std::mem::take(&mut self.notices.late) {
            // Its own may have gone to another server meanwhile; any of ours carries it.
            let shard = self.shard(notice.shard).or_else(|| self.owned().next()).map(|shard| shard.id);
            if let Some(shard) = shard {
                self.push(Write::Notice(Box::new(Notice { shard, ..notice })));
            }
        }
    }
}

impl Live {
    /// When it was to start, and how late its schedule lets it be.
    fn promised(&self, schedules: &Schedules) -> (Timestamp, Option<Span>) {
        let planned = self.first_run_of();
        planned.and_then(|source| schedules.promised(&source)).unwrap_or((self.due_since(), None))
    }
}

/// What there is to say of a verdict.
pub(super) fn notice_of_verdict(occurrence: &OccurrenceRow, task: &Arc<Task>) -> Option<Box<Notice>> {
    if occurrence.verdict != Verdict::Missed || task.spec.quiet {
        return None;
    }
    Some(Box::new(Notice {
        at: occurrence.decided_at,
        kind: NoticeKind::Missed,
        shard: occurrence.schedule.shard(),
        task: Some(task.id),
        job: None,
        planned: Some((occurrence.schedule, occurrence.at)),
        count: occurrence.count,
        lateness: Some(occurrence.decided_at.since(occurrence.slot)),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::ShardId;

    #[test]
    fn late_starts_are_told_apart_by_the_limit_of_their_schedule() {
        let mut notices = Notices { late_after: vec![Span::from_secs(60)], ..Notices::default() };
        let (task, own) = (TaskId::new(Timestamp::EPOCH, 1), Span::from_secs(200));
        for secs in [199, 202, 204, 206, 300] {
            let (at, lateness) = (Timestamp::EPOCH, Span::from_secs(secs));
            let job = JobId::new(at, ShardId(0), secs as u64);
            let notice = Notice::of_job(NoticeKind::Late, job, Some(task), None, at);
            notices.late(task, Notice { lateness: Some(lateness), ..notice }, lateness, Some(own));
        }
        let counted: Vec<(u32, Option<Span>)> = notices.late.values().map(|late| (late.count, late.lateness)).collect();
        // Who looks has seen those waiting that exceeded it for long, and told of them.
        assert_eq!(counted, [(3, Some(Span::from_secs(204))), (2, Some(Span::from_secs(300)))]);
    }
}
