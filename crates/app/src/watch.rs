//! Changes of jobs from all servers, for those who follow them here.
//!
//! The streams of peers are open only while somebody follows. All followers share them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use futures_util::StreamExt;
use punctual_core::ServerId;
use punctual_core::namespace::NamespaceId;
use punctual_core::shard::event::Change;
use punctual_engine::Engine;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{broadcast, mpsc, watch};
use tokio::task::{AbortHandle, JoinSet};

use crate::cluster::Cluster;
use crate::principal::By;
use crate::principal::permission::ViewJobs;
use crate::{App, Heard, Peer, Peers};

/// Changes that a slow follower may be behind before it is told that it missed some.
const BACKLOG_MAX: usize = 4096;
/// A peer that has not opened its stream by then is followed later.
const OPEN_LIMIT: Duration = Duration::from_secs(1);
const AGAIN_MIN: Duration = Duration::from_millis(100);
const AGAIN_MAX: Duration = Duration::from_secs(3);

/// What one follower hears of the jobs of a namespace. Dropping the last of them closes the streams of peers.
pub struct Changes {
    app: App,
    namespace: NamespaceId,
    heard: broadcast::Receiver<Heard>,
    _feed: Arc<Feed>,
}

impl Changes {
    /// `None` when the server is stopping.
    pub async fn next(&mut self) -> Option<Heard> {
        loop {
            let heard = match self.heard.recv().await {
                Ok(heard) => heard,
                Err(RecvError::Lagged(count)) => Heard::Missed(Some(count)),
                Err(RecvError::Closed) => return None,
            };
            match heard {
                Heard::Change(change) if !self.is_own(&change).await => {}
                // How many they were tells of other namespaces.
                Heard::Missed(Some(_)) if !self.app.0.namespaces.is_single() => return Some(Heard::Missed(None)),
                heard => return Some(heard),
            }
        }
    }

    async fn is_own(&self, change: &Change) -> bool {
        if self.app.0.namespaces.is_single() && self.namespace.is_default() {
            return true;
        }
        match change.namespace {
            Some(namespace) => namespace == self.namespace,
            // Rare: a job that had ended is made eligible again, or settled late.
            None => self.app.namespace_of_job(change.id).await.is_ok_and(|found| found == Some(self.namespace)),
        }
    }
}

struct Feed {
    sender: broadcast::WeakSender<Heard>,
    is_open: watch::Receiver<bool>,
    task: AbortHandle,
}

impl Drop for Feed {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The feed, while somebody follows.
#[derive(Default)]
pub(crate) struct Watching(Mutex<Weak<Feed>>);

impl App {
    /// Changes of the jobs that this server owns, for peers.
    pub fn changes_here(&self) -> punctual_engine::Changes {
        self.0.engine.changes()
    }

    /// Changes from now on: when this returns, those of every peer that answers are followed.
    pub async fn changes(&self, by: &By<ViewJobs>) -> Changes {
        let changes = self.follow_changes(by.namespace());
        let mut is_open = changes._feed.is_open.clone();
        let _ = tokio::time::timeout(OPEN_LIMIT, is_open.wait_for(|is_open| *is_open)).await;
        changes
    }

    fn follow_changes(&self, namespace: NamespaceId) -> Changes {
        let app = self.clone();
        let mut feed = self.0.watching.0.lock().expect("no panic while the lock is held");
        if let Some(known) = feed.upgrade()
            && let Some(sender) = known.sender.upgrade()
        {
            return Changes { app, namespace, heard: sender.subscribe(), _feed: known };
        }
        let (sender, heard) = broadcast::channel(BACKLOG_MAX);
        let (opened, is_open) = watch::channel(false);
        let (engine, cluster, peers) = (self.0.engine.clone(), self.0.cluster.clone(), Arc::clone(&self.0.peers));
        let weak = sender.downgrade();
        let task = tokio::spawn(run(engine, cluster, peers, sender, opened)).abort_handle();
        let new = Arc::new(Feed { sender: weak, is_open, task });
        *feed = Arc::downgrade(&new);
        Changes { app, namespace, heard, _feed: new }
    }
}

/// Passes on what happens here and at every peer, as peers come and go.
async fn run(
    engine: Engine,
    cluster: Cluster,
    peers: Arc<dyn Peers>,
    sender: broadcast::Sender<Heard>,
    opened: watch::Sender<bool>,
) {
    let mut here = engine.changes();
    let mut follow = cluster.follow();
    let mut streams = JoinSet::new();
    let mut followed: HashMap<ServerId, AbortHandle> = HashMap::new();
    let (tried, mut all_tried) = mpsc::channel::<()>(1);
    let mut tried = Some(tried);
    loop {
        let now = cluster.peers();
        followed.retain(|id, stream| {
            let is_kept = now.iter().any(|peer| peer.id == *id);
            if !is_kept {
                stream.abort();
            }
            is_kept
        });
        for peer in now {
            followed.entry(peer.id).or_insert_with(|| {
                streams.spawn(follow_peer(peer.clone(), Arc::clone(&peers), sender.clone(), tried.clone()))
            });
        }
        tried = None;
        let mut is_over = false;
        while !is_over {
            tokio::select! {
                change = here.recv() => {
                    let heard = match change {
                        Ok(change) => Heard::Change(change),
                        Err(RecvError::Lagged(count)) => Heard::Missed(Some(count)),
                        Err(RecvError::Closed) => return,
                    };
                    let _ = sender.send(heard);
                }
                _ = all_tried.recv(), if !*opened.borrow() => {
                    let _ = opened.send(true);
                }
                () = follow.changed() => is_over = true,
                // Ended ones are tidied away.
                Some(_) = streams.join_next(), if !streams.is_empty() => {}
            }
        }
    }
}

/// Follows one peer until it leaves; a broken connection is told and made again.
async fn follow_peer(
    peer: Peer,
    peers: Arc<dyn Peers>,
    sender: broadcast::Sender<Heard>,
    tried: Option<mpsc::Sender<()>>,
) {
    let mut tried = tried;
    let mut wait = AGAIN_MIN;
    loop {
        let stream = peers.watch(&peer).await;
        tried = tried.and(None);
        match stream {
            Ok(mut changes) => {
                wait = AGAIN_MIN;
                while let Some(heard) = changes.next().await {
                    let _ = sender.send(heard);
                }
                tracing::debug!(peer = %peer.id, "the changes of a peer are not heard any more");
            }
            Err(error) => tracing::debug!(%error, "a peer cannot be followed"),
        }
        let _ = sender.send(Heard::Missed(None));
        tokio::time::sleep(wait).await;
        wait = (wait * 2).min(AGAIN_MAX);
    }
}
