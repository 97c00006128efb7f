//! Asks a server for a certificate.

use std::sync::Arc;
use std::time::Duration;

use punctual_pki::ClientTls;
use punctual_proto::worker as wire;
use punctual_proto::worker::enrolment_client::EnrolmentClient;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Response, Status};
use tower::service_fn;

use crate::dial::{Dialer, trouble};
use crate::session::describe;

/// A handshake, two reads and a write of the store.
const ANSWER_LIMIT: Duration = Duration::from_secs(10);
/// Two certificates for each authority, and a scope.
const MESSAGE_BYTES_MAX: usize = 256 << 10;
/// The metadata of a refusal with its stable code.
const CODE: &str = "punctual-code";

pub(super) enum AskError {
    /// Asking again would not help.
    Refused { code: String, message: String },
    /// Another server, or the same one later, may answer.
    Unreachable(String),
}

pub(super) async fn join(
    url: &str,
    tls: &ClientTls,
    token: String,
    public_key: Vec<u8>,
    name: String,
    queues: Vec<String>,
) -> Result<wire::Certificate, AskError> {
    let request = wire::JoinRequest { token, public_key: public_key.into(), name, queues };
    ask(url, tls, async |mut client| client.join(request).await).await
}

pub(super) async fn renew(url: &str, tls: &ClientTls, public_key: Vec<u8>) -> Result<wire::Certificate, AskError> {
    let request = wire::RenewRequest { public_key: public_key.into() };
    ask(url, tls, async |mut client| client.renew(request).await).await
}

async fn ask(
    url: &str,
    tls: &ClientTls,
    call: impl AsyncFnOnce(EnrolmentClient<Channel>) -> Result<Response<wire::Certificate>, Status>,
) -> Result<wire::Certificate, AskError> {
    let asked = async {
        // Nothing is sent before the handshake has shown who the server is.
        let channel = connect(url, tls).await?;
        let client = EnrolmentClient::new(channel).max_decoding_message_size(MESSAGE_BYTES_MAX);
        call(client).await.map(Response::into_inner).map_err(|status| refusal(&status))
    };
    let late = || Err(AskError::Unreachable("no answer in time".to_owned()));
    tokio::time::timeout(ANSWER_LIMIT, asked).await.unwrap_or_else(|_| late())
}

async fn connect(url: &str, tls: &ClientTls) -> Result<Channel, AskError> {
    let unreachable = |reason: String| AskError::Unreachable(reason);
    let endpoint = Endpoint::from_shared(url.to_owned()).map_err(|error| unreachable(error.to_string()))?;
    let tls = tls.clone();
    // The certificate says who the server is.
    let dialer = Dialer { distrust: Arc::new(|_| None), tls: Arc::new(move || Ok(tls.clone())) };
    let connected = endpoint.connect_with_connector(service_fn(move |uri| dialer.clone().dial(uri))).await;
    connected.map_err(|error| unreachable(trouble(&error)))
}

fn refusal(status: &Status) -> AskError {
    let code = status.metadata().get(CODE).and_then(|code| code.to_str().ok()).unwrap_or_default().to_owned();
    let is_final =
        !matches!(status.code(), Code::Unavailable | Code::ResourceExhausted | Code::Internal) && !code.is_empty();
    if is_final {
        return AskError::Refused { code, message: status.message().to_owned() };
    }
    AskError::Unreachable(describe(status))
}
