//! `punctual calendar …`.

use clap::{ArgGroup, Args, Subcommand};
use jiff::civil::Date;
use punctual_api::{CalendarFile, CalendarQuery, CalendarRequest, EventsLeftOut};
use punctual_client::{Client, ClientError, IfMatch};

use super::Context;
use crate::exit::{Exit, usage};
use crate::field_flags::{CALENDAR_WORDS, OF_CALENDARS, in_flags, in_words};
use crate::input::read_bytes;
use crate::output::{Format, Output, counted, note};
use crate::view;
use crate::when::{whole, zone_name};

#[derive(Debug, Subcommand)]
pub(crate) enum CalendarVerb {
    /// Create a calendar, or replace its dates
    ///
    /// Schedules that refer to it obey the new dates from then on.
    #[command(aliases = ["create", "add", "put"])]
    Apply(ApplyArgs),
    /// List calendars by name
    #[command(aliases = ["ls"])]
    List,
    /// Show the dates of a calendar
    #[command(aliases = ["show"])]
    Get {
        /// The calendar's name
        #[arg(value_name = "NAME")]
        name: String,
    },
    /// Delete calendars that no schedule refers to
    #[command(aliases = ["remove", "rm"])]
    Delete {
        /// The calendars' names
        #[arg(required = true, value_name = "NAME")]
        names: Vec<String>,
    },
}

#[derive(Debug, Args)]
#[command(group(ArgGroup::new("dates").args(["date", "file"]).required(true)))]
#[command(after_help = "Examples:\n  \
    punctual calendar apply closed --date 2026-12-25 --date 2026-12-26\n  \
    punctual calendar apply holidays --file holidays.ics --zone Europe/Berlin")]
pub(crate) struct ApplyArgs {
    /// The calendar's name
    #[arg(value_name = "NAME")]
    name: String,
    /// A date, such as 2026-12-25; may be repeated
    #[arg(long, value_name = "DATE", value_parser = date)]
    date: Vec<Date>,
    /// An iCalendar file, or a text of one date a line; - for stdin
    #[arg(long, value_name = "FILE")]
    file: Option<String>,
    /// The zone in which events with times close days; for iCalendar files [default: the file's, or UTC]
    #[arg(long, value_name = "ZONE", value_parser = zone_name, requires = "file")]
    zone: Option<String>,
    /// Leave out events of an iCalendar file that are not supported, instead of refusing the file
    #[arg(long, requires = "file")]
    skip_unsupported: bool,
    /// Only if the calendar still has this revision; 0: only if it does not exist
    #[arg(long, value_name = "N", value_parser = whole::<u32, 0, 4_294_967_295>)]
    if_revision: Option<u32>,
}

fn date(text: &str) -> Result<Date, String> {
    text.trim().parse().map_err(|_| format!("`{text}` is not a date, such as 2026-12-25"))
}

fn named(error: ClientError) -> anyhow::Error {
    in_words(in_flags(error, OF_CALENDARS), CALENDAR_WORDS).into()
}

pub(crate) async fn run(verb: CalendarVerb, context: &Context) -> anyhow::Result<Exit> {
    let client = context.client()?;
    let out = &context.out;
    match verb {
        CalendarVerb::Apply(args) => apply(&args, &client, out).await?,
        CalendarVerb::List => {
            let list = client.calendars().await.map_err(named)?;
            out.rows(&list.calendars, &list)?;
            if list.calendars.is_empty() {
                out.hint("No calendars. Create one: punctual calendar apply closed --date 2026-12-25");
            }
        }
        CalendarVerb::Get { name } => {
            let calendar = client.calendar(&name).await.map_err(named)?;
            view::calendar(&calendar, out)?;
        }
        CalendarVerb::Delete { names } => {
            for name in &names {
                client.delete_calendar(name).await.map_err(named)?;
                out.hint(&format!("{name} is deleted."));
            }
        }
    }
    Ok(Exit::Ok)
}

async fn apply(args: &ApplyArgs, client: &Client, out: &Output) -> anyhow::Result<()> {
    let when = IfMatch::of_revision(args.if_revision);
    let calendar = match &args.file {
        None => {
            let dates = args.date.iter().map(Date::to_string).collect();
            client.put_calendar(&args.name, &CalendarRequest { dates }, when).await
        }
        Some(file) => {
            let bytes = read_bytes(file)?;
            if is_icalendar(&bytes) {
                client.put_icalendar(&args.name, bytes, &args.query(), when).await
            } else {
                if args.query() != CalendarQuery::default() {
                    return Err(usage(
                        format!("{file} is not an iCalendar file; --zone and --skip-unsupported are for those"),
                        "leave them out, or name a file that begins with BEGIN:VCALENDAR",
                    ));
                }
                let text = String::from_utf8(bytes);
                let text = text.map_err(|_| usage(format!("{file} is not valid UTF-8"), "save it as UTF-8"))?;
                let dates = dates(file, &text)?;
                client.put_calendar(&args.name, &CalendarRequest { dates }, when).await
            }
        }
    };
    let calendar = calendar.map_err(named)?;
    match out.format {
        Format::Json | Format::Jsonl => return out.json(&calendar),
        Format::Name => return out.line(&calendar.name),
        Format::Table => out.line(&calendar.name)?,
    }
    if let Some(file) = &calendar.file {
        file_notes(file).iter().for_each(|text| note(text));
    }
    let dates = counted(calendar.dates.len(), "date");
    out.hint(&format!(
        "Revision {}, {dates}. Next: punctual schedule edit SCHEDULE --exclude {}",
        calendar.revision, calendar.name
    ));
    Ok(())
}

impl ApplyArgs {
    fn query(&self) -> CalendarQuery {
        CalendarQuery { zone: self.zone.clone(), skip_unsupported: self.skip_unsupported.then(|| true.to_string()) }
    }
}

fn is_icalendar(file: &[u8]) -> bool {
    const BEGIN: &[u8] = b"BEGIN:VCALENDAR";
    let text = file.strip_prefix(b"\xef\xbb\xbf").unwrap_or(file).trim_ascii_start();
    text.get(..BEGIN.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(BEGIN))
}

/// What people should know about how their file was read.
fn file_notes(file: &CalendarFile) -> Vec<String> {
    let flag = |text: &String| format!("warning: {}", text.replace("`zone`", "--zone"));
    let mut notes: Vec<String> = file.warnings.iter().map(flag).collect();
    for (left_out, verb) in [(&file.ignored, "closes no day"), (&file.skipped, "was left out")] {
        if let Some(EventsLeftOut { count, first }) = left_out {
            notes.push(match count {
                1 => format!("warning: 1 event {verb}: {first}"),
                count => {
                    let verb = verb.replace("closes", "close").replace("was", "were");
                    format!("warning: {count} events {verb}. The first: {first}")
                }
            });
        }
    }
    notes
}

/// One date a line; `#` begins a comment.
fn dates(file: &str, text: &str) -> anyhow::Result<Vec<String>> {
    let mut dates = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let written = line.split('#').next().unwrap_or_default().trim();
        if written.is_empty() {
            continue;
        }
        let read = date(written).map_err(|problem| {
            usage(format!("{file}, line {number}: {problem}"), "write one date a line, or name an iCalendar file")
        })?;
        dates.push(read.to_string());
    }
    if dates.is_empty() {
        return Err(usage(format!("{file} has no dates"), "write one date a line, or name an iCalendar file"));
    }
    Ok(dates)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_file_left_out_is_told() {
        let left_out = |count| Some(EventsLeftOut { count, first: "line 4: because".to_owned() });
        let file = CalendarFile {
            zone: Some("UTC".to_owned()),
            ignored: left_out(2),
            skipped: left_out(1),
            warnings: vec!["name another zone with `zone`".to_owned()],
        };
        assert_eq!(
            file_notes(&file),
            [
                "warning: name another zone with --zone",
                "warning: 2 events close no day. The first: line 4: because",
                "warning: 1 event was left out: line 4: because",
            ]
        );
        assert!(file_notes(&CalendarFile::default()).is_empty());
    }

    #[test]
    fn a_text_has_one_date_a_line() {
        let read = dates("f", "# 2026\n2026-12-25  # Christmas\n\n 2026-12-26\r\n").expect("two dates");
        assert_eq!(read, ["2026-12-25", "2026-12-26"]);
        for (text, said) in [
            ("2026-12-25\n25.12.2026", "f, line 2: `25.12.2026` is not a date"),
            ("2026-02-30", "f, line 1: `2026-02-30` is not a date"),
            ("# nothing", "f has no dates"),
        ] {
            let refused = dates("f", text).expect_err(text).to_string();
            assert!(refused.contains(said), "{refused}");
        }
    }
}
