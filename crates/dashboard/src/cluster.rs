//! Servers: the shards and duties that each has, and its clock.

use maud::{Markup, html};
use punctual_api::{Node, ServerList, ServerView};

use crate::layout::{self, Content, head};
use crate::state::state;
use crate::text::{clean, count, user};
use crate::times::{caption, time_and_ago};
use crate::{Page, Viewer};

/// `node` is the server that answers.
pub fn cluster(viewer: &Viewer, list: &ServerList, node: &Node) -> Page {
    let versions: std::collections::BTreeSet<&str> =
        list.servers.iter().map(|server| server.version.as_str()).collect();
    let about = html! {
        (count(list.servers.len(), "server", "servers")) ", " (list.shards_total) " shards, " (clean(&node.store)) "."
        @if let Some(zones) = &node.zone_data { " Time zones: " (clean(zones)) "." }
    };
    let main = html! {
        (head("Cluster", &about, &html! {}))
        @if !list.shards_unowned.is_empty() {
            p.warning { (count(list.shards_unowned.len(), "shard has", "shards have")) " no owner: their jobs wait until a server takes them over." }
        }
        @if versions.len() > 1 { p.warning { "Servers have different versions: " (versions.into_iter().collect::<Vec<_>>().join(", ")) } }
        section.panel.flush #servers data-part {
            table.list {
                (caption(viewer, "Servers"))
                thead { tr {
                    th scope="col" { "Server" } th scope="col" { "State" } th.number scope="col" { "Shards" } th.number scope="col" { "Running" }
                    th.number scope="col" { "Workers" } th.number scope="col" { "Lag" } th.number scope="col" { "Clock" } th scope="col" { "Duties" } th scope="col" { "Version" } th scope="col" { "Started" }
                } }
                tbody { @for server in &list.servers { (row(viewer, list, server)) } }
            }
        }
    };
    layout::page(viewer, &Content::live("Cluster", None), &main)
}

fn row(viewer: &Viewer, list: &ServerList, server: &ServerView) -> Markup {
    html! {
        tr id=(format!("server-{}", server.id)) {
            td.wrap { (user(&server.address)) span.small.muted { code { (server.id) } } }
            td { (state(&server.state)) @if server.answered { span.small.muted { "this one" } } }
            td.number data-k="Shards" { (server.shards.len()) " of " (list.shards_total) }
            td.number data-k="Running" { (server.running) }
            td.number data-k="Workers" { (server.workers) }
            td.number data-k="Lag" { (format!("{:.1} ms", server.lag_us as f64 / 1000.0)) }
            td.number data-k="Clock" { @match server.skew_us { Some(skew) => { (format!("{:+.1} ms", skew as f64 / 1000.0)) } None => { span.none { "not known" } } } }
            td.wrap data-k="Duties" { @for duty in &server.duties { span.tag { (clean(&duty.name)) } } }
            td data-k="Version" { (clean(&server.version)) }
            td data-k="Started" { (time_and_ago(viewer, server.started_at)) }
        }
    }
}
