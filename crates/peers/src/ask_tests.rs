use punctual_core::schedule::{NewSchedule, Overlap, ScheduleReply};
use punctual_core::shard::event::Report;
use punctual_core::task::Priority;
use punctual_core::{JobState, NamespaceId, ShardId, TaskId, Timestamp};
use punctual_proto::MESSAGE_BYTES_MAX;

use super::*;

fn job() -> JobId {
    JobId::new(Timestamp::from_micros(1_700_000_000_123_456).unwrap(), ShardId(3), 9)
}

fn schedule() -> ScheduleId {
    ScheduleId::new(Timestamp::from_micros(1_700_000_000_123_456).unwrap(), ShardId(3), 9)
}

fn edit(input: Option<&'static [u8]>) -> ScheduleEdit {
    ScheduleEdit {
        task: TaskId::new(Timestamp::EPOCH, 1),
        spec: r#"{"when":{}}"#.into(),
        calendars: vec!["holidays".to_owned()],
        priority: Priority::new(-7),
        input: input.map(Bytes::from_static),
    }
}

fn schedule_ask(command: ScheduleCommand) -> Ask {
    Ask::Schedule { id: schedule(), command, who: "me".to_owned() }
}

fn agent_ask(ask: AgentAsk) -> Ask {
    Ask::Agent { id: job(), attempt: AttemptNo(2), ask }
}

#[test]
fn questions_survive_the_wire() {
    let commands =
        [Command::Delete, Command::Cancel, Command::RunNow, Command::Rerun, Command::RerunOnce(AttemptNo(4))];
    let new = NewSchedule {
        namespace: NamespaceId::DEFAULT,
        id: schedule(),
        name: "nightly".to_owned(),
        edit: edit(Some(b"{\"a\":1}")),
    };
    let schedule_commands = [
        ScheduleCommand::Create(Box::new(new)),
        ScheduleCommand::Edit { revision: Some(4), edit: Box::new(edit(None)) },
        ScheduleCommand::Edit { revision: None, edit: Box::new(edit(Some(b"7"))) },
        ScheduleCommand::Delete,
        ScheduleCommand::DeleteRevision { revision: 7 },
        ScheduleCommand::Pause { note: Some("on holiday".to_owned()) },
        ScheduleCommand::Resume { note: None },
        ScheduleCommand::SkipNext { count: 3 },
        ScheduleCommand::RunNow { overlap: None },
        ScheduleCommand::RunNow { overlap: Some(Overlap::CancelPrevious) },
        ScheduleCommand::ClearQueue,
    ];
    let outcome = punctual_core::attempt::Outcome::Succeeded { output: None };
    let report = Report { id: job(), attempt: AttemptNo(2), outcome, timed_out: false, details: None };
    let agent_asks = [AgentAsk::Work, AgentAsk::Alive { host: "h-1".to_owned() }, AgentAsk::Ended(Box::new(report))];
    let jobs = commands.into_iter().map(|command| Ask::Job { id: job(), command });
    let schedules = schedule_commands.into_iter().map(schedule_ask);
    let others = agent_asks.into_iter().map(agent_ask).chain([Ask::Gang { id: job() }]);
    for ask in jobs.chain(schedules).chain(others) {
        assert_eq!(ask_from_wire(ask_to_wire(ask.clone())), Ok(ask));
    }
}

#[test]
fn answers_survive_the_wire() {
    let jobs = [
        Reply::Done(JobState::Deleted),
        Reply::Asked,
        Reply::NotFound,
        Reply::Refused(JobState::Running, Refusal::AlreadyStarted),
        Reply::Refused(JobState::Succeeded, Refusal::AlreadyFinished),
        Reply::Refused(JobState::Scheduled, Refusal::NotFinished),
        Reply::Refused(JobState::Deleted, Refusal::Deleted),
    ];
    let schedules = [
        ScheduleReply::Done { revision: 2 },
        ScheduleReply::Fired(job()),
        ScheduleReply::Queued { at: Timestamp::EPOCH },
        ScheduleReply::CancelsPrevious { at: Timestamp::EPOCH },
        ScheduleReply::SkippedOverlap { at: Timestamp::EPOCH, reason: "a run had not ended".to_owned() },
        ScheduleReply::Cleared { count: 3 },
        ScheduleReply::Skipping(Timestamp::EPOCH),
        ScheduleReply::NotFound,
        ScheduleReply::NameTaken,
        ScheduleReply::Conflict { revision: 5 },
        ScheduleReply::Refused("no more planned times".to_owned()),
    ];
    let agents = [AgentAnswer::Alive { cancel_requested: true }, AgentAnswer::Recorded, AgentAnswer::Over];
    let answers = jobs.map(Answer::Job).into_iter().chain(schedules.map(Answer::Schedule));
    let batch = punctual_core::BatchId::new(Timestamp::EPOCH, ShardId(3), 5);
    let gang = GangView { batch, size: 9, present: 8, lacking: 7, older: 6, holds: true, is_barred: true };
    let gangs = [Answer::Gang(None), Answer::Gang(Some(gang))];
    for answer in answers.chain(agents.map(Answer::Agent)).chain(gangs).chain([Answer::NotOwner]) {
        let read = answer_from_wire(answer_to_wire(answer.clone())).expect("an answer");
        assert_eq!(format!("{read:?}"), format!("{answer:?}"));
    }
    assert!(answer_from_wire(wire::Answer::default()).is_err());
    let unknown = wire::answer::Answer::Job(wire::JobReply::default());
    assert!(answer_from_wire(wire::Answer { answer: Some(unknown) }).is_err());
}

#[test]
fn what_an_agent_is_to_run_survives_the_wire() {
    let run = serde_json::from_str(r#"{"probe":{}}"#).expect("a run");
    let task = punctual_core::task::Task {
        namespace: NamespaceId::DEFAULT,
        id: TaskId::new(Timestamp::EPOCH, 1),
        name: Some("t".to_owned()),
        revision: 3,
        created_at: Timestamp::EPOCH,
        updated_at: Timestamp::EPOCH,
        spec: punctual_core::task::TaskSpec::new(run),
        waits_for: None,
        created_by: None,
        changed_by: None,
    };
    let run = punctual_core::schedule::ScheduledRun {
        schedule: schedule(),
        name: Some("nightly".to_owned()),
        kind: punctual_core::schedule::SourceKind::Manual,
        planned_at: Timestamp::EPOCH,
        planned_local: None,
        time_zone: None,
        interval_start: None,
        last_success: None,
    };
    for (input, scheduled_run) in
        [(AssignedInput::None, None), (AssignedInput::Inline(Bytes::from_static(b"{}")), Some(run))]
    {
        let assignment = Assignment {
            key: JobKey::original(job()),
            epoch: Epoch(5),
            attempt: AttemptNo(2),
            task: std::sync::Arc::new(task.clone()),
            tracing_id: Some("t".to_owned()),
            input,
            started_at: Timestamp::EPOCH,
            origin: None,
        };
        let work = AgentWork { assignment, scheduled_run };
        let read = agent_work_from_wire(agent_work_to_wire(work.clone())).expect("work");
        assert_eq!(format!("{read:?}"), format!("{work:?}"));
    }
}

#[test]
fn what_is_no_question_is_refused() {
    let good = schedule_command_to_wire(schedule(), ScheduleCommand::Delete, "me".to_owned());
    let bad_id = wire::ScheduleCommand { schedule_id: Bytes::from_static(b"short"), ..good.clone() };
    let bad_json = wire::ScheduleCommand { command: Bytes::from_static(b"{"), ..good };
    let new =
        NewSchedule { namespace: NamespaceId::DEFAULT, id: schedule(), name: "nightly".to_owned(), edit: edit(None) };
    let other = ScheduleId::new(Timestamp::EPOCH, ShardId(4), 1);
    let misplaced = schedule_command_to_wire(other, ScheduleCommand::Create(Box::new(new)), "me".to_owned());
    for bad in [bad_id, bad_json, misplaced] {
        assert!(schedule_command_from_wire(bad).is_err());
    }
    assert!(ask_from_wire(wire::Ask::default()).is_err());
    assert!(job_command_from_wire(&wire::JobCommand::default()).is_err());
    assert!(agent_ask_from_wire(wire::AgentAsk::default()).is_err());
}

fn create(number: u64, input_len: usize) -> Ask {
    let id = ScheduleId::new(Timestamp::EPOCH, ShardId(0), number);
    let edit = ScheduleEdit { input: Some(vec![b'7'; input_len].into()), ..edit(None) };
    let new = NewSchedule { namespace: NamespaceId::DEFAULT, id, name: format!("s{number}"), edit };
    Ask::Schedule { id, command: ScheduleCommand::Create(Box::new(new)), who: "local".to_owned() }
}

#[test]
fn every_request_fits_a_message_and_nothing_is_lost_or_moved() {
    for (count, input_len) in [(10_000, 100), (40, 256 << 10), (1, 0), (0, 0)] {
        let asks: Vec<Ask> = (0..count).map(|number| create(number, input_len)).collect();
        let requests = requests(asks.clone());
        assert!(requests.iter().all(|request| request.encoded_len() <= MESSAGE_BYTES_MAX), "{count} of {input_len}");
        assert!(requests.iter().all(|request| !request.asks.is_empty()));
        let read: Result<Vec<Ask>, _> =
            requests.into_iter().flat_map(|request| request.asks).map(ask_from_wire).collect();
        assert_eq!(read, Ok(asks));
    }
}
