//! Removes old lines. What goes is noted in the log first, so that a begin that nobody noted shows.

use punctual_api::AuditLine;
use punctual_core::{Timestamp, hex};
use punctual_store::{AUDIT_ROWS_MAX, AuditPlace, Order};

use super::AuditEvent;
use crate::principal::{Principal, PrincipalKind};
use crate::{App, Result};

const ACTION: &str = "trim_audit";

impl App {
    /// Removes lines that are older than `before`, some at a time; the answer is how many went.
    pub async fn trim_audit(&self, before: Timestamp) -> Result<usize> {
        let rows = self.0.store.audit_rows(None, Order::Ascending, AUDIT_ROWS_MAX).await?;
        let Some(last) = rows.iter().take_while(|row| row.at < before).last() else { return Ok(0) };
        let by = Principal::new(PrincipalKind::Server, "server", punctual_core::access::Rights::NONE);
        let noted = format!("{} {}", last.seq, hex::encode(last.hash));
        self.record(AuditEvent::new(&by, ACTION, AuditEvent::DONE).object(Some(&noted))).await?;
        Ok(self.0.store.trim_audit(last.place()).await?)
    }
}

/// The place up to which a line says that others were removed.
pub(super) fn noted(line: &AuditLine) -> Option<AuditPlace> {
    if line.action != ACTION || line.kind != PrincipalKind::Server.name() {
        return None;
    }
    let (seq, hash) = line.object.as_deref()?.split_once(' ')?;
    Some(AuditPlace { seq: seq.parse().ok()?, hash: hex::decode(hash)? })
}
