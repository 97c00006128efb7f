//! How a record of starts looks: 60 bytes for each, big-endian, in this order:
//! due time, job, attempt, worker, picked up, started.

use punctual_core::shard::write::Start;
use punctual_core::{AttemptNo, JobId, JobKey, Timestamp, WorkerId};

const START_BYTES: usize = 60;

pub(super) fn encode(start: &Start, record: &mut Vec<u8>) {
    record.extend_from_slice(&start.key.due_at.as_micros().to_be_bytes());
    record.extend_from_slice(&start.key.id.to_bytes());
    record.extend_from_slice(&start.attempt.0.to_be_bytes());
    record.extend_from_slice(&start.worker.to_bytes());
    record.extend_from_slice(&start.picked_up_at.as_micros().to_be_bytes());
    record.extend_from_slice(&start.started_at.as_micros().to_be_bytes());
}

/// `None` if these bytes are not a record.
pub(super) fn decode(record: &[u8]) -> Option<Vec<Start>> {
    let (starts, rest) = record.as_chunks::<START_BYTES>();
    if !rest.is_empty() {
        return None;
    }
    starts.iter().map(decode_one).collect()
}

fn decode_one(bytes: &[u8; START_BYTES]) -> Option<Start> {
    let mut rest = &bytes[..];
    Some(Start {
        key: JobKey { due_at: time(&mut rest)?, id: JobId::from_bytes(take::<16>(&mut rest)?)? },
        attempt: AttemptNo(u32::from_be_bytes(*take(&mut rest)?)),
        worker: WorkerId::from_bytes(take::<16>(&mut rest)?)?,
        picked_up_at: time(&mut rest)?,
        started_at: time(&mut rest)?,
        gang: None,
    })
}

fn take<'a, const N: usize>(rest: &mut &'a [u8]) -> Option<&'a [u8; N]> {
    let (taken, left) = rest.split_first_chunk()?;
    *rest = left;
    Some(taken)
}

fn time(rest: &mut &[u8]) -> Option<Timestamp> {
    Timestamp::from_micros(i64::from_be_bytes(*take(rest)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_core::ShardId;

    #[test]
    fn a_record_reads_back_as_it_was_written() {
        let at = |micros| Timestamp::from_micros(micros).unwrap();
        let starts: Vec<_> = (1..4)
            .map(|n| Start {
                key: JobKey { due_at: at(n), id: JobId::new(at(7 * n), ShardId(3), n as u64) },
                attempt: AttemptNo(n as u32),
                worker: WorkerId::new(at(2), n as u64),
                picked_up_at: at(n + 10),
                started_at: Timestamp::MAX,
                gang: None,
            })
            .collect();
        let mut record = Vec::new();
        for start in &starts {
            encode(start, &mut record);
        }
        assert_eq!(record.len(), 3 * START_BYTES);
        assert_eq!(decode(&record), Some(starts));
        assert_eq!(decode(&record[1..]), None);
        assert_eq!(decode(&[0; START_BYTES]), None, "zeros are no id");
    }
}
