//! TLS and a credential, as on any network but loopback.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use punctual_api::WorkerTokenRequest;
use punctual_client::Client;
use punctual_pki::{ClientTls, Trust, certificates_from_pem};
use tokio_rustls::TlsConnector;

/// What a client needs: the cluster's authority and an access token.
#[derive(Clone)]
pub(crate) struct Secured {
    tls: ClientTls,
    token: Arc<str>,
}

impl Secured {
    /// From the folder of a server that is ready.
    pub(super) fn of_server(data: &Path) -> anyhow::Result<Self> {
        let read = |name: &str| {
            let path = data.join(name);
            fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
        };
        let roots = Trust::Roots(certificates_from_pem(read("ca.pem")?.as_bytes())?);
        let tls = ClientTls::new(&roots, None, &[b"http/1.1"])?;
        Ok(Self { tls, token: read("token")?.trim().into() })
    }

    pub(super) fn client(&self, url: &str) -> anyhow::Result<Client> {
        let token = Arc::clone(&self.token);
        let client = Client::new(url)?.with_tls(self.tls.config().as_ref().clone())?;
        Ok(client.with_tokens(move |_| Some(token.to_string())))
    }

    pub(super) fn connector(&self) -> TlsConnector {
        self.tls.config().into()
    }

    pub(super) fn tls(&self) -> &ClientTls {
        &self.tls
    }

    pub(super) fn token(&self) -> &str {
        &self.token
    }
}

/// With which the worker joins.
pub(super) async fn join_token(client: &Client) -> anyhow::Result<String> {
    let request = WorkerTokenRequest {
        queues: vec!["default".to_owned()],
        kinds: vec!["probe".to_owned()],
        uses: Some(1),
        ..WorkerTokenRequest::default()
    };
    Ok(client.create_worker_token(&request).await.context("no join token")?.token)
}
