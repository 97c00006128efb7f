//! Servers and workers on the wire.

use std::collections::BTreeMap;

use punctual_core::{ServerId, Timestamp, WorkerId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::schema;

/// A worker and what it runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct WorkerView {
    #[schema(schema_with = schema::worker_id)]
    pub id: WorkerId,
    pub name: String,
    /// The machine that it runs on.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub host: Option<String>,
    pub version: String,
    /// connected, draining or silent; of one that is gone, left (it said so before) or lost.
    pub state: String,
    /// The namespaces whose jobs it runs. Absent for one that serves all, and for one that is gone.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub namespaces: Option<Vec<String>>,
    pub queues: Vec<String>,
    /// The kinds of tasks that it runs, handlers by name: `http`, `handler:resize`.
    pub capabilities: Vec<String>,
    pub labels: BTreeMap<String, String>,
    pub slots: u32,
    pub running: u32,
    /// The servers that it is connected to.
    #[schema(schema_with = schema::server_ids)]
    #[serde(default)]
    pub servers: Vec<ServerId>,
    #[schema(value_type = String, format = DateTime)]
    pub last_seen_at: Timestamp,
    /// The user that runs commands on the worker's machine, outside of the sandbox, if it runs any.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub commands_as: Option<String>,
}

/// The workers of all servers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct WorkerList {
    /// In order of id; after them those that are gone, the latest first.
    pub workers: Vec<WorkerView>,
}

/// `GET /v1/workers?…`
#[derive(Debug, Clone, Default, Serialize, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct WorkerQuery {
    /// Also workers that were seen in the last day and are gone, at most 100: `lost` (those that left without a word),
    /// `all`, or `none` (the default).
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub gone: Option<String>,
}

impl WorkerView {
    /// Whether it was seen and is not there any more.
    pub fn is_gone(&self) -> bool {
        matches!(self.state.as_str(), "left" | "lost")
    }
}

/// The server that answers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Node {
    #[schema(schema_with = schema::server_id)]
    pub id: ServerId,
    pub version: String,
    /// What it does: api, scheduler.
    pub roles: Vec<String>,
    /// The store and how it writes.
    pub store: String,
    /// The file of the embedded database, on the machine of the server.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub database_file: Option<String>,
    pub shards_total: u16,
    pub shards_owned: u16,
    #[schema(value_type = String, format = DateTime)]
    pub started_at: Timestamp,
    #[schema(value_type = String, format = DateTime)]
    pub now: Timestamp,
    /// The version of its time zone data, and where that comes from.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(example = "version 2026a, from /usr/share/zoneinfo")]
    pub zone_data: Option<String>,
}

/// A server of the cluster.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ServerView {
    #[schema(schema_with = schema::server_id)]
    pub id: ServerId,
    /// Where peers and workers reach it.
    pub address: String,
    pub version: String,
    /// api, scheduler.
    pub roles: Vec<String>,
    /// alive or silent. A silent one loses its shards and is forgotten after a while.
    pub state: String,
    /// This one answered the request.
    pub answered: bool,
    #[schema(value_type = String, format = DateTime)]
    pub started_at: Timestamp,
    #[schema(value_type = String, format = DateTime)]
    pub last_seen_at: Timestamp,
    /// The shards that it owns, in order.
    pub shards: Vec<OwnedShard>,
    /// What it does for all servers.
    pub duties: Vec<HeldDuty>,
    /// Workers that are connected to it. A worker connects to several servers.
    pub workers: u32,
    /// Attempts that run now.
    pub running: u32,
    /// How long the job has waited that waits longest for a connected worker, in microseconds. Jobs that no connected worker
    /// can run are not counted; `GET /v1/overdue` lists them.
    pub lag_us: i64,
    /// Its clock minus the store's, in microseconds, if it told.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub skew_us: Option<i64>,
    /// The version of its time zone data, if it is known.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(example = "2026a")]
    pub zone_data: Option<String>,
}

/// A shard that a server owns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct OwnedShard {
    pub shard: u16,
    /// Grows each time the shard changes hands.
    pub epoch: u64,
}

/// A duty that one server of the cluster holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HeldDuty {
    pub name: String,
    pub epoch: u64,
}

/// The servers of the cluster.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ServerList {
    pub servers: Vec<ServerView>,
    pub shards_total: u16,
    /// Shards that no server owns now: they are being taken over.
    pub shards_unowned: Vec<u16>,
}

/// What this server has done since it started. Counted after the commit.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Stats {
    pub submitted: u64,
    pub started: u64,
    pub succeeded: u64,
    pub failed: u64,
    pub cancelled: u64,
    pub lost: u64,
    pub quarantined: u64,
    pub deleted: u64,
    pub retried: u64,
    /// Attempts that run now.
    pub running: u64,
    /// Jobs in this server's window that are due and wait for a worker.
    pub ready: u64,
    /// Jobs in this server's window that wait for their time.
    pub waiting: u64,
    /// Connected workers.
    pub workers: u64,
    /// Transactions that this server's owner committed.
    pub commits: u64,
    /// CPU time this process has used, in microseconds.
    pub cpu_us: u64,
    pub rss_bytes: u64,
}
