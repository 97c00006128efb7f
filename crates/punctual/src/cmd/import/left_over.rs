//! What earlier imports of a crontab made and this one did not. It is named, and never removed.

use std::collections::BTreeSet;

use punctual_client::{Client, ClientError};

use super::known::Known;
use super::line::Line;
use super::mail::{self, MailRule};
use super::reading::{Extent, Reading};
use crate::output::{Output, counted, note};

/// Names that are told.
const TOLD_MAX: usize = 10;

/// `known` are the schedules from before this import, `stored` the rules that it made or changed.
pub(super) async fn tell(
    prefix: &str,
    reading: &Reading,
    known: &Known,
    stored: &[MailRule],
    client: &Client,
    out: &Output,
) -> Result<(), ClientError> {
    match reading.extent {
        Extent::Whole => {
            tell_schedules(prefix, reading, known);
            let rules = mail::left_over(prefix, stored, reading, client).await?;
            say(prefix, "rule", &rules, ["It keeps mailing.", "They keep mailing."], "punctual notify delete NAME");
        }
        // What looks left over may be of a line that could not be read.
        Extent::Part => out.hint(
            "Not all of the crontab could be read, so its rules keep the schedules they had, and what is left over \
             from earlier imports is not listed.",
        ),
    }
    Ok(())
}

/// Schedules whose line is gone. Nothing is said if a part of the crontab could not be read.
pub(super) fn tell_schedules(prefix: &str, reading: &Reading, known: &Known) {
    if reading.extent == Extent::Whole {
        let names = schedules(&reading.lines, known);
        let go_on = ["It keeps running.", "They keep running."];
        say(prefix, "schedule", &names, go_on, "punctual schedule delete NAME");
    }
}

/// A command that was edited has another name than before, and so has a list of addresses.
fn say(prefix: &str, what: &str, names: &[String], go_on: [&str; 2], removed_by: &str) {
    if names.is_empty() {
        return;
    }
    let more = names.len().saturating_sub(TOLD_MAX);
    note(&format!(
        "{} with the prefix `{prefix}` {} not in this crontab: {}{}. {} Remove what is no longer needed: \
         {removed_by}",
        counted(names.len(), what),
        if names.len() == 1 { "is" } else { "are" },
        names.iter().take(TOLD_MAX).cloned().collect::<Vec<_>>().join(", "),
        if more == 0 { String::new() } else { format!(" and {more} more") },
        go_on[usize::from(names.len() > 1)],
    ));
}

/// Imported schedules of the prefix that no line of this crontab has the name of, each with its times.
fn schedules(lines: &[Line], known: &Known) -> Vec<String> {
    let made: BTreeSet<&str> = lines.iter().map(|line| line.name.as_str()).collect();
    let left = known.imported().into_iter().filter(|schedule| !made.contains(schedule.name.as_str()));
    left.map(|schedule| format!("{} ({})", schedule.name, schedule.explanation)).collect()
}
