//! Answers that wait until what they say is durable.

use std::collections::BTreeMap;

use crate::id::{JobId, ShardId, WorkerId};
use crate::shard::event::{Reply, Token};
use crate::shard::{AgentAnswer, Answer};

/// Answers to the agents of one job that wait for the same write, at most.
const AGENT_ANSWERS_MAX: usize = 8;

type Waiting = BTreeMap<JobId, Vec<(Token, Answer)>>;

#[derive(Default)]
pub(super) struct Answers {
    /// To commands: for the next write of their job.
    to_commands: Waiting,
    /// To agents: for the end of their attempt. Not among those to commands, because a wish to cancel may become
    /// durable in between.
    to_agents: Waiting,
    /// Workers that reported the outcome of an attempt which another worker was given, or which was lost. They may
    /// forget it when its end is durable.
    late_reporters: BTreeMap<JobId, WorkerId>,
    /// Workers whose attempt an agent ended. They have a slot for it until that is durable.
    agents_workers: BTreeMap<JobId, WorkerId>,
}

/// There are as many answers as may wait.
pub(super) struct TooMany;

impl Answers {
    /// Answers a command when the next write of its job is durable.
    pub(super) fn add_command(&mut self, id: JobId, token: Token, reply: Reply) {
        self.to_commands.entry(id).or_default().push((token, reply.into()));
    }

    /// Whether a command on this job waits for its answer.
    pub(super) fn has_command(&self, id: JobId) -> bool {
        self.to_commands.contains_key(&id)
    }

    /// The answers to commands on a job whose write has become durable.
    pub(super) fn take_commands(&mut self, id: JobId) -> Vec<(Token, Answer)> {
        self.to_commands.remove(&id).unwrap_or_default()
    }

    /// Answers an agent when the end of its attempt is durable.
    pub(super) fn add_agent(&mut self, id: JobId, token: Token, answer: AgentAnswer) -> Result<(), TooMany> {
        let waiting = self.to_agents.entry(id).or_default();
        if waiting.len() >= AGENT_ANSWERS_MAX {
            return Err(TooMany);
        }
        waiting.push((token, answer.into()));
        Ok(())
    }

    /// The answers to agents of a job whose attempt has durably ended.
    pub(super) fn take_agents(&mut self, id: JobId) -> Vec<(Token, Answer)> {
        self.to_agents.remove(&id).unwrap_or_default()
    }

    /// A worker that waits for the end of an attempt which is not counted as its own.
    pub(super) fn set_late_reporter(&mut self, id: JobId, worker: WorkerId) {
        self.late_reporters.insert(id, worker);
    }

    pub(super) fn take_late_reporter(&mut self, id: JobId) -> Option<WorkerId> {
        self.late_reporters.remove(&id)
    }

    /// An agent has ended an attempt of this worker.
    pub(super) fn set_ended_by_agent(&mut self, id: JobId, worker: WorkerId) {
        self.agents_workers.insert(id, worker);
    }

    pub(super) fn is_ended_by_agent(&self, id: JobId) -> bool {
        self.agents_workers.contains_key(&id)
    }

    /// The worker whose attempt an agent has ended.
    pub(super) fn take_ended_by_agent(&mut self, id: JobId) -> Option<WorkerId> {
        self.agents_workers.remove(&id)
    }

    /// The shard is not ours any more: whoever waits has to ask the next owner, and the slots of workers whose attempts
    /// agents ended are free.
    pub(super) fn forget(&mut self, shard: ShardId) -> Forgotten {
        let is_of_shard = |id: &JobId| id.shard() == shard;
        self.late_reporters.retain(|id, _| !is_of_shard(id));
        let mut tokens = Vec::new();
        for waiting in [&mut self.to_commands, &mut self.to_agents] {
            for (_, answers) in waiting.extract_if(.., |id, _| is_of_shard(id)) {
                tokens.extend(answers.into_iter().map(|(token, _)| token));
            }
        }
        let slots = self.agents_workers.extract_if(.., |id, _| is_of_shard(id)).collect();
        Forgotten { tokens, slots }
    }
}

/// What waited for writes of a shard that was given up.
pub(super) struct Forgotten {
    pub(super) tokens: Vec<Token>,
    pub(super) slots: Vec<(JobId, WorkerId)>,
}
