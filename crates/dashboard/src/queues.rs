//! Queues: what waits in each, and whether anything starts.

use maud::{Markup, html};
use punctual_api::{QueueList, QueueView};
use punctual_core::access::Right;

use crate::layout::{self, ActionKind, Content, action, confirmed, empty, head};
use crate::state::state;
use crate::text::{address, escaped, maybe, user};
use crate::times::{caption, maybe_time, time_and_ago};
use crate::{Confirmation, Page, Viewer};

pub fn queues(viewer: &Viewer, list: &QueueList, notice: Option<Confirmation>) -> Page {
    let next = list.next_cursor.as_ref().map(|cursor| address("/queues", [("cursor", Some(cursor.as_str()))]));
    let main = html! {
        (head("Queues", &html! { "A paused queue accepts jobs and starts none. It is not a paused schedule, which makes none." }, &html! {}))
        div #queues data-part {
            @if list.queues.is_empty() {
                (empty("There is no queue yet.", &html! { "A queue exists as soon as a task, a job or a worker names it." }))
            } @else {
                section.panel.flush {
                    table.list {
                        (caption(viewer, "Queues"))
                        thead { tr {
                            th scope="col" { "Queue" } th scope="col" { "State" } th.number scope="col" { "Due and waiting" } th scope="col" { "Oldest due" }
                            th.number scope="col" { "Running" } th scope="col" { "Note" }
                            @if viewer.may(Right::ControlJobs) { th scope="col" { span.hidden { "Actions" } } }
                        } }
                        tbody { @for queue in &list.queues { (row(viewer, queue)) } }
                    }
                    (layout::more(next.as_deref()))
                }
            }
        }
    };
    layout::page(viewer, &Content::live("Queues", notice), &main)
}

fn row(viewer: &Viewer, queue: &QueueView) -> Markup {
    let is_guess = queue.uncertain && queue.waiting == 0;
    html! {
        tr id=(format!("queue-{}", escaped(&queue.name))) {
            td.wrap { a.main href=(address("/jobs", [("queue", Some(&*queue.name))])) { (user(&queue.name)) } @if let Some(text) = &queue.description { span.small.muted { (user(text)) } } }
            td { (state(&queue.state)) @if !queue.is_served { span.small.warning { "no worker serves it" } } }
            td.number data-k="Due and waiting" {
                @if is_guess { span.none { "not known" } } @else { (queue.waiting) @if queue.has_more_waiting || queue.uncertain { "+" } }
            }
            td data-k="Oldest due" { (maybe_time(viewer, queue.waiting_since)) }
            td.number data-k="Running" { @if queue.uncertain && queue.running == 0 { span.none { "not known" } } @else { (queue.running) } }
            td.wrap {
                @if let Some(changed) = queue.state_changed.as_ref().filter(|_| queue.state != "active") {
                    "by " (user(&changed.who)) " " (time_and_ago(viewer, changed.at)) " "
                }
                (maybe(queue.note.as_deref()))
            }
            @if viewer.may(Right::ControlJobs) { td { (actions(queue)) } }
        }
    }
}

fn actions(queue: &QueueView) -> Markup {
    let address = |verb: &str| format!("/queues/{}/{verb}", escaped(&queue.name));
    html! {
        div.actions {
            @if queue.state == "active" {
                (confirmed(&address("pause"), "Pause", "Nothing of this queue starts until it is resumed. What runs goes on."))
                (confirmed(&address("drain"), "Drain", "New submissions are refused; what is stored still runs."))
            } @else {
                (action(&address("resume"), "Resume", ActionKind::First))
            }
        }
    }
}
