//! The audit log: who did what to what. Each line holds the hash of the one before, and the head is signed, so that a line
//! that was removed or changed shows.
//!
//! A line is written after what it is about and before that is answered. Lines of requests that come together are written
//! together. Submissions of jobs are not here: the jobs are their record. Holds no payloads and no secrets.

mod chain;
mod event;
mod refusals;
mod trim;
mod verify;
mod view;

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use punctual_api::ErrorKind;
use punctual_core::Timestamp;
use punctual_store::{AUDIT_ROWS_MAX, AuditAppended, AuditBatch, AuditPlace};
use tokio::sync::oneshot;

pub use event::AuditEvent;
pub use verify::{AuditFault, AuditVerified, AuditVerifier};

use crate::{App, AppError, Result};
pub(crate) use chain::Signer;
use refusals::Refusals;

/// Lines that wait to be written. As many requests as are worked on at a time, and room for duties.
const PENDING_MAX: usize = 8192;
/// Of servers that write at once one wins a round; with more rounds lost than this, something else is wrong.
const ROUNDS_MAX: u32 = 50;
const ROUND_PAUSE: Duration = Duration::from_millis(5);
/// While the store is away, a line is tried again this often before the request ends without it.
const OUTAGE_TRIES: u32 = 10;
const OUTAGE_PAUSE: Duration = Duration::from_millis(300);

/// What was not written yet, and where the chain was when this server wrote last.
pub(crate) struct AuditLog {
    pending: Mutex<Vec<Pending>>,
    /// Whoever holds it writes. `None`: the head is to be read.
    head: tokio::sync::Mutex<Option<AuditPlace>>,
    refusals: Refusals,
}

struct Pending {
    at: Timestamp,
    event: AuditEvent,
    written: oneshot::Sender<Result<()>>,
}

impl AuditLog {
    pub(crate) fn new() -> Self {
        Self { pending: Mutex::default(), head: tokio::sync::Mutex::default(), refusals: Refusals::default() }
    }
}

impl App {
    /// Writes a line, and returns when it is durable. It is written even if the caller goes away.
    pub async fn record(&self, event: AuditEvent) -> Result<()> {
        let (written, is_written) = oneshot::channel();
        {
            let mut pending = self.0.audit.pending.lock().unwrap_or_else(PoisonError::into_inner);
            if pending.len() >= PENDING_MAX {
                let detail = format!("{PENDING_MAX} lines of the audit log wait to be written");
                return Err(AppError::new(ErrorKind::TooManyRequests, detail).hint("try again in a moment"));
            }
            pending.push(Pending { at: self.now(), event, written });
        }
        let app = self.clone();
        tokio::spawn(async move { app.write_audit().await });
        let stopping = || Err(AppError::new(ErrorKind::Unavailable, "the server is stopping"));
        is_written.await.unwrap_or_else(|_| stopping())
    }

    /// Counts a refusal, and writes a line for the first ones of its kind. A flood of them gets a line in each period.
    pub async fn record_refusal(&self, event: AuditEvent) {
        let Some(event) = self.0.audit.refusals.take(event, self.now()) else { return };
        if let Err(error) = self.record(event).await {
            tracing::warn!(%error, "a refusal is missing in the audit log");
        }
    }

    /// Writes the lines of refusals that were only counted and whose period is over.
    pub async fn record_counted_refusals(&self) -> Result<()> {
        for event in self.0.audit.refusals.counted(self.now()) {
            self.record(event).await?;
        }
        Ok(())
    }

    /// Writes what waits. Whoever comes while others write finds its own line written by the next of them.
    async fn write_audit(&self) {
        let mut head = self.0.audit.head.lock().await;
        let batch: Vec<Pending> = {
            let mut pending = self.0.audit.pending.lock().unwrap_or_else(PoisonError::into_inner);
            let count = pending.len().min(AUDIT_ROWS_MAX);
            pending.drain(..count).collect()
        };
        if batch.is_empty() {
            return;
        }
        let events: Vec<(Timestamp, &AuditEvent)> = batch.iter().map(|line| (line.at, &line.event)).collect();
        let result = self.append_audit(&mut head, &events).await;
        for line in batch {
            // Whoever waited may be gone.
            let _ = line.written.send(result.clone());
        }
    }

    async fn append_audit(&self, head: &mut Option<AuditPlace>, events: &[(Timestamp, &AuditEvent)]) -> Result<()> {
        // The last line of each try: an answer may be lost.
        let mut tried: Vec<AuditPlace> = Vec::new();
        let mut outages = 0;
        for round in 0..ROUNDS_MAX {
            let after = match *head {
                Some(head) => Ok(head),
                None => self.0.store.audit_ends().await.map(|ends| ends.head),
            };
            let appended = match after {
                Ok(after) if tried.contains(&after) => Ok(AuditAppended::Done),
                Ok(after) => {
                    let rows = chain::rows(after, events);
                    let last = rows.last().map_or(after, punctual_store::AuditRow::place);
                    tried.push(last);
                    let signature = self.0.keys.now().signing.audit.sign(last);
                    self.0.store.append_audit(AuditBatch { after, rows, signature }).await
                }
                Err(error) => Err(error),
            };
            match appended {
                Ok(AuditAppended::Done) => {
                    *head = tried.last().copied();
                    return Ok(());
                }
                Ok(AuditAppended::Behind(ends)) => {
                    *head = Some(ends.head);
                    tokio::time::sleep(ROUND_PAUSE * (round % 8)).await;
                }
                Err(error) => {
                    *head = None;
                    let error = AppError::from(error);
                    outages += 1;
                    if !error.kind.is_retryable() || outages >= OUTAGE_TRIES {
                        return Err(error);
                    }
                    tokio::time::sleep(OUTAGE_PAUSE).await;
                }
            }
        }
        *head = None;
        Err(AppError::new(ErrorKind::Unavailable, "too many servers write to the audit log at once").hint("try again"))
    }
}
