//! Several servers on one PostgreSQL behave as one.

mod address;
mod commands;
mod database;
mod few_connections;
mod follow;
mod migrate;
mod peers;
mod queues;
mod quotas;
mod roles;
mod running_quotas;
mod schedules;
mod tenants;

use std::collections::BTreeSet;

use punctual_api::{Job, JobRequest, ServerList};
use punctual_client::{Client, Waited};
use punctual_core::task::{Probe, Run, TaskSpec};
use punctual_core::{JobId, Span, Timestamp};

use crate::harness::{Home, PATIENCE, Process, Server, eventually};

/// Short, so that a takeover does not take the time of the tests.
pub(crate) const LEASE: &str = "2s";

/// A database and the servers on it.
pub(crate) struct Cluster {
    pub(crate) home: Home,
    pub(crate) database: String,
}

impl Cluster {
    /// A new database on the PostgreSQL that all tests share.
    pub(crate) fn new() -> Self {
        let home = Home::new();
        let name = home.path().file_name().and_then(|name| name.to_str()).expect("the folder has a name");
        let name: String =
            name.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '_' }).collect();
        let database = punctual_local_postgres::shared().create_database(&name).expect("a database for this test");
        Self { home, database }
    }

    pub(crate) fn server(&self, flags: &[&str]) -> Server {
        let flags = [&["--lease-ttl", LEASE], flags].concat();
        // In the environment: the address holds a password.
        self.home.server_with("127.0.0.1:0", &flags, &[("PUNCTUAL_DATABASE", &self.database)])
    }

    /// Two servers that share the shards.
    pub(crate) async fn pair(&self) -> [Server; 2] {
        let servers = [self.server(&[]), self.server(&[])];
        balanced(&servers[0].client(), 2).await;
        servers
    }

    pub(crate) fn worker(&self, server: &Server) -> Process {
        self.home.worker(server, &[])
    }
}

/// Waits until so many servers own a share of the shards, and all shards are owned.
pub(crate) async fn balanced(client: &Client, servers: usize) {
    eventually("the shards are shared", || async {
        let Ok(list) = client.servers().await else { return false };
        let owners = list.servers.iter().filter(|server| !server.shards.is_empty()).count();
        owners == servers && list.shards_unowned.is_empty()
    })
    .await;
}

pub(crate) fn probe(probe: Probe) -> JobRequest {
    JobRequest { inline: Some(TaskSpec::new(Run::Probe(probe))), ..JobRequest::default() }
}

pub(crate) fn sleeper(span: Span) -> JobRequest {
    probe(Probe { sleep: span, ..Probe::default() })
}

/// A job that is not due while a test runs.
pub(crate) fn far_ahead() -> JobRequest {
    let run_at = Timestamp::parse("2199-01-01T00:00:00Z").expect("a time");
    JobRequest { run_at: Some(run_at), ..probe(Probe::default()) }
}

pub(crate) async fn submit(client: &Client, request: &JobRequest) -> JobId {
    client.submit(request).await.expect("it is accepted").id
}

pub(crate) async fn finished(client: &Client, id: JobId) -> Job {
    match client.wait_finished(id, Some(PATIENCE)).await.expect("the job is there") {
        Waited::Finished(job) => *job,
        Waited::Pending(job) => panic!("it did not finish: {job:#?}"),
    }
}

/// The shards of the server that a client talks to.
pub(crate) fn own_shards(list: &ServerList) -> BTreeSet<u16> {
    let own = list.servers.iter().find(|server| server.answered).expect("one of them answered");
    own.shards.iter().map(|owned| owned.shard).collect()
}
