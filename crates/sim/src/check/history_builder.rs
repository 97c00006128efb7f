//! Small histories made by hand, to see each promise fail.

use std::sync::Arc;

use punctual_core::attempt::{AttemptRecord, Details, Ending, Failure, FailureClass, Outcome};
use punctual_core::namespace::ServedNamespaces;
use punctual_core::notice::{Notice, NoticeKind};
use punctual_core::shard::event::{Command, Reply, Token};
use punctual_core::shard::write::{
    Batch, BatchSeq, CancelMark, Epoch, JobWrite, Requeue, Rerun, ResolveLost, Settle, Start, Void, Write,
};
use punctual_core::task::{Probe, Run, Task, TaskSpec};
use punctual_core::{
    AttemptNo, Counters, JobId, JobKey, JobState, NamespaceId, ServerId, ShardId, Span, TaskId, Timestamp, WorkerId,
};
use punctual_promises::StartRecord;
use punctual_store::{FinishedJob, HotJob, JobRecord, Owned};

use super::check;
use crate::history::{ExecutionEnd, Fact, History, RequestNo};
use crate::plan::START;

/// Builds a history step by step. The clock goes on by one second with each.
pub(super) struct HistoryBuilder {
    history: History,
    now: Timestamp,
    pub(super) id: JobId,
    task: Arc<Task>,
    tokens: u64,
    /// Recorded with the ends that follow.
    details: Option<Box<Details>>,
    notice_kind: Option<NoticeKind>,
}

pub(super) fn worker() -> WorkerId {
    WorkerId::new(START, 1)
}

fn server() -> ServerId {
    ServerId::new(START, 1)
}

pub(super) fn secs(secs: i64) -> Span {
    Span::from_secs(secs)
}

impl HistoryBuilder {
    /// A job that was submitted, acknowledged, and is due at once.
    pub(super) fn new(adjust: impl FnOnce(&mut TaskSpec)) -> Self {
        let builder = Self::unacknowledged(adjust);
        let jobs = vec![builder.id];
        builder.fact(Fact::SubmitOk { request: RequestNo(1), jobs })
    }

    pub(super) fn unacknowledged(adjust: impl FnOnce(&mut TaskSpec)) -> Self {
        let id = JobId::new(START + secs(1), ShardId(0), 1);
        let mut spec = TaskSpec::new(Run::Probe(Probe::default()));
        spec.retry.jitter = 0.0;
        spec.node_retry.jitter = 0.0;
        adjust(&mut spec);
        let task = Task {
            namespace: NamespaceId::DEFAULT,
            id: TaskId::new(START, 1),
            name: None,
            revision: 1,
            created_at: START,
            updated_at: START,
            spec,
            waits_for: None,
            created_by: None,
            changed_by: None,
        };
        let task = Arc::new(task);
        let builder = Self {
            history: History::default(),
            now: START,
            id,
            task: Arc::clone(&task),
            tokens: 0,
            details: None,
            notice_kind: None,
        };
        builder
            .fact(Fact::Joined { worker: worker(), slots: 1, namespaces: ServedNamespaces::All })
            .fact(Fact::Submit { request: RequestNo(1), jobs: vec![id], task })
    }

    pub(super) fn fact(mut self, fact: Fact) -> Self {
        self.now = self.now + secs(1);
        self.history.push(self.now, fact);
        self
    }

    pub(super) fn pass(mut self, time: Span) -> Self {
        self.now = self.now + time;
        self
    }

    pub(super) fn write(self, write: Write) -> Self {
        self.write_under(1, write)
    }

    pub(super) fn write_under(self, epoch: u64, write: Write) -> Self {
        let fences = vec![(ShardId(0), Epoch(epoch))];
        let batch = Batch { seq: BatchSeq(1), server: server(), fences, at: self.now, writes: vec![write] };
        self.fact(Fact::Committed { batch: Arc::new(batch), void: Void::default() })
    }

    pub(super) fn lease(self, epoch: u64) -> Self {
        let owned = Owned { shard: ShardId(0), epoch: Epoch(epoch) };
        self.fact(Fact::Leased { server: server(), owned })
    }

    pub(super) fn start(self, attempt: u32) -> Self {
        let start = Start {
            key: JobKey::original(self.id),
            attempt: AttemptNo(attempt),
            worker: worker(),
            picked_up_at: self.now,
            started_at: self.now,
            gang: None,
        };
        self.write(Write::Job(JobWrite::Start(start)))
    }

    pub(super) fn begin(self, attempt: u32) -> Self {
        let (id, worker) = (self.id, worker());
        self.fact(Fact::Begin { id, attempt: AttemptNo(attempt), worker, start: StartRecord::Durable })
    }

    pub(super) fn end(self, attempt: u32, outcome: Outcome) -> Self {
        self.end_with(attempt, outcome, None)
    }

    pub(super) fn end_with(self, attempt: u32, outcome: Outcome, details: Option<Details>) -> Self {
        let (id, worker) = (self.id, worker());
        let how = ExecutionEnd::Reported { outcome, timed_out: false, details: details.map(Box::new) };
        self.fact(Fact::End { id, attempt: AttemptNo(attempt), worker, how })
    }

    /// Begins, ends and settles in good order.
    pub(super) fn succeed(self, attempt: u32) -> Self {
        self.start(attempt)
            .begin(attempt)
            .end(attempt, succeeded())
            .settle(JobState::Succeeded, Some((attempt, Ending::Succeeded)))
    }

    /// An attempt that is started, runs, fails and is tried again after `wait`.
    pub(super) fn fail_and_retry(self, attempt: u32, wait: Span) -> Self {
        let builder = self.start(attempt).begin(attempt).end(attempt, failed());
        let due_at = builder.now + wait;
        builder.requeue(Some((attempt, Ending::Failed)), due_at)
    }

    pub(super) fn with_details(self, details: Option<Details>) -> Self {
        Self { details: details.map(Box::new), ..self }
    }

    /// The ends that follow carry a notice of this kind.
    pub(super) fn with_notice(self, kind: NoticeKind) -> Self {
        Self { notice_kind: Some(kind), ..self }
    }

    fn notice(&self) -> Option<Box<Notice>> {
        self.notice_kind.map(|kind| Box::new(Notice::of_job(kind, self.id, None, None, self.now)))
    }

    fn record(&self, attempt: u32, ending: Ending) -> AttemptRecord {
        let failed = ending == Ending::Failed;
        AttemptRecord {
            attempt: AttemptNo(attempt),
            worker: worker(),
            server: server(),
            due_at: self.id.due_at(),
            picked_up_at: self.now,
            started_at: self.now,
            finished_at: self.now,
            ending,
            reason: failed.then(|| "exit code 1".to_owned()),
            details: self.details.clone(),
            log: None,
        }
    }

    pub(super) fn settle(self, state: JobState, ended: Option<(u32, Ending)>) -> Self {
        let settle = Settle {
            key: JobKey::original(self.id),
            state,
            finished_at: self.now,
            counters: Counters::NEW,
            attempt: ended.map(|(attempt, ending)| self.record(attempt, ending)),
            reason: None,
            output: None,
            cancel: CancelMark::None,
            notice: self.notice(),
            success_of: None,
            node: None,
            member: None,
        };
        self.write(Write::Job(JobWrite::Settle(settle)))
    }

    pub(super) fn requeue(self, ended: Option<(u32, Ending)>, due_at: Timestamp) -> Self {
        let requeue = Requeue {
            key: JobKey::original(self.id),
            due_at,
            counters: Counters::NEW,
            give_backs: None,
            attempt: ended.map(|(attempt, ending)| self.record(attempt, ending)),
            cancel: CancelMark::None,
        };
        self.write(Write::Job(JobWrite::Requeue(requeue)))
    }

    pub(super) fn rerun(self) -> Self {
        let rerun = Rerun { id: self.id, due_at: self.now, counters: Counters::NEW };
        self.write(Write::Job(JobWrite::Rerun(rerun)))
    }

    pub(super) fn resolve(self, attempt: u32, state: JobState) -> Self {
        let resolve = ResolveLost {
            id: self.id,
            attempt: AttemptNo(attempt),
            state,
            finished_at: self.now,
            reason: None,
            output: None,
            details: self.details.clone(),
            notice: None,
        };
        self.write(Write::Job(JobWrite::ResolveLost(resolve)))
    }

    pub(super) fn acked(self, attempt: u32) -> Self {
        let id = self.id;
        self.fact(Fact::Acked { id, attempt: AttemptNo(attempt) })
    }

    pub(super) fn ask(mut self, command: Command) -> Self {
        self.tokens += 1;
        let (id, token) = (self.id, Token(self.tokens));
        self.fact(Fact::Ask { token, id, command })
    }

    pub(super) fn order(self, command: Command, reply: Reply) -> Self {
        let builder = self.ask(command);
        let token = Token(builder.tokens);
        builder.fact(Fact::Answer { token, reply })
    }

    pub(super) fn gone(self) -> Self {
        let id = self.id;
        self.fact(Fact::Final { id, record: None })
    }

    pub(super) fn still_hot(self, due_at: Timestamp) -> Self {
        let (id, task) = (self.id, self.task.id);
        let job = HotJob {
            namespace: NamespaceId::DEFAULT,
            key: JobKey { due_at, id },
            task,
            priority: Default::default(),
            counters: Counters::NEW,
            submitted_at: START,
            tracing_id: None,
            source: None,
            give_backs: None,
            cancel_requested: false,
        };
        self.fact(Fact::Final {
            id,
            record: Some(JobRecord::Hot { job, requester: None, input: None, attempts: Vec::new() }),
        })
    }

    pub(super) fn finished(self, state: JobState, reason: Option<&str>) -> Self {
        let (id, task) = (self.id, self.task.id);
        let job = FinishedJob {
            namespace: NamespaceId::DEFAULT,
            id,
            task,
            priority: Default::default(),
            counters: Counters::NEW,
            submitted_at: START,
            tracing_id: None,
            source: None,
            state,
            finished_at: self.now,
            due_at: id.due_at(),
            reason: reason.map(str::to_owned),
        };
        let record = JobRecord::Finished { job, requester: None, input: None, output: None, attempts: Vec::new() };
        self.fact(Fact::Final { id, record: Some(record) })
    }

    pub(super) fn id(&self) -> JobId {
        self.id
    }

    pub(super) fn now(&self) -> Timestamp {
        self.now
    }

    #[track_caller]
    pub(super) fn holds(self) {
        let found = check(&self.history);
        assert!(found.is_empty(), "{found:?}");
    }

    /// For a history of which other promises say what they will.
    #[track_caller]
    pub(super) fn does_not_break(self, promise: &str) {
        let found = check(&self.history);
        assert!(!found.iter().any(|violation| violation.promise == promise), "{found:?}");
    }

    #[track_caller]
    pub(super) fn breaks(self, promise: &str) {
        let found = check(&self.history);
        assert!(found.iter().any(|violation| violation.promise == promise), "not found; found {found:?}");
    }
}

pub(super) fn succeeded() -> Outcome {
    Outcome::Succeeded { output: None }
}

pub(super) fn failed() -> Outcome {
    Outcome::Failed(Failure::new("exit code 1"))
}

pub(super) fn failed_by(class: FailureClass) -> Outcome {
    Outcome::Failed(Failure { class, ..Failure::new("exit code 1") })
}

pub(super) fn of_class(class: FailureClass) -> Option<Details> {
    Some(Details { class: Some(class), ..Details::default() })
}
