use std::collections::{BTreeMap, BTreeSet};

use punctual_core::attempt::{AttemptRecord, Ending};
use punctual_core::shard::write::{Batch, CancelMark, JobWrite, Requeue, Rerun, ResolveLost, Settle, Start, Void};
use punctual_core::{AttemptNo, BatchId, JobId, JobKey, JobState, ShardId, WorkerId};
use punctual_store::{Applied, RerunRecord, Result, RunSteps};

use super::{Finished, Hot, ModelStore, State, inconsistent};

/// Outcomes of one attempt that came too late.
const STALE_MAX: usize = 8;

impl ModelStore {
    pub fn apply_now(&self, batch: &Batch) -> Result<Applied> {
        let mut state = self.state();
        let fenced: Vec<_> = batch
            .fences
            .iter()
            .filter(|(shard, epoch)| state.shards.get(shard).map(|row| row.epoch) != Some(*epoch))
            .map(|(shard, _)| *shard)
            .collect();
        if !fenced.is_empty() {
            return Ok(Applied::Fenced(fenced));
        }
        if let Some(write) = batch.writes.iter().find(|write| batch.epoch_of(write.shard()).is_none()) {
            return Err(inconsistent(format!("the batch touches shard {} without its fence", write.shard())));
        }
        let (void, steps) = state.all_or_nothing(|state| state.apply(batch))?;
        Ok(Applied::Done { void, steps })
    }
}

impl State {
    fn apply(&mut self, batch: &Batch) -> Result<(Void, RunSteps)> {
        let mut started: BTreeMap<ShardId, Vec<Start>> = BTreeMap::new();
        let mut void = Void::default();
        self.apply_to_schedules(batch, &mut void)?;
        let void_gangs = self.void_gangs(batch);
        for (_, write) in batch.job_writes() {
            if let JobWrite::Start(Start { key, gang: Some(gang), .. }) = write
                && void_gangs.contains(gang)
            {
                void.jobs.push(key.id);
                continue;
            }
            if let Some((key, attempt)) = write.expects_waiting()
                && self.expect(key, Some(attempt)).is_err()
            {
                void.jobs.push(key.id);
                continue;
            }
            match write {
                JobWrite::Start(start) => started.entry(start.key.shard()).or_default().push(*start),
                JobWrite::Settle(settle) => self.settle(settle)?,
                JobWrite::Requeue(requeue) => self.requeue(requeue)?,
                JobWrite::Rerun(rerun) => match self.finished.take(&rerun.id) {
                    Some(finished) => self.rerun(rerun, finished)?,
                    None => void.jobs.push(rerun.id),
                },
                JobWrite::RequestCancel { key } => {
                    self.expect(*key, None)?;
                    self.cancel_requests.put(key.id, ());
                }
                JobWrite::ResolveLost(resolve) => void.jobs.extend(self.resolve_lost(resolve)?),
                JobWrite::Stale(stale) => {
                    let key = (stale.id, stale.attempt, stale.worker);
                    let first = (stale.id, stale.attempt, WorkerId::UNKNOWN);
                    let of_attempt = |job: JobId, attempt: AttemptNo| (job, attempt) == (stale.id, stale.attempt);
                    let kept = self.stale.range(first..).take_while(|((job, no, _), _)| of_attempt(*job, *no));
                    if kept.count() < STALE_MAX && !self.stale.has(&key) {
                        self.stale.put(key, (stale.at, stale.outcome.clone()));
                    }
                }
                JobWrite::CloseStarts(starts) => drop(self.starts.take(starts)),
            }
        }
        let mut steps = self.step_runs(batch, &void)?;
        steps.batches = self.step_batches(batch, &void);
        self.keep_notices(batch.notices(&void));
        for (shard, starts) in started {
            let name = batch.starts_id(shard);
            if self.starts.has(&name) {
                return Err(inconsistent(format!("{name:?} is there already")));
            }
            self.starts.put(name, (batch.server, starts));
        }
        Ok((void, steps))
    }

    /// Gangs of which a member is not as its start expects.
    fn void_gangs(&self, batch: &Batch) -> BTreeSet<BatchId> {
        let void = |write: &JobWrite| match write {
            JobWrite::Start(Start { key, attempt, gang, .. }) => {
                gang.filter(|_| self.expect(*key, Some(*attempt)).is_err())
            }
            _ => None,
        };
        batch.job_writes().filter_map(|(_, write)| void(write)).collect()
    }

    /// The job is there, and waits for or runs this attempt.
    fn expect(&self, key: JobKey, attempt: Option<AttemptNo>) -> Result<()> {
        let hot = self.hot.get(&(key.shard(), key)).ok_or_else(|| inconsistent(format!("{} is not there", key.id)))?;
        if attempt.is_some_and(|attempt| attempt != hot.counters.next_attempt) {
            return Err(inconsistent(format!("{} has another attempt", key.id)));
        }
        Ok(())
    }

    fn take_expected(&mut self, key: JobKey, attempt: Option<AttemptNo>) -> Result<Hot> {
        self.expect(key, attempt)?;
        Ok(self.take_hot(key).expect("it was there"))
    }

    fn settle(&mut self, settle: &Settle) -> Result<()> {
        let Settle { key, state, finished_at, counters, output, cancel, .. } = settle;
        if !state.is_final() {
            return Err(inconsistent(format!("no job ends as {state}")));
        }
        let hot = self.take_expected(*key, settle.attempt.as_ref().map(|ran| ran.attempt))?;
        // One time and one reason for the job and for the attempt that ended it.
        let attempt =
            settle.attempt.clone().map(|ran| AttemptRecord { due_at: key.due_at, finished_at: *finished_at, ..ran });
        let reason = settle.attempt.as_ref().map_or(&settle.reason, |ran| &ran.reason).clone();
        let finished = Finished {
            hot: Hot { counters: *counters, ..hot },
            state: *state,
            finished_at: *finished_at,
            due_at: key.due_at,
            reason,
            output: output.clone(),
            attempt,
        };
        if self.finished.has(&key.id) {
            return Err(inconsistent(format!("{} is in history already", key.id)));
        }
        self.finished.put(key.id, finished);
        self.forget_cancel(key.id, *cancel);
        if let Some(&(schedule, at)) = settle.success_of.as_deref() {
            self.schedule_succeeded(schedule, at);
        }
        Ok(())
    }

    fn requeue(&mut self, requeue: &Requeue) -> Result<()> {
        let Requeue { key, due_at, counters, give_backs, attempt, cancel } = requeue;
        let hot = self.take_expected(*key, attempt.as_ref().map(|ran| ran.attempt))?;
        self.move_hot(
            JobKey { due_at: *due_at, id: key.id },
            Hot { counters: *counters, give_backs: give_backs.clone(), ..hot },
        );
        if let Some(ran) = attempt {
            self.keep_attempt(key.id, AttemptRecord { due_at: key.due_at, ..ran.clone() })?;
        }
        self.forget_cancel(key.id, *cancel);
        Ok(())
    }

    fn rerun(&mut self, rerun: &Rerun, finished: Finished) -> Result<()> {
        let Rerun { id, due_at, counters } = rerun;
        let record = RerunRecord { at: *due_at, from: finished.state, next_attempt: counters.next_attempt };
        let number = self.reruns.range((*id, 0)..=(*id, u64::MAX)).count() as u64;
        self.reruns.put((*id, number), record);
        if let Some(ran) = finished.attempt {
            self.keep_attempt(*id, ran)?;
        }
        self.move_hot(
            JobKey { due_at: *due_at, id: *id },
            Hot { counters: *counters, give_backs: None, ..finished.hot },
        );
        Ok(())
    }

    /// Answers the job if it was not lost in this attempt.
    fn resolve_lost(&mut self, resolve: &ResolveLost) -> Result<Option<JobId>> {
        let ResolveLost { id, attempt, state, finished_at, reason, output, details, notice: _ } = resolve;
        let ending = match state {
            JobState::Succeeded => Ending::Succeeded,
            JobState::Failed => Ending::Failed,
            JobState::Cancelled => Ending::Cancelled,
            _ => return Err(inconsistent(format!("a late result makes no job {state}"))),
        };
        let lost = |finished: &&Finished| finished.state == JobState::Lost;
        let Some((mut finished, mut ran)) = self
            .finished
            .get(id)
            .filter(lost)
            .and_then(|finished| Some((finished.clone(), finished.attempt.clone()?)))
            .filter(|(_, ran)| ran.attempt == *attempt)
        else {
            return Ok(Some(*id));
        };
        ran.ending = ending;
        ran.finished_at = *finished_at;
        ran.reason = reason.clone();
        ran.details = details.clone();
        finished.state = *state;
        finished.finished_at = *finished_at;
        finished.reason = reason.clone();
        finished.output = output.clone();
        finished.attempt = Some(ran);
        self.finished.put(*id, finished);
        Ok(None)
    }

    fn keep_attempt(&mut self, job: JobId, ran: AttemptRecord) -> Result<()> {
        let key = (job, ran.attempt);
        if self.attempts.has(&key) {
            return Err(inconsistent(format!("attempt {} of {job} is there already", ran.attempt)));
        }
        self.attempts.put(key, ran);
        Ok(())
    }

    fn forget_cancel(&mut self, id: JobId, mark: CancelMark) {
        match mark {
            CancelMark::None => {}
            CancelMark::Recorded => drop(self.cancel_requests.take(&id)),
        }
    }
}
