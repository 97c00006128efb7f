//! Jobs that are given back before anything ran.

use super::*;
use crate::attempt::Ending;
use crate::notice::{Notice, NoticeKind};
use crate::retry::RetryPolicy;
use crate::shard::AgentAsk;
use crate::shard::event::Watch;
use crate::shard::write::{Settle, Void};

const REASON: &str = "cannot read its file: 404";

fn spec(max: u16) -> TaskSpec {
    let start_retry = RetryPolicy { max, jitter: 0.0, ..RetryPolicy::after_give_back() };
    TaskSpec { start_retry, ..TaskSpec::new(Run::Probe(Probe::default())) }
}

fn not_started() -> Outcome {
    Outcome::NotStarted { reason: REASON.into() }
}

impl Bench {
    /// Lets time pass, gives back whatever starts, and answers what ended the job.
    fn give_back_for(&mut self, span: Span, step: Span) -> Option<Settle> {
        let until = self.now + span;
        while self.now < until {
            let mut settled = None;
            self.now = self.now + step;
            self.handle(Event::WorkersAlive { workers: vec![self.worker] });
            self.owner.tick(self.now);
            while let Some(batch) = self.owner.take_batch(self.now) {
                let ends = batch.writes.iter().filter_map(|write| match write {
                    Write::Job(JobWrite::Settle(settle)) => Some(settle.clone()),
                    _ => None,
                });
                settled = ends.last().or(settled);
                self.owner.committed(batch.seq, &Void::default(), self.now);
                self.owner.tick(self.now);
                for (id, attempt) in assigned(&self.owner.take_effects()) {
                    self.report(id, attempt, not_started());
                }
            }
            if settled.is_some() {
                return settled;
            }
        }
        None
    }
}

#[test]
fn a_job_that_is_given_back_waits_longer_each_time() {
    let mut bench = Bench::with(spec(20), Config::default());
    bench.connect(1, vec![]);
    let id = bench.submit(Span::ZERO);
    for (attempt, wait_ms) in [(1, 100), (2, 200), (3, 400)] {
        assert_eq!(assigned(&bench.pass(Span::ZERO)), [(id, attempt)]);
        bench.report(id, attempt, not_started());
        assert!(assigned(&bench.pass(Span::from_millis(wait_ms - 1))).is_empty());
        bench.now = bench.now + Span::from_millis(1);
    }
}

#[test]
fn a_job_that_cannot_be_started_fails_when_its_budget_is_used_up_and_people_are_told() {
    let mut bench = Bench::with(spec(3), Config::default());
    bench.connect(1, vec![]);
    let id = bench.submit(Span::ZERO);
    let settled = bench.give_back_for(Span::from_secs(60), Span::from_millis(50)).expect("it does not go on for ever");
    assert_eq!((settled.key.id, settled.state), (id, JobState::Failed));
    let last = settled.attempt.expect("the last attempt says why");
    assert_eq!((last.attempt, last.ending), (AttemptNo(4), Ending::NotStarted));
    assert_eq!(last.reason.as_deref(), Some("cannot read its file: 404 (given back 4 times)"));
    assert_eq!(last.details.unwrap().class, Some(FailureClass::Environment));
    assert_eq!(settled.notice.unwrap().kind, NoticeKind::Failed);
    assert_eq!(settled.counters.failures, 0, "no retry was consumed");
}

#[test]
fn an_agent_cannot_give_its_own_job_back_for_ever() {
    let artifact = ArtifactId::new(Timestamp::EPOCH, 1);
    let run: Run = serde_json::from_str(&format!(r#"{{"binary":{{"artifact":"{artifact}"}}}}"#)).unwrap();
    let mut bench = Bench::with(TaskSpec { run, ..spec(2) }, Config::default());
    let capabilities = vec!["binary".into(), crate::shard::AGENT.into()];
    let spec = WorkerSpec { capabilities, ..worker_spec() };
    bench.handle(Event::WorkerHello { worker: bench.worker, stream: StreamId(1), spec, held: vec![] });
    let id = bench.submit(Span::ZERO);
    let mut attempts = 0;
    for _ in 0..100 {
        for (_, attempt) in assigned(&bench.pass(Span::from_millis(50))) {
            attempts += 1;
            let report =
                Report { id, attempt: AttemptNo(attempt), outcome: not_started(), timed_out: false, details: None };
            let ask = Ask::Agent { id, attempt: report.attempt, ask: AgentAsk::Ended(Box::new(report)) };
            bench.handle(Event::Ask { token: Token(1), ask, made: None });
        }
    }
    assert_eq!((attempts, bench.owner.counts().failed), (3, 1));
}

#[test]
fn a_give_back_does_not_move_the_moment_from_which_the_queue_timeout_counts() {
    for (queue_timeout, attempts) in [(Span::from_secs(5), 7), (Span::from_secs(40), 10)] {
        let spec = TaskSpec { queue_timeout: Some(queue_timeout), ..spec(20) };
        let mut bench = Bench::with(spec, Config::default());
        bench.connect(1, vec![]);
        let due_at = bench.now;
        bench.submit(Span::ZERO);
        let settled = bench.give_back_for(Span::from_secs(300), Span::from_millis(20)).expect("its time is over");
        assert_eq!(settled.state, JobState::Failed);
        let reason = settled.attempt.as_ref().map_or(&settled.reason, |last| &last.reason).clone().unwrap();
        assert_eq!(reason, format!("{REASON} (not started within its queue_timeout of {queue_timeout})"));
        let took = settled.finished_at.since(due_at);
        assert!(took > queue_timeout && settled.finished_at <= due_at + queue_timeout + Span::from_secs(2), "{took}");
        assert!(settled.counters.next_attempt.0 <= attempts, "{:?}", settled.counters);
    }
}

#[test]
fn a_retry_after_a_failure_counts_from_its_own_time_and_keeps_the_budget() {
    let spec = TaskSpec { queue_timeout: Some(Span::from_secs(5)), ..spec(2) };
    let mut bench = Bench::with(spec, Config::default());
    bench.connect(1, vec![]);
    let id = bench.submit(Span::ZERO);
    assert_eq!(assigned(&bench.pass(Span::ZERO)), [(id, 1)]);
    bench.report(id, 1, not_started());
    assert_eq!(assigned(&bench.pass(Span::from_millis(200))), [(id, 2)]);
    for _ in 0..10 {
        bench.handle(Event::WorkersAlive { workers: vec![bench.worker] });
        bench.pass(Span::from_secs(1));
    }
    bench.report(id, 2, Outcome::Failed(Failure::new("no luck")));
    assert_eq!(assigned(&bench.pass(Span::from_secs(1))), [(id, 3)], "its queue timeout has begun anew");
    bench.report(id, 3, not_started());
    assert_eq!(assigned(&bench.pass(Span::from_millis(200))), [(id, 4)]);
    bench.report(id, 4, not_started());
    bench.pass(Span::ZERO);
    assert_eq!(bench.owner.counts().failed, 1, "the third give-back since it was submitted");
}

#[test]
fn a_job_that_was_given_back_is_told_late_once_when_an_attempt_has_run() {
    let mut bench = Bench::with(spec(20), Config::default());
    bench.handle(Event::Watch(Watch { ailing: vec![], late_after: vec![Span::from_secs(5)] }));
    bench.connect(1, vec![]);
    bench.submit(Span::ZERO);
    let due_at = bench.now;
    let can_run_from = due_at + Span::from_secs(30);
    let mut late: Vec<Notice> = Vec::new();
    while bench.now < due_at + Span::from_secs(60) {
        bench.now = bench.now + Span::from_millis(50);
        bench.handle(Event::WorkersAlive { workers: vec![bench.worker] });
        bench.owner.tick(bench.now);
        while let Some(batch) = bench.owner.take_batch(bench.now) {
            late.extend(batch.notices(&Void::default()).filter(|notice| notice.kind == NoticeKind::Late).cloned());
            bench.owner.committed(batch.seq, &Void::default(), bench.now);
            bench.owner.tick(bench.now);
            for (id, attempt) in assigned(&bench.owner.take_effects()) {
                let runs = bench.now >= can_run_from;
                bench.report(id, attempt, if runs { Outcome::Succeeded { output: None } } else { not_started() });
            }
        }
    }
    let [late] = &late[..] else { panic!("{late:?}") };
    assert!(late.at >= can_run_from, "nothing had started before: {late:?}");
    assert_eq!(late.lateness, Some(late.at.since(due_at)));
}
