//! What attempts printed.

use bytes::Bytes;
use punctual_api::ErrorKind;
use punctual_core::{AttemptNo, JobId, JobState};

use crate::{App, AppError, LOG_BYTES_MAX, Result};

/// Bytes of one answer.
const PIECE_BYTES: usize = 256 << 10;

#[derive(Debug, Clone)]
pub struct LogView {
    pub attempt: u32,
    pub bytes: Bytes,
    pub next_offset: u64,
    /// Nothing will be added any more.
    pub is_complete: bool,
}

impl App {
    /// A piece of an attempt's log; of the latest attempt if none is named.
    pub async fn log(&self, id: JobId, attempt: Option<u32>, offset: u64) -> Result<LogView> {
        if offset > LOG_BYTES_MAX {
            let detail = format!("must be at most {LOG_BYTES_MAX}: no log is longer");
            return Err(AppError::field("offset", detail));
        }
        let job = self.job(id, None).await?;
        let mut latest = job.attempts.last().map(|attempt| attempt.attempt);
        if job.uncertain {
            // One may be running of which nobody could be asked.
            latest = attempt.max(latest);
        }
        let number = match (attempt, latest) {
            (Some(number), Some(latest)) if (1..=latest).contains(&number) => number,
            (Some(number), _) => {
                let detail = format!("{id} has no attempt {number}");
                return Err(AppError::new(ErrorKind::NotFound, detail).hint("GET the job to see its attempts"));
            }
            (None, Some(latest)) => latest,
            (None, None) => {
                let is_complete = JobState::parse(&job.state).is_some_and(JobState::is_final);
                return Ok(LogView { attempt: 0, bytes: Bytes::new(), next_offset: offset, is_complete });
            }
        };
        let is_over =
            job.attempts.iter().any(|attempt| attempt.attempt == number && attempt.state != JobState::Running.as_str());
        let piece = self.0.store.read_log(id, AttemptNo(number), offset, PIECE_BYTES).await?;
        let is_complete = is_over && piece.bytes.is_empty();
        Ok(LogView { attempt: number, bytes: piece.bytes, next_offset: piece.next_offset.max(offset), is_complete })
    }
}
