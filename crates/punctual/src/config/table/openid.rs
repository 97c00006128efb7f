//! Settings of logins at a provider of OpenID Connect.

use std::path::PathBuf;

use punctual_app::GroupRules;
use punctual_core::Span;

use super::SERVERS;
use crate::config::kind::{folder, parsed, secret, span, text};
use crate::config::setting::{setting, settings, unset};

settings! {
    read by SERVERS;

    /// The settings of a provider.
    struct OpenIdSettings;

    composed {}

    Logins {
        openid_issuer: Option<String> = text().or_none().described("a URL"),
            unset("no login by OpenID Connect", "The issuer of the provider, exactly as the provider writes it");
        openid_client_id: String = text(), setting("punctual", "The id of this client at the provider");
        openid_client_secret: String = secret(),
            unset("", "The secret of this client, or @ and a file with it; empty for a public client").secret();
        openid_scopes: Vec<String> = parsed(words).described("words, separated by commas"),
            setting("openid,profile", "Scopes that logins ask for");
        openid_audiences: Vec<String> = parsed(words).described("words, separated by commas"),
            unset("none", "Audiences that an ID token may have beside the client's id");
        openid_name_claim: String = text(), setting("preferred_username", "The claim that names a new user");
        openid_groups_claim: String = text(),
            setting("groups", "The claim that lists a person's groups; dots lead into claims inside others");
        openid_rules: Option<GroupRules> = parsed(GroupRules::parse).or_none().described("tables, or a list in JSON"),
            unset("nobody may log in", "Rules from groups to roles, each with `group` and `role`");
        openid_session: Span = span(Span::from_secs(60), Span::from_secs(30 * 86_400)),
            setting("12h", "How long a session by OpenID Connect lasts; at its end, the groups are looked at again");
        openid_ca_file: Option<PathBuf> = folder().described("a path").or_none(),
            unset("the system's authorities", "Authorities that the provider's certificate may come from, in PEM");
    }
}

fn words(text: &str) -> Result<Vec<String>, String> {
    let words: Vec<String> =
        text.split(',').map(str::trim).filter(|word| !word.is_empty()).map(str::to_owned).collect();
    match words.iter().find(|word| word.contains(|c: char| c.is_whitespace() || c.is_control())) {
        Some(word) => Err(format!("`{word}` is more than one word; write a comma between two")),
        None if words.len() > 32 => Err("there are more than 32".to_owned()),
        None => Ok(words),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_tables_in_a_file_and_json_elsewhere() {
        let text = "openid_scopes = ['openid', 'groups']\n[[openid_rules]]\ngroup = 'cn=ops,dc=x'\nrole = 'admin'\n";
        let values = crate::config::file::parse(text).unwrap();
        let json = GroupRules::parse(r#"[{"group":"cn=ops,dc=x","role":"admin"}]"#).unwrap();
        assert_eq!(GroupRules::parse(&values["openid_rules"]).unwrap(), json);
        assert_eq!(words(&values["openid_scopes"]).unwrap(), ["openid", "groups"]);
        assert!(words("openid groups").is_err());
    }
}
