//! Chooses operations that mostly fit what the model holds, and sometimes do not.

use punctual_core::attempt::{AttemptRecord, Details, Ending, FailureClass};
use punctual_core::give_backs::{GiveBacks, GivenBack};
use punctual_core::shard::event::{Load, Sweep};
use punctual_core::shard::write::{
    Batch, BatchSeq, CancelMark, Epoch, JobWrite, Requeue, Rerun, ResolveLost, Settle, StaleOutcome, StartsId, Write,
};
use punctual_core::task::Task;
use punctual_core::{AttemptNo, Counters, JobId, JobKey, JobState, NamespaceId, ShardId, Span, TaskId, Timestamp};
use punctual_store::{
    DueWindow, Filter, FoundRow, IdempotencyKey, IdempotentAnswer, NewJob, Order, Position, Submission, Tables,
};

use super::Random;
use super::operation::{NAMESPACES, Operation};
use crate::fixture::{
    SHARDS, at, binary_spec, named_task, nameless_task, plain_start, priority, ran, server, task_id, text, worker,
};
use crate::model::ModelStore;

const NAMES: [&str; 3] = ["alpha", "beta", "gamma"];
const TASKS: u64 = 8;
pub(super) const ARTIFACTS: u64 = 4;
const DAY: i64 = 86_400;
pub(super) const ENDS: [JobState; 6] = [
    JobState::Succeeded,
    JobState::Failed,
    JobState::Cancelled,
    JobState::Lost,
    JobState::Quarantined,
    JobState::Deleted,
];

pub(super) fn all_tasks() -> Vec<TaskId> {
    (0..TASKS).map(task_id).collect()
}

pub(super) struct Plan {
    pub(super) random: Random,
    pub(super) jobs: Vec<JobId>,
    epochs: Vec<Epoch>,
    records: Vec<StartsId>,
    seq: u64,
    /// Seconds that passed, for what takes the time as an argument.
    pub(super) now: i64,
}

impl Plan {
    pub(super) fn new(seed: u64) -> Self {
        let epochs = vec![Epoch(0); usize::from(SHARDS)];
        Self { random: Random::new(seed), jobs: Vec::new(), epochs, records: Vec::new(), seq: 0, now: 0 }
    }

    pub(super) fn jobs(&self) -> &[JobId] {
        &self.jobs
    }

    /// Epochs after an operation, as the model has them.
    pub(super) fn learn(&mut self, model: &ModelStore) {
        for shard in 0..SHARDS {
            self.epochs[usize::from(shard)] = model.epoch(ShardId(shard));
        }
    }

    pub(super) fn next(&mut self, model: &ModelStore) -> Operation {
        self.now += 1;
        if self.now <= 3 {
            // Without tasks nothing else can happen.
            return self.task();
        }
        match self.random.below(33) {
            0..4 => self.submit(model),
            4..11 => self.apply(model),
            11 => self.lease(),
            12 => self.task(),
            13 => {
                if self.random.one_in(2) {
                    self.log()
                } else {
                    self.archive(model)
                }
            }
            14 => {
                // Now and then, long after everything else: then tasks go too.
                let later = if self.random.one_in(4) { Span::from_secs(3 * DAY) } else { Span::ZERO };
                Operation::Prune(self.moment() + later, self.moment(), self.random.below(5) as usize)
            }
            15 => Operation::ListDue(self.due_window(), self.random.below(6) as usize),
            16..18 => Operation::ListJobs(self.filter(), self.position()),
            18 => Operation::Load(self.load()),
            19..21 => self.artifact(),
            21..24 => self.look_at_schedules(),
            24..27 => self.report(model),
            27..31 => self.backfill(model),
            _ => self.read(model),
        }
    }

    pub(super) fn moment(&mut self) -> Timestamp {
        at(self.random.below(60) as i64)
    }

    fn shard(&mut self) -> ShardId {
        ShardId(self.random.below(u64::from(SHARDS)) as u16)
    }

    pub(super) fn job(&mut self) -> JobId {
        if self.jobs.is_empty() || self.random.one_in(20) {
            return JobId::new(self.moment(), self.shard(), 1 << 40);
        }
        self.random.pick(&self.jobs)
    }

    fn key(&mut self, model: &ModelStore, id: JobId) -> JobKey {
        let due_at = match model.find_now(id) {
            FoundRow::Hot(row) if !self.random.one_in(25) => row.key.due_at,
            _ => self.moment(),
        };
        JobKey { due_at, id }
    }

    fn submit(&mut self, model: &ModelStore) -> Operation {
        let mut jobs: Vec<NewJob> = (0..self.random.below(4)).map(|_| self.new_job()).collect();
        if self.random.one_in(10) {
            // An id that waits where it was submitted to; elsewhere stores do not look for it.
            let id = self.job();
            if matches!(model.find_now(id), FoundRow::Hot(row) if row.key == JobKey::original(id)) {
                jobs.push(NewJob { id, ..self.new_job() });
            }
        }
        self.jobs.extend(jobs.iter().map(|job| job.id));
        let now = at(self.now);
        let idempotency = self.random.one_in(3).then(|| IdempotentAnswer {
            key: IdempotencyKey { namespace: self.namespace(), key: self.random.pick(&NAMES).to_owned() },
            fingerprint: [self.random.below(2) as u8; 32],
            answer: text(&format!("answer {}", self.now)),
            now,
            expires_at: now + Span::from_secs(self.random.below(20) as i64),
        });
        Operation::Submit(Submission { jobs, idempotency, batch: None })
    }

    pub(super) fn new_job(&mut self) -> NewJob {
        let shard = if self.random.one_in(50) { ShardId(SHARDS) } else { self.shard() };
        let input_len = self.random.pick(&[1, 100, 1024, 1025]);
        let task = self.random.below(3);
        // Now and then it is not that of its task.
        let namespace = if self.random.one_in(60) { self.namespace() } else { namespace_of_task(task) };
        NewJob {
            namespace,
            id: JobId::new(self.moment(), shard, self.random.draw()),
            task: task_id(task),
            priority: priority(self.random.pick(&[-1, 0, 0, 1, 5])),
            submitted_at: at(self.now),
            tracing_id: self.random.one_in(3).then(|| self.random.pick(&["trace a", "trace b", "trace c"]).to_owned()),
            source: self.random.one_in(3).then(|| self.source()),
            requester: None,
            node: None,
            member: None,
            input: self.random.one_in(2).then(|| vec![self.now as u8; input_len].into()),
        }
    }

    fn apply(&mut self, model: &ModelStore) -> Operation {
        let mut writes = Vec::new();
        // A write about a job often does not fit, and then nothing happens to schedules either.
        let spares_jobs = self.random.one_in(3);
        for _ in 0..=self.random.below(4) {
            if spares_jobs || self.random.one_in(3) {
                writes.extend(self.schedule_writes(model, &writes));
            } else {
                writes.push(self.write(model));
            }
        }
        let mut shards: Vec<_> = writes.iter().map(Write::shard).collect();
        if self.random.one_in(30) {
            shards.pop();
        }
        shards.sort_unstable();
        shards.dedup();
        let fences = shards.into_iter().map(|shard| (shard, self.epoch(shard))).collect();
        if !self.random.one_in(40) {
            self.seq += 1;
        }
        let batch =
            Batch { seq: BatchSeq(self.seq), server: server(self.random.below(3)), fences, at: at(self.now), writes };
        let started = batch.writes.iter().filter(|write| matches!(write, Write::Job(JobWrite::Start(_))));
        let records = started.filter(|write| batch.epoch_of(write.shard()).is_some());
        self.records.extend(records.map(|write| batch.starts_id(write.shard())));
        Operation::Apply(batch.into())
    }

    fn epoch(&mut self, shard: ShardId) -> Epoch {
        let known = self.epochs.get(usize::from(shard.0)).copied().unwrap_or_default();
        if self.random.one_in(20) { Epoch(known.0.saturating_sub(1)) } else { known }
    }

    fn write(&mut self, model: &ModelStore) -> Write {
        let id = self.job();
        let key = self.key(model, id);
        let (next, finished) = match model.find_now(id) {
            FoundRow::Hot(row) => (row.counters.next_attempt.0, false),
            FoundRow::Finished { attempt, counters, .. } => {
                (attempt.map_or(counters.next_attempt.0, |last| last.0), true)
            }
            FoundRow::Absent => (1, false),
        };
        let attempt = if self.random.one_in(25) { next + 1 } else { next };
        match self.random.below(if finished { 14 } else { 10 }) {
            0..3 => Write::Job(JobWrite::Start(plain_start(key, attempt))),
            3..6 => Write::Job(JobWrite::Settle(self.settle(key, attempt))),
            6..8 => Write::Job(JobWrite::Requeue(self.requeue(key, attempt))),
            8 => Write::Job(JobWrite::RequestCancel { key }),
            9 => self.aside(id),
            10..12 => {
                Write::Job(JobWrite::Rerun(Rerun { id, due_at: self.moment(), counters: self.counters(attempt + 1) }))
            }
            _ => Write::Job(JobWrite::ResolveLost(ResolveLost {
                id,
                attempt: AttemptNo(attempt),
                state: self.random.pick(&ENDS),
                finished_at: self.moment(),
                reason: self.reason(),
                output: self.random.one_in(2).then(|| text("late")),
                details: self.details(),
                notice: self.notice(id.shard()),
            })),
        }
    }

    fn aside(&mut self, id: JobId) -> Write {
        if !self.records.is_empty() && self.random.one_in(2) {
            return Write::Job(JobWrite::CloseStarts(self.random.pick(&self.records)));
        }
        let outcome = "too late".to_owned();
        Write::Job(JobWrite::Stale(StaleOutcome {
            id,
            attempt: AttemptNo(1),
            worker: worker(1),
            at: self.moment(),
            outcome,
        }))
    }

    fn counters(&mut self, next: u32) -> Counters {
        let failures = self.random.below(3) as u16;
        Counters { next_attempt: AttemptNo(next), failures, node_failures: 2 - failures }
    }

    fn reason(&mut self) -> Option<String> {
        self.random.one_in(2).then(|| format!("reason {}", self.now))
    }

    fn ran(&mut self, attempt: u32) -> AttemptRecord {
        AttemptRecord { details: self.details(), ..ran(attempt, self.random.pick(&Ending::ALL)) }
    }

    fn details(&mut self) -> Option<Box<Details>> {
        if self.random.one_in(2) {
            return None;
        }
        let mut known = Details::default();
        if self.random.one_in(2) {
            known.class = Some(self.random.pick(&FailureClass::ALL));
        }
        if self.random.one_in(2) {
            known.exit_code = Some(self.random.pick(&[0, 1, i32::MIN]));
        }
        if self.random.one_in(2) {
            known.peak_memory_bytes = Some(self.random.draw());
        }
        if self.random.one_in(2) {
            known.host = Some(self.random.pick(&["", "a \"b\"", "ü\0"]).to_owned());
        }
        Some(Box::new(known))
    }

    fn cancel(&mut self) -> CancelMark {
        if self.random.one_in(2) { CancelMark::Recorded } else { CancelMark::None }
    }

    fn settle(&mut self, key: JobKey, attempt: u32) -> Settle {
        let ran = (!self.random.one_in(4)).then(|| self.ran(attempt));
        Settle {
            key,
            state: if self.random.one_in(40) { JobState::Running } else { self.random.pick(&ENDS) },
            finished_at: self.moment(),
            counters: self.counters(attempt + 1),
            attempt: ran,
            reason: self.reason(),
            output: self.random.one_in(3).then(|| vec![7; self.random.pick(&[0, 10, 1500])].into()),
            cancel: self.cancel(),
            notice: self.notice(key.shard()),
            success_of: None,
            node: None,
            member: None,
        }
    }

    fn requeue(&mut self, key: JobKey, attempt: u32) -> Requeue {
        let ran = (!self.random.one_in(3)).then(|| self.ran(attempt));
        let due_at = self.random.pick(&[key.due_at, key.id.due_at(), at(self.now), at(self.now + 2 * DAY)]);
        let next = attempt + u32::from(ran.is_some());
        let give_backs = self.random.one_in(2).then(|| Box::new(self.give_backs()));
        Requeue { key, due_at, counters: self.counters(next), give_backs, attempt: ran, cancel: self.cancel() }
    }

    fn give_backs(&mut self) -> GiveBacks {
        let since = at(self.random.pick(&[0, self.now, self.now + 60]));
        let last = GivenBack { since, reason: "no disk".to_owned() };
        let count = self.random.below(3) as u16;
        GiveBacks { count, never_received: 2 - count, last: (!self.random.one_in(4)).then_some(last) }
    }

    fn lease(&mut self) -> Operation {
        let server = server(self.random.below(3));
        let ttl = self.random.pick(&[Span::ZERO, Span::from_secs(60)]);
        match self.random.below(4) {
            0 => Operation::Acquire(server, ttl, self.random.below(5) as usize),
            1 => {
                let bad = self.random.one_in(5).then_some(ShardId(SHARDS));
                Operation::TakeOver(
                    server,
                    [Some(self.shard()), Some(self.shard()), bad].into_iter().flatten().collect(),
                    ttl,
                )
            }
            2 => Operation::Renew(server, ttl),
            _ => Operation::Release(server),
        }
    }

    pub(super) fn namespace(&mut self) -> NamespaceId {
        self.random.pick(&NAMESPACES)
    }

    /// A revision that a change is based on, mostly none.
    pub(super) fn expected_revision(&mut self) -> Option<u32> {
        self.random.one_in(3).then(|| self.random.below(4) as u32)
    }

    fn task(&mut self) -> Operation {
        let n = self.random.below(TASKS);
        let (mut nameless, digest) = nameless_task(n);
        nameless.namespace = namespace_of_task(n);
        let namespace = namespace_of_task(n);
        let mut task = Task { namespace, updated_at: at(self.now), ..named_task(n, self.random.pick(&NAMES)) };
        // Content and digest belong together, so the number decides. Jobs are of the first three,
        // and there must be some.
        if n > 3 {
            nameless.spec = binary_spec(n - 4);
        }
        if self.random.one_in(if n > 3 { 2 } else { 10 }) {
            task.spec = binary_spec(self.random.below(ARTIFACTS));
        }
        match self.random.below(9) {
            0..3 => Operation::CreateTask(task),
            3 => Operation::UpdateTask(Task { revision: 2 + self.random.below(2) as u32, spec: nameless.spec, ..task }),
            4 => Operation::DeleteTask(task_id(n), self.expected_revision()),
            5..8 => {
                let m = self.random.below(TASKS);
                let other = Task { namespace: namespace_of_task(m), ..nameless_task(m).0 };
                let other_digest = [self.random.below(TASKS) as u8; 32];
                Operation::InternTasks(vec![(nameless, digest), (other, other_digest)])
            }
            _ => Operation::ListTasks(self.random.one_in(2).then(|| "beta".to_owned()), 2),
        }
    }

    fn filter(&mut self) -> Filter {
        let tables = self.random.pick(&[Tables::Both, Tables::Hot, Tables::Finished]);
        let namespace = self.random.one_in(2).then(|| self.namespace());
        let mut filter = Filter { tables, namespace, ..Filter::default() };
        if self.random.one_in(3) {
            filter.task = Some(task_id(self.random.below(4)));
        }
        if self.random.one_in(5) {
            filter.kind = Some(self.random.pick(&["probe", "handler"]).to_owned());
        }
        if self.random.one_in(5) {
            filter.queue = Some(self.random.pick(&["default", "other"]).to_owned());
        }
        if self.random.one_in(5) {
            filter.tracing_id = Some(self.random.pick(&["trace a", "trace b", "none"]).to_owned());
        }
        if self.random.one_in(4) {
            filter.scheduled_from = Some(self.moment());
        }
        if self.random.one_in(4) {
            filter.scheduled_before = Some(self.moment());
        }
        filter.states = (0..self.random.below(4)).map(|_| self.random.pick(&ENDS)).collect();
        filter
    }

    fn position(&mut self) -> Position {
        let after = self.random.one_in(2).then(|| self.job());
        let order = self.random.pick(&[Order::Ascending, Order::Descending]);
        // A page of nothing is asked for by nobody.
        Position { after, order, limit: 1 + self.random.below(5) as usize }
    }

    fn due_window(&mut self) -> DueWindow {
        let after = self.random.one_in(2).then(|| JobKey { due_at: self.moment(), id: self.job() });
        let namespace = self.random.one_in(2).then(|| self.namespace());
        DueWindow { namespace, from: self.moment(), before: self.moment(), after }
    }

    fn load(&mut self) -> Load {
        let sweep = self.random.pick(&[Sweep::All, Sweep::Urgent, Sweep::Floor]);
        let skipped = if sweep == Sweep::Urgent { 0 } else { self.random.below(3) };
        Load {
            shard: self.shard(),
            epoch: Epoch(0),
            sweep,
            after: self.random.one_in(2).then(|| JobKey::original(self.job())),
            until: self.moment(),
            limit: self.random.below(6) as usize,
            skip: (0..skipped).map(task_id).collect(),
        }
    }

    fn read(&mut self, model: &ModelStore) -> Operation {
        let id = self.job();
        match self.random.below(7) {
            0 => Operation::Job(id),
            1 => Operation::Find(id),
            2 => Operation::Inputs(vec![self.key(model, id), JobKey::original(id)]),
            3 => Operation::HotJobs(vec![self.key(model, id), JobKey::original(id)]),
            4 => Operation::FinishedJobs(vec![id, self.job()]),
            5 => Operation::TaskByName(self.random.pick(&NAMES).to_owned()),
            _ => Operation::OpenStarts(self.shard()),
        }
    }
}

/// A task is always in the same one.
fn namespace_of_task(n: u64) -> NamespaceId {
    NAMESPACES[(n % 2) as usize]
}

pub(super) fn namespace_of(task: TaskId) -> NamespaceId {
    let number = (0..TASKS).find(|n| task_id(*n) == task);
    number.map_or(NamespaceId::DEFAULT, namespace_of_task)
}
