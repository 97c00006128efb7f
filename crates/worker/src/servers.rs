//! The servers that this worker has links to.
//!
//! It starts with those that it was configured with, and follows what servers tell of their
//! peers: a link to every server, and none twice. A link is dropped when nobody tells of its
//! server any more and it cannot be reached; those that were configured are kept for good.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use punctual_core::credits::Expected;
use punctual_exec::Executors;
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};

use crate::attempts::Rules;
use crate::backoff::Backoff;
use crate::credentials::Credentials;
use crate::error::WorkerError;
use crate::ledger::{Ledger, LinkNo, Stage, Survey};
use crate::link::{LOG_BYTES_MAX_DEFAULT, Link, Phase, Profile, Server};
use crate::spool::Spool;
use crate::tasks::Tasks;

/// The list is looked at when a server tells a new one, and so often in any case: whether a
/// server can be reached changes without a word.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// More servers than any cluster has. Others are left out.
const SERVERS_MAX: usize = 256;

/// What every link needs.
pub(crate) struct Parts {
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) profile: Arc<Profile>,
    pub(crate) executors: Executors,
    pub(crate) spool: Option<Arc<Spool>>,
    pub(crate) phase: watch::Receiver<Phase>,
    pub(crate) rules: Rules,
    pub(crate) seed: u64,
    pub(crate) credentials: Arc<Credentials>,
}

/// All servers, for the heartbeat.
pub(crate) type ServerList = watch::Receiver<Arc<[Arc<Server>]>>;

pub(crate) struct Servers {
    parts: Parts,
    links: JoinSet<()>,
    /// By address.
    known: HashMap<String, Known>,
    /// Addresses that servers told of and that this worker does not use. Each is logged once.
    refused: HashSet<String>,
    links_made: u32,
    list: watch::Sender<Arc<[Arc<Server>]>>,
}

struct Known {
    server: Arc<Server>,
    origin: Origin,
    task: AbortHandle,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Origin {
    Configured,
    Announced,
}

impl Servers {
    pub(crate) fn start(parts: Parts, configured: &[String]) -> Result<Self, WorkerError> {
        let list = watch::Sender::new(Arc::default());
        let mut servers =
            Self { parts, links: JoinSet::new(), known: HashMap::new(), refused: HashSet::new(), links_made: 0, list };
        // All at once, so that none is given a share that is meant for another.
        let mut new = Vec::new();
        for url in configured {
            let url = url.trim_end_matches('/');
            if !servers.known.contains_key(url) && !new.iter().any(|server: &Arc<Server>| server.url == url) {
                new.push(servers.make(url)?);
            }
        }
        for server in &new {
            servers.parts.ledger.add_link(server.link, Expected::Yes);
        }
        for server in new {
            servers.connect(server, Origin::Configured);
        }
        servers.publish();
        Ok(servers)
    }

    pub(crate) fn list(&self) -> ServerList {
        self.list.subscribe()
    }

    /// Follows the servers. Ends only when a link does, which is a fault of ours: without its
    /// link a worker would look alive and do nothing.
    pub(crate) async fn follow(&mut self) {
        let ledger = self.parts.ledger.clone();
        loop {
            tokio::select! {
                () = ledger.servers.notified() => {}
                () = tokio::time::sleep(LOOK_EVERY) => {}
                Some(Err(error)) = self.links.join_next() => match error.try_into_panic() {
                    Ok(panic) => std::panic::resume_unwind(panic),
                    // Dropped, by us.
                    Err(_) => continue,
                },
            }
            self.look();
        }
    }

    fn look(&mut self) {
        let survey = self.parts.ledger.survey();
        let dropped = self.drop_gone(&survey);
        let added = self.add_new(&survey);
        if dropped || added {
            self.publish();
        }
    }

    fn add_new(&mut self, survey: &Survey) -> bool {
        let mut added = false;
        for peer in &survey.peers {
            let is_open = |stage: Stage| matches!(stage, Stage::Greeted | Stage::Up);
            let is_linked = |(_, stage, server): &(LinkNo, Stage, _)| is_open(*stage) && *server == Some(peer.server);
            if self.known.contains_key(&peer.address)
                || self.refused.contains(&peer.address)
                || survey.links.iter().any(is_linked)
                || self.known.len() >= SERVERS_MAX
            {
                continue;
            }
            match self.make(&peer.address) {
                Ok(server) => {
                    tracing::info!(server = %server.url, "heard of a server");
                    self.parts.ledger.add_link(server.link, Expected::No);
                    self.connect(server, Origin::Announced);
                    added = true;
                }
                Err(error) => {
                    tracing::warn!(%error, "a server told of an address that this worker does not use");
                    if self.refused.len() < SERVERS_MAX {
                        self.refused.insert(peer.address.clone());
                    }
                }
            }
        }
        added
    }

    fn drop_gone(&mut self, survey: &Survey) -> bool {
        if survey.is_cut_off {
            return false;
        }
        let is_gone = |known: &Known| {
            let stage = survey.links.iter().find(|(no, ..)| *no == known.server.link).map(|(_, stage, _)| *stage);
            let is_told_of = survey.peers.iter().any(|peer| peer.address == known.server.url);
            match stage {
                Some(Stage::Alias) | None => true,
                Some(Stage::Greeted | Stage::Up) => false,
                Some(Stage::Down) => !is_told_of,
            }
        };
        let is_dropped = |known: &Known| known.origin == Origin::Announced && is_gone(known);
        let gone: Vec<String> =
            self.known.iter().filter(|(_, known)| is_dropped(known)).map(|(url, _)| url.clone()).collect();
        for url in &gone {
            let known = self.known.remove(url).expect("it was just found");
            known.task.abort();
            self.parts.ledger.drop_link(known.server.link);
            tracing::info!(server = %url, "a server is gone");
        }
        !gone.is_empty()
    }

    fn make(&mut self, url: &str) -> Result<Arc<Server>, WorkerError> {
        let link = LinkNo(self.links_made);
        let (ledger, credentials) = (self.parts.ledger.clone(), self.parts.credentials.clone());
        let server = Server::new(link, url.to_owned(), ledger, credentials)?;
        self.links_made += 1;
        Ok(Arc::new(server))
    }

    fn connect(&mut self, server: Arc<Server>, origin: Origin) {
        let Parts { profile, executors, spool, phase, rules, seed, .. } = &self.parts;
        let link = Link {
            server: server.clone(),
            profile: profile.clone(),
            tasks: Tasks::new(executors.clone()),
            spool: spool.clone(),
            phase: phase.clone(),
            rules: rules.clone(),
            log_bytes_max: LOG_BYTES_MAX_DEFAULT,
        };
        let backoff = Backoff::new(seed.wrapping_add(u64::from(server.link.0)));
        let task = self.links.spawn(link.keep_connected(backoff));
        self.known.insert(server.url.clone(), Known { server, origin, task });
    }

    fn publish(&self) {
        let mut servers: Vec<_> = self.known.values().map(|known| known.server.clone()).collect();
        servers.sort_by_key(|server| server.link);
        self.list.send_replace(servers.into());
    }

    /// Waits until every link has said goodbye.
    pub(crate) async fn left(mut self) {
        while self.links.join_next().await.is_some() {}
    }
}

#[cfg(test)]
mod tests {
    use punctual_core::{ServerId, Timestamp};

    use super::*;
    use crate::journal::{AttemptLog, Journal};
    use crate::ledger::{Greeting, Peer};

    fn servers() -> Servers {
        let secret = punctual_proto::identity::WorkerSecret::new([1; 32]);
        let profile = Profile {
            id: secret.worker_id(Timestamp::EPOCH),
            secret,
            name: String::new(),
            host: String::new(),
            queues: Vec::new(),
            capabilities: Vec::new(),
            labels: HashMap::new(),
            commands_as: String::new(),
        };
        let parts = Parts {
            ledger: Arc::new(Ledger::new(4)),
            profile: Arc::new(profile),
            executors: Executors::default(),
            spool: None,
            phase: watch::channel(Phase::Working).1,
            rules: Rules { cancel_grace: Duration::ZERO, journal: Journal::new(AttemptLog::Off) },
            seed: 1,
            credentials: Arc::default(),
        };
        // Nothing is dialled: no link gets a turn while a test does not wait.
        Servers::start(parts, &["http://127.0.0.1:1".to_owned()]).unwrap()
    }

    fn server(number: u64) -> ServerId {
        ServerId::new(Timestamp::EPOCH, number)
    }

    fn peer(number: u64, address: &str) -> Peer {
        Peer { server: server(number), address: address.to_owned() }
    }

    /// The stream of this link comes up, and its server tells of these.
    fn up(servers: &Servers, link: u32, number: u64, peers: Vec<Peer>) {
        let ledger = &servers.parts.ledger;
        let greeting = Greeting { server: server(number), acquired: 0, shards: vec![] };
        ledger.greeted(LinkNo(link), &greeting).unwrap();
        ledger.welcomed(LinkNo(link));
        ledger.announced(LinkNo(link), peers);
    }

    fn urls(servers: &Servers) -> Vec<String> {
        servers.list().borrow().iter().map(|server| server.url.clone()).collect()
    }

    #[tokio::test]
    async fn a_server_that_nobody_tells_of_is_dropped_when_it_cannot_be_reached() {
        let (own, other) = ("http://127.0.0.1:1", "http://127.0.0.1:2");
        let mut servers = servers();
        up(&servers, 0, 1, vec![peer(1, own), peer(2, other)]);
        servers.look();
        assert_eq!(urls(&servers), [own, other]);
        up(&servers, 1, 2, vec![]);
        servers.parts.ledger.announced(LinkNo(0), vec![]);
        servers.look();
        assert_eq!(urls(&servers), [own, other], "it can be reached");
        servers.parts.ledger.closed(LinkNo(1));
        servers.look();
        assert_eq!(urls(&servers), [own], "a configured one is kept, told of or not");
    }

    #[tokio::test]
    async fn a_worker_that_reaches_nobody_drops_nobody() {
        let mut servers = servers();
        up(&servers, 0, 1, vec![peer(2, "http://127.0.0.1:2")]);
        servers.look();
        servers.parts.ledger.closed(LinkNo(0));
        servers.look();
        assert_eq!(urls(&servers).len(), 2);
    }

    #[tokio::test]
    async fn another_address_of_a_server_with_a_link_is_not_dialled() {
        let mut servers = servers();
        up(&servers, 0, 1, vec![peer(1, "http://localhost:1"), peer(3, "no address")]);
        servers.look();
        assert_eq!(urls(&servers), ["http://127.0.0.1:1"]);
    }
}
