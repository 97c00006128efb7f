//! Uploaded files.

use maud::html;
use punctual_api::ArtifactList;
use punctual_core::access::Right;

use crate::layout::{self, Content, empty, head};
use crate::state::state;
use crate::text::{address, bytes, clean, user};
use crate::times::{caption, time_and_ago};
use crate::{Page, Viewer};

pub fn artifacts(viewer: &Viewer, list: &ArtifactList) -> Page {
    let next = list.next_cursor.as_ref().map(|cursor| address("/artifacts", [("cursor", Some(cursor.as_str()))]));
    let may_run = viewer.may(Right::SubmitJobs) && viewer.may(Right::EditTasks);
    let main = html! {
        (head("Artifacts", &html! { "Files that tasks run or read." }, &html! {}))
        @if list.artifacts.is_empty() {
            (empty("No file has been uploaded yet.", &html! { "Upload one: " code { "punctual artifact create ./tool" } }))
        } @else {
            section.panel.flush {
                table.list {
                    (caption(viewer, "Artifacts"))
                    thead { tr { th scope="col" { "Artifact" } th scope="col" { "State" } th scope="col" { "Kind" } th.number scope="col" { "Size" } th scope="col" { "SHA-256" } th scope="col" { "Created" } th scope="col" { span.hidden { "Actions" } } } }
                    tbody {
                        @for artifact in &list.artifacts {
                            @let kind = serde_json::to_value(artifact.kind).ok().and_then(|kind| kind.as_str().map(str::to_owned)).unwrap_or_default();
                            tr id=(format!("artifact-{}", artifact.id)) {
                                td.wrap { @if let Some(name) = &artifact.name { (user(name)) } span.small { code { (artifact.id) } } @if let Some(reason) = &artifact.reason { span.small.warning { (user(reason)) } } }
                                td { (state(&artifact.state)) }
                                td data-k="Kind" { (kind) @if let Some(machine) = &artifact.machine { " " span.muted { (clean(machine)) } } }
                                td.number data-k="Size" { (bytes(artifact.size)) }
                                td.wrap data-k="SHA-256" { code title=(clean(&artifact.sha256)) { (clean(&artifact.sha256.chars().take(12).collect::<String>())) "…" } }
                                td data-k="Created" { (time_and_ago(viewer, artifact.created_at)) }
                                td { @if may_run && kind == "binary" { a.btn href=(address("/jobs/new", [("kind", Some("binary")), ("artifact", Some(&artifact.id.to_string()))])) { "Run" } } }
                            }
                        }
                    }
                }
                (layout::more(next.as_deref()))
            }
        }
    };
    layout::page(viewer, &Content::still("Artifacts", None), &main)
}
