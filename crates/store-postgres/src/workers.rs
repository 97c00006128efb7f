//! Workers that were seen.

use std::collections::BTreeMap;

use async_trait::async_trait;
use punctual_core::{Timestamp, WorkerId};
use punctual_store::{Result, SeenWorker, SeenWorkers};
use tokio_postgres::Row;

use crate::codec::{self, Read, Uuid};
use crate::{PostgresStore, sql};

#[async_trait]
impl SeenWorkers for PostgresStore {
    async fn keep_workers(&self, workers: Vec<SeenWorker>) -> Result<()> {
        self.open()?;
        // In order and each once: servers must not wait for each other, and a statement changes a row once.
        let mut each: BTreeMap<WorkerId, SeenWorker> = BTreeMap::new();
        for worker in workers {
            each.entry(worker.id).and_modify(|known| join(known, &worker)).or_insert(worker);
        }
        let column = |value: fn(&SeenWorker) -> String| each.values().map(value).collect::<Vec<String>>();
        let ids: Vec<Uuid> = each.keys().map(|id| Uuid::from(*id)).collect();
        let (names, versions) =
            (column(|worker| codec::text(&worker.name)), column(|worker| codec::text(&worker.version)));
        let hosts: Vec<Option<String>> = each.values().map(|worker| worker.host.as_deref().map(codec::text)).collect();
        let first: Vec<i64> = each.values().map(|worker| worker.first_seen_at.as_micros()).collect();
        let last: Vec<i64> = each.values().map(|worker| worker.last_seen_at.as_micros()).collect();
        let left: Vec<Option<i64>> = each.values().map(|worker| worker.left_at.map(Timestamp::as_micros)).collect();
        let conn = self.shared.maintenance.take().await?;
        conn.execute(sql!("keep_workers"), &[&ids, &names, &hosts, &versions, &first, &last, &left]).await?;
        conn.done();
        Ok(())
    }

    async fn workers_by_id(&self, ids: Vec<WorkerId>) -> Result<Vec<SeenWorker>> {
        self.open()?;
        let ids: Vec<Uuid> = ids.into_iter().map(Uuid::from).collect();
        let conn = self.shared.people_reads.take().await?;
        let rows = conn.query(sql!("workers_by_id"), &[&ids]).await?;
        conn.done();
        Ok(rows.iter().map(read_worker).collect::<Read<_>>()?)
    }

    async fn workers_since(&self, since: Timestamp, limit: usize) -> Result<Vec<SeenWorker>> {
        self.open()?;
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let conn = self.shared.people_reads.take().await?;
        let rows = conn.query(sql!("workers_since"), &[&since.as_micros(), &limit]).await?;
        conn.done();
        Ok(rows.iter().map(read_worker).collect::<Read<_>>()?)
    }
}

/// As the statement joins a row with what is told.
fn join(known: &mut SeenWorker, told: &SeenWorker) {
    let (first_seen_at, left_at) = (known.first_seen_at.min(told.first_seen_at), known.left_at.max(told.left_at));
    if told.last_seen_at >= known.last_seen_at {
        *known = told.clone();
    }
    (known.first_seen_at, known.left_at) = (first_seen_at, left_at);
}

fn read_worker(row: &Row) -> Read<SeenWorker> {
    Ok(SeenWorker {
        id: codec::worker_id(row, 0)?,
        name: codec::value(row, 1)?,
        host: codec::value(row, 2)?,
        version: codec::value(row, 3)?,
        first_seen_at: codec::time(row, 4)?,
        last_seen_at: codec::time(row, 5)?,
        left_at: codec::value::<Option<i64>>(row, 6)?.map(Timestamp::saturating_from_micros),
    })
}
