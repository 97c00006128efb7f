//! Finds the user column of a crontab that is imported without `--system`. Read as a part of the command, it would
//! make a schedule that never works.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use punctual_core::schedule::recurrence::crontab::{CrontabEntry, Variables};

use super::line::find;
use super::words::is_assignment;

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
    let (first, second) = (words.next()?, words.next()?);
    let is_program = || find(first, &entry.env).is_ok();
    if !users.0.contains(first) || is_program() || !looks_like_a_command(second, &entry.env) {
        return None;
    }
    Some(format!(
        "`{first}` is a user and `{second}` looks like a command; if the lines of this crontab name a user, import it \
         with --system; if `{first}` is the command, write its full path"
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
    let path = Path::new(word);
    let is_runnable = |meta: std::fs::Metadata| meta.is_file() && meta.permissions().mode() & 0o111 != 0;
    word.starts_with(['/', '.', '~', '$']) && std::fs::metadata(path).map_or(true, is_runnable)
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
            // The sixth field is the whole command.
            ("root", false),
            ("www-data", false),
            // What follows is no command.
            ("mail -s report root", false),
            ("backup /etc /etc/passwd", false),
            ("root -b -q macro.C", false),
            // Nobody has this name.
            ("somebody /opt/site/refresh.sh", false),
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
