//! What the ledger knows of each server: its stream, its queue, its peers.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use punctual_core::ServerId;
use punctual_core::credits::Expected;
use punctual_core::shard::event::CreditKept;
use punctual_core::shard::write::Epoch;
use punctual_core::{ShardId, Timestamp};
use punctual_exec::LogSink;
use punctual_proto::convert::attempt_ref;
use punctual_proto::worker as wire;
use tokio::sync::Notify;

use super::{Held, Key, Ledger, State};
use crate::outgoing::SessionNo;

/// One server that this worker was told of, in the order in which it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct LinkNo(pub(crate) u32);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Peer {
    pub(crate) server: ServerId,
    pub(crate) address: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    Down,
    /// The hello is on its way.
    Greeted,
    /// The server has answered it.
    Up,
    /// Another link leads to the same server.
    Alias,
}

pub(crate) struct LinkState {
    /// Numbers the streams to this server, one at a time; see `outgoing`.
    pub(crate) session: u64,
    pub(crate) stage: Stage,
    /// As its last greeting said.
    pub(crate) server: Option<ServerId>,
    pub(crate) unsent: VecDeque<Key>,
    pub(crate) logs: VecDeque<LogSink>,
    /// The servers that it told of last.
    pub(crate) announced: Vec<Peer>,
    /// There may be something to send.
    pub(crate) outgoing: Arc<Notify>,
}

impl LinkState {
    pub(crate) fn is_open(&self) -> bool {
        matches!(self.stage, Stage::Greeted | Stage::Up)
    }

    pub(crate) fn is_up(&self) -> bool {
        self.stage == Stage::Up
    }
}

/// What a server said first.
#[derive(Debug, Clone)]
pub(crate) struct Greeting {
    pub(crate) server: ServerId,
    pub(crate) acquired: u64,
    pub(crate) shards: Vec<(ShardId, Epoch)>,
}

/// The changing part of a hello.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) session: SessionNo,
    pub(crate) credit: u32,
    pub(crate) held: Vec<wire::AttemptRef>,
}

/// Another link leads to the same server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct IsAlias;

pub(crate) struct Survey {
    pub(crate) links: Vec<(LinkNo, Stage, Option<ServerId>)>,
    pub(crate) peers: Vec<Peer>,
    /// No server can be reached.
    pub(crate) is_cut_off: bool,
}

impl Ledger {
    pub(crate) fn add_link(&self, link: LinkNo, expected: Expected) {
        let now = self.now();
        let mut state = self.state();
        state.credits.add(link, expected, now);
        let new = LinkState {
            session: 0,
            stage: Stage::Down,
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

    /// A new stream. From here on, nothing is begun that an older owner of these shards
    /// assigns; so what is held now is all that the server has to know. Everything that is
    /// not acknowledged will be sent on the stream.
    pub(crate) fn greeted(&self, link: LinkNo, greeting: &Greeting) -> Result<Answer, IsAlias> {
        let now = self.now();
        let mut guard = self.state();
        let state = &mut *guard;
        let is_same = |other: &LinkState| other.is_open() && other.server == Some(greeting.server);
        let is_alias = state.links.iter().any(|(no, other)| *no != link && is_same(other));
        let Some(own) = state.links.get_mut(&link) else { return Err(IsAlias) };
        own.server = Some(greeting.server);
        if is_alias {
            own.stage = Stage::Alias;
            // Its share is not to be kept for it.
            state.credits.add(link, Expected::No, now);
            state.recount();
            self.replan(state);
            return Err(IsAlias);
        }
        own.session += 1;
        own.stage = Stage::Greeted;
        own.unsent.clear();
        for (shard, epoch) in &greeting.shards {
            state.owners.hear(*shard, *epoch, link);
        }
        for (key, held) in &mut state.held {
            let log = match held {
                Held::Running { log, .. } => Some(&*log),
                Held::Finished(finished) => {
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
        Ok(Answer { session, credit, held })
    }

    pub(crate) fn welcomed(&self, link: LinkNo) {
        if let Some(link) = self.state().links.get_mut(&link) {
            link.stage = Stage::Up;
        }
    }

    /// The stream is gone: its sending side ends, whatever it still waits for.
    pub(crate) fn closed(&self, link: LinkNo) {
        let now = self.now();
        let mut state = self.state();
        state.credits.close(link, now);
        let Some(own) = state.links.get_mut(&link) else { return };
        if !own.is_open() {
            // It never was: there is nothing to take back.
            own.stage = Stage::Down;
            return;
        }
        own.session += 1;
        own.stage = Stage::Down;
        own.unsent.clear();
        own.outgoing.notify_one();
        // The shards of a server that is gone are somebody else's soon, or already.
        let is_orphan = |(key, held): (&Key, &Held)| {
            let is_finished = matches!(held, Held::Finished(_));
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

    /// The stream that is up, if one is.
    pub(crate) fn up(&self, link: LinkNo) -> Option<SessionNo> {
        self.state().links.get(&link).filter(|link| link.is_up()).map(|link| SessionNo(link.session))
    }

    pub(crate) fn stage(&self, link: LinkNo) -> Stage {
        self.state().links.get(&link).map_or(Stage::Down, |link| link.stage)
    }

    /// Whether another link to the same server is open.
    pub(crate) fn is_served_by_another(&self, link: LinkNo) -> bool {
        let state = self.state();
        let Some(server) = state.links.get(&link).and_then(|link| link.server) else { return false };
        state.links.iter().any(|(no, other)| *no != link && other.is_open() && other.server == Some(server))
    }

    /// The links, and the servers that those who can be reached tell of. Where none can, what
    /// they told of last is the best that there is.
    pub(crate) fn survey(&self) -> Survey {
        let state = self.state();
        let is_cut_off = !state.links.values().any(LinkState::is_up);
        let heard = state.links.values().filter(|link| is_cut_off || link.is_up());
        let peers = heard.flat_map(|link| link.announced.iter().cloned()).collect();
        let links = state.links.iter().map(|(no, link)| (*no, link.stage, link.server)).collect();
        Survey { links, peers, is_cut_off }
    }

    pub(crate) fn announced(&self, link: LinkNo, peers: Vec<Peer>) {
        if let Some(link) = self.state().links.get_mut(&link) {
            link.announced = peers;
        }
        self.servers.notify_one();
    }

    pub(crate) fn credit_kept(&self, link: LinkNo, kept: CreditKept) {
        let mut state = self.state();
        state.credits.kept(link, kept);
        self.replan(&mut state);
    }

    pub(crate) fn demanded(&self, link: LinkNo, jobs: u32) {
        let mut state = self.state();
        state.credits.demand(link, jobs);
        self.replan(&mut state);
    }

    pub(super) fn replan_if_due(&self, state: &mut State) {
        if state.is_plan_due {
            self.replan(state);
        }
    }

    /// Divides the slots anew, and says what changed.
    pub(crate) fn replan(&self, state: &mut State) {
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

    /// Sends again, to everyone, what was sent `age` ago and never acknowledged.
    pub(crate) fn resend(&self, age: Duration, now: Instant) {
        let mut state = self.state();
        if state.held.len() == state.running {
            return;
        }
        let mut late = Vec::new();
        for (key, held) in &mut state.held {
            if let Held::Finished(finished) = held
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

    /// Of a steady clock that starts with the worker.
    pub(crate) fn now(&self) -> Timestamp {
        Timestamp::saturating_from_micros(i64::try_from(self.started.elapsed().as_micros()).unwrap_or(i64::MAX))
    }
}

impl State {
    pub(super) fn wake_senders(&self) {
        for link in self.links.values().filter(|link| !link.unsent.is_empty()) {
            link.outgoing.notify_one();
        }
    }

    /// Logs go where their outcome goes, or it could overtake them.
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
