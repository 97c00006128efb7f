//! Batches.

use punctual_api::{BatchList, BatchQuery, BatchView, MemberList, MemberQuery};
use punctual_core::BatchId;
use serde::Serialize;

use crate::jobs::IdempotencyKey;
use crate::send::{Repeat, with_query};
use crate::{Client, ClientError};

impl Client {
    /// `batch` is a request as JSON; what is wrong with it is for the server to say. Sent again with its key if the answer is lost.
    pub async fn create_batch(
        &self,
        batch: &(impl Serialize + ?Sized),
        key: &IdempotencyKey,
    ) -> Result<BatchView, ClientError> {
        let request = self.post(self.at(["v1", "batches"])).header("idempotency-key", &key.0).json(batch);
        self.ask(request, Repeat::Safe).await
    }

    pub async fn batches(&self, query: &BatchQuery) -> Result<BatchList, ClientError> {
        self.ask(self.get(with_query(self.at(["v1", "batches"]), query)), Repeat::Safe).await
    }

    pub async fn batch(&self, id: BatchId) -> Result<BatchView, ClientError> {
        self.ask(self.get(self.at(["v1", "batches", &id.to_string()])), Repeat::Safe).await
    }

    pub async fn batch_members(&self, id: BatchId, query: &MemberQuery) -> Result<MemberList, ClientError> {
        self.ask(self.get(with_query(self.at(["v1", "batches", &id.to_string(), "members"]), query)), Repeat::Safe)
            .await
    }

    /// Who cancels twice has cancelled once.
    pub async fn cancel_batch(&self, id: BatchId) -> Result<BatchView, ClientError> {
        self.ask(self.post(self.at(["v1", "batches", &id.to_string(), "cancel"])), Repeat::Safe).await
    }
}
