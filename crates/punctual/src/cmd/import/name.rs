//! Names for imported lines: the same command has the same name at every import, so that importing a crontab
//! again replaces what the first time made, with new times where these have changed.

use std::collections::BTreeMap;

use punctual_core::schedule::recurrence::crontab::CrontabEntry;
use sha2::{Digest, Sha256};

/// A name with its prefix and digest stays well below what names may have.
const WORD_CHARS_MAX: usize = 32;

#[derive(Debug, Default)]
pub(super) struct Names {
    /// Lines of the same command are counted.
    given: BTreeMap<String, usize>,
}

impl Names {
    pub(super) fn next(&mut self, prefix: &str, entry: &CrontabEntry) -> String {
        let name = format!("{prefix}{}-{}", word(&entry.command), digest(entry));
        let count = self.given.entry(name.clone()).or_default();
        *count += 1;
        match *count {
            1 => name,
            count => format!("{name}-{count}"),
        }
    }
}

/// What people call the command.
fn word(command: &str) -> String {
    let first = command.split_whitespace().next().unwrap_or_default();
    // What is behind it may be a secret.
    let first = first.split('=').next().unwrap_or_default();
    let program = first.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    let is_allowed = |letter: &char| letter.is_ascii_alphanumeric() || matches!(letter, '.' | '_' | '-');
    let word: String = program.chars().filter(is_allowed).take(WORD_CHARS_MAX).collect();
    if word.is_empty() { "line".to_owned() } else { word }
}

fn digest(entry: &CrontabEntry) -> String {
    let mut digest = Sha256::new();
    for part in [entry.user.as_deref(), Some(entry.command.as_str()), entry.stdin.as_deref()] {
        digest.update(part.unwrap_or_default());
        // No line has one, so no two lines run together.
        digest.update([0]);
    }
    digest.finalize().iter().take(4).map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_core::schedule::recurrence::crontab::{Crontab, CrontabFormat};

    fn names(text: &str) -> Vec<String> {
        let mut names = Names::default();
        let crontab = Crontab::parse(text, CrontabFormat::User);
        crontab.entries.iter().map(|entry| names.next("crontab-", entry)).collect()
    }

    #[test]
    fn a_name_follows_the_command_and_not_the_time() {
        let [once, other] = &names("0 1 * * * /usr/bin/backup --full\n0 1 * * * /usr/bin/backup\n")[..] else {
            panic!("two lines")
        };
        assert!(once.starts_with("crontab-backup-") && once.len() == "crontab-backup-".len() + 8, "{once}");
        assert_ne!(once, other);
        assert_eq!(names("# moved\n\n30 5 * * MON  /usr/bin/backup --full"), std::slice::from_ref(once));
    }

    #[test]
    fn the_same_command_at_two_times_has_two_names() {
        let given = names("0 1 * * * a\n0 2 * * * b\n0 3 * * * a\n");
        assert_eq!(given[2], format!("{}-2", given[0]));
    }

    #[test]
    fn a_name_holds_nothing_that_names_may_not_and_no_values() {
        for (command, start) in [
            ("TOKEN=secret curl x", "crontab-TOKEN-"),
            ("(cd / && x)", "crontab-cd-"),
            ("'é'", "crontab-line-"),
            ("/opt/tools/", "crontab-tools-"),
        ] {
            let name = &names(&format!("0 1 * * * {command}"))[0];
            assert!(name.starts_with(start) && !name.contains("secret"), "{command}: {name}");
        }
    }
}
