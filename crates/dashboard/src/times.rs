//! Times and durations. Each time is shown in the viewer's zone, and says in its title how far that is from UTC.

use jiff::tz::TimeZone;
use maud::{Markup, html};
use punctual_core::{Span, Timestamp};

use crate::Viewer;
use crate::text::clean;

pub(crate) fn zoned(at: Timestamp, zone: &TimeZone) -> Option<jiff::Zoned> {
    Some(jiff::Timestamp::from_microsecond(at.as_micros()).ok()?.to_zoned(zone.clone()))
}

/// To the second; of today, the time of day alone.
pub(crate) fn time(viewer: &Viewer, at: Timestamp) -> Markup {
    let is_today =
        zoned(at, &viewer.zone).zip(zoned(viewer.now, &viewer.zone)).is_some_and(|(at, now)| at.date() == now.date());
    written(viewer, at, if is_today { "%H:%M:%S" } else { "%Y-%m-%d %H:%M:%S" })
}

/// To the millisecond, where durations matter.
pub(crate) fn exact_time(viewer: &Viewer, at: Timestamp) -> Markup {
    written(viewer, at, "%Y-%m-%d %H:%M:%S%.3f")
}

/// The time of day, in a log.
pub(crate) fn time_of_day(viewer: &Viewer, at: Timestamp) -> Markup {
    written(viewer, at, "%H:%M:%S%.3f")
}

/// A time, and how long ago or how soon that is.
pub(crate) fn time_and_ago(viewer: &Viewer, at: Timestamp) -> Markup {
    html! { (time(viewer, at)) " " (ago(viewer, at)) }
}

/// How long ago or how soon. `live.js` keeps it true.
pub(crate) fn ago(viewer: &Viewer, at: Timestamp) -> Markup {
    let seconds = viewer.now.as_micros().saturating_sub(at.as_micros()) / 1_000_000;
    let text = length(seconds.unsigned_abs());
    html! { span.ago data-at=(at.to_string()) { @if seconds < 0 { "in " (text) } @else { (text) " ago" } } }
}

fn length(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min", seconds / 60),
        3600..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} d", seconds / 86_400),
    }
}

fn written(viewer: &Viewer, at: Timestamp, format: &str) -> Markup {
    let Some(zoned) = zoned(at, &viewer.zone) else { return html! { (at.to_string()) } };
    html! {
        time datetime=(at.to_string()) title=(zoned.strftime("%Y-%m-%d %H:%M:%S%.f %Z (UTC%:z)").to_string()) {
            (zoned.strftime(format).to_string())
        }
    }
}

/// A text for people in which each time of RFC 3339 is shown in the viewer's zone.
pub(crate) fn with_times(viewer: &Viewer, text: &str) -> Markup {
    let mut rest = text;
    let mut parts = Vec::new();
    while let Some((before, at, after)) = next_time(rest) {
        parts.push((before, Some(at)));
        rest = after;
    }
    html! {
        bdi {
            @for (before, at) in &parts { (clean(before)) @if let Some(at) = at { (time(viewer, *at)) } }
            (clean(rest))
        }
    }
}

/// What stands before the first time in a text, the time, and what follows.
fn next_time(text: &str) -> Option<(&str, Timestamp, &str)> {
    let is_part = |character: char| character.is_ascii_digit() || "-:.TZ+".contains(character);
    for (start, _) in text.match_indices("20") {
        let word = &text[start..];
        let word = &word[..word.find(|character| !is_part(character)).unwrap_or(word.len())];
        // A full stop after it ends the sentence.
        let word = word.trim_end_matches(['.', ':']);
        let follows_word = text[..start].ends_with(|character: char| character.is_alphanumeric());
        if word.len() < 20 || follows_word || !word.contains('T') {
            continue;
        }
        if let Ok(at) = Timestamp::parse(word) {
            return Some((&text[..start], at, &text[start + word.len()..]));
        }
    }
    None
}

pub(crate) fn maybe_time(viewer: &Viewer, at: Option<Timestamp>) -> Markup {
    match at {
        Some(at) => time_and_ago(viewer, at),
        None => html! { span.none { "–" } },
    }
}

/// The hour and minute in a drawing.
pub(crate) fn tick(viewer: &Viewer, at: Timestamp, format: &str) -> String {
    zoned(at, &viewer.zone).map_or_else(|| at.to_string(), |zoned| zoned.strftime(format).to_string())
}

/// Such as `Europe/Berlin`.
pub(crate) fn zone_name(zone: &TimeZone) -> String {
    zone.iana_name().unwrap_or("UTC").to_owned()
}

/// Such as `+01:00`.
pub(crate) fn offset(viewer: &Viewer) -> String {
    tick(viewer, viewer.now, "%:z")
}

/// A duration for people: `350 ms`, `12.4 s`, `3 min 20 s`.
pub(crate) fn duration(span: Span) -> String {
    let micros = span.as_micros();
    let millis = micros.unsigned_abs() / 1000;
    let seconds = millis / 1000;
    match millis {
        0 => "<1 ms".to_owned(),
        1..1000 => format!("{millis} ms"),
        1000..60_000 => format!("{}.{} s", seconds, millis % 1000 / 100),
        60_000..3_600_000 => format!("{} min {} s", seconds / 60, seconds % 60),
        3_600_000..86_400_000 => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
        _ => format!("{} d {} h", seconds / 86_400, seconds % 86_400 / 3600),
    }
}

pub(crate) fn span(span: Option<Span>) -> Markup {
    match span {
        Some(span) => html! { (duration(span)) },
        None => html! { span.none { "–" } },
    }
}

/// The head of a table with times: its name, and the zone once.
pub(crate) fn caption(viewer: &Viewer, name: &str) -> Markup {
    html! { caption { (name) span.zone { "times in " (zone_name(&viewer.zone)) } } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_in_a_text_is_found_and_other_words_are_not() {
        let found = |text: &'static str| next_time(text).map(|(before, at, after)| (before, at.to_string(), after));
        assert_eq!(
            found("It starts at 2026-11-19T20:49:54.119351Z, in 5 s."),
            Some(("It starts at ", "2026-11-19T20:49:54.119351Z".to_owned(), ", in 5 s."))
        );
        assert_eq!(found("at 2026-11-19T20:49:54Z.").map(|(.., after)| after), Some("."));
        for text in ["", "in 20 s", "x2026-11-19T20:49:54Z", "2026-11-19", "2026-99-19T20:49:54Z é"] {
            assert_eq!(found(text), None, "{text}");
        }
    }

    #[test]
    fn a_duration_has_the_units_that_matter() {
        let micros = [0, 350_000, 12_430_000, 200_000_000, 7_260_000_000, 180_000_000_000];
        let shown = micros.map(|micros| duration(Span::from_micros(micros)));
        assert_eq!(shown, ["<1 ms", "350 ms", "12.4 s", "3 min 20 s", "2 h 1 min", "2 d 2 h"]);
    }
}
