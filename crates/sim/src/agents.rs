//! Attempts that an agent runs for a worker. The agent tells servers how it went until one that
//! owns the job has answered, and then ends; the worker has the slot in use until it was told to
//! let go, or sees that its agent has ended.
//!
//! An agent dies with its worker here. What it says may come late, twice, and to any server.

use punctual_core::attempt::{Failure, Outcome, Ran};
use punctual_core::shard::event::{Event, Report, Token};
use punctual_core::shard::{AgentAnswer, AgentAsk, Answer, Ask};
use punctual_core::{AttemptNo, JobId};
use punctual_store::Owned;

use crate::coverage::Window;
use crate::history::Fact;
use crate::options::Planted;
use crate::server::ServerStep;
use crate::simulation::{Action, Node, Simulation};
use crate::worker::{HeldAttempt, WorkerStep};

type Key = (JobId, AttemptNo);

/// All that a worker knows of an agent that has ended.
const ENDED: &str = "the agent ended without a report";

/// Whether the report is the worker's, who does not know how the attempt went.
pub(crate) fn is_shrug(report: &Report) -> bool {
    matches!(&report.outcome, Outcome::Failed(failure) if failure.reason == ENDED)
}

/// Clients count theirs from 1, and those who ask about schedules from 2 to the power of 61.
const FIRST_TOKEN: u64 = 1 << 62;

/// The questions of agents that were not answered.
#[derive(Default)]
pub(crate) struct Agents {
    asked: Vec<Option<Question>>,
}

impl Agents {
    pub(crate) fn have_asked(token: Token) -> bool {
        token.0 >= FIRST_TOKEN
    }
}

struct Question {
    agent: Node,
    key: Key,
    /// What the server owned by its own belief when it was asked.
    believed: Option<Owned>,
}

impl Simulation {
    /// One attempt in ten.
    pub(crate) fn draw_agent(&mut self) -> bool {
        self.rng.percent(10)
    }

    /// Says it to every server that can be reached; the owner decides.
    pub(crate) fn agent_tells(&mut self, place: usize, report: &Report) {
        let node = self.workers[place].node();
        for server in 0..self.servers.len() {
            if self.workers[place].links[server].is_partitioned || (!self.is_calm() && self.rng.percent(10)) {
                continue;
            }
            let to = self.servers[server].node();
            let copies = if self.rng.percent(10) { 2 } else { 1 };
            for _ in 0..copies {
                let is_late = !self.is_calm() && self.rng.percent(10);
                let delay = if is_late { self.rng.millis(100, 20_000) } else { self.rng.millis(0, 100) };
                let step = ServerStep::AgentReported { agent: node, report: report.clone() };
                self.after(delay, Action::Server(to, step));
            }
        }
    }

    pub(crate) fn agent_reported(&mut self, place: usize, agent: Node, report: Report) {
        let token = Token(FIRST_TOKEN + self.agents.asked.len() as u64);
        let shard = report.id.shard();
        let owned = self.servers[place].owner.owned_shards().into_iter();
        let believed = owned.map(|(shard, epoch)| Owned { shard, epoch }).find(|owned| owned.shard == shard);
        self.agents.asked.push(Some(Question { agent, key: (report.id, report.attempt), believed }));
        let now = self.server_now(place);
        let (id, attempt) = (report.id, report.attempt);
        let ask = Ask::Agent { id, attempt, ask: AgentAsk::Ended(Box::new(report)) };
        self.servers[place].owner.handle(Event::Ask { token, ask, made: None }, now);
    }

    pub(crate) fn answer_agent(&mut self, token: Token, answer: Answer) {
        let place = (token.0 - FIRST_TOKEN) as usize;
        let Some(Question { agent, key, believed }) = self.agents.asked[place].take() else { return };
        // A server that was replaced must not tell an agent that it is over: it asks the store first.
        let is_owner = believed.is_some() && self.store.epoch(key.0.shard()) == believed;
        let may_say_so = is_owner || self.has(Planted::AgentDismissedByZombie);
        let is_over = matches!(answer, Answer::Agent(AgentAnswer::Over));
        let answer = if is_over && !may_say_so { Answer::NotOwner } else { answer };
        let delay = self.rng.millis(0, self.plan.message_ms_max);
        self.after(delay, Action::Worker(agent, WorkerStep::AgentAnswered { key, answer }));
    }

    /// The agent ends, and its worker sees that if it was not told before.
    pub(crate) fn agent_answered(&mut self, place: usize, key: Key, answer: &Answer) {
        let (id, attempt) = key;
        match answer {
            // Nobody who may decide; it is said again later.
            Answer::NotOwner => return,
            Answer::Agent(AgentAnswer::Recorded) => {
                self.hit(Window::AgentReported);
                self.note(Fact::Acked { id, attempt });
            }
            Answer::Agent(AgentAnswer::Over) => self.hit(Window::AgentRefused),
            Answer::Agent(AgentAnswer::Work(_) | AgentAnswer::Alive { .. })
            | Answer::Job(_)
            | Answer::Schedule(_)
            | Answer::Gang(_) => {
                unreachable!("the agent said how its attempt went")
            }
        }
        let worker = &mut self.workers[place];
        if !matches!(worker.held.get(&key), Some(HeldAttempt::ReportedByAgent(_))) {
            return;
        }
        let failure = Failure { ran: Ran::Unknown, ..Failure::new(ENDED) };
        let report = Report { id, attempt, outcome: Outcome::Failed(failure), timed_out: false, details: None };
        worker.held.insert(key, HeldAttempt::Finished(report.clone()));
        self.report(place, vec![report]);
    }
}
