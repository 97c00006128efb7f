//! The state machine of the shards that one server owns.
//!
//! [`Owner`] is single-threaded and pure: events and the time go in, [`Effects`]
//! and batches of [`Write`]s come out. It alone decides what starts, where, and
//! what an outcome means. It never acts on a decision before the decision is
//! durable: an effect that depends on a write is emitted by [`Owner::committed`].
//!
//! It is made of parts that own their state and answer questions: what waits (`window`), the workers and their slots
//! (`fleet`), what is planned (`schedules`), what is read of a shard (`sweeps`), what is decided and not yet durable
//! (`outbox`), and who is answered when it is (`answers`). A part sees another through its methods, if at all. What
//! needs several of them is an `impl Owner` beside them: which jobs come into memory (`admission`), who runs what
//! (`matching`), which members of batches start together (`gangs`), which queues are paused (`queues`), which workers fell silent (`workers`), what the end of an attempt means (`judge`, which decides) and what follows
//! from it (`outcomes`), what people and agents ask for (`ask`, `commands`, `agents`), what follows when a batch is durable
//! (`commit`), and what happens when shards come and go (`takeover`).
//!
//! Does no I/O, reads no clock and keeps nothing that its shards' rows could not
//! rebuild; see `engine` for what drives it.

mod admission;
mod agents;
mod answers;
mod ask;
#[cfg(feature = "planted-bugs")]
mod bug;
mod commands;
mod commit;
mod config;
pub mod event;
mod fleet;
mod gangs;
mod judge;
mod live;
mod loads;
mod lookups;
mod matching;
mod notices;
mod outbox;
mod outcomes;
mod planted;
mod queues;
mod running_quotas;
mod schedules;
mod shards;
mod start_records;
mod sweeps;
mod takeover;
mod view;
mod window;
mod worker_requests;
mod workers;
pub mod write;

#[cfg(test)]
mod credit_tests;
#[cfg(test)]
mod gang_tests;
#[cfg(test)]
mod lane_tests;
#[cfg(test)]
mod queue_tests;
#[cfg(test)]
mod running_quota_tests;
#[cfg(test)]
mod tests;

pub use agents::AGENT;
pub use ask::{AgentAnswer, AgentAsk, AgentWork, Answer, Ask};
#[cfg(feature = "planted-bugs")]
pub use bug::Bug;
pub use config::{Config, QuotasAtStart};
pub use fleet::{Who, WorkerNeeds};
pub use gangs::{GangKey, GangView};
use planted::planted;
pub use view::{Counts, LiveView, WorkerStatus};
pub use worker_requests::{FittingWorkers, PoolWanted, WorkersWanted};

use crate::id::{ServerId, ShardId};
use crate::random::SplitMix64;
use crate::shard::answers::Answers;
use crate::shard::event::{Effects, Event, Token};
use crate::shard::fleet::Fleet;
use crate::shard::live::Shard;
use crate::shard::lookups::Lookups;
use crate::shard::notices::Notices;
use crate::shard::outbox::Outbox;
use crate::shard::queues::PausedQueues;
use crate::shard::running_quotas::RunningQuotas;
use crate::shard::schedules::Calendars;
use crate::shard::shards::Shards;
use crate::shard::takeover::Takeovers;
use crate::shard::window::Window;
use crate::time::{Span, Timestamp};

/// Decides for all shards of one server.
pub struct Owner {
    config: Config,
    server: ServerId,
    /// The owned shards: for each its jobs in memory, its schedules, and the reads under way.
    shards: Shards,
    /// What waits.
    window: Window,
    /// The workers and their slots.
    fleet: Fleet,
    /// How many attempts of each namespace may run here, where that is limited.
    running_quotas: RunningQuotas,
    /// Queues whose jobs do not start.
    paused_queues: PausedQueues,
    /// Decisions that are not yet durable.
    outbox: Outbox,
    /// Requests that are answered when their write is durable.
    answers: Answers,
    /// Requests about jobs that are not in memory.
    lookups: Lookups,
    takeovers: Takeovers,
    effects: Effects,
    calendars: Calendars,
    chance: SplitMix64,
    counts: Counts,
    notices: Notices,
    now: Timestamp,
    ticked_at: Option<Timestamp>,
    next_check: Timestamp,
    /// The shard that plans first.
    planning_turn: ShardId,
}

/// How often silence, overdue attempts and queue timeouts are looked for.
const CHECK_EVERY: Span = Span::from_secs(1);

impl Owner {
    /// `seed` feeds the jitter of retries.
    pub fn new(server: ServerId, config: Config, seed: u64) -> Self {
        Self {
            outbox: Outbox::new(config.lanes, config.batches_in_flight_max),
            window: Window::new(&config),
            fleet: Fleet::new(&config),
            running_quotas: RunningQuotas::new(config.quotas_at_start),
            paused_queues: PausedQueues::default(),
            config,
            server,
            shards: Shards::default(),
            answers: Answers::default(),
            lookups: Lookups::default(),
            takeovers: Takeovers::default(),
            effects: Effects::default(),
            calendars: Calendars::default(),
            chance: SplitMix64::new(seed),
            counts: Counts::default(),
            notices: Notices::default(),
            now: Timestamp::EPOCH,
            ticked_at: None,
            next_check: Timestamp::EPOCH,
            planning_turn: ShardId(0),
        }
    }

    /// Takes in what happened. Call [`Owner::tick`] after the last event at hand.
    pub fn handle(&mut self, event: Event, now: Timestamp) {
        self.now = now;
        match event {
            Event::Acquired { shard, epoch, running, spent, whole_since, schedules } => {
                self.acquired(shard, epoch, spent, schedules);
                self.adopt_all(shard, running, whole_since);
            }
            Event::Released { shard } => self.forget(shard),
            Event::Retire { shard } => self.retire(shard),
            Event::Submitted { jobs } => {
                for job in jobs {
                    self.admit(job);
                }
            }
            Event::Page { load, jobs, stopped_at } => self.page(&load, jobs, stopped_at),
            Event::Found { token, id, found } => self.found(token, id, found),
            Event::TaskChanged { task } => self.task_changed(&task),
            Event::WorkerHello { worker, stream, spec, held } => self.worker_hello(worker, stream, spec, &held),
            Event::WorkerDisconnected { worker, stream } => self.fleet.disconnect(worker, stream),
            Event::WorkerCredit { worker, stream, credit } => {
                self.fleet.set_credit(worker, stream, credit);
                self.fleet.seen(worker, now);
            }
            Event::WorkersAlive { workers } => {
                for worker in workers {
                    self.fleet.seen(worker, now);
                }
            }
            Event::WorkersRevoked { workers } => self.lose_workers(&workers),
            Event::Outcomes { worker, reports } => {
                self.fleet.seen(worker, now);
                for report in reports {
                    self.report(worker, report);
                }
            }
            Event::AgentSilent { id, attempt, host } => self.agent_silent(id, attempt, host),
            Event::Ask { token, ask, made } => self.ask(token, ask, made),
            Event::Schedules { load, rows, next, calendars } => {
                self.schedules_page(&load, rows, next, calendars);
            }
            Event::Replanned { rows, calendars } => self.calendars_changed(rows, calendars),
            Event::RunningQuotas { quotas } => self.set_running_quotas(&quotas),
            Event::RunningPlaces { version, places } => self.set_running_places(version, &places),
            Event::UnplaceableGangs { gangs } => self.set_unplaceable_gangs(gangs),
            Event::PausedQueues { paused } => self.set_paused_queues(paused),
            Event::Watch(watch) => self.notices.watch(watch, now),
        }
    }

    /// Advances the time: handles what has become due, silent or overdue, starts reads, and matches jobs to workers.
    pub fn tick(&mut self, now: Timestamp) {
        self.now = now;
        self.forgive_own_pause();
        self.plan();
        self.wake_due();
        if now >= self.next_check {
            self.next_check = now + CHECK_EVERY;
            self.reap_silent_workers();
            self.end_overdue();
            self.end_late_gangs();
            self.read_left_out();
            self.tell_late();
        }
        self.request_loads();
        self.match_ready();
        self.tell_credits();
        self.tell_demands();
    }

    /// The next moment at which [`Owner::tick`] has something to do by itself.
    pub fn next_wake(&self) -> Timestamp {
        let reads = self.owned().filter(|shard| !shard.is_retiring).flat_map(|shard| shard.sweeps.next_reads());
        let demands = self.fleet.next_demands(&self.window);
        let others = self.window.next_due().into_iter().chain(demands).chain(self.outbox.next_close());
        let others = others.chain(self.next_planned());
        reads.chain(others).fold(self.next_check, Timestamp::min)
    }

    pub fn take_effects(&mut self) -> Effects {
        let mut effects = std::mem::take(&mut self.effects);
        effects.calendars_missed_since = self.calendars.take_missed();
        effects.answers.retain(|(token, _)| *token != Token::NOBODY);
        effects
    }

    pub fn server(&self) -> ServerId {
        self.server
    }

    /// A stopped process or a stepped clock makes every worker look silent and every attempt
    /// overdue. The gap is ours, so it is not held against them.
    fn forgive_own_pause(&mut self) {
        const PAUSE_MIN: Span = Span::from_secs(3);
        if let Some(before) = self.ticked_at {
            if self.now.since(before) > PAUSE_MIN {
                let gap = self.now.since(before);
                self.fleet.forgive(gap, self.now);
                for shard in self.shards.iter_mut() {
                    shard.jobs.values_mut().for_each(|live| live.stage.prolong(gap));
                }
            } else if self.now < before {
                self.fleet.clamp_seen(self.now);
                self.next_check = self.now;
                let horizon = self.now + self.config.look_ahead;
                for shard in self.shards.iter_mut() {
                    shard.sweeps.clock_went_back(horizon);
                }
            }
        }
        self.ticked_at = Some(self.now);
    }

    fn owned(&self) -> impl Iterator<Item = &Shard> {
        self.shards.iter()
    }

    fn shard(&self, id: ShardId) -> Option<&Shard> {
        self.shards.get(id)
    }

    fn shard_mut(&mut self, id: ShardId) -> Option<&mut Shard> {
        self.shards.get_mut(id)
    }
}
