//! Commands on schedules, as questions to the owners of their shards.

use punctual_core::ScheduleId;
use punctual_core::schedule::{ScheduleCommand, ScheduleReply};
use punctual_core::shard::{Answer, Ask};

use crate::{App, AppError, Result};

/// How a command ended, and whether it was given more than once.
pub(super) struct Decided {
    pub(super) reply: ScheduleReply,
    /// An earlier try may have done it: its answer was lost.
    pub(super) is_repeated: bool,
}

impl App {
    /// Asks the owners, again while shards change hands. Answers are in the order of the commands.
    pub(super) async fn decide_schedules(
        &self,
        commands: Vec<(ScheduleId, ScheduleCommand)>,
        who: &str,
    ) -> Result<Vec<Decided>> {
        let ask = |(id, command)| Ask::Schedule { id, command, who: who.to_owned() };
        let decided = self.ask_all(commands.into_iter().map(ask).collect()).await?;
        let reply = |decided: crate::route::Decided| match decided.answer {
            Answer::Schedule(reply) => Ok(Decided { reply, is_repeated: decided.is_repeated }),
            Answer::NotOwner | Answer::Job(_) | Answer::Agent(_) | Answer::Gang(_) => Err(AppError::out_of_place()),
        };
        decided.into_iter().map(reply).collect()
    }

    pub(super) async fn decide_schedule(&self, id: ScheduleId, command: ScheduleCommand, who: &str) -> Result<Decided> {
        let mut decided = self.decide_schedules(vec![(id, command)], who).await?;
        Ok(decided.pop().expect("one command has one answer"))
    }

    /// Asks the owner once. `None`: no answer came, or not from the owner.
    pub(super) async fn ask_schedule_once(
        &self,
        id: ScheduleId,
        command: ScheduleCommand,
        who: &str,
    ) -> Result<Option<ScheduleReply>> {
        let ask = Ask::Schedule { id, command, who: who.to_owned() };
        match self.ask_once(vec![ask]).await?.pop().flatten() {
            Some(Answer::Schedule(reply)) => Ok(Some(reply)),
            Some(Answer::NotOwner) | None => Ok(None),
            Some(Answer::Job(_) | Answer::Agent(_) | Answer::Gang(_)) => Err(AppError::out_of_place()),
        }
    }
}
