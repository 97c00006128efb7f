//! `punctual simulate`: what all schedules would do.

use clap::Args;
use punctual_api::{Busy, Forecast, ForecastQuery, HourOfForecast};
use punctual_core::{Span, Timestamp};

use super::Context;
use super::schedule::history::time_or_date;
use crate::exit::Exit;
use crate::field_flags::{FORECAST_WORDS, OF_FORECASTS, in_flags, in_words};
use crate::output::{Format, Output, counted};
use crate::view::one_line;

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    punctual simulate\n  \
    punctual simulate --from 2026-12-24 --to 2026-12-27 --assume 5m\n\n\
    Runs last as long as the last run of their task did. There are as many workers as they need; nothing is started.")]
pub(crate) struct SimulateArgs {
    /// From this time on, or from this day on in UTC [default: now]
    #[arg(long, value_name = "TIME", value_parser = time_or_date)]
    from: Option<String>,
    /// Until this time, at most 31 days later [default: a day later]
    #[arg(long, value_name = "TIME", value_parser = time_or_date)]
    to: Option<String>,
    /// How long a run takes whose task has never run
    #[arg(long, value_name = "DURATION", default_value = "10s")]
    assume: String,
    /// Only schedules whose names begin so
    #[arg(long, value_name = "NAME")]
    prefix: Option<String>,
}

pub(crate) async fn run(args: SimulateArgs, context: &Context) -> anyhow::Result<Exit> {
    let SimulateArgs { from, to, assume, prefix } = args;
    let query = ForecastQuery { from, to, assume: Some(assume), prefix };
    let forecast = context.client()?.forecast(&query).await;
    let forecast = forecast.map_err(|error| in_words(in_flags(error, OF_FORECASTS), FORECAST_WORDS))?;
    match context.out.format {
        Format::Table => context.out.write(&text(&forecast, &context.out))?,
        Format::Json | Format::Jsonl | Format::Name => context.out.json(&forecast)?,
    }
    Ok(Exit::Ok)
}

fn text(forecast: &Forecast, out: &Output) -> String {
    let Forecast { from, to, is_cut, schedules, starts, skipped, queued_at_end, not_run, .. } = forecast;
    let mut text = format!("{} from {} to {}", counted(*schedules, "schedule"), out.time(*from), out.time(*to));
    text += if *is_cut { ", where it has too many starts to go on\n" } else { "\n" };
    text += &format!("  starts      {starts}\n");
    if let Some(Busy { at, starts: running }) = &forecast.peak {
        text += &format!("  at once     {running} at most, at {}\n", out.time(*at));
    }
    for (label, count, why) in [
        ("skipped", skipped, "because a run before had not ended"),
        ("waiting", queued_at_end, "at the end, for a run before"),
        ("not run", not_run, "for another reason: a pause, a calendar, somebody who asked to skip them"),
    ] {
        if *count > 0 {
            text += &format!("  {label:<11} {count} {why}\n");
        }
    }
    if *starts > 0 {
        text += "\n";
        text += &heat_map(&forecast.hours, *to, out);
        let busiest: Vec<String> =
            forecast.busiest.iter().map(|busy| format!("{} ({})", out.time(busy.at), busy.starts)).collect();
        text += &format!("\nbusiest minutes: {}\n", busiest.join(", "));
    }
    if let Some(herd) = &forecast.herd {
        text += &format!("warning: {}\n", one_line(herd));
    }
    if !forecast.overlapping.is_empty() {
        text += "\nheld up by their own runs:\n";
        for schedule in &forecast.overlapping {
            text += &format!("  {}  {} of {} times\n", schedule.name, schedule.held_up, schedule.planned);
        }
    }
    text
}

const HOUR: Span = Span::from_secs(3600);

/// From nothing to the most.
const SHADES: [char; 6] = ['·', '░', '▒', '▓', '█', '█'];

/// A line for each hour, with two characters for each five minutes of it. The server tells of a day at most.
fn heat_map(hours: &[HourOfForecast], to: Timestamp, out: &Output) -> String {
    let most = hours.iter().flat_map(|hour| &hour.parts).copied().max().unwrap_or(0).max(1);
    let shade = |starts: usize| match starts {
        0 => SHADES[0],
        _ => SHADES[1 + starts * 4 / most.max(starts)],
    };
    let told_until = hours.last().map_or(to, |hour| hour.at + HOUR);
    let first = if told_until < to { format!(", of the first {}", hours.len()) } else { String::new() };
    let mut text = format!("starts in five minutes, up to {most}; each line an hour{first}\n");
    for hour in hours {
        let cells: String = hour.parts.iter().flat_map(|starts| [shade(*starts), shade(*starts)]).collect();
        let total: usize = hour.parts.iter().sum();
        text += &format!("  {}  {cells}  {total}\n", out.time(hour.at));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_heat_map_shows_each_five_minutes_of_each_hour() {
        let at = Timestamp::parse("2026-11-15T22:00:00Z").unwrap();
        let hour = |number: i64, parts: Vec<usize>| HourOfForecast { at: at + Span::from_secs(3600 * number), parts };
        let out = Output::plain(Some(100));
        let mut busy = vec![0; 12];
        (busy[0], busy[1], busy[11]) = (100, 50, 1);
        let hours = [hour(0, busy), hour(1, vec![0; 12])];
        insta::assert_snapshot!(heat_map(&hours, at + HOUR + HOUR, &out));
        let longer = heat_map(&hours, at + Span::from_secs(7201), &out);
        assert!(
            longer.starts_with("starts in five minutes, up to 100; each line an hour, of the first 2\n"),
            "{longer}"
        );
    }
}
