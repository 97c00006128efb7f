//! Calls to the store, at the moment they take effect. Between that moment and
//! the answer anything can happen to the one who asked.

use std::collections::BTreeSet;
use std::sync::Arc;

use punctual_core::shard::event::{Load, Loaded, Released, ScheduleLoad, Token};
use punctual_core::shard::write::{BatchSeq, SharedBatch};
use punctual_core::workflow::RunEvent;
use punctual_core::{JobId, RunId, ServerId, ShardId, Span, Timestamp};
use punctual_store::{Owned, RunRow};

use crate::client::Request;
use crate::coverage::Window;
use crate::history::Fact;
use crate::server::{Adoption, BatchAnswer, ServerStep};
use crate::simulation::{Action, Health, Node, Simulation};
use crate::store::BatchResult;

pub(crate) enum StoreCall {
    Apply {
        batch: SharedBatch,
        lane: usize,
        connection: u64,
    },
    Load(Load),
    LoadSchedules(ScheduleLoad),
    Find {
        token: Token,
        id: JobId,
    },
    /// Renews, then takes these over, then takes what is free.
    Lease {
        take_over: Vec<ShardId>,
    },
    /// Reads what ran in the shards that were just leased.
    Adopt {
        kept: Vec<Owned>,
        taken: Vec<Owned>,
    },
    Submit(Request),
    StartRun {
        row: Box<RunRow>,
        definition: Arc<str>,
    },
    ChangeRun {
        run: RunId,
        event: RunEvent,
        /// By the clock of the server.
        at: Timestamp,
    },
    DueRuns {
        owned: BTreeSet<ShardId>,
        at: Timestamp,
    },
    Release(ServerId),
    GiveUp(Owned),
}

impl Simulation {
    pub(crate) fn store_delay(&mut self) -> Span {
        if !self.is_calm() && self.rng.per_mille(self.plan.store.slow_per_mille) {
            return self.rng.millis(20, self.plan.store.slow_ms_max);
        }
        self.rng.millis(0, 3)
    }

    pub(crate) fn store_call(&mut self, node: Node, call: StoreCall) {
        let is_alive = self.is_server_alive(node);
        match call {
            StoreCall::Apply { batch, lane, connection } => self.store_apply(node, batch, lane, connection),
            StoreCall::Load(load) => {
                let (jobs, stopped_at) = self.store.load(&load);
                self.answer_server(node, ServerStep::Paged { load, jobs, stopped_at });
            }
            StoreCall::LoadSchedules(load) => {
                let (rows, next) = self.store.load_schedules(load);
                let calendars = self.store.calendar_changes() as u32;
                self.answer_server(node, ServerStep::SchedulesRead { load, rows, next, calendars });
            }
            StoreCall::Find { token, id } => {
                let found = self.store.find(id);
                self.answer_server(node, ServerStep::Found { token, id, found });
            }
            StoreCall::Lease { take_over } if is_alive => self.store_lease(node, take_over),
            StoreCall::Adopt { kept, taken } if is_alive => {
                taken.iter().for_each(|owned| self.spoil_runs_at_takeover(owned.shard));
                let read = |owned: Owned| {
                    let (running, spent, whole_since) = self.store.open_starts(owned.shard);
                    let schedules = self.store.taken_schedules(owned.shard);
                    let queues = self.store.queue_snapshot();
                    Adoption { owned, running, spent, whole_since, schedules, queues }
                };
                let taken = taken.into_iter().map(read).collect();
                self.answer_server(node, ServerStep::Leased { kept, taken });
            }
            StoreCall::Submit(request) if is_alive || self.rng.percent(50) => self.store_submit(node, request),
            StoreCall::StartRun { row, definition } if is_alive || self.rng.percent(50) => {
                self.store_start_run(node, *row, definition);
            }
            StoreCall::ChangeRun { run, event, at } if is_alive || self.rng.percent(50) => {
                self.store_change_run(node, run, event, at);
            }
            StoreCall::DueRuns { owned, at } if is_alive => self.store_due_runs(node, &owned, at),
            StoreCall::Release(server) => self.store.release(server),
            StoreCall::GiveUp(owned) => {
                self.store.give_up(self.servers[node.place].id, owned);
                self.answer_server(node, ServerStep::GivenUp(owned));
            }
            StoreCall::Lease { .. }
            | StoreCall::Adopt { .. }
            | StoreCall::Submit(_)
            | StoreCall::StartRun { .. }
            | StoreCall::ChangeRun { .. }
            | StoreCall::DueRuns { .. } => {}
        }
    }

    fn answer_server(&mut self, node: Node, step: ServerStep) {
        let delay = self.store_delay();
        self.after(delay, Action::Server(node, step));
    }

    fn store_lease(&mut self, node: Node, take_over: Vec<ShardId>) {
        let id = self.servers[node.place].id;
        let kept = self.store.renew(id);
        let mut taken = self.store.take_over(id, take_over);
        let limit = self.rng.range(1, i64::from(self.plan.shards)) as usize;
        taken.extend(self.store.acquire(id, limit));
        for &owned in &taken {
            self.note(Fact::Leased { server: id, owned });
        }
        let delay = self.store_delay();
        self.after(delay, Action::Store(node, StoreCall::Adopt { kept, taken }));
    }

    fn store_apply(&mut self, node: Node, batch: SharedBatch, lane: usize, connection: u64) {
        if !self.is_server_alive(node) {
            // The request was on its way when its server died.
            if self.rng.percent(50) {
                self.hit(Window::DeadServersBatchApplied);
                self.take_batch(&batch);
            } else {
                self.hit(Window::DeadServersBatchDropped);
            }
            return;
        }
        let was_cut = self.servers[node.place].lanes[lane].cut_connection == Some(connection);
        let cut_now = !was_cut && !self.is_calm() && self.rng.per_mille(self.plan.store.cut_per_mille);
        if was_cut || cut_now {
            self.servers[node.place].lanes[lane].cut_connection = Some(connection);
            self.note(Fact::Fault(format!("cut server {} from the store", node.place)));
            if self.rng.percent(50) {
                self.hit(Window::BatchUnknownApplied);
                self.take_batch(&batch);
            } else {
                self.hit(Window::BatchUnknownNotApplied);
            }
            return self.answer_written(node, batch.seq, lane, BatchAnswer::Unknown);
        }
        let written = match self.take_batch(&batch) {
            BatchResult::Done { void, released } => {
                // A server that does not have all of their tasks at hand reads them.
                let is_at_hand = released.is_empty() || self.run_rng.percent(75);
                let released = if is_at_hand { Released::AtHand(released) } else { Released::InStore };
                BatchAnswer::Done { void, released }
            }
            BatchResult::Fenced(shards) => {
                self.hit(Window::BatchFenced);
                if shards.len() < batch.fences.len() {
                    self.hit(Window::BatchPartlyFenced);
                }
                self.note(Fact::Fenced { server: batch.server, shards: shards.clone() });
                BatchAnswer::Fenced(shards)
            }
            BatchResult::Broken(_) => return,
        };
        self.answer_written(node, batch.seq, lane, written);
    }

    /// Answers come in the order of the batches of a lane.
    fn answer_written(&mut self, node: Node, seq: BatchSeq, lane: usize, written: BatchAnswer) {
        let at = self.now + self.store_delay();
        let server = &mut self.servers[node.place];
        server.unanswered += 1;
        let queue = &mut server.lanes[lane];
        queue.answered_at = queue.answered_at.max(at);
        let at = queue.answered_at;
        self.at(at, Action::Server(node, ServerStep::BatchAnswer { seq, lane, written }));
        self.maybe_strike_at_commit(node);
    }

    fn take_batch(&mut self, batch: &SharedBatch) -> BatchResult {
        let took = self.store.apply(batch);
        match &took {
            BatchResult::Done { void, .. } => {
                self.note(Fact::Committed { batch: Arc::clone(batch), void: void.clone() });
                self.jobs_of_schedules(batch, void);
                self.jobs_of_ended_nodes(batch);
            }
            BatchResult::Broken(text) => self.note(Fact::Broken { text: text.clone() }),
            // Nothing follows from what was refused; a store that gets that wrong shows it here.
            BatchResult::Fenced(_) => self.jobs_of_ended_nodes(batch),
        }
        took
    }

    pub(crate) fn is_server_alive(&self, node: Node) -> bool {
        let server = &self.servers[node.place];
        server.life == node.life && server.health != Health::Down
    }

    /// Whether a page shows a job as it was and no longer is.
    pub(crate) fn is_outdated(&self, jobs: &[Loaded]) -> bool {
        let has_moved = |job: &Loaded| !matches!(self.store.find(job.row.key.id), punctual_core::shard::event::Found::Waiting(now) if now.row.key == job.row.key);
        jobs.len() <= 20 && jobs.iter().any(has_moved)
    }
}
