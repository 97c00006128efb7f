//! Attempts that agents run.

use super::*;
use crate::shard::{AGENT, AgentAnswer, AgentAsk};

const TOKEN: Token = Token(7);

/// A worker with one slot whose binaries are run by agents, and one that runs.
fn running() -> (Bench, JobId) {
    let artifact = ArtifactId::new(Timestamp::EPOCH, 1);
    let run: Run = serde_json::from_str(&format!(r#"{{"binary":{{"artifact":"{artifact}"}}}}"#)).unwrap();
    let mut bench = Bench::with(TaskSpec::new(run), Config::default());
    let capabilities = vec!["binary".into(), AGENT.into()];
    let spec = WorkerSpec { capabilities, credit: 1, ..worker_spec() };
    bench.handle(Event::WorkerHello { worker: bench.worker, stream: StreamId(1), spec, held: vec![] });
    let id = bench.submit(Span::ZERO);
    bench.pass(Span::ZERO);
    (bench, id)
}

fn report(id: JobId, attempt: u32, outcome: Outcome) -> Event {
    let report = Report { id, attempt: AttemptNo(attempt), outcome, timed_out: false, details: None };
    let ask = Ask::Agent { id, attempt: AttemptNo(attempt), ask: AgentAsk::Ended(Box::new(report)) };
    Event::Ask { token: TOKEN, ask, made: None }
}

/// What the agent is answered, in a word.
fn heard(effects: &Effects) -> Vec<&'static str> {
    let word = |(token, answer): &(Token, Answer)| match answer {
        _ if *token != TOKEN => "another's",
        Answer::NotOwner => "not owner",
        Answer::Agent(AgentAnswer::Recorded) => "recorded",
        Answer::Agent(AgentAnswer::Over) => "over",
        Answer::Agent(AgentAnswer::Alive { cancel_requested: true }) => "cancelled",
        Answer::Agent(AgentAnswer::Alive { cancel_requested: false }) => "alive",
        Answer::Agent(AgentAnswer::Work(_)) => "work",
        Answer::Job(_) | Answer::Schedule(_) | Answer::Gang(_) => "no answer to an agent",
    };
    effects.answers.iter().map(word).collect()
}

const DONE: Outcome = Outcome::Succeeded { output: None };

fn stopped(effects: &Effects) -> Vec<(JobId, u32)> {
    let stop = |(_, _, send): &(WorkerId, StreamId, Send)| match send {
        Send::Stop { id, attempt } => Some((*id, attempt.0)),
        _ => None,
    };
    effects.sends.iter().filter_map(stop).collect()
}

#[test]
fn a_report_counts_once_and_is_answered_when_it_is_durable() {
    let (mut bench, id) = running();
    bench.handle(report(id, 1, DONE));
    let batch = bench.batch().expect("it settles the job");
    assert!(matches!(&batch.writes[..], [Write::Job(JobWrite::Settle(settle))] if settle.state == JobState::Succeeded));
    assert!(bench.owner.take_effects().answers.is_empty(), "nothing is durable yet");
    bench.owner.committed(batch.seq, &Default::default(), bench.now);
    let effects = bench.owner.take_effects();
    assert_eq!(heard(&effects), ["recorded"]);
    assert_eq!(stopped(&effects), [(id, 1)], "the worker ends the environment");

    bench.handle(report(id, 1, Outcome::Failed(Failure::new("a second opinion"))));
    let effects = bench.pass(Span::ZERO);
    assert_eq!(heard(&effects), ["over"]);
    assert!(effects.changes.is_empty());
}

#[test]
fn the_slot_is_free_when_the_worker_was_told_and_not_before() {
    let (mut bench, id) = running();
    let next = bench.submit(Span::ZERO);
    bench.handle(report(id, 1, DONE));
    let batch = bench.batch().expect("it settles the job");
    assert!(!batch.writes.iter().any(|write| matches!(write, Write::Job(JobWrite::Start(_)))), "{:?}", batch.writes);
    bench.owner.committed(batch.seq, &Default::default(), bench.now);
    let effects = bench.pass(Span::ZERO);
    assert_eq!((stopped(&effects), assigned(&effects)), (vec![(id, 1)], vec![(next, 1)]));
}

#[test]
fn a_report_of_another_attempt_changes_nothing() {
    let (mut bench, id) = running();
    for attempt in [0, 2, u32::MAX] {
        bench.handle(report(id, attempt, DONE));
        let effects = bench.pass(Span::ZERO);
        assert_eq!(heard(&effects), ["over"]);
        assert!(effects.changes.is_empty() && effects.sends.is_empty());
    }
    let elsewhere = JobId::new(bench.now, ShardId(9), 1);
    bench.handle(report(elsewhere, 1, DONE));
    assert_eq!(heard(&bench.pass(Span::ZERO)), ["not owner"]);
    assert_eq!(bench.owner.running(id).map(|view| view.attempt), Some(AttemptNo(1)));
}

#[test]
fn a_silent_agent_is_given_up_and_its_worker_ends_what_is_left() {
    let (mut bench, id) = running();
    bench.handle(Event::AgentSilent { id, attempt: AttemptNo(2), host: None });
    assert!(!bench.owner.has_writes(), "it is of another attempt");
    bench.handle(Event::AgentSilent { id, attempt: AttemptNo(1), host: Some("h-1".into()) });
    let batch = bench.batch().expect("the attempt ends");
    let [Write::Job(JobWrite::Requeue(requeue))] = &batch.writes[..] else { panic!("{:?}", batch.writes) };
    assert_eq!((requeue.counters.failures, requeue.counters.node_failures), (0, 1));
    let ended = requeue.attempt.as_ref().unwrap();
    assert_eq!(ended.reason.as_deref(), Some("its agent was silent for 20s"));
    assert_eq!(ended.details.as_deref().and_then(|details| details.host.as_deref()), Some("h-1"));
    bench.owner.committed(batch.seq, &Default::default(), bench.now);
    assert_eq!(stopped(&bench.owner.take_effects()), [(id, 1)]);
    // It is not forgotten by its worker only: what it says now is refused.
    bench.handle(report(id, 1, DONE));
    assert_eq!(heard(&bench.pass(Span::ZERO)), ["over"]);
}

#[test]
fn a_shard_that_moves_while_a_report_is_written_frees_the_slot() {
    let (mut bench, id) = running();
    bench.handle(report(id, 1, DONE));
    bench.batch().expect("it settles the job");
    bench.handle(Event::Released { shard: SHARD });
    assert_eq!(heard(&bench.owner.take_effects()), ["not owner"], "ask the next owner");
    assert_eq!(bench.owner.worker_status()[0].running, 0);
}

#[test]
fn an_agent_hears_what_to_run_and_whether_to_go_on() {
    let (mut bench, id) = running();
    let ask = |bench: &mut Bench, attempt: u32, ask: AgentAsk| {
        bench.handle(Event::Ask { token: TOKEN, ask: Ask::Agent { id, attempt: AttemptNo(attempt), ask }, made: None });
        heard(&bench.owner.take_effects())
    };
    let alive = || AgentAsk::Alive { host: "h-1".into() };
    assert_eq!((ask(&mut bench, 1, AgentAsk::Work), ask(&mut bench, 2, AgentAsk::Work)), (vec!["work"], vec!["over"]));
    assert_eq!((ask(&mut bench, 1, alive()), ask(&mut bench, 2, alive())), (vec!["alive"], vec!["over"]));
    assert_eq!(bench.command(id, Command::Cancel), [Reply::Asked]);
    assert_eq!(ask(&mut bench, 1, alive()), ["cancelled"]);
    bench.handle(Event::Released { shard: SHARD });
    bench.owner.take_effects();
    assert_eq!(ask(&mut bench, 1, alive()), ["not owner"]);
}

#[test]
fn agents_are_awaited_where_the_worker_has_them() {
    let (bench, id) = running();
    assert_eq!(bench.owner.run_by_agents().iter().map(|view| view.key.id).collect::<Vec<_>>(), [id]);
    let mut plain = Bench::new();
    plain.connect(1, vec![]);
    plain.submit(Span::ZERO);
    plain.pass(Span::ZERO);
    assert_eq!((plain.owner.all_running().len(), plain.owner.run_by_agents().len()), (1, 0));
}

#[test]
fn a_wish_to_cancel_that_becomes_durable_first_is_no_answer_to_the_agent() {
    let (mut bench, id) = running();
    bench.handle(Event::Ask { token: Token(1), ask: Ask::Job { id, command: Command::Cancel }, made: None });
    let wish = bench.batch().expect("the wish is written");
    bench.handle(report(id, 1, DONE));
    let end = bench.batch().expect("the end is written");
    bench.owner.committed(wish.seq, &Default::default(), bench.now);
    assert_eq!(replies(bench.owner.take_effects()), [Reply::Asked]);
    bench.owner.committed(end.seq, &Default::default(), bench.now);
    assert_eq!(heard(&bench.owner.take_effects()), ["recorded"]);
}

/// The word that it is over was lost with the connection.
#[test]
fn a_worker_that_still_holds_what_is_over_is_told_again() {
    let (mut bench, id) = running();
    bench.handle(Event::WorkerDisconnected { worker: bench.worker, stream: StreamId(1) });
    bench.handle(report(id, 1, DONE));
    assert_eq!(stopped(&bench.pass(Span::ZERO)), [], "it is away");
    let hello = |bench: &mut Bench, stream, found: Found| {
        bench.connect(stream, vec![(id, AttemptNo(1))]);
        let [(token, looked_up)] = bench.pass(Span::ZERO).lookups[..] else { panic!("the job is looked up") };
        assert_eq!(looked_up, id);
        bench.handle(Event::Found { token, id, found });
        stopped(&bench.pass(Span::ZERO))
    };
    let finished = |state, attempt| Found::Finished { state, attempt, counters: Counters::NEW };
    let attempt = Some(AttemptNo(1));
    assert_eq!(hello(&mut bench, 2, finished(JobState::Succeeded, attempt)), [(id, 1)]);
    assert_eq!(hello(&mut bench, 3, finished(JobState::Failed, Some(AttemptNo(2)))), [(id, 1)]);
    assert_eq!(hello(&mut bench, 4, Found::Absent), [(id, 1)]);
    assert_eq!(hello(&mut bench, 5, finished(JobState::Lost, attempt)), [], "its late result counts");
    let mut waiting = bench.job(bench.now + Span::from_secs(3600), 0);
    waiting.row.key = JobKey { due_at: waiting.row.key.due_at, id };
    waiting.row.counters.next_attempt = AttemptNo(2);
    assert_eq!(hello(&mut bench, 6, Found::Waiting(waiting)), [(id, 1)]);
}

#[test]
fn an_agent_that_repeats_itself_fills_no_memory() {
    let (mut bench, id) = running();
    for _ in 0..20 {
        bench.handle(report(id, 1, DONE));
    }
    let again = bench.owner.take_effects();
    assert_eq!(heard(&again), ["not owner"; 12], "eight wait, the others ask again");
    let answers = bench.pass(Span::ZERO);
    assert_eq!(heard(&answers).iter().filter(|word| **word == "recorded").count(), 1);
    assert_eq!(answers.answers.len(), 8);
}
