//! The audit log.

use punctual_api::{AuditExport, AuditExportQuery, AuditList, AuditQuery};

use crate::send::{Repeat, with_query};
use crate::{Client, ClientError};

impl Client {
    /// A page of the audit log, the latest first.
    pub async fn audit(&self, query: &AuditQuery) -> Result<AuditList, ClientError> {
        self.ask(self.get(with_query(self.at(["v1", "audit"]), query)), Repeat::Safe).await
    }

    /// The lines after a number, the oldest first; at most 1000.
    pub async fn export_audit(&self, query: &AuditExportQuery) -> Result<AuditExport, ClientError> {
        self.ask(self.get(with_query(self.at(["v1", "audit", "export"]), query)), Repeat::Safe).await
    }
}
