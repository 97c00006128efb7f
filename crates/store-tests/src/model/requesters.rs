//! Who asked for jobs, and who gave commands on them.

use async_trait::async_trait;
use punctual_core::{JobId, Span, Timestamp};
use punctual_store::{JOB_ACTIONS_MAX, JobAction, REQUESTERS_MAX, Requester, RequesterId, Requesters, Result};

use super::{ModelStore, State};

impl ModelStore {
    pub fn requester_id_now(&self, requester: Requester) -> Result<RequesterId> {
        self.state().all_or_nothing(|state| {
            if let Some(id) = state.requester_number(&requester) {
                return Ok(id);
            }
            let is_full = state.requesters.len() >= REQUESTERS_MAX;
            let requester = if is_full { requester.without_name() } else { requester };
            if let Some(id) = state.requester_number(&requester) {
                return Ok(id);
            }
            let id = RequesterId(state.requesters.len() as u32 + 1);
            state.requesters.put(id, requester);
            Ok(id)
        })
    }

    pub fn requesters_now(&self, mut ids: Vec<RequesterId>) -> Vec<(RequesterId, Requester)> {
        ids.sort_unstable();
        ids.dedup();
        let state = self.state();
        ids.into_iter().filter_map(|id| Some((id, state.requesters.get(&id)?.clone()))).collect()
    }

    pub fn keep_job_action_now(&self, action: JobAction) -> Result<()> {
        self.state().all_or_nothing(|state| {
            let JobAction { job, at, .. } = action;
            let there: Vec<Timestamp> = state.actions_of(job).map(|action| action.at).collect();
            let after = there.last().map(|last| *last + Span::from_micros(1));
            let at = after.map_or(at, |after| at.max(after));
            state.job_actions.put((job, at), JobAction { at, ..action });
            if there.len() >= JOB_ACTIONS_MAX {
                state.job_actions.take(&(job, there[0]));
            }
            Ok(())
        })
    }

    pub fn job_actions_now(&self, job: JobId) -> Vec<JobAction> {
        self.state().actions_of(job).copied().collect()
    }
}

impl State {
    fn requester_number(&self, requester: &Requester) -> Option<RequesterId> {
        self.requesters.iter().find(|(_, known)| *known == requester).map(|(id, _)| *id)
    }

    fn actions_of(&self, job: JobId) -> impl Iterator<Item = &JobAction> {
        self.job_actions.iter().filter(move |((of, _), _)| *of == job).map(|(_, action)| action)
    }
}

#[async_trait]
impl Requesters for ModelStore {
    async fn requester_id(&self, requester: Requester) -> Result<RequesterId> {
        self.requester_id_now(requester)
    }
    async fn requesters(&self, ids: Vec<RequesterId>) -> Result<Vec<(RequesterId, Requester)>> {
        Ok(self.requesters_now(ids))
    }
    async fn keep_job_action(&self, action: JobAction) -> Result<()> {
        self.keep_job_action_now(action)
    }
    async fn job_actions(&self, job: JobId) -> Result<Vec<JobAction>> {
        Ok(self.job_actions_now(job))
    }
}
