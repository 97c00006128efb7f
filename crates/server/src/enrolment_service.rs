//! How workers on other hosts get their certificates: the token is the credential of the first, the certificate that of the
//! next.

use punctual_api::ErrorKind;
use punctual_app::permission::ServeJobs;
use punctual_app::{App, AppError, IssuedCertificate, JoiningWorker, Transport};
use punctual_proto::worker as wire;
use punctual_proto::worker::enrolment_server::{Enrolment, EnrolmentServer};
use tonic::metadata::MetadataValue;
use tonic::{Code, Request, Response, Status};

use crate::grpc::refused;
use crate::permit::permit;

/// Open to everybody: the token is checked by the app.
pub(crate) const JOIN: &str = "/punctual.worker.v1.Enrolment/Join";
pub(crate) const RENEW: &str = "/punctual.worker.v1.Enrolment/Renew";

/// A token and a key are smaller.
const MESSAGE_BYTES_MAX: usize = 4 << 10;
/// The metadata of a refusal with its stable code.
const CODE: &str = "punctual-code";

pub(crate) fn service(app: App) -> EnrolmentServer<EnrolmentService> {
    EnrolmentServer::new(EnrolmentService { app }).max_decoding_message_size(MESSAGE_BYTES_MAX)
}

#[derive(Clone)]
pub(crate) struct EnrolmentService {
    app: App,
}

#[tonic::async_trait]
impl Enrolment for EnrolmentService {
    async fn join(&self, request: Request<wire::JoinRequest>) -> Result<Response<wire::Certificate>, Status> {
        let transport = request.extensions().get::<Transport>().cloned().unwrap_or_default();
        if !transport.is_encrypted {
            let error = AppError::new(ErrorKind::TlsRequired, "a join token is taken over TLS only");
            return Err(failed(&error.hint("start the servers with TLS; see docs/tls.md")));
        }
        let wire::JoinRequest { token, public_key, name, queues } = request.into_inner();
        let joining = JoiningWorker { name, queues, address: transport.address };
        let issued = self.app.join_worker(&token, &public_key, joining).await.map_err(|error| failed(&error))?;
        Ok(Response::new(certificate(issued)))
    }

    async fn renew(&self, request: Request<wire::RenewRequest>) -> Result<Response<wire::Certificate>, Status> {
        let by = permit::<ServeJobs>(request.extensions()).map_err(|error| failed(&error))?;
        let wire::RenewRequest { public_key } = request.into_inner();
        let issued = self.app.renew_worker(&by, &public_key).await.map_err(|error| failed(&error))?;
        Ok(Response::new(certificate(issued)))
    }
}

fn certificate(issued: IssuedCertificate) -> wire::Certificate {
    let IssuedCertificate { enrolment, cluster, scope, chain, authorities, expires_at } = issued;
    wire::Certificate {
        enrolment: enrolment.to_string(),
        chain: chain.into_iter().map(Into::into).collect(),
        authorities: authorities.into_iter().map(Into::into).collect(),
        expires_at: expires_at.as_micros(),
        queues: scope.queues,
        kinds: scope.kinds,
        labels: scope.labels.into_iter().collect(),
        cluster,
    }
}

fn failed(error: &AppError) -> Status {
    with_code(refused(error).code(), error)
}

/// A refusal with its hint and its stable code.
pub(crate) fn with_code(code: Code, error: &AppError) -> Status {
    let AppError { detail, hint, kind, .. } = error;
    let message = hint.as_ref().map_or_else(|| detail.clone(), |hint| format!("{detail}; {hint}"));
    let mut status = Status::new(code, message);
    status.metadata_mut().insert(CODE, MetadataValue::from_static(kind.code()));
    status
}
