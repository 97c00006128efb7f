//! Questions to the owner of a shard, and its answers, in the words of the wire and back.
//!
//! Commands on schedules are JSON, but for the inputs, which JSON would make four times as long.

use prost::Message;
use prost::bytes::Bytes;
use punctual_core::schedule::{ScheduleCommand, ScheduleEdit};
use punctual_core::shard::event::{AssignedInput, Assignment, Command, Refusal, Reply};
use punctual_core::shard::write::Epoch;
use punctual_core::shard::{AgentAnswer, AgentAsk, AgentWork, Answer, Ask, GangView};
use punctual_core::{AttemptNo, BatchId, JobId, JobKey, ScheduleId};
use punctual_proto::convert::{
    BadMessage, id_bytes, job_id, outcome_from_wire, outcome_to_wire, scheduled_run_from_wire, scheduled_run_to_wire,
};
use punctual_proto::peer as wire;
use punctual_proto::worker::{Outcome, ScheduledRun};

use crate::convert::{state, time};

/// Of the questions in one message, about; well below what a peer takes. The largest question alone, with an
/// input of 256 KiB, is smaller.
const REQUEST_BYTES_MAX: usize = 2 << 20;

/// The questions in order, cut into messages that a peer takes. Each is sent after the one before it was answered.
pub(crate) fn requests(asks: Vec<Ask>) -> Vec<wire::AskRequest> {
    let mut requests: Vec<wire::AskRequest> = Vec::new();
    let mut room = 0;
    for ask in asks.into_iter().map(ask_to_wire) {
        let size = ask.encoded_len();
        match requests.last_mut() {
            Some(request) if size <= room => request.asks.push(ask),
            Some(_) | None => {
                requests.push(wire::AskRequest { asks: vec![ask] });
                room = REQUEST_BYTES_MAX;
            }
        }
        room = room.saturating_sub(size);
    }
    requests
}

fn ask_to_wire(ask: Ask) -> wire::Ask {
    let ask = match ask {
        Ask::Job { id, command } => wire::ask::Ask::Job(job_command_to_wire(id, command)),
        Ask::Schedule { id, command, who } => wire::ask::Ask::Schedule(schedule_command_to_wire(id, command, who)),
        Ask::Agent { id, attempt, ask } => wire::ask::Ask::Agent(agent_ask_to_wire(id, attempt, ask)),
        Ask::Gang { id } => wire::ask::Ask::Gang(wire::GangAsk { job_id: id_bytes(id.to_bytes()) }),
    };
    wire::Ask { ask: Some(ask) }
}

pub(crate) fn ask_from_wire(message: wire::Ask) -> Result<Ask, BadMessage> {
    match message.ask.ok_or(BadMessage("a question asks something"))? {
        wire::ask::Ask::Job(command) => job_command_from_wire(&command),
        wire::ask::Ask::Schedule(command) => schedule_command_from_wire(command),
        wire::ask::Ask::Agent(ask) => agent_ask_from_wire(ask),
        wire::ask::Ask::Gang(ask) => Ok(Ask::Gang { id: job_id(&ask.job_id)? }),
    }
}

pub(crate) fn answer_to_wire(answer: Answer) -> wire::Answer {
    let answer = match answer {
        Answer::NotOwner => wire::answer::Answer::NotOwner(wire::NotOwner {}),
        Answer::Job(reply) => wire::answer::Answer::Job(job_reply_to_wire(reply)),
        Answer::Schedule(reply) => {
            wire::answer::Answer::Schedule(serde_json::to_vec(&reply).expect("a reply is JSON").into())
        }
        Answer::Agent(answer) => wire::answer::Answer::Agent(agent_answer_to_wire(answer)),
        Answer::Gang(gang) => wire::answer::Answer::Gang(wire::GangAnswer { waiting: gang.map(gang_to_wire) }),
    };
    wire::Answer { answer: Some(answer) }
}

pub(crate) fn answer_from_wire(message: wire::Answer) -> Result<Answer, BadMessage> {
    Ok(match message.answer.ok_or(BadMessage("an answer says something"))? {
        wire::answer::Answer::NotOwner(wire::NotOwner {}) => Answer::NotOwner,
        wire::answer::Answer::Job(reply) => Answer::Job(job_reply_from_wire(&reply)?),
        wire::answer::Answer::Schedule(reply) => {
            Answer::Schedule(serde_json::from_slice(&reply).map_err(|_| BadMessage("a reply cannot be read"))?)
        }
        wire::answer::Answer::Agent(answer) => Answer::Agent(agent_answer_from_wire(answer)?),
        wire::answer::Answer::Gang(answer) => Answer::Gang(answer.waiting.map(gang_from_wire).transpose()?),
    })
}

fn gang_to_wire(gang: GangView) -> wire::GangState {
    let count = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    wire::GangState {
        batch_id: id_bytes(gang.batch.to_bytes()),
        size: count(gang.size),
        present: count(gang.present),
        lacking: count(gang.lacking),
        older: count(gang.older),
        holds: gang.holds,
        is_barred: gang.is_barred,
    }
}

fn gang_from_wire(gang: wire::GangState) -> Result<GangView, BadMessage> {
    Ok(GangView {
        batch: BatchId::from_bytes(&gang.batch_id).ok_or(BadMessage("the id of a batch is not one"))?,
        size: gang.size as usize,
        present: gang.present as usize,
        lacking: gang.lacking as usize,
        older: gang.older as usize,
        holds: gang.holds,
        is_barred: gang.is_barred,
    })
}

fn job_command_to_wire(id: JobId, command: Command) -> wire::JobCommand {
    let (command, next_attempt) = match command {
        Command::Delete => (wire::Command::Delete, None),
        Command::Cancel => (wire::Command::Cancel, None),
        Command::RunNow => (wire::Command::RunNow, None),
        Command::Rerun => (wire::Command::Rerun, None),
        Command::RerunOnce(next) => (wire::Command::Rerun, Some(next.0)),
    };
    wire::JobCommand { job_id: id_bytes(id.to_bytes()), command: command.into(), next_attempt }
}

fn job_command_from_wire(message: &wire::JobCommand) -> Result<Ask, BadMessage> {
    let command = match (message.command(), message.next_attempt) {
        (wire::Command::Delete, _) => Command::Delete,
        (wire::Command::Cancel, _) => Command::Cancel,
        (wire::Command::RunNow, _) => Command::RunNow,
        (wire::Command::Rerun, None) => Command::Rerun,
        (wire::Command::Rerun, Some(next)) => Command::RerunOnce(AttemptNo(next)),
        (wire::Command::Unspecified, _) => return Err(BadMessage("the command is not known")),
    };
    Ok(Ask::Job { id: job_id(&message.job_id)?, command })
}

fn job_reply_to_wire(reply: Reply) -> wire::JobReply {
    let (outcome, state) = match reply {
        Reply::Done(state) => (wire::JobOutcome::Done, Some(state)),
        Reply::Asked => (wire::JobOutcome::Asked, None),
        Reply::NotFound => (wire::JobOutcome::NotFound, None),
        Reply::Refused(state, refusal) => {
            let outcome = match refusal {
                Refusal::AlreadyStarted => wire::JobOutcome::AlreadyStarted,
                Refusal::AlreadyFinished => wire::JobOutcome::AlreadyFinished,
                Refusal::NotFinished => wire::JobOutcome::NotFinished,
                Refusal::Deleted => wire::JobOutcome::Deleted,
            };
            (outcome, Some(state))
        }
    };
    let state = state.map_or_else(String::new, |state| state.as_str().to_owned());
    wire::JobReply { outcome: outcome.into(), state }
}

fn job_reply_from_wire(reply: &wire::JobReply) -> Result<Reply, BadMessage> {
    let refused = |refusal| Ok(Reply::Refused(state(&reply.state)?, refusal));
    match reply.outcome() {
        wire::JobOutcome::Done => Ok(Reply::Done(state(&reply.state)?)),
        wire::JobOutcome::Asked => Ok(Reply::Asked),
        wire::JobOutcome::NotFound => Ok(Reply::NotFound),
        wire::JobOutcome::AlreadyStarted => refused(Refusal::AlreadyStarted),
        wire::JobOutcome::AlreadyFinished => refused(Refusal::AlreadyFinished),
        wire::JobOutcome::NotFinished => refused(Refusal::NotFinished),
        wire::JobOutcome::Deleted => refused(Refusal::Deleted),
        wire::JobOutcome::Unspecified => Err(BadMessage("the reply is not known")),
    }
}

fn schedule_command_to_wire(id: ScheduleId, mut command: ScheduleCommand, who: String) -> wire::ScheduleCommand {
    let input = edit_of(&mut command).and_then(|edit| edit.input.take());
    let command = serde_json::to_vec(&command).expect("a command is JSON");
    wire::ScheduleCommand { schedule_id: id_bytes(id.to_bytes()), command: command.into(), input, who }
}

fn schedule_command_from_wire(message: wire::ScheduleCommand) -> Result<Ask, BadMessage> {
    let id = ScheduleId::from_bytes(&message.schedule_id);
    let id = id.ok_or(BadMessage("a schedule id is 16 bytes of UUID version 7"))?;
    let command = serde_json::from_slice(&message.command);
    let mut command = command.map_err(|_| BadMessage("a command on a schedule cannot be read"))?;
    if let Some(edit) = edit_of(&mut command) {
        edit.input = message.input;
    }
    match &command {
        ScheduleCommand::Create(new) if new.id != id => Err(BadMessage("a schedule is created under another id")),
        _ => Ok(Ask::Schedule { id, command, who: message.who }),
    }
}

/// The definition in a command.
fn edit_of(command: &mut ScheduleCommand) -> Option<&mut ScheduleEdit> {
    match command {
        ScheduleCommand::Create(new) => Some(&mut new.edit),
        ScheduleCommand::Edit { edit, .. } => Some(edit),
        ScheduleCommand::Delete
        | ScheduleCommand::DeleteRevision { .. }
        | ScheduleCommand::Pause { .. }
        | ScheduleCommand::Resume { .. }
        | ScheduleCommand::SkipNext { .. }
        | ScheduleCommand::RunNow { .. }
        | ScheduleCommand::ClearQueue => None,
    }
}

fn agent_ask_to_wire(id: JobId, attempt: AttemptNo, ask: AgentAsk) -> wire::AgentAsk {
    use wire::agent_ask::Ask;
    let ask = match ask {
        AgentAsk::Work => Ask::Work(wire::AgentWorkRequest {}),
        AgentAsk::Alive { host } => Ask::Alive(host),
        AgentAsk::Ended(report) => Ask::Ended(outcome_to_wire(&report).encode_to_vec().into()),
    };
    wire::AgentAsk { job_id: id_bytes(id.to_bytes()), attempt: attempt.0, ask: Some(ask) }
}

fn agent_ask_from_wire(message: wire::AgentAsk) -> Result<Ask, BadMessage> {
    use wire::agent_ask::Ask as Asked;
    let ask = match message.ask.ok_or(BadMessage("an agent asks something"))? {
        Asked::Work(wire::AgentWorkRequest {}) => AgentAsk::Work,
        Asked::Alive(host) => AgentAsk::Alive { host },
        Asked::Ended(outcome) => {
            let outcome = Outcome::decode(outcome).map_err(|_| BadMessage("an outcome cannot be read"))?;
            AgentAsk::Ended(Box::new(outcome_from_wire(outcome)?))
        }
    };
    Ok(Ask::Agent { id: job_id(&message.job_id)?, attempt: AttemptNo(message.attempt), ask })
}

fn agent_answer_to_wire(answer: AgentAnswer) -> wire::AgentAnswer {
    use wire::agent_answer::Answer;
    let answer = match answer {
        AgentAnswer::Work(work) => Answer::Work(agent_work_to_wire(*work)),
        AgentAnswer::Alive { cancel_requested } => Answer::Alive(wire::AgentAlive { cancel_requested }),
        AgentAnswer::Recorded => Answer::Recorded(wire::AgentRecorded {}),
        AgentAnswer::Over => Answer::Over(wire::AgentOver {}),
    };
    wire::AgentAnswer { answer: Some(answer) }
}

fn agent_answer_from_wire(message: wire::AgentAnswer) -> Result<AgentAnswer, BadMessage> {
    use wire::agent_answer::Answer;
    Ok(match message.answer.ok_or(BadMessage("an answer to an agent says something"))? {
        Answer::Work(work) => AgentAnswer::Work(Box::new(agent_work_from_wire(work)?)),
        Answer::Alive(wire::AgentAlive { cancel_requested }) => AgentAnswer::Alive { cancel_requested },
        Answer::Recorded(wire::AgentRecorded {}) => AgentAnswer::Recorded,
        Answer::Over(wire::AgentOver {}) => AgentAnswer::Over,
    })
}

fn agent_work_to_wire(work: AgentWork) -> wire::AgentWork {
    let AgentWork { assignment, scheduled_run } = work;
    wire::AgentWork {
        job_id: id_bytes(assignment.key.id.to_bytes()),
        due_at: assignment.key.due_at.as_micros(),
        epoch: assignment.epoch.0,
        attempt: assignment.attempt.0,
        task: serde_json::to_vec(&*assignment.task).expect("a task is JSON").into(),
        tracing_id: assignment.tracing_id,
        input: assignment.input.into_bytes(),
        started_at: assignment.started_at.as_micros(),
        scheduled_run: scheduled_run.map(|run| scheduled_run_to_wire(run).encode_to_vec().into()),
    }
}

fn agent_work_from_wire(work: wire::AgentWork) -> Result<AgentWork, BadMessage> {
    let task = serde_json::from_slice(&work.task).map_err(|_| BadMessage("a task cannot be read"))?;
    let assignment = Assignment {
        key: JobKey { due_at: time(work.due_at)?, id: job_id(&work.job_id)? },
        epoch: Epoch(work.epoch),
        attempt: AttemptNo(work.attempt),
        task: std::sync::Arc::new(task),
        tracing_id: work.tracing_id,
        input: work.input.map_or(AssignedInput::None, AssignedInput::Inline),
        started_at: time(work.started_at)?,
        origin: None,
    };
    let scheduled_run = |bytes: Bytes| {
        let run = ScheduledRun::decode(bytes).map_err(|_| BadMessage("a scheduled run cannot be read"))?;
        scheduled_run_from_wire(run)
    };
    Ok(AgentWork { assignment, scheduled_run: work.scheduled_run.map(scheduled_run).transpose()? })
}

#[cfg(test)]
#[path = "ask_tests.rs"]
mod tests;
