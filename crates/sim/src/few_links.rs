//! Workers that are connected to some of the servers: whom they choose, who asks for them, and when they leave again. By the
//! rules of the real ones, with shorter times.

use punctual_core::credits::Expected;
use punctual_core::server_choice::preferred;
use punctual_core::shard::WorkersWanted;
use punctual_core::shard::event::StreamId;
use punctual_core::task::Task;
use punctual_core::{ShardId, Span, WorkerId};

use crate::coverage::Window;
use crate::net::ToWorker;
use crate::server::ServerStep;
use crate::simulation::{Action, Health, Simulation};
use crate::worker::{Link, WorkerStep};

/// How often a server looks whether its jobs lack workers.
pub(crate) const WORKERS_EVERY: Span = Span::from_millis(500);

impl Simulation {
    /// The places of the servers that a new worker connects to.
    pub(crate) fn choose_servers(&self, worker: WorkerId) -> Vec<usize> {
        let count = self.servers.len();
        let addresses: Vec<String> = (0..count).map(|place| format!("http://server-{place}")).collect();
        let preferred = preferred(worker, addresses.iter().map(String::as_str));
        let chosen = preferred.into_iter().take(self.plan.links_max);
        chosen.filter_map(|address| addresses.iter().position(|known| known == address)).collect()
    }

    /// A server asks all others for what its jobs lack.
    pub(crate) fn request_workers(&mut self, place: usize) {
        let node = self.servers[place].node();
        self.after(WORKERS_EVERY, Action::Server(node, ServerStep::RequestWorkers));
        if self.is_suspended(place) {
            return;
        }
        let wanted = self.servers[place].owner.workers_wanted();
        if wanted.is_empty() {
            return;
        }
        for other in (0..self.servers.len()).filter(|other| *other != place) {
            if !self.is_calm() && self.few_rng.percent(20) {
                continue;
            }
            let to = self.servers[other].node();
            let delay = self.few_rng.millis(0, self.plan.message_ms_max);
            let step = ServerStep::WorkersWanted { by: place, wanted: wanted.clone() };
            self.after(delay, Action::Server(to, step));
        }
    }

    /// Another server wants workers of this one.
    pub(crate) fn workers_wanted(&mut self, place: usize, by: usize, wanted: &WorkersWanted) {
        let turn = self.steps as usize;
        let fitting = self.servers[place].owner.fitting_workers(wanted, turn);
        for (_, stream) in fitting.pools.into_iter().flatten().chain(fitting.workers) {
            self.hit(Window::WorkerInvited);
            self.send_to_worker(stream, ToWorker::Invitation { server: by });
        }
    }

    /// A worker speaks of attempts whose shards others own: it should speak to them.
    pub(crate) fn invite_to_owners(&mut self, place: usize, stream: StreamId, shards: impl Iterator<Item = ShardId>) {
        let mut owners: Vec<usize> = shards.filter_map(|shard| self.owner_place(shard)).collect();
        owners.sort_unstable();
        owners.dedup();
        for server in owners.into_iter().filter(|owner| *owner != place) {
            self.send_to_worker(stream, ToWorker::Invitation { server });
        }
    }

    fn owner_place(&self, shard: ShardId) -> Option<usize> {
        let owns = |server: &&crate::server::Server| {
            server.health == Health::Up && server.owner.owned_shards().iter().any(|(owned, _)| *owned == shard)
        };
        self.servers.iter().find(owns).map(|server| server.place)
    }

    pub(crate) fn invited(&mut self, place: usize, server: usize) {
        let now = self.now;
        let worker = &mut self.workers[place];
        let node = worker.node();
        worker.credits.retain(server);
        let link = &mut worker.links[server];
        // One that the worker has chosen stays without being asked for.
        if link.is_wanted && link.asked_at.is_none() {
            return;
        }
        link.asked_at = Some(now);
        if link.is_wanted {
            return;
        }
        worker.links[server].is_wanted = true;
        worker.credits.add(server, Expected::No, now);
        self.after(Span::ZERO, Action::Worker(node, WorkerStep::Connect { server }));
    }

    /// Leaves servers that asked for this worker and do not need it any more.
    pub(crate) fn leave_servers(&mut self, place: usize) {
        const ASKED_FOR: Span = Span::from_secs(30);
        let now = self.now;
        for server in 0..self.servers.len() {
            let worker = &mut self.workers[place];
            let Link { asked_at, is_ready, stream, .. } = worker.links[server];
            let Some(asked_at) = asked_at.filter(|_| is_ready) else { continue };
            if worker.credits.is_demanded(server) {
                worker.links[server].asked_at = Some(now);
                worker.credits.retain(server);
            } else if now.since(asked_at) >= ASKED_FOR {
                let is_owner = |shard: ShardId| worker.owners.get(&shard).is_some_and(|(_, owner)| *owner == server);
                let is_held = worker.held.keys().any(|(job, _)| is_owner(job.shard()));
                worker.credits.release(server);
                if worker.credits.is_released(server) && !is_held {
                    worker.credits.remove(server);
                    worker.links[server] =
                        Link { is_partitioned: worker.links[server].is_partitioned, ..Link::default() };
                    self.hit(Window::ServerLeftByWorker);
                    self.break_stream(stream.expect("a ready link has a stream"));
                }
            }
        }
    }

    /// The job's shard has an owner, and some idle worker that serves the queue and the namespace, connected to it or not.
    /// Servers ask for such workers, so the job must not wait for long. Of a worker that is connected to the owner, each of
    /// its other servers may keep one slot.
    pub(crate) fn could_be_reached(&self, shard: ShardId, task: &Task) -> bool {
        let Some(owner) = self.owner_place(shard) else { return false };
        self.workers.iter().any(|worker| {
            let others = worker.links.iter().filter(|link| link.is_wanted).count().saturating_sub(1);
            let kept = if worker.is_connected_to(owner) { others } else { 0 };
            worker.health == Health::Up
                && worker.queues.contains(&task.spec.queue)
                && worker.namespaces.serves(task.namespace)
                && worker.running() + kept < worker.slots as usize
        })
    }
}
