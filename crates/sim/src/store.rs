//! The one store of the world: the model, plus a note of everything it took.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use punctual_core::batch::BatchEvent;
use punctual_core::notice::{Notice, NoticeKind};
use punctual_core::queue::QueueState;
use punctual_core::schedule::recurrence::Calendar;
use punctual_core::schedule::{By, OccurrenceRow, Plan, seed_of};
use punctual_core::shard::event::{Adopted, Found, Load, Loaded, LoadedSchedule, ScheduleLoad, TakenSchedules};
use punctual_core::shard::write::{Batch, CancelMark, Epoch, SharedBatch, StartsId, Void};
use punctual_core::task::Task;
use punctual_core::workflow::RunEvent;
use punctual_core::{
    AttemptNo, BatchId, JobId, JobKey, JobRow, RunId, ScheduleId, ServerId, ShardId, TaskId, Timestamp,
};
use punctual_store::{
    AllQueues, Applied, BatchChange, BatchRow, Filter, FoundRow, JobRecord, LoadedRow, OccurrenceFilter, Order, Owned,
    Position, QueueRow, RunChange, RunRow, ShardSchedules, Submission, Submitted, WorkflowRow, run_ends,
};
use punctual_store_tests::model::{JobOfRun, ModelStore, State};

use crate::calendars::calendars;
use crate::options::Planted;
use crate::plan::LEASE_TTL;
use crate::queues::{QueueKey, QueueSnapshot};

pub(crate) struct SimStore {
    model: ModelStore,
    tasks: BTreeMap<TaskId, Arc<Task>>,
    bug: Option<Planted>,
    calendars: BTreeMap<String, Arc<Calendar>>,
    calendar_changes: u64,
    /// How often commits were lost.
    losses: u64,
    /// What specs mean by these calendars; equal specs share a plan.
    plans: RefCell<BTreeMap<String, Arc<Plan>>>,
    /// The epoch of each shard, as the leases have raised it.
    epochs: BTreeMap<ShardId, Owned>,
}

/// What became of a batch.
pub(crate) enum BatchResult {
    Done {
        void: Void,
        /// The jobs of runs that it released.
        released: Vec<Loaded>,
    },
    Fenced(Vec<ShardId>),
    /// The store was asked for what cannot be: a bug of ours.
    Broken(String),
}

impl SimStore {
    pub(crate) fn new(shards: u16, tasks: &[Arc<Task>], now: Timestamp, bug: Option<Planted>) -> Self {
        let model = ModelStore::new(shards, now);
        let interned =
            (0u8..).zip(tasks).map(|(number, task)| (Task { name: None, ..Task::clone(task) }, [number; 32])).collect();
        model.intern_tasks_now(interned).expect("the tasks are new");
        let tasks = tasks.iter().map(|task| (task.id, Arc::clone(task))).collect();
        let (calendars, plans) = (calendars(None), RefCell::default());
        Self { model, tasks, bug, calendars, calendar_changes: 0, losses: 0, plans, epochs: BTreeMap::new() }
    }

    pub(crate) fn set_now(&self, now: Timestamp) {
        self.model.set_now(now);
    }

    pub(crate) fn apply(&self, batch: &SharedBatch) -> BatchResult {
        let mut batch = Batch::clone(batch);
        if self.bug == Some(Planted::NoFence) {
            batch = self.without_fence(&batch);
        }
        match self.model.apply_now(&batch) {
            Ok(Applied::Done { void, steps }) => {
                let released = steps.released.into_iter();
                let released = released.map(|row| Loaded { task: Arc::clone(self.task(row.task)), row }).collect();
                BatchResult::Done { void, released }
            }
            Ok(Applied::Fenced(shards)) => {
                if self.bug == Some(Planted::RunStepUnfenced) {
                    self.step_runs_without_fence(&batch);
                }
                BatchResult::Fenced(shards)
            }
            Err(error) => BatchResult::Broken(error.to_string()),
        }
    }

    /// What follows from the ends of jobs, without these ends.
    fn step_runs_without_fence(&self, batch: &Batch) {
        for (run, events) in run_ends(batch, &Void::default()) {
            for event in events {
                self.model.change_run_now(run, event, batch.at).expect("the run can be stepped");
            }
        }
    }

    fn without_fence(&self, batch: &Batch) -> Batch {
        let current = |&(shard, epoch)| (shard, self.epochs.get(&shard).map_or(epoch, |owned| owned.epoch));
        Batch { fences: batch.fences.iter().map(current).collect(), ..batch.clone() }
    }

    pub(crate) fn load(&self, load: &Load) -> (Vec<Loaded>, Option<JobKey>) {
        let page = self.model.load_now(load);
        (page.rows.into_iter().map(|row| self.loaded(row)).collect(), page.stopped_at)
    }

    pub(crate) fn find(&self, id: JobId) -> Found {
        match self.model.find_now(id) {
            FoundRow::Hot(row) => Found::Waiting(self.loaded(row)),
            FoundRow::Finished { state, attempt, counters } => Found::Finished { state, attempt, counters },
            FoundRow::Absent => Found::Absent,
        }
    }

    pub(crate) fn open_starts(&self, shard: ShardId) -> (Vec<Adopted>, Vec<StartsId>, Epoch) {
        let mut open = self.model.open_starts_now(shard);
        if self.bug == Some(Planted::TakeoverForgetsCancel) {
            for (start, _) in &mut open.running {
                start.cancel = CancelMark::None;
            }
        }
        let adopt = |(start, row)| Adopted { start, job: self.loaded(row) };
        (open.running.into_iter().map(adopt).collect(), open.spent, open.whole_since)
    }

    pub(crate) fn snapshot(&self) -> State {
        self.model.snapshot()
    }

    /// The commits since are lost, and with them what the servers owned.
    pub(crate) fn go_back_to(&mut self, snapshot: State, servers: Vec<ServerId>) {
        self.model.go_back_to(snapshot);
        self.losses += 1;
        for server in servers {
            self.release(server);
        }
    }

    /// Which queues are paused.
    pub(crate) fn queue_snapshot(&self) -> QueueSnapshot {
        let AllQueues { revision, rows } = self.model.queues_now();
        let paused = rows.into_iter().filter(|row| row.state == QueueState::Paused);
        let paused = paused.map(|row| (row.namespace, row.name)).collect();
        QueueSnapshot { version: (self.losses, revision), paused }
    }

    pub(crate) fn set_queue(&self, (namespace, name): &QueueKey, is_paused: bool) {
        let rows = self.model.queues_now().rows;
        let known = rows.iter().find(|row| row.namespace == *namespace && row.name == *name);
        let by = || By { at: Timestamp::EPOCH, who: "client".to_owned() };
        let row = QueueRow {
            namespace: *namespace,
            name: name.clone(),
            revision: known.map_or(1, |row| row.revision + 1),
            state: if is_paused { QueueState::Paused } else { QueueState::Active },
            state_by: by(),
            note: None,
            changed: by(),
            spec: "{}".to_owned(),
        };
        self.model.put_queue_now(row).expect("the revision is the next one");
    }

    /// Who owns a shard by the store, whether or not the lease is over.
    pub(crate) fn lease_owners(&self) -> BTreeSet<ServerId> {
        self.model.leases_now().into_iter().filter_map(|lease| lease.owner).collect()
    }

    pub(crate) fn all_open_starts(&self, shards: u16) -> Vec<(JobId, AttemptNo)> {
        let of_shard = |shard| self.open_starts(ShardId(shard)).0;
        let all = (0..shards).flat_map(of_shard);
        all.map(|adopted| (adopted.start.start.key.id, adopted.start.start.attempt)).collect()
    }

    pub(crate) fn taken_schedules(&self, shard: ShardId) -> TakenSchedules {
        let ShardSchedules { watermark, queued, tracked } = self.model.shard_schedules_now(shard);
        TakenSchedules { watermark, queued, tracked }
    }

    pub(crate) fn load_schedules(&self, load: ScheduleLoad) -> (Vec<LoadedSchedule>, Option<ScheduleId>) {
        let rows = self.model.load_schedules_now(load.shard, load.after, load.limit);
        let next = rows.last().map(|row| row.id).filter(|_| rows.len() >= load.limit);
        (rows.into_iter().map(|row| self.loaded_schedule(row)).collect(), next)
    }

    fn loaded_schedule(&self, row: LoadedRow) -> LoadedSchedule {
        let seed = seed_of(&row.name);
        LoadedSchedule {
            id: row.id,
            plan: self.plan(&row.spec, seed),
            task: Arc::clone(&self.tasks[&row.task]),
            name: row.name.into(),
            priority: row.priority,
            has_input: row.has_input,
            state: row.state,
        }
    }

    /// What a spec means by the calendars that there are now.
    pub(crate) fn plan(&self, spec: &str, seed: u64) -> Arc<Plan> {
        let mut plans = self.plans.borrow_mut();
        let plan = plans
            .entry(spec.to_owned())
            .or_insert_with(|| Arc::new(Plan::read(spec, &self.calendars, seed).expect("the clients make good specs")));
        Arc::clone(plan)
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.calendars.values().any(|calendar| !calendar.dates.is_empty())
    }

    /// The calendar closes on a day, or opens again. Plans that it does not concern stay what they are.
    pub(crate) fn set_closed(&mut self, on: Option<Timestamp>) {
        self.calendars = calendars(on);
        self.calendar_changes += 1;
        self.plans.borrow_mut().retain(|_, plan| plan.spec.calendars.is_empty());
    }

    pub(crate) fn calendar_changes(&self) -> u64 {
        self.calendar_changes
    }

    /// The schedules of a shard that obey a calendar.
    pub(crate) fn schedules_with_calendars(&self, shard: ShardId) -> Vec<LoadedSchedule> {
        let rows = self.model.load_schedules_now(shard, None, usize::MAX);
        let loaded = rows.into_iter().map(|row| self.loaded_schedule(row));
        loaded.filter(|loaded| !loaded.plan.spec.calendars.is_empty()).collect()
    }

    pub(crate) fn name_of(&self, id: ScheduleId) -> Option<String> {
        self.model.schedule_now(id).map(|row| row.name)
    }

    /// Whether a planned time waits, and is not held up by a pause.
    pub(crate) fn has_queued(&self) -> bool {
        let shards = 0..self.model.leases_now().len() as u16;
        let queued = shards.flat_map(|shard| self.model.shard_schedules_now(ShardId(shard)).queued);
        let is_paused = |id| self.model.schedule_now(id).is_some_and(|row| row.state.pause.is_some());
        queued.into_iter().any(|row| !is_paused(row.schedule))
    }

    /// What became of all planned times of a schedule.
    pub(crate) fn occurrences(&self, id: ScheduleId) -> Vec<OccurrenceRow> {
        self.model.occurrences_now(id, &OccurrenceFilter::default(), None, Order::Ascending, usize::MAX).0
    }

    /// Whether the start of this attempt is on record, ended or not.
    pub(crate) fn has_start(&self, id: JobId, attempt: AttemptNo) -> bool {
        let open = self.model.open_starts_now(id.shard());
        let is_it = |start: &punctual_core::shard::write::Start| start.key.id == id && start.attempt == attempt;
        open.running.iter().any(|(open, _)| is_it(&open.start))
            || self.job(id).is_some_and(|record| attempts(&record).iter().any(|ran| ran.attempt == attempt))
    }

    pub(crate) fn submit(&self, submission: Submission) -> Submitted {
        self.model.submit_now(submission).expect("the client makes good submissions")
    }

    /// Stores the definition too: each run here has its own.
    pub(crate) fn start_run(&self, row: RunRow, definition: &str) -> Result<RunChange, String> {
        let (namespace, name, made) = (row.namespace, row.workflow.clone(), row.made.clone());
        self.model.put_workflow_now(WorkflowRow { namespace, name, version: 1, spec: definition.to_owned(), made });
        self.model.start_run_now(row).map_err(|error| error.to_string())
    }

    pub(crate) fn change_run(&self, id: RunId, event: RunEvent, at: Timestamp) -> Result<Option<RunChange>, String> {
        self.model.change_run_now(id, event, at).map_err(|error| error.to_string())
    }

    pub(crate) fn run(&self, id: RunId) -> Option<RunRow> {
        self.model.run_now(id)
    }

    pub(crate) fn due_runs(&self, at: Timestamp, limit: usize) -> Vec<RunId> {
        self.model.due_runs_now(at, None, limit).into_iter().map(|run| run.id).collect()
    }

    /// The jobs of a run that have not ended.
    pub(crate) fn jobs_of_run(&self, run: RunId) -> Vec<JobOfRun> {
        self.model.jobs_of_run_now(run)
    }

    pub(crate) fn batch(&self, id: BatchId) -> Option<BatchRow> {
        self.model.batch_now(id)
    }

    pub(crate) fn change_batch(
        &self,
        id: BatchId,
        event: BatchEvent,
        at: Timestamp,
    ) -> Result<Option<BatchChange>, String> {
        self.model.change_batch_now(id, event, at).map_err(|error| error.to_string())
    }

    pub(crate) fn due_batches(&self, at: Timestamp) -> Vec<BatchId> {
        self.model.due_batches_now(at, None, 100).into_iter().map(|due| due.id).collect()
    }

    pub(crate) fn renew(&self, server: ServerId) -> Vec<Owned> {
        self.model.renew_now(server, LEASE_TTL).expect("renewing always works")
    }

    pub(crate) fn acquire(&mut self, server: ServerId, limit: usize) -> Vec<Owned> {
        let owned = self.model.acquire_now(server, LEASE_TTL, limit).expect("acquiring always works");
        self.note(&owned);
        owned
    }

    pub(crate) fn take_over(&mut self, server: ServerId, shards: Vec<ShardId>) -> Vec<Owned> {
        let owned = self.model.take_over_now(server, shards, LEASE_TTL).expect("the shards exist");
        self.note(&owned);
        owned
    }

    pub(crate) fn release(&self, server: ServerId) {
        self.model.release_now(server).expect("releasing always works");
    }

    /// Unless it has been taken over since.
    pub(crate) fn give_up(&self, server: ServerId, owned: Owned) {
        if self.epoch(owned.shard) == Some(owned) {
            self.model.give_up_now(server, &[owned.shard]).expect("giving up always works");
        }
    }

    fn note(&mut self, owned: &[Owned]) {
        for lease in owned {
            self.epochs.insert(lease.shard, *lease);
        }
    }

    /// Who owns the shard according to the store.
    pub(crate) fn epoch(&self, shard: ShardId) -> Option<Owned> {
        self.epochs.get(&shard).copied()
    }

    /// All that people are to be told, in order.
    pub(crate) fn notices(&self) -> Vec<Notice> {
        self.model.waiting_notices_now(usize::MAX).into_iter().map(|waiting| waiting.notice).collect()
    }

    /// Tasks that have failed and not succeeded since.
    pub(crate) fn ailing(&self) -> Vec<TaskId> {
        let mut ailing = BTreeSet::new();
        for notice in self.notices() {
            // Of the late result of a lost job the owner does not have the task at hand.
            let task = notice.task.or_else(|| notice.job.and_then(|job| self.task_of(job)));
            let Some(task) = task else { continue };
            match notice.kind {
                NoticeKind::Failed | NoticeKind::Lost | NoticeKind::Quarantined => drop(ailing.insert(task)),
                NoticeKind::Recovered => drop(ailing.remove(&task)),
                NoticeKind::Missed | NoticeKind::Late => {}
            }
        }
        ailing.into_iter().collect()
    }

    pub(crate) fn job(&self, id: JobId) -> Option<JobRecord> {
        self.model.job_now(id)
    }

    fn task_of(&self, job: JobId) -> Option<TaskId> {
        self.job(job).map(|record| match record {
            JobRecord::Hot { job, .. } => job.task,
            JobRecord::Finished { job, .. } => job.task,
        })
    }

    pub(crate) fn hot(&self) -> Vec<punctual_store::HotJob> {
        self.model.list_jobs_now(&Filter::default(), everything()).hot.rows
    }

    /// How many jobs there are in all.
    pub(crate) fn job_count(&self) -> usize {
        let pages = self.model.list_jobs_now(&Filter::default(), everything());
        pages.hot.rows.len() + pages.finished.rows.len()
    }

    pub(crate) fn loaded(&self, row: JobRow) -> Loaded {
        let task = Arc::clone(&self.tasks[&row.task]);
        Loaded { row, task }
    }

    /// The file has arrived that a task waits for.
    pub(crate) fn arrive(&mut self, id: TaskId) -> Arc<Task> {
        let known = &self.tasks[&id];
        let task = Arc::new(Task { revision: known.revision + 1, waits_for: None, ..Task::clone(known) });
        self.tasks.insert(id, Arc::clone(&task));
        task
    }

    pub(crate) fn task(&self, id: TaskId) -> &Arc<Task> {
        &self.tasks[&id]
    }
}

fn everything() -> Position {
    Position { after: None, order: Order::Ascending, limit: usize::MAX }
}

pub(crate) fn attempts(record: &JobRecord) -> &[punctual_core::attempt::AttemptRecord] {
    match record {
        JobRecord::Hot { attempts, .. } | JobRecord::Finished { attempts, .. } => attempts,
    }
}
