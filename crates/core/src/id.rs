//! Identities, as UUID version 7, shown with a prefix: `job_06bp…`.
//!
//! A job's id carries its shard and its original due time, so that any server
//! finds the job's row and its owner from the id alone, without an index on ids,
//! and so that ids sort by due time. See docs/adr/0002.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::random::SplitMix64;
use crate::time::Timestamp;

const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
const TEXT_LEN: usize = 26;

/// Why a text is not an id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("an id of this kind looks like {prefix}_ followed by 26 letters and digits")]
pub struct BadId {
    pub prefix: &'static str,
}

fn encode(value: u128) -> [u8; TEXT_LEN] {
    let mut text = [0; TEXT_LEN];
    for (place, byte) in text.iter_mut().enumerate() {
        let shift = 5 * (TEXT_LEN - 1 - place);
        *byte = ALPHABET[((value >> shift) & 31) as usize];
    }
    text
}

fn decode(text: &str) -> Option<u128> {
    if text.len() != TEXT_LEN {
        return None;
    }
    let mut value: u128 = 0;
    for (place, byte) in text.bytes().enumerate() {
        let digit = ALPHABET.iter().position(|&letter| letter == byte)? as u128;
        // 26 digits hold 130 bits; the first may use three of its five.
        if place == 0 && digit > 7 {
            return None;
        }
        value = (value << 5) | digit;
    }
    Some(value)
}

const VERSION_7: u128 = 0x7 << 76;
const VARIANT: u128 = 0b10 << 62;
const RANDOM_BITS: u32 = 62;

/// Lays out a version 7 UUID: milliseconds, then 12 bits with the microseconds
/// inside the millisecond, then 62 free bits.
fn uuid_v7(at: Timestamp, low: u64) -> u128 {
    let micros = at.as_micros() as u128;
    let millis = micros / 1000;
    let rest = micros % 1000;
    (millis << 80) | VERSION_7 | (rest << 64) | VARIANT | u128::from(low & ((1 << RANDOM_BITS) - 1))
}

fn is_uuid_v7(value: u128) -> bool {
    (value >> 76) & 0xf == 7 && (value >> 62) & 0b11 == 0b10
}

macro_rules! id {
    ($name:ident, $prefix:literal, $doc:literal) => {
        #[doc = $doc]
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(u128);

        impl $name {
            pub const PREFIX: &'static str = $prefix;

            pub const fn as_u128(self) -> u128 {
                self.0
            }
            pub const fn to_bytes(self) -> [u8; 16] {
                self.0.to_be_bytes()
            }
            /// The id in 16 bytes read from our own storage or wire; `None` if it is not one.
            pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
                let value = u128::from_be_bytes(bytes.try_into().ok()?);
                is_uuid_v7(value).then_some(Self(value))
            }
        }

        impl $name {
            /// Hands the text to `take` without putting it on the heap: answers to submissions hold many ids.
            pub fn with_text<T>(self, take: impl FnOnce(&str) -> T) -> T {
                const PREFIX: &[u8] = concat!($prefix, "_").as_bytes();
                let mut text = [0; PREFIX.len() + TEXT_LEN];
                text[..PREFIX.len()].copy_from_slice(PREFIX);
                text[PREFIX.len()..].copy_from_slice(&encode(self.0));
                take(std::str::from_utf8(&text).expect("prefixes and the alphabet are ASCII"))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.with_text(|text| f.write_str(text))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }

        impl FromStr for $name {
            type Err = BadId;
            fn from_str(text: &str) -> Result<Self, BadId> {
                text.strip_prefix(concat!($prefix, "_"))
                    .and_then(decode)
                    .filter(|&value| is_uuid_v7(value))
                    .map(Self)
                    .ok_or(BadId { prefix: $prefix })
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                self.with_text(|text| serializer.serialize_str(text))
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}

id!(JobId, "job", "One instance of a task, due at one moment.");
id!(ScheduleId, "schedule", "When a task runs, again and again.");
id!(BackfillId, "backfill", "Past times of a schedule that are run after all.");
id!(TaskId, "task", "The definition of a piece of work.");
id!(ArtifactId, "artifact", "An uploaded file.");
id!(WorkerId, "worker", "One run of a worker process; a restart makes a new one.");
id!(ServerId, "server", "One run of a server process; a restart makes a new one.");
id!(JoinTokenId, "jointoken", "What workers on other hosts enrol with.");
id!(RunId, "run", "One run of a workflow. All of its jobs are in its shard.");
id!(BatchId, "batch", "Jobs that are stored, started and ended together. All of them are in its shard.");
id!(EnrolmentId, "enrolment", "One worker on another host, and what it may do.");

macro_rules! may_be_unknown {
    ($($name:ident),*) => {$(
        impl $name {
            /// The worker of an attempt whose record does not name it any more. Never shown: see [`Self::known`].
            pub const UNKNOWN: Self = Self(0);

            pub fn known(self) -> Option<Self> {
                (self != Self::UNKNOWN).then_some(self)
            }
        }
    )*};
}
may_be_unknown!(WorkerId, ServerId);

impl WorkerId {
    /// What servers are as workers when they start the runs of workflows. It is the same for all of them, because what they
    /// start is in the store, so that each server goes on with what another one has begun. No worker can have this id: that
    /// of a worker is made from its secret.
    pub const WORKFLOWS: Self = Self(VERSION_7 | VARIANT);
}

impl RunId {
    /// The run that an attempt of a job of kind `workflow` starts. The same whenever it is worked out, so that an attempt
    /// starts one run, however often it is tried.
    pub fn of_attempt(job: JobId, attempt: u32) -> Self {
        let mixed = SplitMix64::new(job.0 as u64 ^ (job.0 >> 64) as u64 ^ (u64::from(attempt) << 32)).bits();
        Self::new(job.due_at(), job.shard(), mixed)
    }
}

/// A part of all jobs that one server owns at a time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct ShardId(pub u16);

const SHARD_BITS: u32 = 10;

impl ShardId {
    /// Ten bits of a job's id name its shard.
    pub const COUNT_MAX: u16 = 1 << SHARD_BITS;

    /// The lane to the store on which the shard's writes go.
    pub fn lane(self, lanes: usize) -> usize {
        usize::from(self.0) % lanes.max(1)
    }
}

impl fmt::Display for ShardId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

macro_rules! in_a_shard {
    ($($name:ident),*) => {$(
        impl $name {
            /// `random` needs 52 good bits: that many tell two of one shard and one
            /// microsecond apart.
            pub fn new(at: Timestamp, shard: ShardId, random: u64) -> Self {
                let random_bits = RANDOM_BITS - SHARD_BITS;
                let low = (u64::from(shard.0) << random_bits) | (random & ((1 << random_bits) - 1));
                Self(uuid_v7(at, low))
            }

            pub fn shard(self) -> ShardId {
                let random_bits = RANDOM_BITS - SHARD_BITS;
                ShardId(((self.0 >> random_bits) & ((1 << SHARD_BITS) - 1)) as u16)
            }
        }
    )*};
}
in_a_shard!(JobId, ScheduleId, RunId, BatchId);

impl JobId {
    /// When the job was first due. A retry or a run-now moves the job, not its id.
    pub fn due_at(self) -> Timestamp {
        let millis = (self.0 >> 80) as i64;
        let rest = ((self.0 >> 64) & 0xfff) as i64;
        Timestamp::saturating_from_micros(millis * 1000 + rest)
    }

    /// What sorts right before this id; only to compare with.
    pub(crate) fn predecessor(self) -> Self {
        Self(self.0.saturating_sub(1))
    }

    /// What sorts right after this id; only to compare with.
    pub(crate) fn successor(self) -> Self {
        Self(self.0.saturating_add(1))
    }

    /// Sorts before every job due at `at`.
    pub fn first_at(at: Timestamp) -> Self {
        Self(uuid_v7(at, 0))
    }

    /// Sorts after every job due at `at`.
    pub fn last_at(at: Timestamp) -> Self {
        Self(uuid_v7(at, u64::MAX))
    }
}

macro_rules! made_now {
    ($($name:ident),*) => {$(
        impl $name {
            pub fn new(created_at: Timestamp, random: u64) -> Self {
                Self(uuid_v7(created_at, random))
            }
        }
    )*};
}
made_now!(ArtifactId, BackfillId, TaskId, WorkerId, ServerId, JoinTokenId, EnrolmentId);

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        Timestamp::parse(text).unwrap()
    }

    #[test]
    fn a_job_id_carries_its_due_time_and_shard() {
        for due in ["1970-01-01T00:00:00Z", "2026-11-16T23:00:00.123999Z", "9999-12-30T21:59:59.999999Z"] {
            for shard in [0, 1, 63, 1023] {
                let id = JobId::new(at(due), ShardId(shard), u64::MAX);
                assert_eq!(id.due_at(), at(due));
                assert_eq!(id.shard(), ShardId(shard));
                assert_eq!(id.to_string().parse(), Ok(id));
                assert_eq!(JobId::from_bytes(&id.to_bytes()), Some(id));
            }
        }
    }

    #[test]
    fn job_ids_sort_by_due_time_to_the_microsecond() {
        let early = JobId::new(at("2026-11-16T23:00:00.000998Z"), ShardId(9), u64::MAX);
        let late = JobId::new(at("2026-11-16T23:00:00.000999Z"), ShardId(0), 0);
        assert!(early < late);
        assert!(early.to_string() < late.to_string());
        assert!(JobId::first_at(late.due_at()) <= late && late <= JobId::last_at(late.due_at()));
    }

    #[test]
    fn texts_that_are_not_ids_are_refused() {
        let good = JobId::new(at("2026-11-16T23:00:00Z"), ShardId(1), 7).to_string();
        for text in [
            "",
            "job_",
            "job_00000000000000000000000000",
            &good.replace("job_", "task_"),
            &good[..good.len() - 1],
            &format!("{good}0"),
            &good.to_uppercase(),
            &good.replace("job_0", "job_8"),
            "job_éééééééééééée",
        ] {
            assert!(text.parse::<JobId>().is_err(), "{text}");
        }
    }
}
