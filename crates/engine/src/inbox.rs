//! What the driver's thread is told, in one order.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use punctual_core::shard::event::{Assignment, Event, Made, StreamId};
use punctual_core::shard::write::BatchSeq;
use punctual_core::shard::{Answer, Ask, FittingWorkers, Owner, WorkersWanted};
use punctual_core::{AttemptNo, JobId, ServerId, ShardId, WorkerId};
use punctual_store::{Applied, StoreError};
use tokio::sync::oneshot;

use crate::outgoing::OutgoingSender;

/// A question to the owner whose answer somebody waits for.
pub(crate) struct OpenAsk {
    pub(crate) ask: Ask,
    pub(crate) made: Option<Made>,
    pub(crate) sender: oneshot::Sender<Answer>,
}

pub(crate) enum Input {
    Event(Event),
    Connected {
        event: Event,
        worker: WorkerId,
        stream: StreamId,
        sender: OutgoingSender,
        /// The number of acquisitions that the greeting named.
        acquired: u64,
    },
    Asks(Vec<OpenAsk>),
    /// Outcomes that prove nothing. Nobody waits for them, and they change nothing.
    Refused {
        worker: WorkerId,
        stream: StreamId,
        attempts: Vec<(JobId, AttemptNo)>,
    },
    /// These servers have jobs for the worker, or own the shards of attempts that it holds.
    Invited {
        worker: WorkerId,
        stream: StreamId,
        servers: Vec<ServerId>,
    },
    /// Another server wants workers of this one; answers how many were told.
    WorkersWanted {
        by: ServerId,
        wanted: WorkersWanted,
        turn: usize,
        /// Which workers can connect to it.
        may_connect: Box<dyn Fn(WorkerId) -> bool + Send>,
        answer: oneshot::Sender<FittingWorkers>,
    },
    Applied {
        seq: BatchSeq,
        result: Result<Applied, StoreError>,
    },
    /// Large inputs were read; their assignments may go out now.
    InputsRead {
        worker: WorkerId,
        stream: StreamId,
        assignments: Vec<Assignment>,
    },
    /// The leases were renewed: the driver may act until then.
    Renewed {
        until: Duration,
    },
    /// These shards are to be given up. `done` is told when everything that was decided for
    /// them is durable and has been sent.
    Retire {
        shards: Vec<ShardId>,
        done: oneshot::Sender<()>,
    },
    /// A question about the owner's memory.
    Query(Box<dyn FnOnce(&Owner) + Send>),
    /// Finish what is on its way to the store, then end.
    Stop,
}

/// Hints beyond this many are dropped: the sweep finds their jobs, and a flood of
/// submissions cannot fill the memory.
const HINTS_QUEUED_MAX: usize = 100_000;

/// The sending side, shared by everyone who has something to tell.
#[derive(Clone)]
pub(crate) struct Inbox {
    sender: mpsc::Sender<Input>,
    hints_queued: Arc<AtomicUsize>,
}

impl Inbox {
    pub(crate) fn new() -> (Self, mpsc::Receiver<Input>) {
        let (sender, receiver) = mpsc::channel();
        (Self { sender, hints_queued: Arc::default() }, receiver)
    }

    /// False when the driver has ended.
    pub(crate) fn send(&self, input: Input) -> bool {
        self.sender.send(input).is_ok()
    }

    /// Waits until all that was sent before is taken in. False when the driver has ended.
    pub(crate) async fn taken(&self) -> bool {
        let (answer, reply) = oneshot::channel();
        self.send(Input::Query(Box::new(move |_| {
            let _ = answer.send(());
        })));
        reply.await.is_ok()
    }

    pub(crate) fn hint(&self, jobs: Vec<punctual_core::shard::event::Loaded>) {
        let count = jobs.len();
        if self.hints_queued.fetch_add(count, Ordering::Relaxed) + count > HINTS_QUEUED_MAX {
            self.hints_queued.fetch_sub(count, Ordering::Relaxed);
            return;
        }
        self.send(Input::Event(Event::Submitted { jobs }));
    }

    pub(crate) fn hints_taken(&self, count: usize) {
        self.hints_queued.fetch_sub(count, Ordering::Relaxed);
    }
}
