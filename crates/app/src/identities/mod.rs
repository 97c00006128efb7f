//! Keys, people and sessions: who somebody is who presents a credential.
//!
//! A server holds all of them in memory ([`Snapshot`]) and asks the store once a second whether they changed, so that a
//! request waits for nothing and a revocation counts everywhere within seconds. If the store cannot be asked, what was known
//! counts for [`TRUSTED_FOR`], and then nobody is let in by a key or a session any more.

mod credential;
mod grant;
mod keys;
mod login_limits;
mod openid;
mod passwords;
mod requester_mail;
mod sessions;
mod snapshot;
mod user_grants;
mod users;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard};

use punctual_api::{ErrorKind, Whoami};
use punctual_core::access::Rights;
use punctual_core::namespace::NamespaceId;
use punctual_core::{Span, Timestamp};
use punctual_store::{IdentityId, SecretDigest, Uses};
use subtle::ConstantTimeEq;

use self::credential::{Credential, CredentialKind, Malformed};
use self::login_limits::LoginLimits;
pub(crate) use self::openid::TicketKey;
pub use self::openid::{BegunLogin, DevicePolled, FinishedLogin, GroupRules, OpenIdParts};
use self::passwords::Passwords;
use self::snapshot::{Key, Session, Snapshot};
use crate::grants::Grants;
use crate::namespaces::NamespaceTable;
use crate::principal::{Principal, PrincipalKind, Transport};
use crate::{App, AppError, Entropy, Result};

/// How long keys and sessions count while the store cannot be asked whether they still do. A failover of PostgreSQL takes less.
const TRUSTED_FOR: Span = Span::from_secs(60);
/// A session that was not used for this long has ended.
const SESSION_IDLE_MAX: Span = Span::from_secs(7 * 86_400);
/// A session ends after this, however much it is used.
const SESSION_LIFE: Span = Span::from_secs(30 * 86_400);
/// How long ended keys and sessions and deleted people stay on record.
const ENDED_KEPT_FOR: Span = Span::from_secs(7 * 86_400);
/// How often a change is tried again that others came before.
const TRIES_MAX: usize = 5;

pub(crate) struct Identities {
    snapshot: RwLock<Snapshot>,
    refreshing: tokio::sync::Mutex<()>,
    /// What was used and is not written down yet.
    uses: Mutex<Unwritten>,
    passwords: Passwords,
    logins: LoginLimits,
    /// Unless it is not set up.
    openid: std::sync::OnceLock<openid::OpenIdLogins>,
    entropy: Entropy,
}

/// At most one time for each key and session that there is.
#[derive(Debug, Default)]
struct Unwritten {
    keys: HashMap<IdentityId, Timestamp>,
    sessions: HashMap<IdentityId, Timestamp>,
}

impl Identities {
    pub(crate) fn new(entropy: Entropy) -> Self {
        Self {
            snapshot: RwLock::default(),
            refreshing: tokio::sync::Mutex::default(),
            uses: Mutex::default(),
            passwords: Passwords::default(),
            logins: LoginLimits::default(),
            openid: std::sync::OnceLock::new(),
            entropy,
        }
    }

    fn snapshot(&self) -> RwLockReadGuard<'_, Snapshot> {
        // Whoever panicked while it was changed left rows out, and the next refresh reads all of them.
        self.snapshot.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut Snapshot)) {
        change(&mut self.snapshot.write().unwrap_or_else(PoisonError::into_inner));
    }

    /// The store did not answer: everything is read again when it does.
    pub(crate) fn distrust(&self) {
        self.change(Snapshot::distrust);
    }

    fn random(&self) -> Result<[u8; 32]> {
        Ok((self.entropy)()?)
    }

    fn new_id(&self) -> Result<IdentityId> {
        let [a, b, c, d, e, f, g, h, ..] = self.random()?;
        Ok(IdentityId(u64::from_be_bytes([a, b, c, d, e, f, g, h])))
    }

    /// A new id, and the text and the digest of its secret.
    fn new_credential(&self, kind: CredentialKind) -> Result<(IdentityId, String, SecretDigest)> {
        let id = self.new_id()?;
        let (text, digest) = credential::new(kind, id, self.random()?);
        Ok((id, text, digest))
    }

    /// The snapshot, unless it is too old to be believed.
    fn trusted(&self, now: Timestamp) -> Result<RwLockReadGuard<'_, Snapshot>> {
        let snapshot = self.snapshot();
        if snapshot.read_at().is_some_and(|read_at| now.since(read_at) <= TRUSTED_FOR) {
            return Ok(snapshot);
        }
        let detail = "the database cannot be asked whether keys and sessions are still valid";
        Err(AppError::new(ErrorKind::DatabaseUnavailable, detail)
            .hint("try again in a few seconds; the access token and the server's own user work meanwhile"))
    }

    /// Whose credential this is. Asks nobody.
    fn identify(&self, presented: &Credential, namespaces: &NamespaceTable, now: Timestamp) -> Result<Principal> {
        let snapshot = self.trusted(now)?;
        let Credential { kind, id, digest } = *presented;
        let stored = match kind {
            CredentialKind::Key => snapshot.key(id).map(|key| key.row.digest),
            CredentialKind::Session => snapshot.session(id).map(|session| session.row.digest),
        };
        // An id that is not there is compared as well. The digest of a secret of 256 bits tells nothing of the secret.
        let (is_known, stored) = (stored.is_some(), stored.unwrap_or(SecretDigest([0; 32])));
        let is_same = bool::from(stored.0.ct_eq(&digest.0));
        if !is_same || !is_known {
            let detail = format!("there is no {} with this secret", kind.noun());
            return Err(AppError::new(ErrorKind::InvalidToken, detail).hint(HINT));
        }
        self.present(&snapshot, namespaces, (kind, id), now)
    }

    /// The principal of a key or a session as it is now. A key of a namespace asks in that one.
    fn present(
        &self,
        snapshot: &Snapshot,
        namespaces: &NamespaceTable,
        (kind, id): (CredentialKind, IdentityId),
        now: Timestamp,
    ) -> Result<Principal> {
        let gone = || revoked(&format!("the {} {id} is not there any more", kind.noun()));
        match kind {
            CredentialKind::Key => {
                let key = snapshot.key(id).ok_or_else(gone)?;
                let grants = check_key(snapshot, key, now)?;
                let namespace =
                    match key.row.namespace {
                        Some(namespace) => Some(namespaces.by_id(namespace).ok_or_else(|| {
                            revoked(&format!("the namespace of the key {} was deleted", key.row.name))
                        })?),
                        None => None,
                    };
                if key.note_use(now) {
                    self.unwritten(|uses| uses.keys.insert(id, now));
                }
                // Keys of two namespaces may have one name, and records tell them apart.
                let name = match &namespace {
                    Some(namespace) => format!("key:{}/{}", namespace.name(), key.row.name),
                    None => format!("key:{}", key.row.name),
                };
                let principal = Principal::granted(PrincipalKind::Key, name, grants).with_credential(id.to_string());
                Ok(match namespace {
                    Some(namespace) => principal.choosing(namespace),
                    None => principal,
                })
            }
            CredentialKind::Session => {
                let session = snapshot.session(id).ok_or_else(gone)?;
                let grants = check_session(snapshot, session, now)?;
                if session.note_use(now) {
                    self.unwritten(|uses| uses.sessions.insert(id, now));
                }
                let user = snapshot.user(session.row.user).ok_or_else(gone)?;
                let name = format!("user:{}", user.name);
                Ok(Principal::granted(PrincipalKind::Person, name, grants).with_credential(id.to_string()))
            }
        }
    }

    fn unwritten<T>(&self, note: impl FnOnce(&mut Unwritten) -> T) -> T {
        note(&mut self.uses.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

const HINT: &str = "log in with `punctual login`, or use another key";

fn revoked(detail: &str) -> AppError {
    AppError::new(ErrorKind::CredentialRevoked, detail).hint(HINT)
}

fn expired(detail: &str) -> AppError {
    AppError::new(ErrorKind::CredentialExpired, detail).hint(HINT)
}

/// What a key may do now.
fn check_key(snapshot: &Snapshot, key: &Key, now: Timestamp) -> Result<Grants> {
    let row = &key.row;
    if row.revoked.is_some() {
        return Err(revoked(&format!("the key {} was revoked", row.name)));
    }
    if row.expires_at.is_some_and(|expires_at| expires_at <= now) {
        let detail = match row.replaced_by {
            Some(new) => format!("the key {} was replaced by the key {new}, and has expired", row.name),
            None => format!("the key {} has expired", row.name),
        };
        return Err(expired(&detail));
    }
    let granted = key.grant.within(row.namespace);
    let Some(owner) = row.owner else { return Ok(granted) };
    let owners = snapshot.grants_of_user(owner);
    let owners = owners.ok_or_else(|| revoked(&format!("the owner of the key {} is disabled", row.name)))?;
    Ok(granted.intersection(owners))
}

/// What the person of a session may do now.
fn check_session(snapshot: &Snapshot, session: &Session, now: Timestamp) -> Result<Grants> {
    let row = &session.row;
    if row.ended_at.is_some() {
        return Err(revoked("the session has ended"));
    }
    if row.expires_at <= now || now.since(session.last_used_at()) > SESSION_IDLE_MAX {
        return Err(expired("the session has expired"));
    }
    snapshot.grants_of_user(row.user).cloned().ok_or_else(|| revoked("the user is disabled"))
}

impl App {
    /// The principal of a key or a session; `None` if `bearer` is neither.
    pub(crate) fn identify(&self, bearer: &str, transport: &Transport) -> Option<Result<Principal>> {
        let identified = match Credential::read(bearer)? {
            Ok(credential) => self.0.identities.identify(&credential, &self.0.namespaces, self.now()),
            Err(Malformed(kind)) => {
                let detail = format!("this is not the whole text of a {}: its checksum does not fit", kind.noun());
                Err(AppError::new(ErrorKind::InvalidToken, detail).hint("copy it again, from its beginning to its end"))
            }
        };
        Some(identified.map(|principal| principal.at(transport.address)))
    }

    /// Whether a text is a key or a session as far as its form and its checksum go.
    pub(crate) fn is_whole_credential(&self, bearer: Option<&str>) -> bool {
        matches!(bearer.and_then(Credential::read), Some(Ok(_)))
    }

    /// The principal of a key or a session as it is now, or why it does not count any more; `None` if it is neither.
    pub(crate) fn identify_again(&self, principal: &Principal) -> Option<Result<Principal>> {
        let credential = credential_of(principal)?;
        let (now, identities) = (self.now(), &self.0.identities);
        let present = |snapshot: RwLockReadGuard<'_, Snapshot>| {
            identities.present(&snapshot, &self.0.namespaces, credential, now)
        };
        Some(identities.trusted(now).and_then(present).map(|found| found.at(principal.address())))
    }

    /// Reads what changed. Called once a second, and after each change made here.
    pub async fn refresh_identities(&self) -> Result<()> {
        let identities = &self.0.identities;
        let _turn = identities.refreshing.lock().await;
        // What the answer shows is at least as new as the question.
        let asked_at = self.now();
        let known = identities.snapshot().revision(asked_at);
        let read = async {
            let last = self.0.store.identities_revision().await?;
            if known == Some(last) {
                return Ok(None);
            }
            // A database that lost commits has fewer.
            let since = known.filter(|known| *known < last).unwrap_or(0);
            let changes = self.0.store.identities_since(since).await?;
            Ok::<_, AppError>(Some((since, changes)))
        };
        match read.await {
            Ok(None) => identities.change(|snapshot| snapshot.confirm(asked_at)),
            Ok(Some((0, rows))) => identities.change(|snapshot| snapshot.replace(rows, asked_at)),
            Ok(Some((_, changes))) => identities.change(|snapshot| snapshot.apply(changes, asked_at)),
            Err(error) => {
                identities.change(Snapshot::distrust);
                return Err(error);
            }
        }
        Ok(())
    }

    /// Writes down when keys and sessions were used. What cannot be written is tried again with the next.
    pub async fn record_uses(&self) -> Result<()> {
        let Unwritten { keys, sessions } = self.0.identities.unwritten(std::mem::take);
        if keys.is_empty() && sessions.is_empty() {
            return Ok(());
        }
        let list = |uses: &HashMap<IdentityId, Timestamp>| uses.iter().map(|(id, at)| (*id, *at)).collect();
        let uses = Uses { keys: list(&keys), sessions: list(&sessions) };
        let written = self.0.store.note_uses(uses).await;
        if written.is_err() {
            self.0.identities.unwritten(|uses| {
                for (id, at) in keys {
                    uses.keys.entry(id).or_insert(at);
                }
                for (id, at) in sessions {
                    uses.sessions.entry(id).or_insert(at);
                }
            });
        }
        Ok(written?)
    }

    /// Removes what ended some days ago.
    pub async fn prune_identities(&self) -> Result<usize> {
        Ok(self.0.store.prune_identities(self.now() - ENDED_KEPT_FOR).await?)
    }

    /// On whose behalf requests of this principal are made.
    pub fn whoami(&self, principal: &Principal) -> Whoami {
        let snapshot = self.0.identities.snapshot();
        let expires_at = match credential_of(principal) {
            Some((CredentialKind::Key, id)) => snapshot.key(id).and_then(|key| key.row.expires_at),
            Some((CredentialKind::Session, id)) => snapshot.session(id).map(|session| session.row.expires_at),
            None => None,
        };
        Whoami {
            kind: principal.kind().name().to_owned(),
            name: principal.name().to_owned(),
            credential: principal.credential().map(str::to_owned),
            expires_at,
            namespace: principal.namespace().name().to_owned(),
            rights: names(principal.rights()),
        }
    }

    /// The person on whose behalf a principal acts, if it is one's session or key.
    pub(crate) fn person_behind(&self, principal: &Principal) -> Option<IdentityId> {
        let snapshot = self.0.identities.snapshot();
        match credential_of(principal)? {
            (CredentialKind::Key, id) => snapshot.key(id)?.row.owner,
            (CredentialKind::Session, id) => Some(snapshot.session(id)?.row.user),
        }
    }

    /// After a change that is durable already: if it cannot be read now, it is a second later.
    async fn refresh_after_change(&self) {
        if let Err(error) = self.refresh_identities().await {
            tracing::debug!(%error, "keys and sessions cannot be read after a change");
        }
    }

    fn identities(&self) -> &Arc<Identities> {
        &self.0.identities
    }
}

fn credential_of(principal: &Principal) -> Option<(CredentialKind, IdentityId)> {
    let kind = match principal.kind() {
        PrincipalKind::Key => CredentialKind::Key,
        PrincipalKind::Person => CredentialKind::Session,
        _ => return None,
    };
    Some((kind, id_of(principal.credential()?)?))
}

/// An id as it is shown.
fn id_of(text: &str) -> Option<IdentityId> {
    Some(IdentityId(u64::from_be_bytes(punctual_core::hex::decode(text)?)))
}

fn names(rights: Rights) -> Vec<String> {
    rights.names().into_iter().map(str::to_owned).collect()
}

/// Refuses to hand on what whoever asks does not have: in a namespace, or for the cluster.
fn covers(principal: &Principal, namespace: Option<NamespaceId>, rights: Rights, whose: &str) -> Result<()> {
    let grants = principal.grants();
    let lacks = rights.without(namespace.map_or(grants.cluster(), |namespace| grants.within(namespace)));
    if lacks.is_empty() {
        return Ok(());
    }
    let mut named = lacks.names();
    let more = if named.len() > 5 { format!(" and {} more", named.len() - 5) } else { String::new() };
    named.truncate(5);
    let detail = format!("{whose} rights that {} does not have: {}{more}", principal.name(), named.join(", "));
    Err(AppError::new(ErrorKind::Forbidden, detail).hint("ask somebody who has these rights, or choose fewer"))
}
