//! The certificate of a worker on another host.
//!
//! The worker makes its key and keeps it; it joins with a token, once, and renews its certificate when half of its time has
//! passed. It sends the token only to a server whose certificate was issued by the authority that the token names, so it never
//! trusts a server because it was the first to answer.

mod ask;
mod identity;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use punctual_core::{Span, Timestamp};
use punctual_pki::{ClientTls, ClusterRoots, JoinToken, OwnCertificate, ServerCheck, Trust, to_pem};

use self::ask::{AskError, join, renew};
use self::identity::{Identity, IdentityFolder};
use crate::backoff::Backoff;
use crate::error::WorkerError;

/// How a worker gets its certificate.
#[derive(Debug, Clone)]
pub(crate) struct Enrolment {
    /// Where the key and the certificate are kept.
    pub(crate) folder: PathBuf,
    /// What to join with if there is no certificate that is valid.
    pub(crate) token: Option<JoinToken>,
    /// The queues that the worker means to serve; none: all that it may.
    pub(crate) queues: Vec<String>,
}

/// A certificate that is renewed by itself, and the servers that it is presented to.
pub(crate) struct WorkerCertificate {
    own: OwnCertificate,
    roots: ClusterRoots,
    folder: IdentityFolder,
    identity: Identity,
    tls: ClientTls,
}

/// A renewal that failed is repeated after this; there are days left.
const RENEW_AGAIN_AFTER: Duration = Duration::from_secs(60);
/// The clock is looked at so often, so that a machine that slept renews soon after it wakes.
const LOOK_EVERY: Duration = Duration::from_secs(60);
/// The names of the queues with which a worker joins.
const QUEUES_BYTES_MAX: usize = 2 << 10;
const ALPN: &[&[u8]] = &[b"h2"];
/// What a server says of an enrolment that does not count any more.
const ENDED: [&str; 2] = ["worker_revoked", "worker_not_enrolled"];

impl Enrolment {
    /// The certificate that the worker has, or a new one. Waits until a server can be reached; a server that refuses the token
    /// ends it.
    pub(crate) async fn open(
        self,
        servers: &[String],
        name: &str,
        mut backoff: Backoff,
    ) -> Result<WorkerCertificate, WorkerError> {
        if let Some(plain) = servers.iter().find(|url| !url.starts_with("https://")) {
            return Err(WorkerError::JoinNeedsTls(plain.clone()));
        }
        let folder = IdentityFolder::open(&self.folder).map_err(|source| unusable(&self.folder, source))?;
        let _lock = folder.lock().await.map_err(|source| unusable(&self.folder, source))?;
        let mut said = false;
        loop {
            let known = folder.read().map_err(|source| unusable(&self.folder, source))?;
            let known = match (known, &self.token) {
                (Some(identity), Some(token)) if identity.is_valid(now()) && !identity.is_of(token.id()) => {
                    self.checked(&folder, identity, servers).await?
                }
                (known, _) => known,
            };
            let refusal = match (known, &self.token) {
                (Some(identity), _) if identity.is_valid(now()) => return WorkerCertificate::new(folder, identity),
                (_, None) => return Err(WorkerError::NotEnrolled(self.folder)),
                (known, Some(token)) => match self.join(&folder, known, token, servers, name).await? {
                    Ok(identity) => return WorkerCertificate::new(folder, identity),
                    Err(reason) => reason,
                },
            };
            if std::mem::replace(&mut said, true) {
                tracing::debug!(reason = refusal, "still cannot join");
            } else {
                tracing::warn!(reason = refusal, "cannot join yet; retrying");
            }
            tokio::time::sleep(backoff.wait()).await;
        }
    }

    /// A certificate that is valid, while somebody gave the worker another token than the one it joined with: perhaps because the
    /// worker was revoked. `None` if a server says so, and the identity if it is still good or no server can be asked.
    async fn checked(
        &self,
        folder: &IdentityFolder,
        identity: Identity,
        servers: &[String],
    ) -> Result<Option<Identity>, WorkerError> {
        let next = identity.next().map_err(WorkerError::Certificate)?;
        let public_key = next.public_key().map_err(WorkerError::Certificate)?;
        let (_, _, tls) = connection(&identity)?;
        for url in servers {
            match renew(url, &tls, public_key.clone()).await {
                Ok(issued) => {
                    let next = next.with(issued).map_err(WorkerError::Certificate)?;
                    folder.write(&next).map_err(|source| unusable(&self.folder, source))?;
                    return Ok(Some(next));
                }
                Err(AskError::Refused { code, message }) if ENDED.contains(&code.as_str()) => {
                    let enrolment = identity.enrolment();
                    tracing::warn!(enrolment, reason = message, "the enrolment has ended; joining with the token");
                    return Ok(None);
                }
                Err(AskError::Refused { .. } | AskError::Unreachable(_)) => {}
            }
        }
        Ok(Some(identity))
    }

    /// Tries each server once. The inner error says why none let the worker in.
    async fn join(
        &self,
        folder: &IdentityFolder,
        known: Option<Identity>,
        token: &JoinToken,
        servers: &[String],
        name: &str,
    ) -> Result<Result<Identity, String>, WorkerError> {
        let save = |identity: &Identity| folder.write(identity).map_err(|source| unusable(&self.folder, source));
        // The key is kept before it is used: a worker whose answer is lost asks again with the same key, and gets the same
        // enrolment. A key whose certificate expired is not used again.
        let identity = match known {
            Some(identity) if identity.may_join_with(token.id()) => identity,
            Some(_) | None => {
                let fresh = Identity::generate().map_err(WorkerError::Certificate)?.joining_with(token.id());
                save(&fresh)?;
                fresh
            }
        };
        let public_key = identity.public_key().map_err(WorkerError::Certificate)?;
        let tls = ClientTls::new(&Trust::Pinned(token.authority()), None, ALPN).map_err(WorkerError::Certificate)?;
        // Servers take small messages from strangers. A longer list is judged when the worker is in.
        let is_short =
            self.queues.iter().map(String::len).sum::<usize>() <= QUEUES_BYTES_MAX && self.queues.len() <= 64;
        let queues = if is_short { self.queues.clone() } else { Vec::new() };
        let mut reasons = Vec::new();
        for url in servers {
            match join(url, &tls, token.reveal(), public_key.clone(), name.to_owned(), queues.clone()).await {
                Ok(certificate) => match identity.clone().with(certificate) {
                    Ok(identity) => {
                        save(&identity)?;
                        return Ok(Ok(identity));
                    }
                    Err(error) => reasons.push(format!("{url}: its certificate cannot be used: {error}")),
                },
                Err(AskError::Refused { code, message }) => return Err(WorkerError::JoinRefused { code, message }),
                Err(AskError::Unreachable(reason)) => reasons.push(format!("{url}: {reason}")),
            }
        }
        Ok(Err(reasons.join("; ")))
    }
}

/// What an identity shows to servers, whom it trusts, and the connection with both.
fn connection(identity: &Identity) -> Result<(OwnCertificate, ClusterRoots, ClientTls), WorkerError> {
    let failed = WorkerError::Certificate;
    let own = OwnCertificate::new(identity.credentials(now()).map_err(failed)?);
    let roots = ClusterRoots::new(identity.cluster().map_err(failed)?, &identity.authorities()).map_err(failed)?;
    let trust = Trust::Cluster(roots.clone(), ServerCheck::Any);
    let tls = ClientTls::new(&trust, Some(own.clone()), ALPN).map_err(failed)?;
    Ok((own, roots, tls))
}

fn unusable(folder: &std::path::Path, source: std::io::Error) -> WorkerError {
    WorkerError::Identity { dir: folder.to_owned(), source }
}

impl WorkerCertificate {
    fn new(folder: IdentityFolder, identity: Identity) -> Result<Self, WorkerError> {
        let (own, roots, tls) = connection(&identity)?;
        tracing::info!(enrolment = identity.enrolment(), expires_at = %identity.expires_at(), "enrolled");
        Ok(Self { own, roots, folder, identity, tls })
    }

    /// For all connections to servers of the cluster.
    pub(crate) fn tls(&self) -> ClientTls {
        self.tls.clone()
    }

    /// The authorities of the cluster as PEM.
    pub(crate) fn authorities_pem(&self) -> String {
        self.identity.authorities().iter().map(to_pem).collect()
    }

    /// Renews the certificate for as long as the worker runs.
    pub(crate) async fn keep_valid(mut self, servers: Arc<dyn Fn() -> Vec<String> + Send + Sync>) {
        let mut said = false;
        loop {
            if now() < self.identity.renew_at() {
                tokio::time::sleep(LOOK_EVERY).await;
                continue;
            }
            match self.renew(&servers()).await {
                Ok(()) => {
                    said = false;
                    tracing::info!(expires_at = %self.identity.expires_at(), "the certificate was renewed");
                }
                Err(reason) => {
                    if !std::mem::replace(&mut said, true) {
                        let expires_at = self.identity.expires_at();
                        tracing::warn!(%expires_at, reason, "the certificate was not renewed; retrying");
                    }
                    tokio::time::sleep(RENEW_AGAIN_AFTER).await;
                }
            }
        }
    }

    async fn renew(&mut self, servers: &[String]) -> Result<(), String> {
        let next = self.identity.next().map_err(|error| error.to_string())?;
        let public_key = next.public_key().map_err(|error| error.to_string())?;
        let mut reasons = Vec::new();
        for url in servers {
            match renew(url, &self.tls, public_key.clone()).await {
                Ok(certificate) => {
                    let next = next.with(certificate).map_err(|error| error.to_string())?;
                    let credentials = next.credentials(now()).map_err(|error| error.to_string())?;
                    // What is on disk is never behind what is used.
                    self.folder.write(&next).map_err(|error| error.to_string())?;
                    self.roots.replace(&next.authorities()).map_err(|error| error.to_string())?;
                    self.own.replace(credentials);
                    self.identity = next;
                    return Ok(());
                }
                Err(AskError::Refused { code, message }) => reasons.push(format!("{url}: {message} ({code})")),
                Err(AskError::Unreachable(reason)) => reasons.push(format!("{url}: {reason}")),
            }
        }
        Err(reasons.join("; "))
    }
}

/// Certificates are valid by the clock of this machine: TLS knows no other.
#[expect(clippy::disallowed_methods, reason = "the real clock judges certificates here")]
fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::EPOCH + Span::from_micros(i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use punctual_core::JoinTokenId;

    use super::*;

    fn token() -> JoinToken {
        let authority = "sha256:0303030303030303030303030303030303030303030303030303030303030303".parse().unwrap();
        JoinToken::new(JoinTokenId::new(Timestamp::EPOCH, 1), [7; 32], authority)
    }

    #[tokio::test]
    async fn a_token_is_not_sent_without_tls() {
        let folder = tempfile::tempdir().unwrap();
        let enrolment = Enrolment { folder: folder.path().join("identity"), token: Some(token()), queues: Vec::new() };
        let servers = ["https://127.0.0.1:1".to_owned(), "http://127.0.0.1:1".to_owned()];
        let refused = enrolment.open(&servers, "w", Backoff::new(1)).await.err().expect("a refusal");
        assert!(matches!(refused, WorkerError::JoinNeedsTls(url) if url == servers[1]));
    }

    #[tokio::test]
    async fn without_a_token_or_a_certificate_there_is_nothing_to_start_with() {
        let folder = tempfile::tempdir().unwrap();
        let enrolment = Enrolment { folder: folder.path().join("identity"), token: None, queues: Vec::new() };
        let refused = enrolment.open(&["https://127.0.0.1:1".to_owned()], "w", Backoff::new(1)).await;
        assert!(matches!(refused.err(), Some(WorkerError::NotEnrolled(_))));
    }
}
