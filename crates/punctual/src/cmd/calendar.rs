//! `punctual calendar …`.

use clap::{ArgGroup, Args, Subcommand};
use comfy_table::Cell;
use jiff::civil::Date;
use punctual_api::{CalendarRequest, CalendarSummary, CalendarView};
use punctual_client::{Client, ClientError};

use super::flags::{OF_CALENDARS, in_flags};
use super::{Context, read_file};
use crate::exit::{Exit, usage};
use crate::output::{Format, Output, Row, counted};
use crate::table::Yield;

#[derive(Debug, Subcommand)]
pub(crate) enum CalendarVerb {
    /// Define a calendar, or replace its dates
    ///
    /// Schedules that refer to it obey the new dates from then on.
    Put(PutArgs),
    /// List calendars by name
    List,
    /// Show the dates of a calendar
    Show {
        /// The calendar's name
        #[arg(value_name = "NAME")]
        name: String,
    },
    /// Remove calendars that no schedule refers to
    Delete {
        /// The calendars' names
        #[arg(required = true, value_name = "NAME")]
        names: Vec<String>,
    },
}

#[derive(Debug, Args)]
#[command(group(ArgGroup::new("dates").args(["date", "file"]).required(true)))]
#[command(after_help = "Examples:\n  \
    punctual calendar put closed --date 2026-12-25 --date 2026-12-26\n  \
    punctual calendar put holidays --file holidays.ics")]
pub(crate) struct PutArgs {
    /// The calendar's name
    #[arg(value_name = "NAME")]
    name: String,
    /// A date, such as 2026-12-25; may be repeated
    #[arg(long, value_name = "DATE", value_parser = date)]
    date: Vec<Date>,
    /// An iCalendar file, or a text of one date a line; - for stdin
    #[arg(long, value_name = "FILE")]
    file: Option<String>,
}

fn date(text: &str) -> Result<Date, String> {
    text.trim().parse().map_err(|_| format!("`{text}` is not a date, such as 2026-12-25"))
}

fn named(error: ClientError) -> anyhow::Error {
    in_flags(error, OF_CALENDARS).into()
}

pub(crate) async fn run(verb: CalendarVerb, context: &Context) -> anyhow::Result<Exit> {
    let client = context.client()?;
    let out = &context.out;
    match verb {
        CalendarVerb::Put(args) => put(&args, &client, out).await?,
        CalendarVerb::List => {
            let list = client.calendars().await.map_err(named)?;
            out.rows(&list.calendars, &list)?;
            if list.calendars.is_empty() {
                out.hint("No calendars. Define one: punctual calendar put closed --date 2026-12-25");
            }
        }
        CalendarVerb::Show { name } => {
            let calendar = client.calendar(&name).await.map_err(named)?;
            show(&calendar, out)?;
        }
        CalendarVerb::Delete { names } => {
            for name in &names {
                client.delete_calendar(name).await.map_err(named)?;
                out.hint(&format!("{name} is removed."));
            }
        }
    }
    Ok(Exit::Ok)
}

async fn put(args: &PutArgs, client: &Client, out: &Output) -> anyhow::Result<()> {
    let calendar = match &args.file {
        None => {
            let dates = args.date.iter().map(Date::to_string).collect();
            client.put_calendar(&args.name, &CalendarRequest { dates }).await
        }
        Some(file) => {
            let text = read_file(file)?;
            if text.trim_start_matches('\u{feff}').trim_start().starts_with("BEGIN:VCALENDAR") {
                client.put_icalendar(&args.name, text).await
            } else {
                let dates = dates(file, &text)?;
                client.put_calendar(&args.name, &CalendarRequest { dates }).await
            }
        }
    };
    let calendar = calendar.map_err(named)?;
    match out.format {
        Format::Json | Format::Jsonl => return out.json(&calendar),
        Format::Name => return out.line(&calendar.name),
        Format::Table => out.line(&calendar.name)?,
    }
    let dates = counted(calendar.dates.len(), "date");
    out.hint(&format!(
        "Revision {}, {dates}. Next: punctual schedule edit SCHEDULE --exclude {}",
        calendar.revision, calendar.name
    ));
    Ok(())
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

fn show(calendar: &CalendarView, out: &Output) -> anyhow::Result<()> {
    match out.format {
        Format::Json | Format::Jsonl => return out.json(calendar),
        Format::Name => return out.line(&calendar.name),
        Format::Table => {}
    }
    let CalendarView { name, dates, revision, changed } = calendar;
    let (at, who) = (out.zone.show(changed.at), &changed.who);
    out.line(&format!("{name}  revision {revision}, changed {at} by {who}"))?;
    dates.iter().try_for_each(|date| out.line(&format!("  {date}")))
}

impl Row for CalendarSummary {
    const HEADER: &'static [&'static str] = &["NAME", "DATES", "FIRST", "LAST", "REVISION", "CHANGED"];
    const YIELDS: &'static [Yield] =
        &[Yield::ShortTimes, Yield::Drop("REVISION"), Yield::Drop("CHANGED"), Yield::Cut("NAME", 20)];

    fn name(&self) -> String {
        self.name.clone()
    }

    fn cells(&self, out: &Output) -> Vec<Cell> {
        vec![
            Cell::new(&self.name),
            Cell::new(self.dates),
            Cell::new(self.first.as_deref().unwrap_or("-")),
            Cell::new(self.last.as_deref().unwrap_or("-")),
            Cell::new(self.revision),
            Cell::new(out.time(self.changed.at)),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
