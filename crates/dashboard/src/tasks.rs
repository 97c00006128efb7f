//! Tasks: what can be run by name.

use maud::{Markup, html};
use punctual_api::{JobList, TaskList, TaskView};
use punctual_core::access::Right;

use crate::commands::{curl, panel, punctual};
use crate::jobs::{job_row, job_table_head};
use crate::layout::{self, Content, empty, head};
use crate::text::{address, escaped, maybe, user};
use crate::times::{caption, duration, time_and_ago};
use crate::{Page, Viewer};

pub fn tasks(viewer: &Viewer, list: &TaskList) -> Page {
    let next = list.next_cursor.as_ref().map(|cursor| address("/tasks", [("cursor", Some(cursor.as_str()))]));
    let main = html! {
        (head("Tasks", &html! { "What to run, and by which rules." }, &html! {}))
        div #tasks data-part {
            @if list.tasks.is_empty() {
                (empty("There are no tasks yet.", &html! { "Store one: " code { "punctual task apply ping-home --http https://example.com/health" } }))
            } @else {
                section.panel.flush {
                    table.list {
                        (caption(viewer, "Tasks"))
                        thead { tr { th scope="col" { "Task" } th scope="col" { "Type" } th scope="col" { "Queue" } th.number scope="col" { "Time limit" } th.number scope="col" { "Retries" } th scope="col" { "Changed" } } }
                        tbody { @for task in &list.tasks { (row(viewer, task)) } }
                    }
                    (layout::more(next.as_deref()))
                }
            }
        }
    };
    layout::page(viewer, &Content::still("Tasks", None), &main)
}

fn row(viewer: &Viewer, task: &TaskView) -> Markup {
    html! {
        tr id=(format!("task-{}", task.id)) {
            td.wrap { a.main href=(format!("/tasks/{}", escaped(&task.name))) { (user(&task.name)) } @if task.waits_for.is_some() { span.small.warning { "waits for its file" } } }
            td data-k="Type" { (task.spec.run.kind()) }
            td data-k="Queue" { (user(&task.spec.queue)) }
            td.number data-k="Time limit" { (duration(task.spec.timeout)) }
            td.number data-k="Retries" { (task.spec.retry.max) }
            td data-k="Changed" { (time_and_ago(viewer, task.updated_at)) " " (maybe(task.changed_by.as_deref())) }
        }
    }
}

/// `jobs`: the latest ones; `None` if the viewer may not see them.
pub fn task(viewer: &Viewer, task: &TaskView, jobs: Option<&JobList>) -> Page {
    let name = &task.name;
    let definition = serde_json::to_string_pretty(&task.spec).expect("a definition is JSON");
    let run = html! { @if viewer.may(Right::SubmitJobs) { a.btn.first href=(address("/jobs/new", [("kind", Some("task")), ("task", Some(name))])) { "Run" } } };
    let about = html! { "A " (task.spec.run.kind()) " in queue " (user(&task.spec.queue)) ", revision " (task.revision) ", changed " (time_and_ago(viewer, task.updated_at)) };
    let main = html! {
        p.crumbs { a href="/tasks" { "Tasks" } "/" strong { (user(name)) } }
        (head(name, &about, &run))
        @if let Some(artifact) = &task.waits_for { p.warning { "It waits for the file " code { (artifact) } ", and none of its jobs starts before." } }
        @for warning in &task.warnings { p.warning { (user(&warning.detail)) } }
        div.two {
            div.stack {
                @if let Some(jobs) = jobs {
                    div #jobs data-part {
                        @if jobs.jobs.is_empty() {
                            (empty("It has not been run yet.", &html! { "Run it with the button above, or make a " a href="/schedules/new" { "schedule" } }))
                        } @else {
                            section.panel.flush {
                                table.list { (caption(viewer, "Latest jobs")) (job_table_head()) tbody { @for job in &jobs.jobs { (job_row(viewer, job, "job")) } } }
                                p.more { a href=(address("/jobs", [("task", Some(name.as_str()))])) { "All jobs of this task" } }
                            }
                        }
                    }
                }
            }
            div.stack {
                section.panel aria-label="Definition" { div.row { h2 { "Definition" } } div.command { pre #definition tabindex="0" { bdi { (definition) } } button type="button" data-copy="definition" { "Copy" } } }
                (panel(&[punctual(viewer, &["run", name]), curl(viewer, "POST", "/v1/jobs", Some(&serde_json::json!({ "task": name }).to_string()))]))
            }
        }
    };
    layout::page(viewer, &Content::live(name, None), &main)
}
