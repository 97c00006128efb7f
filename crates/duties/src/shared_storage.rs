//! Whether all servers see the same storage. A folder may belong to one machine, or to one server: nobody else could read
//! what was archived there. So each server that has peers leaves a marker in its storage, and logs are archived only
//! where the markers of all servers are.

use std::time::Duration;

use async_trait::async_trait;
use futures_util::stream;
use punctual_app::App;
use punctual_blobs::{Blobs, Key, Result, ServedBy};
use punctual_core::ServerId;
use tokio::time::Instant;

use crate::{Context, Duty, Next, TickError};

const FOLDER: &str = "servers";
/// How soon a server that has its first peer leaves its marker.
const EVERY: Duration = Duration::from_secs(2);
/// How often a marker that was left is looked up, in case somebody deleted it.
const CHECK_EVERY: Duration = Duration::from_secs(60);
/// A server that has just joined has this long to leave its marker.
const JOIN_WITHIN: Duration = Duration::from_secs(30);
/// Keys in one page.
const PAGE: usize = 1000;

/// The markers of servers in this server's storage.
#[derive(Clone)]
pub(crate) struct SharedStorage {
    app: App,
    blobs: Blobs,
    server: ServerId,
    /// Since when markers are missing, and whether the log says so.
    missing: Option<(Instant, bool)>,
}

impl SharedStorage {
    pub(crate) fn new(context: &Context) -> Self {
        Self { app: context.app.clone(), blobs: context.blobs.clone(), server: context.engine.server(), missing: None }
    }

    /// Whether all servers can read what is written to the storage now.
    pub(crate) async fn is_shared(&mut self) -> Result<bool> {
        let Some(server) = self.first_missing().await? else {
            self.missing = None;
            return Ok(true);
        };
        let (since, was_logged) = *self.missing.get_or_insert((Instant::now(), false));
        if !was_logged && since.elapsed() > JOIN_WITHIN {
            tracing::warn!(
                %server,
                "logs stay in the database: that server does not see the storage of this one; \
                 give all of them the same `storage`, a folder that they share or a bucket"
            );
            self.missing = Some((since, true));
        }
        Ok(false)
    }

    /// Removes the markers of servers that are gone. A server whose marker is removed by mistake leaves it again.
    pub(crate) async fn sweep(&self) -> Result<usize> {
        let folder = Key::new(FOLDER).expect("a word is a key");
        let peers = self.app.other_servers();
        let mut removed = 0;
        for found in self.blobs.list(&folder, None, PAGE).await? {
            let Ok(server) = found.key.name().parse::<ServerId>() else { continue };
            if server != self.server && !peers.iter().any(|peer| peer.id == server) {
                self.blobs.delete(&found.key).await?;
                removed += 1;
            }
        }
        Ok(removed)
    }

    /// A bucket is the same for all servers, and a single server shares with nobody.
    fn needs_markers(&self) -> bool {
        self.blobs.served_by() == ServedBy::Server && !self.app.other_servers().is_empty()
    }

    /// A server whose marker is not in this server's storage.
    async fn first_missing(&self) -> Result<Option<ServerId>> {
        if self.needs_markers() {
            for peer in self.app.other_servers() {
                if self.blobs.head(&marker_of(peer.id)).await?.is_none() {
                    return Ok(Some(peer.id));
                }
            }
        }
        Ok(None)
    }
}

fn marker_of(server: ServerId) -> Key {
    Key::new(format!("{FOLDER}/{server}")).expect("ids are words of a key")
}

/// Leaves this server's marker in its storage.
pub struct StorageMarker {
    storage: SharedStorage,
    checked_at: Option<Instant>,
}

impl StorageMarker {
    pub fn new(context: &Context) -> Self {
        Self { storage: SharedStorage::new(context), checked_at: None }
    }
}

#[async_trait]
impl Duty for StorageMarker {
    fn name(&self) -> &'static str {
        "storage-marker"
    }

    fn lease(&self) -> Option<&'static str> {
        None
    }

    async fn tick(&mut self) -> std::result::Result<Next, TickError> {
        let is_known = self.checked_at.is_some_and(|at| at.elapsed() < CHECK_EVERY);
        if !is_known && self.storage.needs_markers() {
            let SharedStorage { blobs, server, .. } = &self.storage;
            let key = marker_of(*server);
            if blobs.head(&key).await?.is_none() {
                blobs.put(&key, 0, stream::iter([])).await?;
            }
            self.checked_at = Some(Instant::now());
        }
        Ok(Next::After(EVERY))
    }
}
