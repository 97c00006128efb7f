//! What attempts printed: pieces in the store while they run and for some seconds after, one object in the
//! storage then. A reader sees one log with the same offsets in either place, also while it is moved.

mod lines;
pub mod marks;

use std::ops::Range;

use bytes::{Bytes, BytesMut};
use futures_util::stream::StreamExt;
use punctual_api::ErrorKind;
use punctual_blobs::{BlobError, Blobs, Key};
use punctual_core::attempt::ArchivedLog;
use punctual_core::{AttemptNo, JobId};
use punctual_store::{FoundRow, LogPiece};

pub use lines::LinesView;
pub(crate) use marks::checked as checked_marks;

use crate::jobs::not_found;
use crate::principal::By;
use crate::principal::permission::ViewLogs;
use crate::route::Live;
use crate::{App, AppError, LOG_BYTES_MAX, Result};

/// Bytes of one answer.
const PIECE_BYTES: usize = 256 << 10;

/// A log is moved once, and moved again when it grew after that. More often in one moment is no move.
const MOVES_MAX: usize = 4;

#[derive(Debug, Clone)]
pub struct LogView {
    pub attempt: u32,
    pub bytes: Bytes,
    pub next_offset: u64,
    /// Nothing will be added any more.
    pub is_complete: bool,
}

/// How long a log is now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogSize {
    /// 0: there is no attempt yet.
    pub attempt: u32,
    pub bytes: u64,
    /// The attempt has ended.
    pub is_over: bool,
}

/// The attempts of a job, which are numbered from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AttemptNumbers {
    /// The last attempt that has ended; 0 if there is none.
    pub ended: u32,
    /// The attempt that runs, or the last that has ended; 0 if there is none.
    pub latest: u32,
    /// The job has finished: there will be no more attempts unless somebody reruns it.
    pub is_final: bool,
    /// The owner of the job could not be asked whether an attempt runs.
    pub is_uncertain: bool,
}

impl App {
    /// A piece of an attempt's log; of the latest attempt if none is named. Letters of several bytes
    /// are not torn apart.
    pub async fn log(&self, by: &By<ViewLogs>, id: JobId, attempt: Option<u32>, offset: u64) -> Result<LogView> {
        self.check_job(by, id).await?;
        self.read_log(id, attempt, offset).await
    }

    async fn read_log(&self, id: JobId, attempt: Option<u32>, offset: u64) -> Result<LogView> {
        if offset > LOG_BYTES_MAX {
            let detail = format!("must be at most {LOG_BYTES_MAX}: no log is longer");
            return Err(AppError::out_of_range("offset", detail));
        }
        let (number, is_over) = self.attempt_of_log(id, attempt).await?;
        if number == 0 {
            return Ok(LogView { attempt: 0, bytes: Bytes::new(), next_offset: offset, is_complete: is_over });
        }
        let mut piece = self.log_piece(id, AttemptNo(number), offset, PIECE_BYTES, is_over).await?;
        let is_complete = is_over && piece.bytes.is_empty();
        let torn = torn_bytes(&piece.bytes);
        // What is torn at the very end stays so.
        if torn < piece.bytes.len() || !is_over {
            piece.bytes.truncate(piece.bytes.len() - torn);
            piece.next_offset -= torn as u64;
        }
        Ok(LogView { attempt: number, bytes: piece.bytes, next_offset: piece.next_offset.max(offset), is_complete })
    }

    pub async fn log_size(&self, by: &By<ViewLogs>, id: JobId, attempt: Option<u32>) -> Result<LogSize> {
        self.check_job(by, id).await?;
        let (number, is_over) = self.attempt_of_log(id, attempt).await?;
        let mut bytes = 0;
        if number > 0 {
            let attempt = AttemptNo(number);
            // The pieces first: if they are moved after that, they are in the object.
            bytes = self.0.store.log_end(id, attempt).await?;
            let archived = self.0.store.archived_log(id, attempt).await?;
            bytes = bytes.max(archived.map_or(0, |log| log.bytes));
        }
        Ok(LogSize { attempt: number, bytes, is_over })
    }

    /// Exactly these bytes, which are there.
    pub async fn log_range(&self, by: &By<ViewLogs>, id: JobId, attempt: u32, range: Range<u64>) -> Result<Bytes> {
        self.check_job(by, id).await?;
        let attempt = AttemptNo(attempt);
        let mut missing = None;
        for _ in 0..MOVES_MAX {
            let mut base = Bytes::new();
            if let Some(log) = self.0.store.archived_log(id, attempt).await? {
                let is_in_it = range.end <= log.bytes;
                let wanted = if is_in_it { range.clone() } else { 0..log.bytes };
                match read_object(&self.0.blobs, &log, wanted).await {
                    Ok(bytes) if is_in_it => return Ok(bytes),
                    Ok(bytes) => base = bytes,
                    Err(BlobError::NotFound) => {
                        missing = Some(log.path);
                        continue;
                    }
                    Err(error) => return Err(error.into()),
                }
            }
            let whole = self.0.store.assemble_log(id, attempt, base, LOG_BYTES_MAX as usize).await?;
            if whole.bytes.len() as u64 >= range.end {
                return Ok(whole.bytes.slice(range.start as usize..range.end as usize));
            }
            // It was moved between the two looks.
        }
        Err(not_there(id, attempt, missing))
    }

    /// Which attempt's log is asked for, and whether that has ended. 0: there is none yet.
    async fn attempt_of_log(&self, id: JobId, attempt: Option<u32>) -> Result<(u32, bool)> {
        let known = self.numbers_of(id).await?;
        match attempt {
            // One may be running of which nobody could be asked.
            Some(number) if number > 0 && (number <= known.latest || known.is_uncertain) => {
                Ok((number, number <= known.ended))
            }
            Some(number) => {
                let detail = format!("{id} has no attempt {number}");
                Err(AppError::new(ErrorKind::NotFound, detail).hint("GET the job to see its attempts"))
            }
            None if known.latest == 0 => Ok((0, known.is_final)),
            None => Ok((known.latest, known.latest <= known.ended)),
        }
    }

    /// Which attempts the job has. Followers of logs ask several times a second, so nothing else of the job is read:
    /// neither a long input nor its task.
    pub async fn attempt_numbers(&self, by: &By<ViewLogs>, id: JobId) -> Result<AttemptNumbers> {
        self.check_job(by, id).await?;
        self.numbers_of(id).await
    }

    async fn numbers_of(&self, id: JobId) -> Result<AttemptNumbers> {
        // First what runs, then the row: an attempt that ends in between is seen as ended.
        let live = self.live(id).await?;
        let (counters, is_final) = match self.0.store.find(id).await? {
            FoundRow::Hot(row) => (row.counters, false),
            FoundRow::Finished { counters, .. } => (counters, true),
            FoundRow::Absent => return Err(not_found(id)),
        };
        // Every number below the next one was given to an attempt that has ended.
        let ended = counters.next_attempt.0.saturating_sub(1);
        let is_running =
            !is_final && matches!(live, Live::Running { view, .. } if view.attempt == counters.next_attempt);
        Ok(AttemptNumbers {
            ended,
            latest: ended + u32::from(is_running),
            is_final,
            is_uncertain: !is_final && matches!(live, Live::Unknown),
        })
    }

    /// From the object if the log is in one, and from the store if it is not, or not all of it.
    async fn log_piece(
        &self,
        id: JobId,
        attempt: AttemptNo,
        offset: u64,
        limit: usize,
        is_over: bool,
    ) -> Result<LogPiece> {
        let mut missing = None;
        for _ in 0..MOVES_MAX {
            let archived = if is_over { self.0.store.archived_log(id, attempt).await? } else { None };
            if let Some(log) = archived.as_ref().filter(|log| offset < log.bytes) {
                let end = log.bytes.min(offset + limit as u64);
                match read_object(&self.0.blobs, log, offset..end).await {
                    Ok(bytes) => return Ok(LogPiece { next_offset: offset + bytes.len() as u64, bytes }),
                    // It grew and is in another object now, or its job went.
                    Err(BlobError::NotFound) => {
                        missing = Some(log.path.clone());
                        continue;
                    }
                    Err(error) => return Err(error.into()),
                }
            }
            let piece = self.0.store.read_log(id, attempt, offset, limit).await?;
            if !piece.bytes.is_empty() || !is_over {
                return Ok(piece);
            }
            // Between the two looks it may have been moved.
            if self.0.store.archived_log(id, attempt).await? == archived {
                return Ok(piece);
            }
        }
        Err(not_there(id, attempt, missing))
    }

    /// For people and programs: where the storage has it.
    pub(crate) fn log_address(&self, path: &str) -> String {
        match self.0.blobs.served_by() {
            punctual_blobs::ServedBy::Server => path.to_owned(),
            punctual_blobs::ServedBy::Storage => {
                format!("{}/{path}", self.0.blobs.description().trim_end_matches('/'))
            }
        }
    }
}

fn not_there(id: JobId, attempt: AttemptNo, path: Option<String>) -> AppError {
    let Some(path) = path else {
        let detail = format!("the log of attempt {attempt} of {id} is being moved");
        return AppError::new(ErrorKind::Unavailable, detail).hint("try again");
    };
    let detail = format!("the log of attempt {attempt} of {id} should be at {path} in the storage, and is not there");
    AppError::new(ErrorKind::NotFound, detail).hint("look whether somebody deletes objects from the storage")
}

/// Reads a range of an archived log.
pub async fn read_object(blobs: &Blobs, log: &ArchivedLog, range: Range<u64>) -> punctual_blobs::Result<Bytes> {
    let key = Key::new(log.path.clone()).ok_or(BlobError::NotFound)?;
    let mut blob = blobs.get(&key, Some(range.clone())).await?;
    let mut bytes = BytesMut::new();
    while let Some(piece) = blob.bytes.next().await {
        bytes.extend_from_slice(&piece?);
    }
    if bytes.len() as u64 != range.end - range.start {
        return Err(BlobError::Unavailable(format!("{key} is shorter than it was written")));
    }
    Ok(bytes.freeze())
}

/// How many bytes at the end are the begin of a letter whose rest is to come.
fn torn_bytes(bytes: &[u8]) -> usize {
    let tail = &bytes[bytes.len().saturating_sub(3)..];
    (1..=tail.len()).find(|count| is_begin(&tail[tail.len() - count..])).unwrap_or(0)
}

fn is_begin(bytes: &[u8]) -> bool {
    let wanted = match bytes[0] {
        0xC2..=0xDF => 2,
        0xE0..=0xEF => 3,
        0xF0..=0xF4 => 4,
        _ => return false,
    };
    bytes.len() < wanted && bytes[1..].iter().all(|byte| (0x80..=0xBF).contains(byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_begin_of_a_letter_is_told_from_bytes_that_are_none() {
        for (bytes, torn) in [
            (&b""[..], 0),
            (b"abc", 0),
            ("ä".as_bytes(), 0),
            (&"aä".as_bytes()[..2], 1),
            (&"a€".as_bytes()[..3], 2),
            (&"a🦀".as_bytes()[..4], 3),
            (&"🦀".as_bytes()[..1], 1),
            (b"\xFF", 0),
            (b"\x80\x80\x80", 0),
            (b"a\xC3b", 0),
        ] {
            assert_eq!(torn_bytes(bytes), torn, "{bytes:?}");
        }
    }
}
