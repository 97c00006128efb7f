//! The cluster's authority: made once, sealed in the database, replaced with an overlap.
//!
//! The first server that needs it makes it. After a rotation the former authority serves until it is retired, so that clients
//! have the time to learn of the new one: both are trusted meanwhile, servers show certificates of the former one, and workers
//! get certificates of the new one.

use std::sync::Arc;

use punctual_api::{AuthorityList, AuthorityView, ErrorKind, RotateAuthority};
use punctual_core::{Span, Timestamp};
use punctual_pki::{
    Authority, CertificateDer, CertificateFacts, ClusterName, Fingerprint, PkiError, SecretKey, to_pem,
};
use punctual_store::{AuthorityRow, Store};

use crate::cluster_keys::{ClusterKeys, KeySet};
use crate::principal::By;
use crate::principal::permission::ManageCluster;
use crate::sealing::{Entropy, NoRandomness};
use crate::{App, AppError, Checked, Result};

/// How long servers may take to learn of a new authority; they look every few seconds. Until then it issues nothing.
pub const AUTHORITY_SETTLES: Span = Span::from_secs(60);
/// A retired authority is trusted a little longer: not all servers have a certificate of the next one at the same moment.
const RETIRED_GRACE: Span = Span::from_secs(600);
/// Each is shown to every client, and somebody who rotates in a loop would fill the handshakes.
const TRUSTED_MAX: usize = 4;
/// Shorter ones would leave workers and commands no time to learn of the new authority.
pub const OVERLAP_MIN: Span = Span::from_secs(120);
pub const OVERLAP_MAX: Span = Span::from_secs(365 * 86_400);

/// Why the authority cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum AuthorityError {
    #[error("cannot read the cluster's authority from the database")]
    Store(#[from] punctual_store::StoreError),
    #[error("the key of authority {0} cannot be opened: it was sealed with another cluster's secret, or changed")]
    Sealed(u32),
    #[error("authority {generation} cannot be used")]
    Unusable { generation: u32, source: PkiError },
    #[error("no authority of the cluster is valid now")]
    NoneValid,
    #[error(transparent)]
    NoRandomness(#[from] NoRandomness),
}

/// The authorities of the cluster that count at one moment.
#[derive(Debug, Clone)]
pub struct KnownAuthorities {
    cluster: ClusterName,
    /// Trusted, in order of generation. Never empty.
    trusted: Vec<Known>,
}

#[derive(Debug, Clone)]
struct Known {
    authority: Arc<Authority>,
    created_at: Timestamp,
    retired_at: Option<Timestamp>,
}

impl KnownAuthorities {
    /// Those of the store; the first server of a cluster makes one.
    pub async fn load_or_make(
        store: &dyn Store,
        keys: &ClusterKeys,
        entropy: &Entropy,
        now: Timestamp,
    ) -> std::result::Result<Self, AuthorityError> {
        let mut rows = store.authorities().await?;
        if rows.is_empty() {
            let first = make(keys, 1, entropy, now)?;
            // Another server may have been first; its authority is everyone's.
            store.add_authority(first, now).await?;
            rows = store.authorities().await?;
        }
        Self::open(rows, &keys.now(), now)
    }

    fn open(rows: Vec<AuthorityRow>, keys: &KeySet, now: Timestamp) -> std::result::Result<Self, AuthorityError> {
        let cluster = keys.cluster().clone();
        let mut trusted = Vec::new();
        for row in rows.into_iter().filter(|row| is_trusted(row, now)) {
            let AuthorityRow { generation, certificate, sealed_key, created_at, retired_at } = row;
            let place = sealing_place(generation);
            let secret = keys.accepted().find_map(|keys| keys.authority.open(&sealed_key, &place));
            let secret = SecretKey::from_pkcs8(secret.ok_or(AuthorityError::Sealed(generation))?.to_vec());
            let authority = Authority::open(cluster.clone(), generation, CertificateDer::from(certificate), &secret)
                .map_err(|source| AuthorityError::Unusable { generation, source })?;
            trusted.push(Known { authority: Arc::new(authority), created_at, retired_at });
        }
        if trusted.is_empty() {
            return Err(AuthorityError::NoneValid);
        }
        Ok(Self { cluster, trusted })
    }

    pub fn cluster(&self) -> &ClusterName {
        &self.cluster
    }

    /// The certificates by which servers and workers are checked now.
    pub fn certificates(&self) -> Vec<CertificateDer<'static>> {
        self.trusted.iter().map(|known| known.authority.certificate().clone()).collect()
    }

    /// All of them as PEM text, for `ca.pem`.
    pub fn pem(&self) -> String {
        self.trusted.iter().map(|known| to_pem(known.authority.certificate())).collect()
    }

    /// The one that issues certificates to servers: the oldest that is not retired, because that is the one clients know.
    pub fn for_servers(&self, now: Timestamp) -> &Arc<Authority> {
        let serves = |known: &&Known| known.retired_at.is_none_or(|retired| now < retired);
        let known = self.trusted.iter().find(serves).or(self.trusted.last());
        &known.expect("there is always one").authority
    }

    /// The one that issues certificates to workers: the latest that all servers know by now.
    pub fn for_workers(&self, now: Timestamp) -> &Arc<Authority> {
        let is_settled = |known: &&Known| now.since(known.created_at) >= AUTHORITY_SETTLES;
        let known = self.trusted.iter().rev().find(is_settled).or(self.trusted.first());
        &known.expect("there is always one").authority
    }
}

fn is_trusted(row: &AuthorityRow, now: Timestamp) -> bool {
    row.retired_at.is_none_or(|retired| now < retired + RETIRED_GRACE)
}

/// What the key of an authority is bound to.
pub(crate) fn sealing_place(generation: u32) -> Vec<u8> {
    format!("authority {generation}").into_bytes()
}

fn make(
    keys: &ClusterKeys,
    generation: u32,
    entropy: &Entropy,
    now: Timestamp,
) -> std::result::Result<AuthorityRow, AuthorityError> {
    let keys = keys.now();
    let authority = Authority::make(keys.cluster().clone(), generation, now)
        .map_err(|source| AuthorityError::Unusable { generation, source })?;
    Ok(AuthorityRow {
        generation,
        certificate: authority.certificate().to_vec(),
        sealed_key: keys.signing.authority.seal(authority.secret().as_pkcs8(), &sealing_place(generation), entropy)?,
        created_at: now,
        retired_at: None,
    })
}

impl App {
    /// The authorities that are trusted now. Their certificates are public.
    pub async fn authorities(&self) -> Result<AuthorityList> {
        let (rows, now) = (self.0.store.authorities().await?, self.now());
        let trusted = rows.into_iter().filter(|row| is_trusted(row, now));
        let authorities: Vec<AuthorityView> = trusted.map(view).collect::<Result<_>>()?;
        if authorities.is_empty() {
            return Err(AppError::new(
                ErrorKind::NotFound,
                "this cluster has no authority: its servers run without TLS",
            )
            .hint("start the servers with `--tls cluster`; see docs/tls.md"));
        }
        Ok(AuthorityList { cluster: self.0.keys.now().cluster().to_string(), authorities })
    }

    /// Makes the next authority. The former ones are trusted for `overlap` more.
    pub async fn rotate_authority(&self, _: &By<ManageCluster>, overlap: Option<Span>) -> Result<AuthorityList> {
        RotateAuthority { overlap }.check()?;
        let overlap = overlap.unwrap_or(OVERLAP_DEFAULT);
        let (known, now) = (self.authorities().await?, self.now());
        if known.authorities.len() >= TRUSTED_MAX {
            let detail = format!("{TRUSTED_MAX} authorities are trusted already");
            return Err(AppError::new(ErrorKind::AuthorityRotating, detail).hint("wait until one of them is retired"));
        }
        let generation = known.authorities.iter().map(|view| view.generation).max().unwrap_or_default() + 1;
        let row = make(&self.0.keys, generation, self.0.vault.entropy(), now).map_err(|error| match error {
            AuthorityError::NoRandomness(error) => error.into(),
            error => AppError::new(ErrorKind::Internal, "the authority cannot be made").because(error),
        })?;
        if !self.0.store.add_authority(row, now + overlap).await? {
            return Err(AppError::new(
                ErrorKind::AuthorityRotating,
                "somebody else made a new authority at the same time",
            )
            .hint("see `punctual authority show`"));
        }
        self.authorities().await
    }
}

impl Checked for RotateAuthority {
    fn check(&self) -> Result<()> {
        match self.overlap {
            Some(overlap) if !(OVERLAP_MIN..=OVERLAP_MAX).contains(&overlap) => {
                Err(AppError::out_of_range("/overlap", "is not between 2 minutes and 365 days"))
            }
            _ => Ok(()),
        }
    }
}

/// Long enough for people to give the new certificate to whoever needs it.
pub const OVERLAP_DEFAULT: Span = Span::from_secs(30 * 86_400);

fn view(row: AuthorityRow) -> Result<AuthorityView> {
    let certificate = CertificateDer::from(row.certificate);
    let facts = CertificateFacts::read(&certificate)
        .map_err(|error| AppError::new(ErrorKind::Internal, "an authority cannot be read").because(error))?;
    Ok(AuthorityView {
        generation: row.generation,
        fingerprint: Fingerprint::of(&certificate).to_string(),
        certificate: to_pem(&certificate),
        created_at: row.created_at,
        not_after: facts.not_after,
        retired_at: row.retired_at,
    })
}

#[cfg(test)]
mod tests {
    use punctual_store::{Authorities as _, ClusterSecret};
    use punctual_store_tests::model::ModelStore;

    use super::*;

    fn key() -> ClusterKeys {
        ClusterKeys::new(ClusterSecret([7; 32]))
    }

    fn entropy() -> Entropy {
        crate::VaultParts::for_tests().entropy
    }

    fn at(secs: i64) -> Timestamp {
        Timestamp::from_micros((1_800_000_000 + secs) * 1_000_000).unwrap()
    }

    async fn rotated(store: &ModelStore, now: Timestamp, retire: Timestamp) {
        let generation = store.authorities().await.unwrap().len() as u32 + 1;
        assert!(store.add_authority(make(&key(), generation, &entropy(), now).unwrap(), retire).await.unwrap());
    }

    #[tokio::test]
    async fn all_servers_have_the_authority_of_the_first() {
        let store = ModelStore::new(4, at(0));
        let first = KnownAuthorities::load_or_make(&store, &key(), &entropy(), at(0)).await.unwrap();
        let second = KnownAuthorities::load_or_make(&store, &key(), &entropy(), at(9)).await.unwrap();
        assert_eq!(first.certificates(), second.certificates());
        assert_eq!(first.pem().matches("BEGIN CERTIFICATE").count(), 1);
        let stored = store.authorities().await.unwrap();
        let secret = first.for_servers(at(0)).secret();
        let len = secret.as_pkcs8().len();
        assert!(!stored[0].sealed_key.windows(len).any(|window| window == secret.as_pkcs8()));
    }

    #[tokio::test]
    async fn the_key_of_another_cluster_opens_nothing() {
        let store = ModelStore::new(4, at(0));
        KnownAuthorities::load_or_make(&store, &key(), &entropy(), at(0)).await.unwrap();
        let other = ClusterKeys::new(ClusterSecret([8; 32]));
        let refused = KnownAuthorities::load_or_make(&store, &other, &entropy(), at(0)).await;
        assert!(matches!(refused, Err(AuthorityError::Sealed(1))));
    }

    #[tokio::test]
    async fn both_authorities_are_trusted_until_the_former_is_retired() {
        let store = ModelStore::new(4, at(0));
        KnownAuthorities::load_or_make(&store, &key(), &entropy(), at(0)).await.unwrap();
        rotated(&store, at(1000), at(5000)).await;
        let look = async |secs| {
            let known = KnownAuthorities::load_or_make(&store, &key(), &entropy(), at(secs)).await.unwrap();
            let (servers, workers) = (known.for_servers(at(secs)), known.for_workers(at(secs)));
            (known.certificates().len(), servers.generation(), workers.generation())
        };
        assert_eq!(look(1000).await, (2, 1, 1), "not all servers know the new one");
        assert_eq!(look(1060).await, (2, 1, 2));
        assert_eq!(look(4999).await, (2, 1, 2));
        assert_eq!(look(5000).await, (2, 2, 2), "servers may still show the former one");
        assert_eq!(look(5600).await, (1, 2, 2));
    }
}
