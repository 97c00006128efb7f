//! The key and the certificate of a worker, in one file that only its user can read.
//!
//! The file is replaced as a whole: a crash leaves the old one or the new one. A lock keeps two workers that share the folder
//! from joining twice.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use punctual_core::{JoinTokenId, Timestamp, hex};
use punctual_pki::{CertificateDer, ClusterName, Credentials, LeafKey, PkiError, SecretKey};
use punctual_proto::worker as wire;
use serde::{Deserialize, Serialize};

const FILE: &str = "identity.json";
const LOCK: &str = "identity.lock";
/// Two certificates for each authority and a key take a few KiB.
const FILE_BYTES_MAX: u64 = 256 << 10;

/// The folder of the file.
pub(super) struct IdentityFolder {
    path: PathBuf,
}

/// Keeps other workers from joining with the same folder until it is dropped.
pub(super) struct IdentityLock {
    _file: File,
}

/// How often a worker that waits for another looks again.
const LOCK_PAUSE: Duration = Duration::from_millis(200);

#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Identity {
    /// The private key in PKCS #8, as hexadecimal digits.
    key: String,
    /// The id of the join token that the worker joins or joined with. Files of earlier versions have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    token: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    certificate: Option<Issued>,
}

#[derive(Clone, Serialize, Deserialize)]
struct Issued {
    enrolment: String,
    cluster: String,
    /// DER as hexadecimal digits, the worker's own first.
    chain: Vec<String>,
    authorities: Vec<String>,
    issued_at: Timestamp,
    expires_at: Timestamp,
}

impl IdentityFolder {
    /// Makes the folder if it is not there. Refuses one that others can enter.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path)?;
        let found = std::fs::metadata(path)?;
        if found.mode() & 0o077 != 0 {
            let reason = format!("others can enter it (mode {:04o}); close it with chmod 700", found.mode() & 0o7777);
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, reason));
        }
        Ok(Self { path: path.to_owned() })
    }

    /// Waits for another worker that joins with the same folder.
    pub(super) async fn lock(&self) -> io::Result<IdentityLock> {
        let path = self.path.join(LOCK);
        let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path)?;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(IdentityLock { _file: file }),
                Err(TryLockError::WouldBlock) => tokio::time::sleep(LOCK_PAUSE).await,
                Err(TryLockError::Error(error)) => return Err(error),
            }
        }
    }

    /// `None` if there is none yet.
    pub(super) fn read(&self) -> io::Result<Option<Identity>> {
        let file = match File::open(self.path.join(FILE)) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let mode = file.metadata()?.mode();
        let invalid = |reason: String| io::Error::new(io::ErrorKind::InvalidData, format!("{FILE}: {reason}"));
        if mode & 0o077 != 0 {
            return Err(invalid(format!("others can read it (mode {:04o}); the key may be known", mode & 0o7777)));
        }
        let mut text = String::new();
        file.take(FILE_BYTES_MAX).read_to_string(&mut text)?;
        // The text is not repeated: it holds the key.
        serde_json::from_str(&text).map(Some).map_err(|_| invalid("it cannot be read; remove it to join again".into()))
    }

    pub(super) fn write(&self, identity: &Identity) -> io::Result<()> {
        let (new, place) = (self.path.join(format!("{FILE}.new")), self.path.join(FILE));
        let text = serde_json::to_vec(identity).expect("an identity is JSON");
        let _ = std::fs::remove_file(&new);
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
        file.write_all(&text)?;
        file.sync_all()?;
        std::fs::rename(&new, &place)?;
        File::open(&self.path)?.sync_all()
    }
}

impl Identity {
    /// A key without a certificate.
    pub(super) fn generate() -> Result<Self, PkiError> {
        let key = LeafKey::generate()?.secret();
        Ok(Self { key: hex::encode(key.as_pkcs8()), token: None, certificate: None })
    }

    /// Another key without a certificate, for the same enrolment.
    pub(super) fn next(&self) -> Result<Self, PkiError> {
        Ok(Self { token: self.token.clone(), ..Self::generate()? })
    }

    pub(super) fn joining_with(self, token: JoinTokenId) -> Self {
        Self { token: Some(token.to_string()), ..self }
    }

    /// Whether it came of this token.
    pub(super) fn is_of(&self, token: JoinTokenId) -> bool {
        self.token.as_deref() == Some(token.to_string().as_str())
    }

    /// Whether it has no certificate yet, and was made for this token or by an earlier version. A key that another token was tried
    /// with may belong to a worker that was revoked.
    pub(super) fn may_join_with(&self, token: JoinTokenId) -> bool {
        self.certificate.is_none() && (self.token.is_none() || self.is_of(token))
    }

    pub(super) fn public_key(&self) -> Result<Vec<u8>, PkiError> {
        Ok(LeafKey::from_secret(&self.secret()?)?.public_key())
    }

    /// With what a server issued for the key. Refuses what does not fit.
    pub(super) fn with(&self, issued: wire::Certificate) -> Result<Self, PkiError> {
        let now = super::now();
        let der = |certificates: &[bytes::Bytes]| certificates.iter().map(hex::encode).collect();
        let expires_at = Timestamp::saturating_from_micros(issued.expires_at);
        let certificate = Issued {
            chain: der(&issued.chain),
            authorities: der(&issued.authorities),
            enrolment: issued.enrolment,
            cluster: issued.cluster,
            issued_at: now,
            expires_at,
        };
        let identity = Self { certificate: Some(certificate), ..self.clone() };
        identity.credentials(now)?;
        identity.cluster()?;
        Ok(identity)
    }

    /// Whether it can be presented at this time.
    pub(super) fn is_valid(&self, now: Timestamp) -> bool {
        self.certificate.as_ref().is_some_and(|issued| now < issued.expires_at) && self.credentials(now).is_ok()
    }

    pub(super) fn credentials(&self, now: Timestamp) -> Result<Credentials, PkiError> {
        let chain = self.certificates(|issued| &issued.chain);
        Credentials::new(chain, self.secret()?.to_private_key(), now)
    }

    pub(super) fn authorities(&self) -> Vec<CertificateDer<'static>> {
        self.certificates(|issued| &issued.authorities)
    }

    pub(super) fn cluster(&self) -> Result<ClusterName, PkiError> {
        ClusterName::new(self.certificate.as_ref().map(|issued| issued.cluster.clone()).unwrap_or_default())
    }

    pub(super) fn enrolment(&self) -> &str {
        self.certificate.as_ref().map_or("", |issued| &issued.enrolment)
    }

    pub(super) fn expires_at(&self) -> Timestamp {
        self.certificate.as_ref().map_or(Timestamp::EPOCH, |issued| issued.expires_at)
    }

    /// When half of its time has passed.
    pub(super) fn renew_at(&self) -> Timestamp {
        let Some(Issued { issued_at, expires_at, .. }) = &self.certificate else { return Timestamp::EPOCH };
        let half = expires_at.since(*issued_at).as_micros() / 2;
        *issued_at + punctual_core::Span::from_micros(half)
    }

    fn certificates(&self, of: impl Fn(&Issued) -> &Vec<String>) -> Vec<CertificateDer<'static>> {
        let texts = self.certificate.as_ref().map(of).into_iter().flatten();
        texts.filter_map(|text| bytes_of(text)).map(CertificateDer::from).collect()
    }

    fn secret(&self) -> Result<SecretKey, PkiError> {
        Ok(SecretKey::from_pkcs8(bytes_of(&self.key).ok_or(PkiError::NoKey)?))
    }
}

/// The bytes of hexadecimal digits of any length.
fn bytes_of(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes();
    let pairs = digits.chunks(2).map(|pair| hex::decode::<1>(std::str::from_utf8(pair).ok()?).map(|[byte]| byte));
    pairs.collect()
}

/// Never shown.
impl std::fmt::Debug for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Identity").field(&self.enrolment()).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use punctual_core::Span;
    use punctual_pki::{Authority, CertificateName, LeafRequest};

    use super::super::now;
    use super::*;

    fn issued(identity: &Identity, lifetime: Span) -> Identity {
        let cluster = ClusterName::new("c1").unwrap();
        let authority = Authority::make(cluster.clone(), 1, now()).unwrap();
        let name = CertificateName::worker(cluster, "w", None).unwrap();
        let request = LeafRequest { name, hosts: Vec::new(), lifetime };
        let leaf = authority.issue(request, &identity.public_key().unwrap(), now()).unwrap();
        let der = |der: &CertificateDer<'static>| bytes::Bytes::from(der.to_vec());
        let wire = wire::Certificate {
            enrolment: "w".to_owned(),
            chain: leaf.chain.iter().map(der).collect(),
            authorities: vec![der(authority.certificate())],
            expires_at: leaf.not_after.as_micros(),
            cluster: "c1".to_owned(),
            ..Default::default()
        };
        identity.with(wire).unwrap()
    }

    #[test]
    fn an_identity_reads_back_and_only_its_user_can_read_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("identity");
        let folder = IdentityFolder::open(&path).unwrap();
        assert!(folder.read().unwrap().is_none());
        let identity = issued(&Identity::generate().unwrap(), Span::from_secs(3600));
        folder.write(&identity).unwrap();
        let read = folder.read().unwrap().unwrap();
        assert_eq!((read.enrolment(), read.expires_at()), ("w", identity.expires_at()));
        assert!(read.is_valid(now()) && !read.is_valid(now() + Span::from_secs(3601)));
        let mode = |path: &Path| std::fs::metadata(path).unwrap().mode() & 0o777;
        assert_eq!((mode(&path), mode(&path.join(FILE))), (0o700, 0o600));
        std::fs::set_permissions(path.join(FILE), std::fs::Permissions::from_mode(0o644)).unwrap();
        assert!(folder.read().is_err(), "others may have read the key");
    }

    #[test]
    fn a_certificate_for_another_key_is_refused() {
        let identity = issued(&Identity::generate().unwrap(), Span::from_secs(3600));
        let other = Identity { key: Identity::generate().unwrap().key, ..identity };
        assert!(!other.is_valid(now()));
    }

    #[test]
    fn a_certificate_is_renewed_when_half_of_its_time_has_passed() {
        let identity = issued(&Identity::generate().unwrap(), Span::from_secs(7200));
        let half = identity.renew_at().since(now()).as_micros() / 1_000_000;
        assert!((3590..=3600).contains(&half), "{half}");
    }

    #[test]
    fn nothing_shows_the_key() {
        let identity = Identity::generate().unwrap();
        assert!(!format!("{identity:?}").contains(&identity.key));
    }
}
