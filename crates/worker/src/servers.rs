//! The servers that this worker has links to.
//!
//! A worker starts with the configured servers and follows what servers announce about their peers: one link to every
//! server. A link is dropped when no server announces its server any more and it cannot be reached. Links to configured
//! servers are never dropped.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use punctual_core::credits::Expected;
use punctual_exec::Executors;
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};

use crate::attempts::AttemptRules;
use crate::backoff::Backoff;
use crate::credentials::Credentials;
use crate::error::WorkerError;
use crate::held::{HeldAttempts, LinkNo, LinkStage, Survey};
use crate::link::{LOG_BYTES_MAX_DEFAULT, Phase, Profile, RemoteServer, ServerLink};
use crate::spool::Spool;
use crate::tasks::Tasks;

/// How often the list of servers is updated. A new announcement updates it at once, but a server can also become
/// unreachable without any message.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// More servers than any cluster has. Further ones are ignored.
const SERVERS_MAX: usize = 256;

/// The parts of the worker that every link needs.
pub(crate) struct LinkParts {
    pub(crate) held: Arc<HeldAttempts>,
    pub(crate) profile: Arc<Profile>,
    pub(crate) executors: Executors,
    pub(crate) spool: Option<Arc<Spool>>,
    pub(crate) phase: watch::Receiver<Phase>,
    pub(crate) rules: AttemptRules,
    pub(crate) seed: u64,
    pub(crate) credentials: Arc<Credentials>,
}

/// All servers that the worker has a link to, as the list changes.
pub(crate) type ServerList = watch::Receiver<Arc<[Arc<RemoteServer>]>>;

pub(crate) struct Servers {
    parts: LinkParts,
    links: JoinSet<()>,
    /// Servers by address.
    known: HashMap<String, KnownServer>,
    /// Announced addresses that this worker does not use. Each is logged once.
    refused: HashSet<String>,
    links_made: u32,
    list: watch::Sender<Arc<[Arc<RemoteServer>]>>,
}

struct KnownServer {
    server: Arc<RemoteServer>,
    origin: ServerOrigin,
    task: AbortHandle,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ServerOrigin {
    Configured,
    Announced,
}

impl Servers {
    pub(crate) fn start(parts: LinkParts, configured: &[String]) -> Result<Self, WorkerError> {
        let list = watch::Sender::new(Arc::default());
        let mut servers =
            Self { parts, links: JoinSet::new(), known: HashMap::new(), refused: HashSet::new(), links_made: 0, list };
        // All at once, so that none is given a share that is meant for another.
        let mut new = Vec::new();
        for url in configured {
            let url = url.trim_end_matches('/');
            if !servers.known.contains_key(url) && !new.iter().any(|server: &Arc<RemoteServer>| server.url == url) {
                new.push(servers.make(url)?);
            }
        }
        for server in &new {
            servers.parts.held.add_link(server.link, Expected::Yes);
        }
        for server in new {
            servers.connect(server, ServerOrigin::Configured);
        }
        servers.publish();
        Ok(servers)
    }

    pub(crate) fn list(&self) -> ServerList {
        self.list.subscribe()
    }

    /// Keeps the links up to date. Ends only when a link's task ends, which is a bug: without its link a worker would
    /// look alive and do nothing.
    pub(crate) async fn follow(&mut self) {
        let held = self.parts.held.clone();
        loop {
            tokio::select! {
                () = held.servers.notified() => {}
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
        let survey = self.parts.held.survey();
        let dropped = self.drop_gone(&survey);
        let added = self.add_new(&survey);
        if dropped || added {
            self.publish();
        }
    }

    fn add_new(&mut self, survey: &Survey) -> bool {
        let mut added = false;
        for peer in &survey.peers {
            let is_open = |stage: LinkStage| matches!(stage, LinkStage::Greeted | LinkStage::Up);
            let is_linked =
                |(_, stage, server): &(LinkNo, LinkStage, _)| is_open(*stage) && *server == Some(peer.server);
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
                    self.parts.held.add_link(server.link, Expected::No);
                    self.connect(server, ServerOrigin::Announced);
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
        let is_gone = |known: &KnownServer| {
            let stage = survey.links.iter().find(|(no, ..)| *no == known.server.link).map(|(_, stage, _)| *stage);
            let is_told_of = survey.peers.iter().any(|peer| peer.address == known.server.url);
            match stage {
                Some(LinkStage::Alias) | None => true,
                Some(LinkStage::Greeted | LinkStage::Up) => false,
                Some(LinkStage::Down) => !is_told_of,
            }
        };
        let is_dropped = |known: &KnownServer| known.origin == ServerOrigin::Announced && is_gone(known);
        let gone: Vec<String> =
            self.known.iter().filter(|(_, known)| is_dropped(known)).map(|(url, _)| url.clone()).collect();
        for url in &gone {
            let known = self.known.remove(url).expect("it was just found");
            known.task.abort();
            self.parts.held.drop_link(known.server.link);
            tracing::info!(server = %url, "a server is gone");
        }
        !gone.is_empty()
    }

    fn make(&mut self, url: &str) -> Result<Arc<RemoteServer>, WorkerError> {
        let link = LinkNo(self.links_made);
        let (held, credentials) = (self.parts.held.clone(), self.parts.credentials.clone());
        let server = RemoteServer::new(link, url.to_owned(), held, credentials)?;
        self.links_made += 1;
        Ok(Arc::new(server))
    }

    fn connect(&mut self, server: Arc<RemoteServer>, origin: ServerOrigin) {
        let LinkParts { profile, executors, spool, phase, rules, seed, .. } = &self.parts;
        let link = ServerLink {
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
        self.known.insert(server.url.clone(), KnownServer { server, origin, task });
    }

    fn publish(&self) {
        let mut servers: Vec<_> = self.known.values().map(|known| known.server.clone()).collect();
        servers.sort_by_key(|server| server.link);
        self.list.send_replace(servers.into());
    }

    /// Waits until every link is closed.
    pub(crate) async fn left(mut self) {
        while self.links.join_next().await.is_some() {}
    }
}

#[cfg(test)]
mod tests {
    use punctual_core::{ServerId, Timestamp};

    use super::*;
    use crate::held::{PeerAddress, ServerGreeting};
    use crate::journal::{AttemptLog, Journal};

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
        let parts = LinkParts {
            held: Arc::new(HeldAttempts::new(4)),
            profile: Arc::new(profile),
            executors: Executors::default(),
            spool: None,
            phase: watch::channel(Phase::Working).1,
            rules: AttemptRules { cancel_grace: Duration::ZERO, journal: Journal::new(AttemptLog::Off) },
            seed: 1,
            credentials: Arc::default(),
        };
        // Nothing is dialled: no link gets a turn while a test does not wait.
        Servers::start(parts, &["http://127.0.0.1:1".to_owned()]).unwrap()
    }

    fn server(number: u64) -> ServerId {
        ServerId::new(Timestamp::EPOCH, number)
    }

    fn peer(number: u64, address: &str) -> PeerAddress {
        PeerAddress { server: server(number), address: address.to_owned() }
    }

    /// Brings up the stream of this link, whose server announces these peers.
    fn up(servers: &Servers, link: u32, number: u64, peers: Vec<PeerAddress>) {
        let held = &servers.parts.held;
        let greeting = ServerGreeting { server: server(number), acquired: 0, shards: vec![] };
        held.greeted(LinkNo(link), &greeting).unwrap();
        held.welcomed(LinkNo(link));
        held.announced(LinkNo(link), peers);
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
        servers.parts.held.announced(LinkNo(0), vec![]);
        servers.look();
        assert_eq!(urls(&servers), [own, other], "it can be reached");
        servers.parts.held.closed(LinkNo(1));
        servers.look();
        assert_eq!(urls(&servers), [own], "a configured one is kept, told of or not");
    }

    #[tokio::test]
    async fn a_worker_that_reaches_nobody_drops_nobody() {
        let mut servers = servers();
        up(&servers, 0, 1, vec![peer(2, "http://127.0.0.1:2")]);
        servers.look();
        servers.parts.held.closed(LinkNo(0));
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
