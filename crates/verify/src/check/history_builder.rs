//! Histories made by hand, one step after the other.

use super::check;
use crate::clock::Moment;
use crate::history::{Answer, Call, CallKind, DeliveryMode, Fault, FaultEvent, FinalAttempt, FinalJob, History, Rules};
use crate::witness::{Ended, Seen, WitnessLine};

const JOB: &str = "job_1";

pub(super) struct HistoryBuilder {
    now: Moment,
    history: History,
    attempts: Vec<FinalAttempt>,
    last_pid: u32,
}

impl HistoryBuilder {
    pub(super) fn new(delivery: DeliveryMode) -> Self {
        let rules = Rules {
            delivery,
            retry_max: 3,
            retry_initial_ms: 1000,
            retry_factor: 2.0,
            retry_jitter: 0.2,
            node_retry_max: 3,
        };
        let mut history = History::default();
        history.tasks.insert("task".to_owned(), rules);
        let now = Moment { boot_us: 50_000_000, real_us: 1_700_000_000_000_000 };
        Self { now, history, attempts: Vec::new(), last_pid: 0 }
    }

    fn call(mut self, asked: CallKind, answer: Answer) -> Self {
        let (invoked, returned) = (self.now, Some(self.now));
        self.history.calls.push(Call { invoked, returned, asked, answer });
        self
    }

    fn submission(self, for_ms: Option<i64>, answer: Answer) -> Self {
        let run_at_us = for_ms.map(|ms| self.now.plus_ms(ms).real_us);
        let asked = CallKind::Submit { key: "key".to_owned(), task: "task".to_owned(), run_at_us, fail_first: 10 };
        self.call(asked, answer)
    }

    pub(super) fn submit(self) -> Self {
        let ok = self.ok(0, None, false);
        self.submission(None, ok)
    }

    pub(super) fn submit_for(self, ms: i64) -> Self {
        self.submit_answered(ms, ms)
    }

    /// The server may have heard another time than it was told.
    pub(super) fn submit_answered(self, ms: i64, answered_ms: i64) -> Self {
        let ok = self.ok(answered_ms, None, false);
        self.submission(Some(ms), ok)
    }

    pub(super) fn submit_unanswered(self) -> Self {
        self.submission(None, unknown())
    }

    pub(super) fn submit_refused(self) -> Self {
        self.submission(None, refused())
    }

    fn ok(&self, due_ms: i64, state: Option<&str>, pending: bool) -> Answer {
        let due_us = Some(self.now.plus_ms(due_ms).real_us);
        Answer::Ok { job: JOB.to_owned(), due_us, state: state.map(str::to_owned), pending }
    }

    pub(super) fn delete_granted(self) -> Self {
        let ok = self.ok(0, Some("deleted"), false);
        self.call(CallKind::Delete { job: JOB.to_owned() }, ok)
    }

    pub(super) fn delete_refused(self) -> Self {
        self.call(CallKind::Delete { job: JOB.to_owned() }, refused())
    }

    pub(super) fn delete_unanswered(self) -> Self {
        self.call(CallKind::Delete { job: JOB.to_owned() }, unknown())
    }

    pub(super) fn cancel_granted(self) -> Self {
        let ok = self.ok(0, Some("cancelled"), false);
        self.call(CallKind::Cancel { job: JOB.to_owned() }, ok)
    }

    pub(super) fn cancel_pending(self) -> Self {
        let ok = self.ok(0, Some("running"), true);
        self.call(CallKind::Cancel { job: JOB.to_owned() }, ok)
    }

    pub(super) fn wait(mut self, ms: i64) -> Self {
        self.now = self.now.plus_ms(ms);
        self
    }

    fn witness(mut self, attempt: u32, pid: u32, seen: Seen) -> Self {
        self.history.witness.push(WitnessLine { job: JOB.to_owned(), attempt, pid, at: self.now, seen });
        self.last_pid = pid;
        self
    }

    pub(super) fn begin(self, attempt: u32, pid: u32) -> Self {
        self.witness(attempt, pid, Seen::Begin)
    }

    pub(super) fn end(self, attempt: u32, pid: u32, how: &str) -> Self {
        let ended = match how {
            "ok" => Ended::Ok,
            "failed" => Ended::Failed,
            "cancelled" => Ended::Cancelled,
            other => panic!("nothing ends as {other}"),
        };
        self.witness(attempt, pid, Seen::End(ended))
    }

    pub(super) fn record(mut self, attempt: u32, state: &str) -> Self {
        self.attempts.push(FinalAttempt {
            attempt,
            state: state.to_owned(),
            worker: format!("worker of {}", self.last_pid),
            server: "server".to_owned(),
            started_us: self.now.real_us,
            finished_us: (state != "running").then_some(self.now.real_us),
        });
        self
    }

    pub(super) fn runs(self, attempt: u32, pid: u32) -> Self {
        self.begin(attempt, pid).end(attempt, pid, "ok").record(attempt, "succeeded")
    }

    pub(super) fn fails(self, attempt: u32, pid: u32) -> Self {
        self.begin(attempt, pid).end(attempt, pid, "failed").record(attempt, "failed")
    }

    fn fault_now(mut self, what: FaultEvent) -> Self {
        self.history.faults.push(Fault { at: self.now, what, target: String::new(), note: String::new() });
        self
    }

    pub(super) fn dies(self, pid: u32) -> Self {
        self.fault_now(FaultEvent::WorkerDied { pid })
    }

    pub(super) fn cut_off(self, pid: u32) -> Self {
        self.fault_now(FaultEvent::WorkerOutOfReach { pid })
    }

    pub(super) fn database_goes_back(self) -> Self {
        self.wait(1).fault_now(FaultEvent::WentBack).wait(1)
    }

    /// Something was broken from now on for so long, and should be well so long from now.
    pub(super) fn fault(self, broken_ms: i64, well_ms: i64) -> Self {
        let healed = FaultEvent::Healed { within_ms: well_ms - broken_ms };
        self.fault_now(FaultEvent::Begin).wait(broken_ms).fault_now(FaultEvent::End).fault_now(healed).wait(-broken_ms)
    }

    pub(super) fn ends(mut self, state: &str) -> Self {
        let now_us = self.now.real_us;
        self.history.jobs.push(FinalJob {
            id: JOB.to_owned(),
            key: "key".to_owned(),
            state: state.to_owned(),
            submitted_us: now_us,
            due_us: now_us,
            finished_us: Some(now_us),
            attempts: std::mem::take(&mut self.attempts),
        });
        self
    }

    pub(super) fn change(mut self, change: impl FnOnce(&mut History)) -> Self {
        change(&mut self.history);
        self
    }

    #[track_caller]
    pub(super) fn holds(self) {
        let violations = check(&self.history);
        assert!(violations.is_empty(), "{violations:?}");
    }

    #[track_caller]
    pub(super) fn breaks(self, promise: &str) {
        let violations = check(&self.history);
        assert!(violations.iter().any(|violation| violation.promise == promise), "{violations:?}");
    }
}

fn unknown() -> Answer {
    Answer::Unknown { why: "no answer".to_owned() }
}

fn refused() -> Answer {
    Answer::Fail { why: "refused".to_owned() }
}
