//! Why times did not run, and that what is held does not.

use std::collections::{BTreeMap, BTreeSet};

use punctual_core::schedule::{Marks, ScheduleState, Verdict};
use punctual_core::shard::write::{Decision, JobWrite, ScheduleWrite, Write};
use punctual_core::{JobId, ScheduleId, Span, Timestamp};

use super::schedules::{Found, is_void, taken};
use crate::history::{Fact, History};

/// Times whose verdicts came before that of an earlier time of their schedule: the batch with the earlier one was
/// lost, and the next owner decided about it anew. What was decided together with it still counts on its run.
fn overtaken(history: &History) -> BTreeMap<ScheduleId, BTreeSet<Timestamp>> {
    let mut decided: BTreeMap<ScheduleId, BTreeSet<Timestamp>> = BTreeMap::new();
    let mut overtaken: BTreeMap<ScheduleId, BTreeSet<Timestamp>> = BTreeMap::new();
    for (_, write) in taken(history) {
        let Write::Schedule(ScheduleWrite::Decide(decision)) = write else { continue };
        let row = &decision.occurrence;
        let before = decided.entry(row.schedule).or_default();
        overtaken.entry(row.schedule).or_default().extend(before.range(row.at..).copied());
        before.insert(row.at);
    }
    overtaken
}

/// A time is skipped, paused or missed only where there was a reason for it.
pub(super) fn what_does_not_run_has_a_reason(history: &History) -> Found {
    /// The store may take so long to answer, and a paused server to hear it.
    const ANSWER_MAX: Span = Span::from_secs(60);
    /// Within this nothing is missed, whatever a schedule says.
    const GRACE_MIN: Span = Span::from_secs(2);
    let mut paused: BTreeMap<ScheduleId, bool> = BTreeMap::new();
    let mut active: BTreeMap<ScheduleId, BTreeSet<JobId>> = BTreeMap::new();
    let mut queued: BTreeMap<ScheduleId, BTreeSet<Timestamp>> = BTreeMap::new();
    let mut of_job: BTreeMap<JobId, ScheduleId> = BTreeMap::new();
    // An end that the owner did not know of yet, because its batch or the answer was on its way.
    let mut ended_at: BTreeMap<ScheduleId, Timestamp> = BTreeMap::new();
    // When a time that waited last gave way to a later one. A pause may have held it although nothing ran.
    let mut replaced_at: BTreeMap<ScheduleId, Timestamp> = BTreeMap::new();
    let overtaken = overtaken(history);
    let mut found = Vec::new();
    for (at, fact) in history.iter() {
        let Fact::Committed { batch, void } = fact else { continue };
        for write in batch.writes.iter().filter(|write| !is_void(write, void)) {
            match write {
                Write::Schedule(ScheduleWrite::Edit { id, state, .. } | ScheduleWrite::Set { id, state, .. }) => {
                    paused.insert(*id, state.pause.is_some());
                }
                Write::Job(JobWrite::Rerun(rerun)) if !void.jobs.contains(&rerun.id) => {
                    if let Some(id) = of_job.get(&rerun.id) {
                        active.entry(*id).or_default().insert(rerun.id);
                    }
                }
                Write::Job(JobWrite::Settle(settle)) if !void.jobs.contains(&settle.key.id) => {
                    if let Some(id) = of_job.get(&settle.key.id) {
                        active.entry(*id).or_default().remove(&settle.key.id);
                        ended_at.insert(*id, at);
                    }
                }
                Write::Schedule(ScheduleWrite::Decide(decision) | ScheduleWrite::Release(decision)) => {
                    let row = &decision.occurrence;
                    let id = row.schedule;
                    let just_ended = ended_at.get(&id).is_some_and(|ended| *ended + ANSWER_MAX >= row.decided_at);
                    let waits = queued.entry(id).or_default();
                    waits.remove(&row.at);
                    let runs = active.entry(id).or_default();
                    let is_first = matches!(write, Write::Schedule(ScheduleWrite::Decide(_)));
                    let meets = just_ended
                        || !runs.is_empty()
                        || !waits.is_empty()
                        || replaced_at.get(&id) == Some(&row.decided_at)
                        || overtaken.get(&id).is_some_and(|times| times.contains(&row.at));
                    let has_reason = match row.verdict {
                        Verdict::SkippedOverlap => !is_first || meets,
                        Verdict::SkippedPaused => paused.get(&id) == Some(&true),
                        Verdict::Missed => row.decided_at.since(row.slot) > GRACE_MIN,
                        Verdict::Queued => meets,
                        Verdict::SkippedMaxRuns => !is_first,
                        Verdict::Fired | Verdict::SkippedCalendar | Verdict::SkippedGap | Verdict::SkippedByRequest => {
                            true
                        }
                    };
                    if !has_reason {
                        found.push((None, format!("{id} has {:?} for {} without a reason", row.verdict, row.at)));
                    }
                    if row.verdict == Verdict::Queued {
                        waits.insert(row.at);
                    }
                    if row.verdict == Verdict::SkippedOverlap && !is_first {
                        replaced_at.insert(id, row.decided_at);
                    }
                    if let Some(job) = row.job {
                        of_job.insert(job, id);
                        runs.insert(job);
                    }
                }
                _ => {}
            }
        }
    }
    found
}

/// After a pause, a skip or a deletion is durable, what it is about does not fire.
pub(super) fn what_is_held_does_not_fire(history: &History) -> Found {
    let mut states: BTreeMap<ScheduleId, Option<ScheduleState>> = BTreeMap::new();
    let mut found = Vec::new();
    for (_, write) in taken(history) {
        match write {
            Write::Schedule(ScheduleWrite::Add(row)) => _ = states.insert(row.id, Some(row.state.clone())),
            Write::Schedule(ScheduleWrite::Edit { id, state, .. } | ScheduleWrite::Set { id, state, .. }) => {
                let former = states.insert(*id, Some(state.clone())).flatten();
                if former.is_some_and(|former| former.skip_until > state.skip_until) {
                    found.push((None, format!("{id} forgets which times are to be skipped")));
                }
            }
            Write::Schedule(ScheduleWrite::Drop { id, .. }) => _ = states.insert(*id, None),
            Write::Schedule(ScheduleWrite::Decide(decision)) if decision.job.is_some() => {
                let Decision { occurrence, job, .. } = &**decision;
                if occurrence.marks.has(Marks::MANUAL) {
                    continue;
                }
                let job = job.as_ref().map(|job| job.id);
                match states.get(&occurrence.schedule) {
                    Some(Some(state)) if state.pause.as_ref().is_some_and(|pause| pause.by.at < occurrence.slot) => {
                        found.push((job, "its schedule is paused".to_owned()))
                    }
                    Some(Some(state)) if state.skip_until.is_some_and(|until| occurrence.at <= until) => {
                        found.push((job, "its time is to be skipped".to_owned()));
                    }
                    Some(None) => found.push((job, "its schedule is deleted".to_owned())),
                    None => found.push((job, "its schedule is not there".to_owned())),
                    Some(Some(_)) => {}
                }
            }
            _ => {}
        }
    }
    found
}
