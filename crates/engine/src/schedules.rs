//! Commands on schedules.

use futures_util::future::join_all;
use punctual_core::ScheduleId;
use punctual_core::schedule::{PlanError, ScheduleCommand, ScheduleEdit, ScheduleReply};
use punctual_core::shard::event::Made;
use punctual_store::Result;
use tokio::sync::oneshot;

use crate::handle::{Engine, EngineError, Inner};
use crate::inbox::{AskedSchedule, Input};

impl Engine {
    /// Commands on schedules of shards that this server owns. The answers come in the same order,
    /// each after its commit; `NotOwner` where the shard is not ours, or its schedules are being read.
    pub async fn schedule(
        &self,
        commands: Vec<(ScheduleId, ScheduleCommand)>,
        who: String,
    ) -> std::result::Result<Vec<ScheduleReply>, EngineError> {
        if !self.0.tenure.is_current() {
            return Err(EngineError::NoLease);
        }
        let made = match self.make(&commands).await {
            Ok(made) => made,
            Err(error) => {
                tracing::warn!(%error, "what schedules mean could not be read");
                return Ok(vec![ScheduleReply::NotOwner; commands.len()]);
            }
        };
        let mut asked = Vec::with_capacity(commands.len());
        let mut answers = Vec::with_capacity(commands.len());
        for ((id, command), made) in commands.into_iter().zip(made) {
            let (answer, reply) = oneshot::channel();
            match made {
                Ok(made) => asked.push(AskedSchedule { id, command, made, answer }),
                Err(refused) => drop(answer.send(refused)),
            }
            answers.push(reply);
        }
        self.0.inbox.send(Input::Schedules { commands: asked, who });
        let replies = join_all(answers).await;
        replies.into_iter().collect::<std::result::Result<_, _>>().map_err(|_| EngineError::Stopped)
    }

    /// Works out what new definitions mean.
    async fn make(
        &self,
        commands: &[(ScheduleId, ScheduleCommand)],
    ) -> Result<Vec<std::result::Result<Option<Made>, ScheduleReply>>> {
        let Inner { store, tasks, plans, .. } = &*self.0;
        let definition = |command: &ScheduleCommand| -> Option<ScheduleEdit> {
            match command {
                ScheduleCommand::Create(new) => Some(new.edit.clone()),
                ScheduleCommand::Edit { edit, .. } => Some((**edit).clone()),
                ScheduleCommand::Delete
                | ScheduleCommand::Pause { .. }
                | ScheduleCommand::Resume { .. }
                | ScheduleCommand::SkipNext { .. }
                | ScheduleCommand::RunNow { .. }
                | ScheduleCommand::ClearQueue => None,
            }
        };
        let edits: Vec<Option<ScheduleEdit>> = commands.iter().map(|(_, command)| definition(command)).collect();
        if edits.iter().flatten().any(|edit| !edit.calendars.is_empty()) {
            plans.refresh(&**store).await?;
        }
        let found = tasks.find(&**store, edits.iter().flatten().map(|edit| edit.task)).await?;
        let mut made = Vec::with_capacity(commands.len());
        for edit in edits {
            let Some(edit) = edit else {
                made.push(Ok(None));
                continue;
            };
            let Some(task) = found.get(&edit.task).cloned() else {
                made.push(Err(ScheduleReply::Refused("its task is not there any more".to_owned())));
                continue;
            };
            let refused = |error: PlanError| ScheduleReply::Refused(error.to_string());
            let calendars = plans.revision();
            let plan = plans.plan(&edit.spec);
            made.push(plan.map(|plan| Some(Made { plan, task, calendars })).map_err(refused));
        }
        Ok(made)
    }

    /// How many schedules this server has in memory, and of how many shards they are being read.
    pub async fn schedule_counts(&self) -> std::result::Result<(usize, usize), EngineError> {
        self.ask(|owner| owner.schedule_counts()).await
    }
}
