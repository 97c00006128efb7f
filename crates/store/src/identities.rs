//! Credentials and whom they stand for: API keys, people, and the sessions of people who logged in.
//!
//! Every change carries a revision: the store counts changes of this family, and each row has the number of its last one.
//! Servers hold all rows in memory and read what changed since the revision that they know, so that no request waits for
//! the store. Secrets are never here: of a key or a session a digest, of a password what argon2id made of it.

use std::fmt;

use async_trait::async_trait;
use punctual_core::Timestamp;
use punctual_core::namespace::NamespaceId;
use punctual_core::schedule::By;

use crate::Result;

/// Keys there can be, those that expired or were revoked and not yet removed included: every server has all in memory.
pub const KEYS_MAX: usize = 10_000;
/// People there can be, for the same reason.
pub const USERS_MAX: usize = 10_000;
/// Sessions there can be, those that ended and were not yet removed included.
pub const SESSIONS_MAX: usize = 20_000;
/// Sessions of one person that are open at a time; the oldest ends when there would be more.
pub const SESSIONS_OF_USER_MAX: usize = 100;

/// Names a key, a person or a session. Public and random; a key's and a session's is a part of its text.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IdentityId(pub u64);

impl fmt::Display for IdentityId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl fmt::Debug for IdentityId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The SHA-256 of a secret of 256 random bits. It leads to no secret, and still nobody needs to see it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SecretDigest(pub [u8; 32]);

impl fmt::Debug for SecretDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretDigest")
    }
}

/// A password as argon2id made it, in its PHC form.
#[derive(Clone, PartialEq, Eq)]
pub struct PasswordHash(pub String);

impl fmt::Debug for PasswordHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PasswordHash")
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct KeyRow {
    pub id: IdentityId,
    pub digest: SecretDigest,
    /// Of one key of the namespace that is neither revoked nor replaced.
    pub name: String,
    /// Where it counts; `None` for the cluster.
    pub namespace: Option<NamespaceId>,
    /// A role or a list of rights, as JSON; a store does not look into it.
    pub grant: String,
    /// The person on whose behalf the key was made.
    pub owner: Option<IdentityId>,
    pub created: By,
    pub expires_at: Option<Timestamp>,
    /// Behind the truth by up to a minute.
    pub last_used_at: Option<Timestamp>,
    /// The key that took its place.
    pub replaced_by: Option<IdentityId>,
    pub revoked: Option<By>,
}

/// A person at a provider: the subject means somebody only together with the issuer.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct OpenIdSubject {
    pub issuer: String,
    pub subject: String,
}

impl KeyRow {
    /// As stores write where a key counts: the number of the namespace, or nothing for the cluster.
    pub fn namespace_text(&self) -> String {
        self.namespace.map(|namespace| namespace.0.to_string()).unwrap_or_default()
    }

    /// From such a text. Servers of earlier versions write `default` for the cluster.
    pub fn namespace_of_text(text: &str) -> Option<NamespaceId> {
        text.parse().ok().map(NamespaceId)
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct UserRow {
    pub id: IdentityId,
    /// Of one person who is not deleted. It never changes.
    pub name: String,
    pub mail: Option<String>,
    /// What they may do: the name of a role, or JSON with roles in namespaces; a store does not look into it.
    pub role: String,
    /// `None`: nobody can log in as this person with a password.
    pub password: Option<PasswordHash>,
    /// Who the person is at a provider of OpenID Connect. Of one person who is not deleted. It never changes.
    pub openid: Option<OpenIdSubject>,
    pub disabled: bool,
    /// Grows by one with each change, from 1 on.
    pub revision: u32,
    pub created: By,
    pub changed: By,
    pub deleted_at: Option<Timestamp>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct SessionRow {
    pub id: IdentityId,
    pub digest: SecretDigest,
    pub user: IdentityId,
    pub created_at: Timestamp,
    pub expires_at: Timestamp,
    /// Behind the truth by up to a minute.
    pub last_used_at: Timestamp,
    pub ended_at: Option<Timestamp>,
    /// Where the login came from, as far as the server knows.
    pub address: Option<String>,
}

/// The rows whose last change is later than a revision, in no order.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct IdentityChanges {
    /// That of the last change of all.
    pub revision: u64,
    pub keys: Vec<KeyRow>,
    pub users: Vec<UserRow>,
    pub sessions: Vec<SessionRow>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyChange {
    Done,
    /// Another key of the namespace has this name and is neither revoked nor replaced.
    NameTaken,
    /// There are [`KEYS_MAX`].
    Full,
    /// The key that is to be replaced is not there, or revoked or replaced already.
    Absent,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UserChange {
    Done,
    NameTaken,
    /// Another person is the same one at the provider.
    SubjectTaken,
    /// There are [`USERS_MAX`].
    Full,
    /// There is no such person, or not any more.
    Absent,
    /// The row has this revision, and not the one that the change was based on.
    Conflict {
        revision: u32,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionChange {
    Done,
    /// The person is gone or was changed since the password was checked. Nothing was stored.
    Stale,
    /// There is a session of this id, or was one not long ago.
    IdTaken,
    /// There are [`SESSIONS_MAX`].
    Full,
}

/// What a change of a person does to their sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UserSessions {
    Keep,
    End,
}

/// When a key and a session was used, for [`Identities::note_uses`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Uses {
    pub keys: Vec<(IdentityId, Timestamp)>,
    pub sessions: Vec<(IdentityId, Timestamp)>,
}

#[async_trait]
pub trait Identities: Send + Sync + 'static {
    /// The number of the last change; it falls only if the database loses commits.
    async fn identities_revision(&self) -> Result<u64>;

    /// The rows that changed after `revision`: all of them for 0. One snapshot.
    async fn identities_since(&self, revision: u64) -> Result<IdentityChanges>;

    /// Stores a key. With `replaces`, in the place of the key of this id, which expires at the time given unless it does so
    /// earlier. Crash after, before the answer: the key is there, and nobody knows its secret; its name shows it.
    async fn add_key(&self, key: KeyRow, replaces: Option<(IdentityId, Timestamp)>) -> Result<KeyChange>;

    /// False if the key is not there or was revoked already.
    async fn revoke_key(&self, id: IdentityId, revoked: By) -> Result<bool>;

    /// Stores a person.
    async fn add_user(&self, user: UserRow) -> Result<UserChange>;

    /// Replaces all of a row but its name, its provider's person and who made it. Its revision must be one more than the stored one. With
    /// `deleted_at` the person is gone: the name is free, the sessions end and the keys made on their behalf are revoked.
    async fn change_user(&self, user: UserRow, sessions: UserSessions) -> Result<UserChange>;

    /// Stores a session of a person whose row has `user_revision` still. If the person has too many sessions, the oldest end
    /// at the time of this one's beginning.
    async fn add_session(&self, session: SessionRow, user_revision: u32) -> Result<SessionChange>;

    /// False if the session is not there or has ended already.
    async fn end_session(&self, id: IdentityId, at: Timestamp) -> Result<bool>;

    /// Moves times of last use forward; they never go back. Those that are not there are passed over.
    async fn note_uses(&self, uses: Uses) -> Result<()>;

    /// Removes keys that expired or were revoked, sessions that expired or ended and people who were deleted before `before`.
    /// The answer is how many. Servers dropped them when that happened, so it is no change.
    async fn prune_identities(&self, before: Timestamp) -> Result<usize>;
}
