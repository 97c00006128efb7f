//! Schedules and their occurrences.

use punctual_api::{
    Forecast, ForecastQuery, NoteRequest, OccurrenceList, OccurrenceQuery, Preview, PreviewQuery, QueueCleared,
    RunAnswer, RunRequest, ScheduleBulkAnswer, ScheduleBulkRequest, ScheduleList, ScheduleQuery, ScheduleRequest,
    ScheduleView, SkipAnswer, SkipRequest,
};
use reqwest::Method;
use serde::Serialize;

use crate::send::{Repeat, with_query};
use crate::{Client, ClientError, IfMatch};

impl Client {
    /// Forecasts the runs of all schedules.
    pub async fn forecast(&self, query: &ForecastQuery) -> Result<Forecast, ClientError> {
        self.ask(self.get(with_query(self.at(["v1", "forecast"]), query)), Repeat::Safe).await
    }

    /// Creates a schedule that must not exist yet.
    /// `schedule` is a [`ScheduleRequest`], or JSON that reads as one.
    pub async fn create_schedule(
        &self,
        schedule: &(impl Serialize + Sync + ?Sized),
    ) -> Result<ScheduleView, ClientError> {
        // One without a name would be created twice.
        self.ask(self.post(self.at(["v1", "schedules"])).json(schedule), Repeat::Unsafe).await
    }

    /// Creates up to 10,000 of them in one request. Sent once.
    pub async fn create_schedules(&self, schedules: &ScheduleBulkRequest) -> Result<ScheduleBulkAnswer, ClientError> {
        self.ask(self.post(self.at(["v1", "schedules", "bulk"])).json(schedules), Repeat::Unsafe).await
    }

    /// Creates the schedule, or replaces its definition; the answer then says how its starts move.
    pub async fn apply_schedule(
        &self,
        name: &str,
        schedule: &ScheduleRequest,
        when: IfMatch,
    ) -> Result<ScheduleView, ClientError> {
        let (request, repeat) = when.on(self.request(Method::PUT, self.at(["v1", "schedules", name])).json(schedule));
        self.ask(request, repeat).await
    }

    /// Fetches a schedule by name or by id.
    pub async fn schedule(&self, name: &str) -> Result<ScheduleView, ClientError> {
        self.ask(self.get(self.at(["v1", "schedules", name])), Repeat::Safe).await
    }

    /// Lists schedules in order of name.
    pub async fn schedules(&self, query: &ScheduleQuery) -> Result<ScheduleList, ClientError> {
        self.ask(self.get(with_query(self.at(["v1", "schedules"]), query)), Repeat::Safe).await
    }

    pub async fn delete_schedule(&self, name: &str) -> Result<(), ClientError> {
        let request = self.request(Method::DELETE, self.at(["v1", "schedules", name]));
        self.send(request, Repeat::Unsafe).await.map(drop)
    }

    pub async fn pause_schedule(&self, name: &str, note: Option<&str>) -> Result<ScheduleView, ClientError> {
        self.with_note(name, "pause", note).await
    }

    pub async fn resume_schedule(&self, name: &str, note: Option<&str>) -> Result<ScheduleView, ClientError> {
        self.with_note(name, "resume", note).await
    }

    async fn with_note(&self, name: &str, verb: &str, note: Option<&str>) -> Result<ScheduleView, ClientError> {
        let body = NoteRequest { note: note.map(str::to_owned) };
        // Whoever pauses twice has paused once.
        self.ask(self.post(self.at(["v1", "schedules", name, verb])).json(&body), Repeat::Safe).await
    }

    /// The next `count` planned times do not fire.
    pub async fn skip_schedule(&self, name: &str, count: u32) -> Result<SkipAnswer, ClientError> {
        let body = SkipRequest { count: Some(count) };
        self.ask(self.post(self.at(["v1", "schedules", name, "skip"])).json(&body), Repeat::Unsafe).await
    }

    /// One run at once, beside the plan.
    pub async fn run_schedule(&self, name: &str, request: &RunRequest) -> Result<RunAnswer, ClientError> {
        self.ask(self.post(self.at(["v1", "schedules", name, "run"])).json(request), Repeat::Unsafe).await
    }

    /// Skips all runs that wait for the one before them.
    pub async fn clear_schedule_queue(&self, name: &str) -> Result<QueueCleared, ClientError> {
        let url = self.at(["v1", "schedules", name, "queue"]);
        // A second request would say that nothing waited.
        self.ask(self.request(Method::DELETE, url), Repeat::Unsafe).await
    }

    /// Lists the occurrences of a schedule.
    pub async fn occurrences(&self, name: &str, query: &OccurrenceQuery) -> Result<OccurrenceList, ClientError> {
        let url = with_query(self.at(["v1", "schedules", name, "occurrences"]), query);
        self.ask(self.get(url), Repeat::Safe).await
    }

    /// When it will fire.
    pub async fn preview_schedule(&self, name: &str, query: &PreviewQuery) -> Result<Preview, ClientError> {
        let url = with_query(self.at(["v1", "schedules", name, "preview"]), query);
        self.ask(self.get(url), Repeat::Safe).await
    }

    /// When a schedule would fire that is not stored. It needs no task.
    pub async fn preview(&self, schedule: &ScheduleRequest, query: &PreviewQuery) -> Result<Preview, ClientError> {
        let url = with_query(self.at(["v1", "schedules", "preview"]), query);
        self.ask(self.post(url).json(schedule), Repeat::Safe).await
    }
}
