//! Schedules: what each does in words, and when it runs next.

use maud::{Markup, html};
use punctual_api::{Forecast, ScheduleList, ScheduleSummary};
use punctual_core::access::Right;

use crate::layout::{self, Content, empty, head};
use crate::state::state;
use crate::text::{address, clean, count, escaped, user};
use crate::times::{caption, tick, time_and_ago, zone_name};
use crate::{Confirmation, Page, Viewer};

/// `forecast`: the coming day; `None` if it is not known now.
pub fn schedules(
    viewer: &Viewer,
    prefix: Option<&str>,
    list: &ScheduleList,
    forecast: Option<&Forecast>,
    notice: Option<Confirmation>,
) -> Page {
    let next =
        list.next_cursor.as_ref().map(|cursor| address("/schedules", [("prefix", prefix), ("cursor", Some(cursor))]));
    let about = html! { "Times are shown in " (zone_name(&viewer.zone)) "; each row also names its own zone." };
    let actions =
        html! { @if viewer.may(Right::EditSchedules) { a.btn.first href="/schedules/new" { "New schedule" } } };
    let main = html! {
        (head("Schedules", &about, &actions))
        @match forecast {
            Some(forecast) if forecast.starts > 0 => { (heat(viewer, forecast)) }
            None if list.next_cursor.is_some() => { p { a href=(address("/schedules", [("prefix", prefix), ("forecast", Some("yes"))])) { "Show the next 24 hours" } " of all schedules" } }
            _ => {}
        }
        form.filter method="get" action="/schedules" {
            label { "Name begins with" input name="prefix" value=(prefix.unwrap_or("")) autocomplete="off" spellcheck="false"; }
            button type="submit" { "Filter" }
        }
        div #schedules data-part {
            @if list.schedules.is_empty() {
                @if prefix.is_some() {
                    (empty("No schedule fits.", &html! { a href="/schedules" { "Show all schedules" } }))
                } @else {
                    (empty("There are no schedules yet.", &html! { "Make one with " a href="/schedules/new" { "New schedule" } ", or in a terminal: " code { "punctual schedule create nightly --task report --cron '0 3 * * *' --zone Europe/Berlin" } }))
                }
            } @else {
                section.panel.flush {
                    table.list {
                        (caption(viewer, "Schedules"))
                        thead { tr { th scope="col" { "Name" } th scope="col" { "State" } th scope="col" { "When" } th scope="col" { "What" } th scope="col" { "Next run" } } }
                        tbody { @for schedule in &list.schedules { (row(viewer, schedule)) } }
                    }
                    (layout::more(next.as_deref()))
                }
            }
        }
    };
    layout::page(viewer, &Content::live("Schedules", notice), &main)
}

fn row(viewer: &Viewer, schedule: &ScheduleSummary) -> Markup {
    html! {
        tr id=(format!("schedule-{}", schedule.id)) {
            td.wrap { a.main href=(format!("/schedules/{}", escaped(&schedule.name))) { (user(&schedule.name)) } }
            td { (state(schedule.state.as_str())) }
            td.wrap {
                (user(&schedule.explanation))
                @if let Some(reason) = &schedule.reason { span.small.warning { (user(reason)) } }
            }
            td data-k="Runs" { @if let Some(name) = &schedule.task.name { (user(name)) " " } span.muted { (schedule.task.kind) } }
            td data-k="Next" {
                @match schedule.next.first() {
                    Some(next) => { (time_and_ago(viewer, next.start_at)) span.small.muted { (clean(&next.local)) " " (clean(&schedule.zone)) } }
                    None => { span.none { "–" } }
                }
            }
        }
    }
}

/// The coming day, an hour a field.
fn heat(viewer: &Viewer, forecast: &Forecast) -> Markup {
    let hours: Vec<_> =
        forecast.hours.iter().take(24).map(|hour| (hour.at, hour.parts.iter().sum::<usize>())).collect();
    let most = hours.iter().map(|(_, starts)| *starts).max().unwrap_or(0).max(1);
    html! {
        section.panel aria-label="The next 24 hours" {
            div.row {
                h2 { "The next 24 hours" }
                span.muted {
                    (count(forecast.starts, "start", "starts")) " of " (count(forecast.schedules, "schedule", "schedules"))
                    @if forecast.is_cut { ", and more that were not counted" }
                    @if let Some(busiest) = forecast.busiest.first() { "; busiest minute " (tick(viewer, busiest.at, "%H:%M")) " with " (busiest.starts) }
                }
            }
            @if let Some(herd) = &forecast.herd { p.warning { (clean(herd)) } }
            ul.heat {
                @for (at, starts) in hours {
                    @let level = (starts * 4).div_ceil(most);
                    li class=[(starts > 0).then(|| format!("h{level}"))] title=(format!("{}: {}", tick(viewer, at, "%H:%M"), count(starts, "start", "starts"))) {
                        i {} (tick(viewer, at, "%H")) span.hidden { ": " (count(starts, "start", "starts")) }
                    }
                }
            }
        }
    }
}
