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

/// Adds a tip to the error about a command that there is not. The parser has its own, which misses swapped letters.
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
    if error.get(ContextKind::SuggestedSubcommand).is_some() {
        return None;
    }
    let root = Cli::command();
    let mut command = &root;
    for arg in args.take_while(|arg| arg != typed) {
        command = command.find_subcommand(arg).unwrap_or(command);
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
        assert_eq!(tip_for("punctual -q --server http://h taks list").as_deref(), None, "the parser has its own");
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
        const LINES: [&str; 27] = [
            "job show job_01m7et433kee4803yssgvaf2fh",
            "job remove job_01m7et433kee4803yssgvaf2fh",
            "job create ping",
            "task show ping",
            "task remove ping",
            "task rm ping",
            "task create ping --ping http://h/",
            "task add ping --ping http://h/",
            "schedule get nightly",
            "schedule remove nightly",
            "schedule rm nightly",
            "schedule add nightly --ping http://h/ --daily 09:00",
            "calendar get holidays",
            "calendar remove holidays",
            "calendar rm holidays",
            "calendar create holidays --date 2026-12-25",
            "calendar add holidays --date 2026-12-25",
            "notify get ops",
            "notify delete ops",
            "notify rm ops",
            "notify create ops --email ops@example.org",
            "artifact get artifact_01m7et433kee4803yssgvaf2fh",
            "artifact delete artifact_01m7et433kee4803yssgvaf2fh",
            "artifact remove artifact_01m7et433kee4803yssgvaf2fh",
            "artifact add ./tool",
            "artifact create ./tool",
            "task ls",
        ];
        for line in LINES {
            let parsed = Cli::try_parse_from(["punctual"].into_iter().chain(line.split_whitespace()));
            assert!(parsed.is_ok(), "{line}: {}", parsed.expect_err("it was refused"));
        }
    }
}
