//! Workflows and their runs.

use punctual_api::{
    DecideRequest, ResumeRequest, RunEventRequest, RunList, RunQuery, RunView, SkipNodeRequest, WorkflowApplied,
    WorkflowList, WorkflowQuery, WorkflowRunRequest, WorkflowView,
};
use punctual_core::RunId;
use reqwest::Method;
use serde::Serialize;

use crate::send::{Repeat, with_query};
use crate::{Client, ClientError};

impl Client {
    /// `spec` is a definition as JSON; what is wrong with it is for the server to say.
    pub async fn apply_workflow(
        &self,
        name: &str,
        spec: &(impl Serialize + ?Sized),
    ) -> Result<WorkflowApplied, ClientError> {
        let request = self.request(Method::PUT, self.at(["v1", "workflows", name])).json(spec);
        self.ask(request, Repeat::Safe).await
    }

    pub async fn workflows(&self, query: &WorkflowQuery) -> Result<WorkflowList, ClientError> {
        self.ask(self.get(with_query(self.at(["v1", "workflows"]), query)), Repeat::Safe).await
    }

    /// A version, or the newest one.
    pub async fn workflow(&self, name: &str, version: Option<u32>) -> Result<WorkflowView, ClientError> {
        let query = punctual_api::VersionQuery { version: version.map(|version| version.to_string()) };
        self.ask(self.get(with_query(self.at(["v1", "workflows", name]), &query)), Repeat::Safe).await
    }

    pub async fn start_run(&self, workflow: &str, request: &WorkflowRunRequest) -> Result<RunView, ClientError> {
        // Sent twice, it would run twice.
        self.ask(self.post(self.at(["v1", "workflows", workflow, "runs"])).json(request), Repeat::Unsafe).await
    }

    pub async fn runs(&self, query: &RunQuery) -> Result<RunList, ClientError> {
        self.ask(self.get(with_query(self.at(["v1", "runs"]), query)), Repeat::Safe).await
    }

    pub async fn workflow_run(&self, id: RunId) -> Result<RunView, ClientError> {
        self.ask(self.get(self.at(["v1", "runs", &id.to_string()])), Repeat::Safe).await
    }

    pub async fn cancel_run(&self, id: RunId) -> Result<RunView, ClientError> {
        self.ask(self.post(self.at(["v1", "runs", &id.to_string(), "cancel"])), Repeat::Unsafe).await
    }

    pub async fn resume_run(&self, id: RunId, request: &ResumeRequest) -> Result<RunView, ClientError> {
        self.ask(self.post(self.at(["v1", "runs", &id.to_string(), "resume"])).json(request), Repeat::Unsafe).await
    }

    pub async fn rerun(&self, id: RunId, request: &WorkflowRunRequest) -> Result<RunView, ClientError> {
        self.ask(self.post(self.at(["v1", "runs", &id.to_string(), "rerun"])).json(request), Repeat::Unsafe).await
    }

    pub async fn skip_node(&self, id: RunId, request: &SkipNodeRequest) -> Result<RunView, ClientError> {
        self.ask(self.post(self.at(["v1", "runs", &id.to_string(), "skip"])).json(request), Repeat::Unsafe).await
    }

    pub async fn decide_gate(&self, id: RunId, request: &DecideRequest) -> Result<RunView, ClientError> {
        self.ask(self.post(self.at(["v1", "runs", &id.to_string(), "decide"])).json(request), Repeat::Unsafe).await
    }

    pub async fn send_event(&self, id: RunId, request: &RunEventRequest) -> Result<RunView, ClientError> {
        self.ask(self.post(self.at(["v1", "runs", &id.to_string(), "events"])).json(request), Repeat::Unsafe).await
    }
}
