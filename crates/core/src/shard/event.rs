//! What comes into the owner and what goes out of it.

use std::sync::Arc;

use bytes::Bytes;

use crate::attempt::{AttemptNo, Details, Outcome};
use crate::id::{JobId, ScheduleId, ShardId, TaskId, WorkerId};
use crate::job::{Counters, JobKey, JobRow};
use crate::lifecycle::JobState;
use crate::namespace::{NamespaceId, ServedNamespaces};
use crate::schedule::{OccurrenceRow, Origin, Plan, ScheduleState, Source};
use crate::shard::ask::{Answer, Ask};
use crate::shard::gangs::GangKey;
use crate::shard::write::{Epoch, OpenStart, StartsId};
use crate::task::{Priority, Task};
use crate::time::{Span, Timestamp};

/// One connection of a worker; a reconnection makes a larger one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct StreamId(pub u64);

/// Lets whoever waits for an answer find it again.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Token(pub u64);

impl Token {
    /// The owner's own wishes: nobody waits for an answer.
    pub const NOBODY: Self = Self(u64::MAX);
}

/// A waiting job with the definition it runs by.
#[derive(Debug, Clone)]
pub struct Loaded {
    pub row: JobRow,
    pub task: Arc<Task>,
}

/// What a schedule means, made before the owner is asked: it takes a while.
#[derive(Debug, Clone)]
pub struct Made {
    pub plan: Arc<Plan>,
    pub task: Arc<Task>,
    /// The newest revision of calendars that the plan knows.
    pub calendars: u32,
}

/// A stored schedule with what it means.
#[derive(Debug, Clone)]
pub struct LoadedSchedule {
    pub id: ScheduleId,
    pub plan: Arc<Plan>,
    pub task: Arc<Task>,
    pub name: Box<str>,
    pub priority: Option<Priority>,
    pub has_input: bool,
    pub state: ScheduleState,
}

/// What a former owner left of a shard's schedules, besides the schedules.
#[derive(Debug, Clone, Default)]
pub struct TakenSchedules {
    pub watermark: Timestamp,
    pub queued: Vec<OccurrenceRow>,
    /// Jobs that have not ended and that others may wait for.
    pub tracked: Vec<(Source, JobId)>,
}

/// Asks for the schedules of a shard in order of id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScheduleLoad {
    pub shard: ShardId,
    pub epoch: Epoch,
    pub after: Option<ScheduleId>,
    pub limit: usize,
}

/// A start that outlived its owner, with the job it belongs to.
#[derive(Debug, Clone)]
pub struct Adopted {
    pub start: OpenStart,
    pub job: Loaded,
}

/// What is to be noticed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Watch {
    /// Tasks that have failed and not succeeded since.
    pub ailing: Vec<TaskId>,
    /// The limits of all rules that want to know what is late, the shortest first.
    pub late_after: Vec<Span>,
}

/// The jobs that a batch released in runs of workflows, with the ends of those before them.
#[derive(Debug, Clone)]
pub enum Released {
    /// The owner is not told of them, and reads them.
    InStore,
    /// All of them. What finds no room in memory is read later.
    AtHand(Vec<Loaded>),
}

/// A queue whose jobs do not start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PausedQueue {
    pub namespace: NamespaceId,
    pub name: String,
    /// Such as: since 2026-11-18T12:00:00Z by user:ana: the provider is down
    pub since: String,
}

#[derive(Debug, Clone)]
pub enum Event {
    /// This server owns the shard from now on, under this epoch.
    Acquired {
        shard: ShardId,
        epoch: Epoch,
        running: Vec<Adopted>,
        spent: Vec<StartsId>,
        /// Commits under an earlier epoch may be lost: the database has gone back in time since.
        whole_since: Epoch,
        schedules: TakenSchedules,
    },
    /// The shard is to be given up: start nothing of it any more, and finish what was decided.
    Retire {
        shard: ShardId,
    },
    /// The shard was given up or taken away: forget it.
    Released {
        shard: ShardId,
    },
    /// Jobs that have just become durable. May be lost: the sweep finds them.
    Submitted {
        jobs: Vec<Loaded>,
    },
    /// The answer to a [`Load`].
    Page {
        load: Load,
        jobs: Vec<Loaded>,
        /// The row at which it stopped because of its limit; `None` if it came to the end.
        stopped_at: Option<JobKey>,
    },
    /// The answer to a lookup.
    Found {
        token: Token,
        id: JobId,
        found: Found,
    },
    /// The answer to a [`ScheduleLoad`].
    Schedules {
        load: ScheduleLoad,
        /// Those that could be read.
        rows: Vec<LoadedSchedule>,
        /// After which to go on; `None` at the end.
        next: Option<ScheduleId>,
        /// The newest revision of calendars that their plans know.
        calendars: u32,
    },
    /// Calendars have changed, and with them what these schedules mean.
    Replanned {
        rows: Vec<LoadedSchedule>,
        /// The newest revision of calendars that their plans know.
        calendars: u32,
    },
    Watch(Watch),
    /// The namespaces that have a quota of running attempts.
    RunningQuotas {
        quotas: Vec<(NamespaceId, u64)>,
    },
    /// How many attempts of them may run here: the answer to a report of this version.
    RunningPlaces {
        version: u64,
        places: Vec<(NamespaceId, u64)>,
    },
    /// The queues whose jobs do not start from now on: these and no others.
    PausedQueues {
        paused: Vec<PausedQueue>,
    },
    /// Gangs that the fleet could not start if all of it were idle: these and no others.
    UnplaceableGangs {
        gangs: Vec<GangKey>,
    },
    /// A task was changed; waiting jobs and schedules follow it.
    TaskChanged {
        task: Arc<Task>,
    },
    WorkerHello {
        worker: WorkerId,
        stream: StreamId,
        spec: WorkerSpec,
        held: Vec<(JobId, AttemptNo)>,
    },
    WorkerDisconnected {
        worker: WorkerId,
        stream: StreamId,
    },
    WorkerCredit {
        worker: WorkerId,
        stream: StreamId,
        credit: u32,
    },
    /// These workers were heard of.
    WorkersAlive {
        workers: Vec<WorkerId>,
    },
    /// An administrator ended these workers. What they run is lost, whether they are heard of or not.
    WorkersRevoked {
        workers: Vec<WorkerId>,
    },
    Outcomes {
        worker: WorkerId,
        reports: Vec<Report>,
    },
    /// An agent was not heard of for too long.
    AgentSilent {
        id: JobId,
        attempt: AttemptNo,
        /// Its environment, if that is known.
        host: Option<String>,
    },
    /// Somebody waits for the answer.
    Ask {
        token: Token,
        ask: Ask,
        /// What a schedule means, if it is to be created or edited.
        made: Option<Made>,
    },
}

/// What a worker can do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerSpec {
    pub namespaces: ServedNamespaces,
    pub queues: Vec<String>,
    pub capabilities: Vec<String>,
    pub labels: std::collections::BTreeMap<String, String>,
    /// How many attempts this server may have in flight on it.
    pub credit: u32,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    pub id: JobId,
    pub attempt: AttemptNo,
    pub outcome: Outcome,
    /// The worker ended the attempt because its time was over.
    pub timed_out: bool,
    pub details: Option<Box<Details>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Command {
    Delete,
    Cancel,
    RunNow,
    Rerun,
    /// Rerun, unless an attempt was started since this number was the next: for whoever lost
    /// the answer to it and asks again.
    RerunOnce(AttemptNo),
}

#[derive(Debug, Clone)]
pub enum Found {
    Waiting(Loaded),
    Finished { state: JobState, attempt: Option<AttemptNo>, counters: Counters },
    Absent,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reply {
    /// It is durable.
    Done(JobState),
    /// Durable as a wish: the worker is being asked.
    Asked,
    Refused(JobState, Refusal),
    NotFound,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    AlreadyStarted,
    AlreadyFinished,
    NotFinished,
    Deleted,
}

/// Which rows a load reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Sweep {
    /// All of them, in due order.
    All,
    /// Those with a priority above normal, so that a long backlog does not hide them.
    Urgent,
    /// All of them from the very first, to find what a hint missed.
    Floor,
    /// All of them from the first that a full window left out.
    Parked,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Load {
    pub shard: ShardId,
    pub epoch: Epoch,
    pub sweep: Sweep,
    pub after: Option<JobKey>,
    pub until: Timestamp,
    /// Rows that are shown, at most.
    pub limit: usize,
    /// Jobs of these tasks are left out. The urgent sweep leaves out none.
    pub skip: Vec<TaskId>,
}

impl Load {
    /// Rows that are looked at, at most: what is left out costs little, and not nothing.
    pub fn look_at_max(&self) -> usize {
        const LOOKS_FOR_EACH: usize = 20;
        if self.skip.is_empty() { self.limit } else { self.limit * LOOKS_FOR_EACH }
    }
}

/// A message for a worker.
#[derive(Debug, Clone)]
pub enum Send {
    Assign(Assignment),
    /// The outcome is durable, or is known to be stale: the worker may forget it.
    Ack {
        id: JobId,
        attempt: AttemptNo,
    },
    /// End the attempt and report how it went.
    Cancel {
        id: JobId,
        attempt: AttemptNo,
    },
    /// The attempt is not yours any more: end it, nobody waits for it.
    Stop {
        id: JobId,
        attempt: AttemptNo,
    },
    /// How this server keeps to the credit that it was told last.
    Credit(CreditKept),
    Demand(Demand),
}

/// What waits on a server for want of credit of a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Demand {
    /// Ready jobs that the worker could run.
    pub jobs: u32,
    /// They are members of this gang, which starts when it has slots for all.
    pub gang: Option<GangKey>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CreditKept {
    pub told: u32,
    /// What may be in flight: as told, or more as long as what was started before has not ended.
    pub bound: u32,
}

#[derive(Debug, Clone)]
pub struct Assignment {
    pub key: JobKey,
    /// Under which it was started. A worker that has heard of a newer owner ignores it.
    pub epoch: Epoch,
    pub attempt: AttemptNo,
    pub task: Arc<Task>,
    pub tracing_id: Option<String>,
    pub input: AssignedInput,
    pub started_at: Timestamp,
    /// The schedule and the planned time, if a schedule made the job.
    pub origin: Option<Box<Origin>>,
}

#[derive(Debug, Clone)]
pub enum AssignedInput {
    None,
    Inline(Bytes),
    /// To be read from the store before the assignment is sent.
    Stored,
}

impl AssignedInput {
    /// The input of an assignment that is complete.
    pub fn into_bytes(self) -> Option<Bytes> {
        match self {
            Self::Inline(bytes) => Some(bytes),
            Self::None | Self::Stored => None,
        }
    }
}

/// A durable change of a job, for those who watch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    pub id: JobId,
    /// `None`: the owner did not have the job's task at hand.
    pub namespace: Option<NamespaceId>,
    pub state: JobState,
    pub attempt: Option<AttemptNo>,
    pub at: Timestamp,
}

/// What is to be done now. Nothing here may be done before the event's own
/// writes are durable: the owner emits it only then.
#[derive(Debug, Default)]
pub struct Effects {
    /// Each for one connection: what is sent on another was never received.
    pub sends: Vec<(WorkerId, StreamId, Send)>,
    pub loads: Vec<Load>,
    pub lookups: Vec<(Token, JobId)>,
    pub answers: Vec<(Token, Answer)>,
    pub schedule_loads: Vec<ScheduleLoad>,
    /// What has changed in calendars since this revision is to be told again: a schedule that was on its way missed it.
    pub calendars_missed_since: Option<u32>,
    pub changes: Vec<Change>,
    /// Connections to cut: these workers must say hello again.
    pub disconnects: Vec<WorkerId>,
    /// Workers that were given up, for the log.
    pub lost_workers: Vec<LostWorker>,
}

/// A worker that was silent for too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LostWorker {
    pub worker: WorkerId,
    /// Attempts that ran on it, and end with it.
    pub attempts: usize,
    pub silent_for: Span,
}

impl Effects {
    pub fn is_empty(&self) -> bool {
        self.sends.is_empty()
            && self.loads.is_empty()
            && self.lookups.is_empty()
            && self.answers.is_empty()
            && self.schedule_loads.is_empty()
            && self.calendars_missed_since.is_none()
            && self.changes.is_empty()
            && self.disconnects.is_empty()
            && self.lost_workers.is_empty()
    }
}
