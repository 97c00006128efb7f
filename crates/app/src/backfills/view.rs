//! Backfills for people, and aborting them.

use futures_util::stream::{self, StreamExt};
use punctual_api::{
    AbortRequest, BackfillList, BackfillQuery, BackfillRunList, BackfillRunQuery, BackfillRunView, BackfillStanding,
    BackfillView, ErrorKind, limits,
};
use punctual_core::namespace::NamespaceId;
use punctual_core::schedule::{By, Overlap};
use punctual_core::shard::event::Command;
use punctual_core::{BackfillId, JobId};
use punctual_store::{BackfillProgress, BackfillRow, BackfillState, BackfillStep, Stepped};

use super::notes;
use super::spec::BackfillSpec;
use crate::parameters::{bad_cursor, page};
use crate::principal::permission::{ControlSchedules, ViewSchedules};
use crate::schedules::{done_by, zone};
use crate::{App, AppError, Checked, Result, cursor};

/// Steps come between a look and an abort; whoever loses so often is told.
const ROUNDS_MAX: usize = 20;
/// Jobs that are cancelled at a time.
const CANCELS_AT_ONCE: usize = 64;

impl App {
    pub async fn backfill(&self, by: &crate::By<ViewSchedules>, id: BackfillId) -> Result<BackfillView> {
        view(&self.read_backfill(by.namespace(), id).await?)
    }

    /// One of another namespace is not there.
    async fn read_backfill(&self, namespace: NamespaceId, id: BackfillId) -> Result<BackfillRow> {
        let row = self.0.store.backfill(id).await?.filter(|row| row.namespace == namespace);
        row.ok_or_else(|| not_found(id))
    }

    /// The latest first.
    pub async fn list_backfills(&self, by: &crate::By<ViewSchedules>, query: BackfillQuery) -> Result<BackfillList> {
        let (limit, before) = page(query.limit.as_deref(), query.cursor.as_deref(), read_id)?;
        let schedule = match &query.schedule {
            Some(name) => Some(self.find_schedule(by.namespace(), name).await?),
            None => None,
        };
        let rows = self.0.store.list_backfills(by.namespace(), schedule, before, limit).await?;
        let next_cursor = rows.last().filter(|_| rows.len() == limit).map(|last| last.id.to_string());
        Ok(BackfillList { backfills: rows.iter().map(view).collect::<Result<_>>()?, next_cursor })
    }

    /// In the order of their times.
    pub async fn backfill_runs(
        &self,
        by: &crate::By<ViewSchedules>,
        id: BackfillId,
        query: BackfillRunQuery,
    ) -> Result<BackfillRunList> {
        let (limit, after) = page(query.limit.as_deref(), query.cursor.as_deref(), cursor::read_time)?;
        let spec = BackfillSpec::read(&self.read_backfill(by.namespace(), id).await?)?;
        let runs = self.0.store.backfill_runs(id, after, limit).await?;
        let jobs: Vec<_> = runs.iter().map(|run| (run.job, run.state)).collect();
        let states = self.states_of(&jobs).await?;
        let zone = spec.zone();
        let next_cursor = runs.last().filter(|_| runs.len() == limit).map(|last| cursor::write_time(last.at));
        let runs = runs.into_iter().zip(states).map(|(run, state)| BackfillRunView {
            at: run.at,
            local: zone::local(run.at, &zone),
            job: run.job,
            state: state.as_str().to_owned(),
        });
        Ok(BackfillRunList { zone: spec.rules.when.zone, runs: runs.collect(), next_cursor })
    }

    /// It makes no more jobs. Whoever repeats this for the sake of the jobs may.
    pub async fn abort_backfill(
        &self,
        by: &crate::By<ControlSchedules>,
        id: BackfillId,
        request: AbortRequest,
    ) -> Result<BackfillView> {
        let who = by.who();
        self.mark_aborted(by.namespace(), id, who).await?;
        if request.cancel {
            self.cancel_runs(id).await?;
        }
        self.0.backfill_requested.notify_one();
        view(&self.read_backfill(by.namespace(), id).await?)
    }

    async fn mark_aborted(&self, namespace: NamespaceId, id: BackfillId, who: &str) -> Result<()> {
        for _ in 0..ROUNDS_MAX {
            let row = self.read_backfill(namespace, id).await?;
            match row.progress.state {
                BackfillState::Done => {
                    let error = AppError::new(ErrorKind::BackfillEnded, format!("{id} is done"));
                    return Err(error.hint("there is nothing to abort; GET /v1/backfills/{id}/runs lists its jobs"));
                }
                BackfillState::Aborted => return Ok(()),
                // It was aborted before, and waits for the end of its jobs.
                BackfillState::Running if row.progress.ended.is_some() => return Ok(()),
                BackfillState::Running => {}
            }
            // It stays among those that are running until its jobs have ended, so that this is seen.
            let state = if open_jobs(&row.progress) == 0 { BackfillState::Aborted } else { BackfillState::Running };
            let ended = Some(By { at: self.now(), who: who.to_owned() });
            let note = notes::on_the_way(row.progress.note.as_deref(), None, false);
            let progress = BackfillProgress { state, ended, note, ..row.progress };
            let step = BackfillStep { id, version: row.version, progress, made: Vec::new(), ended: Vec::new() };
            match self.0.store.step_backfill(step).await? {
                Stepped::Done => return Ok(()),
                Stepped::Conflict => {}
            }
        }
        let error = AppError::new(ErrorKind::Unavailable, format!("{id} is making progress too fast to be aborted"));
        Err(error.hint("try again"))
    }

    async fn cancel_runs(&self, id: BackfillId) -> Result<()> {
        let open = self.0.store.open_runs(id, limits::BACKFILL_ACTIVE_MAX as usize).await?;
        let mut cancels =
            stream::iter(open.into_iter().map(|run| self.cancel_run(run.job))).buffer_unordered(CANCELS_AT_ONCE);
        while let Some(cancelled) = cancels.next().await {
            cancelled?;
        }
        Ok(())
    }

    async fn cancel_run(&self, job: JobId) -> Result<()> {
        match self.command(job, Command::Cancel).await {
            Ok(_) => Ok(()),
            // It came to its end by itself.
            Err(error) => match error.kind {
                ErrorKind::JobAlreadyFinished | ErrorKind::JobDeleted | ErrorKind::JobNotFound => Ok(()),
                _ => Err(error),
            },
        }
    }
}

pub(super) fn view(row: &BackfillRow) -> Result<BackfillView> {
    let spec = BackfillSpec::read(row)?;
    let progress = &row.progress;
    let state = match (progress.state, &progress.ended) {
        (BackfillState::Running, None) => BackfillStanding::Running,
        (BackfillState::Done, _) => BackfillStanding::Done,
        (BackfillState::Aborted, _) | (BackfillState::Running, Some(_)) => BackfillStanding::Aborted,
    };
    let overlap = if spec.overlap == Overlap::Allow { "allow" } else { "queue_all" };
    Ok(BackfillView {
        id: row.id,
        schedule: row.schedule_name.clone(),
        schedule_id: row.schedule,
        from: spec.from,
        to: spec.to,
        overlap: overlap.to_owned(),
        max_active: spec.max_active,
        include: spec.include,
        unknown: spec.unknown,
        state,
        // A calendar may have changed meanwhile.
        total: progress.total.max(progress.made.saturating_add(progress.passed_over)),
        made: progress.made,
        passed_over: progress.passed_over,
        running: running(progress, spec.max_active),
        succeeded: progress.succeeded,
        failed: progress.failed,
        cancelled: progress.cancelled,
        remaining: progress.total.saturating_sub(progress.made).saturating_sub(progress.passed_over),
        reached: progress.reached,
        created: done_by(row.created.clone()),
        ended: progress.ended.clone().map(done_by),
        note: progress.note.clone(),
    })
}

/// Some may be gone without a trace. They count as nothing, and room is made for others when that is seen.
fn running(progress: &BackfillProgress, max_active: u32) -> u32 {
    match progress.state {
        BackfillState::Running => open_jobs(progress).min(max_active),
        BackfillState::Done | BackfillState::Aborted => 0,
    }
}

fn open_jobs(progress: &BackfillProgress) -> u32 {
    let ended = progress.succeeded + progress.failed + progress.cancelled;
    progress.made.saturating_sub(ended)
}

fn not_found(id: BackfillId) -> AppError {
    AppError::new(ErrorKind::BackfillNotFound, format!("there is no backfill {id}"))
        .hint("GET /v1/backfills lists them; those that ended are removed when their retention is over")
}

fn read_id(text: &str) -> Result<BackfillId> {
    text.parse().map_err(|_| bad_cursor())
}

impl Checked for BackfillQuery {
    fn check(&self) -> Result<()> {
        page(self.limit.as_deref(), self.cursor.as_deref(), read_id).map(drop)
    }
}

impl Checked for BackfillRunQuery {
    fn check(&self) -> Result<()> {
        page(self.limit.as_deref(), self.cursor.as_deref(), cursor::read_time).map(drop)
    }
}
