//! Batches and leases of a server: what it writes, what it owns, and how it gives that up.

use punctual_core::shard::event::Event;
use punctual_core::shard::write::BatchSeq;
use punctual_core::{ShardId, Span};
use punctual_store::Owned;

use super::{Adoption, BatchAnswer};
use crate::coverage::Window;
use crate::plan::{CLOCK_LAG_MAX_MS, LEASE_TTL};
use crate::simulation::{Action, Simulation};
use crate::storage::StoreCall;

/// A shard is given up after this, quiet or not.
const RETIRE_WITHIN: Span = Span::from_secs(1);

/// A lease is relied on for this much less than it lasts.
const LEASE_MARGIN: Span = Span::from_secs(1);

impl Simulation {
    pub(super) fn send_batches(&mut self, place: usize) {
        let now = self.server_now(place);
        while let Some(batch) = self.servers[place].owner.take_batch(now) {
            let at = self.now + self.store_delay();
            let server = &mut self.servers[place];
            let node = server.node();
            let lane = batch.lane(server.lanes.len());
            let queue = &mut server.lanes[lane];
            queue.applied_at = queue.applied_at.max(at);
            let (at, connection) = (queue.applied_at, queue.connection);
            self.at(at, Action::Store(node, StoreCall::Apply { batch, lane, connection }));
        }
    }

    pub(super) fn written(&mut self, place: usize, seq: BatchSeq, lane: usize, written: BatchAnswer) {
        let now = self.server_now(place);
        if seq < self.servers[place].answered {
            self.hit(Window::LaneOvertaken);
        }
        let server = &mut self.servers[place];
        server.answered = server.answered.max(seq);
        server.unanswered -= 1;
        match written {
            BatchAnswer::Done { void, released } => server.owner.committed_with(seq, &void, released, now),
            BatchAnswer::Fenced(shards) => {
                let in_order = server.owner.fenced(seq, &shards, now);
                if !in_order.is_empty() {
                    server.take_over.extend(in_order);
                    self.hit(Window::SchedulesInDoubt);
                    self.lease(place);
                }
            }
            BatchAnswer::Unknown => {
                let shards = server.owner.unknown(seq, now);
                server.take_over.extend(shards);
                server.lanes[lane].connection += 1;
                if server.owner.batches_in_flight() > 0 && !server.owner.owned_shards().is_empty() {
                    self.hit(Window::LaneInDoubtAlone);
                }
                self.lease(place);
            }
        }
    }

    /// Its lease may be over: it stops acting until it has asked. Nothing depends on it
    /// but what people see, so that half of the seeds do without.
    pub(crate) fn is_suspended(&self, place: usize) -> bool {
        self.plan.self_fencing && self.now > self.servers[place].acts_until
    }

    pub(super) fn retire(&mut self, place: usize, shard: ShardId) {
        let now = self.server_now(place);
        let server = &mut self.servers[place];
        let owned = server.owner.owned_shards().into_iter().find(|(id, _)| *id == shard);
        let Some((shard, epoch)) = owned.filter(|_| server.retiring.is_none()) else { return };
        server.retiring = Some((Owned { shard, epoch }, self.now + RETIRE_WITHIN));
        server.owner.handle(Event::Retire { shard }, now);
    }

    pub(super) fn give_up_if_quiet(&mut self, place: usize) {
        let server = &mut self.servers[place];
        let Some((owned, at_the_latest)) = server.retiring else { return };
        let is_quiet = server.owner.is_quiet(owned.shard);
        let node = server.node();
        if !is_quiet && self.now < at_the_latest {
            self.pump_by(place, self.now + Span::from_millis(10));
            return;
        }
        self.servers[place].retiring = None;
        self.hit(if is_quiet { Window::ShardRetired } else { Window::ShardRetiredLoudly });
        let delay = self.store_delay();
        self.after(delay, Action::Store(node, StoreCall::GiveUp(owned)));
    }

    /// One call about leases at a time, so that answers cannot overtake each other.
    pub(crate) fn lease(&mut self, place: usize) {
        let server = &mut self.servers[place];
        if server.is_leasing {
            return;
        }
        server.is_leasing = true;
        server.lease_asked_at = self.now;
        let take_over = std::mem::take(&mut server.take_over).into_iter().collect();
        let node = server.node();
        let delay = self.store_delay();
        self.after(delay, Action::Store(node, StoreCall::Lease { take_over }));
    }

    pub(super) fn leased(&mut self, place: usize, kept: &[Owned], taken: Vec<Adoption>) {
        let lag = self.rng.millis(0, CLOCK_LAG_MAX_MS);
        self.servers[place].lag = lag;
        self.servers[place].acts_until = self.servers[place].lease_asked_at + LEASE_TTL - LEASE_MARGIN;
        let now = self.server_now(place);
        self.servers[place].is_leasing = false;
        for (shard, epoch) in self.servers[place].owner.owned_shards() {
            if !kept.contains(&Owned { shard, epoch }) {
                self.hit(Window::ShardLeft);
                self.servers[place].owner.handle(Event::Released { shard }, now);
            }
        }
        for Adoption { owned: Owned { shard, epoch }, running, spent, whole_since, schedules, queues } in taken {
            // First: a pause that was stored before the shard was taken counts for it.
            self.queues_read(place, queues);
            let server = &mut self.servers[place];
            for adopted in &running {
                server.adopted.insert((adopted.start.start.key.id, adopted.start.start.attempt));
                self.seen.hit(Window::StartAdopted);
            }
            server.owner.handle(Event::Acquired { shard, epoch, running, spent, whole_since, schedules }, now);
        }
        if !self.servers[place].take_over.is_empty() {
            self.lease(place);
        }
    }
}
