//! What earlier imports of a crontab made and this one did not. It is named, and never removed.

use std::collections::BTreeSet;

use punctual_api::ScheduleQuery;
use punctual_api::limits::PAGE_LEN_MAX;
use punctual_client::{Client, ClientError};

use super::line::Line;
use super::mail::{self, MailRule};
use super::reading::{Extent, Reading};
use crate::output::{Output, counted, note};

/// Names that are told.
const TOLD_MAX: usize = 10;

/// `stored` are the rules that this import made or changed.
pub(super) async fn tell(
    prefix: &str,
    reading: &Reading,
    stored: &[MailRule],
    client: &Client,
    out: &Output,
) -> Result<(), ClientError> {
    match reading.extent {
        Extent::Whole => {
            say("schedule", &schedules(prefix, &reading.lines, client).await?, "punctual schedule delete NAME");
            say("rule", &mail::left_over(prefix, stored, reading, client).await?, "punctual notify remove NAME");
        }
        // What looks left over may be of a line that could not be read.
        Extent::Part => out.hint(
            "Not all of the crontab could be read, so its rules keep the schedules they had, and what is left over \
             from earlier imports is not told.",
        ),
    }
    Ok(())
}

/// A command that was edited has another name than before, and so has a list of addresses.
fn say(what: &str, names: &[String], removed_by: &str) {
    if names.is_empty() {
        return;
    }
    note(&format!(
        "{} of the same prefix {} not in this crontab: {}. What was imported from an earlier version of it goes on \
         until you remove it: {removed_by}",
        counted(names.len(), what),
        if names.len() == 1 { "is" } else { "are" },
        names.iter().take(TOLD_MAX).cloned().collect::<Vec<_>>().join(", ")
    ));
}

/// Schedules of the prefix that no line of this crontab has the name of.
async fn schedules(prefix: &str, lines: &[Line], client: &Client) -> Result<Vec<String>, ClientError> {
    /// As many as one import makes, and some; each has up to 1000.
    const PAGES_MAX: usize = 10;
    let made: BTreeSet<&str> = lines.iter().map(|line| line.name.as_str()).collect();
    let mut query = ScheduleQuery {
        prefix: Some(prefix.to_owned()),
        limit: Some(PAGE_LEN_MAX.to_string()),
        ..ScheduleQuery::default()
    };
    let mut found = Vec::new();
    for _ in 0..PAGES_MAX {
        let page = client.schedules(&query).await?;
        let names = page.schedules.into_iter().map(|schedule| schedule.name);
        found.extend(names.filter(|name| name.starts_with(prefix) && !made.contains(name.as_str())));
        query.cursor = page.next_cursor;
        if query.cursor.is_none() {
            break;
        }
    }
    Ok(found)
}
