//! Secrets.

use punctual_api::{DataKeyQuery, DataKeyRotated, RootKeyRotated, SecretList, SecretQuery, SecretView};
use reqwest::Method;
use reqwest::header::CONTENT_TYPE;

use crate::send::{Repeat, with_query};
use crate::{Client, ClientError};

impl Client {
    /// Stores a secret, or a new value of the one with this name.
    pub async fn put_secret(&self, name: &str, value: Vec<u8>) -> Result<SecretView, ClientError> {
        let request = self.request(Method::PUT, self.at(["v1", "secrets", name]));
        self.ask(request.header(CONTENT_TYPE, "application/octet-stream").body(value), Repeat::Safe).await
    }

    /// All of them, in order of name, without their values.
    pub async fn secrets(&self) -> Result<SecretList, ClientError> {
        self.ask(self.get(self.at(["v1", "secrets"])), Repeat::Safe).await
    }

    /// Refused while tasks refer to it, unless the query says otherwise.
    pub async fn delete_secret(&self, name: &str, query: &SecretQuery) -> Result<(), ClientError> {
        let request = self.request(Method::DELETE, with_query(self.at(["v1", "secrets", name]), query));
        self.send(request, Repeat::Unsafe).await.map(drop)
    }

    /// Makes a new data key for each namespace, or for the one of the query, and seals its secrets with it.
    pub async fn rotate_data_key(&self, query: &DataKeyQuery) -> Result<DataKeyRotated, ClientError> {
        let url = with_query(self.at(["v1", "data-key", "rotate"]), query);
        self.ask(self.post(url), Repeat::Unsafe).await
    }

    /// Seals the keys of the database with a new root key.
    pub async fn rotate_root_key(&self) -> Result<RootKeyRotated, ClientError> {
        self.ask(self.post(self.at(["v1", "root-key", "rotate"])), Repeat::Unsafe).await
    }
}
