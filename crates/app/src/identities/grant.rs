//! What a key was given: a role, or a list of rights.

use punctual_api::{FieldCode, KeyRequest};
use punctual_core::access::{Right, Rights, Role};
use punctual_core::namespace::NamespaceId;
use serde::{Deserialize, Serialize};

use crate::grants::Grants;

use crate::{AppError, Result};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Grant {
    Role(Role),
    Rights(Rights),
}

/// As the store keeps it. Rights go by name: their numbers change when one is added.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Stored {
    Role(String),
    Rights(Vec<String>),
}

impl Grant {
    pub(crate) fn of_request(request: &KeyRequest) -> Result<Self> {
        match (&request.role, &request.rights) {
            (Some(role), None) => role_named("/role", role).map(Self::Role),
            (None, Some(names)) => rights_named("/rights", names).map(Self::Rights),
            (Some(_), Some(_)) => Err(AppError::field("/rights", "cannot be given with `role`; give one of them")),
            (None, None) => Err(AppError::field("/role", "must be given, or `rights`").code(FieldCode::Required)),
        }
    }

    /// For the cluster.
    pub(crate) fn rights(self) -> Rights {
        match self {
            Self::Role(role) => role.rights(),
            Self::Rights(rights) => rights,
        }
    }

    pub(crate) fn rights_in_namespace(self) -> Rights {
        match self {
            Self::Role(role) => role.rights_in_namespace(),
            Self::Rights(rights) => rights.intersection(Rights::IN_NAMESPACE),
        }
    }

    /// What a key with this grant may do; `None`: it is for the cluster.
    pub(crate) fn within(self, namespace: Option<NamespaceId>) -> Grants {
        match namespace {
            Some(namespace) => Grants::in_namespace(namespace, self.rights_in_namespace()),
            None => Grants::of_cluster(self.rights()),
        }
    }

    /// Refuses rights of the cluster for a key of a namespace: it would not have them.
    pub(crate) fn check_in_namespace(self) -> Result<()> {
        let Self::Rights(rights) = self else { return Ok(()) };
        match rights.intersection(Rights::OF_CLUSTER).iter().next() {
            None => Ok(()),
            Some(right) => {
                let error = AppError::field("/rights", format!("`{right}` is a right of the cluster"));
                Err(error.hint("leave it out, or make a key for the cluster: without a namespace"))
            }
        }
    }

    pub(crate) fn role(self) -> Option<Role> {
        match self {
            Self::Role(role) => Some(role),
            Self::Rights(_) => None,
        }
    }

    pub(crate) fn to_text(self) -> String {
        let stored = match self {
            Self::Role(role) => Stored::Role(role.name().to_owned()),
            Self::Rights(rights) => Stored::Rights(rights.names().into_iter().map(str::to_owned).collect()),
        };
        serde_json::to_string(&stored).expect("names are JSON")
    }

    /// What cannot be read, such as a right of a newer version, grants nothing.
    pub(crate) fn read(text: &str) -> Self {
        match serde_json::from_str(text) {
            Ok(Stored::Role(name)) => Role::from_name(&name).map_or(Self::Rights(Rights::NONE), Self::Role),
            Ok(Stored::Rights(names)) => Self::Rights(names.iter().filter_map(|name| Right::from_name(name)).collect()),
            Err(error) => {
                tracing::warn!(%error, "what a key may do cannot be read; it may do nothing");
                Self::Rights(Rights::NONE)
            }
        }
    }
}

pub(crate) fn role_named(pointer: &str, name: &str) -> Result<Role> {
    Role::from_name(name).ok_or_else(|| AppError::field(pointer, "must be viewer, operator, developer or admin"))
}

fn rights_named(pointer: &str, names: &[String]) -> Result<Rights> {
    if names.is_empty() {
        return Err(AppError::field(pointer, "must name at least one right"));
    }
    if names.len() > Right::ALL.len() {
        return Err(AppError::too_long(pointer, format!("must name at most {} rights", Right::ALL.len())));
    }
    let unknown = names.iter().position(|name| Right::from_name(name).is_none());
    match unknown {
        None => Ok(names.iter().filter_map(|name| Right::from_name(name)).collect()),
        Some(place) => {
            let shown: String = names[place].chars().take(40).collect();
            let error = AppError::field(format!("{pointer}/{place}"), format!("there is no right `{shown}`"));
            Err(error.hint("docs/access.md lists the rights, such as jobs.submit"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grant_reads_back_and_what_is_unknown_grants_nothing() {
        let some = Rights::of(&[Right::ViewJobs, Right::SubmitJobs]);
        for grant in [Grant::Role(Role::Developer), Grant::Rights(some)] {
            assert_eq!(Grant::read(&grant.to_text()), grant);
        }
        assert_eq!(Grant::Rights(some).to_text(), r#"{"rights":["jobs.view","jobs.submit"]}"#);
        for (text, rights) in [
            (r#"{"rights":["jobs.view","jobs.fly"]}"#, Rights::of(&[Right::ViewJobs])),
            (r#"{"role":"emperor"}"#, Rights::NONE),
            ("{}", Rights::NONE),
            ("", Rights::NONE),
        ] {
            assert_eq!(Grant::read(text).rights(), rights, "{text}");
        }
    }
}
