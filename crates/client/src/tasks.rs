//! Tasks.

use punctual_api::{TaskList, TaskRequest, TaskView};
use reqwest::Method;
use reqwest::header::IF_MATCH;
use serde::Serialize;
use serde_json::json;

use crate::send::{Repeat, with_query};
use crate::{Client, ClientError};

/// Which revision of a task an update may replace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IfMatch {
    Any,
    Revision(u32),
}

impl Client {
    /// Defines the task, or replaces its definition. `spec` is a [`TaskSpec`](punctual_core::task::TaskSpec), or JSON that
    /// reads as one.
    pub async fn apply_task(
        &self,
        name: &str,
        spec: &(impl Serialize + Sync + ?Sized),
        when: IfMatch,
    ) -> Result<TaskView, ClientError> {
        let mut request = self.request(Method::PUT, self.at(["v1", "tasks", name])).json(spec);
        // The first of two equal requests changes the revision that the second asks for.
        let mut repeat = Repeat::Safe;
        if let IfMatch::Revision(revision) = when {
            request = request.header(IF_MATCH, format!("\"{revision}\""));
            repeat = Repeat::Unsafe;
        }
        self.ask(request, repeat).await
    }

    /// Defines a task that must not exist yet.
    pub async fn create_task(&self, task: &TaskRequest) -> Result<TaskView, ClientError> {
        self.ask(self.post(self.at(["v1", "tasks"])).json(task), Repeat::Unsafe).await
    }

    pub async fn task(&self, name: &str) -> Result<TaskView, ClientError> {
        self.ask(self.get(self.at(["v1", "tasks", name])), Repeat::Safe).await
    }

    pub async fn tasks(&self, limit: Option<usize>, cursor: Option<&str>) -> Result<TaskList, ClientError> {
        let url = with_query(self.at(["v1", "tasks"]), &json!({ "limit": limit, "cursor": cursor }));
        self.ask(self.get(url), Repeat::Safe).await
    }

    pub async fn delete_task(&self, name: &str) -> Result<(), ClientError> {
        let request = self.request(Method::DELETE, self.at(["v1", "tasks", name]));
        self.send(request, Repeat::Unsafe).await.map(drop)
    }
}
