//! What a person may do: a role for the cluster, and in single namespaces a role, rights, or both.

use std::collections::BTreeMap;

use punctual_api::limits;
use punctual_core::access::{Right, Rights, Role};
use punctual_core::namespace::NamespaceId;
use serde::{Deserialize, Serialize};

use super::grant::role_named;
use crate::grants::Grants;
use crate::{AppError, Faults, Result};

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct UserGrants {
    pub(super) role: Option<Role>,
    pub(super) namespaces: BTreeMap<NamespaceId, NamespaceGrant>,
}

/// What a person may do in one namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct NamespaceGrant {
    role: Option<Role>,
    /// Beside those of the role.
    rights: Rights,
}

/// As the store keeps it. A person without rights in single namespaces is stored by the name of the role alone, as before
/// there were namespaces. Whatever cannot be read, such as a right of a newer version, grants nothing.
#[derive(Default, Serialize, Deserialize)]
struct Stored {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    role: Option<String>,
    #[serde(default)]
    namespaces: BTreeMap<u32, Vec<String>>,
}

impl NamespaceGrant {
    /// A role, rights, or both, by name.
    pub(super) fn read(pointer: &str, words: &[String]) -> Result<Self> {
        let mut grant = Self::default();
        let mut faults = Faults::default();
        if words.len() > Right::ALL.len() + 1 {
            return Err(AppError::too_long(pointer, format!("must be at most {} words", Right::ALL.len() + 1)));
        }
        for (place, word) in words.iter().enumerate() {
            let pointer = format!("{pointer}/{place}");
            match (Role::from_name(word), Right::from_name(word)) {
                (Some(_), _) if grant.role.is_some() => {
                    faults
                        .check(Err(AppError::field(pointer, "is a second role; give one role, and rights beside it")));
                }
                (Some(role), _) => grant.role = Some(role),
                (None, Some(right)) if Rights::IN_NAMESPACE.contains(right) => {
                    grant.rights = grant.rights.union(Rights::of(&[right]));
                }
                (None, Some(right)) => {
                    let error = AppError::field(pointer, format!("`{right}` is a right of the cluster"));
                    faults.check(Err(error.hint("give the user a role for the cluster that includes it")));
                }
                (None, None) => {
                    let shown: String = word.chars().take(40).collect();
                    let error = AppError::field(pointer, format!("there is no role or right `{shown}`"));
                    faults
                        .check(Err(error.hint("roles are viewer, operator, developer and admin; see docs/rights.md")));
                }
            }
        }
        faults.finish()?;
        Ok(grant)
    }

    pub(super) fn rights(self) -> Rights {
        self.role.map_or(Rights::NONE, Role::rights_in_namespace).union(self.rights)
    }

    pub(super) fn words(self) -> Vec<String> {
        let role = self.role.map(|role| role.name().to_owned());
        role.into_iter().chain(self.rights.names().into_iter().map(str::to_owned)).collect()
    }

    fn of_stored(words: &[String]) -> Self {
        let role = words.iter().find_map(|word| Role::from_name(word));
        let rights: Rights = words.iter().filter_map(|word| Right::from_name(word)).collect();
        Self { role, rights: rights.intersection(Rights::IN_NAMESPACE) }
    }
}

impl UserGrants {
    pub(super) fn read(text: &str) -> Self {
        if !text.starts_with('{') {
            return Self { role: Role::from_name(text), namespaces: BTreeMap::new() };
        }
        let stored: Stored = serde_json::from_str(text).unwrap_or_else(|error| {
            tracing::warn!(%error, "what a user may do cannot be read; they may do nothing");
            Stored::default()
        });
        let namespaces = stored.namespaces.iter();
        Self {
            role: stored.role.as_deref().and_then(Role::from_name),
            namespaces: namespaces.map(|(id, words)| (NamespaceId(*id), NamespaceGrant::of_stored(words))).collect(),
        }
    }

    pub(super) fn to_text(&self) -> String {
        let role = self.role.map(|role| role.name().to_owned());
        match role {
            Some(role) if self.namespaces.is_empty() => role,
            role => {
                let namespaces = self.namespaces.iter().map(|(id, grant)| (id.0, grant.words())).collect();
                serde_json::to_string(&Stored { role, namespaces }).expect("names are JSON")
            }
        }
    }

    pub(super) fn grants(&self) -> Grants {
        let namespaces = self.namespaces.iter().map(|(id, grant)| (*id, grant.rights()));
        Grants::new(self.role.map_or(Rights::NONE, Role::rights), namespaces.collect())
    }

    /// What the groups of a person give now. They decide about the cluster and about the namespaces that rules name, `ruled`;
    /// in others, what an administrator granted stays. Where a group gives a role, single rights beside it stay, too.
    pub(super) fn of_groups(
        mut self,
        role: Option<Role>,
        roles: &BTreeMap<NamespaceId, Role>,
        ruled: impl Iterator<Item = NamespaceId>,
    ) -> Self {
        self.role = role;
        for namespace in ruled {
            match roles.get(&namespace) {
                Some(role) => self.namespaces.entry(namespace).or_default().role = Some(*role),
                None => drop(self.namespaces.remove(&namespace)),
            }
        }
        self
    }

    /// Changes the role for the cluster; an empty text is none.
    pub(super) fn set_role(&mut self, role: &str) -> Result<()> {
        self.role = if role.is_empty() { None } else { Some(role_named("/role", role)?) };
        Ok(())
    }

    /// Changes what is granted in one namespace; an empty grant is none.
    pub(super) fn set(&mut self, namespace: NamespaceId, grant: NamespaceGrant) -> Result<()> {
        if grant.rights().is_empty() {
            self.namespaces.remove(&namespace);
        } else {
            self.namespaces.insert(namespace, grant);
        }
        let most = limits::NAMESPACES_OF_USER_MAX;
        if self.namespaces.len() > most {
            let error = AppError::too_long("/namespace_roles", format!("must be at most {most} namespaces"));
            return Err(error.hint("give the user a role for the cluster, which counts in all of them"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    #[test]
    fn grants_read_back_and_a_role_alone_is_stored_as_before_there_were_namespaces() {
        let mut grants = UserGrants { role: Some(Role::Viewer), ..UserGrants::default() };
        assert_eq!(grants.to_text(), "viewer");
        let developer = NamespaceGrant::read("/x", &words(&["developer", "commands.use"])).unwrap();
        grants.set(NamespaceId(3), developer).unwrap();
        let text = grants.to_text();
        assert_eq!(text, r#"{"role":"viewer","namespaces":{"3":["developer","commands.use"]}}"#);
        assert_eq!(UserGrants::read(&text), grants);
        assert!(grants.grants().within(NamespaceId(3)).contains(Right::UseCommands));
        assert!(!grants.grants().within(NamespaceId(4)).contains(Right::UseCommands));
        for (text, role) in [("admin", Some(Role::Admin)), ("emperor", None), ("", None), ("{", None)] {
            assert_eq!(UserGrants::read(text), UserGrants { role, ..UserGrants::default() }, "{text}");
        }
    }

    #[test]
    fn groups_decide_about_the_cluster_and_the_namespaces_that_rules_name() {
        let mut grants = UserGrants { role: Some(Role::Admin), ..UserGrants::default() };
        for (id, granted) in [(1, &["admin", "commands.use"][..]), (2, &["viewer"]), (3, &["operator"])] {
            grants.set(NamespaceId(id), NamespaceGrant::read("/x", &words(granted)).unwrap()).unwrap();
        }
        let roles = BTreeMap::from([(NamespaceId(1), Role::Viewer), (NamespaceId(4), Role::Developer)]);
        let grants = grants.of_groups(None, &roles, [1, 2, 4].map(NamespaceId).into_iter());
        let left: Vec<(u32, Vec<String>)> = grants.namespaces.iter().map(|(id, grant)| (id.0, grant.words())).collect();
        let expected = [(1, words(&["viewer", "commands.use"])), (3, words(&["operator"])), (4, words(&["developer"]))];
        assert_eq!((grants.role, left), (None, expected.to_vec()));
        assert_eq!(UserGrants::read(&grants.to_text()), grants);
    }

    #[test]
    fn a_grant_in_a_namespace_names_one_role_and_no_right_of_the_cluster() {
        for bad in [&["viewer", "admin"][..], &["workers.view"], &["jobs.fly"], &[""]] {
            assert!(NamespaceGrant::read("/x", &words(bad)).is_err(), "{bad:?}");
        }
        assert!(NamespaceGrant::read("/x", &[]).unwrap().rights().is_empty());
    }
}
