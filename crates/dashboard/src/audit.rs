//! The audit log.

use maud::html;
use punctual_api::{AuditList, AuditQuery};

use crate::layout::{self, Content, empty, head};
use crate::state::Meaning;
use crate::text::{address, clean, maybe, user};
use crate::times::{caption, time_and_ago};
use crate::{Page, Viewer};

pub fn audit(viewer: &Viewer, query: &AuditQuery, list: &AuditList) -> Page {
    let filters = [
        ("principal", query.principal.as_deref()),
        ("action", query.action.as_deref()),
        ("object", query.object.as_deref()),
        ("outcome", query.outcome.as_deref()),
    ];
    let [principal, action, object, outcome] = filters;
    let next = list
        .next_cursor
        .as_ref()
        .map(|cursor| address("/audit", [principal, action, object, outcome, ("cursor", Some(cursor.as_str()))]));
    let main = html! {
        (head("Audit", &html! { "Who changed what, and who was refused." }, &html! {}))
        form.filter method="get" action="/audit" {
            @for (name, value) in filters { label { (name) input name=(name) value=(value.unwrap_or("")) autocomplete="off" spellcheck="false"; } }
            button type="submit" { "Filter" }
        }
        @if list.entries.is_empty() {
            (empty("No line fits.", &html! { a href="/audit" { "Show all lines" } }))
        } @else {
            section.panel.flush {
                table.list {
                    (caption(viewer, "Audit log"))
                    thead { tr { th.number scope="col" { "No." } th scope="col" { "When" } th scope="col" { "Who" } th scope="col" { "What" } th scope="col" { "Object" } th scope="col" { "Outcome" } th scope="col" { "From" } } }
                    tbody {
                        @for entry in &list.entries {
                            @let line = &entry.line;
                            tr id=(format!("line-{}", line.seq)) {
                                td.number data-k="No." { (line.seq) }
                                td { (time_and_ago(viewer, line.at)) }
                                td.wrap data-k="Who" { (user(&line.principal)) }
                                td.wrap { (clean(&line.action)) @if let Some(times) = line.times { " ×" (times) } }
                                td.wrap data-k="Object" { (maybe(line.object.as_deref())) @if let Some(before) = &line.before { span.small.muted { "was " (user(before)) } } }
                                td { @if line.outcome == "done" { (Meaning::Ok.named("done")) } @else { (Meaning::Warning.named(&clean(&line.outcome))) } }
                                td.wrap data-k="From" { (maybe(line.address.as_deref())) }
                            }
                        }
                    }
                }
                (layout::more(next.as_deref()))
            }
        }
    };
    layout::page(viewer, &Content::still("Audit", None), &main)
}
