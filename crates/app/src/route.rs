//! To whom a question about a job or a schedule goes: its shard's owner, here or at a peer.
//!
//! Which server owns a shard is read now and then, so it may have changed since. A wrong
//! owner says so, and an owner that is gone does not answer: both mean to ask again, for as
//! long as a takeover usually takes.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::future::{join_all, try_join_all};
use punctual_api::ErrorKind;
use punctual_core::shard::{Answer, Ask, LiveView};
use punctual_core::{JobId, ServerId, ShardId};
use punctual_engine::Runs;
use tokio::time::{Instant, timeout, timeout_at};

use crate::cluster::{Follow, Place};
use crate::{App, AppError, Result};

/// A shard that changes hands orderly answers again within this time.
const OWNER_PATIENCE: Duration = Duration::from_secs(2);
/// The owner may have changed without our having heard of it.
const OWNER_LOOK: Duration = Duration::from_millis(100);
/// Longer than any commit that is worth waiting for.
const ASK_LIMIT: Duration = Duration::from_secs(5);
/// So many questions are worth waiting longer for, though not longer than clients do.
const MANY: usize = 100;
const MANY_LIMIT: Duration = Duration::from_secs(25);
/// A question that takes longer than this has the store looked at.
const STORE_LOOK: Duration = Duration::from_millis(500);
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

/// The answer to a question, and whether it was asked more than once.
pub(crate) struct Decided {
    pub(crate) answer: Answer,
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
    pub(crate) async fn ask(&self, ask: Ask) -> Result<Decided> {
        let mut decided = self.ask_all(vec![ask]).await?;
        Ok(decided.pop().expect("one question has one answer"))
    }

    /// Asks the owners, again while shards change hands. Answers are in the order of the questions.
    pub(crate) async fn ask_all(&self, asks: Vec<Ask>) -> Result<Vec<Decided>> {
        let mut patience = Patience::new(self, what(&asks));
        let mut decided: Vec<Option<Decided>> = asks.iter().map(|_| None).collect();
        // The places of those that are not answered, and whether they were asked before.
        let mut open: Vec<(usize, bool)> = (0..asks.len()).map(|place| (place, false)).collect();
        loop {
            let answers = self.ask_once(open.iter().map(|(place, _)| asks[*place].clone()).collect()).await?;
            let mut left = Vec::new();
            for ((place, is_repeated), answer) in open.into_iter().zip(answers) {
                match answer {
                    None => left.push((place, is_repeated)),
                    Some(Answer::NotOwner) => left.push((place, true)),
                    Some(answer) => decided[place] = Some(Decided { answer, is_repeated }),
                }
            }
            if left.is_empty() {
                return Ok(decided.into_iter().map(|decided| decided.expect("none is left")).collect());
            }
            open = left;
            patience.wait(self).await?;
        }
    }

    /// Asks each owner once. `None`: nobody owns the shard. `NotOwner`: no answer came, or not from the owner.
    pub(crate) async fn ask_once(&self, asks: Vec<Ask>) -> Result<Vec<Option<Answer>>> {
        let mut answers: Vec<Option<Answer>> = asks.iter().map(|_| None).collect();
        let mut groups: BTreeMap<ServerId, (Place, Vec<usize>, Vec<Ask>)> = BTreeMap::new();
        let mut owners: BTreeMap<ShardId, Place> = BTreeMap::new();
        for (place, ask) in asks.into_iter().enumerate() {
            let owner = owners.entry(ask.shard()).or_insert_with_key(|shard| self.0.cluster.place(*shard));
            let server = match owner {
                Place::Here => self.0.engine.server(),
                Place::At(peer) => peer.id,
                Place::Nowhere => continue,
            };
            let (_, places, asks) = groups.entry(server).or_insert_with(|| (owner.clone(), Vec::new(), Vec::new()));
            places.push(place);
            asks.push(ask);
        }
        let asked = groups.into_values().map(async |(owner, places, asks)| {
            let answers = self.ask_place(owner, asks).await?;
            Ok::<_, AppError>((places, answers))
        });
        for (places, given) in try_join_all(asked).await? {
            for (place, answer) in places.into_iter().zip(given) {
                answers[place] = Some(answer);
            }
        }
        Ok(answers)
    }

    async fn ask_place(&self, owner: Place, asks: Vec<Ask>) -> Result<Vec<Answer>> {
        let count = asks.len();
        match owner {
            Place::Here => self.ask_here(asks).await,
            Place::At(peer) => match self.0.peers.ask(&peer, asks).await {
                Ok(answers) => Ok(answers),
                Err(error) => {
                    tracing::debug!(%error, "a peer did not answer");
                    Ok(vec![Answer::NotOwner; count])
                }
            },
            Place::Nowhere => Ok(vec![Answer::NotOwner; count]),
        }
    }

    /// Asks the owner in this process, for this server or a peer. `NotOwner` where the shard is another's.
    pub async fn ask_here(&self, asks: Vec<Ask>) -> Result<Vec<Answer>> {
        let mut agents = Vec::new();
        for (place, ask) in asks.iter().enumerate() {
            if let Some(question) = self.agent_question(ask).await? {
                agents.push((place, question));
            }
        }
        let mut answers = self.ask_engine(asks).await?;
        for (place, question) in agents {
            let answer = std::mem::replace(&mut answers[place], Answer::NotOwner);
            answers[place] = self.complete_answer(question, answer).await?;
        }
        Ok(answers)
    }

    /// Waits for the owner as long as the store can be reached: it repeats its reads and writes until they succeed.
    async fn ask_engine(&self, asks: Vec<Ask>) -> Result<Vec<Answer>> {
        let what = what(&asks);
        let in_doubt = || format!("look at the {what} before you repeat the command: it may be carried out yet");
        let deadline = Instant::now() + if asks.len() > MANY { MANY_LIMIT } else { ASK_LIMIT };
        let mut answers = std::pin::pin!(self.0.engine.ask(asks));
        loop {
            match timeout(STORE_LOOK, &mut answers).await {
                Ok(answers) => return Ok(answers?),
                Err(_) if Instant::now() >= deadline => {
                    let error = AppError::new(ErrorKind::Unavailable, "the store did not answer in time");
                    return Err(error.hint(in_doubt()));
                }
                Err(_) => {
                    self.writable().await.map_err(|error| error.also(&in_doubt()))?;
                }
            }
        }
    }

    /// Whether a job runs, by its owner.
    pub(crate) async fn live(&self, id: JobId) -> Result<Live> {
        Ok(self.lives(&[id]).await?.pop().unwrap_or(Live::Unknown))
    }

    /// What owners know of many jobs, in the order of `ids`.
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

    /// Those of `ids` that run here; for no ids, all that runs here.
    pub async fn runs_here(&self, ids: Vec<JobId>) -> Result<Runs> {
        Ok(self.0.engine.runs(ids).await?)
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

/// What the questions are about, for people.
fn what(asks: &[Ask]) -> &'static str {
    match asks.first() {
        Some(Ask::Schedule { .. }) => "schedule",
        Some(Ask::Job { .. } | Ask::Agent { .. } | Ask::Gang { .. }) | None => "job",
    }
}
