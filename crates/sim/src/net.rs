//! Streams between workers and servers, as TCP gives them: in order, cut at any
//! moment, and each end learns of it in its own time. What was under way when a
//! stream broke is gone. A worker opens a new stream to a server only after it
//! closed the old one, so nothing on the old one reaches it after its next hello.

use punctual_core::shard::event::{Assignment, Report, StreamId, WorkerSpec};
use punctual_core::shard::write::Epoch;
use punctual_core::{AttemptNo, JobId, ShardId, Timestamp, WorkerId};

use crate::coverage::Window;
use crate::server::ServerStep;
use crate::worker::WorkerStep;
use crate::world::{Action, Node, World};

#[derive(Default)]
pub(crate) struct Net {
    streams: Vec<Stream>,
}

struct Stream {
    server: Node,
    worker: Node,
    broken: bool,
    /// When the last message in each direction arrives: the next one is later.
    to_worker_at: Timestamp,
    to_server_at: Timestamp,
}

pub(crate) struct Delivery {
    stream: StreamId,
    message: Message,
}

enum Message {
    ToWorker(ToWorker),
    ToServer(ToServer),
}

#[derive(Clone)]
pub(crate) enum ToWorker {
    /// The first word of a server: which shards it owns, under which epochs. From then
    /// on the worker begins nothing that an older owner of these gave it.
    Greeting {
        acquired: u64,
        epochs: Vec<(ShardId, Epoch)>,
    },
    Assign {
        assignment: Assignment,
        epoch: Epoch,
    },
    Ack {
        id: JobId,
        attempt: AttemptNo,
    },
    Cancel {
        id: JobId,
        attempt: AttemptNo,
    },
    Stop {
        id: JobId,
        attempt: AttemptNo,
    },
}

pub(crate) enum ToServer {
    Opened,
    /// `acquired` repeats the greeting's: a hello to an outdated greeting says nothing
    /// about what was taken over since.
    Hello {
        worker: WorkerId,
        acquired: u64,
        spec: WorkerSpec,
        held: Vec<(JobId, AttemptNo)>,
    },
    Outcomes {
        worker: WorkerId,
        reports: Vec<Report>,
    },
    Credit {
        worker: WorkerId,
        credit: u32,
    },
}

impl Net {
    fn get(&self, id: StreamId) -> &Stream {
        &self.streams[id.0 as usize]
    }

    pub(crate) fn is_broken(&self, id: StreamId) -> bool {
        self.get(id).broken
    }

    /// Streams that still carry messages, with the places of their server and worker.
    pub(crate) fn open(&self) -> Vec<(StreamId, usize, usize)> {
        let open = |(number, stream): (usize, &Stream)| {
            (!stream.broken).then_some((StreamId(number as u64), stream.server.place, stream.worker.place))
        };
        self.streams.iter().enumerate().filter_map(open).collect()
    }
}

impl World {
    pub(crate) fn open_stream(&mut self, server: Node, worker: Node) -> StreamId {
        let id = StreamId(self.net.streams.len() as u64);
        let (to_worker_at, to_server_at) = (self.now, self.now);
        self.net.streams.push(Stream { server, worker, broken: false, to_worker_at, to_server_at });
        id
    }

    pub(crate) fn send_to_worker(&mut self, stream: StreamId, message: ToWorker) {
        let latest = self.now + self.rng.millis(0, self.plan.message_ms_max);
        let at = &mut self.net.streams[stream.0 as usize].to_worker_at;
        *at = latest.max(*at);
        let at = *at;
        self.at(at, Action::Deliver(Delivery { stream, message: Message::ToWorker(message) }));
    }

    pub(crate) fn send_to_server(&mut self, stream: StreamId, message: ToServer) {
        let latest = self.now + self.rng.millis(0, self.plan.message_ms_max);
        let at = &mut self.net.streams[stream.0 as usize].to_server_at;
        *at = latest.max(*at);
        let at = *at;
        self.at(at, Action::Deliver(Delivery { stream, message: Message::ToServer(message) }));
    }

    pub(crate) fn deliver(&mut self, Delivery { stream, message }: Delivery) {
        let ends = self.net.get(stream);
        let (server, worker) = (ends.server, ends.worker);
        if ends.broken {
            self.hit(Window::MessageLost);
            return;
        }
        match message {
            Message::ToWorker(message) => self.worker_step(worker, WorkerStep::Message { stream, message }),
            Message::ToServer(message) => self.server_step(server, ServerStep::Message { stream, message }),
        }
    }

    /// The stream carries nothing any more. Each end notices later.
    pub(crate) fn break_stream(&mut self, stream: StreamId) {
        let ends = &mut self.net.streams[stream.0 as usize];
        if std::mem::replace(&mut ends.broken, true) {
            return;
        }
        let (server, worker) = (ends.server, ends.worker);
        let worker_notices = self.rng.millis(0, 3_000);
        self.after(worker_notices, Action::Worker(worker, WorkerStep::Broken { stream }));
        let server_notices = self.rng.millis(0, 12_000);
        self.after(server_notices, Action::Server(server, ServerStep::Broken { stream }));
    }
}
