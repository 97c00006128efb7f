//! Keeps this server's view of its peers current: which servers workers are told of, and task definitions that were
//! changed at another server.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use punctual_app::{App, Peer};
use punctual_engine::Cluster;
use tokio::sync::watch;

use crate::{Context, Duty, Next, TickError};

/// How often task definitions are read that a peer may have changed.
const TASKS_EVERY: Duration = Duration::from_secs(5);
/// The cluster wakes the duty when it changes; this is for what a change might miss.
const SERVERS_EVERY: Duration = Duration::from_secs(5);

/// Tells workers which servers there are, and operators when two servers have the same address.
pub struct ServerList {
    app: App,
    cluster: watch::Receiver<Arc<Cluster>>,
    same_address: Option<Peer>,
}

impl ServerList {
    pub fn new(context: &Context) -> Self {
        Self { app: context.app.clone(), cluster: context.engine.cluster(), same_address: None }
    }
}

#[async_trait]
impl Duty for ServerList {
    fn name(&self) -> &'static str {
        "server-list"
    }

    fn lease(&self) -> Option<&'static str> {
        None
    }

    async fn wake(&mut self) {
        if self.cluster.changed().await.is_err() {
            // The engine has stopped: there is no more news.
            std::future::pending::<()>().await;
        }
    }

    async fn tick(&mut self) -> Result<Next, TickError> {
        self.cluster.mark_unchanged();
        self.app.announce_servers();
        let found = self.app.same_address();
        if found != self.same_address {
            match &found {
                Some(other) => tracing::error!(
                    other = %other.id,
                    address = other.address,
                    "another server has the same address: workers reach only one of them, and jobs of the other wait; \
                     give each server an `advertise` address of its own"
                ),
                None => tracing::info!("no other server has this server's address any more"),
            }
            self.same_address = found;
        }
        Ok(Next::After(SERVERS_EVERY))
    }
}

/// How often it is looked whether jobs lack workers. Answered from memory, and workers for what is due in a few seconds are
/// asked for ahead.
const WORKERS_EVERY: Duration = Duration::from_millis(500);

/// Asks other servers for the workers that this server's jobs lack.
pub struct WorkerRequests {
    app: App,
}

impl WorkerRequests {
    pub fn new(context: &Context) -> Self {
        Self { app: context.app.clone() }
    }
}

#[async_trait]
impl Duty for WorkerRequests {
    fn name(&self) -> &'static str {
        "worker-requests"
    }

    fn lease(&self) -> Option<&'static str> {
        None
    }

    async fn tick(&mut self) -> Result<Next, TickError> {
        self.app.request_workers().await?;
        Ok(Next::After(WORKERS_EVERY))
    }
}

/// Reads task definitions again that another server may have changed.
pub struct TaskRefresh {
    app: App,
}

impl TaskRefresh {
    pub fn new(context: &Context) -> Self {
        Self { app: context.app.clone() }
    }
}

#[async_trait]
impl Duty for TaskRefresh {
    fn name(&self) -> &'static str {
        "task-refresh"
    }

    fn lease(&self) -> Option<&'static str> {
        None
    }

    async fn tick(&mut self) -> Result<Next, TickError> {
        self.app.refresh_tasks().await?;
        Ok(Next::After(TASKS_EVERY))
    }
}
