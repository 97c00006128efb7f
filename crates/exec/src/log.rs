//! What an attempt prints, kept until the server has it.
//!
//! Lines gather here; a [`LogOutlet`] is told when there are some and takes them away in
//! pieces. A piece keeps its place and its length for good, because the server tells a
//! repeated piece from a new one by its offset. An attempt that prints nothing never
//! touches the outlet.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use punctual_core::attempt::AttemptNo;
use punctual_core::id::JobId;

/// Room that is left for the mark at the end of a log that was cut.
const MARK_BYTES_MAX: usize = 64;

/// Where pieces of logs are collected from.
pub trait LogOutlet: Send + Sync {
    /// `log` has something to [`take`](LogSink::take). Not said again until it was emptied.
    fn ready(&self, log: LogSink);
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogPiece {
    pub offset: u64,
    pub bytes: Bytes,
}

/// The log of one attempt. Cheap to clone; all clones write to the same log.
#[derive(Clone)]
pub struct LogSink(Arc<State>);

struct State {
    job: JobId,
    attempt: AttemptNo,
    bytes_max: usize,
    outlet: Arc<dyn LogOutlet>,
    text: Mutex<Text>,
}

#[derive(Default)]
struct Text {
    fresh: Vec<u8>,
    fresh_offset: u64,
    /// Taken at least once, kept in case the server that took them is lost.
    pieces: Vec<LogPiece>,
    /// The first piece to take again.
    next: usize,
    announced: bool,
    closed: bool,
}

impl Text {
    fn len(&self) -> usize {
        self.fresh_offset as usize + self.fresh.len()
    }

    fn has_more(&self) -> bool {
        self.next < self.pieces.len() || !self.fresh.is_empty()
    }
}

impl LogSink {
    pub fn new(job: JobId, attempt: AttemptNo, bytes_max: usize, outlet: Arc<dyn LogOutlet>) -> Self {
        Self(Arc::new(State { job, attempt, bytes_max, outlet, text: Mutex::default() }))
    }

    pub fn job(&self) -> JobId {
        self.0.job
    }

    pub fn attempt(&self) -> AttemptNo {
        self.0.attempt
    }

    /// Adds a line. Above the limit the log ends with a line that says so.
    pub fn line(&self, line: impl AsRef<str>) {
        let announce = {
            let mut text = self.text();
            if text.closed {
                return;
            }
            self.append(&mut text, line.as_ref());
            !std::mem::replace(&mut text.announced, true)
        };
        if announce {
            self.0.outlet.ready(self.clone());
        }
    }

    /// Adds bytes as they are. Above the limit the log ends with a line that says so.
    pub fn raw(&self, bytes: &[u8]) {
        let announce = {
            let mut text = self.text();
            if text.closed || bytes.is_empty() {
                return;
            }
            let room = self.0.bytes_max.saturating_sub(text.len() + MARK_BYTES_MAX);
            text.fresh.extend_from_slice(&bytes[..bytes.len().min(room)]);
            if bytes.len() > room {
                if text.fresh.last().is_some_and(|last| *last != b'\n') {
                    text.fresh.push(b'\n');
                }
                text.fresh.extend_from_slice(truncation_mark(self.0.bytes_max).as_bytes());
                text.closed = true;
            }
            !std::mem::replace(&mut text.announced, true)
        };
        if announce {
            self.0.outlet.ready(self.clone());
        }
    }

    fn append(&self, text: &mut Text, line: &str) {
        let line = line.strip_suffix('\n').unwrap_or(line);
        let room = self.0.bytes_max.saturating_sub(text.len() + MARK_BYTES_MAX);
        if line.len() < room {
            text.fresh.extend_from_slice(line.as_bytes());
            text.fresh.push(b'\n');
            return;
        }
        let kept = &line[..line.floor_char_boundary(room.saturating_sub(1))];
        if !kept.is_empty() {
            text.fresh.extend_from_slice(kept.as_bytes());
            text.fresh.push(b'\n');
        }
        text.fresh.extend_from_slice(truncation_mark(self.0.bytes_max).as_bytes());
        text.closed = true;
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
        let piece = LogPiece { offset: text.fresh_offset, bytes };
        text.fresh_offset += piece.bytes.len() as u64;
        text.pieces.push(piece.clone());
        text.next = text.pieces.len();
        Some(piece)
    }

    /// Offers all pieces again: the server that took them may have lost them.
    /// True when the outlet must be told, which is left to the caller.
    #[must_use]
    pub fn rewind(&self) -> bool {
        let mut text = self.text();
        text.next = 0;
        text.has_more() && !std::mem::replace(&mut text.announced, true)
    }

    /// Ends the log; later lines are dropped. True if anything was ever written.
    pub fn close(&self) -> bool {
        let mut text = self.text();
        text.closed = true;
        text.len() > 0
    }

    fn text(&self) -> MutexGuard<'_, Text> {
        self.0.text.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn truncation_mark(bytes_max: usize) -> String {
    let size = match bytes_max {
        n if n >= 1 << 20 && n % (1 << 20) == 0 => format!("{} MiB", n >> 20),
        n if n >= 1 << 10 && n % (1 << 10) == 0 => format!("{} KiB", n >> 10),
        n => format!("{n} bytes"),
    };
    format!("[log truncated at {size}]\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_core::{ShardId, Timestamp};

    #[derive(Default)]
    struct Announced(Mutex<usize>);

    impl LogOutlet for Announced {
        fn ready(&self, _: LogSink) {
            *self.0.lock().unwrap() += 1;
        }
    }

    fn log(bytes_max: usize) -> (LogSink, Arc<Announced>) {
        let outlet = Arc::new(Announced::default());
        let job = JobId::new(Timestamp::EPOCH, ShardId(0), 1);
        (LogSink::new(job, AttemptNo::FIRST, bytes_max, outlet.clone()), outlet)
    }

    fn all(log: &LogSink) -> String {
        let mut text = Vec::new();
        while let Some(piece) = log.take(usize::MAX) {
            text.extend_from_slice(&piece.bytes);
        }
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn a_log_without_lines_never_touches_its_outlet() {
        let (log, outlet) = log(1000);
        assert_eq!(log.take(10), None);
        assert!(!log.close());
        assert_eq!(*outlet.0.lock().unwrap(), 0);
    }

    #[test]
    fn bytes_are_kept_as_they_are_up_to_the_limit() {
        let (log, _) = log(100);
        log.raw(b"one\ntw");
        log.raw(b"o");
        log.raw(&[b'x'; 60]);
        log.raw(b"gone");
        assert_eq!(all(&log), format!("one\ntwo{}\n[log truncated at 100 bytes]\n", "x".repeat(29)));
    }

    #[test]
    fn lines_are_announced_once_until_they_were_taken() {
        let (log, outlet) = log(1000);
        log.line("one");
        log.line("two\n");
        assert_eq!(*outlet.0.lock().unwrap(), 1);
        assert_eq!(all(&log), "one\ntwo\n");
        log.line("three");
        assert_eq!(*outlet.0.lock().unwrap(), 2);
        let piece = log.take(100).unwrap();
        assert_eq!((piece.offset, &piece.bytes[..]), (8, &b"three\n"[..]));
    }

    #[test]
    fn a_log_above_its_limit_ends_with_a_mark_and_stays_within_the_limit() {
        let (log, _) = log(1 << 10);
        for _ in 0..100 {
            log.line("é".repeat(20));
        }
        log.line("never seen");
        let text = all(&log);
        assert!(text.len() <= 1 << 10, "{}", text.len());
        assert!(text.ends_with("é\n[log truncated at 1 KiB]\n"), "{text}");
    }

    #[test]
    fn a_piece_that_is_taken_again_has_the_same_place_and_length() {
        let (log, _) = log(1000);
        log.line("first line");
        let first = [log.take(4).unwrap(), log.take(4).unwrap()];
        assert!(!log.rewind(), "it is still announced");
        let again = [log.take(100).unwrap(), log.take(100).unwrap()];
        assert_eq!(first, again);
        assert_eq!(log.take(100).unwrap(), LogPiece { offset: 8, bytes: Bytes::from_static(b"ne\n") });
        assert_eq!(log.take(100), None);
        assert!(log.rewind());
    }

    #[test]
    fn lines_after_the_end_are_dropped() {
        let (log, _) = log(1000);
        log.line("kept");
        assert!(log.close());
        log.line("dropped");
        assert_eq!(all(&log), "kept\n");
    }
}
