//! Offers the name that was almost written: of a command, or of what there is on the server.

use clap::CommandFactory;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::cli::Cli;

/// The name that differs from the typed one by a slip of the fingers.
pub(crate) fn nearest<'a>(typed: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    // Half of a short word is another word.
    let slips_max = if typed.chars().count() <= 4 { 1 } else { 2 };
    let near = names.map(|name| (strsim::osa_distance(typed, name), name));
    near.filter(|(slips, _)| *slips <= slips_max).min().map(|(_, name)| name)
}

/// Adds a tip to the error about a command that there is not, or corrects the parser's own, which misses swapped letters and offers
/// former names of commands.
pub(crate) fn with_tip(mut error: clap::Error) -> clap::Error {
    let args = std::env::args_os().skip(1).map(|arg| arg.to_string_lossy().into_owned());
    if let Some(name) = tip(&error, args) {
        error.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(vec![name]));
    }
    error
}

fn tip(error: &clap::Error, args: impl Iterator<Item = String>) -> Option<String> {
    let (ErrorKind::InvalidSubcommand, Some(ContextValue::String(typed))) =
        (error.kind(), error.get(ContextKind::InvalidSubcommand))
    else {
        return None;
    };
    let root = Cli::command();
    let mut command = &root;
    for arg in args.take_while(|arg| arg != typed) {
        command = command.find_subcommand(arg).unwrap_or(command);
    }
    let suggested = match error.get(ContextKind::SuggestedSubcommand) {
        Some(ContextValue::Strings(names)) => names.first().and_then(|name| command.find_subcommand(name)),
        Some(ContextValue::String(name)) => command.find_subcommand(name),
        _ => None,
    };
    if let Some(command) = suggested {
        return Some(command.get_name().to_owned());
    }
    let names = command.get_subcommands().filter(|verb| !verb.is_hide_set()).map(clap::Command::get_name);
    nearest(typed, names).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    fn tip_for(line: &str) -> Option<String> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        let error = Cli::try_parse_from(&words).expect_err(line);
        tip(&error, words.into_iter().skip(1))
    }

    #[test]
    fn a_slip_of_the_fingers_gets_a_tip() {
        assert_eq!(tip_for("punctual rnu x").as_deref(), Some("run"));
        assert_eq!(tip_for("punctual -q --server http://h taks list").as_deref(), Some("task"));
        assert_eq!(tip_for("punctual schedule shw x").as_deref(), Some("get"), "not the former name");
        assert_eq!(tip_for("punctual schedule rnu").as_deref(), Some("run"));
        assert_eq!(tip_for("punctual zzz"), None);
    }

    #[test]
    fn the_nearest_name_is_offered_and_no_other_word() {
        let names = || ["ping", "nightly-report", "backup"].into_iter();
        assert_eq!(nearest("pin", names()), Some("ping"));
        assert_eq!(nearest("nigthly-reprot", names()), Some("nightly-report"));
        assert_eq!(nearest("pg", names()), None);
        assert_eq!(nearest("restore", names()), None);
    }

    #[test]
    fn every_noun_knows_the_usual_verbs() {
        const FORMER: [&str; 12] = [
            "job submit ping",
            "job run ping",
            "task put ping --ping http://h/",
            "task apply ping --ping http://h/",
            "backfill start nightly --from 2026-11-01",
            "calendar apply holidays --date 2026-12-25",
            "calendar put holidays --date 2026-12-25",
            "notify apply ops --email ops@example.org",
            "notify pause ops",
            "artifact push ./tool",
            "server status",
            "server show",
        ];
        const JOB: &str = "job_01m7et433kee4803yssgvaf2fh";
        const ARTIFACT: &str = "artifact_01m7et433kee4803yssgvaf2fh";
        const BACKFILL: &str = "backfill_01m7et433kee4803yssgvaf2fh";
        let nouns = ["job", "task", "schedule", "backfill", "calendar", "notify", "artifact"];
        let of_all = nouns.into_iter().flat_map(|noun| {
            let name = match noun {
                "job" => JOB,
                "artifact" => ARTIFACT,
                "backfill" => BACKFILL,
                _ => "some-name",
            };
            let mut lines = vec![format!("{noun} list"), format!("{noun} ls"), format!("{noun} get {name}")];
            lines.push(format!("{noun} show {name}"));
            if noun != "backfill" {
                lines.extend(["delete", "remove", "rm"].map(|verb| format!("{noun} {verb} {name}")));
            }
            let rest = match noun {
                "job" => "ping",
                "schedule" => "x --ping http://h/ --daily 09:00",
                "backfill" => "nightly --from 2026-11-01",
                "calendar" => "holidays --date 2026-12-25",
                "notify" => "ops --email ops@example.org",
                "artifact" => "./tool",
                _ => "ping --ping http://h/",
            };
            lines.extend(["create", "add"].map(|verb| format!("{noun} {verb} {rest}")));
            lines
        });
        let lines = of_all.chain(FORMER.map(str::to_owned));
        for line in lines {
            let parsed = Cli::try_parse_from(["punctual"].into_iter().chain(line.split_whitespace()));
            assert!(parsed.is_ok(), "{line}: {}", parsed.expect_err("it was refused"));
        }
    }
}
