//! To whom a question about a job goes: its shard's owner, here or at a peer.
//!
//! Which server owns a shard is read now and then, so it may have changed since. A wrong
//! owner says so, and an owner that is gone does not answer: both mean to ask again, for as
//! long as a takeover usually takes.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::future::join_all;
use punctual_api::ErrorKind;
use punctual_core::shard::LiveView;
use punctual_core::shard::event::{Command, Reply};
use punctual_core::{JobId, ServerId, ShardId};
use punctual_engine::{EngineError, Runs};
use tokio::time::{Instant, timeout, timeout_at};

use crate::cluster::{Follow, Place};
use crate::{App, AppError, Result};

/// A shard that changes hands orderly answers again within this time.
const OWNER_PATIENCE: Duration = Duration::from_secs(2);
/// The owner may have changed without our having heard of it.
const OWNER_LOOK: Duration = Duration::from_millis(100);
/// Longer than any commit that is worth waiting for.
pub(crate) const COMMAND_LIMIT: Duration = Duration::from_secs(5);
/// A command that takes longer than this has the store looked at.
pub(crate) const STORE_LOOK: Duration = Duration::from_millis(500);
pub(crate) const IN_DOUBT: &str = "look at the job before you repeat the command: it may be carried out yet";
/// A look at what runs takes an owner microseconds.
pub(crate) const LOOK_LIMIT: Duration = Duration::from_secs(1);

/// What an owner says of one job.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Live {
    Running {
        view: LiveView,
        server: ServerId,
    },
    Waiting,
    /// Nobody who knows could be asked.
    Unknown,
}

/// How a command ended, and whether it was asked for more than once.
pub(crate) struct Decided {
    pub(crate) reply: Reply,
    /// An earlier try may have done it: its answer was lost.
    pub(crate) is_repeated: bool,
}

/// For a shard that changes hands.
pub(crate) struct Patience {
    /// Whose shard it is: a job's or a schedule's.
    what: &'static str,
    until: Instant,
    follow: Follow,
}

impl Patience {
    pub(crate) fn new(app: &App, what: &'static str) -> Self {
        Self { what, until: Instant::now() + OWNER_PATIENCE, follow: app.0.cluster.follow() }
    }

    /// Returns when it is worth asking again, or with the reason why not.
    pub(crate) async fn wait(&mut self, app: &App) -> Result<()> {
        // Without the store nobody can take the shard over, and there is no use in waiting.
        app.writable().await?;
        if Instant::now() >= self.until {
            return Err(self.over(app).hint("try again in a few seconds"));
        }
        let _ = timeout_at(self.until.min(Instant::now() + OWNER_LOOK), self.follow.changed()).await;
        Ok(())
    }

    fn over(&self, app: &App) -> AppError {
        let what = self.what;
        if app.0.engine.is_alone() {
            let detail = format!("the server is still reading the {what}'s shard after a write that failed");
            return AppError::new(ErrorKind::Unavailable, detail);
        }
        AppError::new(ErrorKind::ShardMoving, format!("the {what}'s shard is changing hands"))
    }
}

impl App {
    /// Asks the owner, again while the shard changes hands.
    pub(crate) async fn decide(&self, id: JobId, command: Command) -> Result<Decided> {
        let mut patience = Patience::new(self, "job");
        let mut is_repeated = false;
        loop {
            let place = self.0.cluster.place(id.shard());
            let is_asked = !matches!(place, Place::Nowhere);
            match self.command_at(place, id, command).await? {
                Some(Reply::NotOwner) | None => {}
                Some(reply) => return Ok(Decided { reply, is_repeated }),
            }
            is_repeated |= is_asked;
            patience.wait(self).await?;
        }
    }

    /// `None`: no answer came.
    async fn command_at(&self, place: Place, id: JobId, command: Command) -> Result<Option<Reply>> {
        match place {
            Place::Here => self.command_here(id, command).await,
            Place::At(peer) => match self.0.peers.command(&peer, id, command).await {
                Ok(reply) => Ok(Some(reply)),
                Err(error) => {
                    tracing::debug!(%error, %id, "a command was not answered");
                    Ok(None)
                }
            },
            Place::Nowhere => Ok(None),
        }
    }

    /// Asks the owner in this process, as long as the store can be reached: it repeats its reads
    /// until they succeed.
    pub(crate) async fn command_here(&self, id: JobId, command: Command) -> Result<Option<Reply>> {
        let deadline = Instant::now() + COMMAND_LIMIT;
        let reply = self.0.engine.command(id, command);
        let mut reply = std::pin::pin!(reply);
        loop {
            match timeout(STORE_LOOK, &mut reply).await {
                // Somebody else may own it by now.
                Ok(Err(EngineError::NoLease)) => return Ok(None),
                Ok(reply) => return Ok(Some(reply?)),
                Err(_) if Instant::now() >= deadline => {
                    let error = AppError::new(ErrorKind::Unavailable, "the store did not answer in time");
                    return Err(error.hint(IN_DOUBT));
                }
                Err(_) => {
                    self.writable().await.map_err(|error| error.also(IN_DOUBT))?;
                }
            }
        }
    }

    /// Whether a job runs, by its owner.
    pub(crate) async fn live(&self, id: JobId) -> Result<Live> {
        Ok(self.lives(&[id]).await?.pop().unwrap_or(Live::Unknown))
    }

    /// The same for many, in the order asked for.
    pub(crate) async fn lives(&self, ids: &[JobId]) -> Result<Vec<Live>> {
        let mut asked: BTreeMap<Option<ServerId>, (Place, Vec<JobId>)> = BTreeMap::new();
        for &id in ids {
            let place = self.0.cluster.place(id.shard());
            let server = match &place {
                Place::Here => Some(self.0.engine.server()),
                Place::At(peer) => Some(peer.id),
                Place::Nowhere => None,
            };
            asked.entry(server).or_insert_with(|| (place, Vec::new())).1.push(id);
        }
        let answers = asked
            .into_iter()
            .filter_map(|(server, (place, ids))| Some((server?, place, ids)))
            .map(async |(server, place, ids)| Ok::<_, AppError>((server, self.runs_at(&place, ids).await?)));
        let mut known: BTreeMap<JobId, (LiveView, ServerId)> = BTreeMap::new();
        let mut owned: Vec<ShardId> = Vec::new();
        for answer in join_all(answers).await {
            let (server, runs) = answer?;
            known.extend(runs.attempts.into_iter().map(|view| (view.key.id, (view, server))));
            owned.extend(runs.owned);
        }
        let live = |id: &JobId| match known.get(id) {
            Some(&(view, server)) => Live::Running { view, server },
            None if owned.contains(&id.shard()) => Live::Waiting,
            None => Live::Unknown,
        };
        Ok(ids.iter().map(live).collect())
    }

    /// Everything that runs anywhere, and the shards of which this says nothing.
    pub(crate) async fn all_runs(&self) -> Result<(Vec<LiveView>, Vec<ShardId>)> {
        let places = self.0.cluster.owners();
        let answers = join_all(places.iter().map(|place| self.runs_at(place, Vec::new()))).await;
        let mut views = Vec::new();
        let mut unknown: Vec<ShardId> = (0..self.0.store.shard_count()).map(ShardId).collect();
        for runs in answers {
            let runs = runs?;
            unknown.retain(|shard| !runs.owned.contains(shard));
            views.extend(runs.attempts);
        }
        // A shard that moved between two answers is in both, with what ran on it.
        views.sort_unstable_by_key(|view| view.key);
        views.dedup_by_key(|view| view.key.id);
        Ok((views, unknown))
    }

    /// What an owner says; nothing if it did not answer in time.
    async fn runs_at(&self, place: &Place, ids: Vec<JobId>) -> Result<Runs> {
        match place {
            Place::Here => self.runs_here(ids).await,
            Place::At(peer) => match timeout(LOOK_LIMIT, self.0.peers.running(peer, ids)).await {
                Ok(Ok(runs)) => Ok(runs),
                Ok(Err(error)) => {
                    tracing::debug!(%error, "a peer did not say what runs there");
                    Ok(Runs::default())
                }
                Err(_) => Ok(Runs::default()),
            },
            Place::Nowhere => Ok(Runs::default()),
        }
    }
}
