//! API keys: made, rotated and revoked. A key may do no more than whoever made it, neither when it is made nor later.

use std::sync::Arc;

use punctual_api::{
    ErrorKind, FieldCode, KeyCreated, KeyList, KeyRequest, KeyState, KeyView, RotateRequest, SecretText, limits,
};
use punctual_core::schedule::By as Done;
use punctual_core::{Span, Timestamp};
use punctual_store::{KEYS_MAX, KeyChange, KeyRow};

use super::grant::Grant;
use super::snapshot::{Key, Snapshot};
use super::{CredentialKind, NAMESPACE, check_key, covers, credential_of, id_of, names};
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
        let mut keys: Vec<KeyView> = seen.map(|key| view(&snapshot, key, now)).collect();
        keys.sort_by(|one, other| {
            (&one.name, one.created.at, &one.id).cmp(&(&other.name, other.created.at, &other.id))
        });
        Ok(KeyList { keys })
    }

    /// By its id, or the name that a valid key has.
    pub async fn key(&self, by: &By<CreateKeys>, key: &str) -> Result<KeyView> {
        self.refresh_identities().await?;
        let found = self.find_key(by, key)?;
        Ok(view(&self.identities().snapshot(), &found, self.now()))
    }

    /// Makes a key. Its secret is in the answer, and nowhere else.
    pub async fn create_key(&self, by: &By<CreateKeys>, request: &KeyRequest) -> Result<KeyCreated> {
        request.check()?;
        let grant = Grant::of_request(request)?;
        covers(by.principal(), grant.rights(), "the key would have")?;
        self.refresh_identities().await?;
        let now = self.now();
        let expires_at = self.expiry(by.principal(), request.expires_in, now)?;
        let owner = self.person_behind(by.principal());
        let (id, text, digest) = self.identities().new_credential(CredentialKind::Key)?;
        let row = KeyRow {
            id,
            digest,
            name: request.name.clone(),
            namespace: NAMESPACE.to_owned(),
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
        covers(by.principal(), old.grant.rights(), "the key has")?;
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
        Ok(KeyCreated { key: view(&snapshot, &key, self.now()), secret: SecretText(text) })
    }

    /// Somebody who may not see a key is told the same as if it were not there.
    fn find_key(&self, by: &By<CreateKeys>, text: &str) -> Result<Arc<Key>> {
        let sees = self.whose_keys(by);
        let snapshot = self.identities().snapshot();
        let is_named =
            |key: &&Arc<Key>| key.row.name == text && key.row.revoked.is_none() && key.row.replaced_by.is_none();
        let found = snapshot.keys().find(is_named).or_else(|| snapshot.key(id_of(text)?));
        found.filter(|key| sees.sees(key)).cloned().ok_or_else(|| {
            let shown: String = text.chars().take(limits::NAME_CHARS_MAX).collect();
            AppError::new(ErrorKind::KeyNotFound, format!("there is no key {shown}"))
                .hint("GET /v1/keys lists them; those that ended are found by id")
        })
    }

    fn whose_keys(&self, by: &By<CreateKeys>) -> Sees {
        if by.may(Right::ManageKeys) {
            return Sees::All;
        }
        match self.person_behind(by.principal()) {
            Some(person) => Sees::OfPerson(person),
            None => Sees::MadeBy(by.who().to_owned()),
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
}

/// Which keys somebody may see and change.
enum Sees {
    All,
    OfPerson(punctual_store::IdentityId),
    /// Of keys that stand for no person.
    MadeBy(String),
}

impl Sees {
    fn sees(&self, key: &Key) -> bool {
        match self {
            Self::All => true,
            Self::OfPerson(person) => key.row.owner == Some(*person),
            Self::MadeBy(who) => key.row.created.who == *who,
        }
    }
}

fn full() -> AppError {
    let detail = format!("there are {KEYS_MAX} keys, the most there may be");
    AppError::new(ErrorKind::TooManyKeys, detail)
        .hint("delete keys that nobody needs; those that ended are removed after 7 days")
}

fn view(snapshot: &Snapshot, key: &Key, now: Timestamp) -> KeyView {
    let row = &key.row;
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
        namespace: row.namespace.clone(),
        state,
        role: key.grant.role().map(|role| role.name().to_owned()),
        rights: checked.map(names).unwrap_or_default(),
        owner: row.owner.and_then(|owner| Some(snapshot.user(owner)?.name.clone())),
        created: done_by(row.created.clone()),
        expires_at: row.expires_at,
        last_used_at: row.last_used_at,
        replaced_by: row.replaced_by.map(|id| id.to_string()),
        revoked: row.revoked.clone().map(done_by),
    }
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
