//! The streams between one server and one worker, one after another.
//!
//! A stream delivers in order, and can end at any moment without either end knowing. A
//! worker opens the next one after it closed the last, and reads nothing from a closed one. A
//! server may still read what was said on a stream that its worker has closed: that is where
//! late messages come from.

use crate::queue::Queue;
use crate::state::{AttemptNo, Epoch, JobNo, Outcome, WorkerId};

/// Streams of one link in the order in which the worker opened them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct StreamNo(pub u8);

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Link {
    pub current: StreamNo,
    pub worker_end: WorkerEnd,
    /// The server has closed its end of the current stream, and the worker has not noticed.
    pub is_cut: bool,
    /// The newest hello that the server took in.
    pub heard: Option<(WorkerId, StreamNo)>,
    /// Whether the server counts on the stream of that hello.
    pub is_connected: bool,
    pub to_worker: Queue<ToWorker>,
    pub to_server: Queue<(StreamNo, ToServer)>,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum WorkerEnd {
    /// Waits for the greeting.
    Opening,
    Ready,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ToWorker {
    /// The first word of a server: under which epoch it owns the shard, if it does.
    Greeting {
        acquired: u8,
        epoch: Option<Epoch>,
    },
    Assign {
        job: JobNo,
        attempt: AttemptNo,
        epoch: Epoch,
    },
    Ack {
        job: JobNo,
        attempt: AttemptNo,
    },
    Cancel {
        job: JobNo,
        attempt: AttemptNo,
    },
    Stop {
        job: JobNo,
        attempt: AttemptNo,
    },
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ToServer {
    Hello { worker: WorkerId, acquired: u8, held: HeldSet },
    Outcome { job: JobNo, attempt: AttemptNo, outcome: Outcome },
}

/// The attempts that a hello names.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct HeldSet(u8);

impl HeldSet {
    fn bit(job: JobNo, attempt: AttemptNo) -> u8 {
        1 << (usize::from(job) * crate::bounds::ATTEMPTS + attempt.index())
    }

    pub fn insert(&mut self, job: JobNo, attempt: AttemptNo) {
        self.0 |= Self::bit(job, attempt);
    }

    pub fn contains(self, job: JobNo, attempt: AttemptNo) -> bool {
        self.0 & Self::bit(job, attempt) != 0
    }
}

impl Link {
    pub const NEW: Self = Self {
        current: StreamNo(0),
        worker_end: WorkerEnd::Opening,
        is_cut: false,
        heard: None,
        is_connected: false,
        to_worker: Queue::EMPTY,
        to_server: Queue::EMPTY,
    };

    /// The worker whose present connection the server believes this to be.
    pub fn connected(&self) -> Option<WorkerId> {
        self.heard.filter(|_| self.is_connected).map(|(worker, _)| worker)
    }

    /// Whether what the server sends can arrive. It does not know.
    pub fn carries(&self) -> bool {
        let is_current = self.heard.is_some_and(|(_, stream)| stream == self.current);
        self.is_connected && is_current && !self.is_cut
    }

    /// The server closes this stream and reads nothing more from it.
    pub fn close_server_end(&mut self, stream: StreamNo) {
        self.to_server.retain(|(on, _)| *on != stream);
        self.is_cut |= stream == self.current;
    }

    /// The worker gives the stream up and opens another.
    pub fn reopen(&mut self) {
        self.current = StreamNo(self.current.0 + 1);
        self.worker_end = WorkerEnd::Opening;
        self.is_cut = false;
    }

    /// Only the order of streams matters, so states that differ in nothing else are made one.
    pub fn renumber(&mut self) {
        let mut used = [false; 8];
        used[usize::from(self.current.0)] = true;
        if let Some((_, stream)) = self.heard {
            used[usize::from(stream.0)] = true;
        }
        for (stream, _) in self.to_server.iter() {
            used[usize::from(stream.0)] = true;
        }
        let rank = |stream: StreamNo| {
            let below = used.iter().take(usize::from(stream.0)).filter(|is_used| **is_used).count();
            StreamNo(u8::try_from(below).expect("there are at most eight"))
        };
        self.heard = self.heard.map(|(worker, stream)| (worker, rank(stream)));
        self.to_server.update(|(stream, _)| *stream = rank(*stream));
        self.current = rank(self.current);
    }
}
