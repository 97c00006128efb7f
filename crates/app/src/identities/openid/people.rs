//! People whom a provider knows: found by issuer and subject, made at their first login, and with the role of their groups.

use std::collections::BTreeMap;
use std::sync::Arc;

use punctual_core::access::{Rights, Role};
use punctual_core::hex;
use punctual_core::namespace::NamespaceId;
use punctual_core::schedule::By as Done;
use punctual_openid::Identity;
use punctual_store::{OpenIdSubject, UserChange, UserRow, UserSessions};
use sha2::{Digest, Sha256};

use super::Refusal;
use super::rules::{GroupRoles, GroupRules};
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
        roles: &GroupRoles,
    ) -> Result<std::result::Result<Arc<UserRow>, Refusal>> {
        let Identity { issuer, subject, .. } = identity;
        let wanted = OpenIdSubject { issuer: issuer.clone(), subject: subject.clone() };
        for _ in 0..TRIES_MAX {
            self.refresh_identities().await?;
            let in_namespaces = self.roles_in_namespaces(roles).await?;
            let has_any = roles.cluster.is_some() || !in_namespaces.is_empty();
            let follow_groups =
                |known: UserGrants| known.of_groups(roles.cluster, &in_namespaces, self.ruled_namespaces());
            let found = self.identities().snapshot().user_of_subject(&wanted).cloned();
            let changed = match (found, has_any) {
                (None, false) => return Ok(Err(Refusal::no_role(identity))),
                (None, true) => {
                    let grants = follow_groups(UserGrants::default());
                    self.add_openid_user(transport, identity, &grants.to_text()).await?
                }
                (Some(user), _) if user.disabled => return Ok(Err(Refusal::new("disabled", &user.name))),
                (Some(user), true) => {
                    let known = UserGrants::read(&user.role);
                    let grants = follow_groups(known.clone());
                    if grants == known {
                        return Ok(Ok(user));
                    }
                    self.set_openid_role(transport, &user, &grants.to_text(), UserSessions::Keep).await?
                }
                (Some(user), false) if user.role == NO_ROLE => return Ok(Err(Refusal::no_role(identity))),
                (Some(user), false) => self.set_openid_role(transport, &user, NO_ROLE, UserSessions::End).await?,
            };
            if changed == UserChange::Full {
                return Err(too_many_users());
            }
        }
        let error = AppError::new(ErrorKind::TooManyRequests, "others change this user all the time");
        Err(error.hint("try again in a moment"))
    }

    /// By the numbers of the namespaces. One that a rule names and that is not there gives nothing.
    async fn roles_in_namespaces(&self, roles: &GroupRoles) -> Result<BTreeMap<NamespaceId, Role>> {
        let mut found = BTreeMap::new();
        for (name, role) in &roles.namespaces {
            // It may have been made at another server a moment ago.
            if self.0.namespaces.named(name.as_str()).is_none() {
                self.refresh_namespaces().await?;
            }
            match self.0.namespaces.named(name.as_str()) {
                Some(namespace) => drop(found.insert(namespace.id(), *role)),
                None => {
                    tracing::warn!(namespace = %name, "a rule in openid_rules names a namespace that does not exist")
                }
            }
        }
        Ok(found)
    }

    fn ruled_namespaces(&self) -> impl Iterator<Item = NamespaceId> {
        let rules = self.openid().map(|logins| &logins.rules).into_iter();
        rules.flat_map(GroupRules::namespaces).filter_map(|name| Some(self.0.namespaces.named(name.as_str())?.id()))
    }

    async fn add_openid_user(&self, transport: &Transport, identity: &Identity, role: &str) -> Result<UserChange> {
        let created = Done { at: self.now(), who: BY.to_owned() };
        let mut change = UserChange::NameTaken;
        for name in names(identity) {
            let row = UserRow {
                id: self.identities().new_id()?,
                name: name.clone(),
                mail: None,
                role: role.to_owned(),
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
