//! Runs of workflows: a list, and one run as a graph with the state of each node.

use maud::{Markup, html};
use punctual_api::{NodeView, RunList, RunSummary, RunView};
use punctual_core::access::Right;

use crate::commands::{curl, panel, punctual};
use crate::graph::{GraphNode, graph};
use crate::layout::{self, ActionKind, Content, action, confirmed, empty, head};
use crate::state::{Meaning, big, state};
use crate::text::{address, count, escaped, maybe, user};
use crate::times::{caption, duration, maybe_time, span, time, time_and_ago, with_times};
use crate::{Confirmation, Page, Viewer};

pub fn runs(viewer: &Viewer, workflow: Option<&str>, list: &RunList) -> Page {
    let next =
        list.next_cursor.as_ref().map(|cursor| address("/runs", [("workflow", workflow), ("cursor", Some(cursor))]));
    let main = html! {
        (head("Runs", &html! { "Runs of workflows, the latest first." }, &html! {}))
        form.filter method="get" action="/runs" {
            label { "Workflow" input name="workflow" value=(workflow.unwrap_or("")) autocomplete="off" spellcheck="false"; }
            button type="submit" { "Filter" }
        }
        div #runs data-part {
            @if list.runs.is_empty() {
                @match workflow {
                    Some(name) => { (empty("This workflow has not been run.", &html! { a href=(format!("/workflows/{}", escaped(name))) { "The workflow" } " has a button for it" })) }
                    None => { (empty("No workflow has been run yet.", &html! { a href="/workflows" { "Workflows" } " can be run from their page" })) }
                }
            } @else {
                (run_table(viewer, "Runs", list))
                (layout::more(next.as_deref()))
            }
        }
    };
    layout::page(viewer, &Content::live("Runs", None), &main)
}

pub(crate) fn run_table(viewer: &Viewer, name: &str, list: &RunList) -> Markup {
    html! {
        section.panel.flush {
            table.list {
                (caption(viewer, name))
                thead { tr { th scope="col" { "State" } th scope="col" { "Run" } th.number scope="col" { "Version" } th.number scope="col" { "Nodes ended" } th scope="col" { "Started" } th scope="col" { "By" } th.number scope="col" { "Took" } } }
                tbody { @for run in &list.runs { (run_row(viewer, run)) } }
            }
        }
    }
}

fn run_row(viewer: &Viewer, run: &RunSummary) -> Markup {
    html! {
        tr id=(format!("run-{}", run.id)) {
            td { (state(&run.state)) }
            td.wrap { a.main href=(format!("/runs/{}", run.id)) title=(run.id.to_string()) { (user(&run.workflow)) } }
            td.number data-k="Version" { (run.version) }
            td.number data-k="Nodes ended" { (run.nodes_ended) " of " (run.nodes) }
            td data-k="Started" { (time_and_ago(viewer, run.created.at)) }
            td data-k="By" { (user(&run.created.who)) }
            td.number data-k="Took" { (span(run.ended_at.map(|at| at.since(run.created.at)))) }
        }
    }
}

pub fn run(viewer: &Viewer, run: &RunView, notice: Option<Confirmation>) -> Page {
    let meaning = Meaning::of(&run.state);
    let ended = run.nodes.iter().filter(|node| node.ended_at.is_some()).count();
    let nodes: Vec<GraphNode<'_>> = run.nodes.iter().map(|node| drawn(viewer, node)).collect();
    let main = html! {
        p.crumbs {
            a href="/workflows" { "Workflows" } "/" a href=(format!("/workflows/{}", escaped(&run.workflow))) { (user(&run.workflow)) }
            span.tag { "version " (run.version) } "/" code { (run.id) }
        }
        section class=(format!("panel why {}", meaning.class())) #why data-part {
            (big(meaning, &run.state))
            div {
                h1 { (ended) " of " (count(run.nodes.len(), "node", "nodes")) " done: " (run.state.replace('_', " ")) }
                p.text { (with_times(viewer, &run.explanation)) }
                @if let Some(reason) = &run.reason { p.warning { (user(reason)) } }
                @if let Some(cancelled) = &run.cancelled { p { "Cancelled by " (user(&cancelled.who)) " " (time_and_ago(viewer, cancelled.at)) } }
            }
            @if viewer.may(Right::ControlJobs) || viewer.may(Right::SubmitJobs) { (actions(viewer, run)) }
        }
        section.panel #graph data-part { div.row { h2 { "Graph" } } (graph(&nodes)) }
        section.panel.flush #nodes data-part {
            table.list {
                (caption(viewer, "Nodes"))
                thead { tr { th scope="col" { "State" } th scope="col" { "Node" } th scope="col" { "After" } th scope="col" { "Released" } th.number scope="col" { "Took" } th scope="col" { "Note" } } }
                tbody { @for node in &run.nodes { (node_row(viewer, run, node)) } }
            }
        }
        div.two {
            div.stack {
                @for (name, right, document) in [
                    ("Input", Right::ViewInputs, run.input.as_ref().map(|input| input.get().to_owned())),
                    ("Output", Right::ViewOutputs, run.output.as_ref().map(ToString::to_string)),
                ] {
                    @if viewer.may(right) { @if let Some(text) = document { section.panel aria-label=(name) { div.row { h2 { (name) } } pre tabindex="0" { bdi { (text) } } } } }
                }
                (panel(&[punctual(viewer, &["workflow", "get", &run.id.to_string()]), curl(viewer, "GET", &format!("/v1/runs/{}", run.id), None)]))
            }
            (facts(viewer, run))
        }
    };
    layout::page(viewer, &Content::live(&run.workflow, notice), &main)
}

fn facts(viewer: &Viewer, run: &RunView) -> Markup {
    html! {
        section.panel aria-label="Facts" {
            div.row { h2 { "Facts" } }
            dl {
                dt { "Started" } dd { (time_and_ago(viewer, run.created.at)) " by " (user(&run.created.who)) }
                dt { "Times out" } dd { (time(viewer, run.deadline)) }
                dt { "Ended" } dd { (maybe_time(viewer, run.ended_at)) }
                @if let Some(job) = &run.job { dt { "Job" } dd { a href=(format!("/jobs/{job}")) { code { (job) } } } }
            }
        }
    }
}

fn actions(viewer: &Viewer, run: &RunView) -> Markup {
    let address = |verb: &str| format!("/runs/{}/{verb}", run.id);
    let has_ended = run.ended_at.is_some();
    let open = run.nodes.iter().find(|node| node.state == "open");
    html! {
        div.actions {
            @if viewer.may(Right::ControlJobs) {
                @if let Some(gate) = open {
                    (action(&format!("/runs/{}/nodes/{}/approve", run.id, escaped(&gate.name)), "Approve", ActionKind::First))
                }
                @if matches!(run.state.as_str(), "failed" | "cancelled") { (action(&address("resume"), "Resume", ActionKind::First)) }
                @if !has_ended { (confirmed(&address("cancel"), "Cancel", "Nodes that have not started never will, and running ones are asked to end.")) }
            }
            @if has_ended && viewer.may(Right::SubmitJobs) { (action(&address("rerun"), "Run again", ActionKind::Other)) }
        }
    }
}

fn drawn<'a>(viewer: &Viewer, node: &'a NodeView) -> GraphNode<'a> {
    let note = match (&node.items, node.released_at, node.ended_at) {
        (Some(items), ..) => format!("{} of {} done", items.succeeded + items.failed, items.total),
        (None, Some(released), Some(ended)) => duration(ended.since(released)),
        (None, Some(_), None) if node.state == "open" => "waits for approval".to_owned(),
        (None, Some(released), None) => format!("{} so far", duration(viewer.now.since(released))),
        _ => node.state.replace('_', " "),
    };
    GraphNode {
        name: &node.name,
        needs: &node.needs,
        meaning: Meaning::of_node(&node.state),
        word: node.state.replace('_', " "),
        note,
        link: format!("#node-{}", escaped(&node.name)),
    }
}

fn node_row(viewer: &Viewer, run: &RunView, node: &NodeView) -> Markup {
    let took = node.ended_at.zip(node.released_at).map(|(ended, released)| ended.since(released));
    let gate = |verb: &str| format!("/runs/{}/nodes/{}/{verb}", run.id, escaped(&node.name));
    html! {
        tr id=(format!("node-{}", escaped(&node.name))) {
            td { (Meaning::of_node(&node.state).named(&node.state.replace('_', " "))) }
            td.wrap { @match &node.job { Some(job) => { a.main href=(format!("/jobs/{job}")) { (user(&node.name)) } } None => { (user(&node.name)) } } @if node.round > 0 { span.small.muted { "started " (node.round) " times before" } } }
            td.wrap data-k="After" { (user(&node.needs.join(", "))) }
            td data-k="Released" { (maybe_time(viewer, node.released_at)) }
            td.number data-k="Took" { (span(took)) }
            td.wrap {
                (maybe(node.waiting_for.as_deref().or(node.reason.as_deref())))
                @if let Some(items) = &node.items { " " (items.succeeded) " of " (items.total) " succeeded" @if items.failed > 0 { ", " (items.failed) " failed" } }
                @if let Some(decided) = &node.decided { " decided by " (user(&decided.who)) " " (time_and_ago(viewer, decided.at)) }
                @if node.state == "open" && viewer.may(Right::ControlJobs) {
                    div.actions {
                        (action(&gate("approve"), "Approve", ActionKind::First))
                        (confirmed(&gate("reject"), "Reject", "The gate fails, and what needs it with it."))
                    }
                }
            }
        }
    }
}
