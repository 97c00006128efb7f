//! The table of settings for readers: `punctual config --help` and docs/configuration.md.

use super::Setting;
use super::setting::{Flag, Section};
use super::table::of_section;

/// Every setting with its default, for `punctual config --help`.
pub(crate) fn help() -> String {
    let mut text = String::from(
        "Settings come from flags (--data-dir), then the environment (PUNCTUAL_DATA_DIR), then a file \
         (./punctual.toml, else $XDG_CONFIG_HOME/punctual/config.toml; --config names another), then the \
         defaults. ./punctual.toml may be somebody else's: it can set only what concerns output, capacity and \
         timing, as `punctual config KEY` says of each setting.\n",
    );
    for section in Section::ALL {
        text += &format!("\n{}:\n", section.title());
        for setting in of_section(section) {
            let default = match setting.default_words() {
                words if words.is_empty() => words,
                words => format!(" [default: {words}]"),
            };
            text += &format!("  {:<18} {}{default}\n", setting.key, setting.help);
        }
    }
    text
}

/// One setting in a few sentences, for `punctual config KEY`.
pub(crate) fn description(setting: &Setting) -> String {
    let mut text = format!("{}.", setting.help);
    let mut add = |name: &str, words: String| {
        if !words.is_empty() {
            text += &format!("\n  {name:<9} {words}");
        }
    };
    add("values", setting.shape().values);
    add("default", setting.default_words());
    add("read by", roles(setting));
    add("variable", setting.variable());
    add("flag of", setting.flag.map(commands).unwrap_or_default());
    add("local", setting.local_file.words().to_owned());
    text
}

fn roles(setting: &Setting) -> String {
    setting.roles.iter().map(|role| role.name()).collect::<Vec<_>>().join(", ")
}

fn commands(flag: Flag) -> String {
    flag.commands.iter().map(|command| command.words()).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::setting::LocalFile;
    use crate::config::table::settings;

    const fn column(local_file: LocalFile) -> &'static str {
        match local_file {
            LocalFile::CanSet => "yes",
            LocalFile::CanSetInside => "a folder inside",
            LocalFile::CannotSet => "no",
        }
    }

    /// The rows of docs/configuration.md.
    fn table(section: Section) -> String {
        let mut table = String::from(
            "| setting | default | values | read by | flag of | `./punctual.toml` | |\n|---|---|---|---|---|---|---|\n",
        );
        for setting in of_section(section) {
            table += &format!(
                "| `{}` | {} | {} | {} | {} | {} | {} |\n",
                setting.key,
                setting.default_words(),
                setting.shape().values,
                roles(setting),
                setting.flag.map(commands).unwrap_or_default(),
                column(setting.local_file),
                setting.help.replace('|', "\\|"),
            );
        }
        table
    }

    /// The page with the table below each heading drawn anew. What else is written there stays.
    fn redrawn(page: &str) -> String {
        let mut page = page.to_owned();
        for section in Section::ALL {
            let heading = format!("## {}\n", section.title());
            let body = page.find(&heading).unwrap_or_else(|| panic!("no heading: {heading}")) + heading.len();
            let end = page[body..].find("\n## ").map_or(page.len(), |end| body + end + 1);
            let is_row = |line: &&str| line.starts_with('|');
            let rest = &page[body..end];
            let before: String = rest.split_inclusive('\n').take_while(|line| !is_row(line)).collect();
            let after: String =
                rest.split_inclusive('\n').skip_while(|line| !is_row(line)).skip_while(is_row).collect();
            let drawn = format!("{before}{}{after}", table(section));
            page.replace_range(body..end, &drawn);
        }
        page
    }

    #[test]
    fn the_docs_have_every_setting_as_the_table_has_it() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/configuration.md");
        let written = std::fs::read_to_string(path).unwrap();
        let drawn = redrawn(&written);
        if std::env::var_os("UPDATE_DOCS").is_some() {
            return std::fs::write(path, drawn).unwrap();
        }
        let differs = drawn.lines().zip(written.lines()).find(|(drawn, written)| drawn != written);
        assert_eq!(differs, None, "run the tests with UPDATE_DOCS=1 to redraw docs/configuration.md");
        assert_eq!(drawn.len(), written.len());
    }

    #[test]
    fn the_current_folder_says_nothing_of_trust_protection_or_records() {
        let says = |key: &str| settings().find(|setting| setting.key == key).unwrap().local_file;
        for key in ["server", "public_url", "request_rate", "grpc_streams_max", "retention", "audit_retention"] {
            assert_eq!(says(key), LocalFile::CannotSet, "{key}");
        }
        for setting in settings() {
            let is_of_trust =
                matches!(setting.section, Section::Logins | Section::Permissions | Section::Agents | Section::Messages);
            assert!(!is_of_trust || setting.local_file == LocalFile::CannotSet, "{}", setting.key);
        }
        assert_eq!((says("slots"), says("data_dir")), (LocalFile::CanSet, LocalFile::CanSetInside));
    }

    #[test]
    fn every_setting_has_a_name_of_its_own_and_a_section() {
        let mut keys: Vec<_> = settings().map(|setting| setting.key).collect();
        let sections: Vec<_> = Section::ALL.into_iter().flat_map(of_section).map(|setting| setting.key).collect();
        assert_eq!(sections.len(), keys.len());
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(sections.len(), keys.len(), "two settings share a name");
    }
}
