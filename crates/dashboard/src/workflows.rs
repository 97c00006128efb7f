//! Workflows, by name, and one of them as a graph.

use maud::html;
use punctual_api::{RunList, WorkflowList, WorkflowView};
use punctual_core::access::Right;

use crate::commands::{panel, punctual};
use crate::graph::{GraphNode, graph};
use crate::layout::{self, Content, empty, head};
use crate::runs::run_table;
use crate::state::Meaning;
use crate::text::{address, escaped, user};
use crate::times::{caption, time_and_ago};
use crate::{Page, Viewer};

pub fn workflows(viewer: &Viewer, list: &WorkflowList) -> Page {
    let next = list.next_cursor.as_ref().map(|cursor| address("/workflows", [("cursor", Some(cursor.as_str()))]));
    let main = html! {
        (head("Workflows", &html! { "Tasks with an order between them." }, &html! { @if viewer.may(Right::ViewJobs) { a.btn href="/runs" { "All runs" } } }))
        div #workflows data-part {
            @if list.workflows.is_empty() {
                (empty("There are no workflows yet.", &html! { "Store one from a file: " code { "punctual workflow apply nightly nightly.yaml" } }))
            } @else {
                section.panel.flush {
                    table.list {
                        (caption(viewer, "Workflows"))
                        thead { tr { th scope="col" { "Workflow" } th.number scope="col" { "Version" } th.number scope="col" { "Nodes" } th scope="col" { "Changed" } th scope="col" { "By" } } }
                        tbody {
                            @for workflow in &list.workflows {
                                tr id=(format!("workflow-{}", escaped(&workflow.name))) {
                                    td.wrap { a.main href=(format!("/workflows/{}", escaped(&workflow.name))) { (user(&workflow.name)) } }
                                    td.number data-k="Version" { (workflow.version) }
                                    td.number data-k="Nodes" { (workflow.nodes) }
                                    td data-k="Changed" { (time_and_ago(viewer, workflow.created.at)) }
                                    td data-k="By" { (user(&workflow.created.who)) }
                                }
                            }
                        }
                    }
                    (layout::more(next.as_deref()))
                }
            }
        }
    };
    layout::page(viewer, &Content::live("Workflows", None), &main)
}

/// `runs`: the latest ones; `None` if the viewer may not see them.
pub fn workflow(viewer: &Viewer, workflow: &WorkflowView, runs: Option<&RunList>) -> Page {
    let name = &workflow.name;
    let nodes: Vec<GraphNode<'_>> = workflow
        .spec
        .nodes
        .iter()
        .map(|node| GraphNode {
            name: &node.name,
            needs: &node.needs,
            meaning: if node.gate.is_some() { Meaning::Waiting } else { Meaning::Planned },
            word: "as defined".to_owned(),
            note: note(node),
            link: format!("#node-{}", escaped(&node.name)),
        })
        .collect();
    let main = html! {
        p.crumbs { a href="/workflows" { "Workflows" } "/" strong { (user(name)) } span.tag { "version " (workflow.version) } }
        div.head {
            div { h1 { (user(name)) } p.muted { "Changed " (time_and_ago(viewer, workflow.created.at)) " by " (user(&workflow.created.who)) } }
            @if viewer.may(Right::SubmitJobs) {
                div.actions {
                    form method="post" action=(format!("/workflows/{}/run", escaped(name))) { button.first type="submit" { "Run" } }
                    a.btn href=(address("/jobs/new", [("kind", Some("workflow")), ("workflow", Some(name))])) { "Run with input" }
                }
            }
        }
        section.panel aria-label="Graph" { div.row { h2 { "Graph" } } (graph(&nodes)) }
        @if let Some(runs) = runs {
            div #runs data-part {
                @if runs.runs.is_empty() { (empty("It has not been run yet.", &html! { "Start a run with the button above." })) }
                @else { (run_table(viewer, "Latest runs", runs)) }
            }
        }
        section.panel.flush aria-label="Nodes" {
            table.list {
                caption { "Nodes" }
                thead { tr { th scope="col" { "Node" } th scope="col" { "Runs" } th scope="col" { "After" } } }
                tbody {
                    @for node in &workflow.spec.nodes {
                        tr id=(format!("node-{}", escaped(&node.name))) {
                            td.wrap { (user(&node.name)) }
                            td.wrap data-k="Runs" { (user(&note(node))) }
                            td.wrap data-k="After" { (user(&node.needs.join(", "))) }
                        }
                    }
                }
            }
        }
        (panel(&[punctual(viewer, &["workflow", "run", name, "--wait"]), punctual(viewer, &["workflow", "graph", name])]))
    };
    layout::page(viewer, &Content::live(name, None), &main)
}

fn note(node: &punctual_core::workflow::NodeSpec) -> String {
    let what = match (&node.task, &node.inline, &node.workflow, &node.gate) {
        (Some(task), ..) => task.clone(),
        (_, Some(spec), ..) => spec.run.kind().to_owned(),
        (_, _, Some(workflow), _) => format!("workflow {workflow}"),
        (.., Some(gate)) => {
            gate.event.as_ref().map_or_else(|| "waits for approval".to_owned(), |event| format!("waits for {event}"))
        }
        _ => String::new(),
    };
    if node.for_each.is_some() { format!("{what}, for each") } else { what }
}
