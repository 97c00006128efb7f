//! What an attempt prints, kept until the server has it.
//!
//! Lines gather here; a [`LogOutlet`] is told when there are some and takes them away in
//! pieces. A piece keeps its place and its length for good, because the server tells a
//! repeated piece from a new one by its offset. An attempt that prints nothing never
//! touches the outlet.
//!
//! Of a log above its limit the first half is sent as it comes, and the last half when the attempt has ended.

mod tail;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use punctual_core::attempt::AttemptNo;
use punctual_core::id::JobId;
use punctual_core::log::{LogMark, LogStream, encode_marks};

use crate::clock;
use crate::redact::{RedactingStream, Redactor};
use tail::{DroppedBytes, Tail};

/// Space that is reserved for notes about a log that was cut.
const NOTES_BYTES_MAX: usize = 256;
/// The average number of bytes per mark; a log that is written byte by byte has fewer marks than bytes.
const BYTES_PER_MARK: usize = 16;

/// Collects pieces of logs.
pub trait LogOutlet: Send + Sync {
    /// Called when `log` has something to [`take`](LogSink::take), and not again until it was emptied.
    fn ready(&self, log: LogSink);
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogPiece {
    pub offset: u64,
    pub bytes: Bytes,
    /// When the bytes were written and to which stream, see [`punctual_core::log`].
    pub marks: Bytes,
}

/// The result of closing a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClosedLog {
    /// Whether anything was ever written.
    pub is_written: bool,
    /// The end of the log is ready to be taken, and the caller must announce it to the outlet.
    pub is_to_announce: bool,
}

/// The log of one attempt. Cheap to clone; all clones write to the same log.
#[derive(Clone)]
pub struct LogSink(Arc<LogState>);

struct LogState {
    job: JobId,
    attempt: AttemptNo,
    token: Bytes,
    bytes_max: usize,
    outlet: Arc<dyn LogOutlet>,
    text: Mutex<Text>,
}

#[derive(Default)]
struct Text {
    fresh: Vec<u8>,
    fresh_offset: u64,
    /// Marks of the bytes that are not taken yet, with offsets in the whole log.
    marks: Vec<LogMark>,
    marks_left: usize,
    pen: Pen,
    /// The last bytes, after the first half of the log was full.
    tail: Option<Box<Tail>>,
    /// Pieces that were taken at least once, kept in case the server that took them is lost.
    pieces: Vec<LogPiece>,
    /// The first piece to take again.
    next: usize,
    announced: bool,
    closed: bool,
    /// Of each stream, for an attempt with secrets.
    redaction: Option<Box<Redaction>>,
}

/// Takes secrets out before anything is kept.
struct Redaction {
    redactor: Redactor,
    stdout: RedactingStream,
    stderr: RedactingStream,
}

/// The state after the last byte that was written.
#[derive(Debug, Clone, Copy, Default)]
struct Pen {
    mark: Option<(LogStream, i64)>,
    /// Whether the last byte was not a line break.
    is_within_line: bool,
}

impl Pen {
    /// The mark that these bytes need, if any: where they begin to go to another stream, or begin a line at another
    /// time. A line has the time at which it began, so bytes that continue it need none.
    fn write(&mut self, stream: LogStream, at_ms: i64, bytes: &[u8]) -> Option<usize> {
        let line_within = || bytes.iter().position(|byte| *byte == b'\n').map(|place| place + 1);
        let place = match self.mark {
            Some((last, last_ms)) if (last, last_ms) == (stream, at_ms) => None,
            Some((last, _)) if last == stream && self.is_within_line => line_within().filter(|at| *at < bytes.len()),
            Some(_) | None => Some(0),
        };
        if place.is_some() {
            self.mark = Some((stream, at_ms));
        }
        self.is_within_line = bytes.last().is_some_and(|last| *last != b'\n');
        place
    }
}

impl Text {
    /// What can be kept of these bytes and those that were held back before. `None` if the attempt has no secrets.
    fn redacted(&mut self, stream: LogStream, bytes: &[u8]) -> Option<Vec<u8>> {
        let redaction = self.redaction.as_mut()?;
        match stream {
            LogStream::Stdout => Some(redaction.stdout.push(bytes)),
            LogStream::Stderr => Some(redaction.stderr.push(bytes)),
            // Of the worker itself.
            LogStream::System => None,
        }
    }

    fn len(&self) -> usize {
        self.fresh_offset as usize + self.fresh.len()
    }

    fn has_more(&self) -> bool {
        self.next < self.pieces.len() || !self.fresh.is_empty()
    }

    /// Appends bytes to what will be sent.
    fn append(&mut self, stream: LogStream, at_ms: i64, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        // Without a mark of their own, lines share the one before.
        if let Some(place) = self.pen.write(stream, at_ms, bytes).filter(|_| self.marks_left > 0) {
            self.push_mark(LogMark { offset: (self.len() + place) as u64, stream, at_ms });
            self.marks_left -= 1;
        }
        self.fresh.extend_from_slice(bytes);
    }

    /// Adds a mark, replacing one that would have continued from the previous piece.
    fn push_mark(&mut self, mark: LogMark) {
        self.marks.pop_if(|last| last.offset == mark.offset);
        self.marks.push(mark);
    }

    /// Adds a note about the log itself, on a line of its own.
    fn append_note(&mut self, at_ms: i64, note: &str) {
        // However many marks there were, this one is not the program's word.
        self.marks_left = self.marks_left.max(1);
        let line_break = if self.pen.is_within_line { "\n" } else { "" };
        self.append(LogStream::System, at_ms, format!("{line_break}{note}\n").as_bytes());
    }

    /// Appends the end of the log, after a note about what was left out.
    fn append_tail(&mut self, tail: Tail, at_ms: i64) {
        let (bytes, marks, dropped) = tail.finish();
        if dropped.bytes > 0 {
            self.append_note(at_ms, &left_out(dropped));
        }
        let begin = self.len() as u64;
        for mark in marks {
            self.push_mark(LogMark { offset: begin + mark.offset, ..mark });
        }
        self.fresh.extend(bytes);
    }
}

impl LogSink {
    pub fn new(job: JobId, attempt: AttemptNo, bytes_max: usize, outlet: Arc<dyn LogOutlet>) -> Self {
        Self::with_token(job, attempt, Bytes::new(), bytes_max, outlet)
    }

    /// Opens a log with the attempt's token, which servers require with every piece.
    pub fn with_token(
        job: JobId,
        attempt: AttemptNo,
        token: Bytes,
        bytes_max: usize,
        outlet: Arc<dyn LogOutlet>,
    ) -> Self {
        let text = Text { marks_left: bytes_max / 2 / BYTES_PER_MARK + 1, ..Text::default() };
        Self(Arc::new(LogState { job, attempt, token, bytes_max, outlet, text: Mutex::new(text) }))
    }

    pub fn job(&self) -> JobId {
        self.0.job
    }

    pub fn attempt(&self) -> AttemptNo {
        self.0.attempt
    }

    pub fn token(&self) -> Bytes {
        self.0.token.clone()
    }

    /// Takes secrets out of what is written from now on.
    pub fn redact(&self, redactor: &Redactor) {
        let (stdout, stderr) = (redactor.stream(), redactor.stream());
        let redaction = Redaction { redactor: redactor.clone(), stdout, stderr };
        self.text().redaction = Some(Box::new(redaction));
    }

    /// What takes secrets out, for those who cut a text before they log or return it.
    pub fn redactor(&self) -> Option<Redactor> {
        self.text().redaction.as_ref().map(|redaction| redaction.redactor.clone())
    }

    /// Adds a line.
    pub fn line(&self, line: impl AsRef<str>) {
        let line = line.as_ref();
        let line = line.strip_suffix('\n').unwrap_or(line);
        self.write(LogStream::Stdout, format!("{line}\n").as_bytes());
    }

    /// Adds bytes. If the log exceeds its limit, its first and last bytes are kept.
    pub fn write(&self, stream: LogStream, bytes: &[u8]) {
        let announce = {
            let mut text = self.text();
            if text.closed || bytes.is_empty() {
                return;
            }
            let at_ms = clock::now().as_micros() / 1000;
            match text.redacted(stream, bytes) {
                Some(bytes) => self.add(&mut text, stream, at_ms, &bytes),
                None => self.add(&mut text, stream, at_ms, bytes),
            }
            text.has_more() && !std::mem::replace(&mut text.announced, true)
        };
        if announce {
            self.0.outlet.ready(self.clone());
        }
    }

    fn add(&self, text: &mut Text, stream: LogStream, at_ms: i64, bytes: &[u8]) {
        let half = self.0.bytes_max.saturating_sub(NOTES_BYTES_MAX) / 2;
        let mut rest = bytes;
        if text.tail.is_none() {
            let room = half.saturating_sub(text.len());
            let kept = if bytes.len() <= room { bytes.len() } else { cut(&bytes[..room], text.pen.is_within_line) };
            text.append(stream, at_ms, &bytes[..kept]);
            rest = &bytes[kept..];
        }
        if rest.is_empty() {
            return;
        }
        let tail = text.tail.get_or_insert_default();
        let was_whole = tail.dropped.bytes == 0;
        tail.push(stream, at_ms, rest, half, half / BYTES_PER_MARK);
        let is_whole = tail.dropped.bytes == 0;
        if was_whole && !is_whole {
            text.append_note(at_ms, &limit_reached(self.0.bytes_max));
        }
    }

    /// Takes the next piece, of at most `bytes_max`; `None` when all was taken.
    pub fn take(&self, bytes_max: usize) -> Option<LogPiece> {
        let mut text = self.text();
        if let Some(piece) = text.pieces.get(text.next).cloned() {
            text.next += 1;
            return Some(piece);
        }
        if text.fresh.is_empty() {
            text.announced = false;
            return None;
        }
        let len = bytes_max.min(text.fresh.len());
        let rest = text.fresh.split_off(len);
        let bytes = Bytes::from(std::mem::replace(&mut text.fresh, rest));
        let offset = text.fresh_offset;
        text.fresh_offset += bytes.len() as u64;
        let marks = text.take_marks(offset);
        let piece = LogPiece { offset, bytes, marks };
        text.pieces.push(piece.clone());
        text.next = text.pieces.len();
        Some(piece)
    }

    /// Offers all pieces again, because the server that took them may have lost them. Returns true if the caller must
    /// announce them to the outlet.
    #[must_use]
    pub fn rewind(&self) -> bool {
        let mut text = self.text();
        text.next = 0;
        text.has_more() && !std::mem::replace(&mut text.announced, true)
    }

    /// Ends the log; later lines are dropped.
    #[must_use]
    pub fn close(&self) -> ClosedLog {
        let mut text = self.text();
        let mut is_to_announce = false;
        if !text.closed
            && let Some(mut redaction) = text.redaction.take()
        {
            let at_ms = clock::now().as_micros() / 1000;
            self.add(&mut text, LogStream::Stdout, at_ms, &redaction.stdout.finish());
            self.add(&mut text, LogStream::Stderr, at_ms, &redaction.stderr.finish());
            is_to_announce = text.has_more() && !std::mem::replace(&mut text.announced, true);
        }
        text.closed = true;
        if let Some(tail) = text.tail.take() {
            text.append_tail(*tail, clock::now().as_micros() / 1000);
            is_to_announce |= !std::mem::replace(&mut text.announced, true);
        }
        ClosedLog { is_written: text.len() > 0, is_to_announce }
    }

    fn text(&self) -> MutexGuard<'_, Text> {
        self.0.text.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Text {
    /// The marks of the piece that begins at `offset`. The state at its end continues in the next piece.
    fn take_marks(&mut self, offset: u64) -> Bytes {
        let end = self.fresh_offset;
        let count = self.marks.partition_point(|mark| mark.offset < end);
        let encoded = encode_marks(offset, &self.marks[..count]);
        let last = self.marks[..count].last().copied();
        self.marks.drain(..count);
        let is_marked = self.marks.first().is_some_and(|mark| mark.offset == end);
        if let Some(last) = last.filter(|_| !is_marked) {
            self.marks.insert(0, LogMark { offset: end, ..last });
        }
        encoded.into()
    }
}

/// How many of the bytes that fit are kept at the end of the first half: whole lines, if there are any.
fn cut(bytes: &[u8], is_within_line: bool) -> usize {
    match bytes.iter().rposition(|byte| *byte == b'\n') {
        Some(place) => place + 1,
        None if is_within_line => {
            let torn = bytes.iter().rev().take(3).position(|byte| *byte >= 0xC0);
            bytes.len() - torn.map_or(0, |place| place + 1)
        }
        None => 0,
    }
}

fn limit_reached(bytes_max: usize) -> String {
    let size = match bytes_max {
        n if n >= 1 << 20 && n % (1 << 20) == 0 => format!("{} MiB", n >> 20),
        n if n >= 1 << 10 && n % (1 << 10) == 0 => format!("{} KiB", n >> 10),
        n => format!("{n} bytes"),
    };
    format!("[log limit of {size} reached: of what follows, the end is shown when the attempt has ended]")
}

fn left_out(DroppedBytes { bytes, lines }: DroppedBytes) -> String {
    format!("[{bytes} bytes ({lines} lines) left out]")
}

#[cfg(test)]
mod tests;
