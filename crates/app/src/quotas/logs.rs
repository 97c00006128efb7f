//! Bytes of logs, for the quota of them.
//!
//! A log is cut where its namespace has no room: what fits is kept, and a note at the end says why there is no more. A log that was
//! cut stays cut, also when there is room again, or it would lack something in its middle. The note is in its rows, so every server
//! sees it. Pieces of namespaces without this quota cost one look at what the server knows of their attempts, and one atomic
//! while no namespace has it.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use punctual_core::namespace::NamespaceId;
use punctual_core::{AttemptNo, JobId};
use punctual_store::LogChunk;

use super::{Admitted, Limited, grouped};
use crate::logs::checked_marks;
use crate::{App, Result};

/// By these last words a log is known as cut.
const NOTE_END: &[u8] = b" (quota log_bytes)]\n";

type Attempt = (JobId, AttemptNo);

/// What is known of a log that is being written.
#[derive(Clone, Copy)]
struct Extent {
    namespace: NamespaceId,
    /// Where the log ends and whether it was cut; nothing if its namespace has no quota of logs.
    written: Option<Written>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct Written {
    end: u64,
    is_cut: bool,
}

/// The logs that are being written through this server. What is forgotten is read again.
#[derive(Default)]
pub(crate) struct LogExtents(Mutex<HashMap<Attempt, Extent>>);

impl LogExtents {
    /// More attempts than a server has running; beyond this the memory starts anew.
    const MAX: usize = 100_000;

    fn known(&self) -> MutexGuard<'_, HashMap<Attempt, Extent>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put(&self, new: HashMap<Attempt, Extent>) {
        let mut known = self.known();
        if known.len() + new.len() > Self::MAX {
            known.clear();
        }
        known.extend(new);
    }
}

/// Pieces that fit into the quotas of their namespaces.
#[derive(Default)]
struct Fitting {
    chunks: Vec<LogChunk>,
    admitted: Vec<Admitted>,
    extents: HashMap<Attempt, Extent>,
}

impl App {
    /// Stores pieces of logs, as far as the quotas of their namespaces allow.
    pub(crate) async fn keep_logs(&self, chunks: Vec<LogChunk>) -> Result<()> {
        if !self.0.quotas.is_known() {
            self.refresh_namespaces().await?;
        }
        if !self.0.quotas.limits_logs() {
            return Ok(self.0.store.append_logs(chunks).await?);
        }
        let mut fitting = Fitting::default();
        for chunk in chunks {
            self.fit(chunk, &mut fitting).await?;
        }
        if !fitting.chunks.is_empty() {
            self.0.store.append_logs(fitting.chunks).await?;
        }
        for admitted in fitting.admitted {
            let count = admitted.count;
            admitted.stored(count);
        }
        self.0.log_extents.put(fitting.extents);
        Ok(())
    }

    /// Whether the quota of its namespace has cut the log.
    pub(crate) async fn log_was_cut(&self, job: JobId, attempt: AttemptNo) -> Result<bool> {
        Ok(self.written(job, attempt).await?.is_cut)
    }

    async fn fit(&self, chunk: LogChunk, fitting: &mut Fitting) -> Result<()> {
        let attempt = (chunk.job, chunk.attempt);
        let extent = match fitting.extents.entry(attempt) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => {
                let known = self.0.log_extents.known().get(&attempt).copied();
                new.insert(match known {
                    Some(extent) => extent,
                    None => Extent { namespace: self.namespace_of_log(chunk.job).await?, written: None },
                })
            }
        };
        let limited = self.limited(extent.namespace).await?;
        let limited = limited.and_then(|one| Some((one.clone(), one.quotas.log_bytes?)));
        let Some((limited, quota)) = limited else {
            // The end of a log that grows without this is not known when the quota is set.
            extent.written = None;
            fitting.chunks.push(chunk);
            return Ok(());
        };
        let written = match &mut extent.written {
            Some(written) => written,
            None => extent.written.insert(self.written(chunk.job, chunk.attempt).await?),
        };
        let chunk_end = chunk.offset + chunk.bytes.len() as u64;
        if written.is_cut {
            return Ok(());
        }
        let new = chunk_end.saturating_sub(written.end.max(chunk.offset));
        if new == 0 {
            fitting.chunks.push(chunk);
            return Ok(());
        }
        let tally = &limited.tally.log_bytes;
        let admitted = tally.admit_some_at_once(&self.0.store, extent.namespace, new, quota).await?;
        let left_out = new - admitted.count as u64;
        fitting.admitted.push(admitted);
        if left_out == 0 {
            written.end = written.end.max(chunk_end);
            fitting.chunks.push(chunk);
            return Ok(());
        }
        let cut = self.cut(chunk, left_out, written.end, &limited, quota);
        *written = Written { end: cut.last().map_or(written.end, end_of), is_cut: true };
        fitting.chunks.extend(cut);
        Ok(())
    }

    /// What is kept of a piece of which that many bytes do not fit, and the note.
    fn cut(&self, mut chunk: LogChunk, left_out: u64, end: u64, limited: &Limited, quota: u64) -> Vec<LogChunk> {
        let (job, attempt) = (chunk.job, chunk.attempt);
        let fits = chunk.bytes.len() - usize::try_from(left_out).unwrap_or(chunk.bytes.len()).min(chunk.bytes.len());
        chunk.bytes.truncate(whole_letters(&chunk.bytes, fits));
        // What was stored before stays, so nothing is cut off before the end.
        let place = end_of(&chunk).max(end);
        let is_within_line = chunk.bytes.last().is_some_and(|last| *last != b'\n');
        let note = note(&limited.name, quota, is_within_line);
        let note_fits = place + note.len() as u64 <= self.0.settings.log_limit.get();
        chunk.marks = checked_marks(chunk.offset, chunk.bytes.len(), std::mem::take(&mut chunk.marks));
        let mut kept = Vec::with_capacity(2);
        if !chunk.bytes.is_empty() {
            kept.push(chunk);
        }
        if note_fits {
            kept.push(LogChunk { job, attempt, offset: place, bytes: note, marks: Bytes::new() });
        }
        kept
    }

    async fn written(&self, job: JobId, attempt: AttemptNo) -> Result<Written> {
        let store = &self.0.store;
        let end = store.log_end(job, attempt).await?;
        if end == 0 {
            // A worker may repeat what was archived.
            let archived = store.archived_log(job, attempt).await?;
            return Ok(Written { end: archived.map_or(0, |log| log.bytes), is_cut: false });
        }
        let last = store.read_log(job, attempt, end.saturating_sub(NOTE_END.len() as u64), NOTE_END.len()).await?;
        Ok(Written { end, is_cut: last.bytes.ends_with(NOTE_END) })
    }

    /// Of the job of a log. One that is not there any more limits nothing.
    pub async fn namespace_of_log(&self, job: JobId) -> Result<NamespaceId> {
        if self.has_one_namespace().await? {
            return Ok(NamespaceId::DEFAULT);
        }
        Ok(self.namespace_of_job(job).await?.unwrap_or_default())
    }
}

fn end_of(chunk: &LogChunk) -> u64 {
    chunk.offset + chunk.bytes.len() as u64
}

/// The note that ends a log.
fn note(namespace: &str, quota: u64, is_within_line: bool) -> Bytes {
    let mut note = String::from(if is_within_line { "\n" } else { "" });
    let quota = grouped(quota);
    note += &format!("[the log was cut off here: namespace {namespace} has {quota} of {quota} bytes of logs");
    let mut note = note.into_bytes();
    note.extend_from_slice(NOTE_END);
    note.into()
}

/// At most so many bytes, without a part of a letter at their end.
fn whole_letters(bytes: &[u8], most: usize) -> usize {
    let is_inside = |place: usize| bytes.get(place).is_some_and(|byte| byte & 0xC0 == 0x80);
    // No letter has more than four bytes. What is not UTF-8 is cut anywhere.
    (most.saturating_sub(3)..=most).rev().find(|place| !is_inside(*place)).unwrap_or(most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_letter_is_torn_apart() {
        let bytes = "aé𝄞".as_bytes();
        let cuts: Vec<usize> = (0..=bytes.len()).map(|most| whole_letters(bytes, most)).collect();
        assert_eq!(cuts, [0, 1, 1, 3, 3, 3, 3, 7]);
        assert_eq!(whole_letters(&[0x80; 9], 5), 5, "this is no text");
    }

    #[test]
    fn a_note_begins_a_line_of_its_own() {
        let said = |is_within_line| String::from_utf8(note("team-a", 12_345, is_within_line).to_vec()).unwrap();
        let expected =
            "[the log was cut off here: namespace team-a has 12,345 of 12,345 bytes of logs (quota log_bytes)]\n";
        assert_eq!(said(false), expected);
        assert_eq!(said(true), format!("\n{expected}"));
    }
}
