//! What the owner wants to be done, on its way.

use punctual_core::WorkerId;
use punctual_core::shard::Answer;
use punctual_core::shard::event::{Send, StreamId, Token};

use crate::agents::Agents;
use crate::client::ClientStep;
use crate::history::Fact;
use crate::net::ToWorker;
use crate::options::Planted;
use crate::schedules::{ScheduleStep, Schedules};
use crate::simulation::{Action, Simulation};
use crate::storage::StoreCall;

impl Simulation {
    /// Does what the owner decided. Taken after every call of the owner, so that an
    /// assignment goes out under the epoch that it was started under.
    pub(super) fn flush(&mut self, place: usize) {
        while !self.is_suspended(place) {
            let effects = self.servers[place].owner.take_effects();
            if effects.is_empty() {
                return;
            }
            let node = self.servers[place].node();
            for load in effects.loads {
                let delay = self.store_delay();
                self.after(delay, Action::Store(node, StoreCall::Load(load)));
            }
            for (token, id) in effects.lookups {
                let delay = self.store_delay();
                self.after(delay, Action::Store(node, StoreCall::Find { token, id }));
            }
            for load in effects.schedule_loads {
                let delay = self.store_delay();
                self.after(delay, Action::Store(node, StoreCall::LoadSchedules(load)));
            }
            if effects.calendars_missed_since.is_some() {
                self.tell_calendars_again(place);
            }
            let about_schedules = |(token, _): &(Token, Answer)| Schedules::have_asked(*token);
            let (about_schedules, others): (Vec<_>, Vec<_>) = effects.answers.into_iter().partition(about_schedules);
            for (token, answer) in about_schedules {
                let delay = self.rng.millis(0, self.plan.message_ms_max);
                self.after(delay, Action::Schedules(ScheduleStep::Answered { token, answer }));
            }
            for (worker, stream, send) in effects.sends {
                self.send(place, worker, stream, send);
            }
            for (token, answer) in others {
                if Agents::have_asked(token) {
                    self.answer_agent(token, answer);
                    continue;
                }
                let delay = self.rng.millis(0, self.plan.message_ms_max);
                self.after(delay, Action::Client(ClientStep::Answered { token, answer }));
            }
            for worker in effects.disconnects {
                self.hang_up(place, worker);
            }
        }
    }

    fn send(&mut self, place: usize, worker: WorkerId, stream: StreamId, send: Send) {
        if worker == WorkerId::WORKFLOWS {
            return self.conducted(place, stream, send);
        }
        let message = match send {
            Send::Assign(assignment) => {
                self.check_credit(place, worker);
                let message = ToWorker::Assign(assignment);
                if self.has(Planted::AssignedAgain) {
                    self.servers[place].assigned.entry(worker).or_default().push(message.clone());
                }
                message
            }
            Send::Ack { id, attempt } => ToWorker::Ack { id, attempt },
            Send::Cancel { id, attempt } => ToWorker::Cancel { id, attempt },
            Send::Stop { id, attempt } => ToWorker::Stop { id, attempt },
            Send::Credit(kept) => ToWorker::Credit(kept),
            Send::Demand(demand) => ToWorker::Demand(demand),
        };
        self.send_to_worker(stream, message);
    }

    /// What this server itself started on a worker never exceeds what it was granted.
    fn check_credit(&mut self, place: usize, worker: WorkerId) {
        let server = &self.servers[place];
        let started = |view: &&punctual_core::shard::LiveView| {
            view.worker == worker && !server.adopted.contains(&(view.key.id, view.attempt))
        };
        let running = server.owner.all_running().iter().filter(started).count();
        let credit = server.credits.get(&worker).copied().unwrap_or(0);
        if running > credit as usize {
            self.note(Fact::OverCredit { worker, running, credit });
        }
    }
}
