//! There is one notice for each failure, recovery and missed time, and none for anything else.

use std::collections::{BTreeMap, BTreeSet};

use punctual_core::notice::{Notice, NoticeKind};
use punctual_core::schedule::{ScheduleCommand, Verdict};
use punctual_core::shard::write::{JobWrite, ScheduleWrite, Write};
use punctual_core::{JobId, JobState, ScheduleId, Span, TaskId, Timestamp};

use super::schedules::is_void;
use crate::history::{Fact, History};

type Found = Vec<(Option<JobId>, String)>;

/// A failure is known to every server after this, once the faults have stopped.
const KNOWN_AFTER: Span = Span::from_secs(20);

/// What the store holds at the end, and what it should.
struct StoredNotices<'a> {
    notices: &'a [Notice],
    quiet: &'a BTreeSet<TaskId>,
    tasks: BTreeMap<JobId, TaskId>,
}

fn stored(history: &History) -> Option<StoredNotices<'_>> {
    let mut tasks = BTreeMap::new();
    for (_, fact) in history.iter() {
        match fact {
            Fact::Submit { jobs, task, .. } => tasks.extend(jobs.iter().map(|id| (*id, task.id))),
            Fact::Committed { batch, void } => {
                for decision in batch.writes.iter().filter(|write| !is_void(write, void)).filter_map(decision_of) {
                    tasks.extend(decision.job.as_ref().map(|job| (job.id, job.task)));
                }
            }
            _ => {}
        }
    }
    history.iter().find_map(|(_, fact)| match fact {
        Fact::Notices { notices, quiet } => Some(StoredNotices { notices, quiet, tasks: std::mem::take(&mut tasks) }),
        _ => None,
    })
}

impl StoredNotices<'_> {
    fn recoveries(&self) -> impl Iterator<Item = (TaskId, Timestamp)> {
        let recovered = self.notices.iter().filter(|notice| notice.kind == NoticeKind::Recovered);
        recovered.filter_map(|notice| Some((*self.tasks.get(&notice.job?)?, notice.at)))
    }

    fn is_quiet(&self, job: JobId) -> bool {
        self.tasks.get(&job).is_some_and(|task| self.quiet.contains(task))
    }
}

fn decision_of(write: &Write) -> Option<&punctual_core::shard::write::Decision> {
    match write {
        Write::Schedule(ScheduleWrite::Decide(decision) | ScheduleWrite::Release(decision)) => Some(decision),
        _ => None,
    }
}

/// The end of a job that the store took.
struct End<'a> {
    at: Timestamp,
    job: JobId,
    state: JobState,
    /// It had been lost before.
    is_late_result: bool,
    notice: Option<&'a Notice>,
}

fn ends(history: &History) -> impl Iterator<Item = End<'_>> {
    let took = history.iter().filter_map(|(at, fact)| match fact {
        Fact::Committed { batch, void } => Some((at, batch, void)),
        _ => None,
    });
    took.flat_map(|(at, batch, void)| {
        batch.writes.iter().filter(|write| !is_void(write, void)).filter_map(move |write| {
            let (job, state, is_late_result) = match write {
                Write::Job(JobWrite::Settle(settle)) => (settle.key.id, settle.state, false),
                Write::Job(JobWrite::ResolveLost(resolve)) => (resolve.id, resolve.state, true),
                _ => return None,
            };
            Some(End { at, job, state, is_late_result, notice: write.notice() })
        })
    })
}

pub(super) fn every_failure_has_one_notice(history: &History) -> Found {
    let Some(stored) = stored(history) else { return Vec::new() };
    let mut balance: BTreeMap<(JobId, NoticeKind), i64> = BTreeMap::new();
    for End { job, state, is_late_result, notice, .. } in ends(history) {
        if notice.is_some_and(|notice| notice.kind == NoticeKind::Recovered) {
            *balance.entry((job, NoticeKind::Recovered)).or_default() += 1;
        }
        if let Some(kind) = NoticeKind::of_end(state)
            // Of a late result the owner does not know the task; whoever reads the notice does.
            && (is_late_result || !stored.is_quiet(job))
        {
            *balance.entry((job, kind)).or_default() += 1;
        }
    }
    for notice in stored.notices {
        match (notice.kind, notice.job) {
            (NoticeKind::Missed | NoticeKind::Late, _) | (_, None) => {}
            (kind, Some(job)) => *balance.entry((job, kind)).or_default() -= 1,
        }
    }
    let wrong = balance.into_iter().filter(|(_, count)| *count != 0);
    wrong.map(|((job, kind), count)| (Some(job), format!("{} has {count} notices too few", kind.as_str()))).collect()
}

pub(super) fn every_missed_time_has_one_notice(history: &History) -> Found {
    let Some(stored) = stored(history) else { return Vec::new() };
    let mut quiet: BTreeSet<ScheduleId> = BTreeSet::new();
    for (_, fact) in history.iter() {
        if let Fact::AskSchedule { id, command, .. } = fact {
            let task = match command {
                ScheduleCommand::Create(new) => Some(new.edit.task),
                ScheduleCommand::Edit { edit, .. } => Some(edit.task),
                _ => None,
            };
            quiet.extend(task.filter(|task| stored.quiet.contains(task)).map(|_| *id));
        }
    }
    let mut balance: BTreeMap<(ScheduleId, Timestamp), i64> = BTreeMap::new();
    for (_, fact) in history.iter() {
        let Fact::Ledger { id, rows } = fact else { continue };
        for row in rows.iter().filter(|row| row.verdict == Verdict::Missed && !quiet.contains(id)) {
            *balance.entry((*id, row.at)).or_default() += i64::from(row.count);
        }
    }
    for notice in stored.notices.iter().filter(|notice| notice.kind == NoticeKind::Missed) {
        if let Some((id, at)) = notice.planned.filter(|(id, _)| !quiet.contains(id)) {
            *balance.entry((id, at)).or_default() -= i64::from(notice.count);
        }
    }
    let wrong = balance.into_iter().filter(|(_, count)| *count != 0);
    wrong.map(|((id, at), count)| (None, format!("{id} missed {at}, which has {count} notices too few"))).collect()
}

/// A success after a failure has a notice, and no other success has.
pub(super) fn every_recovery_has_a_notice(history: &History) -> Found {
    let Some(stored) = stored(history) else { return Vec::new() };
    let healed_at = history.iter().find_map(|(at, fact)| matches!(fact, Fact::Healed).then_some(at));
    let mut found = Vec::new();
    // Since when each task ails, and whether that was ever so.
    let mut ailing: BTreeMap<TaskId, Timestamp> = BTreeMap::new();
    let mut ever: BTreeSet<TaskId> = BTreeSet::new();
    let recoveries: BTreeSet<(TaskId, Timestamp)> = stored.recoveries().collect();
    for End { at, job, state, is_late_result, notice } in ends(history) {
        let Some(task) = stored.tasks.get(&job).copied().filter(|task| !stored.quiet.contains(task)) else { continue };
        let has_notice = notice.is_some_and(|notice| notice.kind == NoticeKind::Recovered);
        if NoticeKind::of_end(state).is_some() {
            ailing.insert(task, at);
            ever.insert(task);
        } else if state == JobState::Succeeded {
            let is_known = ailing.get(&task).is_some_and(|since| {
                let since = healed_at.map_or(Timestamp::MAX, |healed| healed.max(*since));
                at.since(since) > KNOWN_AFTER && at > since
            });
            if has_notice && !ever.contains(&task) && !is_late_result {
                found.push((Some(job), "its notice says that its task recovered, which never failed".to_owned()));
            }
            // One that was decided about before may come to the store after it.
            let failed_at = ailing.get(&task).copied().unwrap_or_default();
            let is_reported = recoveries.range((task, failed_at)..=(task, at)).next().is_some();
            if is_known && !has_notice && !is_reported {
                found.push((Some(job), "its task recovered and has no notice of that".to_owned()));
            }
            ailing.remove(&task);
        }
    }
    found
}

/// What a notice says to have started late did.
pub(super) fn a_notice_of_lateness_is_true(history: &History) -> Found {
    let Some(stored) = stored(history) else { return Vec::new() };
    let mut started: BTreeMap<JobId, Vec<Timestamp>> = BTreeMap::new();
    // Their notices are written when an attempt has run.
    let mut given_back: BTreeSet<JobId> = BTreeSet::new();
    for (_, fact) in history.iter() {
        let Fact::Committed { batch, void } = fact else { continue };
        for write in batch.writes.iter().filter(|write| !is_void(write, void)) {
            match write {
                Write::Job(JobWrite::Start(start)) => started.entry(start.key.id).or_default().push(start.started_at),
                Write::Job(JobWrite::Requeue(again))
                    if again.give_backs.as_ref().is_some_and(|all| all.last.is_some()) =>
                {
                    given_back.insert(again.key.id);
                }
                _ => {}
            }
        }
    }
    let late = stored.notices.iter().filter(|notice| notice.kind == NoticeKind::Late);
    let is_true = |notice: &&Notice| {
        let Some(starts) = notice.job.and_then(|job| started.get(&job)) else { return false };
        let may_be_later = notice.job.is_some_and(|job| given_back.contains(&job));
        let fits = |start: &Timestamp| *start == notice.at || (may_be_later && *start < notice.at);
        starts.iter().any(fits) && notice.lateness > Some(Span::ZERO)
    };
    late.filter(|notice| !is_true(notice)).map(|notice| (notice.job, format!("{notice:?}"))).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use punctual_core::JobState;
    use punctual_core::attempt::Ending;
    use punctual_core::notice::{Notice, NoticeKind};

    use super::super::history_builder::HistoryBuilder;
    use crate::history::Fact;

    fn with_notices(builder: HistoryBuilder, kinds: &[NoticeKind]) -> HistoryBuilder {
        let (id, at) = (builder.id(), builder.now());
        let notices = kinds.iter().map(|kind| Notice::of_job(*kind, id, None, None, at)).collect();
        builder.fact(Fact::Notices { notices, quiet: BTreeSet::new() })
    }

    fn failed() -> HistoryBuilder {
        let builder = HistoryBuilder::new(|_| {}).start(1).begin(1).end(1, super::super::history_builder::failed());
        builder.settle(JobState::Failed, Some((1, Ending::Failed)))
    }

    #[test]
    fn a_failure_is_told_once_and_by_its_name() {
        const NAME: &str = "every failure has one notice";
        let breaks = |kinds: &[NoticeKind]| with_notices(failed(), kinds).breaks(NAME);
        with_notices(failed(), &[NoticeKind::Failed]).does_not_break(NAME);
        breaks(&[]);
        breaks(&[NoticeKind::Failed, NoticeKind::Failed]);
        breaks(&[NoticeKind::Lost]);
        with_notices(HistoryBuilder::new(|_| {}).succeed(1), &[NoticeKind::Failed]).breaks(NAME);
    }

    #[test]
    fn a_recovery_comes_after_a_failure() {
        const NAME: &str = "every recovery has a notice";
        let well = |builder: HistoryBuilder| builder.with_notice(NoticeKind::Recovered).succeed(2);
        with_notices(well(HistoryBuilder::new(|_| {})), &[NoticeKind::Recovered]).breaks(NAME);
        with_notices(HistoryBuilder::new(|_| {}).succeed(1), &[]).does_not_break(NAME);
        let again = || failed().fact(Fact::Healed).pass(punctual_core::Span::from_secs(60)).rerun();
        with_notices(again().succeed(2), &[NoticeKind::Failed]).breaks(NAME);
        with_notices(well(again()), &[NoticeKind::Failed, NoticeKind::Recovered]).does_not_break(NAME);
    }

    #[test]
    fn what_did_not_start_was_not_late() {
        with_notices(HistoryBuilder::new(|_| {}).succeed(1), &[NoticeKind::Late])
            .breaks("a notice of lateness is true");
    }
}
