//! Questions to the owner in this process.

use futures_util::future::join_all;
use punctual_core::schedule::{PlanError, ScheduleCommand, ScheduleEdit, ScheduleReply};
use punctual_core::shard::event::Made;
use punctual_core::shard::{Answer, Ask};
use tokio::sync::oneshot;

use crate::handle::{Engine, EngineError, Inner};
use crate::inbox::{Input, OpenAsk};

/// What a new definition means; or the answer, if that shows that it is refused.
type Meaning = Result<Option<Made>, Answer>;

impl Engine {
    /// Asks the owner of this server's shards. The answers come in the order of the questions, each when what it says
    /// is durable; `NotOwner` where the shard is not ours, or its schedules are being read.
    pub async fn ask(&self, asks: Vec<Ask>) -> Result<Vec<Answer>, EngineError> {
        // Others may own the shards by now.
        if !self.0.lease.is_current() {
            return Ok(vec![Answer::NotOwner; asks.len()]);
        }
        let meanings = match self.meanings(&asks).await {
            Ok(meanings) => meanings,
            Err(error) => {
                tracing::warn!(%error, "what schedules mean could not be read");
                return Ok(vec![Answer::NotOwner; asks.len()]);
            }
        };
        let mut open = Vec::with_capacity(asks.len());
        let mut answers = Vec::with_capacity(asks.len());
        for (ask, meaning) in asks.into_iter().zip(meanings) {
            let (sender, answer) = oneshot::channel();
            match meaning {
                Ok(made) => open.push(OpenAsk { ask, made, sender }),
                Err(refused) => drop(sender.send(refused)),
            }
            answers.push(answer);
        }
        self.0.inbox.send(Input::Asks(open));
        let answers = join_all(answers).await;
        answers.into_iter().collect::<Result<_, _>>().map_err(|_| EngineError::Stopped)
    }

    /// Works out what new definitions of schedules mean.
    async fn meanings(&self, asks: &[Ask]) -> punctual_store::Result<Vec<Meaning>> {
        let Inner { store, tasks, plans, .. } = &*self.0;
        let edits = || asks.iter().filter_map(definition);
        if edits().next().is_none() {
            return Ok(asks.iter().map(|_| Ok(None)).collect());
        }
        if edits().any(|edit| !edit.calendars.is_empty()) {
            plans.refresh(&**store).await?;
        }
        let found = tasks.find(&**store, edits().map(|edit| edit.task)).await?;
        let meaning = |ask: &Ask| -> Meaning {
            let Some(edit) = definition(ask) else { return Ok(None) };
            let Some(task) = found.get(&edit.task).cloned() else {
                return Err(ScheduleReply::Refused("its task is not there any more".to_owned()).into());
            };
            let refused = |error: PlanError| Answer::from(ScheduleReply::Refused(error.to_string()));
            let calendars = plans.revision();
            plans.plan(task.namespace, &edit.spec).map(|plan| Some(Made { plan, task, calendars })).map_err(refused)
        };
        Ok(asks.iter().map(meaning).collect())
    }

    /// How many schedules this server has in memory, and of how many shards they are being read.
    pub async fn schedule_counts(&self) -> Result<(usize, usize), EngineError> {
        self.query(|owner| owner.schedule_counts()).await
    }
}

/// The definition of a schedule that is to be stored.
fn definition(ask: &Ask) -> Option<&ScheduleEdit> {
    let Ask::Schedule { command, .. } = ask else { return None };
    match command {
        ScheduleCommand::Create(new) => Some(&new.edit),
        ScheduleCommand::Edit { edit, .. } => Some(edit),
        ScheduleCommand::Delete
        | ScheduleCommand::DeleteRevision { .. }
        | ScheduleCommand::Pause { .. }
        | ScheduleCommand::Resume { .. }
        | ScheduleCommand::SkipNext { .. }
        | ScheduleCommand::RunNow { .. }
        | ScheduleCommand::ClearQueue => None,
    }
}
