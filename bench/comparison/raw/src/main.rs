//! The ceiling: what bare SQL reaches on this machine, without retries, history or leases.

use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::bail;
use harness::{Job, System, Workload};
use tokio_postgres::{Client, NoTls, Statement};

const SCHEMA: &str = "
    create table job (id bigint generated always as identity primary key, place int not null, claimed_at timestamptz);
    create index job_waiting on job (id) where claimed_at is null";

const CLAIM: &str = "
    update job set claimed_at = now()
    where id = any(array(
        select id from job where claimed_at is null order by id limit 500 for update skip locked))
    returning id, place";

/// As many connections as the largest number of clients in any workload.
const CONNECTIONS: usize = 64;

struct Connection {
    client: Client,
    insert: Statement,
    insert_many: Statement,
}

struct Raw {
    url: String,
    connections: Vec<Connection>,
    next: AtomicUsize,
}

async fn connect(url: &str) -> anyhow::Result<Client> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

impl Raw {
    fn connection(&self) -> &Connection {
        &self.connections[self.next.fetch_add(1, Ordering::Relaxed) % CONNECTIONS]
    }
}

impl System for Raw {
    fn settings(workload: Workload) -> &'static str {
        match workload {
            Workload::Drain => "claim of 500 with SKIP LOCKED, then delete; one connection",
            Workload::SubmitBulk => "insert from unnest, 4 connections",
            _ => "single insert, one connection for each client",
        }
    }

    async fn open(url: &str, workload: Workload) -> anyhow::Result<Self> {
        if matches!(workload, Workload::Pickup | Workload::Precision) {
            bail!("the ceiling has no such workload");
        }
        connect(url).await?.batch_execute(SCHEMA).await?;
        let mut connections = Vec::new();
        for _ in 0..CONNECTIONS {
            let client = connect(url).await?;
            let insert = client.prepare("insert into job (place) values ($1)").await?;
            let insert_many = client.prepare("insert into job (place) select unnest($1::int[])").await?;
            connections.push(Connection { client, insert, insert_many });
        }
        Ok(Self { url: url.to_owned(), connections, next: AtomicUsize::new(0) })
    }

    async fn submit(&self, job: Job) -> anyhow::Result<()> {
        let connection = self.connection();
        connection.client.execute(&connection.insert, &[&(job.place as i32)]).await?;
        Ok(())
    }

    async fn submit_bulk(&self, jobs: &[Job]) -> anyhow::Result<()> {
        let places: Vec<_> = jobs.iter().map(|job| job.place as i32).collect();
        let connection = self.connection();
        connection.client.execute(&connection.insert_many, &[&places]).await?;
        Ok(())
    }

    async fn work(&self) -> anyhow::Result<()> {
        let client = connect(&self.url).await?;
        tokio::spawn(async move {
            let claim = client.prepare(CLAIM).await?;
            let delete = client.prepare("delete from job where id = any($1)").await?;
            loop {
                let rows = client.query(&claim, &[]).await?;
                if rows.is_empty() {
                    return anyhow::Ok(());
                }
                for row in &rows {
                    harness::started(row.get::<_, i32>(1) as u32);
                }
                let ids: Vec<i64> = rows.iter().map(|row| row.get(0)).collect();
                client.execute(&delete, &[&ids]).await?;
            }
        });
        Ok(())
    }

    async fn unfinished(&self) -> anyhow::Result<u64> {
        let row = self.connection().client.query_one("select count(*) from job", &[]).await?;
        Ok(row.get::<_, i64>(0) as u64)
    }
}

fn main() -> anyhow::Result<()> {
    harness::main::<Raw>()
}
