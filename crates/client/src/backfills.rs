//! Backfills: planned times of the past that are run now.

use punctual_api::{
    AbortRequest, BackfillList, BackfillPlan, BackfillQuery, BackfillRequest, BackfillRunList, BackfillRunQuery,
    BackfillView,
};
use punctual_core::BackfillId;

use crate::send::{Repeat, with_query};
use crate::{Client, ClientError};

impl Client {
    pub async fn start_backfill(
        &self,
        schedule: &str,
        backfill: &BackfillRequest,
    ) -> Result<BackfillView, ClientError> {
        let backfill = BackfillRequest { dry_run: false, ..backfill.clone() };
        // Sent twice, it would be made twice.
        self.ask(self.post(self.at(["v1", "schedules", schedule, "backfills"])).json(&backfill), Repeat::Unsafe).await
    }

    /// Shows what a backfill would do, without creating it.
    pub async fn plan_backfill(&self, schedule: &str, backfill: &BackfillRequest) -> Result<BackfillPlan, ClientError> {
        let backfill = BackfillRequest { dry_run: true, ..backfill.clone() };
        self.ask(self.post(self.at(["v1", "schedules", schedule, "backfills"])).json(&backfill), Repeat::Safe).await
    }

    /// The latest first.
    pub async fn backfills(&self, query: &BackfillQuery) -> Result<BackfillList, ClientError> {
        self.ask(self.get(with_query(self.at(["v1", "backfills"]), query)), Repeat::Safe).await
    }

    pub async fn backfill(&self, id: BackfillId) -> Result<BackfillView, ClientError> {
        self.ask(self.get(self.at(["v1", "backfills", &id.to_string()])), Repeat::Safe).await
    }

    /// Lists the runs of a backfill, in the order of their times.
    pub async fn backfill_runs(
        &self,
        id: BackfillId,
        query: &BackfillRunQuery,
    ) -> Result<BackfillRunList, ClientError> {
        let url = with_query(self.at(["v1", "backfills", &id.to_string(), "runs"]), query);
        self.ask(self.get(url), Repeat::Safe).await
    }

    pub async fn abort_backfill(&self, id: BackfillId, abort: AbortRequest) -> Result<BackfillView, ClientError> {
        // Whoever aborts twice has aborted once.
        self.ask(self.post(self.at(["v1", "backfills", &id.to_string(), "abort"])).json(&abort), Repeat::Safe).await
    }
}
