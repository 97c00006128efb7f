//! People: who may log in, and with which role.

use std::sync::Arc;

use punctual_api::{ErrorKind, PasswordRequest, SecretText, UserEdit, UserList, UserRequest, UserView, limits};
use punctual_core::access::{Right, Rights, Role};
use punctual_core::schedule::By as Done;
use punctual_store::{USERS_MAX, UserChange, UserRow, UserSessions};

use super::grant::role_named;
use super::passwords::{self, Verdict};
use super::snapshot::Snapshot;
use super::{TRIES_MAX, check_session, covers};
use crate::permission::ManagePeople;
use crate::principal::{By, Principal, PrincipalKind, Transport};
use crate::schedules::done_by;
use crate::{App, AppError, Checked, Faults, Result, validate};

impl App {
    pub async fn list_users(&self, _: &By<ManagePeople>) -> Result<UserList> {
        self.refresh_identities().await?;
        let snapshot = self.identities().snapshot();
        let mut users: Vec<UserView> = snapshot.users().map(|user| self.view_user(&snapshot, user)).collect();
        users.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(UserList { users })
    }

    pub async fn user(&self, _: &By<ManagePeople>, name: &str) -> Result<UserView> {
        self.refresh_identities().await?;
        self.shown_user(name)
    }

    /// Adds a person. Nobody may give a role with rights that they do not have.
    pub async fn create_user(&self, by: &By<ManagePeople>, request: &UserRequest) -> Result<UserView> {
        request.check()?;
        covers(by.principal(), role_named("/role", &request.role)?.rights(), "the user would have")?;
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
            role: request.role.clone(),
            password,
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
                self.shown_user(&request.name)
            }
            UserChange::NameTaken => {
                let detail = format!("there is a user named {}", request.name);
                Err(AppError::new(ErrorKind::UserExists, detail).hint("choose another name, or change that user"))
            }
            UserChange::Full | UserChange::Absent | UserChange::Conflict { .. } => {
                let detail = format!("there are {USERS_MAX} users, the most there may be");
                let hint = "delete users that nobody needs; those that were deleted are removed after 7 days";
                Err(AppError::new(ErrorKind::TooManyUsers, detail).hint(hint))
            }
        }
    }

    /// Changes what the request names. A person who is disabled has no sessions.
    pub async fn edit_user(&self, by: &By<ManagePeople>, name: &str, edit: &UserEdit) -> Result<UserView> {
        edit.check()?;
        if let Some(role) = &edit.role {
            covers(by.principal(), role_named("/role", role)?.rights(), "the user would have")?;
        }
        if let Ok(found) = self.find_user(name) {
            by.was(if found.disabled { format!("{}, disabled", found.role) } else { found.role.clone() });
        }
        let sessions = if edit.disabled == Some(true) { UserSessions::End } else { UserSessions::Keep };
        self.change_user(by.principal(), name, sessions, |user| {
            if let Some(mail) = &edit.mail {
                user.mail = Some(mail.clone()).filter(|mail| !mail.is_empty());
            }
            if let Some(role) = &edit.role {
                user.role.clone_from(role);
            }
            user.disabled = edit.disabled.unwrap_or(user.disabled);
        })
        .await?;
        self.shown_user(name)
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
                let rights = Role::from_name(&found.role).map_or(Rights::all(), Role::rights);
                covers(asker, rights, &format!("{name} has"))?;
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
                UserChange::Conflict { .. } | UserChange::NameTaken | UserChange::Full => {}
            }
        }
        Err(AppError::new(ErrorKind::TooManyRequests, format!("others change the user {name} all the time"))
            .hint("try again in a moment"))
    }

    fn find_user(&self, name: &str) -> Result<Arc<UserRow>> {
        self.identities().snapshot().user_named(name).cloned().ok_or_else(|| not_found(name))
    }

    fn shown_user(&self, name: &str) -> Result<UserView> {
        let snapshot = self.identities().snapshot();
        let user = snapshot.user_named(name).ok_or_else(|| not_found(name))?;
        Ok(self.view_user(&snapshot, user))
    }

    fn view_user(&self, snapshot: &Snapshot, user: &UserRow) -> UserView {
        let now = self.now();
        let open = snapshot.sessions().filter(|session| session.row.user == user.id);
        UserView {
            id: user.id.to_string(),
            name: user.name.clone(),
            mail: user.mail.clone(),
            role: user.role.clone(),
            disabled: user.disabled,
            has_password: user.password.is_some(),
            sessions: open.filter(|session| check_session(snapshot, session, now).is_ok()).count(),
            revision: user.revision,
            created: done_by(user.created.clone()),
            changed: done_by(user.changed.clone()),
        }
    }

    fn salt(&self) -> Result<[u8; 16]> {
        let random = self.identities().random()?;
        Ok(random[..16].try_into().expect("16 of 32 bytes"))
    }
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
        faults.value(role_named("/role", &self.role));
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
        if let Some(role) = &self.role {
            faults.value(role_named("/role", role));
        }
        faults.finish()
    }
}

impl Checked for PasswordRequest {
    fn check(&self) -> Result<()> {
        passwords::check("/password", &self.password)
    }
}
