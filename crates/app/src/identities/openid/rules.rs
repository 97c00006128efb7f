//! Rules from the groups of the provider to roles.

use std::collections::BTreeMap;

use punctual_core::access::Role;
use punctual_core::namespace::NamespaceName;
use serde::Deserialize;

/// Rules of one cluster. Each login goes through all of them.
const RULES_MAX: usize = 1000;
const GROUP_CHARS_MAX: usize = 512;

/// Who may log in, and as what. Somebody whom no rule matches may not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupRules(Vec<GroupRule>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct GroupRule {
    group: String,
    role: Role,
    /// `None`: the role holds for the cluster.
    namespace: Option<NamespaceName>,
}

/// What the groups of somebody give.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct GroupRoles {
    pub(crate) cluster: Option<Role>,
    pub(crate) namespaces: BTreeMap<NamespaceName, Role>,
}

/// A rule as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    group: String,
    role: String,
    /// For a role that holds in one namespace only.
    #[serde(default)]
    namespace: Option<String>,
}

impl GroupRules {
    /// A list of rules in JSON, such as `[{"group":"ops","role":"operator"}]`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let written: Vec<Written> = serde_json::from_str(text)
            .map_err(|error| format!("it is not a list of rules with `group` and `role`: {error}"))?;
        if written.is_empty() {
            return Err("it has no rule, so nobody could log in".to_owned());
        }
        if written.len() > RULES_MAX {
            return Err(format!("it has more than {RULES_MAX} rules"));
        }
        written.into_iter().map(GroupRule::read).collect::<Result<_, _>>().map(Self)
    }

    /// For the cluster and for each namespace, the role with the most rights of all rules that match. Groups are compared
    /// letter by letter.
    pub(crate) fn roles(&self, groups: &[String]) -> GroupRoles {
        let mut roles = GroupRoles::default();
        for GroupRule { role, namespace, .. } in self.0.iter().filter(|rule| groups.contains(&rule.group)) {
            match namespace {
                None => roles.cluster = roles.cluster.max(Some(*role)),
                Some(namespace) => {
                    let known = roles.namespaces.entry(namespace.clone()).or_insert(*role);
                    *known = (*role).max(*known);
                }
            }
        }
        roles
    }

    /// The namespaces in which groups decide about roles.
    pub(crate) fn namespaces(&self) -> impl Iterator<Item = &NamespaceName> {
        self.0.iter().filter_map(|rule| rule.namespace.as_ref())
    }
}

impl GroupRule {
    fn read(written: Written) -> Result<Self, String> {
        let Written { group, role, namespace } = written;
        if group.is_empty() || group.chars().count() > GROUP_CHARS_MAX {
            return Err(format!("a group has 1 to {GROUP_CHARS_MAX} characters"));
        }
        let shown: String = group.chars().take(60).collect();
        let is_no_name =
            |_| format!("the rule of `{shown}`: the namespace must have 1 to 63 lowercase letters, digits and hyphens");
        let namespace = namespace.map(|name| name.parse::<NamespaceName>().map_err(is_no_name)).transpose()?;
        let role = Role::from_name(&role)
            .ok_or_else(|| format!("the rule of `{shown}`: the role must be viewer, operator, developer or admin"))?;
        Ok(Self { group, role, namespace })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn groups(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn the_highest_role_of_all_groups_counts_and_nobody_gets_one_without_a_rule() {
        let rules = r#"[{"group":"cn=ops,dc=x","role":"admin"},{"group":"all","role":"viewer"},{"group":"all","role":"operator"}]"#;
        let rules = GroupRules::parse(rules).unwrap();
        for (of, role) in [
            (&["all"][..], Some(Role::Operator)),
            (&["all", "cn=ops,dc=x"], Some(Role::Admin)),
            (&["ALL"], None),
            (&["al"], None),
            (&[], None),
        ] {
            let expected = GroupRoles { cluster: role, namespaces: BTreeMap::new() };
            assert_eq!(rules.roles(&groups(of)), expected, "{of:?}");
        }
    }

    #[test]
    fn a_rule_with_a_namespace_gives_its_role_there_alone() {
        let rules = r#"[{"group":"a-ops","role":"admin","namespace":"team-a"},{"group":"a","role":"viewer","namespace":"team-a"},
            {"group":"b","role":"developer","namespace":"team-b"},{"group":"staff","role":"viewer"}]"#;
        let rules = GroupRules::parse(rules).unwrap();
        let named = |name: &str| name.parse::<NamespaceName>().unwrap();
        let roles = rules.roles(&groups(&["a-ops", "a", "b"]));
        let expected = BTreeMap::from([(named("team-a"), Role::Admin), (named("team-b"), Role::Developer)]);
        assert_eq!(roles, GroupRoles { cluster: None, namespaces: expected });
        assert_eq!(rules.roles(&groups(&["staff"])).namespaces, BTreeMap::new());
        assert_eq!(rules.namespaces().count(), 3);
    }

    #[test]
    fn rules_that_nobody_can_mean_are_refused() {
        for bad in [
            "",
            "[]",
            "ops=admin",
            r#"[{"group":"ops"}]"#,
            r#"[{"group":"","role":"admin"}]"#,
            r#"[{"group":"ops","role":"root"}]"#,
            r#"[{"group":"ops","role":"admin","user":"ana"}]"#,
            r#"[{"group":"ops","role":"admin","namespace":"Team A"}]"#,
            r#"[{"group":"ops","role":"none","namespace":"team"}]"#,
        ] {
            assert!(GroupRules::parse(bad).is_err(), "{bad}");
        }
    }
}
