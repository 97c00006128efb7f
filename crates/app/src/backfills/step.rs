//! One step of a backfill: what ended is noted, and the next jobs are made, as many as may run.
//!
//! A step is one transaction with a version. Whatever a crash leaves undone, the next step finds as it was.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use punctual_core::schedule::{By, ScheduleRow, Source, SourceKind};
use punctual_core::task::Task;
use punctual_core::{JobId, JobState, Span, Timestamp};
use punctual_store::{BackfillProgress, BackfillRow, BackfillState, BackfillStep, NewJob, RequesterId, Stepped};
use tokio::sync::Notify;

use super::ends::End;
use super::judge::{Call, Hold};
use super::notes;
use super::spec::{BackfillSpec, Times};
use crate::submit::near_future;
use crate::{App, Result};

/// Who ends a backfill that nobody aborted.
const OURSELVES: &str = "scheduler";

/// Jobs of one step: a larger transaction would hold up everybody behind it.
const JOBS_MAX: usize = 1000;
/// Of their inputs, for the same reason.
const INPUT_BYTES_MAX: usize = 8 << 20;

/// Times that are looked at in one read. Where all of them have run before, the next read is larger.
const WINDOW_MIN: usize = 16;
const WINDOW_MAX: usize = 1000;
/// Reads of one step. What is passed over is then on record, and the next step goes on.
const WINDOWS_MAX: usize = 16;

/// A backfill after a step.
pub struct BackfillAdvance {
    /// Another step at once may find something to do.
    pub has_more: bool,
    pub version: u64,
    /// The jobs of the backfill that have not ended.
    pub open: Vec<JobId>,
    /// The backfill waits for something other than the end of a job.
    pub is_held: bool,
}

/// Whether an aborted backfill waits for the jobs that it has made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AbortedJobs {
    Awaited,
    /// The backfill ends, and its jobs go on.
    Left,
}

/// What comes next in a backfill.
#[derive(Default)]
struct Ahead {
    run: Vec<Timestamp>,
    passed_over: u32,
    reached: Option<Timestamp>,
    /// There are no more times.
    is_end: bool,
    held: Option<(Timestamp, Hold)>,
    /// Some were passed over because they have left the record.
    has_unknown: bool,
}

/// What its jobs are made of.
struct Making {
    schedule: ScheduleRow,
    task: Arc<Task>,
    times: Times,
}

impl App {
    /// Notified when somebody makes or aborts a backfill at this server.
    pub fn backfill_requests(&self) -> Arc<Notify> {
        Arc::clone(&self.0.backfill_requested)
    }

    /// Makes one step of a backfill. Planned times up to `decided_until` have their verdicts.
    pub async fn advance_backfill(
        &self,
        row: BackfillRow,
        decided_until: Timestamp,
        aborted_jobs: AbortedJobs,
    ) -> Result<BackfillAdvance> {
        let runs = self.0.store.open_runs(row.id, JOBS_MAX).await?;
        let jobs: Vec<JobId> = runs.iter().map(|run| run.job).collect();
        let ends = self.ends_of(&jobs).await?;
        let mut progress = row.progress.clone();
        let (mut open, mut ended) = (Vec::new(), Vec::new());
        for run in runs {
            match ends.get(&run.job) {
                Some(End::Ended(state)) => {
                    count(&mut progress, *state);
                    ended.push((run.at, *state));
                }
                // Retention let go of it before anybody looked: how it ended is not known, so it counts as nothing.
                Some(End::Gone) => ended.push((run.at, JobState::Deleted)),
                Some(End::Open) | None => open.push(run.job),
            }
        }
        let seen = progress.succeeded + progress.failed + progress.cancelled;
        let gone = progress.made.saturating_sub(seen).saturating_sub(u32::try_from(open.len()).unwrap_or(u32::MAX));
        let (mut made, mut is_end) = (Vec::new(), false);
        let mut is_held = false;
        let (mut making, mut admitted) = (None, None);
        let former = row.progress.note.as_deref();
        progress.note = notes::with_gone(former, gone);
        if progress.ended.is_none() {
            let spec = BackfillSpec::read(&row)?;
            match self.making(&row, &spec).await? {
                Ok(found) => {
                    let wanted = (spec.max_active as usize).saturating_sub(open.len());
                    let may_store = self.admit_some(row.namespace, wanted).await?;
                    let room = may_store.count;
                    let ahead = self.look_ahead(&row, &spec, &found, decided_until, room).await?;
                    let requester = self.requester_named(&row.created).await?;
                    made = self.new_jobs(&row, &found, requester, &ahead.run);
                    progress.reached = ahead.reached.or(progress.reached);
                    progress.made += u32::try_from(made.len()).unwrap_or(u32::MAX);
                    progress.passed_over += ahead.passed_over;
                    let mut held = ahead.held.map(|(at, hold)| notes::held(at, hold, &spec));
                    let is_full = room == 0 && wanted > 0 && !ahead.is_end;
                    if is_full {
                        held = Some(format!("it waits: {}", self.waits_for_room(row.namespace).await?));
                    }
                    let note = notes::on_the_way(former, held, ahead.has_unknown);
                    progress.note = notes::with_gone(note.as_deref(), gone);
                    (is_end, is_held) = (ahead.is_end, ahead.held.is_some() || is_full);
                    admitted = Some(may_store);
                    making = Some(found);
                }
                Err(reason) => {
                    progress.ended = Some(self.by_ourselves());
                    progress.note = notes::with_gone(Some(&reason), gone);
                }
            }
        }
        open.extend(made.iter().map(|(_, job)| job.id));
        if open.is_empty() {
            end(&mut progress, is_end, || self.by_ourselves());
        } else if aborted_jobs == AbortedJobs::Left {
            progress.state = BackfillState::Aborted;
            progress.note = notes::with_left(progress.note.as_deref(), open.len());
        }
        if made.is_empty() && ended.is_empty() && progress == row.progress {
            return Ok(BackfillAdvance { has_more: false, version: row.version, open, is_held });
        }
        let jobs: Vec<NewJob> = made.iter().map(|(_, job)| job.clone()).collect();
        let step = BackfillStep { id: row.id, version: row.version, progress, made, ended };
        match self.0.store.step_backfill(step).await? {
            Stepped::Done => {}
            // Somebody aborted it, or took the shard over.
            Stepped::Conflict => {
                return Ok(BackfillAdvance { has_more: true, version: row.version, open: Vec::new(), is_held: false });
            }
        }
        if let Some(admitted) = admitted {
            admitted.stored(jobs.len());
        }
        if let Some(making) = making.filter(|_| !jobs.is_empty()) {
            self.0.submitted.fetch_add(jobs.len() as u64, Ordering::Relaxed);
            let tasks = vec![making.task; jobs.len()];
            self.tell_owners(near_future(&jobs, &tasks, self.now()));
        }
        Ok(BackfillAdvance { has_more: true, version: row.version + 1, open, is_held })
    }

    /// The inner error says why no more jobs can be made.
    async fn making(&self, row: &BackfillRow, spec: &BackfillSpec) -> Result<std::result::Result<Making, String>> {
        let Some(schedule) = self.0.store.schedule(row.schedule).await? else {
            return Ok(Err("the schedule was deleted".to_owned()));
        };
        let times = match self.times_of(spec, row.namespace, &row.schedule_name).await? {
            Ok(times) => times,
            Err(error) => return Ok(Err(format!("its times are not known any more: {error}"))),
        };
        let task = self.tasks_by_id(std::iter::once(schedule.edit.task)).await?.remove(&schedule.edit.task);
        Ok(match task {
            Some(task) => Ok(Making { schedule, task, times }),
            None => Err("the schedule's task cannot be read".to_owned()),
        })
    }

    /// Looks for times to run, as many as there is room for.
    async fn look_ahead(
        &self,
        row: &BackfillRow,
        spec: &BackfillSpec,
        making: &Making,
        decided_until: Timestamp,
        room: usize,
    ) -> Result<Ahead> {
        let input_bytes = making.schedule.edit.input.as_ref().map_or(0, |input| input.len());
        let room = room.min(JOBS_MAX).min((INPUT_BYTES_MAX / input_bytes.max(1)).max(1));
        let mut ahead = Ahead { reached: row.progress.reached, ..Ahead::default() };
        let mut window = room.clamp(WINDOW_MIN, WINDOW_MAX);
        for _ in 0..WINDOWS_MAX {
            let is_full = ahead.run.len() == room;
            let times: Vec<_> = making.times.after(ahead.reached).take(if is_full { 1 } else { window }).collect();
            ahead.is_end = times.is_empty();
            if is_full || ahead.is_end {
                break;
            }
            let calls = self.judge(&making.schedule, Some(row.id), spec, decided_until, &times).await?;
            for (time, call) in times.iter().zip(&calls) {
                match *call {
                    Call::PassOver => ahead.passed_over += 1,
                    Call::Unknown => {
                        ahead.passed_over += 1;
                        ahead.has_unknown = true;
                    }
                    Call::Run if ahead.run.len() < room => ahead.run.push(time.at),
                    Call::Run => return Ok(ahead),
                    Call::Wait(hold) => {
                        ahead.held = Some((time.at, hold));
                        return Ok(ahead);
                    }
                }
                ahead.reached = Some(time.at);
            }
            // Where there is much on record about them, fewer are looked at together.
            let is_much = calls.len() < times.len();
            window = if is_much { calls.len().max(WINDOW_MIN) } else { (window * 4).min(WINDOW_MAX) };
        }
        Ok(ahead)
    }

    fn new_jobs(
        &self,
        row: &BackfillRow,
        making: &Making,
        requester: RequesterId,
        times: &[Timestamp],
    ) -> Vec<(Timestamp, NewJob)> {
        let Making { schedule, task, .. } = making;
        let now = self.now();
        let new = |(place, at): (usize, &Timestamp)| {
            // One after the other, so that they are started in the order of their times.
            let due_at = now + Span::from_micros(place as i64);
            let source = Source { schedule: row.schedule, at: *at, kind: SourceKind::Backfill, is_tracked: false };
            let job = NewJob {
                id: JobId::new(due_at, row.schedule.shard(), self.random()),
                namespace: task.namespace,
                task: task.id,
                priority: schedule.edit.priority.unwrap_or(task.spec.priority),
                submitted_at: now,
                // So that whoever runs it knows which time it stands for.
                tracing_id: Some(format!("{}/{at}", row.id)),
                source: Some(source),
                requester: Some(requester),
                node: None,
                member: None,
                input: schedule.edit.input.clone(),
            };
            (*at, job)
        };
        times.iter().enumerate().map(new).collect()
    }

    fn by_ourselves(&self) -> By {
        By { at: self.now(), who: OURSELVES.to_owned() }
    }
}

pub(super) fn count(progress: &mut BackfillProgress, state: JobState) {
    match state {
        JobState::Succeeded => progress.succeeded += 1,
        JobState::Failed | JobState::Lost | JobState::Quarantined => progress.failed += 1,
        JobState::Cancelled | JobState::Deleted => progress.cancelled += 1,
        JobState::Scheduled | JobState::Running => {}
    }
}

/// With no job open: it has ended if it was aborted, or has no more times.
fn end(progress: &mut BackfillProgress, is_end: bool, ourselves: impl Fn() -> By) {
    if progress.ended.is_some() {
        progress.state = BackfillState::Aborted;
    } else if is_end {
        progress.state = BackfillState::Done;
        progress.ended = Some(ourselves());
        // A calendar may have changed meanwhile.
        progress.total = progress.made + progress.passed_over;
    }
}
