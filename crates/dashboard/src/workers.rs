//! Workers: what each serves, and how busy it is.

use maud::{Markup, html};
use punctual_api::WorkerView;

use crate::layout::{self, Content, empty, head};
use crate::state::state;
use crate::text::{clean, count, user};
use crate::times::{caption, time_and_ago};
use crate::{Page, Viewer};

pub fn workers(viewer: &Viewer, workers: &[WorkerView]) -> Page {
    let there: Vec<_> = workers.iter().filter(|worker| !worker.is_gone()).collect();
    let (slots, running) =
        there.iter().fold((0, 0), |(slots, running), worker| (slots + worker.slots, running + worker.running));
    let about = html! { @if !there.is_empty() { (count(there.len(), "worker", "workers")) ", " (running) " of " (count(slots as usize, "slot", "slots")) " in use." } };
    let main = html! {
        (head("Workers", &about, &html! {}))
        div #workers data-part {
            @if workers.is_empty() {
                (empty("No worker is connected, so nothing starts.", &html! { "Start one: " code { "punctual worker" } }))
            } @else {
                section.panel.flush {
                    table.list {
                        (caption(viewer, "Workers, and those that left in the last day"))
                        thead { tr {
                            th scope="col" { "Worker" } th scope="col" { "State" } th.number scope="col" { "Slots in use" } th scope="col" { "Queues" }
                            th scope="col" { "Runs" } th scope="col" { "Version" } th scope="col" { "Seen" }
                        } }
                        tbody { @for worker in workers { (row(viewer, worker)) } }
                    }
                }
            }
        }
    };
    layout::page(viewer, &Content::live("Workers", None), &main)
}

fn row(viewer: &Viewer, worker: &WorkerView) -> Markup {
    html! {
        tr id=(format!("worker-{}", worker.id)) {
            td.wrap { (user(&worker.name)) @if let Some(host) = worker.host.as_ref().filter(|host| **host != worker.name) { span.small.muted { (user(host)) } } }
            td { (state(&worker.state)) }
            td.number data-k="Slots in use" {
                @if worker.is_gone() { span.none { "–" } } @else {
                    (worker.running) " of " (worker.slots)
                    meter min="0" max=(worker.slots.max(1)) value=(worker.running) aria-label="Slots in use" {}
                }
            }
            td.wrap data-k="Queues" { (user(&worker.queues.join(", "))) }
            td.wrap data-k="Runs" {
                @for word in &worker.capabilities { span.tag { (clean(word)) } }
                @for (name, value) in &worker.labels { span.tag { (clean(name)) "=" (clean(value)) } }
                @if let Some(who) = &worker.commands_as { span.small.warning { "commands as " (user(who)) } }
            }
            td data-k="Version" { (clean(&worker.version)) }
            td data-k="Seen" { (time_and_ago(viewer, worker.last_seen_at)) }
        }
    }
}
