//! The TLS side of a server: the certificates that it shows, whom it trusts, and their renewal while it runs.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use punctual_app::{ClusterKeys, Entropy, KnownAuthorities, Throttle};
use punctual_core::{ServerId, Span, Timestamp};
use punctual_peers::PeerTls;
use punctual_pki::{
    CertificateFiles, CertificateName, ClusterRoots, Credentials, LeafRequest, OwnCertificate, PkiError, Reload,
    ServerTls, ServerTlsParts,
};
use punctual_store::Store;
use tokio::task::JoinHandle;

use crate::access::write_whole;
use crate::clock;
use crate::config::{ServerSettings, TlsMode};
use crate::exit::failed;
use crate::folders::make_private;
use crate::secret_files::exposure;

/// In the data folder: the certificates to give to commands and workers on other machines.
pub(crate) const AUTHORITY_FILE: &str = "ca.pem";

/// A server's certificate is made again long before its end, and at every start.
const LEAF_LIFETIME: Span = Span::from_secs(7 * 86_400);
const LEAF_RENEWED_BEFORE: Span = Span::from_secs(3 * 86_400);
/// How long a changed file or a new authority may take to be noticed.
const LOOK_EVERY: Duration = Duration::from_secs(5);

static NO_AUTHORITY: Throttle = Throttle::new(Duration::from_secs(60));

/// What a server with TLS is made of.
pub(crate) struct ServerSide {
    pub(crate) tls: Arc<ServerTls>,
    pub(crate) peers: PeerTls,
    state: Upkeep,
}

/// Keeps the certificates fresh. `tick` does it once.
struct Upkeep {
    store: Arc<dyn Store>,
    keys: ClusterKeys,
    entropy: Entropy,
    server: ServerId,
    /// What the server's certificate names.
    hosts: Vec<String>,
    files: Option<CertificateFiles>,
    from_files: Option<Credentials>,
    authorities: KnownAuthorities,
    issued: Credentials,
    /// The generation of the authority that issued it.
    issued_by: u32,
    authority_file: PathBuf,
    tls: Arc<ServerTls>,
    peers: PeerTls,
}

impl ServerSide {
    /// `None` for a server without TLS. Reads the files and makes or opens the cluster's authority.
    pub(crate) async fn start(
        settings: &ServerSettings,
        store: &Arc<dyn Store>,
        keys: &ClusterKeys,
        entropy: &Entropy,
        server: ServerId,
    ) -> anyhow::Result<Option<Self>> {
        let files = match (settings.tls, &settings.tls_cert, &settings.tls_key) {
            (TlsMode::Off, ..) => return Ok(None),
            (TlsMode::Files, Some(certificate), Some(key)) => Some((certificate.clone(), key.clone())),
            (TlsMode::Files | TlsMode::Cluster, ..) => None,
        };
        let now = clock::now();
        let mut files = files.map(|(certificate, key)| CertificateFiles::new(certificate, key, exposure));
        let from_files = files.as_mut().map(|files| first(files, now)).transpose()?;
        let authorities = KnownAuthorities::load_or_make(&**store, keys, entropy, now).await;
        let authorities = authorities.context("cannot start TLS")?;
        let mut hosts = settings.hosts();
        hosts.extend(["localhost", "127.0.0.1", "::1"].map(str::to_owned));
        hosts.sort();
        hosts.dedup();
        let (issued, issued_by) = issue(&authorities, server, &hosts, now).context("cannot start TLS")?;
        let parts = ServerTlsParts {
            cluster: authorities.cluster().clone(),
            issued: issued.clone(),
            from_files: from_files.clone(),
            authorities: authorities.certificates(),
        };
        let tls = Arc::new(ServerTls::new(parts).context("cannot start TLS")?);
        let roots = ClusterRoots::new(authorities.cluster().clone(), &authorities.certificates());
        let roots = roots.context("cannot start TLS")?;
        let peers = PeerTls { roots, own: OwnCertificate::new(issued.clone()) };
        make_private(&settings.data_dir, "--data-dir")?;
        let state = Upkeep {
            store: Arc::clone(store),
            keys: keys.clone(),
            entropy: Arc::clone(entropy),
            server,
            hosts,
            files,
            from_files,
            authorities,
            issued,
            issued_by,
            authority_file: settings.data_dir.join(AUTHORITY_FILE),
            tls: Arc::clone(&tls),
            peers: peers.clone(),
        };
        state.write_authorities();
        Ok(Some(Self { tls, peers, state }))
    }

    /// Keeps the certificates fresh until the handle is aborted.
    pub(crate) fn keep_fresh(self) -> JoinHandle<()> {
        let mut state = self.state;
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(LOOK_EVERY).await;
                state.tick(clock::now()).await;
            }
        })
    }
}

/// The files as they are at the start: without them there is nothing to show.
fn first(files: &mut CertificateFiles, now: Timestamp) -> anyhow::Result<Credentials> {
    let path = files.certificate().display().to_string();
    match files.look(now) {
        Reload::New(credentials) => Ok(credentials),
        Reload::Broken(error) => {
            let reason = format!("{:#}", anyhow::Error::new(error));
            Err(failed(format!("cannot use the certificate in {path}: {reason}"), "correct tls_cert and tls_key"))
        }
        Reload::Unchanged => unreachable!("nothing was read before"),
    }
}

fn issue(
    authorities: &KnownAuthorities,
    server: ServerId,
    hosts: &[String],
    now: Timestamp,
) -> Result<(Credentials, u32), PkiError> {
    let authority = authorities.for_servers(now);
    let name = CertificateName::server(authorities.cluster().clone(), server.to_string())?;
    let request = LeafRequest { name, hosts: hosts.to_vec(), lifetime: LEAF_LIFETIME };
    Ok((authority.issue_with_key(request, now)?, authority.generation()))
}

impl Upkeep {
    async fn tick(&mut self, now: Timestamp) {
        let changed = [self.look_at_files(now), self.look_at_authorities(now).await, self.renew(now)];
        if !changed.contains(&true) {
            return;
        }
        let authorities = self.authorities.certificates();
        let parts = ServerTlsParts {
            cluster: self.authorities.cluster().clone(),
            issued: self.issued.clone(),
            from_files: self.from_files.clone(),
            authorities: authorities.clone(),
        };
        let replaced = self.tls.replace(parts).and_then(|()| self.peers.roots.replace(&authorities));
        match replaced {
            Ok(()) => self.peers.own.replace(self.issued.clone()),
            Err(error) => tracing::error!(%error, "new certificates cannot be used; the old ones stay in use"),
        }
    }

    fn look_at_files(&mut self, now: Timestamp) -> bool {
        let Some(files) = &mut self.files else { return false };
        let file = files.certificate().display().to_string();
        match files.look(now) {
            Reload::Unchanged => false,
            Reload::New(credentials) => {
                tracing::info!(file, not_after = %credentials.facts().not_after, "the certificate was renewed");
                self.from_files = Some(credentials);
                true
            }
            Reload::Broken(error) => {
                let reason = format!("{:#}", anyhow::Error::new(error));
                tracing::error!(file, reason, "the new certificate cannot be used; the old one stays in use");
                false
            }
        }
    }

    async fn look_at_authorities(&mut self, now: Timestamp) -> bool {
        match KnownAuthorities::load_or_make(&*self.store, &self.keys, &self.entropy, now).await {
            Ok(found) => {
                let is_new = found.certificates() != self.authorities.certificates();
                self.authorities = found;
                if is_new {
                    tracing::info!("the cluster's authorities have changed");
                    self.write_authorities();
                }
                is_new
            }
            Err(error) => {
                if let Some(left_out) = NO_AUTHORITY.pass() {
                    let reason = format!("{:#}", anyhow::Error::new(error));
                    tracing::warn!(
                        reason,
                        left_out,
                        "the cluster's authorities cannot be read; the known ones stay in use"
                    );
                }
                false
            }
        }
    }

    fn renew(&mut self, now: Timestamp) -> bool {
        let is_old = now + LEAF_RENEWED_BEFORE > self.issued.facts().not_after;
        if !is_old && self.authorities.for_servers(now).generation() == self.issued_by {
            return false;
        }
        match issue(&self.authorities, self.server, &self.hosts, now) {
            Ok((issued, issued_by)) => {
                tracing::info!(not_after = %issued.facts().not_after, "this server has a new certificate");
                (self.issued, self.issued_by) = (issued, issued_by);
                true
            }
            Err(error) => {
                tracing::error!(%error, "this server's certificate cannot be renewed");
                false
            }
        }
    }

    fn write_authorities(&self) {
        if let Err(error) = write_whole(&self.authority_file, self.authorities.pem().trim_end()) {
            let file = self.authority_file.display();
            tracing::warn!(%error, %file, "the certificate of the cluster's authority cannot be written");
        }
    }
}
