//! Tasks.

use punctual_api::{TaskList, TaskRequest, TaskView};
use reqwest::header::{IF_MATCH, IF_NONE_MATCH};
use reqwest::{Method, RequestBuilder};
use serde::Serialize;
use serde_json::json;

use crate::send::{Repeat, with_query};
use crate::{Client, ClientError};

/// Which revision of a definition a change may replace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IfMatch {
    /// Whatever there is.
    Any,
    /// This revision and no other.
    Revision(u32),
    /// None: the definition must not exist.
    Absent,
}

impl IfMatch {
    /// The condition that a user asked for: 0 stands for no definition.
    pub fn of_revision(revision: Option<u32>) -> Self {
        match revision {
            None => Self::Any,
            Some(0) => Self::Absent,
            Some(revision) => Self::Revision(revision),
        }
    }

    /// The request with the condition, and whether it may be sent again: the first of two equal requests changes the revision
    /// that the second asks for.
    pub(crate) fn on(self, request: RequestBuilder) -> (RequestBuilder, Repeat) {
        match self {
            Self::Any => (request, Repeat::Safe),
            Self::Revision(revision) => (request.header(IF_MATCH, format!("\"{revision}\"")), Repeat::Unsafe),
            Self::Absent => (request.header(IF_NONE_MATCH, "*"), Repeat::Unsafe),
        }
    }
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
        let (request, repeat) = when.on(self.request(Method::PUT, self.at(["v1", "tasks", name])).json(spec));
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
