//! How the jobs of backfills stand.

use std::collections::{HashMap, HashSet};

use futures_util::stream::{self, StreamExt, TryStreamExt};
use punctual_core::{JobId, JobKey, JobState};
use punctual_store::FoundRow;

use crate::route::Live;
use crate::{App, Result};

/// Jobs that are looked for at a time, one by one.
const FINDS_AT_ONCE: usize = 32;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// It waits or runs.
    Open,
    Ended(JobState),
    /// It is no longer on record.
    Gone,
}

impl App {
    /// One read for those that have not been tried again, and one for each of the others.
    pub(super) async fn ends_of(&self, jobs: &[JobId]) -> Result<HashMap<JobId, End>> {
        if jobs.is_empty() {
            return Ok(HashMap::new());
        }
        let hot = self.0.store.hot_jobs(jobs.iter().copied().map(JobKey::original).collect()).await?;
        let hot: HashSet<JobId> = hot.into_iter().map(|job| job.key.id).collect();
        let find = |job: JobId| async move {
            let end = match self.0.store.find(job).await? {
                FoundRow::Hot(_) => End::Open,
                FoundRow::Finished { state, .. } => End::Ended(state),
                FoundRow::Absent => End::Gone,
            };
            Ok::<_, crate::AppError>((job, end))
        };
        let others: Vec<JobId> = jobs.iter().copied().filter(|job| !hot.contains(job)).collect();
        let finds = stream::iter(others.into_iter().map(find)).buffer_unordered(FINDS_AT_ONCE);
        let mut ends: HashMap<JobId, End> = finds.try_collect().await?;
        ends.extend(hot.into_iter().map(|job| (job, End::Open)));
        Ok(ends)
    }

    /// The states of jobs for people: how they ended, as far as that is known, or how they stand now.
    pub(super) async fn states_of(&self, jobs: &[(JobId, Option<JobState>)]) -> Result<Vec<JobState>> {
        let open: Vec<JobId> = jobs.iter().filter(|(_, ended)| ended.is_none()).map(|(job, _)| *job).collect();
        // First what runs, then the rows: a job that ends in between is seen as ended.
        let lives = if open.is_empty() { Vec::new() } else { self.lives(&open).await? };
        let running: HashSet<JobId> = open
            .iter()
            .zip(lives)
            .filter(|(_, live)| matches!(live, Live::Running { .. }))
            .map(|(job, _)| *job)
            .collect();
        let ends = self.ends_of(&open).await?;
        let state = |(job, ended): &(JobId, Option<JobState>)| match (ended, ends.get(job)) {
            (Some(state), _) | (None, Some(End::Ended(state))) => *state,
            (None, Some(End::Gone)) => JobState::Deleted,
            (None, Some(End::Open) | None) if running.contains(job) => JobState::Running,
            (None, Some(End::Open) | None) => JobState::Scheduled,
        };
        Ok(jobs.iter().map(state).collect())
    }
}
