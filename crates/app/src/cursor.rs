//! Where a list goes on: a key, written so that nobody takes it for more.

use punctual_core::{JobId, JobKey, Timestamp};

use crate::{AppError, Result};

pub(crate) fn write(key: JobKey) -> String {
    format!("{:016x}{:032x}", key.due_at.as_micros(), key.id.as_u128())
}

pub(crate) fn read(text: &str) -> Result<JobKey> {
    let refused =
        || AppError::field("cursor", "is not one of ours").hint("pass next_cursor from the page before, unchanged");
    if text.len() != 48 || !text.is_ascii() {
        return Err(refused());
    }
    let due_at = i64::from_str_radix(&text[..16], 16).ok().and_then(Timestamp::from_micros);
    let id = u128::from_str_radix(&text[16..], 16).ok().and_then(|id| JobId::from_bytes(&id.to_be_bytes()));
    match (due_at, id) {
        (Some(due_at), Some(id)) => Ok(JobKey { due_at, id }),
        _ => Err(refused()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_core::ShardId;

    #[test]
    fn a_cursor_reads_back_and_anything_else_is_refused() {
        let due_at = Timestamp::from_micros(1_700_000_000_123_456).unwrap();
        let key = JobKey { due_at, id: JobId::new(due_at, ShardId(2), 77) };
        assert_eq!(read(&write(key)).unwrap(), key);
        for bad in ["", "abc", &"g".repeat(48), &"é".repeat(24), &"0".repeat(48), &"+".repeat(48)] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }
}
