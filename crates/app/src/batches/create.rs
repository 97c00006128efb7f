//! Creating batches: all members are stored, or none.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use punctual_api::{BatchRequest, BatchView, CompensationRequest, ErrorKind, FieldCode, MemberRequest, limits};
use punctual_core::batch::{
    BatchMember, BatchOutcome, BatchStart, BatchState, Contract, MEMBERS_MAX, MemberRef, Unplaceable, member_job,
};
use punctual_core::schedule::By as DoneAt;
use punctual_core::task::{Priority, Task, TaskSpec};
use punctual_core::{BatchId, Span, TaskId, Timestamp};
use punctual_store::{BatchRow, NewJob, RequesterId, Submission, Submitted};

use super::placing::SlotKind;
use crate::principal::By;
use crate::principal::permission::SubmitJobs;
use crate::submit::{Keyed, WantedTask, near_future, replayed_bytes};
use crate::{App, AppError, Checked, Faults, KeyedRequest, Result, SubmittedAnswer, task_rights, validate};

/// Kinds of workers that the members of a gang may need. Whether there are enough slots for all of them is worked out each time
/// a slot becomes free.
const GANG_KINDS_MAX: usize = 32;

/// A task that a member runs, or that undoes it, with its place in the request.
struct WantedAt<'a> {
    pointer: String,
    name: Option<&'a str>,
    inline: Option<&'a TaskSpec>,
}

/// The tasks of all members, and then those of compensations.
struct WantedTasks<'a> {
    all: Vec<WantedAt<'a>>,
    /// For each member the place of its compensation in `all`.
    compensations: Vec<Option<usize>>,
}

impl App {
    /// Stores a batch with all of its members, and answers when that is durable.
    pub async fn create_batch(
        &self,
        by: &By<SubmitJobs>,
        request: BatchRequest,
        keyed: Option<KeyedRequest<'_>>,
    ) -> Result<SubmittedAnswer<BatchView>> {
        request.check()?;
        let wanted = wanted_tasks(&request);
        for WantedAt { pointer, inline, .. } in &wanted.all {
            if let Some(spec) = inline {
                self.check_limits(spec).map_err(|error| error.under(&format!("{pointer}/inline")))?;
                task_rights::check_inline(by, spec)?;
            }
        }
        let keyed = keyed.map(|keyed| Keyed::read(by.namespace(), keyed)).transpose()?;
        if let Some(Keyed { key, fingerprint }) = &keyed {
            // Before the tasks are looked up: what is repeated has its answer, whatever became of them.
            let before = self.0.store.idempotent_answer(key.clone(), *fingerprint, self.now()).await?;
            if let Some(before) = before {
                return self.replayed_batch(by, before).await;
            }
        }
        for WantedAt { pointer, inline, .. } in &wanted.all {
            if let Some(spec) = inline {
                self.check_secrets(by.namespace(), spec, &format!("{pointer}/inline")).await?;
            }
        }
        let admitted = self.admit_jobs(by.namespace(), request.members.len()).await?;
        let names: Vec<WantedTask<'_>> =
            wanted.all.iter().map(|one| WantedTask { name: one.name, inline: one.inline }).collect();
        let tasks = self.resolve_tasks(by.namespace(), &names, |at| wanted.all[at].pointer.clone()).await?;
        let of_members = &tasks[..request.members.len()];
        self.check_queues_open(of_members)?;
        let contract = contract_of(&request);
        if contract.start == BatchStart::Together {
            check_kinds(of_members)?;
            let is_due = request.run_at.is_none_or(|at| at <= self.now())
                && request.delay.is_none_or(|delay| delay == Span::ZERO);
            // Otherwise it is looked at when it is due: by then there may be other workers.
            if is_due {
                self.check_placeable(of_members, &contract).await?;
            }
        }
        let requester = self.requester_of(by.principal()).await?;
        let row = self.build_batch(by, &request, &wanted, &tasks, contract, requester);
        let jobs = jobs_of(&row, request, of_members, self.now());
        let hint = near_future(&jobs, of_members, self.now());
        let idempotency = keyed.map(|keyed| keyed.answered(row.id.to_bytes().to_vec().into(), self.now()));
        let count = jobs.len();
        let submission = Submission { jobs, idempotency, batch: Some(Box::new(row.clone())) };
        let submitted = self.0.store.submit(submission).await?;
        if submitted != Submitted::Done {
            return self.replayed_batch(by, submitted).await;
        }
        admitted.stored(count);
        self.0.submitted.fetch_add(count as u64, Ordering::Relaxed);
        self.tell_owners(hint);
        let warnings = self.placement_warnings(of_members.iter()).await;
        let view = BatchView { warnings, ..self.batch_view(&row).await? };
        Ok(SubmittedAnswer { answer: view, is_replayed: false })
    }

    async fn replayed_batch(&self, by: &By<SubmitJobs>, before: Submitted) -> Result<SubmittedAnswer<BatchView>> {
        let id = BatchId::from_bytes(&replayed_bytes(before)?);
        let id = id.ok_or_else(|| AppError::new(ErrorKind::Internal, "a stored answer cannot be read"))?;
        let row = self.read_batch(by.namespace(), id).await?;
        Ok(SubmittedAnswer { answer: self.batch_view(&row).await?, is_replayed: true })
    }

    fn build_batch(
        &self,
        by: &By<SubmitJobs>,
        request: &BatchRequest,
        wanted: &WantedTasks<'_>,
        tasks: &[Arc<Task>],
        contract: Contract,
        requester: RequesterId,
    ) -> BatchRow {
        let shards = self.shards_for_new_jobs();
        let turn = self.0.shard_turn.fetch_add(1, Ordering::Relaxed);
        let now = self.now();
        let run_at = request.run_at.or(request.delay.map(|delay| now + delay));
        let mut distinct: Vec<(TaskId, Priority)> = Vec::new();
        let mut places: HashMap<TaskId, u16> = HashMap::new();
        let mut place = |task: &Task| {
            *places.entry(task.id).or_insert_with(|| {
                distinct.push((task.id, task.spec.priority));
                // Two for each of 10,000 members at most.
                u16::try_from(distinct.len() - 1).unwrap_or(u16::MAX)
            })
        };
        let members: Vec<BatchMember> = (0..request.members.len())
            .map(|at| BatchMember {
                task: place(&tasks[at]),
                compensation: wanted.compensations[at].map(|at| place(&tasks[at])),
            })
            .collect();
        let state = BatchState::new(members.len(), contract);
        BatchRow {
            id: BatchId::new(now, shards[(turn % shards.len() as u64) as usize], self.random()),
            namespace: by.namespace(),
            name: request.name.clone(),
            made: DoneAt { at: now, who: by.who().to_owned() },
            requester: Some(requester),
            due_at: run_at.unwrap_or(now).max(now),
            tasks: distinct,
            members,
            status: state.status(),
            state,
        }
    }
}

fn jobs_of(row: &BatchRow, request: BatchRequest, tasks: &[Arc<Task>], now: Timestamp) -> Vec<NewJob> {
    let size = row.members.len();
    let tracing_id = row.id.to_string();
    let job = |(place, (member, task)): (u16, (MemberRequest, &Arc<Task>))| NewJob {
        id: member_job(row.id, row.due_at, place),
        namespace: task.namespace,
        task: task.id,
        priority: member.priority.unwrap_or(task.spec.priority),
        submitted_at: now,
        tracing_id: Some(tracing_id.clone()),
        source: None,
        requester: row.requester,
        node: None,
        member: Some(MemberRef::member(row.id, place, size, &row.state.contract)),
        input: member.input.map(|json| Bytes::from(Box::<str>::from(json).into_string())),
    };
    (0..).zip(request.members.into_iter().zip(tasks)).map(job).collect()
}

fn contract_of(request: &BatchRequest) -> Contract {
    Contract {
        start: request.start,
        start_timeout: (request.start == BatchStart::Together)
            .then(|| request.start_timeout.unwrap_or(Contract::START_TIMEOUT)),
        on_start_timeout: request.on_start_timeout.unwrap_or_default(),
        unplaceable: request.unplaceable.unwrap_or(Unplaceable::Wait),
        outcome: request.outcome,
    }
}

fn wanted_tasks(request: &BatchRequest) -> WantedTasks<'_> {
    let mut all: Vec<WantedAt<'_>> = Vec::with_capacity(request.members.len());
    for (place, member) in request.members.iter().enumerate() {
        let pointer = format!("/members/{place}");
        all.push(WantedAt { pointer, name: member.task.as_deref(), inline: member.inline.as_ref() });
    }
    let mut of_batch = None;
    let mut compensations = Vec::with_capacity(request.members.len());
    for (place, member) in request.members.iter().enumerate() {
        compensations.push(match (&member.compensation, &request.compensation) {
            (Some(own), _) => {
                let pointer = format!("/members/{place}/compensation");
                all.push(WantedAt { pointer, name: own.task.as_deref(), inline: own.inline.as_ref() });
                Some(all.len() - 1)
            }
            (None, Some(shared)) => Some(*of_batch.get_or_insert_with(|| {
                let pointer = "/compensation".to_owned();
                all.push(WantedAt { pointer, name: shared.task.as_deref(), inline: shared.inline.as_ref() });
                all.len() - 1
            })),
            (None, None) => None,
        });
    }
    WantedTasks { all, compensations }
}

fn check_kinds(tasks: &[Arc<Task>]) -> Result<()> {
    let kinds: BTreeSet<SlotKind> = tasks.iter().map(|task| SlotKind::of(&task.spec)).collect();
    if kinds.len() <= GANG_KINDS_MAX {
        return Ok(());
    }
    let detail = format!(
        "the members of a batch that starts together may need at most {GANG_KINDS_MAX} kinds of workers, not {}",
        kinds.len()
    );
    Err(AppError::field("/members", detail)
        .hint("a kind is a queue, what is run, and labels; let some members agree on them"))
}

/// Exactly one of a name and a definition.
fn check_task(name: Option<&str>, inline: Option<&TaskSpec>, what: &str) -> Result<()> {
    match (name, inline) {
        (Some(name), None) => validate::name("/task", name),
        (None, Some(spec)) => validate::spec(spec).map_err(|error| error.under("/inline")),
        (Some(_), Some(_)) => Err(AppError::field("", format!("the {what} has both a task and an inline definition"))
            .hint("give one of the two")),
        (None, None) => Err(AppError::field("", format!("the {what} names no task"))
            .hint("give `task`, the name of a task, or define one in `inline`")),
    }
}

impl Checked for CompensationRequest {
    fn check(&self) -> Result<()> {
        check_task(self.task.as_deref(), self.inline.as_ref(), "compensation")
    }
}

impl Checked for MemberRequest {
    fn check(&self) -> Result<()> {
        let mut faults = Faults::default();
        faults.check(check_task(self.task.as_deref(), self.inline.as_ref(), "member"));
        if let Some(input) = &self.input {
            faults.check(validate::input(input.get()));
        }
        if let Some(compensation) = &self.compensation {
            faults.check(compensation.check().map_err(|error| error.under("/compensation")));
        }
        faults.finish()
    }
}

impl Checked for BatchRequest {
    fn check(&self) -> Result<()> {
        let mut faults = Faults::default();
        if let Some(name) = &self.name {
            faults.check(validate::text("/name", name, limits::NAME_CHARS_MAX));
            if name.is_empty() {
                faults.check(Err(AppError::field("/name", "must not be empty").hint("leave it out")));
            }
        }
        let is_together = self.start == BatchStart::Together;
        let (count, max) = (self.members.len(), if is_together { Contract::GANG_MAX } else { MEMBERS_MAX });
        if count == 0 || count > max {
            let with = if is_together { " that start together" } else { "" };
            let detail = format!("must be 1 to {max} members{with}, not {count}");
            faults.check(Err(AppError::length("/members", detail, count)));
        }
        faults.check(check_start(self));
        if self.run_at.is_some() && self.delay.is_some() {
            let error = AppError::field("/delay", "the batch has both `run_at` and `delay`");
            faults.check(Err(error.hint("give one of the two")));
        }
        let has_compensation =
            |member: &MemberRequest| member.compensation.is_some() && self.outcome != BatchOutcome::AllOrNothing;
        if self.compensation.is_some() && self.outcome != BatchOutcome::AllOrNothing {
            faults.check(Err(needs_all_or_nothing("/compensation")));
        }
        if let Some(compensation) = &self.compensation {
            faults.check(compensation.check().map_err(|error| error.under("/compensation")));
        }
        for (place, member) in self.members.iter().enumerate() {
            let under = format!("/members/{place}");
            faults.check(member.check().map_err(|error| error.under(&under)));
            if has_compensation(member) {
                faults.check(Err(needs_all_or_nothing(&format!("{under}/compensation"))));
            }
            if faults.is_full() {
                break;
            }
        }
        faults.finish()
    }
}

/// Without this, it would never run.
fn needs_all_or_nothing(pointer: &str) -> AppError {
    AppError::field(pointer, "a compensation is only for batches with `outcome: all_or_nothing`")
        .hint("leave it out, or declare that outcome")
}

/// What is declared about the start.
fn check_start(request: &BatchRequest) -> Result<()> {
    let mut faults = Faults::default();
    let given = [
        ("/start_timeout", request.start_timeout.is_some()),
        ("/on_start_timeout", request.on_start_timeout.is_some()),
        ("/unplaceable", request.unplaceable.is_some()),
    ];
    if request.start != BatchStart::Together {
        for (pointer, _) in given.into_iter().filter(|(_, is_given)| *is_given) {
            let error = AppError::field(pointer, "is only for batches with `start: together`");
            faults.check(Err(error.hint("leave it out, or let the members start together")));
        }
    }
    if let Some(timeout) = request.start_timeout
        && !(Span::from_secs(1)..=Contract::START_TIMEOUT_MAX).contains(&timeout)
    {
        let error = AppError::field("/start_timeout", "must be 1 second to 30 days");
        faults.check(Err(error.code(FieldCode::OutOfRange)));
    }
    faults.finish()
}
