//! Servers, workers, figures and changes.

use futures_util::{Stream, TryStreamExt};
use punctual_api::{JobChange, Node, SERVER_HEADER, ServerList, Stats, WorkerList, WorkerQuery};
use punctual_core::{JobId, ServerId};
use reqwest::Url;

use crate::send::{Repeat, with_query};
use crate::sse::Event;
use crate::{Client, ClientError};

impl Client {
    pub async fn workers(&self) -> Result<WorkerList, ClientError> {
        self.workers_and(&WorkerQuery::default()).await
    }

    /// Lists workers, including disconnected ones if the query requests them.
    pub async fn workers_and(&self, query: &WorkerQuery) -> Result<WorkerList, ClientError> {
        self.ask(self.get(with_query(self.at(["v1", "workers"]), query)), Repeat::Safe).await
    }

    pub async fn servers(&self) -> Result<ServerList, ClientError> {
        self.ask(self.get(self.at(["v1", "servers"])), Repeat::Safe).await
    }

    pub async fn server(&self) -> Result<Node, ClientError> {
        self.ask(self.get(self.at(["v1", "server"])), Repeat::Safe).await
    }

    pub async fn stats(&self) -> Result<Stats, ClientError> {
        self.ask(self.get(self.at(["v1", "stats"])), Repeat::Safe).await
    }

    /// The process answers.
    pub async fn live(&self) -> Result<(), ClientError> {
        self.send(self.get(self.at(["livez"])), Repeat::Safe).await.map(drop)
    }

    /// The id of the server that answers at this address; `None` if the answer does not name it.
    pub async fn who_answers(&self) -> Result<Option<ServerId>, ClientError> {
        let answer = self.send(self.get(self.at(["livez"])), Repeat::Safe).await?;
        let server = answer.headers().get(SERVER_HEADER).and_then(|header| header.to_str().ok());
        Ok(server.and_then(|server| server.parse().ok()))
    }

    /// Whether a write would succeed at the server. Asks once: no is an answer.
    pub async fn ready(&self) -> Result<(), ClientError> {
        self.send(self.get(self.at(["readyz"])), Repeat::Unsafe).await.map(drop)
    }

    pub async fn openapi(&self) -> Result<serde_json::Value, ClientError> {
        self.ask(self.get(self.at(["openapi.json"])), Repeat::Safe).await
    }

    /// The changes of all jobs from now on. Hints: one may be lost.
    pub async fn changes(&self) -> Result<impl Stream<Item = Result<JobChange, ClientError>> + use<>, ClientError> {
        self.changes_at(self.at(["v1", "events"])).await
    }

    /// The changes of one job from now on.
    pub async fn job_changes(
        &self,
        id: JobId,
    ) -> Result<impl Stream<Item = Result<JobChange, ClientError>> + use<>, ClientError> {
        self.changes_at(self.at(["v1", "jobs", &id.to_string(), "events"])).await
    }

    async fn changes_at(
        &self,
        url: Url,
    ) -> Result<impl Stream<Item = Result<JobChange, ClientError>> + use<>, ClientError> {
        let read = |client: &Client, event: Event| match event.name.as_str() {
            // That some were lost is always possible.
            "missed" => Some(Ok(None)),
            _ => Some(serde_json::from_str(&event.data).map_err(|error| client.bad_answer(error.to_string()))),
        };
        Ok(self.listen(url, read).await?.try_filter_map(async |change| Ok(change)))
    }
}
