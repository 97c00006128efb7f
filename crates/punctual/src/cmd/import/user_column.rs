//! Finds the user column of a crontab that is imported without `--system`. Read as a part of the command, it would
//! make a schedule that never works.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use punctual_core::schedule::recurrence::crontab::{CrontabEntry, Variables};

use super::line::find;
use super::shell_words::is_assignment;

/// Who may run something on this machine.
#[derive(Debug, Default)]
pub(super) struct Users(BTreeSet<String>);

impl Users {
    pub(super) fn of_machine() -> Self {
        Self::read(&std::fs::read_to_string("/etc/passwd").unwrap_or_default())
    }

    /// From lines like those of `/etc/passwd`.
    pub(super) fn read(passwd: &str) -> Self {
        let names = passwd.lines().filter_map(|line| line.split(':').next()).filter(|name| !name.is_empty());
        Self(names.map(str::to_owned).chain(["root".to_owned()]).collect())
    }
}

/// What is wrong with a line whose command seems to begin with a user.
pub(super) fn problem(entry: &CrontabEntry, users: &Users) -> Option<String> {
    let mut words = entry.command.split_whitespace();
    let first = words.next()?;
    let second = words.next().map(|word| word.trim_start_matches(['"', '\'']));
    let is_user = match second {
        // A name alone is the whole command, and no program has it.
        None => users.0.contains(first),
        Some(second) if users.0.contains(first) => looks_like_a_command(second, &entry.env),
        // The crontab may come from a machine with other users.
        Some(second) => looks_like_a_user(first) && looks_like_a_program(second),
    };
    if !is_user || find(first, &entry.env).is_ok() {
        return None;
    }
    Some(format!(
        "`{first}` looks like the user column of a system crontab; import the file with --system, or write the full \
         path of `{first}` if it is the command"
    ))
}

/// What a shell knows by itself, at the beginning of a command.
const OF_SHELL: [&str; 21] = [
    "cd", "test", "[", "[[", "if", "for", "while", "case", "until", ".", "source", "export", "set", "umask", "ulimit",
    "exec", "eval", "command", "true", ":", "{",
];

fn looks_like_a_command(word: &str, env: &Variables) -> bool {
    if OF_SHELL.contains(&word) || word.starts_with('(') || is_assignment(word) {
        return true;
    }
    if !word.contains('/') {
        return find(word, env).is_ok();
    }
    // A folder, or a file that is no program, is what a command works on. What is not here may be a program of the
    // machine that the crontab comes from.
    word.starts_with(['/', '.', '~', '$']) && is_runnable(word).unwrap_or(true)
}

/// `None` if there is no such file here.
fn is_runnable(path: &str) -> Option<bool> {
    let meta = std::fs::metadata(Path::new(path)).ok()?;
    Some(meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

/// Whether `useradd` would take this name, and no shell has a meaning for it.
fn looks_like_a_user(word: &str) -> bool {
    let is_plain = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || "_-".contains(letter);
    word.starts_with(|letter: char| letter.is_ascii_lowercase() || letter == '_')
        && word.chars().all(is_plain)
        && !OF_SHELL.contains(&word)
}

/// Stricter than [`looks_like_a_command`]: the word before it is not known to be a user, and paths are arguments too.
fn looks_like_a_program(word: &str) -> bool {
    const FOLDERS: [&str; 3] = ["bin", "sbin", "libexec"];
    const ENDINGS: [&str; 5] = [".sh", ".py", ".pl", ".rb", ".php"];
    let path = word.trim_end_matches([';', '"', '\'']);
    let is_named_like_one = || {
        let folder = Path::new(path).parent().and_then(Path::file_name).and_then(|name| name.to_str());
        folder.is_some_and(|folder| FOLDERS.contains(&folder)) || ENDINGS.iter().any(|ending| path.ends_with(ending))
    };
    path.starts_with('/') && is_runnable(path).unwrap_or_else(is_named_like_one)
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_core::schedule::recurrence::crontab::{Crontab, CrontabFormat};

    #[test]
    fn a_user_before_a_command_is_found_and_a_command_of_that_name_is_none() {
        let users =
            Users::read("daemon:x:1:1::/:/bin/sh\nwww-data:x:33:33::/:/bin/sh\nmail:x:8:8::/:\nbackup:x:34:34::/:\n");
        for (command, is_user) in [
            ("root cd / && run-parts --report /etc/cron.hourly", true),
            ("root test -x /usr/sbin/anacron || ls", true),
            ("www-data /opt/site/refresh.sh", true),
            ("www-data ls /", true),
            ("www-data A=b run", true),
            ("daemon (cd /; ls)", true),
            // The path is in quotes.
            (r#"root "/opt/my prog" x"#, true),
            ("root '/opt/my prog'", true),
            // The whole command is a user's name.
            ("root", true),
            ("www-data", true),
            ("report", false),
            // A user of another machine.
            ("deploy /usr/local/bin/x", true),
            ("deploy /opt/site/refresh.sh --all", true),
            (r#"deploy "/usr/local/bin/x" y"#, true),
            ("deploy /bin/sh -c 'x'", true),
            ("deploy /srv/site", false),
            ("deploy /etc/passwd", false),
            ("deploy /srv/dump.sql", false),
            ("deploy --all /usr/local/bin/x", false),
            ("cd /usr/local/bin/x", false),
            ("$DEPLOY /usr/local/bin/x", false),
            ("./deploy /usr/local/bin/x", false),
            // What follows is no command.
            ("mail -s report root", false),
            ("backup /etc /etc/passwd", false),
            ("root -b -q macro.C", false),
            ("/opt/backup /srv/a", false),
        ] {
            let crontab = Crontab::parse(&format!("0 1 * * * {command}\n"), CrontabFormat::User);
            let found = problem(&crontab.entries[0], &users);
            assert_eq!(found.is_some(), is_user, "{command}: {found:?}");
            assert!(found.is_none_or(|message| message.contains("--system")), "{command}");
        }
        let users = Users::read("ls:x:1:1::/:\n");
        let crontab = Crontab::parse("0 1 * * * ls /bin/ls\n", CrontabFormat::User);
        assert_eq!(problem(&crontab.entries[0], &users), None, "it is a program as well");
    }
}
