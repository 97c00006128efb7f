//! A made-up message: templates are tried on it, and people see what would come.

use punctual_api::{MessageAttempt, MessageEvent, MessageTask, NotificationMessage};
use punctual_core::attempt::Ending;
use punctual_core::notice::RuleSpec;
use punctual_core::{JobId, JobState, ShardId, Span, Timestamp, WorkerId};

use super::event::EventKind;
use super::render;
use crate::App;
use crate::schedules::zone;

/// Before now; longer than what is late by default.
const PLANNED_AGO: Span = Span::from_secs(372);
const ATTEMPT_TOOK: Span = Span::from_millis(1200);
const RETRY_AFTER: Span = Span::from_secs(5);
const SILENT_FOR: Span = Span::from_secs(30);

impl App {
    /// One of each kind, with everything that there can be.
    pub(super) fn sample_message(&self, rule: &str) -> NotificationMessage {
        let now = self.now();
        let events: Vec<MessageEvent> = EventKind::ALL.into_iter().map(|kind| self.sample(kind, now)).collect();
        let counts = EventKind::ALL.into_iter().map(|kind| (kind.as_str().to_owned(), 1)).collect();
        let mut message = NotificationMessage {
            kind: NotificationMessage::TYPE.to_owned(),
            rule: rule.to_owned(),
            at: now,
            subject: String::new(),
            text: String::new(),
            since: now,
            until: now,
            counts,
            tasks: Vec::new(),
            more_tasks: 0,
            schedules: Vec::new(),
            has_more_schedules: false,
            events,
        };
        add_up(&mut message);
        message
    }

    fn sample(&self, kind: EventKind, now: Timestamp) -> MessageEvent {
        let planned_at = now - PLANNED_AGO;
        match kind {
            EventKind::Quarantined => {
                let again = planned_at + SILENT_FOR + RETRY_AFTER;
                let attempts = vec![silent(1, planned_at), silent(2, again)];
                self.ended(kind, JobState::Quarantined, planned_at, attempts)
            }
            EventKind::Lost => self.ended(kind, JobState::Lost, planned_at, vec![silent(1, planned_at)]),
            EventKind::Failed => {
                let again = planned_at + ATTEMPT_TOOK + RETRY_AFTER;
                self.ended(kind, JobState::Failed, planned_at, vec![failed(1, planned_at), failed(2, again)])
            }
            EventKind::Missed => late(kind, "Nobody was there in time.", planned_at, now),
            EventKind::Overdue => late(kind, "Nobody has decided about this time yet.", planned_at, now),
            EventKind::Late => {
                let job = job_of(kind, planned_at);
                let link = Some(self.link_to(job));
                MessageEvent {
                    job: Some(job),
                    scheduled_at: Some(job.due_at()),
                    link,
                    ..late(kind, "It has not started yet.", planned_at, now)
                }
            }
            EventKind::Recovered => {
                let planned_at = now - ATTEMPT_TOOK;
                let attempt = attempt(1, planned_at, ATTEMPT_TOOK, Ending::Succeeded, None);
                self.ended(kind, JobState::Succeeded, planned_at, vec![attempt])
            }
        }
    }

    /// A job that ended with the last of these attempts, for its reason.
    fn ended(
        &self,
        kind: EventKind,
        state: JobState,
        planned_at: Timestamp,
        attempts: Vec<MessageAttempt>,
    ) -> MessageEvent {
        let last = attempts.last();
        let took = last.and_then(|last| last.took).unwrap_or(Span::ZERO);
        let ended_at = last.map_or(planned_at, |last| last.started_at + took);
        let reason = last.and_then(|last| last.reason.clone());
        let job = job_of(kind, planned_at);
        MessageEvent {
            job: Some(job),
            scheduled_at: Some(job.due_at()),
            state: Some(state.as_str().to_owned()),
            tracing_id: Some("order-4711".to_owned()),
            reason,
            attempts,
            link: Some(self.link_to(job)),
            ..event(kind, planned_at, ended_at)
        }
    }

    /// One event, short enough for a look: a failure, or what the rule tells instead.
    pub(super) fn test_message(&self, rule: &str, spec: &RuleSpec) -> NotificationMessage {
        let first = spec.on.first().map_or(EventKind::Failed, |kind| (*kind).into());
        let shown = if EventKind::Failed.is_wanted_by(spec) { EventKind::Failed } else { first };
        with_only(self.sample_message(rule), |kind| kind == shown)
    }
}

/// What a rule tells of a sample.
pub(super) fn for_rule(sample: NotificationMessage, spec: &RuleSpec) -> NotificationMessage {
    with_only(sample, |kind| kind.is_wanted_by(spec))
}

fn with_only(mut message: NotificationMessage, is_kept: impl Fn(EventKind) -> bool) -> NotificationMessage {
    let kept: Vec<&str> = EventKind::ALL.into_iter().filter(|kind| is_kept(*kind)).map(EventKind::as_str).collect();
    message.events.retain(|event| kept.contains(&event.kind.as_str()));
    message.counts.retain(|kind, _| kept.contains(&kind.as_str()));
    add_up(&mut message);
    message
}

/// Makes the message's frame that of its events.
fn add_up(message: &mut NotificationMessage) {
    message.tasks = vec![MessageTask { task: "nightly-report".to_owned(), counts: message.counts.clone() }];
    message.since = message.events.iter().map(|event| event.at).min().unwrap_or(message.at);
    message.until = message.events.iter().map(|event| event.at).max().unwrap_or(message.at);
}

fn event(kind: EventKind, planned_at: Timestamp, at: Timestamp) -> MessageEvent {
    MessageEvent {
        kind: kind.as_str().to_owned(),
        task: "nightly-report".to_owned(),
        schedule: Some("nightly".to_owned()),
        planned_at: Some(planned_at),
        planned_local: render::local(planned_at, &zone::find("Europe/Berlin")),
        job: None,
        scheduled_at: None,
        state: None,
        tracing_id: None,
        at,
        count: 1,
        reason: None,
        attempts: Vec::new(),
        earlier_attempts: 0,
        late_by: None,
        link: None,
    }
}

fn late(kind: EventKind, reason: &str, planned_at: Timestamp, at: Timestamp) -> MessageEvent {
    let late_by = Some(render::for_people(at.since(planned_at)));
    MessageEvent { reason: Some(reason.to_owned()), late_by, ..event(kind, planned_at, at) }
}

/// Each kind has a job of its own.
fn job_of(kind: EventKind, planned_at: Timestamp) -> JobId {
    JobId::new(planned_at, ShardId(0), kind as u64)
}

fn failed(number: u32, started_at: Timestamp) -> MessageAttempt {
    attempt(number, started_at, ATTEMPT_TOOK, Ending::Failed, Some("exit code 1".to_owned()))
}

fn silent(number: u32, started_at: Timestamp) -> MessageAttempt {
    let reason = format!("the worker was silent for {SILENT_FOR}");
    attempt(number, started_at, SILENT_FOR, Ending::WorkerLost, Some(reason))
}

fn attempt(attempt: u32, started_at: Timestamp, took: Span, ending: Ending, reason: Option<String>) -> MessageAttempt {
    let worker = WorkerId::new(started_at, u64::from(attempt)).to_string();
    let (worker_name, worker_host) = (Some("reports".to_owned()), Some("host-7".to_owned()));
    let ending = ending.as_str().to_owned();
    MessageAttempt { attempt, worker, worker_name, worker_host, started_at, took: Some(took), ending, reason }
}
