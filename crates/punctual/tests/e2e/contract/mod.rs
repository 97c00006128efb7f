//! The REST interface with a real server and a real worker. Every answer is held
//! against the OpenAPI document that the same server serves.

mod commands;
mod conditions;
mod jobs;
mod keys;
mod lists;
mod logs;
mod shapes;
mod submissions;
mod tasks;
mod tour;

use serde_json::{Value, json};

use crate::checked::Checked;
use crate::harness::{Home, Process, Server, eventually};

/// Later than any test runs.
const FAR: &str = "2099-01-01T00:00:00Z";

/// A server, a client that judges it, and where asked for a worker.
struct World {
    api: Checked,
    worker: Option<Process>,
    server: Server,
    home: Home,
}

impl World {
    /// Nothing runs in it.
    async fn idle() -> Self {
        let home = Home::new();
        let server = home.server();
        Self { api: Checked::new(&server).await, worker: None, server, home }
    }

    async fn working() -> Self {
        let mut world = Self::idle().await;
        world.start_worker().await;
        world
    }

    async fn start_worker(&mut self) {
        self.worker = Some(self.home.worker(&self.server, &["--queues", "default,other"]));
        eventually("the worker connects", || async { self.api.get("/v1/stats").await.body["workers"] == json!(1) })
            .await;
    }
}

fn probe(settings: Value) -> Value {
    json!({ "run": { "probe": settings } })
}

/// A one-off job that sleeps for so long.
fn sleeper(sleep: &str) -> Value {
    json!({ "inline": probe(json!({ "sleep": sleep })) })
}

/// A one-off job that nobody runs until it is asked for.
fn far_future() -> Value {
    json!({ "inline": probe(json!({})), "run_at": FAR })
}
