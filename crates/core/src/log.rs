//! Times and streams of a log's lines, beside its text: a list of marks, each of which holds from its place on to the
//! next. The text stays what the program printed, byte for byte.
//!
//! A chunk of a log has marks of its own, of which the first is at its first byte, so that it can be read alone.

use crate::time::Timestamp;

/// Where a part of a log was written to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LogStream {
    /// Standard output, and what handlers and executors log.
    Stdout,
    Stderr,
    /// What the worker says of the log itself.
    System,
}

impl LogStream {
    pub const ALL: [Self; 3] = [Self::Stdout, Self::Stderr, Self::System];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
            Self::System => "system",
        }
    }
}

/// Says that from `offset` on the log was written to `stream`; lines that begin there were written `at`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogMark {
    pub offset: u64,
    pub stream: LogStream,
    /// Milliseconds since 1970.
    pub at_ms: i64,
}

impl LogMark {
    pub fn at(&self) -> Timestamp {
        Timestamp::saturating_from_micros(self.at_ms.saturating_mul(1000))
    }
}

/// The maximum size of the marks of a chunk: some bytes for each of its own bytes, and the first mark.
pub fn marks_len_max(chunk_len: usize) -> usize {
    chunk_len.saturating_mul(4).saturating_add(16)
}

/// The marks of a chunk that begins at `begin`, in order, with places in the log.
pub fn encode_marks(begin: u64, marks: &[LogMark]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(marks.len() * 3 + 8);
    let (mut place, mut time) = (begin, 0_i64);
    for mark in marks {
        put_number(&mut bytes, mark.offset.saturating_sub(place));
        let elapsed = mark.at_ms.wrapping_sub(time);
        let zigzag = ((elapsed << 1) ^ (elapsed >> 63)) as u64;
        // Two bits for the stream; a difference of millions of years is none.
        put_number(&mut bytes, ((zigzag & (u64::MAX >> 2)) << 2) | mark.stream as u64);
        (place, time) = (mark.offset, mark.at_ms);
    }
    bytes
}

/// `None` unless these are marks for a chunk of `len` bytes at `begin`, the first of them at its begin.
pub fn decode_marks(begin: u64, len: usize, mut bytes: &[u8]) -> Option<Vec<LogMark>> {
    let end = begin.checked_add(len as u64)?;
    let mut marks: Vec<LogMark> = Vec::new();
    let (mut place, mut time) = (begin, 0_i64);
    while !bytes.is_empty() {
        let step = take_number(&mut bytes)?;
        let packed = take_number(&mut bytes)?;
        place = place.checked_add(step)?;
        let is_in_order = if marks.is_empty() { step == 0 } else { step > 0 };
        if !is_in_order || place >= end {
            return None;
        }
        let zigzag = packed >> 2;
        time = time.wrapping_add((zigzag >> 1) as i64 ^ -((zigzag & 1) as i64));
        let stream = *LogStream::ALL.get((packed & 3) as usize)?;
        marks.push(LogMark { offset: place, stream, at_ms: time });
    }
    (!marks.is_empty()).then_some(marks)
}

/// Encodes a number with seven bits a byte, the lowest first.
pub fn put_number(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

pub fn take_number(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0_u64;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

/// A line of a log, or a part of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogLine<'t> {
    pub offset: u64,
    /// `None` where nothing is known, as of logs of older workers.
    pub mark: Option<LogMark>,
    /// Without its line break.
    pub text: &'t [u8],
    pub end: LineEnd,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LineEnd {
    Break,
    /// The other stream goes on here, or the text ends.
    Open,
}

/// The lines of a text that begins at `begin` of its log. `marks` are in order and may begin before it.
pub fn lines<'t>(begin: u64, text: &'t [u8], marks: &[LogMark]) -> Vec<LogLine<'t>> {
    let mut lines = Vec::new();
    let mut marks = marks.iter().copied().peekable();
    let mut current: Option<LogMark> = None;
    let mut place = 0;
    while place < text.len() {
        let offset = begin + place as u64;
        while let Some(mark) = marks.next_if(|mark| mark.offset <= offset) {
            current = Some(mark);
        }
        let rest = &text[place..];
        let at_break = rest.iter().position(|byte| *byte == b'\n');
        let mut len = at_break.unwrap_or(rest.len());
        let mut end = if at_break.is_some() { LineEnd::Break } else { LineEnd::Open };
        // Only another stream ends a line early: the time of a line is that of its begin.
        let mut ahead = marks.clone();
        while let Some(mark) = ahead.next_if(|mark| mark.offset <= offset + len as u64) {
            let is_other = current.is_some_and(|current| current.stream != mark.stream);
            let at = (mark.offset - offset) as usize;
            if is_other && at < len + usize::from(end == LineEnd::Break) {
                (len, end) = (at, LineEnd::Open);
                break;
            }
        }
        lines.push(LogLine { offset, mark: current, text: &rest[..len], end });
        place += len + usize::from(end == LineEnd::Break);
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(offset: u64, stream: LogStream, at_ms: i64) -> LogMark {
        LogMark { offset, stream, at_ms }
    }

    #[test]
    fn marks_are_read_as_they_were_written() {
        let marks = [
            mark(100, LogStream::Stdout, 1_795_000_000_000),
            mark(101, LogStream::Stderr, 1_795_000_000_000),
            mark(700, LogStream::System, 1_794_999_999_000),
        ];
        let bytes = encode_marks(100, &marks);
        assert!(bytes.len() < 20, "{}", bytes.len());
        assert_eq!(decode_marks(100, 601, &bytes).as_deref(), Some(&marks[..]));
        assert_eq!(decode_marks(100, 600, &bytes), None, "the last is behind the chunk");
        assert_eq!(decode_marks(100, 601, &bytes[..bytes.len() - 1]), None);
        for wrong in [&b""[..], b"\x01\x00", b"\x00\x03", b"\x00\x00\x00\x00", &[0xff; 30]] {
            assert_eq!(decode_marks(0, 100, wrong), None, "{wrong:?}");
        }
        assert_eq!(decode_marks(u64::MAX, 2, b"\x00\x00"), None);
    }

    #[test]
    fn a_line_has_the_time_of_its_begin_and_ends_where_the_other_stream_goes_on() {
        let text = b"one\ntwERRo\nlast";
        let marks = [
            mark(5, LogStream::Stdout, 1),
            mark(9, LogStream::Stdout, 2),
            mark(10, LogStream::Stdout, 9),
            mark(11, LogStream::Stderr, 3),
            mark(14, LogStream::Stdout, 4),
        ];
        let found: Vec<_> = lines(5, text, &marks)
            .into_iter()
            .map(|line| {
                let mark = line.mark.unwrap();
                (line.offset, std::str::from_utf8(line.text).unwrap(), mark.stream, mark.at_ms, line.end)
            })
            .collect();
        assert_eq!(
            found,
            [
                (5, "one", LogStream::Stdout, 1, LineEnd::Break),
                (9, "tw", LogStream::Stdout, 2, LineEnd::Open),
                (11, "ERR", LogStream::Stderr, 3, LineEnd::Open),
                (14, "o", LogStream::Stdout, 4, LineEnd::Break),
                (16, "last", LogStream::Stdout, 4, LineEnd::Open),
            ]
        );
        let unmarked = lines(0, b"a\n\nb", &[]);
        assert_eq!(
            unmarked.iter().map(|line| (line.offset, line.mark)).collect::<Vec<_>>(),
            [(0, None), (2, None), (3, None)]
        );
    }
}
