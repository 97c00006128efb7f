//! A log line by line, with the time and the stream of each.

use punctual_api::LogLine;
use punctual_core::log::{self, LineEnd};
use punctual_core::{AttemptNo, JobId};

use super::LogView;
use crate::principal::By;
use crate::principal::permission::ViewLogs;
use crate::{App, Result};

/// A line that is longer, and not finished yet, is shown in parts.
const OPEN_LINE_MAX: usize = 64 << 10;

/// Some lines of a log.
#[derive(Debug, Clone)]
pub struct LinesView {
    pub attempt: u32,
    pub lines: Vec<LogLine>,
    pub next_offset: u64,
    /// Nothing will be added any more.
    pub is_complete: bool,
}

impl App {
    /// As [`App::log`], in whole lines: the begin of one whose end is to come is left for the next call.
    pub async fn log_lines(
        &self,
        by: &By<ViewLogs>,
        id: JobId,
        attempt: Option<u32>,
        offset: u64,
    ) -> Result<LinesView> {
        self.check_job(by, id).await?;
        let LogView { attempt, bytes, mut next_offset, is_complete } = self.read_log(id, attempt, offset).await?;
        let mut text = &bytes[..];
        let begin = next_offset.saturating_sub(text.len() as u64);
        let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |place| place + 1);
        let is_open = whole < text.len();
        // A long line without an end is shown in parts, as is the last one of a log that has ended.
        if is_open && (whole > 0 || text.len() < OPEN_LINE_MAX) && !self.ends_at(id, attempt, next_offset).await? {
            next_offset -= (text.len() - whole) as u64;
            text = &text[..whole];
        }
        if text.is_empty() {
            return Ok(LinesView { attempt, lines: Vec::new(), next_offset: next_offset.max(offset), is_complete });
        }
        let marks = self.marks_between(id, AttemptNo(attempt), begin, next_offset).await?;
        let shown = |line: log::LogLine<'_>| LogLine {
            offset: line.offset,
            time: line.mark.map(|mark| mark.at()),
            stream: line.mark.map(|mark| mark.stream.as_str().to_owned()),
            text: String::from_utf8_lossy(line.text).into_owned(),
            partial: line.end == LineEnd::Open,
        };
        let lines = log::lines(begin, text, &marks).into_iter().map(shown).collect();
        Ok(LinesView { attempt, lines, next_offset, is_complete })
    }

    /// Whether the attempt has ended, and its log ends there.
    async fn ends_at(&self, id: JobId, attempt: u32, offset: u64) -> Result<bool> {
        Ok(self.read_log(id, Some(attempt), offset).await?.is_complete)
    }
}
