//! Workers on other hosts: join tokens, and the workers that joined.

use punctual_api::{
    CreatedWorkerToken, EnrolmentList, EnrolmentQuery, EnrolmentView, WorkerEdit, WorkerToken, WorkerTokenList,
    WorkerTokenRequest,
};
use punctual_core::{EnrolmentId, JoinTokenId};
use reqwest::Method;

use crate::send::{Repeat, with_query};
use crate::{Client, ClientError};

impl Client {
    /// Makes a token with which workers join. Its text is only in this answer.
    pub async fn create_worker_token(&self, request: &WorkerTokenRequest) -> Result<CreatedWorkerToken, ClientError> {
        // Sent twice, it would be made twice.
        self.ask(self.request(Method::POST, self.at(["v1", "worker-tokens"])).json(request), Repeat::Unsafe).await
    }

    /// All join tokens, without their secrets.
    pub async fn worker_tokens(&self) -> Result<WorkerTokenList, ClientError> {
        self.ask(self.get(self.at(["v1", "worker-tokens"])), Repeat::Safe).await
    }

    /// From now on nobody joins with the token.
    pub async fn delete_worker_token(&self, id: JoinTokenId) -> Result<(), ClientError> {
        let request = self.request(Method::DELETE, self.at(["v1", "worker-tokens", &id.to_string()]));
        self.send(request, Repeat::Safe).await.map(drop)
    }

    /// The workers that joined, the oldest first.
    pub async fn enrolments(&self, query: &EnrolmentQuery) -> Result<EnrolmentList, ClientError> {
        self.ask(self.get(with_query(self.at(["v1", "worker-enrolments"]), query)), Repeat::Safe).await
    }

    /// Changes the namespaces of all workers that joined with a token, and of those that will.
    pub async fn edit_worker_token(&self, id: JoinTokenId, edit: &WorkerEdit) -> Result<WorkerToken, ClientError> {
        let url = self.at(["v1", "worker-tokens", &id.to_string()]);
        self.ask(self.request(Method::PATCH, url).json(edit), Repeat::Safe).await
    }

    /// Changes the namespaces whose jobs a worker runs.
    pub async fn edit_worker(&self, id: EnrolmentId, edit: &WorkerEdit) -> Result<EnrolmentView, ClientError> {
        let url = self.at(["v1", "worker-enrolments", &id.to_string()]);
        self.ask(self.request(Method::PATCH, url).json(edit), Repeat::Safe).await
    }

    /// Cuts a worker off.
    pub async fn revoke_worker(&self, id: EnrolmentId) -> Result<(), ClientError> {
        let request = self.request(Method::DELETE, self.at(["v1", "worker-enrolments", &id.to_string()]));
        self.send(request, Repeat::Safe).await.map(drop)
    }
}
