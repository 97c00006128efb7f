//! Who is there and who owns what, as this server knows it. A picture of a moment ago:
//! whoever is asked because of it may say that it is not the owner any more.

use std::sync::Arc;

use punctual_core::{ServerId, ShardId, Span};
use punctual_engine::{Cluster as Picture, Engine, SCHEDULER};
use punctual_store::SeenMember;
use tokio::sync::watch;

use crate::{App, Peer};

/// Where a shard is decided about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Place {
    Here,
    At(Peer),
    /// No server owns it now, or its owner is not known.
    Nowhere,
}

#[derive(Clone)]
pub(crate) struct Cluster {
    engine: Engine,
    picture: watch::Receiver<Arc<Picture>>,
    /// A server that was not seen for this long is not asked.
    lease_ttl: Span,
}

/// Tells when it is worth looking again.
pub(crate) struct Follow(watch::Receiver<Arc<Picture>>);

impl Follow {
    pub(crate) async fn changed(&mut self) {
        if self.0.changed().await.is_err() {
            // The engine has stopped: there is no more news.
            std::future::pending::<()>().await;
        }
    }
}

impl Cluster {
    pub(crate) fn new(engine: Engine, lease_ttl: Span) -> Self {
        let picture = engine.cluster();
        Self { engine, picture, lease_ttl }
    }

    pub(crate) fn follow(&self) -> Follow {
        let mut picture = self.picture.clone();
        picture.mark_unchanged();
        Follow(picture)
    }

    pub(crate) fn place(&self, shard: ShardId) -> Place {
        if self.engine.owned().contains(&shard) {
            return Place::Here;
        }
        let picture = self.picture.borrow();
        match picture.owner_of(shard) {
            Some(owner) => self.place_of(&picture, owner),
            None => Place::Nowhere,
        }
    }

    /// Every server that owns a shard.
    pub(crate) fn owners(&self) -> Vec<Place> {
        let picture = self.picture.borrow();
        let mut owners: Vec<ServerId> =
            picture.leases.iter().filter_map(|lease| picture.owner_of(lease.shard)).collect();
        if !self.engine.owned().is_empty() {
            owners.push(self.engine.server());
        }
        owners.sort_unstable();
        owners.dedup();
        owners.into_iter().map(|owner| self.place_of(&picture, owner)).collect()
    }

    /// Whether nobody can say anything about some shard now.
    pub(crate) fn has_unowned_shards(&self) -> bool {
        let here = self.engine.owned();
        let picture = self.picture.borrow();
        let is_owned = |shard: ShardId| here.contains(&shard) || picture.owner_of(shard).is_some();
        picture.leases.iter().any(|lease| !is_owned(lease.shard))
    }

    /// Every server that workers connect to.
    pub(crate) fn schedulers(&self) -> Vec<Place> {
        let picture = self.picture.borrow();
        let others = self.alive(&picture).filter(|seen| is_scheduler(seen)).map(|seen| Place::At(peer(seen)));
        others.chain([Place::Here]).collect()
    }

    /// Every other server that workers connect to.
    pub(crate) fn scheduler_peers(&self) -> Vec<Peer> {
        self.alive(&self.picture.borrow()).filter(|seen| is_scheduler(seen)).map(peer).collect()
    }

    /// Every other server.
    pub(crate) fn peers(&self) -> Vec<Peer> {
        self.alive(&self.picture.borrow()).map(peer).collect()
    }

    fn same_address(&self) -> Option<Peer> {
        self.picture.borrow().namesake(self.engine.server(), self.lease_ttl).map(peer)
    }

    /// The shards that this server owns.
    pub(crate) fn owned_here(&self) -> Arc<[ShardId]> {
        self.engine.owned()
    }

    /// What workers are told: the servers that they should connect to, this one too.
    fn for_workers(&self) -> Arc<[Peer]> {
        let picture = self.picture.borrow();
        let me = picture.member(self.engine.server());
        let mut servers: Vec<Peer> =
            self.alive(&picture).chain(me).filter(|seen| is_scheduler(seen)).map(peer).collect();
        servers.sort_unstable_by_key(|peer| peer.id);
        servers.into()
    }

    /// Of the server that decides there, if it is known.
    pub(crate) fn address(&self, place: &Place) -> Option<String> {
        match place {
            Place::Here => Some(self.picture.borrow().member(self.engine.server())?.member.address.clone()),
            Place::At(peer) => Some(peer.address.clone()),
            Place::Nowhere => None,
        }
    }

    fn place_of(&self, picture: &Picture, server: ServerId) -> Place {
        if server == self.engine.server() {
            return Place::Here;
        }
        picture.member(server).map_or(Place::Nowhere, |seen| Place::At(peer(seen)))
    }

    fn alive<'a>(&self, picture: &'a Picture) -> impl Iterator<Item = &'a SeenMember> {
        let (me, oldest) = (self.engine.server(), picture.read_at - self.lease_ttl);
        picture.members.iter().filter(move |seen| seen.member.id != me && seen.seen_at > oldest)
    }
}

fn is_scheduler(seen: &SeenMember) -> bool {
    seen.member.roles.iter().any(|role| role == SCHEDULER)
}

fn peer(seen: &SeenMember) -> Peer {
    Peer { id: seen.member.id, address: seen.member.address.clone() }
}

impl App {
    /// The servers of the cluster that are alive, without this one.
    pub fn other_servers(&self) -> Vec<Peer> {
        self.0.cluster.peers()
    }

    /// Another server that is alive and has this server's address.
    pub fn same_address(&self) -> Option<Peer> {
        self.0.cluster.same_address()
    }

    /// Tells workers which servers there are, if that has changed.
    pub fn announce_servers(&self) {
        let now = self.0.cluster.for_workers();
        self.0.announced.send_if_modified(|known| std::mem::replace(known, Arc::clone(&now)) != now);
    }
}
