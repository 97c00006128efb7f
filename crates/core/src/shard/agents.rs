//! Attempts that an agent runs, in an environment that their worker made for each.
//!
//! The worker is who was given the attempt, and the agent says how it went. So the worker is told
//! to let go when the end is durable, and has its slot until then: it holds the environment.

use crate::attempt::AttemptNo;
use crate::id::{JobId, WorkerId};
use crate::run::Run;
use crate::shard::event::{Assignment, Report, Send, Token};
use crate::shard::judge::End;
use crate::shard::live::{Live, Stage};
use crate::shard::{AgentAnswer, AgentAsk, AgentWork, Answer, LiveView, Owner, planted};

/// The capability of a worker whose binaries are run by agents, which must be heard of.
pub const AGENT: &str = "agent";

impl Owner {
    pub(super) fn agent_ask(&mut self, token: Token, id: JobId, attempt: AttemptNo, ask: AgentAsk) {
        if self.shard(id.shard()).is_none() {
            return self.answer_now(token, Answer::NotOwner);
        }
        let answer = match ask {
            AgentAsk::Ended(report) => return self.agent_report(token, Report { id, attempt, ..*report }),
            AgentAsk::Work => self
                .assignment(id, attempt)
                .map(|assignment| AgentAnswer::Work(Box::new(AgentWork { assignment, scheduled_run: None }))),
            AgentAsk::Alive { .. } => {
                let view = self.shown_running(&[id]).pop().filter(|view| view.attempt == attempt);
                view.map(|view| AgentAnswer::Alive {
                    cancel_requested: view.cancel_requested && self.is_cancel_durable(id),
                })
            }
        };
        self.answer_now(token, answer.unwrap_or(AgentAnswer::Over));
    }

    /// Counts for the current attempt only. Any other is refused, and changes nothing.
    fn agent_report(&mut self, token: Token, report: Report) {
        let Some(shard) = self.shard(report.id.shard()).filter(|shard| !shard.is_retiring) else {
            return self.answer_now(token, Answer::NotOwner);
        };
        let Report { id, attempt, outcome, timed_out, details } = report;
        match shard.jobs.get(&id).map(|live| live.stage) {
            Some(Stage::Running(run)) if run.attempt == attempt => {
                self.end_by_agent(id, run.worker, End::Reported { outcome, timed_out, details });
                self.answer_agent_after(id, token, AgentAnswer::Recorded);
            }
            // It may be this very report, repeated. Whether its end is the one that counts is
            // known when that is durable.
            Some(Stage::Ending { run: Some(run) }) if run.attempt == attempt => {
                self.answer_agent_after(id, token, AgentAnswer::Over);
            }
            Some(Stage::Waiting | Stage::Ready | Stage::Starting(_) | Stage::Running(_) | Stage::Ending { .. })
            | None => self.answer_now(token, AgentAnswer::Over),
        }
    }

    /// Answers an agent when the end of its attempt is durable.
    fn answer_agent_after(&mut self, id: JobId, token: Token, answer: AgentAnswer) {
        if planted!(self.config, AnswerBeforeDurable) {
            return self.answer_now(token, answer);
        }
        if self.answers.add_agent(id, token, answer).is_err() {
            // An agent may repeat itself for as long as the store takes: ask again.
            self.answer_now(token, Answer::NotOwner);
        }
    }

    /// The end of the attempt is durable.
    pub(super) fn answer_agents(&mut self, id: JobId) {
        self.effects.answers.extend(self.answers.take_agents(id));
    }

    /// Nothing was heard of the agent for too long. Its worker is there, and ends the environment.
    pub(super) fn agent_silent(&mut self, id: JobId, attempt: AttemptNo, host: Option<String>) {
        let stage = self.shards.live(id).map(|live| live.stage);
        if let Some(Stage::Running(run)) = stage
            && run.attempt == attempt
        {
            self.end_by_agent(id, run.worker, End::AgentLost { host });
        }
    }

    fn end_by_agent(&mut self, id: JobId, worker: WorkerId, end: End) {
        self.answers.set_ended_by_agent(id, worker);
        self.end_attempt(id, end);
    }

    /// The end is durable. True if it was an agent's, and its worker has been told.
    pub(super) fn let_go_of_agent(&mut self, id: JobId, attempt: AttemptNo) -> bool {
        let Some(worker) = self.answers.take_ended_by_agent(id) else { return false };
        self.fleet.release(worker, id);
        self.send(worker, Send::Stop { id, attempt });
        true
    }

    /// What the agent of a running attempt is to run.
    fn assignment(&self, id: JobId, attempt: AttemptNo) -> Option<Assignment> {
        let shard = self.shard(id.shard())?;
        let live = shard.jobs.get(&id)?;
        match live.stage {
            Stage::Running(run) if run.attempt == attempt => {
                let origin = shard.schedules.origin_of(live);
                Some(live.assignment(shard.epoch, attempt, run.started_at, origin))
            }
            Stage::Waiting | Stage::Ready | Stage::Starting(_) | Stage::Running(_) | Stage::Ending { .. } => None,
        }
    }

    /// The running attempts that agents must be heard of for.
    pub fn run_by_agents(&self) -> Vec<LiveView> {
        // Most fleets run nothing by agents, and no job has to be looked at.
        if !self.fleet.has_agents() {
            return Vec::new();
        }
        let is_binary = |live: &&Live| matches!(live.task.spec.run, Run::Binary(_));
        let binaries = self.shards.all_live().filter(is_binary);
        let views = binaries.filter_map(|live| self.running_view(live));
        views.filter(|view| self.fleet.makes_agents(view.worker)).collect()
    }
}
