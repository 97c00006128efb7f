//! `punctual schedule preview`: what is to come, of a schedule or of one that is only thought of.

use clap::Args;
use comfy_table::Cell;
use jiff::tz::TimeZone;
use punctual_api::{ClockChangeView, Preview, PreviewQuery, PreviewedTime, ScheduleRequest, UnfiredBy};
use punctual_client::Client;

use super::history::time_or_date;
use super::named;
use super::when::{WhenFlags, set_zone};
use crate::cmd::Context;
use crate::exit::{Exit, usage};
use crate::output::{Format, Output, Row};
use crate::table::{self, Yield};
use crate::view::one_line;
use crate::when::whole;
use crate::zone::{Zone, plain_local, show_in};

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    punctual schedule preview nightly --count 30\n  \
    punctual schedule preview --cron '30 2 * * SUN' --zone Europe/Berlin")]
pub(crate) struct PreviewArgs {
    /// The schedule's name; or say when with --cron, --every, --daily or --at
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// How many times, at most; 1 to 1000
    #[arg(short = 'n', long, value_name = "N", default_value_t = 10, value_parser = whole::<u16, 1, 1000>)]
    count: u16,
    /// From this time on, or from this day in the schedule's zone [default: now]
    #[arg(long, value_name = "TIME", value_parser = time_or_date)]
    from: Option<String>,
    #[command(flatten)]
    when: WhenFlags,
}

/// A time with its schedule's zone, for a table.
struct Line<'a> {
    time: &'a PreviewedTime,
}

impl serde::Serialize for Line<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.time.serialize(serializer)
    }
}

impl Row for Line<'_> {
    const HEADER: &'static [&'static str] = &["LOCAL", "UTC", "STARTS", "NOTE"];
    const YIELDS: &'static [Yield] = &[Yield::Fold("NOTE", 20), Yield::Drop("STARTS")];

    fn name(&self) -> String {
        self.time.at.to_string()
    }

    fn cells(&self, out: &Output) -> Vec<Cell> {
        let time = self.time;
        let (starts, unfired) = match time.unfired {
            Some(UnfiredBy::Calendar) => ("-".to_owned(), Some("does not run: a calendar closes the day")),
            Some(UnfiredBy::Gap) => ("-".to_owned(), Some("does not run: the clocks leave it out")),
            Some(UnfiredBy::Request) => ("-".to_owned(), Some("does not run: somebody asked to skip it")),
            None => (out.relative(time.start_at), None),
        };
        let note = time.note.as_deref().or(unfired).map(str::to_owned);
        let merged = (time.merged > 0).then(|| format!("stands for {} more", time.merged));
        let note = [note, merged].into_iter().flatten().collect::<Vec<_>>().join("; ");
        vec![
            Cell::new(plain_local(&time.local)),
            Cell::new(show_in("UTC", time.at)),
            Cell::new(starts),
            Cell::new(one_line(&note)),
        ]
    }
}

pub(super) async fn run(args: &PreviewArgs, client: &Client, context: &Context) -> anyhow::Result<Exit> {
    let query = PreviewQuery { count: Some(args.count.to_string()), from: args.from.clone() };
    let preview = match (&args.name, args.when.has_rules()) {
        (Some(name), false) => client.preview_schedule(name, &query).await,
        (None, true) => {
            let mut request = ScheduleRequest::default();
            args.when.apply(&mut request);
            set_zone(&mut request);
            client.preview(&request, &query).await
        }
        (Some(_), true) => {
            return Err(usage("both a name and flags say when", "leave out one of the two"));
        }
        (None, false) => {
            return Err(usage("nothing says when", "name a schedule, or use --cron, --every, --daily or --at"));
        }
    };
    show(&preview.map_err(named)?, &context.out)?;
    Ok(Exit::Ok)
}

fn show(preview: &Preview, out: &Output) -> anyhow::Result<()> {
    let rows: Vec<Line<'_>> = preview.occurrences.iter().map(|time| Line { time }).collect();
    match out.format {
        Format::Json | Format::Jsonl | Format::Name => return out.rows(&rows, preview),
        Format::Table => {}
    }
    out.line(&out.zone.localize(&preview.explanation))?;
    if let Some(reason) = &preview.reason {
        out.line(&format!("It does not run as things are: {}", one_line(&out.zone.localize(reason))))?;
    }
    if rows.is_empty() {
        out.line("It does not run again.")?;
    } else {
        out.line(&table::draw(&rows, out))?;
    }
    out.write(&clock_changes(preview))
}

/// In words, with what they do to planned times.
fn clock_changes(preview: &Preview) -> String {
    let zone = &preview.zone;
    let local = Zone(TimeZone::get(zone).unwrap_or(TimeZone::UTC));
    if preview.clock_changes.is_empty() {
        return format!("\nNo clock change of the coming 12 months touches it ({zone}).\n");
    }
    let mut text = format!("\nClock changes of the coming 12 months that touch it ({zone}):\n");
    for ClockChangeView { at: _, explanation, effects, more_effects } in &preview.clock_changes {
        text += &format!("  {}\n", one_line(&local.localize(explanation)));
        for effect in effects {
            text += &format!("    {}\n", one_line(&local.localize(effect)));
        }
        if *more_effects > 0 {
            text += &format!("    and {more_effects} more\n");
        }
    }
    text
}
