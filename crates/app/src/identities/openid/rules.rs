//! Rules from the groups of the provider to roles.

use punctual_core::access::Role;
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
}

/// A rule as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    group: String,
    role: String,
    /// For roles that hold in one namespace only.
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

    /// The role with the most rights of all rules that match. Groups are compared letter by letter.
    pub(crate) fn role(&self, groups: &[String]) -> Option<Role> {
        self.0.iter().filter(|rule| groups.contains(&rule.group)).map(|rule| rule.role).max()
    }
}

impl GroupRule {
    fn read(written: Written) -> Result<Self, String> {
        let Written { group, role, namespace } = written;
        if group.is_empty() || group.chars().count() > GROUP_CHARS_MAX {
            return Err(format!("a group has 1 to {GROUP_CHARS_MAX} characters"));
        }
        let shown: String = group.chars().take(60).collect();
        if let Some(namespace) = namespace {
            return Err(format!("the rule of `{shown}` names the namespace `{namespace}`; roles hold for the cluster"));
        }
        let role = Role::from_name(&role)
            .ok_or_else(|| format!("the rule of `{shown}`: the role must be viewer, operator, developer or admin"))?;
        Ok(Self { group, role })
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
            assert_eq!(rules.role(&groups(of)), role, "{of:?}");
        }
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
            r#"[{"group":"ops","role":"admin","namespace":"team"}]"#,
        ] {
            assert!(GroupRules::parse(bad).is_err(), "{bad}");
        }
    }
}
