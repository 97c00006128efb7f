//! Everything that can differ between two moments of the cluster: what is durable, what each process remembers, which
//! messages are on their way, and what really happened.

use crate::bounds::{ATTEMPTS, Beginning, Bounds, JOBS, Leases, SERVERS, WORKERS};
use crate::link::{Link, WorkerEnd};

pub type ServerNo = u8;
pub type JobNo = u8;
/// Where one worker process after another runs.
pub type Place = u8;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Epoch(pub u8);

/// Numbers the starts of a job from 1.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct AttemptNo(pub u8);

impl AttemptNo {
    pub const FIRST: Self = Self(1);

    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }

    pub fn index(self) -> usize {
        usize::from(self.0 - 1)
    }
}

/// A worker process: a place, and which of the processes that ran there one after another.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct WorkerId {
    pub place: Place,
    pub life: u8,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct State {
    pub store: Store,
    pub servers: [Server; SERVERS],
    pub workers: [Worker; WORKERS],
    /// Links by server, then by worker.
    pub links: [[Link; WORKERS]; SERVERS],
    /// Calls by server, then by job. A call outlives the process that made it.
    pub calls: [[Call; JOBS]; SERVERS],
    pub left: FaultBudget,
    pub witness: Witness,
    pub event: Option<Event>,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Store {
    pub clock: u8,
    pub epoch: Epoch,
    pub lease: Lease,
    pub rows: [Row; JOBS],
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Lease {
    Free,
    Held(ServerNo),
    /// Over, and not yet taken by anyone.
    Lapsed(ServerNo),
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Row {
    Waiting { next: AttemptNo },
    Running { attempt: AttemptNo, worker: WorkerId, cancel: bool },
    Finished { end: JobEnd, attempt: Option<AttemptNo> },
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum JobEnd {
    Succeeded,
    Failed,
    Cancelled,
    Lost,
    Deleted,
}

/// A server process. One that is paused is one that takes no step, so a zombie needs no
/// state of its own: nothing makes a server notice that its time is over.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Server {
    /// What the server believes the store's clock to be.
    pub clock: u8,
    /// How often it took the shard. A hello must answer a greeting that knows of the last time.
    pub acquired: u8,
    pub shard: Option<Shard>,
}

/// The memory of an owner, or of a server that believes that it is the owner.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Shard {
    pub epoch: Epoch,
    pub jobs: [Stage; JOBS],
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Stage {
    /// The job is not in memory; what is known of it is in the store.
    Absent,
    Waiting {
        next: AttemptNo,
    },
    /// The start is decided, and not known to be durable.
    Starting {
        attempt: AttemptNo,
        worker: WorkerId,
        cancel: bool,
    },
    Running {
        attempt: AttemptNo,
        worker: WorkerId,
        cancel: bool,
        origin: Origin,
    },
    /// The end is decided, and not known to be durable.
    Ending {
        attempt: Option<AttemptNo>,
    },
}

/// Which owner recorded the start of an attempt in memory.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Origin {
    Own,
    FormerOwner,
}

/// A transaction about one job.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Call {
    None,
    /// The write is on its way to the store. It is applied sooner or later, whatever happens to its sender.
    Sent(Epoch, Write),
    Answered(Epoch, Write, Answer),
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Answer {
    Applied,
    /// The row was not as the write expected: nothing changed.
    Void,
    Fenced,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Write {
    Start {
        attempt: AttemptNo,
        worker: WorkerId,
    },
    End {
        attempt: AttemptNo,
        verdict: Verdict,
        then: NextAction,
        reporter: Option<WorkerId>,
    },
    /// The end of a job that has no attempt under way.
    Remove {
        next: AttemptNo,
        end: JobEnd,
    },
}

/// How an attempt ended, as history keeps it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Verdict {
    Reported(Outcome),
    NeverReceived,
    WorkerLost,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum NextAction {
    Settle(JobEnd),
    Requeue { next: AttemptNo },
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Outcome {
    Succeeded,
    Failed,
    Cancelled,
    /// Given back before anything ran.
    NotStarted,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Worker {
    pub id: WorkerId,
    /// The newest epoch that a greeting named.
    pub known: Epoch,
    /// What the worker holds, by job, then by attempt.
    pub held: [[HeldMark; ATTEMPTS]; JOBS],
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum HeldMark {
    No,
    Running,
    /// Kept until it is acknowledged; outlives the process in the spool.
    Done(Outcome),
}

/// How many more faults and requests of each kind may happen. This makes the state space finite.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct FaultBudget {
    pub server_crashes: u8,
    pub worker_crashes: u8,
    pub breaks: u8,
    pub lost_answers: u8,
    pub deletes: u8,
    pub cancels: u8,
    pub late_hints: u8,
    pub releases: u8,
}

/// What really happened, as an outside observer sees it. No decision depends on it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Witness {
    /// What was witnessed, by job, then by attempt.
    pub attempts: [[AttemptWitness; ATTEMPTS]; JOBS],
    /// Jobs whose delete was answered with success.
    pub deleted: [bool; JOBS],
    /// A transition committed under an epoch that was not the current one.
    pub unfenced: bool,
    /// A start was recorded, or an execution began, before the job was due.
    pub early: bool,
    /// An outcome on record was replaced by another.
    pub replaced: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct AttemptWitness {
    pub is_start_durable: bool,
    /// Executions begun; two is as bad as more.
    pub begun: u8,
    pub began_undurable: bool,
    /// The real outcome of the execution.
    pub came_to: Option<Outcome>,
    pub on_record: Option<Verdict>,
}

/// What the last step showed, for the properties that something does happen. Not kept:
/// that would double the space for each of them.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Event {
    TakenOverRunning,
    Fenced,
    AssignmentRefused,
    Adopted,
    OldGreetingRefused,
    LateHelloIgnored,
    TakenBack,
    StaleAnswered,
    LostResolved,
    Void,
}

impl State {
    pub fn first(bounds: &Bounds) -> Self {
        let server = Server { clock: 0, acquired: 0, shard: None };
        let worker =
            |place| Worker { id: WorkerId { place, life: 0 }, known: Epoch(0), held: [[HeldMark::No; ATTEMPTS]; JOBS] };
        let mut first = Self {
            store: Store {
                clock: 0,
                epoch: Epoch(0),
                lease: Lease::Free,
                rows: [Row::Waiting { next: AttemptNo::FIRST }; JOBS],
            },
            servers: [server; SERVERS],
            workers: [worker(0), worker(1)],
            links: [[Link::NEW; WORKERS]; SERVERS],
            calls: [[Call::None; JOBS]; SERVERS],
            left: bounds.left,
            witness: Witness {
                attempts: [[AttemptWitness::default(); ATTEMPTS]; JOBS],
                deleted: [false; JOBS],
                unfenced: false,
                early: false,
                replaced: false,
            },
            event: None,
        };
        if bounds.beginning == Beginning::Warm {
            first.warm_up(bounds);
        }
        first
    }

    fn warm_up(&mut self, bounds: &Bounds) {
        self.store.epoch = Epoch(1);
        if bounds.leases == Leases::Kept {
            self.store.lease = Lease::Held(0);
        }
        let waiting = Stage::Waiting { next: AttemptNo::FIRST };
        self.servers[0].shard = Some(Shard { epoch: Epoch(1), jobs: [waiting; JOBS] });
        self.servers[0].acquired = 1;
        for links in &mut self.links {
            for (link, worker) in links.iter_mut().zip(&mut self.workers) {
                worker.known = Epoch(1);
                link.worker_end = WorkerEnd::Ready;
                link.heard = Some((worker.id, link.current));
                link.is_connected = true;
            }
        }
    }
}
