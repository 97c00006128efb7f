//! The names of log objects: `logs/DAY/JOB/ATTEMPT-DIGEST.log`, with the marks of its lines beside it.

use punctual_app::logs::marks;
use punctual_blobs::Key;
use punctual_core::{AttemptNo, JobId, Timestamp};
use sha2::{Digest, Sha256};

pub(super) const FOLDER: &str = "logs";

/// Such as `2026-12-24`, in UTC.
pub(super) fn day(at: Timestamp) -> String {
    at.to_string().chars().take(10).collect()
}

pub(super) fn key_of(job: JobId, attempt: AttemptNo, finished_at: Timestamp, bytes: &[u8]) -> Key {
    let digest = punctual_core::hex::encode(&Sha256::digest(bytes)[..6]);
    let day = day(finished_at);
    Key::new(format!("{FOLDER}/{day}/{job}/{attempt}-{digest}.log")).expect("days, ids and digits are words of a key")
}

/// What the name of an object says.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ObjectName {
    pub(super) day: String,
    pub(super) job: JobId,
    pub(super) attempt: AttemptNo,
}

impl ObjectName {
    pub(super) fn parse(key: &Key) -> Option<Self> {
        let mut words = key.as_str().split('/').skip(1);
        let (day, job, name) = (words.next()?, words.next()?, words.next()?);
        let name = name.strip_suffix(".log").or_else(|| name.strip_suffix(marks::EXTENSION))?;
        let (attempt, _) = name.split_once('-')?;
        Some(Self { day: day.to_owned(), job: job.parse().ok()?, attempt: AttemptNo(attempt.parse().ok()?) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_core::{ShardId, Span};

    #[test]
    fn the_name_of_an_object_says_whose_log_it_is_and_what_is_in_it() {
        let at = Timestamp::EPOCH + Span::from_secs(86_400 * 365);
        let job = JobId::new(at, ShardId(3), 7);
        let key = key_of(job, AttemptNo(12), at, b"hello");
        assert_eq!(key.as_str(), format!("logs/1971-01-01/{job}/12-2cf24dba5fb0.log"));
        let name = ObjectName { day: "1971-01-01".to_owned(), job, attempt: AttemptNo(12) };
        assert_eq!(ObjectName::parse(&key), Some(name));
        assert_ne!(key_of(job, AttemptNo(12), at, b"hello!"), key);
        for foreign in ["logs/x", "logs/1971-01-01/x/1-a.log", "logs/1971-01-01/x/1.log"] {
            assert_eq!(ObjectName::parse(&Key::new(foreign).unwrap()), None, "{foreign}");
        }
    }
}
