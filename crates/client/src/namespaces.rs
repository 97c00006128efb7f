//! Namespaces.

use punctual_api::{NamespaceEdit, NamespaceList, NamespaceRequest, NamespaceView};
use reqwest::Method;

use crate::send::Repeat;
use crate::tasks::IfMatch;
use crate::{Client, ClientError};

impl Client {
    /// Those in which whoever asks has a right.
    pub async fn namespaces(&self) -> Result<NamespaceList, ClientError> {
        self.ask(self.get(self.at(["v1", "namespaces"])), Repeat::Safe).await
    }

    pub async fn namespace(&self, name: &str) -> Result<NamespaceView, ClientError> {
        self.ask(self.get(self.at(["v1", "namespaces", name])), Repeat::Safe).await
    }

    pub async fn create_namespace(&self, namespace: &NamespaceRequest) -> Result<NamespaceView, ClientError> {
        self.ask(self.post(self.at(["v1", "namespaces"])).json(namespace), Repeat::Unsafe).await
    }

    pub async fn edit_namespace(
        &self,
        name: &str,
        edit: &NamespaceEdit,
        when: IfMatch,
    ) -> Result<NamespaceView, ClientError> {
        let request = self.request(Method::PATCH, self.at(["v1", "namespaces", name])).json(edit);
        let (request, repeat) = when.on(request);
        self.ask(request, repeat).await
    }

    pub async fn delete_namespace(&self, name: &str, when: IfMatch) -> Result<(), ClientError> {
        let request = self.request(Method::DELETE, self.at(["v1", "namespaces", name]));
        let (request, _) = when.on(request);
        self.send(request, Repeat::Unsafe).await.map(drop)
    }
}
