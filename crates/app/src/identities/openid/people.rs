//! People whom a provider knows: found by issuer and subject, made at their first login, and with the role of their groups.

use std::sync::Arc;

use punctual_core::access::{Rights, Role};
use punctual_core::hex;
use punctual_core::schedule::By as Done;
use punctual_openid::Identity;
use punctual_store::{OpenIdSubject, UserChange, UserRow, UserSessions};
use sha2::{Digest, Sha256};

use super::Refusal;
use crate::audit::AuditEvent;
use crate::identities::TRIES_MAX;
use crate::identities::user_grants::UserGrants;
use crate::identities::users::too_many_users;
use crate::principal::{Principal, PrincipalKind, Transport};
use crate::{App, AppError, Result};
use punctual_api::{ErrorKind, limits};

/// Who made and changed people who came by themselves.
const BY: &str = "openid";
/// The role of somebody whose groups give none any more. It is none of the known roles, and has no rights.
const NO_ROLE: &str = "none";

impl App {
    /// The person of this identity, as the groups have it now. Never somebody who merely has the same name or mail address.
    pub(super) async fn openid_user(
        &self,
        transport: &Transport,
        identity: &Identity,
        role: Option<Role>,
    ) -> Result<std::result::Result<Arc<UserRow>, Refusal>> {
        let Identity { issuer, subject, .. } = identity;
        let wanted = OpenIdSubject { issuer: issuer.clone(), subject: subject.clone() };
        for _ in 0..TRIES_MAX {
            self.refresh_identities().await?;
            let found = self.identities().snapshot().user_of_subject(&wanted).cloned();
            let changed = match (found, role) {
                (None, None) => return Ok(Err(Refusal::no_role(identity))),
                (None, Some(role)) => self.add_openid_user(transport, identity, role).await?,
                (Some(user), _) if user.disabled => return Ok(Err(Refusal::new("disabled", &user.name))),
                (Some(user), Some(role)) => {
                    // What an administrator granted in namespaces stays: the groups decide about the cluster alone.
                    let grants = UserGrants::read(&user.role);
                    if grants.role == Some(role) {
                        return Ok(Ok(user));
                    }
                    let grants = UserGrants { role: Some(role), ..grants };
                    self.set_openid_role(transport, &user, &grants.to_text(), UserSessions::Keep).await?
                }
                (Some(user), None) if user.role == NO_ROLE => return Ok(Err(Refusal::no_role(identity))),
                (Some(user), None) => self.set_openid_role(transport, &user, NO_ROLE, UserSessions::End).await?,
            };
            if changed == UserChange::Full {
                return Err(too_many_users());
            }
        }
        let error = AppError::new(ErrorKind::TooManyRequests, "others change this user all the time");
        Err(error.hint("try again in a moment"))
    }

    async fn add_openid_user(&self, transport: &Transport, identity: &Identity, role: Role) -> Result<UserChange> {
        let created = Done { at: self.now(), who: BY.to_owned() };
        let mut change = UserChange::NameTaken;
        for name in names(identity) {
            let row = UserRow {
                id: self.identities().new_id()?,
                name: name.clone(),
                mail: None,
                role: role.name().to_owned(),
                password: None,
                openid: Some(OpenIdSubject { issuer: identity.issuer.clone(), subject: identity.subject.clone() }),
                disabled: false,
                revision: 1,
                created: created.clone(),
                changed: created.clone(),
                deleted_at: None,
            };
            change = self.0.store.add_user(row).await?;
            match change {
                UserChange::Done => {
                    self.record_openid_change(transport, "create_user", &name, None).await;
                    break;
                }
                UserChange::NameTaken => {}
                UserChange::SubjectTaken | UserChange::Full | UserChange::Absent | UserChange::Conflict { .. } => break,
            }
        }
        Ok(change)
    }

    async fn set_openid_role(
        &self,
        transport: &Transport,
        user: &UserRow,
        role: &str,
        sessions: UserSessions,
    ) -> Result<UserChange> {
        let row = UserRow {
            role: role.to_owned(),
            revision: user.revision + 1,
            changed: Done { at: self.now(), who: BY.to_owned() },
            ..user.clone()
        };
        let change = self.0.store.change_user(row, sessions).await?;
        if change == UserChange::Done {
            self.record_openid_change(transport, "edit_user", &user.name, Some(&user.role)).await;
        }
        Ok(change)
    }

    async fn record_openid_change(&self, transport: &Transport, action: &str, name: &str, before: Option<&str>) {
        let principal =
            Principal::new(PrincipalKind::Person, format!("user:{name}"), Rights::NONE).at(transport.address);
        let event = AuditEvent::new(&principal, action, AuditEvent::DONE).object(Some(name)).before(before);
        if let Err(error) = self.record(event.clone()).await {
            tracing::error!(%error, ?event, "a change is missing in the audit log");
        }
    }
}

/// Names for a new person, the best first. The person may be able to choose theirs at the provider, so one that is taken stays with
/// whoever has it, and what follows comes from the subject.
fn names(identity: &Identity) -> [String; 3] {
    const SUFFIX_CHARS_MAX: usize = 17;
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let claimed = identity.name.as_deref().unwrap_or_default();
    let plain: String = claimed.chars().map(|c| if is_allowed(c) { c } else { '-' }).collect();
    let plain = plain.trim_matches(['.', '-']);
    let base: String = plain.chars().take(limits::NAME_CHARS_MAX - SUFFIX_CHARS_MAX).collect();
    let base = if base.is_empty() { "user".to_owned() } else { base };
    let digest = hex::encode(Sha256::digest(format!("{}\0{}", identity.issuer, identity.subject)));
    [base.clone(), format!("{base}-{}", &digest[..6]), format!("{base}-{}", &digest[..16])]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validate;

    #[test]
    fn names_are_ones_that_people_may_have_whatever_the_provider_says() {
        let identity = |name: Option<&str>| Identity {
            issuer: "https://id.example".to_owned(),
            subject: "1".to_owned(),
            name: name.map(str::to_owned),
            groups: Vec::new(),
        };
        for (claimed, first) in [
            (Some("ana"), "ana"),
            (Some("ana@example.com"), "ana-example.com"),
            (Some("../../etc"), "etc"),
            (Some("Ünal"), "nal"),
            (Some("\u{202e}"), "user"),
            (Some(""), "user"),
            (None, "user"),
        ] {
            let names = names(&identity(claimed));
            assert_eq!(names[0], first, "{claimed:?}");
            assert!(names.iter().all(|name| validate::name("/name", name).is_ok()), "{names:?}");
        }
        let long = names(&identity(Some(&"x".repeat(1000))));
        assert!(long.iter().all(|name| validate::name("/name", name).is_ok()), "{long:?}");
    }
}
