//! Artifacts: declaring and uploading files.

use std::time::Duration;

use bytes::Bytes;
use futures_util::Stream;
use punctual_api::{ArtifactList, ArtifactRequest, ArtifactView, Problem, UploadTarget};
use punctual_core::ArtifactId;
use punctual_pki::{Trust, client_config};
use reqwest::header::CONTENT_LENGTH;
use reqwest::{Body, Method};
use serde_json::json;

use crate::send::{Repeat, with_query};
use crate::{CONNECT_TIMEOUT, Client, ClientError};

/// An upload that makes no progress for this long is given up.
const UPLOAD_STALL: Duration = Duration::from_secs(120);

impl Client {
    /// Declares a file. The answer says where to send it, unless it is known.
    pub async fn create_artifact(&self, artifact: &ArtifactRequest) -> Result<ArtifactView, ClientError> {
        // Declared twice, it is the same artifact.
        self.ask(self.post(self.at(["v1", "artifacts"])).json(artifact), Repeat::Safe).await
    }

    /// Sends a file to where the answer said, in one request. Not repeated: the stream is used up.
    pub async fn upload(
        &self,
        target: &UploadTarget,
        size: u64,
        bytes: impl Stream<Item = std::io::Result<Bytes>> + Send + Sync + 'static,
    ) -> Result<(), ClientError> {
        let http = self.storage_client(&target.url)?;
        let method = Method::from_bytes(target.method.as_bytes())
            .map_err(|_| self.bad_answer("the upload has a method that is none".to_owned()))?;
        let mut request = http.request(method, &target.url).header(CONTENT_LENGTH, size).body(Body::wrap_stream(bytes));
        for (name, value) in &target.headers {
            request = request.header(name, value);
        }
        // Only its host is named: the rest of the address is a secret for as long as it works.
        let host = reqwest::Url::parse(&target.url).map(|url| url.origin().ascii_serialization());
        let host = host.unwrap_or_else(|_| "the storage".to_owned());
        let unreachable = |source: reqwest::Error| ClientError::Unreachable { url: host, source: source.without_url() };
        let response = request.send().await.map_err(unreachable.clone())?;
        let status = response.status();
        if status.is_success() {
            return Ok(());
        }
        let text = response.text().await.map_err(unreachable)?;
        Err(match serde_json::from_str::<Problem>(&text) {
            Ok(problem) => ClientError::Problem(Box::new(problem)),
            Err(_) => self.bad_answer(format!("the storage answered {status}")),
        })
    }

    /// A client for the address of an upload, which carries its own proof: the access token is not sent. The storage may be another
    /// host, with a certificate of its own.
    fn storage_client(&self, url: &str) -> Result<reqwest::Client, ClientError> {
        let builder = reqwest::Client::builder()
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(CONNECT_TIMEOUT)
            .read_timeout(UPLOAD_STALL);
        let url = reqwest::Url::parse(url).map_err(|_| self.bad_answer("the upload has no address".to_owned()))?;
        let is_a_server = self.bases.iter().any(|base| base.origin() == url.origin());
        let builder = match &self.tls {
            _ if url.scheme() == "http" => builder.tls_certs_only([]),
            Some(config) if is_a_server => builder.tls_backend_preconfigured(config.clone()),
            _ if self.storage_authorities.is_empty() => builder,
            _ => {
                let trust = Trust::SystemAnd(self.storage_authorities.clone());
                let config = client_config(&trust, None, &[b"http/1.1"])
                    .map_err(|error| self.bad_answer(format!("the upload cannot use TLS: {error}")))?;
                builder.tls_backend_preconfigured(config)
            }
        };
        builder.build().map_err(ClientError::Setup)
    }

    /// Whether its file has arrived.
    pub async fn artifact(&self, id: ArtifactId) -> Result<ArtifactView, ClientError> {
        self.ask(self.get(self.at(["v1", "artifacts", &id.to_string()])), Repeat::Safe).await
    }

    /// The newest first.
    pub async fn artifacts(&self, limit: Option<usize>, cursor: Option<&str>) -> Result<ArtifactList, ClientError> {
        let url = with_query(self.at(["v1", "artifacts"]), &json!({ "limit": limit, "cursor": cursor }));
        self.ask(self.get(url), Repeat::Safe).await
    }

    pub async fn delete_artifact(&self, id: ArtifactId) -> Result<(), ClientError> {
        let request = self.request(Method::DELETE, self.at(["v1", "artifacts", &id.to_string()]));
        self.send(request, Repeat::Unsafe).await.map(drop)
    }
}
