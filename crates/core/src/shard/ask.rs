//! What the owner of a shard is asked, and what it answers.
//!
//! Whoever asks a server that does not own the shard is told so, and asks the next one. Everything here may be asked
//! again: an answer may be lost on its way.

use crate::attempt::AttemptNo;
use crate::id::{JobId, ScheduleId, ShardId};
use crate::schedule::{ScheduleCommand, ScheduleReply, ScheduledRun};
use crate::shard::event::{Assignment, Command, Made, Reply, Report, Token};
use crate::shard::{GangView, Owner};
use crate::time::Timestamp;

/// A question that only the owner of a shard may answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ask {
    /// A command on a job. Answered when it is durable.
    Job { id: JobId, command: Command },
    /// A command that somebody gives on a schedule. Answered when it is durable.
    Schedule { id: ScheduleId, command: ScheduleCommand, who: String },
    /// A question of the agent that runs an attempt.
    Agent { id: JobId, attempt: AttemptNo, ask: AgentAsk },
    /// What the gang of a job waits for.
    Gang { id: JobId },
}

/// What the agent of an attempt asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AgentAsk {
    /// What to run.
    Work,
    /// The agent lives, in the environment with this name: may it go on?
    Alive { host: String },
    /// The attempt has ended. Answered when that is durable.
    Ended(Box<Report>),
}

impl Ask {
    /// The shard whose owner may answer.
    pub fn shard(&self) -> ShardId {
        match self {
            Self::Job { id, .. } | Self::Agent { id, .. } | Self::Gang { id } => id.shard(),
            Self::Schedule { id, .. } => id.shard(),
        }
    }
}

/// The answer to an [`Ask`], of the same kind.
#[derive(Debug, Clone)]
pub enum Answer {
    /// The shard is another server's, or is changing hands: ask again.
    NotOwner,
    Job(Reply),
    Schedule(ScheduleReply),
    Agent(AgentAnswer),
    /// `None`: the job is of no gang, has started, or is not in memory.
    Gang(Option<GangView>),
}

/// What the agent of an attempt is answered.
#[derive(Debug, Clone)]
pub enum AgentAnswer {
    Work(Box<AgentWork>),
    Alive {
        cancel_requested: bool,
    },
    /// The end of the attempt is durable.
    Recorded,
    /// The attempt is not the agent's any more, if it ever was.
    Over,
}

/// What an agent is to run.
#[derive(Debug, Clone)]
pub struct AgentWork {
    pub assignment: Assignment,
    /// What the run knows of its schedule. Worked out of the assignment's origin after the owner has answered, because
    /// it takes longer than the owner can wait.
    pub scheduled_run: Option<ScheduledRun>,
}

impl AgentWork {
    /// When the attempt is over at the latest, with the time that it may take to end.
    pub fn ends_by(&self) -> Timestamp {
        self.assignment.started_at + self.assignment.task.spec.time_to_end()
    }
}

impl From<Reply> for Answer {
    fn from(reply: Reply) -> Self {
        Self::Job(reply)
    }
}

impl From<ScheduleReply> for Answer {
    fn from(reply: ScheduleReply) -> Self {
        Self::Schedule(reply)
    }
}

impl From<AgentAnswer> for Answer {
    fn from(answer: AgentAnswer) -> Self {
        Self::Agent(answer)
    }
}

impl Owner {
    pub(super) fn ask(&mut self, token: Token, ask: Ask, made: Option<Made>) {
        match ask {
            Ask::Job { id, command } => self.command(token, id, command),
            Ask::Schedule { id, command, who } => self.schedule_command(token, id, command, who, made),
            Ask::Agent { id, attempt, ask } => self.agent_ask(token, id, attempt, ask),
            Ask::Gang { id } => {
                let is_ours = self.shard(id.shard()).is_some_and(|shard| !shard.is_retiring);
                let answer = if is_ours { Answer::Gang(self.gang_of(id)) } else { Answer::NotOwner };
                self.answer_now(token, answer);
            }
        }
    }

    /// Answers at once: nothing has to become durable for it.
    pub(super) fn answer_now(&mut self, token: Token, answer: impl Into<Answer>) {
        self.effects.answers.push((token, answer.into()));
    }
}
