//! The state of each link to a server: its stream, its send queue, its announced peers.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use punctual_core::ServerId;
use punctual_core::credits::Expected;
use punctual_core::shard::event::{CreditKept, Demand};
use punctual_core::shard::write::Epoch;
use punctual_core::{ShardId, Timestamp};
use punctual_exec::LogSink;
use punctual_proto::convert::attempt_ref;
use punctual_proto::worker as wire;
use tokio::sync::Notify;

use super::{HeldAttempt, HeldAttempts, HeldState, Key};
use crate::outgoing::SessionNo;

/// Numbers the links to servers, in the order in which the servers became known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct LinkNo(pub(crate) u32);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PeerAddress {
    pub(crate) server: ServerId,
    pub(crate) address: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LinkStage {
    Down,
    /// The hello has been sent.
    Greeted,
    /// The server has answered the hello.
    Up,
    /// Another link leads to the same server, so this one is not used.
    Alias,
}

pub(crate) struct LinkState {
    /// Numbers the streams of this link; only one is open at a time. See `outgoing`.
    pub(crate) session: u64,
    pub(crate) stage: LinkStage,
    /// The server's id, from its last greeting.
    pub(crate) server: Option<ServerId>,
    pub(crate) unsent: VecDeque<Key>,
    pub(crate) logs: VecDeque<LogSink>,
    /// The peers that the server announced last.
    pub(crate) announced: Vec<PeerAddress>,
    /// Signals that there may be something to send.
    pub(crate) outgoing: Arc<Notify>,
}

impl LinkState {
    pub(crate) fn is_open(&self) -> bool {
        matches!(self.stage, LinkStage::Greeted | LinkStage::Up)
    }

    pub(crate) fn is_up(&self) -> bool {
        self.stage == LinkStage::Up
    }
}

/// The first message of a server on a stream.
#[derive(Debug, Clone)]
pub(crate) struct ServerGreeting {
    pub(crate) server: ServerId,
    pub(crate) acquired: u64,
    pub(crate) shards: Vec<(ShardId, Epoch)>,
}

/// The part of a hello that changes from stream to stream.
#[derive(Debug)]
pub(crate) struct HelloContent {
    pub(crate) session: SessionNo,
    pub(crate) credit: u32,
    pub(crate) held: Vec<wire::AttemptRef>,
}

/// The error of a greeting on a link whose server another link already serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct IsAlias;

impl HeldAttempts {
    pub(crate) fn add_link(&self, link: LinkNo, expected: Expected) {
        let now = self.now();
        let mut state = self.state();
        state.credits.add(link, expected, now);
        let new = LinkState {
            session: 0,
            stage: LinkStage::Down,
            server: None,
            unsent: VecDeque::new(),
            logs: VecDeque::new(),
            announced: Vec::new(),
            outgoing: Arc::new(Notify::new()),
        };
        state.links.insert(link, new);
        self.replan(&mut state);
    }

    pub(crate) fn drop_link(&self, link: LinkNo) {
        let mut state = self.state();
        state.credits.remove(link);
        state.owners.drop_link(link);
        if let Some(dropped) = state.links.remove(&link) {
            state.stray_logs.extend(dropped.logs);
            dropped.outgoing.notify_one();
        }
        state.recount();
        self.replan(&mut state);
    }

    /// Starts a new stream. From now on, assignments from an older owner of these shards are ignored, so the list of
    /// held attempts tells the server all that it has to know. Outcomes that are not acknowledged yet will be sent on
    /// this stream.
    pub(crate) fn greeted(&self, link: LinkNo, greeting: &ServerGreeting) -> Result<HelloContent, IsAlias> {
        let now = self.now();
        let mut guard = self.state();
        let state = &mut *guard;
        let is_same = |other: &LinkState| other.is_open() && other.server == Some(greeting.server);
        let is_alias = state.links.iter().any(|(no, other)| *no != link && is_same(other));
        let Some(own) = state.links.get_mut(&link) else { return Err(IsAlias) };
        own.server = Some(greeting.server);
        if is_alias {
            own.stage = LinkStage::Alias;
            // Its share is not to be kept for it.
            state.credits.add(link, Expected::No, now);
            state.recount();
            self.replan(state);
            return Err(IsAlias);
        }
        own.session += 1;
        own.stage = LinkStage::Greeted;
        own.unsent.clear();
        for (shard, epoch) in &greeting.shards {
            state.owners.hear(*shard, *epoch, link);
        }
        for (key, held) in &mut state.held {
            let log = match held {
                HeldAttempt::Running { log, .. } => Some(&*log),
                HeldAttempt::Finished(finished) => {
                    finished.sent_at = None;
                    own.unsent.push_back(*key);
                    finished.log.as_ref()
                }
            };
            // What the former stream took of it may be lost.
            if let Some(log) = log
                && state.owners.link(key.0.shard()) == Some(link)
                && log.rewind()
            {
                own.logs.push_back(log.clone());
            }
        }
        let session = SessionNo(own.session);
        state.recount();
        state.rehome_logs();
        let credit = state.credits.open(link, now);
        let held = state.held.keys().map(|&(job, attempt)| attempt_ref(job, attempt)).collect();
        self.replan(state);
        Ok(HelloContent { session, credit, held })
    }

    pub(crate) fn welcomed(&self, link: LinkNo) {
        if let Some(link) = self.state().links.get_mut(&link) {
            link.stage = LinkStage::Up;
        }
    }

    /// Ends the stream, including its sending side.
    pub(crate) fn closed(&self, link: LinkNo) {
        let now = self.now();
        let mut state = self.state();
        state.credits.close(link, now);
        let Some(own) = state.links.get_mut(&link) else { return };
        if !own.is_open() {
            // It never was: there is nothing to take back.
            own.stage = LinkStage::Down;
            return;
        }
        own.session += 1;
        own.stage = LinkStage::Down;
        own.unsent.clear();
        own.outgoing.notify_one();
        // The shards of a server that is gone are somebody else's soon, or already.
        let is_orphan = |(key, held): (&Key, &HeldAttempt)| {
            let is_finished = matches!(held, HeldAttempt::Finished(_));
            (is_finished && state.owners.link(key.0.shard()) == Some(link)).then_some(*key)
        };
        let orphans: Vec<Key> = state.held.iter().filter_map(is_orphan).collect();
        for key in orphans {
            state.post_to_all(key);
        }
        state.wake_senders();
        self.replan(&mut state);
        drop(state);
        self.unspooled.notify_one();
        self.progress.notify_one();
    }

    /// The session of the established stream, if there is one.
    pub(crate) fn up(&self, link: LinkNo) -> Option<SessionNo> {
        self.state().links.get(&link).filter(|link| link.is_up()).map(|link| SessionNo(link.session))
    }

    pub(crate) fn stage(&self, link: LinkNo) -> LinkStage {
        self.state().links.get(&link).map_or(LinkStage::Down, |link| link.stage)
    }

    /// Whether another link to the same server is open.
    pub(crate) fn is_served_by_another(&self, link: LinkNo) -> bool {
        let state = self.state();
        let Some(server) = state.links.get(&link).and_then(|link| link.server) else { return false };
        state.links.iter().any(|(no, other)| *no != link && other.is_open() && other.server == Some(server))
    }

    pub(crate) fn announced(&self, link: LinkNo, peers: Vec<PeerAddress>) {
        if let Some(link) = self.state().links.get_mut(&link) {
            link.announced = peers;
        }
        self.servers.notify_one();
    }

    pub(crate) fn credit_kept(&self, link: LinkNo, kept: CreditKept) {
        let mut state = self.state();
        state.credits.kept(link, kept);
        self.replan(&mut state);
        if state.credits.is_released(link) {
            self.servers.notify_one();
        }
    }

    pub(crate) fn demanded(&self, link: LinkNo, Demand { jobs, gang }: Demand) {
        let mut state = self.state();
        state.credits.demand(link, jobs);
        state.credits.demand_of_gang(link, gang);
        self.replan(&mut state);
        if jobs > 0 && state.credits.is_being_released(link) {
            // It is needed after all.
            self.servers.notify_one();
        }
    }

    pub(super) fn replan_if_due(&self, state: &mut HeldState) {
        if state.is_plan_due {
            self.replan(state);
        }
    }

    /// Divides the slots among the servers again, and tells them what changed.
    pub(crate) fn replan(&self, state: &mut HeldState) {
        state.is_plan_due = false;
        state.plan_at = state.credits.plan(self.now());
        for (no, link) in &state.links {
            if state.credits.has_untold(*no) {
                link.outgoing.notify_one();
            }
        }
        if state.plan_at.is_some() {
            self.planned.notify_one();
        }
    }

    /// Sends outcomes again, to every server, if they were sent `age` ago and not acknowledged.
    pub(crate) fn resend(&self, age: Duration, now: Instant) {
        let mut state = self.state();
        if state.held.len() == state.running {
            return;
        }
        let mut late = Vec::new();
        for (key, held) in &mut state.held {
            if let HeldAttempt::Finished(finished) = held
                && finished.sent_at.is_some_and(|sent_at| now.duration_since(sent_at) >= age)
            {
                finished.sent_at = None;
                late.push(*key);
            }
        }
        for key in late {
            state.post_to_all(key);
        }
        state.wake_senders();
    }

    /// A monotonic clock that starts with the worker.
    pub(crate) fn now(&self) -> Timestamp {
        Timestamp::saturating_from_micros(i64::try_from(self.started.elapsed().as_micros()).unwrap_or(i64::MAX))
    }
}

impl HeldState {
    pub(super) fn wake_senders(&self) {
        for link in self.links.values().filter(|link| !link.unsent.is_empty()) {
            link.outgoing.notify_one();
        }
    }

    /// Moves logs to the link on which their outcomes are sent; otherwise an outcome could overtake its log.
    fn rehome_logs(&mut self) {
        let mut logs = std::mem::take(&mut self.stray_logs);
        logs.extend(self.links.values_mut().flat_map(|link| link.logs.drain(..)));
        for log in logs {
            self.queue_log(log);
        }
    }

    pub(super) fn queue_log(&mut self, log: LogSink) {
        match self.home(log.job().shard()).and_then(|home| self.links.get_mut(&home)) {
            Some(home) => {
                home.logs.push_back(log);
                home.outgoing.notify_one();
            }
            None => self.stray_logs.push(log),
        }
    }
}
