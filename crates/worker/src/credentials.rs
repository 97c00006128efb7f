//! What a worker shows to servers, and over which connections.

use std::sync::Arc;

use punctual_proto::worker::worker_client::WorkerClient;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::service::Interceptor;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::Channel;
use tonic::{Request, Status};

/// Answers the access token for the server at an address, if it needs one. Asked for each connection, so that a token
/// that is made or changed later is found.
pub(crate) type TokenSource = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// Where a worker speaks without TLS, and so shows its token and its jobs to the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PlainHttp {
    #[default]
    LoopbackOnly,
    Anywhere,
}

/// Answers why the server at an address must not be spoken to: whoever listens there may be somebody else.
pub(crate) type ServerCheck = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

pub(crate) struct Credentials {
    pub(crate) token: TokenSource,
    pub(crate) distrust: ServerCheck,
    pub(crate) plain_http: PlainHttp,
}

impl Default for Credentials {
    fn default() -> Self {
        Self { token: Arc::new(|_| None), distrust: Arc::new(|_| None), plain_http: PlainHttp::default() }
    }
}

/// Adds the token to every call, or refuses to make any.
#[derive(Clone)]
pub(crate) struct Bearer(Result<Option<MetadataValue<Ascii>>, String>);

impl Bearer {
    pub(crate) fn new(token: Option<String>) -> Self {
        let value = token.and_then(|token| MetadataValue::try_from(format!("Bearer {token}")).ok());
        Self(Ok(value.map(|mut value| {
            value.set_sensitive(true);
            value
        })))
    }

    /// Nothing is said to this server.
    pub(crate) fn refused(reason: String) -> Self {
        Self(Err(reason))
    }
}

impl Interceptor for Bearer {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        let value = self.0.as_ref().map_err(|reason| Status::permission_denied(reason.clone()))?;
        if let Some(value) = value {
            request.metadata_mut().insert("authorization", value.clone());
        }
        Ok(request)
    }
}

pub(crate) type Client = WorkerClient<InterceptedService<Channel, Bearer>>;
