//! The state of a run as stores keep it: bytes, because each end of a job writes them and often reads them. Most nodes take
//! fewer than twelve. Times are counted from the one before, and the id of a job is left out where it follows from its node and
//! its time, which it does unless an earlier version made it. What few runs have is JSON.

mod bytes;
mod fan;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use self::bytes::{Reader, Writer};
use super::node_ref::NodeRef;
use super::release::random_of;
use super::state::{NodeState, NodeStatus, Note, Phase, RunJob, RunState};
use crate::id::{JobId, RunId};
use crate::time::Timestamp;

/// The first byte. What earlier versions wrote is JSON, and begins with a brace.
const VERSION: u8 = 1;

/// More are damage: a definition may have fewer.
const NODES_MAX: u64 = u16::MAX as u64;

/// What few runs have.
#[derive(Serialize, Deserialize, Default, PartialEq)]
#[serde(default)]
struct RareOfRun {
    #[serde(skip_serializing_if = "Option::is_none")]
    cancelled: Option<Note>,
    #[serde(skip_serializing_if = "Option::is_none")]
    broken: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    job: Option<RunJob>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output: Option<Value>,
}

/// What few nodes have.
#[derive(Serialize, Deserialize, Default, PartialEq)]
#[serde(default)]
struct RareOfNode {
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    decided: Option<Note>,
}

mod run_flag {
    pub(super) const TIMED_OUT: u8 = 1;
    pub(super) const ENDED: u8 = 2;
    pub(super) const RARE: u8 = 4;
}

/// In the first byte of a node, above its status.
mod node_flag {
    pub(super) const JOB: u8 = 0x10;
    pub(super) const RELEASED: u8 = 0x20;
    pub(super) const ENDED: u8 = 0x40;
    /// Another byte of flags follows.
    pub(super) const MORE: u8 = 0x80;
}

/// In the second byte of a node.
mod more_flag {
    pub(super) const ROUND: u8 = 1;
    /// The job's id does not follow from the node.
    pub(super) const JOB_ID: u8 = 2;
    pub(super) const OUTPUT_TOO_LONG: u8 = 4;
    pub(super) const RARE: u8 = 8;
    pub(super) const FAN: u8 = 16;
}

impl RunState {
    /// `run` is the id of the run.
    pub fn to_bytes(&self, run: RunId) -> Vec<u8> {
        let mut out = Writer::new(16 + self.nodes.len() * 12);
        out.byte(VERSION);
        out.byte(match self.phase {
            Phase::Nodes => 0,
            Phase::Handlers => 1,
            Phase::Ended => 2,
        });
        let rare = RareOfRun {
            cancelled: self.cancelled.clone(),
            broken: self.broken.clone(),
            job: self.job,
            output: self.output.clone(),
        };
        let has_rare = rare != RareOfRun::default();
        let flag = |flag: u8, is_set: bool| if is_set { flag } else { 0 };
        out.byte(
            flag(run_flag::TIMED_OUT, self.timed_out)
                | flag(run_flag::ENDED, self.ended_at.is_some())
                | flag(run_flag::RARE, has_rare),
        );
        out.time(self.deadline);
        if let Some(at) = self.ended_at {
            out.time(at);
        }
        if has_rare {
            out.json(&rare);
        }
        out.number(self.nodes.len() as u64);
        for (node, number) in self.nodes.iter().zip(0..) {
            node.write(&mut out, NodeRef { run, node: number, round: node.round, item: 0 });
        }
        out.into_bytes()
    }

    /// `None` if these bytes are not the state of a run.
    pub fn from_bytes(bytes: &[u8], run: RunId) -> Option<Self> {
        if bytes.first() == Some(&b'{') {
            return serde_json::from_slice(bytes).ok();
        }
        let mut read = Reader::new(bytes);
        if read.byte()? != VERSION {
            return None;
        }
        let phase = match read.byte()? {
            0 => Phase::Nodes,
            1 => Phase::Handlers,
            2 => Phase::Ended,
            _ => return None,
        };
        let flags = read.byte()?;
        let has = |flag: u8| flags & flag != 0;
        let deadline = read.time()?;
        let ended_at = if has(run_flag::ENDED) { Some(read.time()?) } else { None };
        let RareOfRun { cancelled, broken, job, output } =
            if has(run_flag::RARE) { read.json()? } else { RareOfRun::default() };
        let count = read.number().filter(|count| *count <= NODES_MAX)?;
        let mut nodes = Vec::with_capacity(count as usize);
        for number in 0..count as u16 {
            nodes.push(NodeState::read(&mut read, NodeRef { run, node: number, round: 0, item: 0 })?);
        }
        let timed_out = has(run_flag::TIMED_OUT);
        read.is_at_end().then_some(Self { phase, deadline, cancelled, timed_out, broken, job, output, ended_at, nodes })
    }
}

impl NodeState {
    fn write(&self, out: &mut Writer, node: NodeRef) {
        let Self { status, round, retried, job, released_at, ended_at, reason, decided, output_too_long, fan } = self;
        let follows = job.is_some_and(|job| *released_at == Some(job.due_at()) && job_of(node, job.due_at()) == job);
        let rare = RareOfNode { reason: reason.clone(), decided: decided.clone() };
        let has_rare = rare != RareOfNode::default();
        let flag = |flag: u8, is_set: bool| if is_set { flag } else { 0 };
        let more = flag(more_flag::ROUND, (*round, *retried) != (0, 0))
            | flag(more_flag::JOB_ID, job.is_some() && !follows)
            | flag(more_flag::OUTPUT_TOO_LONG, *output_too_long)
            | flag(more_flag::RARE, has_rare)
            | flag(more_flag::FAN, fan.is_some());
        out.byte(
            number_of(*status)
                | flag(node_flag::JOB, job.is_some())
                | flag(node_flag::RELEASED, released_at.is_some())
                | flag(node_flag::ENDED, ended_at.is_some())
                | flag(node_flag::MORE, more != 0),
        );
        if more != 0 {
            out.byte(more);
        }
        if more & more_flag::ROUND != 0 {
            out.number(u64::from(*round));
            out.number(u64::from(*retried));
        }
        for at in [released_at, ended_at].into_iter().flatten() {
            out.time(*at);
        }
        if let Some(job) = job.filter(|_| !follows) {
            out.raw(&job.to_bytes());
        }
        if has_rare {
            out.json(&rare);
        }
        if let Some(fan) = fan {
            fan.write(out, node);
        }
    }

    fn read(read: &mut Reader<'_>, node: NodeRef) -> Option<Self> {
        let flags = read.byte()?;
        let has = |flag: u8| flags & flag != 0;
        let more = if has(node_flag::MORE) { read.byte()? } else { 0 };
        let has_more = |flag: u8| more & flag != 0;
        let (round, retried) = match has_more(more_flag::ROUND) {
            true => (u16::try_from(read.number()?).ok()?, u16::try_from(read.number()?).ok()?),
            false => (0, 0),
        };
        let node = NodeRef { round, ..node };
        let released_at = if has(node_flag::RELEASED) { Some(read.time()?) } else { None };
        let ended_at = if has(node_flag::ENDED) { Some(read.time()?) } else { None };
        let job = match (has(node_flag::JOB), has_more(more_flag::JOB_ID)) {
            (false, _) => None,
            (true, true) => Some(JobId::from_bytes(read.raw(16)?)?),
            (true, false) => Some(job_of(node, released_at?)),
        };
        let RareOfNode { reason, decided } =
            if has_more(more_flag::RARE) { read.json()? } else { RareOfNode::default() };
        let fan = if has_more(more_flag::FAN) { Some(Box::new(fan::read(read, node)?)) } else { None };
        Some(Self {
            status: status_of(flags & 0xf)?,
            round,
            retried,
            job,
            released_at,
            ended_at,
            reason,
            decided,
            output_too_long: has_more(more_flag::OUTPUT_TOO_LONG),
            fan,
        })
    }
}

/// The id that `release` gives to the job of a node.
fn job_of(node: NodeRef, at: Timestamp) -> JobId {
    JobId::new(at, node.run.shard(), random_of(node))
}

/// For stores. Never changes.
const fn number_of(status: NodeStatus) -> u8 {
    match status {
        NodeStatus::Waiting => 0,
        NodeStatus::Active => 1,
        NodeStatus::Open => 2,
        NodeStatus::Succeeded => 3,
        NodeStatus::Failed => 4,
        NodeStatus::Cancelled => 5,
        NodeStatus::Skipped => 6,
        NodeStatus::UpstreamFailed => 7,
        NodeStatus::NotRun => 8,
    }
}

fn status_of(number: u8) -> Option<NodeStatus> {
    NodeStatus::ALL.into_iter().find(|status| number_of(*status) == number)
}
