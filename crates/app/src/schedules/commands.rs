//! What people do to a schedule: pause, resume, skip, run and delete it, and clear its queue.

use punctual_api::{
    NoteRequest, QueueCleared, RunAnswer, RunOutcome, RunRequest, ScheduleView, SkipAnswer, SkipRequest, limits,
};
use punctual_core::namespace::NamespaceId;
use punctual_core::schedule::{
    Marks, OccurrenceRow, Plan, ScheduleCommand, ScheduleReply, ScheduleRow, Verdict, seed_of,
};
use punctual_core::{JobId, ScheduleId, Timestamp};
use punctual_store::{OccurrenceFilter, Order};

use crate::principal::By;
use crate::principal::permission::{ControlSchedules, EditSchedules};
use crate::route::Patience;
use crate::schedules::create::WHAT;
use crate::schedules::view::planned_start;
use crate::schedules::{not_found, refused, zone};
use crate::{App, AppError, Precondition, Result, cut, validate};

/// Occurrences that are looked at for one that somebody asked for a moment ago.
const LOOK_AT_MAX: usize = 100;

impl App {
    /// Its occurrences and their jobs stay.
    pub async fn delete_schedule(&self, by: &By<EditSchedules>, name: &str, when: Precondition) -> Result<()> {
        let who = by.who();
        let id = self.find_schedule(by.namespace(), name).await?;
        let command = match when.revision() {
            Some(revision) => ScheduleCommand::DeleteRevision { revision },
            None => ScheduleCommand::Delete,
        };
        let decided = self.decide_schedule(id, command, who).await?;
        match decided.reply {
            ScheduleReply::Done { .. } => Ok(()),
            // An earlier try did it, and its answer was lost.
            ScheduleReply::NotFound if decided.is_repeated => Ok(()),
            ScheduleReply::Conflict { revision } => Err(when.refusal(WHAT, name, Some(revision))),
            reply => Err(failed(name, reply)),
        }
    }

    pub async fn pause_schedule(
        &self,
        by: &By<ControlSchedules>,
        name: &str,
        request: NoteRequest,
    ) -> Result<ScheduleView> {
        let who = by.who();
        let note = check_note(request)?;
        Ok(cut::schedule(by, self.set_schedule(by.namespace(), name, ScheduleCommand::Pause { note }, who).await?))
    }

    pub async fn resume_schedule(
        &self,
        by: &By<ControlSchedules>,
        name: &str,
        request: NoteRequest,
    ) -> Result<ScheduleView> {
        let who = by.who();
        let note = check_note(request)?;
        Ok(cut::schedule(by, self.set_schedule(by.namespace(), name, ScheduleCommand::Resume { note }, who).await?))
    }

    async fn set_schedule(
        &self,
        namespace: NamespaceId,
        name: &str,
        command: ScheduleCommand,
        who: &str,
    ) -> Result<ScheduleView> {
        let id = self.find_schedule(namespace, name).await?;
        match self.decide_schedule(id, command, who).await?.reply {
            ScheduleReply::Done { .. } => {}
            reply => return Err(failed(name, reply)),
        }
        let row = self.0.store.schedule(id).await?.ok_or_else(|| not_found(name))?;
        self.view_schedule(row).await
    }

    /// The next planned times do not fire.
    pub async fn skip_schedule(
        &self,
        by: &By<ControlSchedules>,
        name: &str,
        request: SkipRequest,
    ) -> Result<SkipAnswer> {
        let who = by.who();
        let count = request.count.unwrap_or(1);
        if !(1..=limits::SKIP_MAX).contains(&count) {
            let error = AppError::out_of_range("/count", format!("must be 1 to {}", limits::SKIP_MAX));
            return Err(error.hint("pause the schedule to stop it for longer"));
        }
        let row = self.read_schedule(by.namespace(), name).await?;
        let now = self.now();
        let until = match self.skip_once(&row, count, who).await? {
            ScheduleReply::Skipping(until) => until,
            reply => return Err(failed(name, reply)),
        };
        let calendars = self.calendars_named(row.namespace, row.edit.calendars.iter()).await?;
        let seed = seed_of(&row.name);
        let plan = Plan::read(&row.edit.spec, &calendars, seed).map_err(|error| refused(error.to_string()))?;
        let zone = zone::find(&plan.spec.when.zone);
        let from = row.state.skip_until.unwrap_or(now).max(now - plan.jitter());
        let skipped = plan.times_after(from, seed).take_while(|planned| planned.at <= until);
        let skipped = skipped.filter(|planned| planned.unfired.is_none() && planned.slot > now);
        let skipped =
            skipped.take(limits::SKIP_MAX as usize).map(|planned| planned_start(planned.at, planned.slot, &zone));
        let mut skipped: Vec<_> = skipped.collect();
        // Times that came while the owner was waited for have fired; those that it skips are the last ones.
        skipped.drain(..skipped.len().saturating_sub(count as usize));
        Ok(SkipAnswer { until, skipped })
    }

    /// Skips once, though the owner may have to be asked again.
    async fn skip_once(&self, row: &ScheduleRow, count: u32, who: &str) -> Result<ScheduleReply> {
        let mut patience = Patience::new(self, "schedule");
        loop {
            let command = ScheduleCommand::SkipNext { count };
            if let Some(reply) = self.ask_schedule_once(row.id, command, who).await? {
                return Ok(reply);
            }
            patience.wait(self).await?;
            let now = self.0.store.schedule(row.id).await?;
            let until = now.and_then(|now| now.state.skip_until);
            if let Some(until) = until.filter(|until| row.state.skip_until.is_none_or(|before| *until > before)) {
                return Ok(ScheduleReply::Skipping(until));
            }
        }
    }

    /// One run at once, beside the plan.
    pub async fn run_schedule(&self, by: &By<ControlSchedules>, name: &str, request: RunRequest) -> Result<RunAnswer> {
        let who = by.who();
        let row = self.read_schedule(by.namespace(), name).await?;
        let admitted = self.admit_jobs(by.namespace(), 1).await?;
        let answer = self.run_once(name, row.id, request, who).await?;
        admitted.stored(usize::from(answer.outcome == RunOutcome::Started));
        if answer.outcome == RunOutcome::Skipped {
            return Ok(answer);
        }
        let task = self.tasks_by_id(std::iter::once(row.edit.task)).await?.remove(&row.edit.task);
        Ok(RunAnswer { warnings: self.placement_warnings(task.iter()).await, ..answer })
    }

    /// Runs it once, though the owner may have to be asked again.
    async fn run_once(&self, name: &str, id: ScheduleId, request: RunRequest, who: &str) -> Result<RunAnswer> {
        let asked_at = self.now();
        let mut patience = Patience::new(self, "schedule");
        loop {
            let command = ScheduleCommand::RunNow { overlap: request.overlap };
            match self.ask_schedule_once(id, command, who).await? {
                Some(reply) => return run_answer(reply).map_err(|reply| failed(name, reply)),
                None => patience.wait(self).await?,
            }
            // The answer to an earlier try may have been lost, and one run was asked for.
            if let Some(answer) = self.run_since(id, asked_at).await? {
                return Ok(answer);
            }
        }
    }

    /// What became of a run that somebody asked for since.
    async fn run_since(&self, id: ScheduleId, since: Timestamp) -> Result<Option<RunAnswer>> {
        let filter = OccurrenceFilter { from: Some(since), ..OccurrenceFilter::default() };
        let (rows, _) = self.0.store.occurrences(id, filter, None, Order::Descending, LOOK_AT_MAX).await?;
        Ok(rows.into_iter().find(|row| row.marks.has(Marks::MANUAL)).map(run_on_record))
    }

    /// What waits for the run before it is skipped.
    pub async fn clear_schedule_queue(&self, by: &By<ControlSchedules>, name: &str) -> Result<QueueCleared> {
        let who = by.who();
        let id = self.find_schedule(by.namespace(), name).await?;
        match self.decide_schedule(id, ScheduleCommand::ClearQueue, who).await?.reply {
            ScheduleReply::Cleared { count } => Ok(QueueCleared { skipped: count }),
            reply => Err(failed(name, reply)),
        }
    }
}

/// What the owner decided about a run that somebody asked for; or the reply, if it is another one.
fn run_answer(reply: ScheduleReply) -> std::result::Result<RunAnswer, ScheduleReply> {
    let at = |outcome, at| RunAnswer { outcome, job: None, at: Some(at), reason: None, warnings: Vec::new() };
    Ok(match reply {
        ScheduleReply::Fired(job) => started(job),
        ScheduleReply::Queued { at: time } => at(RunOutcome::Queued, time),
        ScheduleReply::CancelsPrevious { at: time } => at(RunOutcome::CancelsPrevious, time),
        ScheduleReply::SkippedOverlap { at: time, reason } => {
            RunAnswer { reason: Some(reason), ..at(RunOutcome::Skipped, time) }
        }
        reply => return Err(reply),
    })
}

fn started(job: JobId) -> RunAnswer {
    RunAnswer { outcome: RunOutcome::Started, job: Some(job), at: None, reason: None, warnings: Vec::new() }
}

fn run_on_record(row: OccurrenceRow) -> RunAnswer {
    let outcome = match (row.verdict, row.job) {
        (_, Some(job)) => return started(job),
        (Verdict::Queued, None) if row.marks.has(Marks::CANCELS_PREVIOUS) => RunOutcome::CancelsPrevious,
        (Verdict::Queued, None) => RunOutcome::Queued,
        (_, None) => RunOutcome::Skipped,
    };
    RunAnswer { outcome, job: None, at: Some(row.at), reason: row.reason, warnings: Vec::new() }
}

fn check_note(request: NoteRequest) -> Result<Option<String>> {
    if let Some(note) = &request.note {
        validate::argument("/note", note, limits::NOTE_CHARS_MAX)?;
    }
    Ok(request.note.filter(|note| !note.is_empty()))
}

/// A reply other than the one that was hoped for.
fn failed(name: &str, reply: ScheduleReply) -> AppError {
    match reply {
        ScheduleReply::NotFound => not_found(name),
        ScheduleReply::Refused(reason) => refused(format!("{name}: {reason}")),
        ScheduleReply::Conflict { .. }
        | ScheduleReply::Done { .. }
        | ScheduleReply::Fired(_)
        | ScheduleReply::Queued { .. }
        | ScheduleReply::CancelsPrevious { .. }
        | ScheduleReply::SkippedOverlap { .. }
        | ScheduleReply::Cleared { .. }
        | ScheduleReply::Skipping(_)
        | ScheduleReply::NameTaken => AppError::out_of_place(),
    }
}
