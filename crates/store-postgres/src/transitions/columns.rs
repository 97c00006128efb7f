//! Turns the writes of a batch into statements, each for many rows.
//!
//! A statement sees what those before it did, but the rows of one statement do not see each
//! other. So writes are cut into runs in which no job appears twice: within a run their order
//! does not matter, and runs follow each other.

use std::collections::HashSet;

use punctual_core::attempt::{AttemptRecord, Ending};
use punctual_core::shard::write::{CancelMark, JobWrite, Requeue, Rerun, ResolveLost, Settle};
use punctual_core::{AttemptNo, JobId, JobKey, JobState, Timestamp};
use punctual_store::{TASK_USE_STEP, codes};

use super::named::{Named, Unfit};
use super::settle;
use crate::codec::{self, Uuid, attempt_number, shard_number};
use crate::nodes::Numbers;
use crate::pipeline::{Blob, Param, column};
use crate::sql;
use crate::trouble::Trouble;

/// A write and its place in the batch.
pub(super) type Placed<'b> = (usize, &'b JobWrite);

#[derive(Default)]
pub(super) struct Run<'b> {
    pub(super) writes: Vec<Placed<'b>>,
}

pub(super) fn runs<'b>(writes: impl Iterator<Item = Placed<'b>>) -> Vec<Run<'b>> {
    let mut runs = vec![Run::default()];
    let mut seen = HashSet::with_capacity(writes.size_hint().1.unwrap_or_default());
    for (place, write) in writes {
        if let Some(job) = write.job()
            && !seen.insert(job)
        {
            seen.clear();
            seen.insert(job);
            runs.push(Run::default());
        }
        runs.last_mut().expect("there is always one").writes.push((place, write));
    }
    runs
}

/// One statement. Those whose answer names something leave out, without an error, what does not fit.
pub(super) struct Statement {
    pub(super) text: &'static str,
    pub(super) params: Vec<Param>,
    pub(super) named: Named,
}

impl Statement {
    pub(super) fn new(text: &'static str, params: Vec<Param>) -> Self {
        Self { text, params, named: Named::Nothing }
    }
}

impl Run<'_> {
    /// An error if a write cannot be made at all.
    pub(super) fn statements(&self, nodes: &Numbers, unfit: Unfit) -> Result<Vec<Statement>, Trouble> {
        let mut wanted = Vec::new();
        self.check_starts(&mut wanted);
        self.settle(nodes, &mut wanted)?;
        self.requeue(&mut wanted);
        self.rerun(unfit, &mut wanted);
        self.request_cancel(&mut wanted);
        self.resolve_lost(unfit, &mut wanted)?;
        self.keep_stale(&mut wanted);
        self.close_starts(&mut wanted);
        Ok(wanted)
    }

    fn pick<T>(&self, pick: impl Fn(&JobWrite) -> Option<T>) -> Vec<T> {
        self.writes.iter().filter_map(|(_, write)| pick(write)).collect()
    }

    fn check_starts(&self, wanted: &mut Vec<Statement>) {
        let expected: Vec<(JobKey, AttemptNo)> = self.pick(|write| match write {
            JobWrite::Start(_) => write.expects_waiting(),
            _ => None,
        });
        if !expected.is_empty() {
            wanted.push(Statement::new(sql!("check_waiting"), expectations(&expected)));
        }
    }

    fn settle(&self, nodes: &Numbers, wanted: &mut Vec<Statement>) -> Result<(), Trouble> {
        let settles: Vec<&Settle> = self
            .writes
            .iter()
            .filter_map(|(_, write)| if let JobWrite::Settle(settle) = write { Some(settle) } else { None })
            .collect();
        settle::statements(&settles, nodes, wanted)?;
        let cancelled = settles.iter().filter(|settle| settle.cancel == CancelMark::Recorded);
        forget_cancels(cancelled.map(|settle| settle.key.id), wanted);
        Ok(())
    }

    fn requeue(&self, wanted: &mut Vec<Statement>) {
        let requeues: Vec<&Requeue> = self
            .writes
            .iter()
            .filter_map(|(_, write)| if let JobWrite::Requeue(requeue) = write { Some(requeue) } else { None })
            .collect();
        if requeues.is_empty() {
            return;
        }
        let keys: Vec<JobKey> = requeues.iter().map(|requeue| requeue.key).collect();
        let mut params = places(&keys);
        params.extend([
            column(requeues.iter().map(|again| attempt_number(expected(&again.attempt, again.counters.next_attempt)))),
            column(requeues.iter().map(|again| again.due_at.as_micros())),
            column(requeues.iter().map(|again| is_moved(again.key.id, again.due_at))),
            column(requeues.iter().map(|again| attempt_number(again.counters.next_attempt))),
            column(requeues.iter().map(|again| again.counters.failures as i16)),
            column(requeues.iter().map(|again| again.counters.node_failures as i16)),
            column(requeues.iter().map(|again| codec::give_backs_text(again.give_backs.as_deref()))),
            column(requeues.iter().map(|again| codec::late_from(again.give_backs.as_deref()))),
        ] as [Param; 8]);
        wanted.push(Statement::new(sql!("requeue"), params));
        let ran: Vec<(JobKey, &AttemptRecord)> =
            requeues.iter().filter_map(|again| Some((again.key, again.attempt.as_ref()?))).collect();
        if !ran.is_empty() {
            wanted.push(Statement::new(sql!("insert_attempts"), attempts(&ran)));
        }
        let cancelled = requeues.iter().filter(|again| again.cancel == CancelMark::Recorded);
        forget_cancels(cancelled.map(|again| again.key.id), wanted);
        use_tasks(requeues.iter().map(|again| JobKey { due_at: again.due_at, id: again.key.id }), wanted);
    }

    fn rerun(&self, unfit: Unfit, wanted: &mut Vec<Statement>) {
        let reruns: Vec<(usize, Rerun)> = self
            .writes
            .iter()
            .filter_map(|(place, write)| if let JobWrite::Rerun(rerun) = write { Some((*place, *rerun)) } else { None })
            .collect();
        if reruns.is_empty() {
            return;
        }
        let each = || reruns.iter().map(|(_, rerun)| rerun);
        let params: Vec<Param> = vec![
            column(each().map(|rerun| Uuid::from(rerun.id))),
            column(each().map(|rerun| shard_number(rerun.id.shard()))),
            column(each().map(|rerun| rerun.due_at.as_micros())),
            column(each().map(|rerun| is_moved(rerun.id, rerun.due_at))),
            column(each().map(|rerun| attempt_number(rerun.counters.next_attempt))),
            column(each().map(|rerun| rerun.counters.failures as i16)),
            column(each().map(|rerun| rerun.counters.node_failures as i16)),
            Box::new(unfit == Unfit::Refuse),
        ];
        let named = Named::Jobs(reruns.iter().map(|(place, rerun)| (*place, rerun.id)).collect());
        wanted.push(Statement { text: sql!("rerun"), params, named });
        use_tasks(each().map(|rerun| JobKey { due_at: rerun.due_at, id: rerun.id }), wanted);
    }

    fn request_cancel(&self, wanted: &mut Vec<Statement>) {
        let keys: Vec<JobKey> =
            self.pick(|write| if let JobWrite::RequestCancel { key } = write { Some(*key) } else { None });
        if !keys.is_empty() {
            wanted.push(Statement::new(sql!("request_cancel"), places(&keys)));
        }
    }

    fn resolve_lost(&self, unfit: Unfit, wanted: &mut Vec<Statement>) -> Result<(), Trouble> {
        let resolves: Vec<(usize, &ResolveLost)> = self
            .writes
            .iter()
            .filter_map(
                |(place, write)| {
                    if let JobWrite::ResolveLost(resolve) = write { Some((*place, resolve)) } else { None }
                },
            )
            .collect();
        if resolves.is_empty() {
            return Ok(());
        }
        let each = || resolves.iter().map(|(_, resolve)| *resolve);
        let endings = each().map(late_ending).collect::<Result<Vec<_>, _>>()?;
        let params: Vec<Param> = vec![
            column(each().map(|late| Uuid::from(late.id))),
            column(each().map(|late| attempt_number(late.attempt))),
            column(endings.iter().map(|(state, _)| *state)),
            column(endings.iter().map(|(_, ending)| *ending)),
            column(each().map(|late| late.finished_at.as_micros())),
            column(each().map(|late| is_early(late.id, late.finished_at))),
            column(each().map(|late| late.reason.as_deref().map(codec::text))),
            column(each().map(|late| late.output.clone().map(Blob))),
            column(each().map(|late| codec::details_text(late.details.as_deref()))),
            Box::new(unfit == Unfit::Refuse),
        ];
        let named = Named::Jobs(resolves.iter().map(|(place, resolve)| (*place, resolve.id)).collect());
        wanted.push(Statement { text: sql!("resolve_lost"), params, named });
        Ok(())
    }

    fn keep_stale(&self, wanted: &mut Vec<Statement>) {
        let stale: Vec<_> = self
            .writes
            .iter()
            .filter_map(|(_, write)| if let JobWrite::Stale(stale) = write { Some(stale) } else { None })
            .collect();
        if stale.is_empty() {
            return;
        }
        let params: Vec<Param> = vec![
            column(stale.iter().map(|stale| Uuid::from(stale.id))),
            column(stale.iter().map(|stale| Uuid::from(stale.worker))),
            column(stale.iter().map(|stale| stale.at.as_micros())),
            column(stale.iter().map(|stale| attempt_number(stale.attempt))),
            column(stale.iter().map(|stale| codec::text(&stale.outcome))),
        ];
        wanted.push(Statement::new(sql!("keep_stale_outcomes"), params));
    }

    fn close_starts(&self, wanted: &mut Vec<Statement>) {
        let closed = self.pick(|write| if let JobWrite::CloseStarts(starts) = write { Some(*starts) } else { None });
        if closed.is_empty() {
            return;
        }
        let params: Vec<Param> = vec![
            column(closed.iter().map(|starts| shard_number(starts.shard))),
            column(closed.iter().map(|starts| starts.epoch.0 as i64)),
            column(closed.iter().map(|starts| starts.seq.0 as i64)),
        ];
        wanted.push(Statement::new(sql!("close_starts"), params));
    }
}

/// The number that the job's row must have: of the attempt that ended, or of the next one.
pub(super) fn expected(ran: &Option<AttemptRecord>, next: AttemptNo) -> AttemptNo {
    ran.as_ref().map_or(next, |ran| ran.attempt)
}

pub(super) fn places(keys: &[JobKey]) -> Vec<Param> {
    vec![
        column(keys.iter().map(|key| shard_number(key.shard()))),
        column(keys.iter().map(|key| key.due_at.as_micros())),
        column(keys.iter().map(|key| Uuid::from(key.id))),
    ]
}

/// The parameters of `check_waiting` and `waiting`.
pub(super) fn expectations(expected: &[(JobKey, AttemptNo)]) -> Vec<Param> {
    let keys: Vec<JobKey> = expected.iter().map(|(key, _)| *key).collect();
    let mut params = places(&keys);
    params.push(column(expected.iter().map(|(_, attempt)| attempt_number(*attempt))));
    params
}

fn attempts(ran: &[(JobKey, &AttemptRecord)]) -> Vec<Param> {
    vec![
        column(ran.iter().map(|(key, _)| Uuid::from(key.id))),
        column(ran.iter().map(|(_, ran)| Uuid::from(ran.worker))),
        column(ran.iter().map(|(_, ran)| Uuid::from(ran.server))),
        column(ran.iter().map(|(_, ran)| ran.picked_up_at.as_micros())),
        column(ran.iter().map(|(_, ran)| ran.started_at.as_micros())),
        column(ran.iter().map(|(_, ran)| ran.finished_at.as_micros())),
        column(ran.iter().map(|(_, ran)| attempt_number(ran.attempt))),
        column(ran.iter().map(|(_, ran)| codes::ending_code(ran.ending))),
        column(ran.iter().map(|(_, ran)| ran.reason.as_deref().map(codec::text))),
        column(ran.iter().map(|(_, ran)| codec::details_text(ran.details.as_deref()))),
        column(ran.iter().map(|(key, _)| is_moved(key.id, key.due_at).then(|| key.due_at.as_micros()))),
    ]
}

fn forget_cancels(jobs: impl Iterator<Item = JobId>, wanted: &mut Vec<Statement>) {
    let jobs: Vec<Uuid> = jobs.map(Uuid::from).collect();
    if !jobs.is_empty() {
        wanted.push(Statement::new(sql!("forget_cancel_requests"), vec![Box::new(jobs)]));
    }
}

/// Retention looks for jobs that need a task up to a step after what the task remembers.
fn use_tasks(moved: impl Iterator<Item = JobKey>, wanted: &mut Vec<Statement>) {
    let far: Vec<JobKey> = moved.filter(|key| key.due_at > key.id.due_at() + TASK_USE_STEP).collect();
    if !far.is_empty() {
        let mut params = places(&far);
        params.push(Box::new(TASK_USE_STEP.as_micros()));
        wanted.push(Statement::new(sql!("use_tasks_of_jobs"), params));
    }
}

/// The codes of the state and the ending that a late result gives to a job.
fn late_ending(resolve: &ResolveLost) -> Result<(i16, i16), Trouble> {
    let ending = match resolve.state {
        JobState::Succeeded => Ending::Succeeded,
        JobState::Failed => Ending::Failed,
        JobState::Cancelled => Ending::Cancelled,
        state @ (JobState::Scheduled
        | JobState::Running
        | JobState::Lost
        | JobState::Quarantined
        | JobState::Deleted) => {
            return Err(Trouble::inconsistent(format!("a late result cannot make {} {state}", resolve.id)));
        }
    };
    let state = codes::state_code(resolve.state).expect("those above are final");
    Ok((state, codes::ending_code(ending)))
}

/// Such a row is not where the job's id says, and is found through `job_moved`.
pub(super) fn is_moved(id: JobId, due_at: Timestamp) -> bool {
    due_at != id.due_at()
}

/// Retention goes by id, that is by first due time, and would miss these for long.
pub(super) fn is_early(id: JobId, finished_at: Timestamp) -> bool {
    finished_at < id.due_at()
}
