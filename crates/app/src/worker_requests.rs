//! Asks other servers for the workers that this server's jobs lack, and answers them.
//!
//! A worker connects to a few servers only, and an owner starts jobs only on workers that are connected to it. What it lacks
//! it asks of the others, a few at a time, until enough workers were told to connect here. Every question may be lost: it is
//! asked again for as long as the jobs wait. Which workers are lacking, and which fit, is decided in
//! core::shard::worker_requests.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use punctual_core::shard::{FittingWorkers, PoolWanted, WorkerNeeds, WorkersWanted};
use punctual_core::{ServerId, ShardId, Span, Timestamp, WorkerId};
use punctual_engine::Reach;
use tokio::time::timeout;

use crate::cluster::Place;
use crate::reach::is_loopback;
use crate::{App, AppError, Peer, Result};

/// Pools that one question is about. Others have their turn in the next round.
pub const POOLS_ASKED_MAX: usize = 16;
/// Workers that one question names.
pub const WORKERS_ASKED_MAX: usize = 256;
/// Peers that are asked at a time. All at once would tell more workers than are needed.
const PEERS_AT_ONCE: usize = 4;
/// A peer that does not answer must not hold up the question to the next.
const ANSWER_WITHIN: Duration = Duration::from_millis(500);
/// Pools that no worker of any server fits are asked for less often after this.
const NEW_FOR: Span = Span::from_secs(10);
const AGAIN_AFTER_OLD: Span = Span::from_secs(2);
/// Workers that were told take a moment to connect.
const AGAIN_AFTER_FOUND: Span = Span::from_secs(1);
/// A request that was not made for this long is over: its jobs have found workers.
const OVER_AFTER: Span = Span::from_secs(5);
/// Requests that are remembered, for explanations.
const REMEMBERED_MAX: usize = 1024;

/// Workers that a server lacks, and how far it has come in asking for them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerRequest {
    pub needs: WorkerNeeds,
    /// Since when they have been lacking.
    pub since: Timestamp,
    /// How many servers have answered the last question.
    pub servers: u32,
    /// How many of their workers were told to connect.
    pub invited: u32,
}

struct Asked {
    since: Timestamp,
    wanted_at: Timestamp,
    next_at: Timestamp,
    servers: u32,
    invited: u32,
}

/// What this server has asked for.
#[derive(Default)]
pub(crate) struct WorkerRequests(Mutex<Requests>);

#[derive(Default)]
struct Requests {
    asked: BTreeMap<WorkerNeeds, Asked>,
    /// Counts the questions.
    turn: u64,
}

impl WorkerRequests {
    fn lock(&self) -> MutexGuard<'_, Requests> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The requests that stand, in the order of their needs.
    fn standing(&self, now: Timestamp) -> Vec<WorkerRequest> {
        let requests = self.lock();
        let stands = |(_, asked): &(&WorkerNeeds, &Asked)| now.since(asked.wanted_at) <= OVER_AFTER;
        let view = |(needs, asked): (&WorkerNeeds, &Asked)| WorkerRequest {
            needs: needs.clone(),
            since: asked.since,
            servers: asked.servers,
            invited: asked.invited,
        };
        requests.asked.iter().filter(stands).map(view).collect()
    }
}

impl Requests {
    /// Which of the wanted pools to ask for now. Those that were not asked for lately come first.
    fn due(&mut self, wanted: Vec<PoolWanted>, now: Timestamp) -> Vec<PoolWanted> {
        self.asked.retain(|_, asked| now.since(asked.wanted_at) <= OVER_AFTER);
        let mut due = Vec::new();
        for pool in wanted {
            if let Some(asked) = self.asked.get_mut(&pool.needs) {
                asked.wanted_at = now;
                // A clock that went back must not silence it.
                if now >= asked.next_at || asked.next_at > now + AGAIN_AFTER_OLD {
                    due.push((Some(asked.next_at), pool));
                }
            } else {
                if self.asked.len() < REMEMBERED_MAX {
                    let asked = Asked { since: now, wanted_at: now, next_at: now, servers: 0, invited: 0 };
                    self.asked.insert(pool.needs.clone(), asked);
                }
                due.push((None, pool));
            }
        }
        due.sort_by_key(|(next_at, _)| *next_at);
        due.truncate(POOLS_ASKED_MAX);
        due.into_iter().map(|(_, pool)| pool).collect()
    }

    fn answered(&mut self, needs: &WorkerNeeds, servers: u32, invited: u32, now: Timestamp) {
        let Some(asked) = self.asked.get_mut(needs) else { return };
        (asked.servers, asked.invited) = (servers, invited);
        let is_new = now.since(asked.since) < NEW_FOR;
        asked.next_at = now
            + match invited {
                0 if is_new => Span::ZERO,
                0 => AGAIN_AFTER_OLD,
                _ => AGAIN_AFTER_FOUND,
            };
    }
}

/// A pool that is asked for, and what the peers that were asked have said.
struct OpenPool {
    wanted: PoolWanted,
    servers: u32,
    invited: u32,
}

impl OpenPool {
    fn is_open(&self) -> bool {
        (self.invited as usize) < self.wanted.count
    }
}

impl App {
    /// Asks other servers for the workers that the jobs of this one lack, once.
    pub async fn request_workers(&self) -> Result<()> {
        let mut peers = self.0.cluster.scheduler_peers();
        if peers.is_empty() {
            return Ok(());
        }
        let wanted = self.0.engine.workers_wanted().await?;
        let now = self.now();
        let (pools, turn) = {
            let mut requests = self.0.worker_requests.lock();
            requests.turn += 1;
            (requests.due(wanted.pools, now), requests.turn)
        };
        if pools.is_empty() && wanted.workers.is_empty() {
            return Ok(());
        }
        let first = turn as usize % peers.len();
        peers.rotate_left(first);
        let mut open: Vec<OpenPool> =
            pools.into_iter().map(|wanted| OpenPool { wanted, servers: 0, invited: 0 }).collect();
        let mut workers = wanted.workers;
        for some in peers.chunks(PEERS_AT_ONCE) {
            self.ask_for_workers(some, &mut open, &mut workers, turn).await;
            if workers.is_empty() && !open.iter().any(OpenPool::is_open) {
                break;
            }
        }
        let mut requests = self.0.worker_requests.lock();
        for OpenPool { wanted, servers, invited } in open {
            tracing::debug!(needs = ?wanted.needs, servers, invited, "asked other servers for workers");
            requests.answered(&wanted.needs, servers, invited, now);
        }
        Ok(())
    }

    async fn ask_for_workers(&self, peers: &[Peer], open: &mut [OpenPool], workers: &mut Vec<WorkerId>, turn: u64) {
        let mut asked: Vec<&mut OpenPool> = open.iter_mut().filter(|pool| pool.is_open()).collect();
        // Several peers answer at once: each is asked for its part.
        let part = |pool: &&mut OpenPool| {
            let missing = pool.wanted.count - pool.invited as usize;
            PoolWanted { count: missing.div_ceil(peers.len()), ..pool.wanted.clone() }
        };
        let question = WorkersWanted { pools: asked.iter().map(part).collect(), workers: workers.clone() };
        let calls = peers.iter().map(|peer| timeout(ANSWER_WITHIN, self.0.peers.invite_workers(peer, &question, turn)));
        for answer in join_all(calls).await {
            let invited = match answer {
                Ok(Ok(invited)) => invited,
                Ok(Err(error)) => {
                    tracing::debug!(%error, "a peer was asked for workers");
                    continue;
                }
                Err(_) => continue,
            };
            for (pool, count) in asked.iter_mut().zip(invited.pools) {
                pool.servers += 1;
                pool.invited = pool.invited.saturating_add(count);
            }
            workers.retain(|worker| !invited.workers.contains(worker));
        }
    }

    /// A peer lacks workers: those of this server that fit are told to connect to it.
    pub async fn peer_wants_workers(&self, by: ServerId, wanted: WorkersWanted, turn: u64) -> Result<InvitedWorkers> {
        if wanted.pools.len() > POOLS_ASKED_MAX || wanted.workers.len() > WORKERS_ASKED_MAX {
            return Err(AppError::invalid("a server asks for too many workers at a time"));
        }
        let turn = usize::try_from(turn).unwrap_or_default();
        // An invitation to a server that does not let the worker in would be counted, and come to nothing.
        let asker = self.0.cluster.scheduler_peers().into_iter().find(|peer| peer.id == by);
        let is_elsewhere = asker.is_some_and(|asker| !is_loopback(&asker.address));
        let reach = if is_elsewhere { Reach::WithCertificate } else { Reach::AllWorkers };
        let FittingWorkers { pools, workers } = self.0.engine.invite_workers(by, wanted, turn, reach).await?;
        Ok(InvitedWorkers {
            pools: pools.iter().map(|told| told.len() as u32).collect(),
            workers: workers.into_iter().map(|(worker, _)| worker).collect(),
        })
    }

    /// What this server asks others for.
    pub fn worker_requests_here(&self) -> Vec<WorkerRequest> {
        self.0.worker_requests.standing(self.now())
    }

    /// Servers other than this one that own these shards, as far as it is known: a worker that holds attempts of theirs
    /// should connect to them.
    pub fn owners_elsewhere(&self, shards: impl IntoIterator<Item = ShardId>) -> Vec<ServerId> {
        let mut seen: Vec<ShardId> = shards.into_iter().collect();
        seen.sort_unstable();
        seen.dedup();
        let mut owners: Vec<ServerId> = seen
            .into_iter()
            .filter_map(|shard| match self.0.cluster.place(shard) {
                Place::At(peer) => Some(peer.id),
                Place::Here | Place::Nowhere => None,
            })
            .collect();
        owners.sort_unstable();
        owners.dedup();
        owners
    }
}

/// How many workers were told to connect to the server that wants them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct InvitedWorkers {
    /// For each pool that was asked for, in order.
    pub pools: Vec<u32>,
    /// Of those that were named.
    pub workers: Vec<WorkerId>,
}

#[cfg(test)]
mod tests {
    use punctual_core::shard::Who;

    use punctual_core::namespace::NamespaceId;

    use super::*;

    const T0: Timestamp = Timestamp::EPOCH;

    fn pool(queue: &str) -> PoolWanted {
        let needs = WorkerNeeds {
            namespace: NamespaceId::DEFAULT,
            queue: queue.to_owned(),
            capability: "probe".to_owned(),
            labels: BTreeMap::default(),
        };
        PoolWanted { needs, who: Who::Anyone, count: 4 }
    }

    fn queues(due: Vec<PoolWanted>) -> Vec<String> {
        due.into_iter().map(|pool| pool.needs.queue).collect()
    }

    #[test]
    fn pools_that_do_not_fit_into_a_question_have_their_turn_later() {
        let mut requests = Requests::default();
        let all: Vec<PoolWanted> = (0..20).map(|number| pool(&format!("q{number:02}"))).collect();
        let first = queues(requests.due(all.clone(), T0));
        assert_eq!(first.len(), POOLS_ASKED_MAX);
        for pool in &all[..POOLS_ASKED_MAX] {
            requests.answered(&pool.needs, 3, 0, T0 + Span::from_millis(10));
        }
        let second = queues(requests.due(all, T0 + Span::from_millis(500)));
        assert_eq!(second[..4], ["q16", "q17", "q18", "q19"]);
    }

    #[test]
    fn a_pool_without_workers_anywhere_is_asked_for_less_often_after_a_while() {
        let mut requests = Requests::default();
        let asks = |requests: &mut Requests, from: i64, to: i64| {
            let round = |half: i64| {
                let now = T0 + Span::from_millis(500 * half);
                let due = requests.due(vec![pool("rare")], now);
                due.iter().for_each(|pool| requests.answered(&pool.needs, 3, 0, now));
                due.len()
            };
            (from * 2..to * 2).map(round).sum::<usize>()
        };
        assert_eq!(asks(&mut requests, 0, 10), 20);
        assert_eq!(asks(&mut requests, 10, 20), 5);
    }

    #[test]
    fn a_request_that_is_over_is_forgotten_and_its_next_one_is_new() {
        let requests = WorkerRequests::default();
        requests.lock().due(vec![pool("rare")], T0);
        assert_eq!(requests.standing(T0 + OVER_AFTER).len(), 1);
        let later = T0 + OVER_AFTER + Span::from_secs(1);
        assert_eq!(requests.standing(later), []);
        requests.lock().due(vec![pool("rare")], later);
        assert_eq!(requests.standing(later)[0].since, later);
    }
}
