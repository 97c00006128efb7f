//! Why a job exists, when a schedule made it.

use crate::id::ScheduleId;
use crate::time::Timestamp;

/// The schedule that made a job, and the time that it stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Source {
    pub schedule: ScheduleId,
    /// The planned time, which is the key of the occurrence.
    pub at: Timestamp,
    pub kind: SourceKind,
    /// The owner has to know when it ends: another run may wait for that.
    pub is_tracked: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum SourceKind {
    /// The run was planned and fired at its time, or a little later.
    Planned = 1,
    /// The run was made after its time had been missed.
    Replayed = 2,
    /// Somebody asked for a run outside the plan.
    Manual = 3,
    /// The run belongs to a backfill of past times that somebody requested.
    Backfill = 4,
}

impl SourceKind {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Planned => "planned",
            Self::Replayed => "replayed",
            Self::Manual => "manual",
            Self::Backfill => "backfill",
        }
    }

    pub fn from_number(number: u8) -> Option<Self> {
        [Self::Planned, Self::Replayed, Self::Manual, Self::Backfill].into_iter().find(|kind| *kind as u8 == number)
    }
}

impl Source {
    pub const LEN: usize = 25;
    /// Set in the first byte of a tracked one; stores index by it.
    pub const TRACKED: u8 = 0x80;

    /// Encodes the source for stores and the wire: the kind, the schedule, the time.
    pub fn to_bytes(self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        bytes[0] = self.kind as u8 | if self.is_tracked { Self::TRACKED } else { 0 };
        bytes[1..17].copy_from_slice(&self.schedule.to_bytes());
        bytes[17..].copy_from_slice(&self.at.as_micros().to_be_bytes());
        bytes
    }

    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; Self::LEN] = bytes.try_into().ok()?;
        let at = i64::from_be_bytes(bytes[17..].try_into().ok()?);
        Some(Self {
            schedule: ScheduleId::from_bytes(&bytes[1..17])?,
            at: Timestamp::from_micros(at)?,
            kind: SourceKind::from_number(bytes[0] & !Self::TRACKED)?,
            is_tracked: bytes[0] & Self::TRACKED != 0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::ShardId;

    #[test]
    fn it_survives_the_store() {
        let at = Timestamp::parse("2026-11-15T02:30:00.000001Z").unwrap();
        for (number, kind) in
            (1..).zip([SourceKind::Planned, SourceKind::Replayed, SourceKind::Manual, SourceKind::Backfill])
        {
            for is_tracked in [false, true] {
                let source = Source { schedule: ScheduleId::new(at, ShardId(63), 7), at, kind, is_tracked };
                let bytes = source.to_bytes();
                assert_eq!(bytes[0], number | if is_tracked { 0x80 } else { 0 });
                assert_eq!(Source::from_bytes(&bytes), Some(source));
            }
        }
    }

    #[test]
    fn other_bytes_are_not_one() {
        let good = Source {
            schedule: ScheduleId::new(Timestamp::EPOCH, ShardId(0), 7),
            at: Timestamp::EPOCH,
            kind: SourceKind::Planned,
            is_tracked: false,
        };
        let good = good.to_bytes();
        let with = |place: usize, byte: u8| {
            let mut bytes = good;
            bytes[place] = byte;
            bytes
        };
        assert_eq!(Source::from_bytes(&good[..24]), None);
        assert_eq!(Source::from_bytes(&with(0, 9)), None, "an unknown kind");
        assert_eq!(Source::from_bytes(&with(7, 0)), None, "not the id of a schedule");
        assert_eq!(Source::from_bytes(&with(17, 0xff)), None, "a time before 1970");
    }
}
