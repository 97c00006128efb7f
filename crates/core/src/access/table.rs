//! The table of roles and rights, as docs/rights.md shows it.

use super::{Reach, Right, Role};

/// As Markdown, one row for each right.
pub fn table() -> String {
    let mut text = String::from("| right | permits to | granted in |");
    for role in Role::ALL {
        text += &format!(" {role} |");
    }
    text += "\n|---|---|---|";
    text += &"---|".repeat(Role::ALL.len());
    for right in Right::ALL {
        text += &format!("\n| `{right}` | {} | {} |", sentence(right.meaning()), right.reach().name());
        for role in Role::ALL {
            let (cluster, namespace) = (role.rights(), role.rights_in_namespace());
            text += match (cluster.contains(*right), namespace.contains(*right)) {
                (true, false) if right.reach() == Reach::Namespace => " cluster |",
                (true, _) => " yes |",
                (false, _) => " – |",
            };
        }
    }
    text.push('\n');
    text
}

/// In the middle of a sentence, without its end.
fn sentence(meaning: &str) -> String {
    let meaning = meaning.trim();
    let mut letters = meaning.chars();
    let first = letters.next().map(|first| first.to_lowercase().to_string()).unwrap_or_default();
    format!("{first}{}", letters.as_str().trim_end_matches('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_the_one_in_the_docs() {
        let page = format!(
            "# Roles and rights\n\nDrawn from `crates/core/src/access/`; a test keeps the two alike. \
             [Access](access.md#roles-and-rights) says how they are used.\n\n{}\n\
             Names of rights are stable. Each role has all rights of the one to its left.\n\n\
             Rights of the **cluster** come only from a role or a key for the cluster. Rights in a **namespace** come from a role in \
             that [namespace](namespaces.md), or from one for the cluster, which counts in all of them. Where a column says *cluster*, \
             the role includes the right only if it is given for the cluster; in a namespace the right is granted by name.\n",
            table()
        );
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/rights.md");
        if std::env::var_os("UPDATE_DOCS").is_some() {
            std::fs::write(path, &page).unwrap();
        }
        let written = std::fs::read_to_string(path).unwrap_or_default();
        assert_eq!(page, written, "run the tests with UPDATE_DOCS=1 to redraw docs/rights.md");
    }

    #[test]
    fn roles_and_rights_have_not_changed_by_accident() {
        insta::assert_snapshot!(table());
    }

    #[test]
    fn each_role_has_the_rights_of_the_one_before() {
        for pair in Role::ALL.windows(2) {
            assert!(pair[1].rights().covers(pair[0].rights()), "{} and {}", pair[0], pair[1]);
            assert_ne!(pair[0].rights(), pair[1].rights());
        }
    }

    #[test]
    fn a_developer_gets_neither_secrets_nor_the_worker_with_the_right_to_edit_tasks() {
        for right in
            [Right::UseCommands, Right::UseNetwork, Right::UsePrivateAddresses, Right::UseSecrets, Right::EditSecrets]
        {
            assert!(!Role::Developer.rights().contains(right), "{right}");
        }
    }

    #[test]
    fn names_are_told_apart() {
        for right in Right::ALL {
            assert_eq!(Right::from_name(right.name()), Some(*right));
        }
        for role in Role::ALL {
            assert_eq!(Role::from_name(role.name()), Some(role));
        }
    }
}
