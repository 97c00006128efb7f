//! The durable state of a run.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::id::JobId;
use crate::time::Timestamp;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RunStatus {
    Running,
    Succeeded,
    Failed,
    Cancelled,
}

impl RunStatus {
    pub const ALL: [Self; 4] = [Self::Running, Self::Succeeded, Self::Failed, Self::Cancelled];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == text)
    }

    /// For stores. Never changes.
    pub const fn number(self) -> u8 {
        match self {
            Self::Running => 0,
            Self::Succeeded => 1,
            Self::Failed => 2,
            Self::Cancelled => 3,
        }
    }

    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.number() == number)
    }
}

/// Which part of a run is under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    Nodes,
    /// The nodes have ended, and what comes after them runs.
    Handlers,
    Ended,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunState {
    pub phase: Phase,
    /// When it times out.
    pub deadline: Timestamp,
    /// Who asked for its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cancelled: Option<Note>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub timed_out: bool,
    /// Why it could not go on: what followed could not be stored, or its definition could not be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub broken: Option<String>,
    /// The job that it is run for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<RunJob>,
    /// What its definition says that it returns, once its nodes have succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
    pub nodes: Vec<NodeState>,
}

/// The attempt of a job that a run is: the job ends with the run. A schedule runs a workflow by such a job, and a node of
/// another workflow does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunJob {
    pub job: JobId,
    pub attempt: u32,
    /// The end of the attempt is durable, or nobody waits for it any more.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_reported: bool,
}

/// Who did something by hand, and when.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    pub at: Timestamp,
    pub by: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NodeStatus {
    /// The nodes that it needs have not ended.
    Waiting,
    /// It was released: its job waits for its start, or runs.
    Active,
    /// A gate that waits for a decision.
    Open,
    Succeeded,
    Failed,
    /// Its job was cancelled or deleted, or the run was while it waited for a decision.
    Cancelled,
    /// Its condition or its trigger rule did not hold, or somebody skipped it.
    Skipped,
    /// It did not start because of a failure before it.
    UpstreamFailed,
    /// The run ended before its turn came.
    NotRun,
}

impl NodeStatus {
    pub const ALL: [Self; 9] = [
        Self::Waiting,
        Self::Active,
        Self::Open,
        Self::Succeeded,
        Self::Failed,
        Self::Cancelled,
        Self::Skipped,
        Self::UpstreamFailed,
        Self::NotRun,
    ];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Active => "active",
            Self::Open => "open",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::Skipped => "skipped",
            Self::UpstreamFailed => "upstream_failed",
            Self::NotRun => "not_run",
        }
    }

    /// It will not change by itself any more.
    pub const fn is_final(self) -> bool {
        !matches!(self, Self::Waiting | Self::Active | Self::Open)
    }

    /// It counts as a failure where trigger rules ask for one.
    pub const fn is_failure(self) -> bool {
        matches!(self, Self::Failed | Self::Cancelled | Self::UpstreamFailed)
    }
}

/// As JSON, which earlier versions kept, times are microseconds and names are letters; before that, names were long.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NodeState {
    #[serde(rename = "s", alias = "status")]
    pub status: NodeStatus,
    /// How often it was started before.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub round: u16,
    /// How many of its retries are used. A resume begins a round as well, and uses none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub retried: u16,
    /// The last job that was released for it.
    #[serde(rename = "j", alias = "job", default, skip_serializing_if = "Option::is_none")]
    pub job: Option<JobId>,
    #[serde(rename = "r", alias = "released_at", with = "micros", default, skip_serializing_if = "Option::is_none")]
    pub released_at: Option<Timestamp>,
    #[serde(rename = "e", alias = "ended_at", with = "micros", default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
    /// Why, if no job says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Who decided, skipped or approved it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decided: Option<Note>,
    /// Its output was too long to be kept for the nodes that read it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub output_too_long: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fan: Option<Box<FanState>>,
}

/// A time as microseconds, which is read more quickly than a text. Texts are read as well.
mod micros {
    use std::fmt;

    use serde::de::{Error, Visitor};
    use serde::{Deserializer, Serialize, Serializer};

    use crate::time::Timestamp;

    struct Written;

    impl Visitor<'_> for Written {
        type Value = Timestamp;

        fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
            to.write_str("a time, as microseconds or as a text")
        }

        fn visit_u64<E: Error>(self, micros: u64) -> Result<Timestamp, E> {
            let at = i64::try_from(micros).ok().and_then(Timestamp::from_micros);
            at.ok_or_else(|| E::custom("a time that is too late"))
        }

        fn visit_str<E: Error>(self, text: &str) -> Result<Timestamp, E> {
            Timestamp::parse(text).map_err(E::custom)
        }
    }

    pub(super) fn serialize<S: Serializer>(at: &Option<Timestamp>, serializer: S) -> Result<S::Ok, S::Error> {
        at.map(Timestamp::as_micros).serialize(serializer)
    }

    /// The field is left out if there is no time.
    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Timestamp>, D::Error> {
        deserializer.deserialize_any(Written).map(Some)
    }
}

fn is_zero(number: &u16) -> bool {
    *number == 0
}

/// The jobs of a node that fans out.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct FanState {
    /// One letter for each element of the list; see [`ItemStatus`].
    pub items: String,
    /// The jobs that are under way.
    #[serde(default)]
    pub active: BTreeMap<u32, JobId>,
    /// Some jobs that failed, for people.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub failed: BTreeMap<u32, JobId>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ItemStatus {
    Waiting,
    Active,
    Succeeded,
    Failed,
}

impl ItemStatus {
    pub(super) const ALL: [Self; 4] = [Self::Waiting, Self::Active, Self::Succeeded, Self::Failed];

    pub(super) const fn letter(self) -> u8 {
        match self {
            Self::Waiting => b'w',
            Self::Active => b'a',
            Self::Succeeded => b's',
            Self::Failed => b'f',
        }
    }
}

impl FanState {
    /// Jobs that failed and that people are shown.
    pub(super) const FAILED_SHOWN: usize = 10;

    pub fn count(&self, status: ItemStatus) -> usize {
        self.items.bytes().filter(|letter| *letter == status.letter()).count()
    }

    pub fn len(&self) -> usize {
        self.items.len()
    }

    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }
}

impl NodeState {
    pub(super) fn waiting(round: u16) -> Self {
        Self {
            status: NodeStatus::Waiting,
            round,
            retried: 0,
            job: None,
            released_at: None,
            ended_at: None,
            reason: None,
            decided: None,
            output_too_long: false,
            fan: None,
        }
    }

    /// Its jobs that have not ended.
    pub fn live_jobs(&self) -> Vec<JobId> {
        if self.status != NodeStatus::Active {
            return Vec::new();
        }
        match &self.fan {
            Some(fan) => fan.active.values().copied().collect(),
            None => self.job.into_iter().collect(),
        }
    }
}

impl RunState {
    pub fn new(nodes: usize, deadline: Timestamp) -> Self {
        Self {
            phase: Phase::Nodes,
            deadline,
            cancelled: None,
            timed_out: false,
            broken: None,
            job: None,
            output: None,
            ended_at: None,
            nodes: vec![NodeState::waiting(0); nodes],
        }
    }

    /// Ends a run that cannot go on. Needs no graph, so that it works for a run whose definition cannot be read. Jobs that
    /// run go on to their end, and nothing follows from it.
    pub fn break_off(mut self, reason: String, now: Timestamp) -> Self {
        for node in &mut self.nodes {
            let (status, reason) = match node.status {
                NodeStatus::Active => (NodeStatus::Failed, Some(reason.clone())),
                NodeStatus::Open => (NodeStatus::Cancelled, Some("the run stopped".to_owned())),
                NodeStatus::Waiting => (NodeStatus::NotRun, None),
                NodeStatus::Succeeded
                | NodeStatus::Failed
                | NodeStatus::Cancelled
                | NodeStatus::Skipped
                | NodeStatus::UpstreamFailed
                | NodeStatus::NotRun => continue,
            };
            node.ended_at = (status != NodeStatus::NotRun).then_some(now);
            (node.status, node.reason) = (status, reason);
        }
        self.phase = Phase::Ended;
        self.ended_at = Some(now);
        self.broken = Some(reason);
        self
    }

    /// Its job has to hear of its end.
    pub fn awaits_report(&self) -> bool {
        self.phase == Phase::Ended && self.job.is_some_and(|job| !job.is_reported)
    }

    /// What the run is, or will be when what runs after its nodes has ended.
    pub fn status(&self, handlers_from: usize) -> RunStatus {
        if self.phase != Phase::Ended {
            return RunStatus::Running;
        }
        self.outcome(handlers_from)
    }

    pub(super) fn outcome(&self, handlers_from: usize) -> RunStatus {
        let failed = self.nodes[..handlers_from].iter().any(|node| node.status.is_failure());
        match () {
            () if self.cancelled.is_some() => RunStatus::Cancelled,
            () if self.timed_out || self.broken.is_some() || failed => RunStatus::Failed,
            () => RunStatus::Succeeded,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_node_is_short_and_what_earlier_versions_wrote_is_read() {
        let at = |micros: i64| Timestamp::from_micros(1_763_550_000_000_000 + micros).unwrap();
        let (released, ended) = (at(1), at(9));
        let job: JobId = "job_01m7et4344e91804jsy8wksbxz".parse().unwrap();
        let node = NodeState {
            status: NodeStatus::Succeeded,
            job: Some(job),
            released_at: Some(released),
            ended_at: Some(ended),
            ..NodeState::waiting(2)
        };
        let written =
            json!({ "s": "succeeded", "round": 2, "j": job, "r": released.as_micros(), "e": ended.as_micros() });
        assert_eq!(serde_json::to_value(&node).unwrap(), written);
        assert_eq!(serde_json::from_value::<NodeState>(written).unwrap(), node);
        let earlier =
            json!({ "status": "succeeded", "round": 2, "job": job, "released_at": released, "ended_at": ended });
        assert_eq!(serde_json::from_value::<NodeState>(earlier).unwrap(), node);
        assert_eq!(serde_json::to_string(&NodeState::waiting(0)).unwrap(), r#"{"s":"waiting"}"#);
    }
}
