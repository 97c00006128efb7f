//! Queues that are paused and resumed while servers come and go, and when a pause is in force.
//!
//! Whoever pauses a queue waits until each server that owns a shard by the store has said that it knows of the pause and that no start of
//! the queue is on its way. Servers read queues twice a second, when they are told, and after they have got a shard.

use std::collections::BTreeSet;

use punctual_core::namespace::NamespaceId;
use punctual_core::shard::event::{Event, PausedQueue};
use punctual_core::{ServerId, Span, Timestamp};

use crate::coverage::Window;
use crate::history::{Fact, QueueChange};
use crate::plan::{QUEUES, TENANT};
use crate::rng::Rng;
use crate::server::{Server, ServerStep};
use crate::simulation::{Action, Health, Node, Simulation};

/// How often a server looks whether queues have changed.
const LOOK_EVERY: Span = Span::from_millis(500);
/// Whoever pauses a queue waits for so long until the pause is in force.
const CONFIRMED_WITHIN: Span = Span::from_secs(3);
/// Any number: it makes another sequence of the same seed.
const SEED: u64 = 0x7175_6575_6573;

/// A queue of a namespace.
pub(crate) type QueueKey = (NamespaceId, String);

/// Which queues are paused, at one moment.
#[derive(Debug, Clone, Default)]
pub(crate) struct QueueSnapshot {
    /// How often the store has lost commits, and the revision since.
    pub(crate) version: (u64, u64),
    pub(crate) paused: Vec<QueueKey>,
}

pub(crate) enum QueueStep {
    /// Somebody pauses a queue, or resumes it.
    Flip(QueueKey),
    ResumeAll,
    /// A server's read takes effect at the store.
    Read(Node),
    /// Whoever paused a queue looks who has confirmed it.
    Confirm(usize),
}

/// What is done to queues. Draws from a sequence of its own, so that the seeds from before mean what they meant.
pub(crate) struct Queues {
    rng: Rng,
    pauses: Vec<Pause>,
}

/// A pause that is not in force yet.
struct Pause {
    queue: QueueKey,
    version: (u64, u64),
    until: Timestamp,
    /// Who owned a shard once the pause was stored. `None`: that was not looked at yet.
    owners: Option<BTreeSet<ServerId>>,
    confirmed: BTreeSet<ServerId>,
}

impl Queues {
    pub(crate) fn new(seed: u64) -> Self {
        Self { rng: Rng::new(seed ^ SEED), pauses: Vec::new() }
    }
}

fn all_queues() -> Vec<QueueKey> {
    let namespaces = [NamespaceId::DEFAULT, TENANT];
    namespaces.into_iter().flat_map(|namespace| QUEUES.map(|queue| (namespace, queue.to_owned()))).collect()
}

impl Simulation {
    pub(crate) fn plan_queues(&mut self) {
        if self.queues.rng.percent(40) {
            return;
        }
        let (queues, chaos_ms) = (all_queues(), self.plan.chaos.as_micros() / 1000);
        for _ in 0..self.queues.rng.range(2, 24) {
            let at = self.queues.rng.millis(0, chaos_ms);
            let queue = self.queues.rng.pick(&queues).clone();
            self.after(at, Action::Queues(QueueStep::Flip(queue)));
        }
        // What still waits then has no excuse.
        self.after(self.plan.chaos, Action::Queues(QueueStep::ResumeAll));
        for place in 0..self.servers.len() {
            self.look_at_queues_later(place);
        }
        self.are_queues_changed = true;
    }

    /// A server that has just started looks from now on.
    pub(crate) fn look_at_queues_later(&mut self, place: usize) {
        let node = self.servers[place].node();
        self.after(LOOK_EVERY, Action::Queues(QueueStep::Read(node)));
    }

    pub(crate) fn queue_step(&mut self, step: QueueStep) {
        match step {
            QueueStep::Flip(queue) => {
                let is_paused = self.store.queue_snapshot().paused.contains(&queue);
                self.set_queue(queue, !is_paused);
            }
            QueueStep::ResumeAll => {
                for queue in self.store.queue_snapshot().paused {
                    self.set_queue(queue, false);
                }
            }
            QueueStep::Read(node) => {
                if self.is_server_alive(node) {
                    let snapshot = self.store.queue_snapshot();
                    let delay = self.queues.rng.millis(0, 20);
                    self.after(delay, Action::Server(node, ServerStep::QueuesRead(snapshot)));
                    self.look_at_queues_later(node.place);
                }
            }
            QueueStep::Confirm(pause) => self.confirm_pause(pause),
        }
    }

    fn set_queue(&mut self, queue: QueueKey, is_paused: bool) {
        self.store.set_queue(&queue, is_paused);
        let change = if is_paused { QueueChange::Paused } else { QueueChange::Resumed };
        self.note(Fact::Queue { queue: queue.clone(), change });
        self.queues
            .pauses
            .iter_mut()
            .filter(|pause| pause.queue == queue)
            .for_each(|pause| pause.until = Timestamp::EPOCH);
        if is_paused {
            let version = self.store.queue_snapshot().version;
            let until = self.now + CONFIRMED_WITHIN;
            self.queues.pauses.push(Pause { queue, version, until, owners: None, confirmed: BTreeSet::new() });
            let delay = self.queues.rng.millis(0, 5);
            self.after(delay, Action::Queues(QueueStep::Confirm(self.queues.pauses.len() - 1)));
        }
        for place in 0..self.servers.len() {
            // Nobody may rely on being told.
            if self.queues.rng.percent(30) {
                continue;
            }
            let snapshot = self.store.queue_snapshot();
            let (node, delay) = (self.servers[place].node(), self.queues.rng.millis(0, 200));
            self.after(delay, Action::Server(node, ServerStep::QueuesRead(snapshot)));
        }
    }

    /// What a server read of queues. An earlier state than the one it knows says nothing.
    pub(crate) fn queues_read(&mut self, place: usize, snapshot: QueueSnapshot) {
        let now = self.server_now(place);
        let server = &mut self.servers[place];
        if server.queues_version.is_none_or(|known| known < snapshot.version) {
            server.queues_version = Some(snapshot.version);
            let paused = snapshot.paused.into_iter();
            let paused =
                paused.map(|(namespace, name)| PausedQueue { namespace, name, since: String::new() }).collect();
            server.owner.handle(Event::PausedQueues { paused }, now);
        }
    }

    fn confirm_pause(&mut self, place: usize) {
        let owners = self.store.lease_owners();
        let settled = |server: &&Server| server.health == Health::Up && server.owner.starts_of_paused_queues() == 0;
        let settled = self.servers.iter().filter(settled);
        let known: Vec<_> = settled.filter_map(|server| Some((server.id, server.queues_version?))).collect();
        let pause = &mut self.queues.pauses[place];
        if self.now >= pause.until {
            return;
        }
        let owners = pause.owners.get_or_insert(owners);
        let version = pause.version;
        pause.confirmed.extend(known.into_iter().filter(|(_, known)| *known >= version).map(|(id, _)| id));
        if owners.is_subset(&pause.confirmed) {
            pause.until = Timestamp::EPOCH;
            let queue = pause.queue.clone();
            self.hit(Window::PauseInForce);
            self.note(Fact::Queue { queue, change: QueueChange::InForce });
            return;
        }
        let delay = self.queues.rng.millis(1, 20);
        self.after(delay, Action::Queues(QueueStep::Confirm(place)));
    }
}
