//! Whether all servers see the same storage. A folder may be one machine's, or one server's alone: what was archived
//! there, nobody else could read. So each server that has peers leaves a sign in its storage, and logs are archived
//! only where the signs of all of them are.

use std::time::Duration;

use futures_util::stream;
use punctual_blobs::{Key, Result, ServedBy};
use punctual_core::ServerId;
use tokio::time::Instant;

use crate::App;

const FOLDER: &str = "servers";
/// A sign is looked after so often.
const SIGN_EVERY: Duration = Duration::from_secs(60);
/// A server that has just come has so long to leave its sign.
const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Default)]
pub(super) struct Sharing {
    signed_at: Option<Instant>,
    /// Since when signs are missing, and whether that was said.
    apart: Option<(Instant, bool)>,
}

impl Sharing {
    /// Whether what is written to the storage now can be read by all.
    pub(super) async fn is_shared(&mut self, app: &App) -> Result<bool> {
        let Some(missing) = app.strangers().await?.first().copied() else {
            self.apart = None;
            return Ok(true);
        };
        let (since, was_said) = *self.apart.get_or_insert((Instant::now(), false));
        if !was_said && since.elapsed() > PATIENCE {
            tracing::warn!(
                server = %missing,
                "logs stay in the database: that server does not see the storage of this one; \
                 give all of them the same `storage`, a folder that they share or a bucket"
            );
            self.apart = Some((since, true));
        }
        Ok(false)
    }

    pub(super) async fn sign(&mut self, app: &App) -> Result<()> {
        if self.signed_at.is_some_and(|at| at.elapsed() < SIGN_EVERY) || !app.needs_signs() {
            return Ok(());
        }
        let key = sign_of(app.0.engine.server());
        if app.0.blobs.head(&key).await?.is_none() {
            app.0.blobs.put(&key, 0, stream::iter([])).await?;
        }
        self.signed_at = Some(Instant::now());
        Ok(())
    }
}

fn sign_of(server: ServerId) -> Key {
    Key::new(format!("{FOLDER}/{server}")).expect("ids are words of a key")
}

impl App {
    /// A bucket is the same for all.
    fn needs_signs(&self) -> bool {
        self.0.blobs.served_by() == ServedBy::Server && !self.0.cluster.peers().is_empty()
    }

    /// Servers whose signs are not in this server's storage.
    async fn strangers(&self) -> Result<Vec<ServerId>> {
        let mut strangers = Vec::new();
        if self.needs_signs() {
            for peer in self.0.cluster.peers() {
                if self.0.blobs.head(&sign_of(peer.id)).await?.is_none() {
                    strangers.push(peer.id);
                }
            }
        }
        Ok(strangers)
    }

    /// Signs of servers that are gone. One that is removed by mistake is left again.
    pub(super) async fn sweep_signs(&self) -> Result<usize> {
        let folder = Key::new(FOLDER).expect("a word is a key");
        let peers = self.0.cluster.peers();
        let mut swept = 0;
        for found in self.0.blobs.list(&folder, None, super::archive::SWEEP_PAGE).await? {
            let Ok(server) = found.key.name().parse::<ServerId>() else { continue };
            if server != self.0.engine.server() && !peers.iter().any(|peer| peer.id == server) {
                self.0.blobs.delete(&found.key).await?;
                swept += 1;
            }
        }
        Ok(swept)
    }
}
