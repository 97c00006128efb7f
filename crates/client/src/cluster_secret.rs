//! The cluster's secret.

use punctual_api::{ClusterSecretView, RotateClusterSecret};

use crate::send::Repeat;
use crate::{Client, ClientError};

impl Client {
    /// The id and the age of the cluster's secret, and how far its rotation is.
    pub async fn cluster_secret(&self) -> Result<ClusterSecretView, ClientError> {
        self.ask(self.get(self.at(["v1", "cluster-secret"])), Repeat::Safe).await
    }

    /// Replaces the cluster's secret while servers run.
    pub async fn rotate_cluster_secret(&self, request: &RotateClusterSecret) -> Result<ClusterSecretView, ClientError> {
        self.ask(self.post(self.at(["v1", "cluster-secret", "rotate"])).json(request), Repeat::Unsafe).await
    }

    /// Drops the former secret now.
    pub async fn retire_cluster_secret(&self) -> Result<ClusterSecretView, ClientError> {
        self.ask(self.post(self.at(["v1", "cluster-secret", "retire"])), Repeat::Unsafe).await
    }
}
