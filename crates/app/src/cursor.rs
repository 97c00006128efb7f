//! Where a list goes on: an id or a key, written so that nobody takes it for more.

use punctual_core::{JobId, JobKey, Timestamp, hex};

use crate::Result;
use crate::parameters::bad_cursor;

pub(crate) fn write(key: JobKey) -> String {
    write_time(key.due_at) + &write_id(key.id)
}

pub(crate) fn write_id(id: JobId) -> String {
    hex::encode(id.to_bytes())
}

pub(crate) fn read_id(text: &str) -> Result<JobId> {
    hex::decode::<16>(text).and_then(|id| JobId::from_bytes(&id)).ok_or_else(bad_cursor)
}

pub(crate) fn read(text: &str) -> Result<JobKey> {
    let (due_at, id) = text.split_at_checked(16).ok_or_else(bad_cursor)?;
    Ok(JobKey { due_at: read_time(due_at)?, id: read_id(id)? })
}

pub(crate) fn write_time(at: Timestamp) -> String {
    hex::encode(at.as_micros().to_be_bytes())
}

pub(crate) fn read_time(text: &str) -> Result<Timestamp> {
    hex::decode(text).and_then(|micros| Timestamp::from_micros(i64::from_be_bytes(micros))).ok_or_else(bad_cursor)
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
