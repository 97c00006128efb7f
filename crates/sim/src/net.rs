//! Streams between workers and servers, as TCP gives them: in order, cut at any
//! moment, and each end learns of it in its own time. What was under way when a
//! stream broke is gone, but a server may still read what it had received before. A worker opens a new stream to a server only after it
//! closed the old one, so nothing on the old one reaches it after its next hello.

use punctual_core::shard::event::{Assignment, CreditKept, Demand, Report, StreamId, WorkerSpec};
use punctual_core::shard::write::Epoch;
use punctual_core::{AttemptNo, JobId, ShardId, Timestamp, WorkerId};

use crate::coverage::Window;
use crate::server::ServerStep;
use crate::simulation::{Action, Node, Simulation};
use crate::worker::WorkerStep;

#[derive(Default)]
pub(crate) struct Net {
    streams: Vec<Stream>,
}

struct Stream {
    server: Node,
    worker: Node,
    broken: bool,
    /// What the server had received when the stream broke is still read, however late.
    is_buffered: bool,
    /// When the last message in each direction arrives: the next one is later.
    to_worker_at: Timestamp,
    to_server_at: Timestamp,
}

/// Longer than a worker needs to give a stream up and open another.
const SLOW_READ_MS_MAX: i64 = 8_000;

pub(crate) struct MessageInFlight {
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
    Assign(Assignment),
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
    Credit(CreditKept),
    Demand(Demand),
    /// This server, by its place, asks for the worker or owns the shard of an attempt that it holds.
    Invitation {
        server: usize,
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

    /// Whether the server hears nothing of it any more.
    pub(crate) fn is_mute(&self, id: StreamId) -> bool {
        let stream = self.get(id);
        stream.broken && !stream.is_buffered
    }

    /// Streams that still carry messages, with the places of their server and worker.
    pub(crate) fn open(&self) -> Vec<(StreamId, usize, usize)> {
        let open = |(number, stream): (usize, &Stream)| {
            (!stream.broken).then_some((StreamId(number as u64), stream.server.place, stream.worker.place))
        };
        self.streams.iter().enumerate().filter_map(open).collect()
    }
}

impl Simulation {
    pub(crate) fn open_stream(&mut self, server: Node, worker: Node) -> StreamId {
        let id = StreamId(self.net.streams.len() as u64);
        let (to_worker_at, to_server_at) = (self.now, self.now);
        self.net.streams.push(Stream { server, worker, broken: false, is_buffered: false, to_worker_at, to_server_at });
        id
    }

    pub(crate) fn send_to_worker(&mut self, stream: StreamId, message: ToWorker) {
        let latest = self.now + self.rng.millis(0, self.plan.message_ms_max);
        let at = &mut self.net.streams[stream.0 as usize].to_worker_at;
        *at = latest.max(*at);
        let at = *at;
        self.at(at, Action::Deliver(MessageInFlight { stream, message: Message::ToWorker(message) }));
    }

    pub(crate) fn send_to_server(&mut self, stream: StreamId, message: ToServer) {
        // Now and then the task that reads a stream gets no turn for long, and the worker
        // that waits for its welcome gives up.
        let is_hello = matches!(message, ToServer::Hello { .. });
        let is_slow = is_hello && !self.is_calm() && self.rng.percent(5);
        let delay_ms_max = if is_slow { SLOW_READ_MS_MAX } else { self.plan.message_ms_max };
        let latest = self.now + self.rng.millis(0, delay_ms_max);
        let at = &mut self.net.streams[stream.0 as usize].to_server_at;
        *at = latest.max(*at);
        let at = *at;
        self.at(at, Action::Deliver(MessageInFlight { stream, message: Message::ToServer(message) }));
        if is_slow {
            self.break_stream(stream);
            self.net.streams[stream.0 as usize].is_buffered = true;
        }
    }

    pub(crate) fn deliver(&mut self, MessageInFlight { stream, message }: MessageInFlight) {
        let ends = self.net.get(stream);
        let (server, worker) = (ends.server, ends.worker);
        match message {
            Message::ToWorker(message) if !ends.broken => {
                self.worker_step(worker, WorkerStep::Message { stream, message });
            }
            Message::ToServer(message) if !self.net.is_mute(stream) => {
                self.server_step(server, ServerStep::Message { stream, message });
            }
            Message::ToWorker(_) | Message::ToServer(_) => self.hit(Window::MessageLost),
        }
    }

    /// The stream carries nothing any more. Each end notices later.
    pub(crate) fn break_stream(&mut self, stream: StreamId) {
        let ends = &mut self.net.streams[stream.0 as usize];
        if std::mem::replace(&mut ends.broken, true) {
            return;
        }
        let (server, worker) = (ends.server, ends.worker);
        let is_buffered = self.rng.percent(30);
        self.net.streams[stream.0 as usize].is_buffered = is_buffered;
        let worker_notices = self.rng.millis(0, 3_000);
        self.after(worker_notices, Action::Worker(worker, WorkerStep::Broken { stream }));
        let server_notices = self.rng.millis(0, 12_000);
        self.after(server_notices, Action::Server(server, ServerStep::Broken { stream }));
    }
}
