//! The credentials that a worker presents to servers, and the connections on which it does.

use std::sync::Arc;

use punctual_pki::{ClientTls, Trust};
use punctual_proto::worker::worker_client::WorkerClient;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::service::Interceptor;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::Channel;
use tonic::{Request, Status};

use crate::dial::{Dialer, ListenerCheck, TlsSource};

/// Returns the access token for the server at an address, if it needs one. Called for each connection, so that a token
/// that is created or changed later is found.
pub(crate) type TokenSource = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// Where a worker may connect without TLS, which exposes its token and its jobs to the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PlainHttp {
    #[default]
    LoopbackOnly,
    Anywhere,
}

pub(crate) struct Credentials {
    pub(crate) token: TokenSource,
    pub(crate) distrust: ListenerCheck,
    pub(crate) tls: TlsSource,
    pub(crate) plain_http: PlainHttp,
}

impl Default for Credentials {
    fn default() -> Self {
        let tls = || ClientTls::new(&Trust::System, None, &[HTTP_2]).map_err(|error| error.to_string());
        Self {
            token: Arc::new(|_| None),
            distrust: Arc::new(|_| None),
            tls: Arc::new(tls),
            plain_http: PlainHttp::default(),
        }
    }
}

/// What workers speak, as TLS names it.
pub const HTTP_2: &[u8] = b"h2";

impl Credentials {
    pub(crate) fn dialer(&self) -> Dialer {
        Dialer { distrust: Arc::clone(&self.distrust), tls: Arc::clone(&self.tls) }
    }
}

/// Adds the access token to every call.
#[derive(Clone)]
pub(crate) struct Bearer(Option<MetadataValue<Ascii>>);

impl Bearer {
    pub(crate) fn new(token: Option<String>) -> Self {
        let value = token.and_then(|token| MetadataValue::try_from(format!("Bearer {token}")).ok());
        Self(value.map(|mut value| {
            value.set_sensitive(true);
            value
        }))
    }
}

impl Interceptor for Bearer {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        if let Some(value) = &self.0 {
            request.metadata_mut().insert("authorization", value.clone());
        }
        Ok(request)
    }
}

pub(crate) type Client = WorkerClient<InterceptedService<Channel, Bearer>>;
