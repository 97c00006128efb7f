//! When lines of a log were written and to which stream: beside the pieces in the store, and in an object beside the
//! log's once it is archived. A log whose marks are missing is a log without times, and no less readable.

use std::collections::BTreeMap;

use bytes::{Bytes, BytesMut};
use futures_util::stream::{self, StreamExt};
use punctual_blobs::{BlobError, Blobs, Key};
use punctual_core::log::{LogMark, decode_marks, marks_len_max, put_number, take_number};
use punctual_core::{AttemptNo, JobId};
use punctual_store::ChunkMarks;

use crate::{App, LOG_BYTES_MAX, Result};

/// How the name of an object with marks ends. The name of its log ends with `.log`.
pub const EXTENSION: &str = ".marks";
const LOG_EXTENSION: &str = ".log";

/// The marks of a log, by where their chunks begin.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Marks(BTreeMap<u64, ChunkMarks>);

/// What is kept of marks that a worker sent: all of them, or none if they are not marks for this chunk.
pub(crate) fn checked(offset: u64, len: usize, marks: Bytes) -> Bytes {
    let fits = marks.len() <= marks_len_max(len) && decode_marks(offset, len, &marks).is_some();
    if fits { marks } else { Bytes::new() }
}

impl Marks {
    /// Adds the marks of chunks; chunks that have marks already keep them.
    pub fn add(&mut self, chunks: Vec<ChunkMarks>) {
        for chunk in chunks {
            self.0.entry(chunk.offset).or_insert(chunk);
        }
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// In order, from what holds at `from` to before `to`.
    pub fn between(&self, from: u64, to: u64) -> Vec<LogMark> {
        let first = self.0.range(..=from).next_back().map_or(from, |(offset, _)| *offset);
        let chunks = self.0.range(first..to.max(first)).map(|(_, chunk)| chunk);
        let decoded = chunks.filter_map(|chunk| decode_marks(chunk.offset, chunk.len as usize, &chunk.marks));
        decoded.flatten().filter(|mark| mark.offset < to).collect()
    }

    /// For each chunk: where it begins, its length, the length of its marks, and these.
    pub fn encode(&self) -> Bytes {
        let mut bytes = Vec::new();
        for ChunkMarks { offset, len, marks } in self.0.values() {
            if (bytes.len() + marks.len()) as u64 > LOG_BYTES_MAX {
                break;
            }
            for number in [*offset, *len, marks.len() as u64] {
                put_number(&mut bytes, number);
            }
            bytes.extend_from_slice(marks);
        }
        bytes.into()
    }

    fn decode(bytes: &Bytes) -> Self {
        let mut marks = Self::default();
        let mut rest = &bytes[..];
        while let Some(chunk) = take_chunk(&mut rest) {
            marks.add(vec![chunk]);
        }
        marks
    }
}

fn take_chunk(rest: &mut &[u8]) -> Option<ChunkMarks> {
    let (offset, len) = (take_number(rest)?, take_number(rest)?);
    let marks_len = usize::try_from(take_number(rest)?).ok()?;
    let (marks, after) = rest.split_at_checked(marks_len)?;
    *rest = after;
    Some(ChunkMarks { offset, len, marks: Bytes::copy_from_slice(marks) })
}

/// The object with the marks of the log at `path`.
pub fn key_beside(path: &str) -> Option<Key> {
    Key::new(format!("{}{EXTENSION}", path.strip_suffix(LOG_EXTENSION)?))
}

/// The log that the object `path` has the marks of.
pub fn log_beside(path: &str) -> Option<String> {
    Some(format!("{}{LOG_EXTENSION}", path.strip_suffix(EXTENSION)?))
}

/// Writes the marks of the log at `path`, if it has any.
pub async fn write(blobs: &Blobs, path: &str, marks: &Marks) -> punctual_blobs::Result<()> {
    match key_beside(path) {
        Some(key) if !marks.is_empty() => {
            blobs.put(&key, LOG_BYTES_MAX * 2, stream::iter([Ok(marks.encode())])).await.map(drop)
        }
        _ => Ok(()),
    }
}

/// The marks of the log at `path`; none if there is no such object, as for logs of older workers.
pub async fn read(blobs: &Blobs, path: &str) -> punctual_blobs::Result<Marks> {
    let Some(key) = key_beside(path) else { return Ok(Marks::default()) };
    let mut blob = match blobs.get(&key, None).await {
        Ok(blob) => blob,
        Err(BlobError::NotFound) => return Ok(Marks::default()),
        Err(error) => return Err(error),
    };
    let mut bytes = BytesMut::new();
    while let Some(piece) = blob.bytes.next().await {
        bytes.extend_from_slice(&piece?);
        if bytes.len() as u64 > LOG_BYTES_MAX * 2 {
            break;
        }
    }
    Ok(Marks::decode(&bytes.freeze()))
}

impl App {
    /// From the store first: what is moved after that is found in the object.
    pub(super) async fn marks_between(
        &self,
        job: JobId,
        attempt: AttemptNo,
        from: u64,
        to: u64,
    ) -> Result<Vec<LogMark>> {
        let mut marks = Marks::default();
        marks.add(self.0.store.log_marks(job, attempt, from, to).await?);
        if let Some(log) = self.0.store.archived_log(job, attempt).await? {
            let Marks(archived) = read(&self.0.blobs, &log.path).await?;
            marks.add(archived.into_values().collect());
        }
        Ok(marks.between(from, to))
    }
}

#[cfg(test)]
mod tests {
    use punctual_core::log::{LogStream, encode_marks};

    use super::*;

    fn chunk(offset: u64, len: u64, stream: LogStream) -> ChunkMarks {
        let marks = encode_marks(offset, &[LogMark { offset, stream, at_ms: 7 }]).into();
        ChunkMarks { offset, len, marks }
    }

    #[test]
    fn marks_are_found_by_the_place_that_they_hold_for() {
        let mut marks = Marks::default();
        marks.add(vec![chunk(0, 10, LogStream::Stdout), chunk(10, 5, LogStream::Stderr)]);
        marks.add(vec![chunk(10, 5, LogStream::System), chunk(15, 5, LogStream::Stdout)]);
        let places = |from, to| marks.between(from, to).iter().map(|mark| mark.offset).collect::<Vec<_>>();
        assert_eq!(places(0, 100), [0, 10, 15]);
        assert_eq!(places(12, 15), [10]);
        assert_eq!(places(9, 11), [0, 10]);
        assert_eq!(marks.between(10, 11)[0].stream, LogStream::Stderr, "the first that came stays");
        assert_eq!(Marks::decode(&marks.encode()), marks);
        let encoded = marks.encode();
        assert_eq!(Marks::decode(&encoded.slice(..encoded.len() - 1)).0.len(), 2);
        assert_eq!(Marks::decode(&Bytes::from_static(&[0xff; 40])), Marks::default());
    }

    #[test]
    fn what_is_no_list_of_marks_is_not_kept() {
        let good: Bytes = chunk(5, 3, LogStream::Stdout).marks;
        assert_eq!(checked(5, 3, good.clone()), good);
        assert!(checked(5, 0, good).is_empty());
        assert!(checked(5, 3, Bytes::from_static(b"\x09\x00")).is_empty());
        assert!(checked(5, 3, Bytes::from(vec![0; 1 << 20])).is_empty());
    }

    #[test]
    fn marks_lie_beside_their_log() {
        let key = key_beside("logs/2026-01-01/job/1-ab.log").unwrap();
        assert_eq!(key.as_str(), "logs/2026-01-01/job/1-ab.marks");
        assert_eq!(log_beside(key.as_str()).as_deref(), Some("logs/2026-01-01/job/1-ab.log"));
        assert_eq!(log_beside("logs/2026-01-01/job/1-ab.log"), None);
    }
}
