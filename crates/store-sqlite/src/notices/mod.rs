//! Notices that wait, the rules about them, and what became of them. Notices are written by
//! `transitions`, with what they are about.

mod dispatch;
mod list;
mod readable;
mod rules;

use std::sync::PoisonError;

use async_trait::async_trait;
use punctual_core::{JobId, NamespaceId, TaskId, Timestamp};
use punctual_store::{
    Ailing, DeliveryRow, Dispatch, Dispatched, Notices, Result, RuleChange, RuleDeletion, RuleRow,
    UNREADABLE_NAMED_MAX, WaitingNotice,
};
use rusqlite::Connection;

use self::readable::{Readable, Unreadable};
use crate::SqliteStore;

#[async_trait]
impl Notices for SqliteStore {
    async fn put_rule(&self, row: RuleRow, expected: Option<u32>) -> Result<RuleChange> {
        self.write(1, move |db| rules::put(&db.conn, &row, expected)).await
    }

    async fn delete_rule(&self, namespace: NamespaceId, name: &str, expected: Option<u32>) -> Result<RuleDeletion> {
        let name = name.to_owned();
        self.write(1, move |db| rules::delete(&db.conn, namespace, &name, expected)).await
    }

    async fn rules(&self, namespace: Option<NamespaceId>) -> Result<Vec<RuleRow>> {
        Ok(self.readable_rows(self.shared.owner_reads.read(move |conn| rules::all(conn, namespace)).await?))
    }

    async fn rule(&self, namespace: NamespaceId, name: &str) -> Result<Option<RuleRow>> {
        let name = name.to_owned();
        self.shared.people_reads.read(move |conn| rules::one(conn, namespace, &name)).await
    }

    async fn waiting_notices(&self, limit: usize) -> Result<Vec<WaitingNotice>> {
        Ok(self.readable_rows(self.shared.owner_reads.read(move |conn| list::waiting(conn, limit)).await?))
    }

    async fn dispatch(&self, dispatch: Dispatch) -> Result<Dispatched> {
        let shard_count = self.shared.shard_count;
        let rows = dispatch.taken.len() + dispatch.jobs.len() + dispatch.ailing.len() + dispatch.well.len();
        self.write(rows, move |db| dispatch::run(db, &dispatch, shard_count)).await
    }

    async fn ailing_of(&self, tasks: Vec<TaskId>) -> Result<Vec<Ailing>> {
        Ok(self.readable_rows(self.shared.owner_reads.read(move |conn| list::ailing_of(conn, tasks)).await?))
    }

    async fn ailing(&self, namespace: Option<NamespaceId>, limit: usize) -> Result<Vec<Ailing>> {
        Ok(self.readable_rows(self.shared.people_reads.read(move |conn| list::ailing(conn, namespace, limit)).await?))
    }

    async fn deliveries(
        &self,
        namespace: NamespaceId,
        rule: Option<String>,
        before: Option<(Timestamp, JobId)>,
        limit: usize,
    ) -> Result<Vec<DeliveryRow>> {
        let read = move |conn: &Connection| list::deliveries(conn, namespace, rule.as_deref(), before, limit);
        Ok(self.readable_rows(self.shared.people_reads.read(read).await?))
    }
}

impl SqliteStore {
    /// The log names the others, each once: they are met again and again.
    fn readable_rows<T>(&self, read: Readable<T>) -> Vec<T> {
        let mut named = self.shared.unreadable_reports.lock().unwrap_or_else(PoisonError::into_inner);
        for Unreadable { table, key, error } in read.unreadable {
            if named.len() < UNREADABLE_NAMED_MAX && named.insert((table, key.clone())) {
                tracing::error!(table, key, %error, "a row about notifications cannot be read; it stays and is passed over");
            }
        }
        read.rows
    }
}
