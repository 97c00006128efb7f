//! Names for imported lines: the same command has the same name at every import, so that importing a crontab
//! again replaces what the first time made.
//!
//! A command on several lines has as many names. A line whose time is unchanged keeps the schedule that it has;
//! what is left over on both sides is matched in order. Otherwise a line that is removed would hand its schedule to
//! the next line, whose own would go on beside it.

use std::collections::{BTreeMap, BTreeSet};

use punctual_core::hex;
use punctual_core::schedule::recurrence::crontab::CrontabEntry;
use sha2::{Digest, Sha256};

use super::known::{Known, Times};
use super::shell_words::is_assignment;

/// A name with its prefix and digest stays well below what names may have.
const WORD_CHARS_MAX: usize = 32;
const DIGEST_CHARS: usize = 8;

/// One for each entry, in their order. `zone` is that of entries without `CRON_TZ`.
pub(super) fn names(prefix: &str, entries: &[CrontabEntry], zone: &str, known: &Known) -> Vec<String> {
    let mut by_command: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (place, entry) in entries.iter().enumerate() {
        by_command.entry(digest(entry)).or_default().push(place);
    }
    let mut names = vec![String::new(); entries.len()];
    for (command, places) in by_command {
        let mut kept = known.of_command(&command);
        let mut numbers: BTreeSet<usize> = kept.iter().map(|schedule| schedule.number).collect();
        let times: Vec<Times> = places.iter().map(|place| Times::of_entry(&entries[*place], zone)).collect();
        let mut unnamed = Vec::new();
        for (place, times) in places.into_iter().zip(times) {
            match kept.iter().position(|schedule| schedule.times.as_ref() == Some(&times)) {
                Some(found) => names[place].clone_from(&kept.remove(found).name),
                None => unnamed.push(place),
            }
        }
        let mut kept = kept.into_iter();
        for place in unnamed {
            names[place] = match kept.next() {
                Some(schedule) => schedule.name.clone(),
                None => {
                    let number = (1..).find(|number| !numbers.contains(number)).expect("there are few lines");
                    numbers.insert(number);
                    numbered(format!("{prefix}{}-{command}", word(&entries[place].command)), number)
                }
            };
        }
    }
    names
}

/// Lines of the same command are counted.
fn numbered(name: String, number: usize) -> String {
    if number == 1 { name } else { format!("{name}-{number}") }
}

/// The command and the number that a name was made of.
pub(super) fn parts<'a>(prefix: &str, name: &'a str) -> Option<(&'a str, usize)> {
    let is_digest = |part: &str| part.len() == DIGEST_CHARS && part.bytes().all(|byte| byte.is_ascii_hexdigit());
    let (rest, last) = name.strip_prefix(prefix)?.rsplit_once('-')?;
    if is_digest(last) {
        return Some((last, 1));
    }
    let (_, command) = rest.rsplit_once('-')?;
    Some((command, last.parse().ok()?)).filter(|(command, _)| is_digest(command))
}

/// What people call the command: its program, behind whatever only prepares for it.
fn word(command: &str) -> String {
    let programs = programs(command);
    let named = programs.iter().find(|program| !PREPARES.contains(&base(program))).or(programs.first());
    let is_allowed = |letter: &char| letter.is_ascii_alphanumeric() || matches!(letter, '.' | '_' | '-');
    let word: String = named.map_or("", |word| base(word)).chars().filter(is_allowed).take(WORD_CHARS_MAX).collect();
    if word.is_empty() { "line".to_owned() } else { word }
}

/// Programs and words of the shell that are seldom what a line is about.
const PREPARES: [&str; 14] =
    ["cd", "test", "[", "[[", ".", "source", "export", "set", "umask", "ulimit", "sleep", "true", ":", "if"];
/// They run the program that is named behind them.
const RUNS_ANOTHER: [&str; 5] = ["exec", "nohup", "command", "env", "then"];

fn base(program: &str) -> &str {
    program.trim_matches(['"', '\'']).trim_end_matches('/').rsplit('/').next().unwrap_or_default()
}

/// The first word of each part of a line, as far as it can be told without a shell. Never a value that is assigned,
/// which may be a secret.
fn programs(command: &str) -> Vec<&str> {
    let mut programs = Vec::new();
    for part in parted(command, |letter| matches!(letter, ';' | '&' | '|')) {
        let part = part.trim_matches(|letter: char| letter.is_whitespace() || matches!(letter, '(' | ')' | '{' | '}'));
        let mut words = parted(part, char::is_whitespace).into_iter().filter(|word| !word.is_empty());
        programs.extend(words.find(|word| !is_assignment(word) && !RUNS_ANOTHER.contains(&base(word))));
    }
    programs
}

/// Cuts at letters outside quotes.
fn parted(text: &str, is_end: impl Fn(char) -> bool) -> Vec<&str> {
    let (mut parts, mut from, mut quote, mut is_escaped) = (Vec::new(), 0, None, false);
    for (at, letter) in text.char_indices() {
        match (quote, letter) {
            _ if is_escaped => is_escaped = false,
            (None | Some('"'), '\\') => is_escaped = true,
            (Some(open), letter) if letter == open => quote = None,
            (None, '"' | '\'') => quote = Some(letter),
            (None, letter) if is_end(letter) => {
                parts.push(&text[from..at]);
                from = at + letter.len_utf8();
            }
            _ => {}
        }
    }
    parts.push(&text[from..]);
    parts
}

/// Stands for a command with its input and its user.
pub(super) fn digest(entry: &CrontabEntry) -> String {
    let mut digest = Sha256::new();
    for part in [entry.user.as_deref(), Some(entry.command.as_str()), entry.stdin.as_deref()] {
        digest.update(part.unwrap_or_default());
        // No line has one, so no two lines run together.
        digest.update([0]);
    }
    hex::encode(&digest.finalize()[..DIGEST_CHARS / 2])
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_core::schedule::recurrence::crontab::{Crontab, CrontabFormat};

    fn names(text: &str) -> Vec<String> {
        names_after(text, &[])
    }

    /// The names of lines when there are schedules with these names and expressions.
    fn names_after(text: &str, known: &[(&str, &str)]) -> Vec<String> {
        let entries = Crontab::parse(text, CrontabFormat::User).entries;
        super::names("crontab-", &entries, "UTC", &Known::with("crontab-", known))
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
    fn a_line_whose_time_is_unchanged_keeps_its_schedule() {
        let [first, second] = &names("0 9 * * * x\n0 17 * * * x\n")[..] else { panic!("two lines") };
        let known = [(first.as_str(), "0 9 * * *"), (second.as_str(), "0 17 * * *")];
        for (crontab, expected) in [
            // One of two is removed.
            ("0 17 * * * x\n", &[second][..]),
            ("0 9 * * * x\n", &[first]),
            // Their order changed.
            ("0 17 * * * x\n0 9 * * * x\n", &[second, first]),
            // The time of one changed.
            ("0 10 * * * x\n0 17 * * * x\n", &[first, second]),
            ("0 9 * * * x\n0 18 * * * x\n", &[first, second]),
            // One was added before them.
            ("0 1 * * * x\n0 9 * * * x\n0 17 * * * x\n", &[&format!("{first}-3"), first, second]),
            // The same expression in another zone is another time.
            ("CRON_TZ=Asia/Tokyo\n0 17 * * * x\n", &[first]),
        ] {
            let expected: Vec<String> = expected.iter().map(|name| (*name).clone()).collect();
            assert_eq!(names_after(crontab, &known), expected, "{crontab}");
        }
    }

    #[test]
    fn a_schedule_that_has_another_word_in_its_name_is_kept() {
        let now = &names("0 9 * * * cd /srv && ./backup.sh\n")[0];
        let before = now.replace("backup.sh", "cd");
        assert_eq!(names_after("0 9 * * * cd /srv && ./backup.sh\n", &[(&before, "0 9 * * *")]), [before]);
    }

    #[test]
    fn a_name_tells_its_command_and_number() {
        for (name, expected) in [
            ("crontab-backup-0123abcd", Some(("0123abcd", 1))),
            ("crontab-a-b-0123abcd-12", Some(("0123abcd", 12))),
            ("crontab-mine", None),
            ("crontab-mine-2", None),
            ("web-backup-0123abcd", None),
        ] {
            assert_eq!(parts("crontab-", name), expected, "{name}");
        }
    }

    #[test]
    fn a_name_holds_nothing_that_names_may_not_and_no_values() {
        for (command, start) in [
            ("TOKEN=secret curl x", "crontab-curl-"),
            ("TOKEN=secret", "crontab-line-"),
            ("TOKEN=\"se cret\" curl x", "crontab-curl-"),
            ("export TOKEN=secret; ./run", "crontab-run-"),
            ("cd /srv/app && ./backup.sh", "crontab-backup.sh-"),
            ("[ \"a;secret\" ] && nohup /opt/x", "crontab-x-"),
            ("test -x /usr/sbin/anacron || ( cd / && run-parts --report /etc/cron.daily )", "crontab-run-parts-"),
            ("(cd / && x)", "crontab-x-"),
            ("cd /", "crontab-cd-"),
            ("'é'", "crontab-line-"),
            ("/opt/tools/", "crontab-tools-"),
            ("\"/opt/a b/run\" --now", "crontab-run-"),
        ] {
            let name = &names(&format!("0 1 * * * {command}"))[0];
            assert!(name.starts_with(start) && !name.contains("secret"), "{command}: {name}");
        }
    }
}
