//! The end of a log that exceeds its limit: the last bytes, in a ring, until the attempt ends.

use std::collections::VecDeque;

use punctual_core::log::{LogMark, LogStream};

use super::Pen;

#[derive(Default)]
pub(super) struct Tail {
    pen: Pen,
    bytes: VecDeque<u8>,
    /// Marks with offsets in all bytes that ever came here.
    marks: VecDeque<LogMark>,
    /// What was pushed out of the ring.
    pub(super) dropped: DroppedBytes,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct DroppedBytes {
    pub(super) bytes: u64,
    pub(super) lines: u64,
}

impl Tail {
    /// The offset of the next byte.
    fn end(&self) -> u64 {
        self.dropped.bytes + self.bytes.len() as u64
    }

    /// Appends bytes. At most `bytes_max` of the last bytes stay, with at most `marks_max` marks.
    pub(super) fn push(&mut self, stream: LogStream, at_ms: i64, bytes: &[u8], bytes_max: usize, marks_max: usize) {
        if let Some(place) = self.pen.write(stream, at_ms, bytes) {
            self.marks.push_back(LogMark { offset: self.end() + place as u64, stream, at_ms });
        }
        self.bytes.extend(bytes);
        self.drop_front(self.bytes.len().saturating_sub(bytes_max));
        // The newest are worth most: what is older shares the first that is left.
        while self.marks.len() > marks_max.max(1) {
            self.marks.pop_front();
            if let Some(first) = self.marks.front_mut() {
                first.offset = first.offset.min(self.dropped.bytes);
            }
        }
    }

    fn drop_front(&mut self, count: usize) {
        if count == 0 {
            return;
        }
        self.dropped.bytes += count as u64;
        self.dropped.lines += self.bytes.drain(..count).filter(|byte| *byte == b'\n').count() as u64;
        // The last mark before the first byte that is left still holds for it.
        while self.marks.get(1).is_some_and(|next| next.offset <= self.dropped.bytes) {
            self.marks.pop_front();
        }
    }

    /// The kept bytes, from the beginning of a line if something was dropped before, and their marks.
    pub(super) fn finish(mut self) -> (Vec<u8>, Vec<LogMark>, DroppedBytes) {
        if self.dropped.bytes > 0 {
            let line = self.bytes.iter().position(|byte| *byte == b'\n').map(|place| place + 1);
            // One long line is cut between two letters.
            let letter = || self.bytes.iter().take(3).take_while(|byte| **byte & 0xC0 == 0x80).count();
            let cut = line.filter(|place| *place < self.bytes.len()).unwrap_or_else(letter);
            self.drop_front(cut);
        }
        let begin = self.dropped.bytes;
        let place = |mark: LogMark| LogMark { offset: mark.offset.saturating_sub(begin), ..mark };
        (self.bytes.into(), self.marks.into_iter().map(place).collect(), self.dropped)
    }
}
