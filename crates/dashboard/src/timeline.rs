//! Time as a picture: the past on the left, filled; what is planned on the right, hollow; and the now line between them.

use maud::{Markup, html};
use punctual_api::{Attempt, Forecast, Job, JobList};
use punctual_core::{Span, Timestamp};

use crate::Viewer;
use crate::state::Meaning;
use crate::text::{clean, count};
use crate::times::{duration, tick, zone_name};

/// How far the overview looks back and ahead.
pub const HORIZON: Span = Span::from_secs(2 * 3600);
const BUCKET_MICROS: i64 = 300_000_000;
const BUCKETS: usize = 24;
const WIDTH: i64 = 1080;
const BAR: i64 = WIDTH / (2 * BUCKETS as i64);
const HEIGHT: i64 = 100;
const TOP: i64 = 12;

/// What became of the jobs of five minutes, in the order of the stack.
type Bucket = [usize; 5];

const CLASSES: [&str; 5] = ["bar-ok", "bar-run", "bar-off", "bar-lost", "bar-fail"];

fn place_of(state: &str) -> usize {
    match Meaning::of(state) {
        Meaning::Ok => 0,
        Meaning::Running => 1,
        Meaning::Failed => 4,
        Meaning::Lost => 3,
        _ => 2,
    }
}

/// The hours behind and the hours ahead, in bars of five minutes.
pub(crate) fn day(viewer: &Viewer, recent: &JobList, forecast: Option<&Forecast>) -> Markup {
    let now = viewer.now.as_micros();
    let mut past: Vec<Bucket> = vec![[0; 5]; BUCKETS];
    for job in &recent.jobs {
        let back = (now - job.scheduled_at.as_micros()) / BUCKET_MICROS;
        if let Some(bucket) = usize::try_from(back).ok().and_then(|back| (BUCKETS - 1).checked_sub(back)) {
            past[bucket][place_of(&job.state)] += 1;
        }
    }
    let ahead = ahead(forecast, now);
    let most = past.iter().map(|bucket| bucket.iter().sum()).chain(ahead.iter().copied()).max().unwrap_or(0).max(1);
    let most = most as i64;
    let middle = WIDTH / 2;
    // Of more jobs than are listed, the earlier ones are not drawn.
    let drawn_from = recent.next_cursor.as_ref().and_then(|_| recent.jobs.last()).map(|job| job.scheduled_at);
    let about = format!(
        "Jobs by the time they were due, in bars of five minutes: {} of the last two hours, at most {most} in one bar",
        recent.jobs.len()
    );
    html! {
        section.panel #time data-part {
            div.row {
                h2 { "Two hours behind, two hours ahead" }
                span.legend.end {
                    (Meaning::Ok.named("succeeded")) (Meaning::Failed.named("failed")) (Meaning::Running.named("running")) (Meaning::Planned.named("planned"))
                }
            }
            div.scroll tabindex="0" role="group" aria-label="Time axis" {
                svg.chart.fit.axis-wide viewBox=(format!("0 0 {WIDTH} 146")) role="img" aria-label=(about) {
                    @for (index, bucket) in past.iter().enumerate() { (stack(index as i64 * BAR, bucket, most)) }
                    @for (index, starts) in ahead.iter().enumerate() {
                        @if *starts > 0 {
                            @let height = (*starts as i64 * HEIGHT / most).max(2);
                            rect.bar-plan x=(middle + index as i64 * BAR + 3) y=(TOP + HEIGHT - height) width=(BAR - 6) height=(height) rx="2" {
                                title { (count(*starts, "planned start", "planned starts")) }
                            }
                        }
                    }
                    line.axis x1="0" x2=(WIDTH) y1=(TOP + HEIGHT) y2=(TOP + HEIGHT) {}
                    @for half in [-4_i64, -3, -2, -1, 1, 2, 3, 4] {
                        @let at = Timestamp::saturating_from_micros(now + half * 6 * BUCKET_MICROS);
                        @let anchor = if half == -4 { "start" } else if half == 4 { "end" } else { "middle" };
                        text x=(middle + half * 6 * BAR) y=(TOP + HEIGHT + 16) text-anchor=(anchor) { (tick(viewer, at, "%H:%M")) }
                    }
                    line.now x1=(middle) x2=(middle) y1="0" y2=(TOP + HEIGHT + 4) {}
                    text.now x=(middle) y=(TOP + HEIGHT + 18) text-anchor="middle" { "now " (tick(viewer, viewer.now, "%H:%M")) }
                }
            }
            p.small.muted {
                "Times in " (zone_name(&viewer.zone)) ". "
                @if let Some(from) = drawn_from { "Only the latest " (recent.jobs.len()) " jobs are drawn, from " (tick(viewer, from, "%H:%M:%S")) " on. " }
                @if forecast.is_none() { "What schedules will start is not known now. " }
                @if let Some(herd) = forecast.and_then(|forecast| forecast.herd.as_deref()) { (clean(herd)) }
            }
        }
    }
}

fn ahead(forecast: Option<&Forecast>, now: i64) -> Vec<usize> {
    let mut ahead = vec![0; BUCKETS];
    for hour in forecast.iter().flat_map(|forecast| &forecast.hours) {
        for (part, starts) in hour.parts.iter().enumerate() {
            let middle = hour.at.as_micros() + part as i64 * BUCKET_MICROS + BUCKET_MICROS / 2;
            let place = (middle - now).max(0) / BUCKET_MICROS;
            if let Some(bucket) = usize::try_from(place).ok().and_then(|place| ahead.get_mut(place)) {
                *bucket += starts;
            }
        }
    }
    ahead
}

fn stack(x: i64, bucket: &Bucket, most: i64) -> Markup {
    let mut y = TOP + HEIGHT;
    let total: usize = bucket.iter().sum();
    let mut parts = Vec::new();
    for (class, number) in CLASSES.iter().zip(bucket) {
        if *number > 0 {
            let height = (*number as i64 * HEIGHT / most).max(2);
            y -= height;
            parts.push((*class, y, height));
        }
    }
    html! {
        @if total > 0 {
            g {
                title { (count(total, "job", "jobs")) @if bucket[4] > 0 { ", " (bucket[4]) " failed" } }
                @for (class, y, height) in parts { rect class=(class) x=(x + 3) y=(y) width=(BAR - 6) height=(height) rx="1" {} }
            }
        }
    }
}

const ROW: i64 = 28;
const LEFT: i64 = 76;
const RIGHT: i64 = 184;
const DRAWN: i64 = 420;
/// More rows are in the table alone.
const ROWS_MAX: usize = 12;

/// The attempts of a job: waiting drawn light, running drawn full, and what comes next drawn hollow.
pub(crate) fn attempts(viewer: &Viewer, job: &Job) -> Markup {
    let shown: Vec<&Attempt> = job.attempts.iter().rev().take(ROWS_MAX).rev().collect();
    let is_waiting = job.finished_at.is_none() && job.state == "scheduled";
    let Some(first) = shown.first().map(|attempt| attempt.due_at).or(is_waiting.then_some(job.due_at)) else {
        return html! {};
    };
    let is_open = job.finished_at.is_none();
    let last_end = shown.iter().filter_map(|attempt| attempt.finished_at).max();
    let from = if is_open { first.min(viewer.now) } else { first };
    let mut to = last_end.unwrap_or(first);
    if is_open {
        to = to.max(viewer.now);
    }
    if is_waiting {
        to = to.max(job.due_at);
    }
    let origin = from;
    let (from, length) = (origin.as_micros(), (to.as_micros() - origin.as_micros()).max(1000));
    let x = |at: Timestamp| {
        let part = i128::from((at.as_micros() - from).clamp(0, length)) * i128::from(DRAWN) / i128::from(length);
        LEFT + i64::try_from(part).unwrap_or(DRAWN)
    };
    let rows = shown.len() + usize::from(is_waiting);
    let bottom = rows as i64 * ROW + 6;
    let width = LEFT + DRAWN + RIGHT;
    // Within a minute, seconds matter.
    let format = if length < 120_000_000 {
        "%H:%M:%S%.3f"
    } else if length < 86_400_000_000 {
        "%H:%M:%S"
    } else {
        "%m-%d %H:%M"
    };
    html! {
        section.panel #timeline data-part {
            div.row {
                h2 { "Timeline" }
                span.zone { "times in " (zone_name(&viewer.zone)) }
                @if job.attempts.len() > shown.len() { span.muted.small { "the last " (shown.len()) " of " (job.attempts.len()) " attempts" } }
            }
            div.scroll tabindex="0" role="group" aria-label="Timeline of attempts; the table below has the same" {
                svg.chart.fit.attempts viewBox=(format!("0 0 {width} {}", bottom + 24)) role="img" aria-label=(format!("{} attempts", shown.len())) {
                    line.axis x1=(LEFT) x2=(LEFT + DRAWN) y1=(bottom) y2=(bottom) {}
                    @for (row, attempt) in shown.iter().enumerate() { (attempt_row(viewer, attempt, row as i64 * ROW + 4, &x)) }
                    @if is_waiting {
                        @let y = (rows as i64 - 1) * ROW + 4;
                        text.label x="0" y=(y + 14) { "Attempt " (job.attempts.len() + 1) }
                        @let since = last_end.unwrap_or(origin);
                        @let until = x(job.due_at.max(viewer.now).min(to));
                        rect.bar-plan.dashed x=(x(since)) y=(y + 3) width=((until - x(since)).max(3)) height="14" rx="2" {}
                        text x=(until + 8) y=(y + 14) {
                            @if job.due_at > viewer.now { "planned for " (tick(viewer, job.due_at, "%H:%M:%S")) } @else { "due, waits" }
                        }
                    }
                    text x=(LEFT) y=(bottom + 16) text-anchor="start" { (tick(viewer, origin, format)) }
                    @if !is_open { text x=(LEFT + DRAWN) y=(bottom + 16) text-anchor="end" { (tick(viewer, to, format)) } }
                    @if is_open {
                        line.now x1=(x(viewer.now)) x2=(x(viewer.now)) y1="0" y2=(bottom + 4) {}
                        text.now x=(x(viewer.now)) y=(bottom + 17) text-anchor=(if x(viewer.now) > LEFT + 140 { "end" } else { "start" }) { "now" }
                    }
                }
            }
        }
    }
}

fn attempt_row(viewer: &Viewer, attempt: &Attempt, y: i64, x: &dyn Fn(Timestamp) -> i64) -> Markup {
    let end = attempt.finished_at.unwrap_or(viewer.now);
    let (due, start, end_x) = (x(attempt.due_at), x(attempt.started_at), x(end));
    let class = match Meaning::of(&attempt.state) {
        Meaning::Ok => "bar-ok",
        Meaning::Running => "bar-run",
        Meaning::Failed => "bar-fail",
        Meaning::Lost => "bar-lost",
        _ => "bar-off",
    };
    let worker = attempt.worker_name.as_deref().map(|name| format!(" on {}", clean(name))).unwrap_or_default();
    let took = duration(end.since(attempt.started_at));
    let note = match attempt.finished_at {
        Some(_) => format!("{}, {took}{worker}", attempt.state.replace('_', " ")),
        None => format!("{took} so far{worker}"),
    };
    html! {
        g {
            title { "Attempt " (attempt.attempt) ": waited " (duration(attempt.started_at.since(attempt.due_at))) ", " (note) }
            text.label x="0" y=(y + 14) { "Attempt " (attempt.attempt) }
            @if start > due { rect.queue x=(due) y=(y + 3) width=(start - due) height="14" rx="2" {} }
            rect class=(class) x=(start) y=(y + 3) width=((end_x - start).max(3)) height="14" rx="2" {}
            text x=(end_x.max(start + 3) + 8) y=(y + 14) { (crate::text::short(&note, 34)) }
        }
    }
}
