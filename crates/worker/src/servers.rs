//! The servers that this worker has links to.
//!
//! A worker starts with the configured servers and follows what servers announce about their peers. In a small cluster it has
//! one link to every server: a link is dropped when no server announces its server any more and it cannot be reached, and
//! links to configured servers are never dropped. In a larger one it has links to a few; see `choice`.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use punctual_core::credits::Expected;
use punctual_core::random::SplitMix64;
use punctual_exec::Executors;
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};

use crate::attempts::AttemptRules;
use crate::backoff::Backoff;
use crate::choice::{Choice, Haste, KnownLink};
use crate::credentials::Credentials;
use crate::error::WorkerError;
use crate::held::{HeldAttempts, LinkNo, LinkStage, LinkSurvey, Survey};
use crate::link::{LOG_BYTES_MAX_DEFAULT, Phase, Profile, RemoteServer, ServerLink};
use crate::spool::Spool;
use crate::tasks::Tasks;

/// How often the list of servers is updated. A new announcement updates it at once, but a server can also become
/// unreachable without any message.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// More servers than any cluster has. Further ones are ignored.
const SERVERS_MAX: usize = 256;

/// A server that joins is found by all workers at once. Those that choose it connect within this time, each at a moment of
/// its own: 500 workers are 250 connections a second.
const OPENED_WITHIN_MS: u64 = 2000;

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
    choice: Choice,
    links: JoinSet<()>,
    /// Servers by address.
    known: HashMap<String, KnownServer>,
    /// Servers that are to be connected to, and when.
    openings: HashMap<String, Instant>,
    /// Announced addresses that this worker does not use. Each is logged once.
    refused: HashSet<String>,
    links_made: u32,
    random: SplitMix64,
    list: watch::Sender<Arc<[Arc<RemoteServer>]>>,
}

struct KnownServer {
    server: Arc<RemoteServer>,
    origin: ServerOrigin,
    task: AbortHandle,
    /// Since when there is no stream.
    down_since: Option<Instant>,
    used_at: Instant,
    /// When the server last asked for this worker.
    asked_at: Option<Instant>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ServerOrigin {
    Configured,
    Announced,
}

impl Servers {
    pub(crate) fn start(parts: LinkParts, configured: &[String], servers_max: u32) -> Result<Self, WorkerError> {
        let list = watch::Sender::new(Arc::default());
        let mut urls: Vec<String> = Vec::new();
        for url in configured {
            let url = url.trim_end_matches('/').to_owned();
            if !urls.contains(&url) {
                urls.push(url);
            }
        }
        let choice = Choice { worker: parts.profile.id, servers_max: servers_max as usize, configured: urls };
        let mut servers = Self {
            random: SplitMix64::new(parts.seed),
            parts,
            choice,
            links: JoinSet::new(),
            known: HashMap::new(),
            openings: HashMap::new(),
            refused: HashSet::new(),
            links_made: 0,
            list,
        };
        let first: Vec<String> = servers.choice.first().into_iter().map(str::to_owned).collect();
        let mut new = Vec::new();
        // A wrong address is told at once, also that of a server which is not the first choice.
        for url in servers.choice.configured.clone() {
            let server = servers.make(&url)?;
            if first.contains(&url) {
                new.push(server);
            }
        }
        // All at once, so that none is given a share that is meant for another.
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
            let next_opening = self.openings.values().min().map(|at| at.saturating_duration_since(Instant::now()));
            tokio::select! {
                () = held.servers.notified() => {}
                () = tokio::time::sleep(next_opening.unwrap_or(LOOK_EVERY).min(LOOK_EVERY)) => {}
                Some(Err(error)) = self.links.join_next() => match error.try_into_panic() {
                    Ok(panic) => std::panic::resume_unwind(panic),
                    // Dropped, by us.
                    Err(_) => continue,
                },
            }
            self.look(Instant::now());
        }
    }

    fn look(&mut self, now: Instant) {
        let survey = self.parts.held.survey();
        let has_changed = match self.choice.is_all(&survey) {
            true => self.connect_to_all(&survey),
            false => self.connect_to_some(&survey, now),
        };
        if has_changed {
            self.publish();
        }
    }

    fn connect_to_all(&mut self, survey: &Survey) -> bool {
        self.openings.clear();
        let links: Vec<LinkNo> = self.known.values().map(|known| known.server.link).collect();
        links.into_iter().for_each(|link| self.parts.held.retain(link));
        let dropped = self.drop_gone(survey);
        let added = self.add_new(survey);
        dropped || added
    }

    fn add_new(&mut self, survey: &Survey) -> bool {
        let mut added = false;
        let configured = self.choice.configured.iter().filter(|url| !self.known.contains_key(*url)).cloned();
        for url in configured.collect::<Vec<_>>() {
            added |= self.open(&url, ServerOrigin::Configured);
        }
        for peer in &survey.peers {
            let is_linked = |link: &LinkSurvey| link.is_open() && link.server == Some(peer.server);
            if !self.known.contains_key(&peer.address) && !survey.links.iter().any(is_linked) {
                added |= self.open(&peer.address, ServerOrigin::Announced);
            }
        }
        added
    }

    /// Makes a link to a server; false if this worker does not use the address.
    fn open(&mut self, address: &str, origin: ServerOrigin) -> bool {
        if self.refused.contains(address) || self.known.len() >= SERVERS_MAX {
            return false;
        }
        match self.make(address) {
            Ok(server) => {
                tracing::info!(server = %server.url, "connecting to a server");
                self.parts.held.add_link(server.link, Expected::No);
                self.connect(server, origin);
                true
            }
            Err(error) => {
                tracing::warn!(%error, "a server told of an address that this worker does not use");
                if self.refused.len() < SERVERS_MAX {
                    self.refused.insert(address.to_owned());
                }
                false
            }
        }
    }

    fn drop_gone(&mut self, survey: &Survey) -> bool {
        if survey.is_cut_off {
            return false;
        }
        let is_gone = |known: &KnownServer| {
            let stage = survey.links.iter().find(|link| link.no == known.server.link).map(|link| link.stage);
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
            self.close(url);
            tracing::info!(server = %url, "a server is gone");
        }
        !gone.is_empty()
    }

    fn close(&mut self, url: &str) {
        let known = self.known.remove(url).expect("it is known");
        known.task.abort();
        self.parts.held.drop_link(known.server.link);
    }

    /// Connects to the servers that this worker chooses of many, and leaves those that need it no more.
    fn connect_to_some(&mut self, survey: &Survey, now: Instant) -> bool {
        let links: Vec<KnownLink> = self.known.values_mut().filter_map(|known| known.refresh(survey, now)).collect();
        let plan = self.choice.plan(survey, &links);
        let url_of = |link: &LinkNo| links.iter().find(|known| known.survey.no == *link).map(|known| known.url.clone());
        let closing: Vec<String> = plan.close.iter().filter_map(url_of).collect();
        plan.release.iter().for_each(|link| self.parts.held.release(*link));
        plan.retain.iter().for_each(|link| self.parts.held.retain(*link));
        for url in &closing {
            self.close(url);
            tracing::info!(server = %url, "left a server that does not need this worker");
        }
        self.openings.retain(|address, _| plan.open.iter().any(|(planned, _)| planned == address));
        for (address, haste) in plan.open {
            let within = match haste {
                Haste::AtOnce => 0,
                Haste::Spread => self.random.below(OPENED_WITHIN_MS),
            };
            let at = now + Duration::from_millis(within);
            let opening = self.openings.entry(address).or_insert(at);
            *opening = at.min(*opening);
        }
        let due: Vec<String> =
            self.openings.iter().filter(|(_, at)| **at <= now).map(|(address, _)| address.clone()).collect();
        let mut opened = false;
        for address in due {
            self.openings.remove(&address);
            opened |= self.open(&address, ServerOrigin::Announced);
        }
        opened || !closing.is_empty()
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
        let known = KnownServer { server, origin, task, down_since: None, used_at: Instant::now(), asked_at: None };
        self.known.insert(known.server.url.clone(), known);
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

impl KnownServer {
    /// The link as it is now; `None` if it was just made.
    fn refresh(&mut self, survey: &Survey, now: Instant) -> Option<KnownLink> {
        let link = *survey.links.iter().find(|link| link.no == self.server.link)?;
        if link.is_used {
            self.used_at = now;
        }
        let is_invited = link.server.is_some_and(|server| survey.invited.contains(&server));
        if link.is_open() && (link.is_demanded || is_invited) {
            self.asked_at = Some(now);
        }
        let down_since = if link.is_open() { None } else { Some(self.down_since.unwrap_or(now)) };
        self.down_since = down_since;
        Some(KnownLink {
            url: self.server.url.clone(),
            survey: link,
            down_for: down_since.map_or(Duration::ZERO, |since| now.duration_since(since)),
            idle_for: now.duration_since(self.used_at),
            asked_ago: self.asked_at.map(|at| now.duration_since(at)),
        })
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
        Servers::start(parts, &["http://127.0.0.1:1".to_owned()], 5).unwrap()
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
        servers.look(Instant::now());
        assert_eq!(urls(&servers), [own, other]);
        up(&servers, 1, 2, vec![]);
        servers.parts.held.announced(LinkNo(0), vec![]);
        servers.look(Instant::now());
        assert_eq!(urls(&servers), [own, other], "it can be reached");
        servers.parts.held.closed(LinkNo(1));
        servers.look(Instant::now());
        assert_eq!(urls(&servers), [own], "a configured one is kept, told of or not");
    }

    #[tokio::test]
    async fn a_worker_that_reaches_nobody_drops_nobody() {
        let mut servers = servers();
        up(&servers, 0, 1, vec![peer(2, "http://127.0.0.1:2")]);
        servers.look(Instant::now());
        servers.parts.held.closed(LinkNo(0));
        servers.look(Instant::now());
        assert_eq!(urls(&servers).len(), 2);
    }

    #[tokio::test]
    async fn another_address_of_a_server_with_a_link_is_not_dialled() {
        let mut servers = servers();
        up(&servers, 0, 1, vec![peer(1, "http://localhost:1"), peer(3, "no address")]);
        servers.look(Instant::now());
        assert_eq!(urls(&servers), ["http://127.0.0.1:1"]);
    }
}
