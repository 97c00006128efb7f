//! What rules are matched against: what owners notice, and what the watcher finds.

use std::collections::BTreeMap;

use punctual_core::notice::{Notice, NoticeKind, RuleSpec};
use punctual_core::{JobId, ScheduleId, Span, TaskId, Timestamp};
use serde::{Deserialize, Serialize};

/// The most important first: messages show them in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum EventKind {
    Quarantined,
    Lost,
    Failed,
    Missed,
    /// A planned time is past, and nobody has decided about it.
    Overdue,
    Late,
    Recovered,
}

impl EventKind {
    pub(super) const ALL: [Self; 7] =
        [Self::Quarantined, Self::Lost, Self::Failed, Self::Missed, Self::Overdue, Self::Late, Self::Recovered];

    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Quarantined => NoticeKind::Quarantined.as_str(),
            Self::Lost => NoticeKind::Lost.as_str(),
            Self::Failed => NoticeKind::Failed.as_str(),
            Self::Missed => NoticeKind::Missed.as_str(),
            Self::Overdue => "overdue",
            Self::Late => NoticeKind::Late.as_str(),
            Self::Recovered => NoticeKind::Recovered.as_str(),
        }
    }

    /// An overdue time is on its way to being missed, and late until then.
    pub(super) fn is_wanted_by(self, rule: &RuleSpec) -> bool {
        match self {
            Self::Quarantined => rule.wants(NoticeKind::Quarantined),
            Self::Lost => rule.wants(NoticeKind::Lost),
            Self::Failed => rule.wants(NoticeKind::Failed),
            Self::Missed => rule.wants(NoticeKind::Missed),
            Self::Overdue => rule.wants(NoticeKind::Missed) || rule.wants(NoticeKind::Late),
            Self::Late => rule.wants(NoticeKind::Late),
            Self::Recovered => rule.wants(NoticeKind::Recovered),
        }
    }
}

impl From<NoticeKind> for EventKind {
    fn from(kind: NoticeKind) -> Self {
        match kind {
            NoticeKind::Failed => Self::Failed,
            NoticeKind::Lost => Self::Lost,
            NoticeKind::Quarantined => Self::Quarantined,
            NoticeKind::Missed => Self::Missed,
            NoticeKind::Late => Self::Late,
            NoticeKind::Recovered => Self::Recovered,
        }
    }
}

/// How many of each kind.
pub(super) type Counts = BTreeMap<EventKind, u64>;

/// One job, or planned times of one schedule. Names are looked up when a message is made of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Event {
    pub(super) kind: EventKind,
    pub(super) at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) task: Option<TaskId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) job: Option<JobId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) planned: Option<(ScheduleId, Timestamp)>,
    pub(super) count: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) lateness: Option<Span>,
    /// A late job that had not started when this was seen.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) is_waiting: bool,
}

impl Event {
    pub(super) fn new(notice: &Notice) -> Self {
        Self {
            kind: notice.kind.into(),
            at: notice.at,
            task: notice.task,
            job: notice.job,
            planned: notice.planned,
            count: notice.count.max(1),
            lateness: notice.lateness,
            is_waiting: false,
        }
    }

    /// From when on a job that started late waited. What it was planned for may be long before it was made.
    pub(super) fn waited_from(&self) -> Timestamp {
        let promised = self.at - self.lateness.unwrap_or(Span::ZERO);
        // One that was moved ahead of its time has a later one in its id.
        let made_for = self.job.map(JobId::due_at).filter(|made_for| *made_for <= self.at);
        made_for.map_or(promised, |made_for| promised.max(made_for))
    }
}
