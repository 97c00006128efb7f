//! What servers tell each other besides, in the words of the wire and back.

use prost::bytes::Bytes;
use punctual_app::{InvitedWorkers, WorkerRequest};
use punctual_core::batch::MemberRef;
use punctual_core::job::Input;
use punctual_core::namespace::{NamespaceId, ServedNamespaces};
use punctual_core::queue::QueueLoad;
use punctual_core::schedule::Source;
use punctual_core::shard::event::{Change, WorkerSpec};
use punctual_core::shard::{LiveView, PoolWanted, Who, WorkerNeeds, WorkerStatus, WorkersWanted};
use punctual_core::task::Priority;
use punctual_core::workflow::NodeRef;
use punctual_core::{AttemptNo, Counters, JobKey, JobRow, JobState, TaskId, Timestamp, WorkerId};
use punctual_engine::WorkerInfo;
use punctual_proto::convert::{BadMessage, id_bytes, job_id};
use punctual_proto::peer as wire;

pub(crate) fn task_id(bytes: &[u8]) -> Result<TaskId, BadMessage> {
    TaskId::from_bytes(bytes).ok_or(BadMessage("a task id is 16 bytes of UUID version 7"))
}

fn worker_id(bytes: &[u8]) -> Result<WorkerId, BadMessage> {
    WorkerId::from_bytes(bytes).ok_or(BadMessage("a worker id is 16 bytes of UUID version 7"))
}

pub(crate) fn time(micros: i64) -> Result<Timestamp, BadMessage> {
    Timestamp::from_micros(micros).ok_or(BadMessage("a time is out of range"))
}

pub(crate) fn state(word: &str) -> Result<JobState, BadMessage> {
    JobState::parse(word).ok_or(BadMessage("a state has a name that is not known"))
}

/// A job that has just been submitted: it is where its id says, and never ran.
pub(crate) fn hint_to_wire(row: &JobRow) -> wire::HintedJob {
    wire::HintedJob {
        job_id: id_bytes(row.key.id.to_bytes()),
        task_id: id_bytes(row.task.to_bytes()),
        priority: row.priority.get().into(),
        submitted_at: row.submitted_at.as_micros(),
        tracing_id: row.tracing_id.clone(),
        source: match (&row.member, &row.node, &row.source) {
            (Some(member), ..) => Some(Bytes::copy_from_slice(&member.to_bytes())),
            (None, Some(node), _) => Some(Bytes::copy_from_slice(&node.to_bytes())),
            (None, None, source) => source.as_ref().map(|source| Bytes::copy_from_slice(&source.to_bytes())),
        },
        input: match &row.input {
            Input::None => None,
            Input::Inline(bytes) => Some(wire::hinted_job::Input::Inline(bytes.clone())),
            Input::Stored { len } => Some(wire::hinted_job::Input::Stored(*len)),
        },
    }
}

pub(crate) fn hint_from_wire(hint: wire::HintedJob) -> Result<JobRow, BadMessage> {
    let priority = i8::try_from(hint.priority).ok().and_then(Priority::new);
    let node = hint.source.as_deref().and_then(NodeRef::from_bytes);
    let member = hint.source.as_deref().and_then(MemberRef::from_bytes);
    let source =
        hint.source.filter(|_| node.is_none() && member.is_none()).map(|source| read_source(&source)).transpose()?;
    Ok(JobRow {
        key: JobKey::original(job_id(&hint.job_id)?),
        task: task_id(&hint.task_id)?,
        priority: priority.ok_or(BadMessage("a priority is out of range"))?,
        counters: Counters::NEW,
        submitted_at: time(hint.submitted_at)?,
        tracing_id: hint.tracing_id,
        source,
        node: node.map(Box::new),
        member: member.map(Box::new),
        // A hint is about a job that was just made.
        give_backs: None,
        input: match hint.input {
            None => Input::None,
            Some(wire::hinted_job::Input::Inline(bytes)) if bytes.len() <= Input::INLINE_MAX => Input::Inline(bytes),
            Some(wire::hinted_job::Input::Inline(_)) => return Err(BadMessage("an input is too long for a hint")),
            Some(wire::hinted_job::Input::Stored(len)) => Input::Stored { len },
        },
    })
}

fn read_source(bytes: &[u8]) -> Result<Box<Source>, BadMessage> {
    Source::from_bytes(bytes).map(Box::new).ok_or(BadMessage("the source of a job is not known"))
}

pub(crate) fn running_to_wire(view: &LiveView) -> wire::RunningAttempt {
    wire::RunningAttempt {
        job_id: id_bytes(view.key.id.to_bytes()),
        due_at: view.key.due_at.as_micros(),
        attempt: view.attempt.0,
        worker_id: id_bytes(view.worker.to_bytes()),
        picked_up_at: view.picked_up_at.as_micros(),
        started_at: view.started_at.as_micros(),
        cancel_requested: view.cancel_requested,
        worker_is_connected: view.worker_is_connected,
    }
}

pub(crate) fn running_from_wire(attempt: &wire::RunningAttempt) -> Result<LiveView, BadMessage> {
    Ok(LiveView {
        key: JobKey { due_at: time(attempt.due_at)?, id: job_id(&attempt.job_id)? },
        attempt: AttemptNo(attempt.attempt),
        worker: worker_id(&attempt.worker_id)?,
        picked_up_at: time(attempt.picked_up_at)?,
        started_at: time(attempt.started_at)?,
        cancel_requested: attempt.cancel_requested,
        worker_is_connected: attempt.worker_is_connected,
    })
}

pub(crate) fn change_to_wire(change: &Change) -> wire::Change {
    wire::Change {
        job_id: id_bytes(change.id.to_bytes()),
        state: change.state.as_str().to_owned(),
        attempt: change.attempt.map(|attempt| attempt.0),
        at: change.at.as_micros(),
        namespace: change.namespace.map(|namespace| namespace.0),
    }
}

pub(crate) fn change_from_wire(change: &wire::Change) -> Result<Change, BadMessage> {
    Ok(Change {
        id: job_id(&change.job_id)?,
        namespace: change.namespace.map(NamespaceId),
        state: state(&change.state)?,
        attempt: change.attempt.map(AttemptNo),
        at: time(change.at)?,
    })
}

pub(crate) fn worker_to_wire((status, info): (WorkerStatus, WorkerInfo)) -> wire::WorkerInfo {
    let (serves_only_namespaces, namespaces) = match info.spec.namespaces {
        ServedNamespaces::All => (false, Vec::new()),
        ServedNamespaces::Only(served) => (true, served.into_iter().map(|namespace| namespace.0).collect()),
    };
    wire::WorkerInfo {
        worker_id: id_bytes(status.id.to_bytes()),
        name: info.name,
        version: info.version,
        serves_only_namespaces,
        namespaces,
        is_connected: status.is_connected,
        queues: info.spec.queues,
        capabilities: info.spec.capabilities,
        labels: info.spec.labels.into_iter().collect(),
        credit: status.credit,
        running: status.running,
        seen_at: status.seen_at.as_micros(),
        commands_as: info.commands_as,
        host: info.host.unwrap_or_default(),
        lacks_certificate: !info.has_certificate,
    }
}

pub(crate) fn worker_from_wire(worker: wire::WorkerInfo) -> Result<(WorkerStatus, WorkerInfo), BadMessage> {
    let status = WorkerStatus {
        id: worker_id(&worker.worker_id)?,
        is_connected: worker.is_connected,
        credit: worker.credit,
        running: worker.running,
        seen_at: time(worker.seen_at)?,
    };
    let namespaces = match worker.serves_only_namespaces {
        true => ServedNamespaces::Only(worker.namespaces.into_iter().map(NamespaceId).collect()),
        false => ServedNamespaces::All,
    };
    let spec = WorkerSpec {
        namespaces,
        queues: worker.queues,
        capabilities: worker.capabilities,
        labels: worker.labels.into_iter().collect(),
        credit: worker.credit,
    };
    let host = Some(worker.host).filter(|host| !host.is_empty());
    let info = WorkerInfo {
        name: worker.name,
        host,
        version: worker.version,
        spec,
        commands_as: worker.commands_as,
        has_certificate: !worker.lacks_certificate,
    };
    Ok((status, info))
}

pub(crate) fn needs_to_wire(needs: WorkerNeeds) -> wire::WorkerNeeds {
    let WorkerNeeds { namespace, queue, capability, labels } = needs;
    wire::WorkerNeeds { queue, capability, labels: labels.into_iter().collect(), namespace: namespace.0 }
}

fn needs_from_wire(needs: Option<wire::WorkerNeeds>) -> Result<WorkerNeeds, BadMessage> {
    let needs = needs.ok_or(BadMessage("it does not say what it needs"))?;
    let wire::WorkerNeeds { queue, capability, labels, namespace } = needs;
    Ok(WorkerNeeds { namespace: NamespaceId(namespace), queue, capability, labels: labels.into_iter().collect() })
}

pub(crate) fn request_to_wire(request: WorkerRequest) -> wire::WorkerRequest {
    let WorkerRequest { needs, since, servers, invited } = request;
    wire::WorkerRequest { needs: Some(needs_to_wire(needs)), since: since.as_micros(), servers, invited }
}

pub(crate) fn request_from_wire(request: wire::WorkerRequest) -> Result<WorkerRequest, BadMessage> {
    let wire::WorkerRequest { needs, since, servers, invited } = request;
    Ok(WorkerRequest { needs: needs_from_wire(needs)?, since: time(since)?, servers, invited })
}

pub(crate) fn wanted_to_wire(wanted: &WorkersWanted, turn: u64) -> wire::InviteWorkersRequest {
    let pool = |pool: &PoolWanted| wire::WantedPool {
        needs: Some(needs_to_wire(pool.needs.clone())),
        count: u32::try_from(pool.count).unwrap_or(u32::MAX),
        idle_only: pool.who == Who::Idle,
    };
    wire::InviteWorkersRequest {
        pools: wanted.pools.iter().map(pool).collect(),
        worker_ids: wanted.workers.iter().map(|id| id_bytes(id.to_bytes())).collect(),
        turn,
    }
}

pub(crate) fn wanted_from_wire(request: wire::InviteWorkersRequest) -> Result<(WorkersWanted, u64), BadMessage> {
    let pool = |pool: wire::WantedPool| {
        let who = if pool.idle_only { Who::Idle } else { Who::Anyone };
        Ok(PoolWanted { needs: needs_from_wire(pool.needs)?, who, count: pool.count as usize })
    };
    let pools = request.pools.into_iter().map(pool).collect::<Result<_, _>>()?;
    let workers = request.worker_ids.iter().map(|id| worker_id(id)).collect::<Result<_, _>>()?;
    Ok((WorkersWanted { pools, workers }, request.turn))
}

pub(crate) fn invited_to_wire(invited: InvitedWorkers) -> wire::InviteWorkersReply {
    let workers = invited.workers.into_iter().map(|id| id_bytes(id.to_bytes())).collect();
    wire::InviteWorkersReply { invited: invited.pools, worker_ids: workers }
}

pub(crate) fn invited_from_wire(reply: wire::InviteWorkersReply) -> Result<InvitedWorkers, BadMessage> {
    let workers = reply.worker_ids.iter().map(|id| worker_id(id)).collect::<Result<_, _>>()?;
    Ok(InvitedWorkers { pools: reply.invited, workers })
}

pub(crate) fn queue_load_to_wire(load: QueueLoad) -> wire::QueueLoad {
    let QueueLoad { namespace: _, queue, waiting, has_more, running, waiting_since } = load;
    wire::QueueLoad { queue, waiting, has_more, running, waiting_since: waiting_since.map(Timestamp::as_micros) }
}

pub(crate) fn queue_load_from_wire(namespace: NamespaceId, load: wire::QueueLoad) -> QueueLoad {
    let wire::QueueLoad { queue, waiting, has_more, running, waiting_since } = load;
    // A time that is none says nothing.
    let waiting_since = waiting_since.and_then(Timestamp::from_micros);
    QueueLoad { namespace, queue, waiting, has_more, running, waiting_since }
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_core::schedule::SourceKind;
    use punctual_core::{JobId, ScheduleId, ShardId};

    fn job() -> JobId {
        JobId::new(Timestamp::from_micros(1_700_000_000_123_456).unwrap(), ShardId(3), 9)
    }

    #[test]
    fn a_hint_survives_the_wire() {
        let inline = Input::Inline(Bytes::from_static(b"{}"));
        let schedule = ScheduleId::new(Timestamp::EPOCH, ShardId(3), 5);
        let source = Source { schedule, at: Timestamp::EPOCH, kind: SourceKind::Replayed, is_tracked: true };
        let sources = [None, Some(Box::new(source)), None];
        for (input, source) in [Input::None, inline, Input::Stored { len: 9000 }].into_iter().zip(sources) {
            let row = JobRow {
                key: JobKey::original(job()),
                task: TaskId::new(Timestamp::EPOCH, 1),
                priority: Priority::new(-7).unwrap(),
                counters: Counters::NEW,
                submitted_at: Timestamp::EPOCH,
                tracing_id: Some("t".to_owned()),
                source,
                node: None,
                member: None,
                give_backs: None,
                input,
            };
            assert_eq!(hint_from_wire(hint_to_wire(&row)), Ok(row.clone()));
            let bad = wire::HintedJob { source: Some(Bytes::from_static(b"no source")), ..hint_to_wire(&row) };
            assert!(hint_from_wire(bad).is_err());
        }
    }

    #[test]
    fn what_runs_and_what_changed_survive_the_wire() {
        let view = LiveView {
            key: JobKey::original(job()),
            attempt: AttemptNo(2),
            worker: WorkerId::new(Timestamp::EPOCH, 5),
            picked_up_at: Timestamp::EPOCH,
            started_at: Timestamp::EPOCH,
            cancel_requested: true,
            worker_is_connected: false,
        };
        assert_eq!(running_from_wire(&running_to_wire(&view)), Ok(view));
        let namespace = Some(NamespaceId(7));
        let change = Change {
            id: job(),
            namespace,
            state: JobState::Running,
            attempt: Some(AttemptNo(1)),
            at: Timestamp::EPOCH,
        };
        assert_eq!(change_from_wire(&change_to_wire(&change)), Ok(change));
    }
    #[test]
    fn what_a_server_wants_of_others_survives_the_wire() {
        let needs = WorkerNeeds {
            namespace: NamespaceId(7),
            queue: "q".to_owned(),
            capability: "probe".to_owned(),
            labels: [("gpu".to_owned(), "yes".to_owned())].into(),
        };
        let worker = WorkerId::new(Timestamp::EPOCH, 5);
        let pools = [Who::Idle, Who::Anyone].map(|who| PoolWanted { needs: needs.clone(), who, count: 3 });
        let wanted = WorkersWanted { pools: pools.to_vec(), workers: vec![worker] };
        assert_eq!(wanted_from_wire(wanted_to_wire(&wanted, 9)), Ok((wanted, 9)));
        let invited = InvitedWorkers { pools: vec![2, 0], workers: vec![worker] };
        assert_eq!(invited_from_wire(invited_to_wire(invited.clone())), Ok(invited));
        let request = WorkerRequest { needs, since: Timestamp::EPOCH, servers: 19, invited: 1 };
        assert_eq!(request_from_wire(request_to_wire(request.clone())), Ok(request));
    }
}
