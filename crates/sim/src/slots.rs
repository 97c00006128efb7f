//! Whose attempts a worker runs, and what each server may count on: by the rules of the real one.

use punctual_core::ShardId;
use punctual_core::shard::write::Epoch;

use crate::coverage::Window;
use crate::net::ToServer;
use crate::simulation::{Action, Simulation};
use crate::worker::{Worker, WorkerStep};

impl Worker {
    /// A server owns this shard under this epoch. False when a newer owner is known.
    pub(crate) fn hear(&mut self, shard: ShardId, epoch: Epoch, server: usize) -> bool {
        let known = self.owners.entry(shard).or_default();
        let is_news = epoch >= known.0;
        if is_news {
            *known = (epoch, server);
        }
        is_news
    }

    /// Counts whose attempts run here.
    pub(crate) fn recount(&mut self) {
        let mut active = vec![0; self.links.len()];
        for (id, _) in self.running_keys() {
            let (_, server) = self.owners[&id.shard()];
            active[server] += 1;
        }
        for (server, active) in active.into_iter().enumerate() {
            self.credits.set_active(server, active);
        }
    }
}

impl Simulation {
    /// Tells servers what they may count on, after whatever happened.
    pub(crate) fn divide_slots(&mut self, place: usize) {
        let worker = &mut self.workers[place];
        worker.recount();
        let planned = worker.credits.plan(self.now);
        let id = worker.id;
        for server in 0..self.servers.len() {
            let worker = &mut self.workers[place];
            let stream = worker.links[server].stream.filter(|_| worker.links[server].is_ready);
            if let (Some(stream), Some(credit)) = (stream, worker.credits.take_untold(server)) {
                self.hit(Window::CreditMoved);
                self.send_to_server(stream, ToServer::Credit { worker: id, credit });
            }
        }
        let worker = &mut self.workers[place];
        if let Some(planned) = planned.filter(|planned| worker.plan_at.is_none_or(|at| at > *planned)) {
            worker.plan_at = Some(planned);
            let node = worker.node();
            self.at(planned, Action::Worker(node, WorkerStep::Plan { planned }));
        }
    }

    /// Now and then a worker wants no more, or wants work again.
    pub(crate) fn maybe_rest(&mut self, place: usize) {
        let wants_none = !self.is_calm() && self.rng.percent(3);
        let credits = &mut self.workers[place].credits;
        if wants_none { credits.pause() } else { credits.resume() }
    }
}
