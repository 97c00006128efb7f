//! How a worker gets its certificate, and the next ones.

use std::net::IpAddr;

use punctual_api::{ErrorKind, limits};
use punctual_core::worker_scope::WorkerScope;
use punctual_core::{EnrolmentId, Span, Timestamp};
use punctual_pki::{CertificateName, Fingerprint, JoinToken, LeafRequest};
use punctual_store::{ENROLMENTS_MAX, JoinRefusal, JoinRequest, Joined};
use sha2::{Digest, Sha256};

use super::{enrolment_of, out_of_scope};
use crate::authority::KnownAuthorities;
use crate::principal::By;
use crate::principal::permission::ServeJobs;
use crate::{App, AppError, AuditEvent, Result, validate};

/// Short enough that a key that was stolen from a backup is worthless, long enough for an outage over a long weekend.
pub const CERTIFICATE_LIFETIME: Span = Span::from_secs(7 * 86_400);

/// What it is called in the audit log.
const JOIN: &str = "join_worker";

/// A P-256 public key as a SubjectPublicKeyInfo in DER has one form and length.
const P256_PREFIX: [u8; 27] = [
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce,
    0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00, 0x04,
];
const P256_LEN: usize = 91;

/// What a worker gets when it joins, and when it renews its certificate.
#[derive(Debug, Clone)]
pub struct IssuedCertificate {
    pub enrolment: EnrolmentId,
    /// What the cluster is called in certificates.
    pub cluster: String,
    pub scope: WorkerScope,
    /// The worker's certificate and its authority's, in DER.
    pub chain: Vec<Vec<u8>>,
    /// All authorities by which the worker recognizes servers, in DER.
    pub authorities: Vec<Vec<u8>>,
    pub expires_at: Timestamp,
}

/// What a worker says of itself when it joins.
#[derive(Debug, Clone, Default)]
pub struct JoiningWorker {
    pub name: String,
    /// The queues that it means to serve; none: all that it may.
    pub queues: Vec<String>,
    pub address: Option<IpAddr>,
}

impl App {
    /// Lets a worker join. Whoever does not know the secret of a token learns nothing about it.
    pub async fn join_worker(
        &self,
        token: &str,
        public_key: &[u8],
        worker: JoiningWorker,
    ) -> Result<IssuedCertificate> {
        let address = worker.address;
        let joined = self.join(token, public_key, worker).await;
        if let Err(error) = &joined {
            self.record_refusal(AuditEvent::by_nobody(address, JOIN, error.kind.code())).await;
        }
        joined
    }

    async fn join(&self, token: &str, public_key: &[u8], worker: JoiningWorker) -> Result<IssuedCertificate> {
        let JoiningWorker { name, queues, address } = worker;
        let invalid = || {
            let error = AppError::new(ErrorKind::InvalidJoinToken, "the join token is not valid");
            error.hint("check that it was copied completely; `punctual worker token create` makes another")
        };
        let token: JoinToken = token.parse().map_err(|_| invalid())?;
        check_key(public_key)?;
        validate::text("name", &name, limits::LABEL_CHARS_MAX)?;
        let now = self.now();
        let authorities = self.known_authorities(now).await?;
        if !authorities.certificates().iter().any(|known| Fingerprint::of(known) == token.authority()) {
            let error = AppError::new(ErrorKind::ForeignJoinToken, "the join token is for another cluster");
            return Err(error.hint("or for an authority of this cluster that was replaced; make another token"));
        }
        let known = self.0.store.join_token(token.id()).await?.ok_or_else(invalid)?;
        if !is_same(&known.secret_sha256, &token.secret_sha256()) {
            return Err(invalid());
        }
        let permitted = &known.scope.queues;
        if !queues.is_empty() && !queues.iter().any(|queue| permitted.contains(queue)) {
            return Err(out_of_scope("the join token permits none of the worker's queues", permitted));
        }
        let request = JoinRequest {
            id: EnrolmentId::new(now, self.random()),
            join_token: token.id(),
            name: name.clone(),
            key_sha256: Sha256::digest(public_key).into(),
            now,
            expires_at: now + CERTIFICATE_LIFETIME,
        };
        let row = match self.0.store.enrol(request).await? {
            Joined::Enrolled(row) => row,
            Joined::Refused(refusal) => {
                tracing::warn!(token = %token.id(), name, ?refusal, "a worker was not let in");
                return Err(refused(refusal).unwrap_or_else(invalid));
            }
        };
        tracing::info!(enrolment = %row.id, token = %token.id(), name, "a worker joined");
        let issued = issue(&authorities, row.id, row.scope, public_key, now)?;
        self.refresh_enrolments().await?;
        let worker = self.enrolled_principal(&row.id.to_string())?.at(address);
        self.record(AuditEvent::new(&worker, JOIN, AuditEvent::DONE).object(Some(&token.id().to_string()))).await?;
        Ok(issued)
    }

    /// Another certificate for a worker that has one.
    pub async fn renew_worker(&self, by: &By<ServeJobs>, public_key: &[u8]) -> Result<IssuedCertificate> {
        let not_enrolled = || {
            let error = AppError::new(ErrorKind::WorkerNotEnrolled, "only a worker with a certificate can renew it");
            error.hint("join with a token first")
        };
        let id = enrolment_of(by.principal()).ok_or_else(not_enrolled)?;
        check_key(public_key)?;
        let now = self.now();
        let authorities = self.known_authorities(now).await?;
        let row = self.0.store.renew_enrolment(id, now, now + CERTIFICATE_LIFETIME).await?;
        let row = row.ok_or_else(|| refused(JoinRefusal::WorkerRevoked).expect("it has a message"))?;
        let issued = issue(&authorities, id, row.scope, public_key, now)?;
        self.refresh_enrolments().await?;
        Ok(issued)
    }
}

fn issue(
    authorities: &KnownAuthorities,
    id: EnrolmentId,
    scope: WorkerScope,
    public_key: &[u8],
    now: Timestamp,
) -> Result<IssuedCertificate> {
    let failed = |error| AppError::new(ErrorKind::Internal, "the certificate cannot be made").because(error);
    let name = CertificateName::worker(authorities.cluster().clone(), id.to_string(), None).map_err(failed)?;
    let request = LeafRequest { name, hosts: Vec::new(), lifetime: CERTIFICATE_LIFETIME };
    let leaf = authorities.for_workers(now).issue(request, public_key, now).map_err(failed)?;
    let der = |certificates: &[punctual_pki::CertificateDer<'static>]| {
        certificates.iter().map(|certificate| certificate.to_vec()).collect()
    };
    Ok(IssuedCertificate {
        enrolment: id,
        cluster: authorities.cluster().to_string(),
        scope,
        chain: der(&leaf.chain),
        authorities: der(&authorities.certificates()),
        expires_at: leaf.not_after,
    })
}

fn check_key(public_key: &[u8]) -> Result<()> {
    if public_key.len() == P256_LEN && public_key.starts_with(&P256_PREFIX) {
        return Ok(());
    }
    Err(AppError::field("public_key", "must be a P-256 key as SubjectPublicKeyInfo in DER"))
}

/// Takes as long for any two digests.
fn is_same(one: &[u8; 32], other: &[u8; 32]) -> bool {
    one.iter().zip(other).fold(0, |difference, (one, other)| difference | (one ^ other)) == 0
}

/// `None` for what only says that there is no such token.
fn refused(refusal: JoinRefusal) -> Option<AppError> {
    let another = "`punctual worker token create` makes another";
    let (kind, detail, hint) = match refusal {
        JoinRefusal::UnknownToken => return None,
        JoinRefusal::Revoked => (ErrorKind::JoinTokenRevoked, "the join token was deleted", another),
        JoinRefusal::Expired => (ErrorKind::JoinTokenExpired, "the join token has expired", another),
        JoinRefusal::UsedUp => (ErrorKind::JoinTokenUsedUp, "as many workers as it admits have joined", another),
        JoinRefusal::WorkerRevoked => {
            let hint = "make another join token, and start the worker with it";
            (ErrorKind::WorkerRevoked, "the worker was revoked", hint)
        }
        JoinRefusal::Full => {
            let detail = format!("{ENROLMENTS_MAX} workers have joined, the most there may be");
            let error = AppError::new(ErrorKind::TooManyEnrolments, detail);
            return Some(error.hint("those whose certificate expired are removed a week later"));
        }
    };
    Some(AppError::new(kind, detail).hint(hint))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_p256_keys_are_certified() {
        let key = punctual_pki::LeafKey::generate().unwrap().public_key();
        assert!(check_key(&key).is_ok());
        for bad in [&[][..], &key[..90], &[0x30; 91], &[&key[..], &[0]].concat()] {
            assert!(check_key(bad).is_err());
        }
    }
}
