//! Notices that wait, the rules for them, and what became of them. Written by the owner's batches; see
//! transitions/notices.rs.

mod list;
mod readable;

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};

use async_trait::async_trait;
use punctual_core::{JobId, NamespaceId, TaskId, Timestamp};
use punctual_store::{
    Ailing, DeliveryRow, Dispatch, Dispatched, Notices, RULES_MAX, RULES_OF_ALL_MAX, Result, RuleChange, RuleDeletion,
    RuleRow, RuleUpdate, StoreError, UNREADABLE_NAMED_MAX, WaitingNotice,
};

use tokio_postgres::types::ToSql;

use self::readable::{Readable, Unreadable};
use crate::codec::{self, Uuid, namespace_number, rows_max};
use crate::connection::Conn;
use crate::jobs::store_within;
use crate::retention::SMALL_ROWS_MAX;
use crate::trouble::Trouble;
use crate::{PostgresStore, sql};

type Done<T> = std::result::Result<T, Trouble>;

#[async_trait]
impl Notices for PostgresStore {
    async fn put_rule(&self, row: RuleRow, expected: Option<u32>) -> Result<RuleChange> {
        self.open()?;
        let conn = self.shared.people_reads.take().await?;
        let change = put_rule(&conn, &row, expected).await;
        if !matches!(change, Ok(RuleChange::Done { .. })) {
            conn.run("ROLLBACK").await?;
        }
        conn.done();
        Ok(change?)
    }

    async fn delete_rule(&self, namespace: NamespaceId, name: &str, expected: Option<u32>) -> Result<RuleDeletion> {
        self.open()?;
        let conn = self.shared.people_reads.take().await?;
        let (name, namespace) = (codec::text(name), namespace_number(namespace));
        let expected = expected.map(|expected| expected as i32);
        let is_deleted = conn.execute(sql!("delete_rule"), &[&name, &expected, &namespace]).await? == 1;
        let known = match is_deleted {
            true => None,
            false => conn.query_opt(sql!("rule_revision"), &[&name, &namespace]).await?,
        };
        conn.done();
        match known {
            Some(row) => Ok(RuleDeletion::Conflict { revision: codec::value::<i32>(&row, 0)? as u32 }),
            None if is_deleted => Ok(RuleDeletion::Done),
            None => Ok(RuleDeletion::Absent),
        }
    }

    async fn rules(&self, namespace: Option<NamespaceId>) -> Result<Vec<RuleRow>> {
        self.open()?;
        let conn = self.shared.owner_reads.take().await?;
        let rules = list::rules(&conn, namespace).await?;
        conn.done();
        Ok(self.readable_rows(rules))
    }

    async fn rule(&self, namespace: NamespaceId, name: &str) -> Result<Option<RuleRow>> {
        self.open()?;
        let conn = self.shared.people_reads.take().await?;
        let row = conn.query_opt(sql!("rule"), &[&codec::text(name), &namespace_number(namespace)]).await?;
        conn.done();
        Ok(row.as_ref().map(list::read_rule).transpose()?)
    }

    async fn waiting_notices(&self, limit: usize) -> Result<Vec<WaitingNotice>> {
        self.open()?;
        let conn = self.shared.owner_reads.take().await?;
        let notices = list::waiting(&conn, limit).await?;
        conn.done();
        Ok(self.readable_rows(notices))
    }

    async fn dispatch(&self, dispatch: Dispatch) -> Result<Dispatched> {
        self.open()?;
        let conn = self.shared.steps.take().await?;
        let dispatched = run_dispatch(conn.shared(), self.shared.shard_count, dispatch).await;
        if !matches!(dispatched, Ok(Dispatched::Done)) {
            conn.run("ROLLBACK").await?;
        }
        conn.done();
        Ok(dispatched?)
    }

    async fn ailing_of(&self, tasks: Vec<TaskId>) -> Result<Vec<Ailing>> {
        self.open()?;
        let conn = self.shared.owner_reads.take().await?;
        let ailing = list::ailing_of(&conn, tasks).await?;
        conn.done();
        Ok(self.readable_rows(ailing))
    }

    async fn ailing(&self, namespace: Option<NamespaceId>, limit: usize) -> Result<Vec<Ailing>> {
        self.open()?;
        let conn = self.shared.people_reads.take().await?;
        let ailing = list::ailing(&conn, namespace, limit).await?;
        conn.done();
        Ok(self.readable_rows(ailing))
    }

    async fn deliveries(
        &self,
        namespace: NamespaceId,
        rule: Option<String>,
        before: Option<(Timestamp, JobId)>,
        limit: usize,
    ) -> Result<Vec<DeliveryRow>> {
        self.open()?;
        let conn = self.shared.people_reads.take().await?;
        let deliveries = list::deliveries(&conn, namespace, rule, before, limit).await?;
        conn.done();
        Ok(self.readable_rows(deliveries))
    }
}

impl PostgresStore {
    /// The log names the others, each once: they are met again and again.
    fn readable_rows<T>(&self, read: Readable<T>) -> Vec<T> {
        let mut named = self.shared.unreadable_reports.lock().unwrap_or_else(PoisonError::into_inner);
        for Unreadable { table, key, error } in read.unreadable {
            if named.len() < UNREADABLE_NAMED_MAX && named.insert((table, key.clone())) {
                let error = StoreError::from(error);
                tracing::error!(table, key, %error, "a row about notifications cannot be read; it stays and is passed over");
            }
        }
        read.rows
    }
}

/// In a transaction, to be rolled back unless it is done.
async fn put_rule(conn: &Conn, row: &RuleRow, expected: Option<u32>) -> Done<RuleChange> {
    let (name, spec) = (codec::text(&row.name), codec::text(&row.spec));
    let namespace = namespace_number(row.namespace);
    let (at, who) = (row.changed.at.as_micros(), codec::text(&row.changed.who));
    conn.run("BEGIN").await?;
    conn.query(sql!("lock_count"), &[&"rules"]).await?;
    let known = conn.query_opt(sql!("rule_revision"), &[&name, &namespace]).await?;
    let revision = known.as_ref().map(|row| codec::value::<i32>(row, 0)).transpose()?.unwrap_or(0) as u32;
    if expected.is_some_and(|expected| expected != revision) {
        return Ok(RuleChange::Conflict { revision });
    }
    let next = revision + 1;
    let changed = match known {
        Some(_) => conn.execute(sql!("update_rule"), &[&name, &spec, &at, &who, &(next as i32), &namespace]).await?,
        None => {
            let (most, version) = (rows_max(RULES_MAX), row.version as i64);
            let most_of_all = rows_max(RULES_OF_ALL_MAX);
            let row: [&(dyn ToSql + Sync); 8] = [&name, &spec, &at, &who, &most, &version, &namespace, &most_of_all];
            conn.execute(sql!("insert_rule"), &row).await?
        }
    };
    if changed == 0 {
        return Ok(RuleChange::Full);
    }
    conn.run("COMMIT").await?;
    Ok(RuleChange::Done { revision: next })
}

/// In a transaction, to be rolled back unless it is done. Tables are always written in the same order, and so are the rows of
/// each table, so that one of two dispatches at once waits for the other.
async fn run_dispatch(conn: &Arc<Conn>, shard_count: u16, dispatch: Dispatch) -> Done<Dispatched> {
    let Dispatch { taken, rules, ailing, well, deliveries, jobs } = dispatch;
    conn.run("BEGIN").await?;
    if !take_notices(conn, taken).await? || !update_rules(conn, rules).await? {
        return Ok(Dispatched::Conflict);
    }
    keep_ailing(conn, ailing).await?;
    forget_ailing(conn, well).await?;
    keep_deliveries(conn, &deliveries).await?;
    store_within(conn, shard_count, &jobs).await?;
    conn.run("COMMIT").await?;
    Ok(Dispatched::Done)
}

/// False if one was not there.
async fn take_notices(conn: &Conn, mut taken: Vec<i64>) -> Done<bool> {
    taken.sort_unstable();
    taken.dedup();
    Ok(taken.is_empty() || conn.execute(sql!("take_notices"), &[&taken]).await? == taken.len() as u64)
}

/// False if one has another version.
async fn update_rules(conn: &Conn, mut rules: Vec<RuleUpdate>) -> Done<bool> {
    if rules.is_empty() {
        return Ok(true);
    }
    rules.sort_by(|one, other| (one.namespace, &one.name).cmp(&(other.namespace, &other.name)));
    let names: Vec<String> = rules.iter().map(|rule| codec::text(&rule.name)).collect();
    let versions: Vec<i64> = rules.iter().map(|rule| rule.version as i64).collect();
    let states: Vec<Option<String>> = rules.iter().map(|rule| rule.state.as_deref().map(codec::text)).collect();
    let namespaces: Vec<i32> = rules.iter().map(|rule| namespace_number(rule.namespace)).collect();
    Ok(conn.execute(sql!("update_rules"), &[&names, &versions, &states, &namespaces]).await? == rules.len() as u64)
}

async fn keep_ailing(conn: &Conn, ailing: Vec<Ailing>) -> Done<()> {
    if ailing.is_empty() {
        return Ok(());
    }
    // Each task once: the last counts.
    let by_task: BTreeMap<TaskId, Ailing> = ailing.into_iter().map(|ailing| (ailing.task, ailing)).collect();
    let tasks: Vec<Uuid> = by_task.keys().map(|task| Uuid::from(*task)).collect();
    let since: Vec<i64> = by_task.values().map(|ailing| ailing.since.as_micros()).collect();
    let last: Vec<i64> = by_task.values().map(|ailing| ailing.last.as_micros()).collect();
    let failures: Vec<i32> = by_task.values().map(|ailing| ailing.failures as i32).collect();
    conn.execute(sql!("keep_ailing"), &[&tasks, &since, &last, &failures]).await?;
    Ok(())
}

async fn forget_ailing(conn: &Conn, mut well: Vec<TaskId>) -> Done<()> {
    if well.is_empty() {
        return Ok(());
    }
    well.sort_unstable();
    let tasks: Vec<Uuid> = well.into_iter().map(Uuid::from).collect();
    conn.execute(sql!("forget_ailing"), &[&tasks]).await?;
    Ok(())
}

async fn keep_deliveries(conn: &Conn, deliveries: &[DeliveryRow]) -> Done<()> {
    if deliveries.is_empty() {
        return Ok(());
    }
    let rules: Vec<String> = deliveries.iter().map(|row| codec::text(&row.rule)).collect();
    let at: Vec<i64> = deliveries.iter().map(|row| row.at.as_micros()).collect();
    let jobs: Vec<Uuid> = deliveries.iter().map(|row| Uuid::from(row.job)).collect();
    let events: Vec<i32> = deliveries.iter().map(|row| row.events as i32).collect();
    let summaries: Vec<String> = deliveries.iter().map(|row| codec::text(&row.summary)).collect();
    let namespaces: Vec<i32> = deliveries.iter().map(|row| namespace_number(row.namespace)).collect();
    conn.execute(sql!("keep_deliveries"), &[&rules, &at, &jobs, &events, &summaries, &namespaces]).await?;
    Ok(())
}

/// Answers whether there is more.
pub(crate) async fn prune(conn: &Conn, before: Timestamp) -> Done<bool> {
    let mut rest = false;
    for text in [sql!("prune_deliveries"), sql!("prune_ailing")] {
        rest |= conn.execute(text, &[&before.as_micros(), &SMALL_ROWS_MAX]).await? == SMALL_ROWS_MAX.unsigned_abs();
    }
    Ok(rest)
}
