//! To whom commands on schedules go: the owners of their shards, here or at peers.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::future::try_join_all;
use punctual_api::ErrorKind;
use punctual_core::schedule::{ScheduleCommand, ScheduleReply};
use punctual_core::{ScheduleId, ServerId, ShardId};
use punctual_engine::EngineError;
use tokio::time::{Instant, timeout};

use crate::cluster::Place;
use crate::route::{COMMAND_LIMIT, Patience, STORE_LOOK};
use crate::{App, AppError, Result};

const IN_DOUBT: &str = "look at the schedule before you repeat the command: it may be carried out yet";

/// So many are worth waiting longer for, though not longer than clients do.
const MANY: usize = 100;
const MANY_LIMIT: Duration = Duration::from_secs(25);

/// How a command ended, and whether it was asked for more than once.
pub(super) struct Decided {
    pub(super) reply: ScheduleReply,
    /// An earlier try may have done it: its answer was lost.
    pub(super) is_repeated: bool,
}

type Commands = Vec<(ScheduleId, ScheduleCommand)>;

impl App {
    /// Asks the owners, again while shards change hands. Answers are in the order of the commands.
    pub(super) async fn decide_schedules(&self, commands: Commands, who: &str) -> Result<Vec<Decided>> {
        let mut patience = Patience::new(self, "schedule");
        let mut decided: Vec<Option<Decided>> = commands.iter().map(|_| None).collect();
        let mut open: Vec<usize> = (0..commands.len()).collect();
        let mut is_repeated = false;
        loop {
            let asked = open.iter().map(|place| commands[*place].clone()).collect();
            let replies = self.ask_owners(asked, who).await?;
            let mut left = Vec::new();
            for (place, reply) in open.into_iter().zip(replies) {
                match reply {
                    Some(reply) => decided[place] = Some(Decided { reply, is_repeated }),
                    None => left.push(place),
                }
            }
            if left.is_empty() {
                return Ok(decided.into_iter().map(|decided| decided.expect("none is left")).collect());
            }
            open = left;
            is_repeated = true;
            patience.wait(self).await?;
        }
    }

    pub(super) async fn decide_schedule(&self, id: ScheduleId, command: ScheduleCommand, who: &str) -> Result<Decided> {
        let mut decided = self.decide_schedules(vec![(id, command)], who).await?;
        Ok(decided.pop().expect("one command has one answer"))
    }

    /// Asks each owner once. `None`: no answer came, or not from the owner.
    pub(super) async fn ask_owners(&self, commands: Commands, who: &str) -> Result<Vec<Option<ScheduleReply>>> {
        let mut replies: Vec<Option<ScheduleReply>> = commands.iter().map(|_| None).collect();
        let mut groups: BTreeMap<ServerId, (Place, Vec<usize>, Commands)> = BTreeMap::new();
        let mut places: BTreeMap<ShardId, Place> = BTreeMap::new();
        for (place, (id, command)) in commands.into_iter().enumerate() {
            let owner = places.entry(id.shard()).or_insert_with(|| self.0.cluster.place(id.shard()));
            let server = match owner {
                Place::Here => self.0.engine.server(),
                Place::At(peer) => peer.id,
                Place::Nowhere => continue,
            };
            let (_, asked, commands) = groups.entry(server).or_insert_with(|| (owner.clone(), Vec::new(), Vec::new()));
            asked.push(place);
            commands.push((id, command));
        }
        let answers = groups.into_values().map(async |(owner, asked, commands)| {
            let replies = self.ask_place(owner, commands, who).await?;
            Ok::<_, AppError>((asked, replies))
        });
        for (asked, answers) in try_join_all(answers).await? {
            for (place, reply) in asked.into_iter().zip(answers) {
                replies[place] = Some(reply).filter(|reply| *reply != ScheduleReply::NotOwner);
            }
        }
        Ok(replies)
    }

    async fn ask_place(&self, owner: Place, commands: Commands, who: &str) -> Result<Vec<ScheduleReply>> {
        match owner {
            Place::Here => self.schedules_here(commands, who.to_owned()).await,
            Place::At(peer) => match self.0.peers.schedules(&peer, commands, who).await {
                Ok(replies) => Ok(replies),
                Err(error) => {
                    tracing::debug!(%error, "commands on schedules were not answered");
                    Ok(Vec::new())
                }
            },
            Place::Nowhere => Ok(Vec::new()),
        }
    }

    /// Asks the owner in this process, as long as the store can be reached: it repeats its writes
    /// until they succeed.
    async fn schedules_here(&self, commands: Commands, who: String) -> Result<Vec<ScheduleReply>> {
        let count = commands.len();
        let deadline = Instant::now() + if count > MANY { MANY_LIMIT } else { COMMAND_LIMIT };
        let mut replies = std::pin::pin!(self.0.engine.schedule(commands, who));
        loop {
            match timeout(STORE_LOOK, &mut replies).await {
                // Somebody else may own them by now.
                Ok(Err(EngineError::NoLease)) => return Ok(vec![ScheduleReply::NotOwner; count]),
                Ok(replies) => return Ok(replies?),
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

    /// For a peer: decided here or not at all. `NotOwner` where the shard is another's.
    pub async fn peer_schedules(&self, commands: Commands, who: String) -> Result<Vec<ScheduleReply>> {
        let shards = self.0.store.shard_count();
        if commands.iter().any(|(id, _)| id.shard().0 >= shards) {
            return Ok(vec![ScheduleReply::NotFound; commands.len()]);
        }
        self.schedules_here(commands, who).await
    }
}
