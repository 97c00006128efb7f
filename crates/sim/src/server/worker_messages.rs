//! The messages that a server receives from workers.

use punctual_core::WorkerId;
use punctual_core::shard::event::{Event, StreamId};

use crate::coverage::Window;
use crate::net::{ToServer, ToWorker};
use crate::options::Planted;
use crate::simulation::Simulation;

impl Simulation {
    pub(super) fn server_message(&mut self, place: usize, stream: StreamId, message: ToServer) {
        if self.net.is_mute(stream) {
            return;
        }
        let now = self.server_now(place);
        let server = &mut self.servers[place];
        match message {
            ToServer::Opened => {
                let (acquired, epochs) = (server.owner.acquisitions(), server.owner.owned_shards());
                let greeting = ToWorker::Greeting { acquired, epochs };
                self.send_to_worker(stream, greeting);
            }
            ToServer::Hello { acquired, .. } if acquired != server.owner.acquisitions() => {
                self.hit(Window::HelloOutdated);
                self.break_stream(stream);
            }
            ToServer::Hello { worker, .. } if server.owner.heard_later(worker, stream) => {
                self.hit(Window::HelloOvertaken);
                self.break_stream(stream);
            }
            ToServer::Hello { worker, spec, held, .. } => {
                let adopted = held.iter().filter(|attempt| server.adopted.contains(attempt)).count();
                server.granted(worker, spec.credit);
                let before = server.streams.insert(worker, stream);
                let shards: Vec<_> = held.iter().map(|(job, _)| job.shard()).collect();
                server.owner.handle(Event::WorkerHello { worker, stream, spec, held }, now);
                for _ in 0..adopted {
                    self.hit(Window::AdoptedStartHeld);
                }
                if let Some(before) = before {
                    self.break_stream(before);
                }
                self.invite_to_owners(place, stream, shards.into_iter());
                if self.has(Planted::AssignedAgain) {
                    for again in self.servers[place].assigned.remove(&worker).unwrap_or_default() {
                        self.send_to_worker(stream, again);
                    }
                }
            }
            ToServer::Outcomes { worker, reports } if server.streams.get(&worker) == Some(&stream) => {
                let shards: Vec<_> = reports.iter().map(|report| report.id.shard()).collect();
                server.owner.handle(Event::Outcomes { worker, reports }, now);
                self.invite_to_owners(place, stream, shards.into_iter());
            }
            ToServer::Credit { worker, credit } => {
                server.granted(worker, credit);
                server.owner.handle(Event::WorkerCredit { worker, stream, credit }, now);
            }
            ToServer::Outcomes { .. } => {}
        }
    }

    pub(super) fn hang_up(&mut self, place: usize, worker: WorkerId) {
        let now = self.server_now(place);
        let server = &mut self.servers[place];
        let Some(stream) = server.streams.remove(&worker) else { return };
        server.owner.handle(Event::WorkerDisconnected { worker, stream }, now);
        self.break_stream(stream);
    }
}
