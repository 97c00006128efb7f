//! From decisions to durable ones: batches, and what follows when they commit.

use std::sync::Arc;

use crate::attempt::{AttemptNo, AttemptRecord, Ending};
use crate::id::{JobId, ScheduleId, ShardId};
use crate::job::{Input, JobKey};
use crate::lifecycle::JobState;
use crate::namespace::NamespaceId;
use crate::schedule::Origin;
use crate::shard::event::{AssignedInput, Assignment, Change, Released, Send};
use crate::shard::judge::End;
use crate::shard::live::{Live, Stage};
use crate::shard::outbox::GangStarts;
use crate::shard::outcomes::is_taken_back;
use crate::shard::write::{
    Batch, BatchSeq, CancelMark, Epoch, JobWrite, Requeue, Settle, SharedBatch, Start, StartsId, Void, Write,
};
use crate::shard::{Answer, Owner, planted};
use crate::time::Timestamp;

impl Owner {
    pub fn has_writes(&self) -> bool {
        !self.outbox.is_empty()
    }

    pub fn batches_in_flight(&self) -> usize {
        self.outbox.in_flight()
    }

    /// The next transaction, or `None` when nothing was decided since the last, or every
    /// lane with something to write is full. It touches shards of one lane only.
    pub fn take_batch(&mut self, now: Timestamp) -> Option<SharedBatch> {
        let is_split = planted!(self.config, GangIsSplit);
        let (gangs, len_max) = match is_split {
            true => (GangStarts::Split, 1),
            false => (GangStarts::Together, self.config.batch_max),
        };
        let (seq, writes) = self.outbox.take(len_max, gangs, now)?;
        let mut touched: Vec<ShardId> = writes.iter().map(Write::shard).collect();
        touched.sort_unstable();
        touched.dedup();
        let fence = |id: ShardId| {
            let shard = self.shard(id).expect("the outbox holds writes of owned shards only");
            (id, shard.epoch)
        };
        let fences: Vec<(ShardId, Epoch)> = touched.into_iter().map(fence).collect();
        let batch = Arc::new(Batch { seq, server: self.server, fences, at: now, writes });
        self.register_starts(&batch);
        self.outbox.sent(Arc::clone(&batch));
        Some(batch)
    }

    fn register_starts(&mut self, batch: &Batch) {
        for (_, write) in batch.job_writes() {
            let JobWrite::Start(start) = write else { continue };
            let starts = batch.starts_id(start.key.shard());
            let shard = self.shard_mut(starts.shard).expect("the batch is of owned shards");
            shard.start_records.add(starts);
            let live = shard.jobs.get_mut(&start.key.id).expect("a starting job is in memory");
            if let Stage::Starting(run) = &mut live.stage {
                run.starts = Some(starts);
            }
        }
    }

    /// This batch, the oldest in flight on its lane, is durable: what depends on it may
    /// happen. What is in `void` was left out, because the rows were not as expected: a hint came so
    /// late that its job had started or ended before, or a former owner had decided already.
    pub fn committed(&mut self, seq: BatchSeq, void: &Void, now: Timestamp) {
        self.committed_with(seq, void, Released::InStore, now);
    }

    /// As `committed`, with the jobs of runs that the store released in the same transaction.
    pub fn committed_with(&mut self, seq: BatchSeq, void: &Void, released: Released, now: Timestamp) {
        self.now = now;
        let (batch, _) = self.answered(seq);
        self.counts.commits += 1;
        for write in &batch.writes {
            if self.still_holds(&batch, write.shard()) {
                self.written(write, void);
            }
        }
        match released {
            Released::InStore => self.read_released(&batch),
            Released::AtHand(jobs) => {
                for job in jobs {
                    if self.still_holds(&batch, job.row.key.shard()) {
                        self.admit(job);
                    }
                }
            }
        }
        for id in batch.fences.iter().map(|(id, _)| *id) {
            let Some(shard) = self.shard_mut(id) else { continue };
            for (token, job, command) in std::mem::take(&mut shard.deferred) {
                self.command(token, job, command);
            }
        }
    }

    /// This batch, the oldest in flight on its lane, was refused, and nothing of it applied:
    /// these shards are not ours any more. What it held for others is tried again, but for what
    /// concerns schedules: a watermark in a later batch may be applied before it. Shards of
    /// which it held such are given up, too, and answered, to be taken over anew.
    pub fn fenced(&mut self, seq: BatchSeq, lost: &[ShardId], now: Timestamp) -> Vec<ShardId> {
        self.now = now;
        let (batch, _) = self.answered(seq);
        let mut in_order: Vec<ShardId> =
            batch.schedule_writes().filter(|(_, write)| write.keeps_order()).map(|(_, write)| write.shard()).collect();
        in_order.sort_unstable();
        in_order.dedup();
        in_order.retain(|shard| !lost.contains(shard) && self.still_holds(&batch, *shard));
        for &shard in lost.iter().chain(&in_order) {
            if self.still_holds(&batch, shard) {
                self.forget(shard);
            }
        }
        for write in batch.writes.iter().rev() {
            if !self.still_holds(&batch, write.shard()) || self.is_overtaken(write) {
                continue;
            }
            self.outbox.push_front(write.clone());
            if let (Write::Job(JobWrite::Start(_)), Some(shard)) = (write, self.shard_mut(write.shard())) {
                // The next batch names its record anew.
                shard.start_records.withdraw(batch.starts_id(write.shard()));
            }
        }
        in_order
    }

    /// A later batch may be applied before what is tried again. No two writes of one
    /// job are ever under way together, but for a wish to cancel and the end that it
    /// may have brought about.
    fn is_overtaken(&self, write: &Write) -> bool {
        let Write::Job(JobWrite::RequestCancel { key }) = write else { return false };
        let live = self.shard(key.shard()).and_then(|shard| shard.jobs.get(&key.id));
        !live.is_some_and(|live| matches!(live.stage, Stage::Running(_)))
    }

    /// The shard may have been given up, and even taken again, while the batch was on its way.
    fn still_holds(&self, batch: &Batch, shard: ShardId) -> bool {
        self.shard(shard).map(|shard| shard.epoch) == batch.epoch_of(shard)
    }

    /// Nobody knows whether this batch, the oldest in flight on its lane, was applied. What
    /// followed it on the lane shares its connection and most likely its fate, so all their
    /// shards are given up; taking them over again, with a new epoch, shows what the store
    /// holds. The others of the lane are still to be answered. Other lanes go on.
    pub fn unknown(&mut self, seq: BatchSeq, now: Timestamp) -> Vec<ShardId> {
        self.now = now;
        let (batch, followers) = self.answered(seq);
        let mut given_up = Vec::new();
        for batch in std::iter::once(batch).chain(followers) {
            for &(shard, _) in &batch.fences {
                if self.still_holds(&batch, shard) {
                    self.forget(shard);
                    given_up.push(shard);
                }
            }
        }
        given_up
    }

    /// The batch that was answered, and those that followed it on its lane.
    fn answered(&mut self, seq: BatchSeq) -> (SharedBatch, Vec<SharedBatch>) {
        let mixes_up = planted!(self.config, AnswersMixedUp);
        let seq = if mixes_up { self.outbox.oldest().unwrap_or(seq) } else { seq };
        self.outbox.answered(seq)
    }

    fn written(&mut self, write: &Write, void: &Void) {
        match write {
            Write::Job(write) => self.job_written(write, void),
            Write::Schedule(write) => self.schedule_written(write, void),
            Write::Notice(_) => {}
        }
    }

    /// What follows in a run was stored with the end of its job, in the same shard, due at once: the sweep goes back to it.
    fn read_released(&mut self, batch: &Batch) {
        for (_, write) in batch.job_writes() {
            let JobWrite::Settle(settle) = write else { continue };
            if settle.node.is_none() || !self.still_holds(batch, settle.key.shard()) {
                continue;
            }
            // The id is only to compare with, and names no shard.
            let first = JobKey { due_at: settle.finished_at, id: JobId::first_at(settle.finished_at) };
            let shard = self.shard_mut(settle.key.shard()).expect("it is held");
            shard.sweeps.read_again(first);
        }
    }

    fn job_written(&mut self, write: &JobWrite, void: &Void) {
        if let Some((key, _)) = write.expects_waiting().filter(|(key, _)| void.jobs.contains(&key.id)) {
            self.voided(key.id);
            if matches!(write, JobWrite::Start(Start { gang: Some(_), .. })) {
                // Perhaps only because that of another member was.
                self.read_again(key);
            }
            return;
        }
        match write {
            // Its retention ended in between.
            JobWrite::Rerun(rerun) if void.jobs.contains(&rerun.id) => {
                self.clear_busy(rerun.id);
                self.ask_again(rerun.id);
            }
            JobWrite::ResolveLost(resolve) if void.jobs.contains(&resolve.id) => {
                self.clear_busy(resolve.id);
                if let Some(worker) = self.answers.take_late_reporter(resolve.id) {
                    self.ack(worker, resolve.id, resolve.attempt);
                }
            }
            JobWrite::Start(start) => self.started(start),
            JobWrite::Settle(settle) => self.settled(settle),
            JobWrite::Requeue(requeue) => self.requeued(requeue),
            JobWrite::Rerun(rerun) => {
                self.clear_busy(rerun.id);
                self.changed(rerun.id, None, JobState::Scheduled, None);
                self.answer(rerun.id);
                self.read_again(JobKey { due_at: rerun.due_at, id: rerun.id });
            }
            JobWrite::RequestCancel { key } => self.cancel_requested(*key),
            JobWrite::ResolveLost(resolve) => {
                self.clear_busy(resolve.id);
                self.count(resolve.state);
                self.changed(resolve.id, None, resolve.state, Some(resolve.attempt));
                if let Some(worker) = self.answers.take_late_reporter(resolve.id) {
                    self.ack(worker, resolve.id, resolve.attempt);
                }
            }
            JobWrite::Stale(stale) => self.ack(stale.worker, stale.id, stale.attempt),
            JobWrite::CloseStarts(_) => {}
        }
    }

    fn started(&mut self, start: &Start) {
        let id = start.key.id;
        let sends_now = !planted!(self.config, ExecuteBeforeDurable);
        let shard = self.shard_mut(id.shard()).expect("checked by the caller");
        let Some(live) = shard.jobs.get_mut(&id) else { return };
        let Stage::Starting(run) = live.stage else { return };
        live.stage = Stage::Running(run);
        let origin = shard.schedules.origin_of(live);
        let namespace = live.task.namespace;
        let assignment = live.assignment(shard.epoch, run.attempt, run.started_at, origin);
        self.counts.started += 1;
        self.notice_start(id, &run);
        self.changed(id, Some(namespace), JobState::Running, Some(run.attempt));
        // Its worker went away, even if it came back, or the job was cancelled: it was not
        // sent and never will be.
        if !self.fleet.awaits(run.worker, id) || run.cancel == CancelMark::Recorded {
            self.end_attempt(id, End::NeverReceived);
        } else if sends_now {
            self.send(run.worker, Send::Assign(assignment));
        }
    }

    fn voided(&mut self, id: JobId) {
        let shard = self.shard_mut(id.shard()).expect("checked by the caller");
        let Some(live) = shard.remove(id) else { return };
        self.running_quotas.is_over(id);
        if let Stage::Starting(run) = live.stage {
            self.fleet.release(run.worker, id);
            self.release_start(run.starts);
        }
        self.ask_again(id);
    }

    /// Commands on this job are to be decided anew, on what the store holds.
    fn ask_again(&mut self, id: JobId) {
        let replies = self.answers.take_commands(id);
        self.effects.answers.extend(replies.into_iter().map(|(token, _)| (token, Answer::NotOwner)));
    }

    fn settled(&mut self, settle: &Settle) {
        let id = settle.key.id;
        let shard = self.shard_mut(id.shard()).expect("checked by the caller");
        let ended = shard.remove(id);
        self.running_quotas.is_over(id);
        let tracked = ended.as_ref().and_then(Live::tracked);
        let namespace = ended.as_ref().map(|live| live.task.namespace);
        if let (Some(notice), Some(live)) = (&settle.notice, &ended) {
            self.notices.settled(notice, &live.task, self.now);
        }
        self.release_start(ended.and_then(|live| live.stage.starts()));
        if let Some(&(schedule, at)) = settle.success_of.as_deref() {
            let shard = self.shard_mut(id.shard()).expect("checked by the caller");
            shard.schedules.succeeded(schedule, at);
        }
        if let Some(source) = tracked {
            self.run_ended(source.schedule, id, settle.state);
        }
        self.count(settle.state);
        let attempt = settle.attempt.as_ref().map(|attempt| attempt.attempt);
        self.changed(id, namespace, settle.state, attempt);
        if let Some(attempt) = &settle.attempt {
            self.let_go(id, attempt);
        }
        self.answer_agents(id);
        self.answer(id);
    }

    fn requeued(&mut self, requeue: &Requeue) {
        let id = requeue.key.id;
        if !is_taken_back(requeue.attempt.as_ref()) {
            self.counts.retried += 1;
        }
        if let Some(attempt) = &requeue.attempt {
            self.let_go(id, attempt);
        }
        self.running_quotas.is_over(id);
        let known = self.shard(id.shard()).and_then(|shard| shard.jobs.get(&id));
        let namespace = known.map(|live| live.task.namespace);
        self.changed(id, namespace, JobState::Scheduled, None);
        let shard = self.shard_mut(id.shard()).expect("checked by the caller");
        if let Some(live) = shard.jobs.get_mut(&id) {
            live.key.due_at = requeue.due_at;
            live.counters = requeue.counters;
            live.give_backs = requeue.give_backs.clone();
            let starts = live.stage.starts();
            self.release_start(starts);
        }
        self.readmit(id);
        self.answer_agents(id);
        self.answer(id);
    }

    /// The end of an attempt is durable: its worker may forget it.
    fn let_go(&mut self, id: JobId, ended: &AttemptRecord) {
        let attempt = ended.attempt;
        if self.let_go_of_agent(id, attempt) {
            return;
        }
        match ended.ending {
            // We ended it, and it may still run.
            Ending::TimedOut => self.send(ended.worker, Send::Stop { id, attempt }),
            // It may yet report, and that report is not on record.
            Ending::WorkerLost => {}
            Ending::Succeeded | Ending::Failed | Ending::Cancelled | Ending::NotStarted => {
                self.ack(ended.worker, id, attempt);
                if let Some(reporter) = self.answers.take_late_reporter(id) {
                    self.ack(reporter, id, attempt);
                }
            }
        }
    }

    fn cancel_requested(&mut self, key: JobKey) {
        let shard = self.shard(key.shard()).expect("checked by the caller");
        if let Some(Stage::Running(run)) = shard.jobs.get(&key.id).map(|live| live.stage) {
            self.send(run.worker, Send::Cancel { id: key.id, attempt: run.attempt });
        }
        self.answer(key.id);
    }

    /// Takes a decided write, in the order in which decisions are made.
    pub(super) fn push(&mut self, write: impl Into<Write>) {
        self.outbox.push(write.into(), self.now);
    }

    /// One job of this record has durably ended; the last one closes it. Not sooner: a
    /// record that is closed while the end of one of its jobs fails would leave a row
    /// that looks as if it had never started.
    pub(super) fn release_start(&mut self, starts: Option<StartsId>) {
        let Some(starts) = starts else { return };
        let Some(shard) = self.shard_mut(starts.shard) else { return };
        if shard.start_records.release(starts) {
            self.push(JobWrite::CloseStarts(starts));
        }
    }

    fn answer(&mut self, id: JobId) {
        self.effects.answers.extend(self.answers.take_commands(id));
    }

    fn clear_busy(&mut self, id: JobId) {
        let shard = self.shard_mut(id.shard()).expect("checked by the caller");
        shard.busy.remove(&id);
        shard.sweeps.left(id);
    }

    fn changed(&mut self, id: JobId, namespace: Option<NamespaceId>, state: JobState, attempt: Option<AttemptNo>) {
        self.effects.changes.push(Change { id, namespace, state, attempt, at: self.now });
    }

    fn count(&mut self, state: JobState) {
        self.counts.finished(state);
    }
}

impl Live {
    /// The planned time that has succeeded when the job ends as `state`. Only where the schedule is of the job's shard,
    /// whose fence covers both.
    pub(super) fn success_of(&self, state: JobState) -> Option<Box<(ScheduleId, Timestamp)>> {
        let source = self.source.as_deref().filter(|source| source.schedule.shard() == self.key.shard())?;
        (state == JobState::Succeeded).then(|| Box::new((source.schedule, source.at)))
    }

    pub(super) fn assignment(
        &self,
        epoch: Epoch,
        attempt: AttemptNo,
        started_at: Timestamp,
        origin: Option<Box<Origin>>,
    ) -> Assignment {
        let input = match &self.input {
            Input::None => AssignedInput::None,
            Input::Inline(bytes) => AssignedInput::Inline(bytes.clone()),
            Input::Stored { .. } => AssignedInput::Stored,
        };
        Assignment {
            key: self.key,
            epoch,
            attempt,
            task: Arc::clone(&self.task),
            tracing_id: self.tracing_id.clone(),
            input,
            started_at,
            origin,
        }
    }
}
