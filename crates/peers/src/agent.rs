//! What agents ask, on its way to the owner of their job.

use prost::Message;
use prost::bytes::Bytes;
use punctual_app::{AgentAnswer, AgentAsks, AgentWork};
use punctual_core::schedule::ScheduledRun;
use punctual_core::{AttemptNo, JobId, Span};
use punctual_proto::convert::{BadMessage, id_bytes, outcome_to_wire, scheduled_run_from_wire};
use punctual_proto::peer as wire;
use punctual_proto::peer_convert as convert;

pub(crate) fn request(job: JobId, attempt: AttemptNo, asks: AgentAsks) -> wire::AgentRequest {
    use wire::agent_request::Asks;
    let asks = match asks {
        AgentAsks::Work => Asks::Work(wire::AgentWorkRequest {}),
        AgentAsks::Alive { host } => Asks::Alive(host),
        AgentAsks::Ended(report) => Asks::Ended(outcome_to_wire(&report).encode_to_vec().into()),
    };
    wire::AgentRequest { job_id: id_bytes(job.to_bytes()), attempt: attempt.0, asks: Some(asks) }
}

pub(crate) fn answer(reply: wire::AgentReply) -> Result<AgentAnswer, BadMessage> {
    use wire::agent_reply::Answer;
    Ok(match reply.answer.ok_or(BadMessage("an answer says something"))? {
        Answer::Work(work) => AgentAnswer::Work(Box::new(AgentWork {
            task: convert::task_id(&work.task_id)?,
            revision: work.revision,
            name: work.name,
            run: work.run,
            timeout: Span::from_micros(work.timeout_us),
            ends_by: convert::time(work.ends_by)?,
            started_at: convert::time(work.started_at)?,
            tracing_id: work.tracing_id,
            input: work.input,
            scheduled_run: work.scheduled_run.map(scheduled_run).transpose()?,
        })),
        Answer::Alive(wire::AgentAlive { cancel_requested }) => AgentAnswer::Alive { cancel_requested },
        Answer::Recorded(_) => AgentAnswer::Recorded,
        Answer::Over(_) => AgentAnswer::Over,
        Answer::NotOwner(_) => AgentAnswer::NotOwner,
    })
}

fn scheduled_run(bytes: Bytes) -> Result<ScheduledRun, BadMessage> {
    let wire = punctual_proto::worker::ScheduledRun::decode(bytes);
    scheduled_run_from_wire(wire.map_err(|_| BadMessage("a scheduled run cannot be read"))?)
}
