//! What is said once, at the end, about lines that need the machine of the crontab: the command that imports them.

use std::fmt::Write as _;

use crate::view::quoted;

/// Who runs what `--shell` makes. A server has no such setting. Short lines, so that no terminal breaks the commands.
pub(super) const COMMANDS_NEED: &str = "Commands run only on workers that allow them:
  punctual dev --allow-commands     a server and a worker
  punctual worker --allow-commands  beside a server";

/// Where the crontab came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    File,
    /// Stdin or another stream, such as `<(crontab -l)`, which is gone when this run ends.
    Stdin,
}

impl Source {
    pub(super) fn of(file: Option<&str>) -> Self {
        match file {
            None | Some("-") => Self::Stdin,
            Some(path) if is_stream(path) => Self::Stdin,
            Some(_) => Self::File,
        }
    }
}

/// What is open in one process only, whatever it is.
fn is_stream(path: &str) -> bool {
    let of_process = |path: &str| path.split_once('/').is_some_and(|(_, rest)| rest.starts_with("fd/"));
    path == "/dev/stdin" || path.starts_with("/dev/fd/") || path.strip_prefix("/proc/").is_some_and(of_process)
}

/// `typed` are the arguments of this run, without the program.
pub(super) fn of_shell(lines: usize, source: Source, typed: &[String]) -> String {
    let (need, them) = if lines == 1 { ("line needs", "it") } else { ("lines need", "them") };
    let fed = match source {
        Source::File => "",
        Source::Stdin => ", pipe the same crontab into",
    };
    format!(
        "{lines} {need} this machine. To run {them} by a shell{fed}:\n  {}\n{COMMANDS_NEED}\n\
         To hand {them} to a task of yours instead: --task NAME",
        with_shell(typed)
    )
}

/// The command that was typed with `--shell` added, quoted for a shell.
fn with_shell(typed: &[String]) -> String {
    // Behind `--` it would be the name of a file.
    let end_of_flags = typed.iter().position(|word| word == "--").unwrap_or(typed.len());
    let (flags, rest) = typed.split_at(end_of_flags);
    let mut command = "punctual".to_owned();
    for word in flags.iter().map(String::as_str).chain(["--shell"]).chain(rest.iter().map(String::as_str)) {
        let word = if is_stream(word) { "-" } else { word };
        write!(command, " {}", quoted(word)).expect("a String takes it");
    }
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(typed: &[&str], command: &str) {
        let typed: Vec<String> = typed.iter().map(|&word| word.to_owned()).collect();
        assert_eq!(with_shell(&typed), command);
    }

    #[test]
    fn the_command_is_the_one_that_was_typed_and_a_flag() {
        check(&["import", "crontab", "/etc/crontab"], "punctual import crontab /etc/crontab --shell");
        check(
            &["--server", "http://127.0.0.1:1", "import", "crontab", "--dry-run", "my tab", "--prefix", ""],
            "punctual --server http://127.0.0.1:1 import crontab --dry-run 'my tab' --prefix '' --shell",
        );
        check(&["import", "crontab", "it's $HOME"], r"punctual import crontab 'it'\''s $HOME' --shell");
        check(&["import", "crontab", "--", "-odd"], "punctual import crontab --shell -- -odd");
    }

    #[test]
    fn a_stream_is_offered_as_stdin() {
        for path in ["/dev/stdin", "/dev/fd/63", "/proc/self/fd/11", "/proc/4711/fd/0"] {
            assert_eq!(Source::of(Some(path)), Source::Stdin, "{path}");
            check(&["import", "crontab", path, "--dry-run"], "punctual import crontab - --dry-run --shell");
            check(&["import", "crontab", "--", path], "punctual import crontab --shell -- -");
        }
        for path in ["/etc/crontab", "/dev/fd", "dev/fd/63", "/proc/fd/1", "/procs/1/fd/2"] {
            assert_eq!(Source::of(Some(path)), Source::File, "{path}");
            check(&["import", "crontab", path], &format!("punctual import crontab {path} --shell"));
        }
        assert_eq!([Source::of(None), Source::of(Some("-"))], [Source::Stdin; 2]);
    }

    #[test]
    fn one_line_and_several_are_told_apart() {
        let typed = ["import", "crontab", "tab"].map(str::to_owned);
        let texts = [of_shell(1, Source::File, &typed), of_shell(12, Source::Stdin, &typed[..2])];
        insta::assert_snapshot!(texts.join("\n\n"));
    }
}
