//! One spool file: a header, then records of length, checksum and outcome.
//!
//! Locked for as long as a worker uses it. Only its end can be damaged by a crash, so reading
//! stops at the first record that does not check.

use std::collections::HashSet;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::PathBuf;

use prost::Message;
use punctual_core::attempt::AttemptNo;
use punctual_proto::convert::job_id;
use punctual_proto::worker as wire;

use super::Leftovers;
use crate::held::{Key, KeyedOutcome, UNACKED_LEN_MAX};

const HEADER: &[u8] = b"punctual spool 1\n";
const LENGTH_LEN: usize = 4;
const CHECKSUM_LEN: usize = 8;

pub(super) struct SpoolFile {
    path: PathBuf,
    /// The open file, which holds the lock.
    file: File,
    /// The length of the complete and durable records. A failed write may have left more bytes.
    len: u64,
    records: usize,
    /// The outcomes that are not acknowledged yet.
    waiting: HashSet<Key>,
}

impl SpoolFile {
    pub(super) fn create(path: PathBuf) -> io::Result<Self> {
        // Locked before it gets its name, or another worker that starts now could take it over.
        let unnamed = path.with_extension("new");
        let mut file = OpenOptions::new().create(true).truncate(true).write(true).open(&unnamed)?;
        file.lock()?;
        file.write_all(HEADER)?;
        fs::rename(&unnamed, &path)?;
        if let Some(dir) = path.parent() {
            File::open(dir)?.sync_all()?;
        }
        Ok(Self { path, file, len: HEADER.len() as u64, records: 0, waiting: HashSet::new() })
    }

    /// Opens a file of an earlier worker; `None` if a living worker holds it.
    pub(super) fn take_over(path: &std::path::Path) -> io::Result<Option<(Self, Leftovers)>> {
        let mut file = OpenOptions::new().read(true).write(true).open(path)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(error),
        }
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        let records = bytes
            .strip_prefix(HEADER)
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "it is not a spool file"))?;
        let (outcomes, rest_len) = decode(records);
        if rest_len > 0 {
            tracing::warn!(path = %path.display(), bytes = rest_len, "the end of a spool file is damaged and ignored");
        }
        let waiting = outcomes.iter().map(|(key, _)| *key).collect();
        let taken = Self { path: path.to_owned(), file, len: bytes.len() as u64, records: outcomes.len(), waiting };
        if outcomes.is_empty() {
            taken.delete()?;
            return Ok(None);
        }
        Ok(Some((taken, outcomes)))
    }

    /// Appends outcomes. They are durable when it returns; if it fails, none of them is in the file.
    pub(super) fn append(&mut self, outcomes: &[KeyedOutcome], bytes_max: u64) -> io::Result<()> {
        let mut bytes = Vec::new();
        for (_, outcome) in outcomes {
            encode(outcome, &mut bytes);
        }
        let records = self.records + outcomes.len();
        if self.len + bytes.len() as u64 > bytes_max || records > UNACKED_LEN_MAX {
            return Err(io::Error::new(io::ErrorKind::StorageFull, "the spool file has reached its limit"));
        }
        self.cut()?;
        if let Err(error) = self.file.write_all(&bytes).and_then(|()| self.file.sync_data()) {
            // Gives the space back. If that fails too, the next append does it first.
            let _ = self.cut();
            return Err(error);
        }
        self.len += bytes.len() as u64;
        self.records = records;
        self.waiting.extend(outcomes.iter().map(|(key, _)| *key));
        Ok(())
    }

    /// Removes what a failed write left; otherwise reading would stop there and miss all later records.
    fn cut(&mut self) -> io::Result<()> {
        self.file.set_len(self.len)?;
        self.file.seek(SeekFrom::Start(self.len))?;
        Ok(())
    }

    /// Forgets outcomes. Returns true if no outcome in the file is left.
    pub(super) fn forget(&mut self, keys: &[Key]) -> bool {
        for key in keys {
            self.waiting.remove(key);
        }
        self.waiting.is_empty()
    }

    pub(super) fn delete(&self) -> io::Result<()> {
        fs::remove_file(&self.path)
    }
}

fn key_of(outcome: &wire::Outcome) -> Option<Key> {
    Some((job_id(&outcome.job_id).ok()?, AttemptNo(outcome.attempt)))
}

fn encode(outcome: &wire::Outcome, bytes: &mut Vec<u8>) {
    let record = outcome.encode_to_vec();
    let length = u32::try_from(record.len()).expect("an outcome is smaller than a message");
    bytes.extend_from_slice(&length.to_le_bytes());
    bytes.extend_from_slice(&checksum(&record).to_le_bytes());
    bytes.extend_from_slice(&record);
}

/// Reads the outcomes, and returns how many bytes at the end could not be read.
fn decode(mut bytes: &[u8]) -> (Leftovers, usize) {
    let mut outcomes = Vec::new();
    while let Some((outcome, rest)) = decode_one(bytes) {
        outcomes.push(outcome);
        bytes = rest;
    }
    (outcomes, bytes.len())
}

fn decode_one(bytes: &[u8]) -> Option<((Key, wire::Outcome), &[u8])> {
    let (length, rest) = bytes.split_at_checked(LENGTH_LEN)?;
    let (expected, rest) = rest.split_at_checked(CHECKSUM_LEN)?;
    let length = u32::from_le_bytes(length.try_into().ok()?) as usize;
    let (record, rest) = rest.split_at_checked(length)?;
    if checksum(record).to_le_bytes() != expected {
        return None;
    }
    let outcome = wire::Outcome::decode(record).ok()?;
    Some(((key_of(&outcome)?, outcome), rest))
}

/// FNV-1a, which is sufficient to detect torn writes.
fn checksum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |sum, &byte| (sum ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_core::attempt::{Details, Failure, FailureClass, Last, Outcome, Ran};
    use punctual_core::id::JobId;
    use punctual_core::shard::event::Report;
    use punctual_core::{ShardId, Timestamp};
    use punctual_proto::convert::{outcome_from_wire, outcome_to_wire};

    fn outcome(random: u64) -> KeyedOutcome {
        let id = JobId::new(Timestamp::EPOCH, ShardId(0), random);
        let outcome = Outcome::Succeeded { output: Some("done".into()) };
        let attempt = AttemptNo(2);
        ((id, attempt), outcome_to_wire(&Report { id, attempt, outcome, timed_out: false, details: None }))
    }

    fn spooled(outcomes: &[KeyedOutcome]) -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("worker.spool");
        SpoolFile::create(path.clone()).unwrap().append(outcomes, 1 << 20).unwrap();
        (dir, path)
    }

    fn read(path: &std::path::Path) -> Leftovers {
        let (_, outcomes) = SpoolFile::take_over(path).unwrap().unwrap();
        outcomes
    }

    #[test]
    fn outcomes_are_read_as_they_were_written() {
        let written = [outcome(1), outcome(2)];
        let (_dir, path) = spooled(&written);
        assert_eq!(read(&path), written);
    }

    #[test]
    fn details_and_the_class_of_a_failure_are_kept() {
        let ((id, attempt), _) = outcome(1);
        let failure = Failure { class: FailureClass::Limit, ..Failure::new("killed") };
        let details = Details { signal: Some(9), limit: Some("oom".into()), ..Details::default() };
        let report = Report {
            id,
            attempt,
            outcome: Outcome::Failed(failure),
            timed_out: false,
            details: Some(Box::new(details)),
        };
        let (_dir, path) = spooled(&[((id, attempt), outcome_to_wire(&report))]);
        let (_, wire) = read(&path).remove(0);
        assert_eq!(outcome_from_wire(wire), Ok(report));
    }

    /// The bytes of a worker that knew neither details nor classes.
    #[test]
    fn a_file_of_an_older_worker_is_read() {
        let id = JobId::new(Timestamp::EPOCH, ShardId(0), 1);
        let mut record = vec![0x0a, 16];
        record.extend_from_slice(&id.to_bytes());
        record.extend_from_slice(&[0x10, 2, 0x22, 10, 0x0a, 4, b'o', b'o', b'p', b's', 0x10, 1, 0x20, 2]);
        let mut bytes = HEADER.to_vec();
        bytes.extend_from_slice(&(record.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&checksum(&record).to_le_bytes());
        bytes.extend_from_slice(&record);
        let (_dir, path) = spooled(&[]);
        fs::write(&path, bytes).unwrap();
        let (key, wire) = read(&path).remove(0);
        assert_eq!(key, (id, AttemptNo(2)));
        let failure = Failure { last: Last::Yes, ran: Ran::Unknown, ..Failure::new("oops") };
        let outcome = Outcome::Failed(failure);
        let report = Report { id, attempt: AttemptNo(2), outcome, timed_out: false, details: None };
        assert_eq!(outcome_from_wire(wire), Ok(report));
    }

    #[test]
    fn a_damaged_end_costs_only_what_it_held() {
        let (_dir, path) = spooled(&[outcome(1), outcome(2)]);
        let whole = fs::read(&path).unwrap();
        fs::write(&path, &whole[..whole.len() - 1]).unwrap();
        assert_eq!(read(&path), [outcome(1)]);
        let mut flipped = whole.clone();
        *flipped.last_mut().unwrap() ^= 1;
        fs::write(&path, flipped).unwrap();
        assert_eq!(read(&path), [outcome(1)]);
    }

    #[test]
    fn what_a_failed_write_left_hides_nothing_that_is_written_after_it() {
        let (_dir, path) = spooled(&[]);
        let mut file = SpoolFile::create(path.clone()).unwrap();
        file.append(&[outcome(1)], 1 << 20).unwrap();
        let mut torn = Vec::new();
        encode(&outcome(2).1, &mut torn);
        file.file.write_all(&torn[..torn.len() / 2]).unwrap();
        file.append(&[outcome(3)], 1 << 20).unwrap();
        drop(file);
        assert_eq!(read(&path), [outcome(1), outcome(3)]);
    }

    #[test]
    fn a_file_that_a_living_worker_holds_is_not_taken() {
        let (_dir, path) = spooled(&[outcome(1)]);
        let holder = SpoolFile::take_over(&path).unwrap().unwrap();
        assert!(SpoolFile::take_over(&path).unwrap().is_none());
        drop(holder);
        assert!(SpoolFile::take_over(&path).unwrap().is_some());
    }

    #[test]
    fn a_file_that_is_not_ours_is_left_alone() {
        let (_dir, path) = spooled(&[outcome(1)]);
        fs::write(&path, "something else").unwrap();
        assert!(SpoolFile::take_over(&path).is_err());
        assert!(path.exists());
    }

    #[test]
    fn a_full_file_takes_no_more() {
        let (_dir, path) = spooled(&[]);
        let mut file = SpoolFile::create(path).unwrap();
        assert!(file.append(&[outcome(1)], 20).is_err());
    }
}
