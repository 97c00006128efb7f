//! Queues.

use punctual_api::{NoteRequest, QueueList, QueueQuery, QueueRequest, QueueView};
use reqwest::Method;

use crate::send::{Repeat, with_query};
use crate::{Client, ClientError, IfMatch};

impl Client {
    /// Lists queues in order of name.
    pub async fn queues(&self, query: &QueueQuery) -> Result<QueueList, ClientError> {
        self.ask(self.get(with_query(self.at(["v1", "queues"]), query)), Repeat::Safe).await
    }

    pub async fn queue(&self, name: &str) -> Result<QueueView, ClientError> {
        self.ask(self.get(self.at(["v1", "queues", name])), Repeat::Safe).await
    }

    /// Describes a queue and sets its defaults, which replace those it had.
    pub async fn apply_queue(&self, name: &str, queue: &QueueRequest, when: IfMatch) -> Result<QueueView, ClientError> {
        let (request, repeat) = when.on(self.request(Method::PUT, self.at(["v1", "queues", name])).json(queue));
        self.ask(request, repeat).await
    }

    pub async fn pause_queue(&self, name: &str, note: Option<&str>) -> Result<QueueView, ClientError> {
        self.set_queue(name, "pause", note).await
    }

    pub async fn resume_queue(&self, name: &str, note: Option<&str>) -> Result<QueueView, ClientError> {
        self.set_queue(name, "resume", note).await
    }

    pub async fn drain_queue(&self, name: &str, note: Option<&str>) -> Result<QueueView, ClientError> {
        self.set_queue(name, "drain", note).await
    }

    async fn set_queue(&self, name: &str, verb: &str, note: Option<&str>) -> Result<QueueView, ClientError> {
        let body = NoteRequest { note: note.map(str::to_owned) };
        // Whoever pauses twice has paused once.
        self.ask(self.post(self.at(["v1", "queues", name, verb])).json(&body), Repeat::Safe).await
    }
}
