//! Why a job exists, when a workflow made it.

use crate::id::RunId;

/// The node of a run that a job is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeRef {
    pub run: RunId,
    /// The node's place in the graph.
    pub node: u16,
    /// How often the node was started before, in the same run. The end of a job of an earlier round changes nothing.
    pub round: u16,
    /// The place in the list of a node that fans out; otherwise 0.
    pub item: u32,
}

impl NodeRef {
    pub const LEN: usize = 25;
    /// The first byte. The sources of scheduled jobs, which stand in the same column, begin with others.
    pub const KIND: u8 = 5;

    pub fn to_bytes(self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        bytes[0] = Self::KIND;
        bytes[1..17].copy_from_slice(&self.run.to_bytes());
        bytes[17..19].copy_from_slice(&self.node.to_be_bytes());
        bytes[19..21].copy_from_slice(&self.round.to_be_bytes());
        bytes[21..].copy_from_slice(&self.item.to_be_bytes());
        bytes
    }

    /// `None` if the bytes are something else, such as the source of a scheduled job.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; Self::LEN] = bytes.try_into().ok()?;
        if bytes[0] != Self::KIND {
            return None;
        }
        Some(Self {
            run: RunId::from_bytes(&bytes[1..17])?,
            node: u16::from_be_bytes([bytes[17], bytes[18]]),
            round: u16::from_be_bytes([bytes[19], bytes[20]]),
            item: u32::from_be_bytes([bytes[21], bytes[22], bytes[23], bytes[24]]),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::{ScheduleId, ShardId};
    use crate::schedule::{Source, SourceKind};
    use crate::time::Timestamp;

    #[test]
    fn it_survives_the_store_and_is_never_taken_for_a_schedule() {
        let node = NodeRef { run: RunId::new(Timestamp::EPOCH, ShardId(9), 7), node: 999, round: 3, item: 70_000 };
        assert_eq!(NodeRef::from_bytes(&node.to_bytes()), Some(node));
        assert_eq!(Source::from_bytes(&node.to_bytes()), None);
        for kind in [SourceKind::Planned, SourceKind::Replayed, SourceKind::Manual, SourceKind::Backfill] {
            let schedule = ScheduleId::new(Timestamp::EPOCH, ShardId(9), 7);
            let source = Source { schedule, at: Timestamp::EPOCH, kind, is_tracked: true };
            assert_eq!(NodeRef::from_bytes(&source.to_bytes()), None);
        }
    }
}
