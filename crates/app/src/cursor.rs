//! Where a list goes on: an id or a key, written so that nobody takes it for more.

use punctual_core::{JobId, JobKey, Timestamp};

use crate::Result;
use crate::parameters::bad_cursor;

pub(crate) fn write(key: JobKey) -> String {
    format!("{:016x}{:032x}", key.due_at.as_micros(), key.id.as_u128())
}

pub(crate) fn write_id(id: JobId) -> String {
    format!("{:032x}", id.as_u128())
}

pub(crate) fn read_id(text: &str) -> Result<JobId> {
    // Signs are read as numbers too, and are none of ours.
    let is_ours = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let id = u128::from_str_radix(text, 16).ok().filter(|_| is_ours);
    id.and_then(|id| JobId::from_bytes(&id.to_be_bytes())).ok_or_else(bad_cursor)
}

pub(crate) fn read(text: &str) -> Result<JobKey> {
    if text.len() != 48 || !text.is_ascii() {
        return Err(bad_cursor());
    }
    let due_at = i64::from_str_radix(&text[..16], 16).ok().and_then(Timestamp::from_micros);
    let id = u128::from_str_radix(&text[16..], 16).ok().and_then(|id| JobId::from_bytes(&id.to_be_bytes()));
    match (due_at, id) {
        (Some(due_at), Some(id)) => Ok(JobKey { due_at, id }),
        _ => Err(bad_cursor()),
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
        assert_eq!(read_id(&write_id(key.id)).unwrap(), key.id);
        for bad in ["", "abc", &"g".repeat(32), &"é".repeat(16), &"0".repeat(32), &"+".repeat(32), &write(key)] {
            assert!(read_id(bad).is_err(), "{bad}");
        }
        for bad in ["", "abc", &"g".repeat(48), &"é".repeat(24), &"0".repeat(48), &"+".repeat(48)] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }
}
