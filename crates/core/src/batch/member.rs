//! Why a job exists, when it is of a batch.

use crate::batch::{BatchStart, Contract, OnStartTimeout};
use crate::id::{BatchId, JobId};
use crate::random::SplitMix64;
use crate::time::{Span, Timestamp};

/// What a job does for its batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MemberRole {
    Member,
    /// It undoes what the member at its place did.
    Compensation,
}

/// The members that a member starts together with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Gang {
    /// With this one.
    pub size: u16,
    /// From its due time. Meanwhile the gang may hold slots back for itself.
    pub timeout: Span,
    pub on_timeout: OnStartTimeout,
}

/// The member of a batch that a job is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MemberRef {
    pub batch: BatchId,
    /// From 0.
    pub place: u16,
    pub role: MemberRole,
    /// `None`: it starts by itself.
    pub gang: Option<Gang>,
}

impl MemberRef {
    pub const LEN: usize = 25;
    /// The first byte. The other reasons for a job, which stand in the same column, begin with others.
    pub const KIND: u8 = 6;

    const COMPENSATION: u32 = 1 << 31;
    const WAITS: u32 = 1 << 30;
    const SECONDS: u32 = (1 << 24) - 1;

    pub fn member(batch: BatchId, place: u16, size: usize, contract: &Contract) -> Self {
        let gang = (contract.start == BatchStart::Together).then(|| Gang {
            size: u16::try_from(size).unwrap_or(u16::MAX),
            timeout: contract.start_timeout.unwrap_or(Contract::START_TIMEOUT),
            on_timeout: contract.on_start_timeout,
        });
        Self { batch, place, role: MemberRole::Member, gang }
    }

    pub fn compensation(batch: BatchId, place: u16) -> Self {
        Self { batch, place, role: MemberRole::Compensation, gang: None }
    }

    pub fn to_bytes(self) -> [u8; Self::LEN] {
        let mut flags = 0;
        if self.role == MemberRole::Compensation {
            flags |= Self::COMPENSATION;
        }
        if let Some(gang) = self.gang {
            if gang.on_timeout == OnStartTimeout::Wait {
                flags |= Self::WAITS;
            }
            let seconds = gang.timeout.as_micros() / 1_000_000;
            flags |= u32::try_from(seconds).unwrap_or(Self::SECONDS).min(Self::SECONDS);
        }
        let mut bytes = [0; Self::LEN];
        bytes[0] = Self::KIND;
        bytes[1..17].copy_from_slice(&self.batch.to_bytes());
        bytes[17..19].copy_from_slice(&self.place.to_be_bytes());
        bytes[19..21].copy_from_slice(&self.gang.map_or(0, |gang| gang.size).to_be_bytes());
        bytes[21..].copy_from_slice(&flags.to_be_bytes());
        bytes
    }

    /// `None` if the bytes are something else, such as the node of a run.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; Self::LEN] = bytes.try_into().ok()?;
        if bytes[0] != Self::KIND {
            return None;
        }
        let size = u16::from_be_bytes([bytes[19], bytes[20]]);
        let flags = u32::from_be_bytes([bytes[21], bytes[22], bytes[23], bytes[24]]);
        let on_timeout = if flags & Self::WAITS == 0 { OnStartTimeout::Fail } else { OnStartTimeout::Wait };
        let timeout = Span::from_secs(i64::from(flags & Self::SECONDS));
        Some(Self {
            batch: BatchId::from_bytes(&bytes[1..17])?,
            place: u16::from_be_bytes([bytes[17], bytes[18]]),
            role: if flags & Self::COMPENSATION == 0 { MemberRole::Member } else { MemberRole::Compensation },
            gang: (size > 0).then_some(Gang { size, timeout, on_timeout }),
        })
    }
}

/// Which of the batch's tasks a member runs, and which one undoes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct BatchMember {
    pub task: u16,
    pub compensation: Option<u16>,
}

impl BatchMember {
    pub const LEN: usize = 4;
    const NONE: u16 = u16::MAX;

    /// For stores.
    pub fn to_bytes(members: &[Self]) -> Vec<u8> {
        let bytes = members.iter().flat_map(|member| {
            let [a, b] = member.task.to_be_bytes();
            let [c, d] = member.compensation.unwrap_or(Self::NONE).to_be_bytes();
            [a, b, c, d]
        });
        bytes.collect()
    }

    /// `None` if they cannot be read.
    pub fn from_bytes(bytes: &[u8]) -> Option<Vec<Self>> {
        let (members, rest) = bytes.as_chunks::<{ Self::LEN }>();
        let read = |[a, b, c, d]: &[u8; Self::LEN]| Self {
            task: u16::from_be_bytes([*a, *b]),
            compensation: Some(u16::from_be_bytes([*c, *d])).filter(|task| *task != Self::NONE),
        };
        rest.is_empty().then(|| members.iter().map(read).collect())
    }
}

/// The low bits of an id's random part, which tell the jobs of a batch apart.
const PLACE_BITS: u32 = 14;

fn job(batch: BatchId, due_at: Timestamp, place: u16, salt: u64) -> JobId {
    let value = batch.as_u128();
    let mixed = SplitMix64::new(value as u64 ^ (value >> 64) as u64 ^ salt).bits();
    JobId::new(due_at, batch.shard(), (mixed << PLACE_BITS) | u64::from(place))
}

/// The job of a member. It is worked out and not stored, so that the row of a batch is short.
pub fn member_job(batch: BatchId, due_at: Timestamp, place: u16) -> JobId {
    job(batch, due_at, place, 0)
}

/// The job that undoes what a member did.
pub fn compensation_job(batch: BatchId, due_at: Timestamp, place: u16) -> JobId {
    job(batch, due_at, place, 0x636f_6d70)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::batch::MEMBERS_MAX;
    use crate::id::ShardId;
    use crate::schedule::Source;
    use crate::workflow::NodeRef;

    fn batch() -> BatchId {
        BatchId::new(Timestamp::EPOCH, ShardId(9), 7)
    }

    #[test]
    fn it_survives_the_store_and_is_never_taken_for_a_schedule_or_a_node() {
        let contract = Contract {
            start: BatchStart::Together,
            start_timeout: Some(Contract::START_TIMEOUT_MAX),
            on_start_timeout: OnStartTimeout::Wait,
            ..Contract::default()
        };
        let gang = MemberRef::member(batch(), 9_999, 1_000, &contract);
        assert_eq!(gang.gang.map(|gang| gang.timeout), Some(Contract::START_TIMEOUT_MAX));
        let alone = MemberRef::member(batch(), 0, 10_000, &Contract::default());
        for member in [gang, alone, MemberRef::compensation(batch(), 3)] {
            assert_eq!(MemberRef::from_bytes(&member.to_bytes()), Some(member));
            assert_eq!(NodeRef::from_bytes(&member.to_bytes()), None);
            assert_eq!(Source::from_bytes(&member.to_bytes()), None);
        }
    }

    #[test]
    fn members_survive_the_store() {
        let members = [BatchMember { task: 3, compensation: None }, BatchMember { task: 0, compensation: Some(9_999) }];
        assert_eq!(BatchMember::from_bytes(&BatchMember::to_bytes(&members)).as_deref(), Some(&members[..]));
        assert_eq!(BatchMember::from_bytes(&[0; 5]), None);
    }

    #[test]
    fn each_job_of_a_batch_has_an_id_of_its_own() {
        let at = Timestamp::EPOCH;
        let places = 0..MEMBERS_MAX as u16;
        let ids: BTreeSet<JobId> =
            places.flat_map(|place| [member_job(batch(), at, place), compensation_job(batch(), at, place)]).collect();
        assert_eq!(ids.len(), 2 * MEMBERS_MAX);
        assert!(ids.iter().all(|id| id.shard() == ShardId(9) && id.due_at() == at));
    }
}
