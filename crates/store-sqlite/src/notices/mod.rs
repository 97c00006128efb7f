//! Notices that wait, the rules about them, and what became of them. Notices are written by
//! `transitions`, with what they are about.

mod dispatch;
mod list;
mod rules;

use async_trait::async_trait;
use punctual_core::{JobId, TaskId, Timestamp};
use punctual_store::{Ailing, DeliveryRow, Dispatch, Dispatched, Notices, Result, RuleChange, RuleRow, WaitingNotice};

use crate::SqliteStore;

#[async_trait]
impl Notices for SqliteStore {
    async fn put_rule(&self, row: RuleRow, expected: Option<u32>) -> Result<RuleChange> {
        self.write(1, move |db| rules::put(&db.conn, &row, expected)).await
    }

    async fn delete_rule(&self, name: &str) -> Result<bool> {
        let name = name.to_owned();
        self.write(1, move |db| rules::delete(&db.conn, &name)).await
    }

    async fn rules(&self) -> Result<Vec<RuleRow>> {
        self.shared.owner_reads.read(rules::all).await
    }

    async fn rule(&self, name: &str) -> Result<Option<RuleRow>> {
        let name = name.to_owned();
        self.shared.people_reads.read(move |conn| rules::one(conn, &name)).await
    }

    async fn waiting_notices(&self, limit: usize) -> Result<Vec<WaitingNotice>> {
        self.shared.owner_reads.read(move |conn| list::waiting(conn, limit)).await
    }

    async fn dispatch(&self, dispatch: Dispatch) -> Result<Dispatched> {
        let shard_count = self.shared.shard_count;
        let rows = dispatch.taken.len() + dispatch.jobs.len() + dispatch.ailing.len() + dispatch.well.len();
        self.write(rows, move |db| dispatch::run(db, &dispatch, shard_count)).await
    }

    async fn ailing_of(&self, tasks: Vec<TaskId>) -> Result<Vec<Ailing>> {
        self.shared.owner_reads.read(move |conn| list::ailing_of(conn, tasks)).await
    }

    async fn ailing(&self, limit: usize) -> Result<Vec<Ailing>> {
        self.shared.people_reads.read(move |conn| list::ailing(conn, limit)).await
    }

    async fn deliveries(
        &self,
        rule: Option<String>,
        before: Option<(Timestamp, JobId)>,
        limit: usize,
    ) -> Result<Vec<DeliveryRow>> {
        self.shared.people_reads.read(move |conn| list::deliveries(conn, rule.as_deref(), before, limit)).await
    }
}
