//! API keys: made, rotated and revoked. A key may do no more than whoever made it, neither when it is made nor later.

use std::sync::Arc;

use punctual_api::{
    ErrorKind, FieldCode, KeyCreated, KeyList, KeyRequest, KeyState, KeyView, RotateRequest, SecretText, limits,
};
use punctual_core::namespace::NamespaceId;
use punctual_core::schedule::By as Done;
use punctual_core::{Span, Timestamp};
use punctual_store::{KEYS_MAX, KeyChange, KeyRow};

use super::grant::Grant;
use super::snapshot::{Key, Snapshot};
use super::{CredentialKind, check_key, covers, credential_of, id_of, names};
use crate::grants::Grants;
use crate::permission::CreateKeys;
use crate::principal::{By, Principal};
use crate::schedules::done_by;
use crate::{App, AppError, Checked, Faults, Result, validate};
use punctual_core::access::Right;

impl App {
    /// The keys that the principal may see: their own, or all of them.
    pub async fn list_keys(&self, by: &By<CreateKeys>) -> Result<KeyList> {
        self.refresh_identities().await?;
        let (now, sees) = (self.now(), self.whose_keys(by));
        let snapshot = self.identities().snapshot();
        let seen = snapshot.keys().filter(|key| sees.sees(key));
        let mut keys: Vec<KeyView> = seen.map(|key| self.view_key(&snapshot, key, now)).collect();
        keys.sort_by(|one, other| {
            (&one.namespace, &one.name, one.created.at, &one.id).cmp(&(
                &other.namespace,
                &other.name,
                other.created.at,
                &other.id,
            ))
        });
        Ok(KeyList { keys })
    }

    /// By its id, or the name that a valid key has.
    pub async fn key(&self, by: &By<CreateKeys>, key: &str) -> Result<KeyView> {
        self.refresh_identities().await?;
        let found = self.find_key(by, key)?;
        Ok(self.view_key(&self.identities().snapshot(), &found, self.now()))
    }

    /// Makes a key. Its secret is in the answer, and nowhere else.
    pub async fn create_key(&self, by: &By<CreateKeys>, request: &KeyRequest) -> Result<KeyCreated> {
        request.check()?;
        let grant = Grant::of_request(request)?;
        let namespace = self.namespace_of_new_key(by, request.namespace.as_deref(), grant)?;
        check_grant(by.principal(), namespace, grant, "the key would have")?;
        self.refresh_identities().await?;
        let now = self.now();
        let expires_at = self.expiry(by.principal(), request.expires_in, now)?;
        let owner = self.person_behind(by.principal());
        let (id, text, digest) = self.identities().new_credential(CredentialKind::Key)?;
        let row = KeyRow {
            id,
            digest,
            name: request.name.clone(),
            namespace,
            grant: grant.to_text(),
            owner,
            created: Done { at: now, who: by.who().to_owned() },
            expires_at,
            last_used_at: None,
            replaced_by: None,
            revoked: None,
        };
        by.changes(format!("{} ({id})", request.name));
        match self.0.store.add_key(row.clone(), None).await? {
            KeyChange::Done => {}
            KeyChange::NameTaken => {
                let detail = format!("there is a key named {}", request.name);
                return Err(AppError::new(ErrorKind::KeyExists, detail)
                    .hint("choose another name, or rotate or delete that key"));
            }
            KeyChange::Full | KeyChange::Absent => return Err(full()),
        }
        self.created(row, text).await
    }

    /// Makes a key that takes the place of another, which stays valid for a while.
    pub async fn rotate_key(&self, by: &By<CreateKeys>, key: &str, request: &RotateRequest) -> Result<KeyCreated> {
        request.check()?;
        self.refresh_identities().await?;
        let old = self.find_key(by, key)?;
        check_grant(by.principal(), old.row.namespace, old.grant, "the key has")?;
        let now = self.now();
        let former_life = old.row.expires_at.map(|expires_at| expires_at.since(old.row.created.at));
        let expires_at = self.expiry(by.principal(), request.expires_in.or(former_life), now)?;
        let (id, text, digest) = self.identities().new_credential(CredentialKind::Key)?;
        let row = KeyRow {
            id,
            digest,
            created: Done { at: now, who: by.who().to_owned() },
            expires_at,
            last_used_at: None,
            replaced_by: None,
            revoked: None,
            ..old.row.clone()
        };
        by.changes(format!("{} ({id})", old.row.name));
        by.was(old.row.id.to_string());
        let until = now + request.overlap.unwrap_or(limits::KEY_OVERLAP_DEFAULT);
        match self.0.store.add_key(row.clone(), Some((old.row.id, until))).await? {
            KeyChange::Done => self.created(row, text).await,
            KeyChange::Full => Err(full()),
            KeyChange::NameTaken | KeyChange::Absent => {
                let detail = format!("the key {} was revoked or replaced already", old.row.id);
                Err(AppError::new(ErrorKind::KeyEnded, detail).hint("GET /v1/keys shows the one that took its place"))
            }
        }
    }

    /// Ends a key for good. One that has ended already is fine.
    pub async fn revoke_key(&self, by: &By<CreateKeys>, key: &str) -> Result<()> {
        self.refresh_identities().await?;
        let found = self.find_key(by, key)?;
        by.changes(format!("{} ({})", found.row.name, found.row.id));
        let revoked = Done { at: self.now(), who: by.who().to_owned() };
        self.0.store.revoke_key(found.row.id, revoked).await?;
        self.refresh_after_change().await;
        Ok(())
    }

    async fn created(&self, row: KeyRow, text: String) -> Result<KeyCreated> {
        self.refresh_after_change().await;
        let snapshot = self.identities().snapshot();
        let key = Key::of(row);
        Ok(KeyCreated { key: self.view_key(&snapshot, &key, self.now()), secret: SecretText(text) })
    }

    /// Where a key counts that is made now; `None` for the cluster.
    fn namespace_of_new_key(
        &self,
        by: &By<CreateKeys>,
        asked: Option<&str>,
        grant: Grant,
    ) -> Result<Option<NamespaceId>> {
        let principal = by.principal();
        match asked {
            Some(name) => {
                let there = self.choose_namespace(Principal::clone(principal), name)?;
                there.check(Right::CreateKeys)?;
                grant.check_in_namespace()?;
                Ok(Some(there.namespace().id()))
            }
            None if principal.has_chosen_namespace() => {
                grant.check_in_namespace()?;
                Ok(Some(by.namespace()))
            }
            // What was asked in no namespace is for the cluster, if that is there to be given.
            None if by.is_for_cluster() => Ok(None),
            None => Ok(Some(by.namespace())),
        }
    }

    /// Somebody who may not see a key is told the same as if it were not there. Of several keys with one name, that of the
    /// namespace is meant, and then that of the cluster.
    fn find_key(&self, by: &By<CreateKeys>, text: &str) -> Result<Arc<Key>> {
        let sees = self.whose_keys(by);
        let snapshot = self.identities().snapshot();
        let is_named = |key: &&Arc<Key>| {
            key.row.name == text && key.row.revoked.is_none() && key.row.replaced_by.is_none() && sees.sees(key)
        };
        let named = |namespace| snapshot.keys().filter(is_named).find(|key| key.row.namespace == namespace);
        let found = named(Some(by.namespace())).or_else(|| named(None));
        let found = found.or_else(|| snapshot.key(id_of(text)?).filter(|key| sees.sees(key)));
        found.cloned().ok_or_else(|| {
            let shown: String = text.chars().take(limits::NAME_CHARS_MAX).collect();
            AppError::new(ErrorKind::KeyNotFound, format!("there is no key {shown}"))
                .hint("GET /v1/keys lists them; those that ended are found by id")
        })
    }

    fn whose_keys(&self, by: &By<CreateKeys>) -> Sees {
        if by.may(Right::ManageKeys) {
            return Sees::All;
        }
        // A key of a namespace reaches nothing outside of it.
        let place = Place { namespace: by.namespace(), and_cluster: !by.principal().is_of_namespace() };
        match self.person_behind(by.principal()) {
            Some(person) => Sees::OfPerson(person, place),
            None => Sees::MadeBy(by.who().to_owned(), place),
        }
    }

    /// A key that is made with a key ends with it at the latest: whoever steals one cannot keep what it gave them.
    fn expiry(&self, maker: &Principal, asked: Option<Span>, now: Timestamp) -> Result<Option<Timestamp>> {
        let asked = asked.map(|life| now + life);
        let latest = match credential_of(maker) {
            Some((CredentialKind::Key, id)) => self.identities().snapshot().key(id).and_then(|key| key.row.expires_at),
            _ => None,
        };
        match (asked, latest) {
            (asked, None) => Ok(asked),
            (None, latest) => Ok(latest),
            (Some(asked), Some(latest)) if asked <= latest => Ok(Some(asked)),
            (Some(_), Some(latest)) => {
                let detail = format!("would go beyond {latest}, when the key that makes this one expires");
                Err(AppError::out_of_range("/expires_in", detail))
            }
        }
    }

    fn view_key(&self, snapshot: &Snapshot, key: &Key, now: Timestamp) -> KeyView {
        let row = &key.row;
        let rights =
            |grants: Grants| names(row.namespace.map_or(grants.cluster(), |namespace| grants.within(namespace)));
        let checked = check_key(snapshot, key, now);
        let state = match &checked {
            Ok(_) if row.replaced_by.is_some() => KeyState::Replaced,
            Ok(_) => KeyState::Valid,
            Err(_) if row.revoked.is_some() => KeyState::Revoked,
            Err(error) if error.kind == ErrorKind::CredentialExpired => KeyState::Expired,
            Err(_) => KeyState::OwnerDisabled,
        };
        KeyView {
            id: row.id.to_string(),
            name: row.name.clone(),
            namespace: row.namespace.and_then(|namespace| self.0.namespaces.name_of(namespace)),
            state,
            role: key.grant.role().map(|role| role.name().to_owned()),
            rights: checked.map(rights).unwrap_or_default(),
            owner: row.owner.and_then(|owner| Some(snapshot.user(owner)?.name.clone())),
            created: done_by(row.created.clone()),
            expires_at: row.expires_at,
            last_used_at: key.last_used_at(),
            replaced_by: row.replaced_by.map(|id| id.to_string()),
            revoked: row.revoked.clone().map(done_by),
        }
    }
}

/// Which keys somebody may see and change.
enum Sees {
    All,
    OfPerson(punctual_store::IdentityId, Place),
    /// Of keys that stand for no person.
    MadeBy(String, Place),
}

/// Where keys count that somebody may see.
struct Place {
    namespace: NamespaceId,
    and_cluster: bool,
}

impl Place {
    fn has(&self, key: &Key) -> bool {
        key.row.namespace.map_or(self.and_cluster, |namespace| namespace == self.namespace)
    }
}

impl Sees {
    fn sees(&self, key: &Key) -> bool {
        match self {
            Self::All => true,
            Self::OfPerson(person, place) => key.row.owner == Some(*person) && place.has(key),
            Self::MadeBy(who, place) => key.row.created.who == *who && place.has(key),
        }
    }
}

fn check_grant(principal: &Principal, namespace: Option<NamespaceId>, grant: Grant, whose: &str) -> Result<()> {
    let rights = namespace.map_or_else(|| grant.rights(), |_| grant.rights_in_namespace());
    covers(principal, namespace, rights, whose)
}

fn full() -> AppError {
    let detail = format!("there are {KEYS_MAX} keys, the most there may be");
    AppError::new(ErrorKind::TooManyKeys, detail)
        .hint("delete keys that nobody needs; those that ended are removed after 7 days")
}

fn life(pointer: &str, life: Option<Span>) -> Result<()> {
    if life.is_some_and(|life| life < limits::KEY_LIFE_MIN || life > limits::KEY_LIFE_MAX) {
        return Err(AppError::out_of_range(
            pointer,
            "must be between 1s and 3650d; leave it out for a key without end",
        ));
    }
    Ok(())
}

impl Checked for KeyRequest {
    fn check(&self) -> Result<()> {
        let mut faults = Faults::default();
        faults.check(validate::name("/name", &self.name));
        faults.value(Grant::of_request(self));
        faults.check(life("/expires_in", self.expires_in));
        faults.finish()
    }
}

impl Checked for RotateRequest {
    fn check(&self) -> Result<()> {
        let mut faults = Faults::default();
        if self.overlap.is_some_and(|overlap| overlap > limits::KEY_OVERLAP_MAX) {
            let error = AppError::field("/overlap", "must be at most 30d").code(FieldCode::OutOfRange);
            faults.check(Err(error));
        }
        faults.check(life("/expires_in", self.expires_in));
        faults.finish()
    }
}
