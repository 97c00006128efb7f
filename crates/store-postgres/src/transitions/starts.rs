//! How a record of starts looks. First a byte for the version, a time that others are counted
//! from, and the workers; then for each start its job and, as numbers of variable length,
//! how far it was moved, its attempt, which worker, and its two times.
//!
//! A start that was never moved takes some 25 bytes instead of 60: what a start costs is its
//! record in the write-ahead log.

use punctual_core::shard::write::Start;
use punctual_core::{AttemptNo, JobId, JobKey, Timestamp, WorkerId};

const VERSION: u8 = 1;

pub(super) fn encode<'s>(starts: impl Iterator<Item = &'s Start> + Clone) -> Vec<u8> {
    let mut workers: Vec<WorkerId> = Vec::new();
    let base = starts.clone().next().map_or(Timestamp::EPOCH, |start| start.started_at);
    let mut record = vec![VERSION];
    put_unsigned(&mut record, base.as_micros().unsigned_abs());
    let mut body = Vec::new();
    for start in starts {
        let worker = workers.iter().position(|known| *known == start.worker).unwrap_or_else(|| {
            workers.push(start.worker);
            workers.len() - 1
        });
        body.extend_from_slice(&start.key.id.to_bytes());
        put_signed(&mut body, start.key.due_at.as_micros() - start.key.id.due_at().as_micros());
        put_unsigned(&mut body, u64::from(start.attempt.0));
        put_unsigned(&mut body, worker as u64);
        put_signed(&mut body, start.picked_up_at.as_micros() - base.as_micros());
        put_signed(&mut body, start.started_at.as_micros() - base.as_micros());
    }
    put_unsigned(&mut record, workers.len() as u64);
    for worker in workers {
        record.extend_from_slice(&worker.to_bytes());
    }
    record.extend_from_slice(&body);
    record
}

/// `None` if these bytes are not a record.
pub(super) fn decode(record: &[u8]) -> Option<Vec<Start>> {
    let mut rest = record.strip_prefix(&[VERSION])?;
    let base = i64::try_from(take_unsigned(&mut rest)?).ok()?;
    let count = usize::try_from(take_unsigned(&mut rest)?).ok()?;
    let mut workers = Vec::new();
    for _ in 0..count {
        workers.push(WorkerId::from_bytes(take::<16>(&mut rest)?)?);
    }
    let mut starts = Vec::new();
    while !rest.is_empty() {
        starts.push(decode_one(&mut rest, base, &workers)?);
    }
    Some(starts)
}

fn decode_one(rest: &mut &[u8], base: i64, workers: &[WorkerId]) -> Option<Start> {
    let id = JobId::from_bytes(take::<16>(rest)?)?;
    let due_at = Timestamp::from_micros(id.due_at().as_micros().checked_add(take_signed(rest)?)?)?;
    let attempt = AttemptNo(u32::try_from(take_unsigned(rest)?).ok()?);
    let worker = *workers.get(usize::try_from(take_unsigned(rest)?).ok()?)?;
    let picked_up_at = Timestamp::from_micros(base.checked_add(take_signed(rest)?)?)?;
    let started_at = Timestamp::from_micros(base.checked_add(take_signed(rest)?)?)?;
    Some(Start { key: JobKey { due_at, id }, attempt, worker, picked_up_at, started_at, gang: None })
}

fn take<'a, const N: usize>(rest: &mut &'a [u8]) -> Option<&'a [u8; N]> {
    let (taken, left) = rest.split_first_chunk()?;
    *rest = left;
    Some(taken)
}

/// Seven bits in each byte, the lowest first; the eighth says that there are more.
fn put_unsigned(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn take_unsigned(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0_u64;
    for shift in (0..64).step_by(7) {
        let [byte] = *take::<1>(rest)?;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

/// Small numbers are short whatever their sign.
fn put_signed(out: &mut Vec<u8>, value: i64) {
    put_unsigned(out, ((value << 1) ^ (value >> 63)) as u64);
}

fn take_signed(rest: &mut &[u8]) -> Option<i64> {
    let value = take_unsigned(rest)?;
    Some((value >> 1) as i64 ^ -((value & 1) as i64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_core::ShardId;

    fn at(micros: i64) -> Timestamp {
        Timestamp::from_micros(micros).unwrap()
    }

    #[test]
    fn a_record_reads_back_as_it_was_written() {
        let starts: Vec<_> = (1..5)
            .map(|n| Start {
                key: JobKey { due_at: at(n), id: JobId::new(at(7 * n), ShardId(3), n as u64) },
                attempt: AttemptNo(if n == 2 { u32::MAX } else { n as u32 }),
                worker: WorkerId::new(at(2), n as u64 % 2),
                picked_up_at: if n == 3 { Timestamp::EPOCH } else { at(n + 10) },
                started_at: if n == 4 { Timestamp::MAX } else { at(n) },
                gang: None,
            })
            .collect();
        let record = encode(starts.iter());
        assert_eq!(decode(&record), Some(starts));
        assert_eq!(decode(&record[1..]), None);
        assert_eq!(decode(&record[..record.len() - 1]), None);
        assert_eq!(decode(&[0; 60]), None, "zeros are no record");
        assert_eq!(decode(&encode([].iter())), Some(vec![]));
    }

    #[test]
    fn a_start_is_short() {
        let now = 1_795_000_000_000_000;
        let starts: Vec<_> = (0..100)
            .map(|n| Start {
                key: JobKey::original(JobId::new(at(now + n), ShardId(3), n as u64)),
                attempt: AttemptNo(1),
                worker: WorkerId::new(at(2), n as u64 % 4),
                picked_up_at: at(now - 20_000_000 + n),
                started_at: at(now + 500),
                gang: None,
            })
            .collect();
        let bytes = encode(starts.iter()).len() / starts.len();
        assert!(bytes <= 25, "{bytes}");
    }
}
