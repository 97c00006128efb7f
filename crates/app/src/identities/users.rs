//! People: who may log in, and with which role.

use std::collections::BTreeMap;
use std::sync::Arc;

use punctual_api::{
    ErrorKind, OpenIdAccount, PasswordRequest, SecretText, UserEdit, UserList, UserRequest, UserView, limits,
};
use punctual_core::access::{Right, Rights, Role};
use punctual_core::namespace::NamespaceId;
use punctual_core::schedule::By as Done;
use punctual_store::{USERS_MAX, UserChange, UserRow, UserSessions};

use super::grant::role_named;
use super::passwords::{self, Verdict};
use super::snapshot::Snapshot;
use super::user_grants::{NamespaceGrant, UserGrants};
use super::{TRIES_MAX, check_session, covers};
use crate::permission::ManagePeople;
use crate::principal::{By, Principal, PrincipalKind, Transport};
use crate::schedules::done_by;
use crate::{App, AppError, Checked, Faults, Result, namespaces, validate};

impl App {
    pub async fn list_users(&self, by: &By<ManagePeople>) -> Result<UserList> {
        self.refresh_identities().await?;
        let snapshot = self.identities().snapshot();
        let view = |user: &Arc<UserRow>| self.view_user(by.principal(), &snapshot, user);
        let mut users: Vec<UserView> = snapshot.users().map(view).collect();
        users.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(UserList { users })
    }

    pub async fn user(&self, by: &By<ManagePeople>, name: &str) -> Result<UserView> {
        self.refresh_identities().await?;
        self.shown_user(by.principal(), name)
    }

    /// Adds a person. Nobody may give a role with rights that they do not have.
    pub async fn create_user(&self, by: &By<ManagePeople>, request: &UserRequest) -> Result<UserView> {
        request.check()?;
        let mut grants = UserGrants::default();
        grants.set_role(request.role.as_deref().unwrap_or_default())?;
        for (namespace, grant) in self.read_namespace_roles(by, &request.namespace_roles)? {
            grants.set(namespace, grant)?;
        }
        check_grants(by.principal(), &grants, "the user would have")?;
        let identities = self.identities();
        let password = match &request.password {
            Some(password) => Some(identities.passwords.hash(password, self.salt()?).await?),
            None => None,
        };
        let created = Done { at: self.now(), who: by.who().to_owned() };
        let row = UserRow {
            id: identities.new_id()?,
            name: request.name.clone(),
            mail: request.mail.clone().filter(|mail| !mail.is_empty()),
            role: grants.to_text(),
            password,
            openid: None,
            disabled: false,
            revision: 1,
            changed: created.clone(),
            created,
            deleted_at: None,
        };
        by.changes(request.name.clone());
        match self.0.store.add_user(row).await? {
            UserChange::Done => {
                self.refresh_identities().await?;
                self.shown_user(by.principal(), &request.name)
            }
            UserChange::NameTaken => {
                let detail = format!("there is a user named {}", request.name);
                Err(AppError::new(ErrorKind::UserExists, detail).hint("choose another name, or change that user"))
            }
            UserChange::Full | UserChange::Absent | UserChange::SubjectTaken | UserChange::Conflict { .. } => {
                Err(too_many_users())
            }
        }
    }

    /// Changes what the request names. A person who is disabled has no sessions.
    pub async fn edit_user(&self, by: &By<ManagePeople>, name: &str, edit: &UserEdit) -> Result<UserView> {
        edit.check()?;
        let roles = self.read_namespace_roles(by, &edit.namespace_roles)?;
        let mut new = UserGrants::default();
        new.set_role(edit.role.as_deref().unwrap_or_default())?;
        for (namespace, grant) in &roles {
            new.set(*namespace, *grant)?;
        }
        check_grants(by.principal(), &new, "the user would have")?;
        if let Ok(found) = self.find_user(name) {
            let grants = UserGrants::read(&found.role);
            let role = grants.role.map_or("no role", Role::name);
            let namespaces = grants.namespaces.len();
            let more = if namespaces > 0 { format!(", and in {namespaces} namespaces") } else { String::new() };
            let disabled = if found.disabled { ", disabled" } else { "" };
            by.was(format!("{role}{more}{disabled}"));
            // Before the change, which cannot be refused any more.
            let mut all = grants;
            for (namespace, grant) in &roles {
                all.set(*namespace, *grant)?;
            }
        }
        let sessions = if edit.disabled == Some(true) { UserSessions::End } else { UserSessions::Keep };
        self.change_user(by.principal(), name, sessions, |user| {
            if let Some(mail) = &edit.mail {
                user.mail = Some(mail.clone()).filter(|mail| !mail.is_empty());
            }
            let mut grants = UserGrants::read(&user.role);
            if edit.role.is_some() {
                grants.role = new.role;
            }
            for (namespace, grant) in &roles {
                // As many as there may be were counted before.
                let _ = grants.set(*namespace, *grant);
            }
            if edit.role.is_some() || !roles.is_empty() {
                user.role = grants.to_text();
            }
            user.disabled = edit.disabled.unwrap_or(user.disabled);
        })
        .await?;
        self.shown_user(by.principal(), name)
    }

    /// The sessions of the person end, and the keys made on their behalf are revoked.
    pub async fn delete_user(&self, by: &By<ManagePeople>, name: &str) -> Result<()> {
        let now = self.now();
        self.change_user(by.principal(), name, UserSessions::End, |user| {
            user.deleted_at = Some(now);
            // Nobody needs it any more.
            user.password = None;
        })
        .await
    }

    /// Sets a password: a person's own, with the present one, or anybody's by somebody who manages people. The sessions of the
    /// person end.
    pub async fn set_password(
        &self,
        principal: &Principal,
        transport: &Transport,
        name: &str,
        request: &PasswordRequest,
    ) -> Result<()> {
        request.check()?;
        self.refresh_identities().await?;
        let is_own = principal.kind() == PrincipalKind::Person
            && self.person_behind(principal).is_some_and(|own| self.find_user(name).is_ok_and(|user| user.id == own));
        if is_own {
            self.check_own_password(transport, name, request.current.as_ref()).await?;
        } else {
            principal.check(Right::ManagePeople)?;
        }
        if self.find_user(name).is_ok_and(|user| user.openid.is_some()) {
            let error = AppError::field("/password", "cannot be set: this user logs in by OpenID Connect");
            return Err(error.hint("a password would outlive their account at the provider; create another user"));
        }
        let hash = self.identities().passwords.hash(&request.password, self.salt()?).await?;
        let asker = if is_own { None } else { Some(principal) };
        self.change_user_as(asker, principal.name(), name, UserSessions::End, |user| {
            user.password = Some(hash.clone());
        })
        .await
    }

    /// Somebody with a stolen session must not get the account with it, nor guess the password without limit.
    async fn check_own_password(&self, transport: &Transport, name: &str, current: Option<&SecretText>) -> Result<()> {
        let Some(current) = current else {
            return Err(AppError::field("/current", "must be the present password"));
        };
        let attempt = self.admit_login(transport, name)?;
        let hash = self.find_user(name)?.password.clone();
        match self.identities().passwords.verify(current, hash).await {
            Ok(Verdict::Right) => {
                self.identities().logins.forgive(&attempt);
                Ok(())
            }
            Ok(Verdict::Wrong) => {
                let error = AppError::new(ErrorKind::LoginFailed, "the present password is wrong");
                Err(error.hint("an administrator can set a new one"))
            }
            Err(error) => {
                self.identities().logins.forgive(&attempt);
                Err(error)
            }
        }
    }

    async fn change_user(
        &self,
        asker: &Principal,
        name: &str,
        sessions: UserSessions,
        change: impl Fn(&mut UserRow),
    ) -> Result<()> {
        self.change_user_as(Some(asker), asker.name(), name, sessions, change).await
    }

    /// Reads, changes and writes, again if somebody else came before. An `asker` must have every right of the person.
    async fn change_user_as(
        &self,
        asker: Option<&Principal>,
        who: &str,
        name: &str,
        sessions: UserSessions,
        change: impl Fn(&mut UserRow),
    ) -> Result<()> {
        for _ in 0..TRIES_MAX {
            self.refresh_identities().await?;
            let found = self.find_user(name)?;
            if let Some(asker) = asker {
                check_grants(asker, &UserGrants::read(&found.role), &format!("{name} has"))?;
            }
            let mut row = UserRow::clone(&found);
            change(&mut row);
            row.revision += 1;
            row.changed = Done { at: self.now(), who: who.to_owned() };
            match self.0.store.change_user(row, sessions).await? {
                UserChange::Done => {
                    self.refresh_after_change().await;
                    return Ok(());
                }
                UserChange::Absent => return Err(not_found(name)),
                UserChange::Conflict { .. } | UserChange::NameTaken | UserChange::SubjectTaken | UserChange::Full => {}
            }
        }
        Err(AppError::new(ErrorKind::TooManyRequests, format!("others change the user {name} all the time"))
            .hint("try again in a moment"))
    }

    fn find_user(&self, name: &str) -> Result<Arc<UserRow>> {
        self.identities().snapshot().user_named(name).cloned().ok_or_else(|| not_found(name))
    }

    fn shown_user(&self, asker: &Principal, name: &str) -> Result<UserView> {
        let snapshot = self.identities().snapshot();
        let user = snapshot.user_named(name).ok_or_else(|| not_found(name))?;
        Ok(self.view_user(asker, &snapshot, user))
    }

    fn view_user(&self, asker: &Principal, snapshot: &Snapshot, user: &UserRow) -> UserView {
        let now = self.now();
        let grants = UserGrants::read(&user.role);
        let seen = grants.namespaces.iter().filter(|(namespace, _)| asker.grants().sees(**namespace));
        let named = |(namespace, grant): (&NamespaceId, &NamespaceGrant)| {
            Some((self.0.namespaces.by_id(*namespace)?.name().to_owned(), grant.words()))
        };
        let open = snapshot.sessions().filter(|session| session.row.user == user.id);
        UserView {
            id: user.id.to_string(),
            name: user.name.clone(),
            mail: user.mail.clone(),
            role: grants.role.map(|role| role.name().to_owned()),
            namespace_roles: seen.filter_map(named).collect(),
            disabled: user.disabled,
            has_password: user.password.is_some(),
            openid: user
                .openid
                .as_ref()
                .map(|openid| OpenIdAccount { issuer: openid.issuer.clone(), subject: openid.subject.clone() }),
            sessions: open.filter(|session| check_session(snapshot, session, now).is_ok()).count(),
            revision: user.revision,
            created: done_by(user.created.clone()),
            changed: done_by(user.changed.clone()),
        }
    }

    /// What a request says about namespaces. One in which whoever asks has no right is not there.
    fn read_namespace_roles(
        &self,
        by: &By<ManagePeople>,
        roles: &BTreeMap<String, Vec<String>>,
    ) -> Result<Vec<(NamespaceId, NamespaceGrant)>> {
        let mut faults = Faults::default();
        let mut read = Vec::with_capacity(roles.len().min(limits::NAMESPACES_OF_USER_MAX));
        for (name, words) in roles {
            let found = self.0.namespaces.named(name).filter(|found| by.principal().grants().sees(found.id()));
            let Some(namespace) = found else {
                faults.check(Err(namespaces::not_found(name)));
                continue;
            };
            let grant = NamespaceGrant::read(&format!("/namespace_roles/{name}"), words);
            read.extend(faults.value(grant).map(|grant| (namespace.id(), grant)));
        }
        faults.finish()?;
        Ok(read)
    }

    fn salt(&self) -> Result<[u8; 16]> {
        let random = self.identities().random()?;
        Ok(random[..16].try_into().expect("16 of 32 bytes"))
    }
}

pub(super) fn too_many_users() -> AppError {
    let detail = format!("there are {USERS_MAX} users, the most there may be");
    let hint = "delete users that nobody needs; those that were deleted are removed after 7 days";
    AppError::new(ErrorKind::TooManyUsers, detail).hint(hint)
}

/// Nobody hands on what they do not have there, nor changes somebody who has more.
fn check_grants(asker: &Principal, grants: &UserGrants, whose: &str) -> Result<()> {
    covers(asker, None, grants.role.map_or(Rights::NONE, Role::rights), whose)?;
    grants.namespaces.iter().try_for_each(|(namespace, grant)| covers(asker, Some(*namespace), grant.rights(), whose))
}

fn namespace_roles(roles: &BTreeMap<String, Vec<String>>) -> Result<()> {
    let most = limits::NAMESPACES_OF_USER_MAX;
    if roles.len() > most {
        return Err(AppError::too_long("/namespace_roles", format!("must be at most {most} namespaces")));
    }
    let mut faults = Faults::default();
    for (name, words) in roles {
        faults.value(NamespaceGrant::read(&format!("/namespace_roles/{name}"), words));
        if faults.is_full() {
            break;
        }
    }
    faults.finish()
}

fn not_found(name: &str) -> AppError {
    let shown: String = name.chars().take(limits::NAME_CHARS_MAX).collect();
    AppError::new(ErrorKind::UserNotFound, format!("there is no user named {shown}"))
        .hint("GET /v1/users lists them; POST /v1/users adds one")
}

/// Enough of an address to be one; only its owner knows whether it works.
fn mail(mail: Option<&String>) -> Result<()> {
    let Some(mail) = mail.filter(|mail| !mail.is_empty()) else { return Ok(()) };
    validate::text("/mail", mail, limits::MAIL_CHARS_MAX)?;
    let is_address = mail.split_once('@').is_some_and(|(name, host)| !name.is_empty() && !host.is_empty());
    if !is_address || mail.contains(char::is_whitespace) {
        return Err(AppError::field("/mail", "must be a mail address, such as ana@example.com"));
    }
    Ok(())
}

impl Checked for UserRequest {
    fn check(&self) -> Result<()> {
        let mut faults = Faults::default();
        faults.check(validate::name("/name", &self.name));
        faults.check(mail(self.mail.as_ref()));
        let role = self.role.as_deref().filter(|role| !role.is_empty());
        faults.check(role.map_or(Ok(()), |role| role_named("/role", role).map(drop)));
        faults.check(namespace_roles(&self.namespace_roles));
        if let Some(password) = &self.password {
            faults.check(passwords::check("/password", password));
        }
        faults.finish()
    }
}

impl Checked for UserEdit {
    fn check(&self) -> Result<()> {
        let mut faults = Faults::default();
        faults.check(mail(self.mail.as_ref()));
        let role = self.role.as_deref().filter(|role| !role.is_empty());
        faults.check(role.map_or(Ok(()), |role| role_named("/role", role).map(drop)));
        faults.check(namespace_roles(&self.namespace_roles));
        faults.finish()
    }
}

impl Checked for PasswordRequest {
    fn check(&self) -> Result<()> {
        passwords::check("/password", &self.password)
    }
}
