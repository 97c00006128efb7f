use punctual_core::{AttemptNo, Counters, JobId, JobKey, NamespaceId, Timestamp};
use punctual_store::{
    DueWindow, Filter, FinishedJob, HotJob, IdempotencyKey, IdempotentAnswer, JobPages, JobRecord, LateOutcome, NewJob,
    Order, Page, Position, RerunRecord, Result, SUBMIT_MAX, Submission, Submitted, TASK_USE_STEP,
};

use super::{Finished, Hot, ModelStore, State, inconsistent};

impl ModelStore {
    pub fn submit_now(&self, submission: Submission) -> Result<Submitted> {
        self.state().all_or_nothing(|state| {
            expect_few(&submission.jobs)?;
            if let Some(IdempotentAnswer { key, fingerprint, now, .. }) = &submission.idempotency
                && let Some(before) = state.answered_before(key, fingerprint, *now)
            {
                return Ok(before);
            }
            if let Some(batch) = submission.batch {
                state.store_batch(*batch)?;
            }
            state.store_jobs(submission.jobs)?;
            if let Some(kept) = submission.idempotency {
                state.answers.put(kept.key.clone(), kept);
            }
            Ok(Submitted::Done)
        })
    }

    pub fn idempotent_answer_now(
        &self,
        key: &IdempotencyKey,
        fingerprint: &[u8; 32],
        now: Timestamp,
    ) -> Option<Submitted> {
        self.state().answered_before(key, fingerprint, now)
    }

    pub fn namespace_of_job_now(&self, id: JobId) -> Option<NamespaceId> {
        self.state().namespace_of_job(id)
    }

    pub fn job_now(&self, id: JobId) -> Option<JobRecord> {
        let state = self.state();
        let all = (id, AttemptNo(0))..=(id, AttemptNo(u32::MAX));
        let earlier = state.attempts.range(all).map(|(_, attempt)| attempt.clone());
        if let Some((key, hot)) = state.hot_job(id) {
            let (requester, input) = (hot.requester, hot.input.clone());
            let job = state.show_hot(key, hot);
            return Some(JobRecord::Hot { job, requester, input, attempts: earlier.collect() });
        }
        let finished = state.finished.get(&id)?;
        Some(JobRecord::Finished {
            job: state.show_finished(id, finished),
            requester: finished.hot.requester,
            input: finished.hot.input.clone(),
            output: finished.output.clone(),
            attempts: earlier.chain(finished.attempt.clone()).collect(),
        })
    }

    pub fn late_outcomes_now(&self, id: JobId, limit: usize) -> Vec<LateOutcome> {
        let state = self.state();
        let of_job = state.stale.iter().filter(|((job, _, _), _)| *job == id);
        let mut outcomes: Vec<LateOutcome> = of_job
            .map(|((_, attempt, worker), (at, outcome))| LateOutcome {
                attempt: *attempt,
                worker: *worker,
                at: *at,
                outcome: outcome.clone(),
            })
            .collect();
        outcomes.sort_by_key(|late| (late.attempt, late.worker));
        outcomes.truncate(limit);
        outcomes
    }

    pub fn reruns_now(&self, id: JobId) -> Vec<RerunRecord> {
        let mut reruns: Vec<RerunRecord> =
            self.state().reruns.range((id, 0)..=(id, u64::MAX)).map(|(_, rerun)| *rerun).collect();
        reruns.sort_by_key(|rerun| (rerun.at, rerun.next_attempt));
        reruns
    }

    pub fn hot_jobs_now(&self, keys: &[JobKey]) -> Vec<HotJob> {
        let state = self.state();
        let there = keys.iter().filter_map(|key| state.hot.get(&(key.shard(), *key)).map(|hot| (*key, hot)));
        there.map(|(key, hot)| state.show_hot(key, hot)).collect()
    }

    pub fn finished_jobs_now(&self, ids: &[JobId]) -> Vec<FinishedJob> {
        let state = self.state();
        ids.iter().filter_map(|id| state.finished.get(id).map(|finished| state.show_finished(*id, finished))).collect()
    }

    pub fn list_jobs_now(&self, filter: &Filter, position: Position) -> JobPages {
        let state = self.state();
        let hot = state
            .hot
            .iter()
            .filter(|((_, key), hot)| filter.tables.has_hot() && state.fits(filter, key.id, hot))
            .map(|((_, key), hot)| (key.id, state.show_hot(*key, hot)));
        let finished = state
            .finished
            .iter()
            .filter(|(id, finished)| filter.tables.has_finished() && state.fits(filter, **id, &finished.hot))
            .filter(|(_, finished)| filter.states.is_empty() || filter.states.contains(&finished.state))
            .map(|(id, finished)| (*id, state.show_finished(*id, finished)));
        let Position { after, order, limit } = position;
        JobPages {
            hot: page(hot.collect(), after, order, limit),
            finished: page(finished.collect(), after, order, limit),
        }
    }

    pub fn list_due_now(&self, window: DueWindow, limit: usize) -> Page<HotJob, JobKey> {
        let state = self.state();
        let rows = state
            .hot
            .iter()
            .filter(|((_, key), _)| key.due_at >= window.from && key.due_at < window.before)
            .filter(|(_, hot)| window.namespace.is_none_or(|namespace| namespace == state.namespace_of(hot.task)))
            .map(|((_, key), hot)| (*key, state.show_hot(*key, hot)));
        page(rows.collect(), window.after, Order::Ascending, limit)
    }

    pub fn given_back_now(
        &self,
        namespace: Option<NamespaceId>,
        after: Option<JobKey>,
        until: Timestamp,
        limit: usize,
    ) -> Page<HotJob, JobKey> {
        let state = self.state();
        let place = |id: JobId, hot: &Hot| Some(JobKey { id, due_at: hot.give_backs.as_ref()?.last.as_ref()?.since });
        let found = state.hot.iter().filter_map(|((_, key), hot)| Some((place(key.id, hot)?, *key, hot)));
        let found = found.filter(|(place, _, _)| Some(*place) > after && place.due_at <= until);
        let mut found: Vec<_> = found.collect();
        found.sort_by_key(|(place, _, _)| *place);
        found.truncate(limit);
        let next = found.last().map(|(place, _, _)| *place).filter(|_| found.len() == limit);
        let rows = found.into_iter().map(|(_, key, hot)| state.show_hot(key, hot));
        let wanted = |job: &HotJob| namespace.is_none_or(|namespace| namespace == job.namespace);
        Page { rows: rows.filter(wanted).collect(), next }
    }
}

impl State {
    fn answered_before(&self, key: &IdempotencyKey, fingerprint: &[u8; 32], now: Timestamp) -> Option<Submitted> {
        let kept = self.answers.get(key).filter(|kept| kept.expires_at > now)?;
        Some(if kept.fingerprint == *fingerprint {
            Submitted::Replayed { answer: kept.answer.clone() }
        } else {
            Submitted::KeyReused
        })
    }

    pub(super) fn store_jobs(&mut self, jobs: Vec<NewJob>) -> Result<()> {
        expect_few(&jobs)?;
        for job in jobs {
            let NewJob {
                id,
                namespace,
                task,
                priority,
                submitted_at,
                tracing_id,
                source,
                requester,
                node,
                member,
                input,
            } = job;
            if self.tasks.has(&task) && self.namespace_of(task) != namespace {
                return Err(inconsistent(format!("{id} is not in the namespace of {task}")));
            }
            let counters = Counters::NEW;
            let give_backs = None;
            let hot = Hot {
                task,
                priority,
                counters,
                submitted_at,
                tracing_id,
                source,
                requester,
                node,
                member,
                give_backs,
                input,
            };
            self.store_job(JobKey::original(id), hot)?;
        }
        Ok(())
    }

    pub(super) fn store_job(&mut self, key: JobKey, hot: Hot) -> Result<()> {
        let (id, task) = (key.id, hot.task);
        if !self.shards.has(&id.shard()) {
            return Err(inconsistent(format!("{id} is of no shard of this store")));
        }
        if !self.tasks.has(&task) {
            return Err(inconsistent(format!("there is no {task}")));
        }
        if self.due_at.has(&id) || self.finished.has(&id) {
            return Err(inconsistent(format!("{id} is there already")));
        }
        self.put_hot(key, hot);
        self.use_task(task, id.due_at());
        Ok(())
    }

    /// Puts a job elsewhere than it was submitted to.
    pub(super) fn move_hot(&mut self, key: JobKey, hot: Hot) {
        if key.due_at > key.id.due_at() + TASK_USE_STEP {
            self.use_task(hot.task, key.due_at);
        }
        self.put_hot(key, hot);
    }

    fn put_hot(&mut self, key: JobKey, hot: Hot) {
        self.due_at.put(key.id, key.due_at);
        self.hot.put((key.shard(), key), hot);
    }

    pub(super) fn take_hot(&mut self, key: JobKey) -> Option<Hot> {
        let hot = self.hot.take(&(key.shard(), key))?;
        self.due_at.take(&key.id);
        Some(hot)
    }

    /// The namespace of its task.
    pub(super) fn namespace_of_job(&self, id: JobId) -> Option<NamespaceId> {
        let finished = || self.finished.get(&id).map(|finished| finished.hot.task);
        let task = self.hot_job(id).map(|(_, hot)| hot.task).or_else(finished);
        task.map(|task| self.namespace_of(task))
    }

    pub(super) fn hot_job(&self, id: JobId) -> Option<(JobKey, &Hot)> {
        let key = JobKey { due_at: *self.due_at.get(&id)?, id };
        self.hot.get(&(key.shard(), key)).map(|hot| (key, hot))
    }

    fn fits(&self, filter: &Filter, id: JobId, hot: &Hot) -> bool {
        let spec = &self.tasks[&hot.task].task.spec;
        filter.namespace.is_none_or(|namespace| namespace == self.namespace_of(hot.task))
            && filter.task.is_none_or(|task| task == hot.task)
            && filter.kind.as_ref().is_none_or(|kind| kind == spec.run.kind())
            && filter.queue.as_ref().is_none_or(|queue| *queue == spec.queue)
            && filter.tracing_id.as_ref().is_none_or(|wanted| hot.tracing_id.as_ref() == Some(wanted))
            && filter.scheduled_from.is_none_or(|from| id.due_at() >= from)
            && filter.scheduled_before.is_none_or(|before| id.due_at() < before)
    }

    fn show_hot(&self, key: JobKey, hot: &Hot) -> HotJob {
        HotJob {
            key,
            namespace: self.namespace_of(hot.task),
            task: hot.task,
            priority: hot.priority,
            counters: hot.counters,
            submitted_at: hot.submitted_at,
            tracing_id: hot.tracing_id.clone(),
            source: hot.source,
            give_backs: hot.give_backs.clone(),
            cancel_requested: self.cancel_requests.has(&key.id),
        }
    }

    fn show_finished(&self, id: JobId, finished: &Finished) -> FinishedJob {
        FinishedJob {
            id,
            namespace: self.namespace_of(finished.hot.task),
            task: finished.hot.task,
            priority: finished.hot.priority,
            counters: finished.hot.counters,
            submitted_at: finished.hot.submitted_at,
            tracing_id: finished.hot.tracing_id.clone(),
            source: finished.hot.source,
            state: finished.state,
            finished_at: finished.finished_at,
            due_at: finished.due_at,
            reason: finished.reason.clone(),
        }
    }
}

fn expect_few(jobs: &[NewJob]) -> Result<()> {
    match jobs.len() > SUBMIT_MAX {
        true => Err(inconsistent("too many jobs in one submission")),
        false => Ok(()),
    }
}

fn page<T, K: Ord + Copy>(mut rows: Vec<(K, T)>, after: Option<K>, order: Order, limit: usize) -> Page<T, K> {
    rows.sort_by_key(|(key, _)| *key);
    if order == Order::Descending {
        rows.reverse();
    }
    let comes_after = |key: K| match (after, order) {
        (None, _) => true,
        (Some(after), Order::Ascending) => key > after,
        (Some(after), Order::Descending) => key < after,
    };
    rows.retain(|(key, _)| comes_after(*key));
    let limit = limit.max(1);
    let next = if rows.len() > limit { Some(rows[limit - 1].0) } else { None };
    rows.truncate(limit);
    Page { rows: rows.into_iter().map(|(_, row)| row).collect(), next }
}
