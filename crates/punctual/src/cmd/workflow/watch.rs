//! Follows a run to its end, and says what becomes of its nodes.

use std::collections::HashMap;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use punctual_api::RunView;
use punctual_client::Client;
use tokio::time::Instant;

use super::named;
use crate::exit::{Exit, Refusal, Report};
use crate::output::{Chatter, Output};
use crate::reconnection::RECONNECT_PAUSE;
use crate::view;

/// Between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(300);
/// A restart is over by then; what takes longer needs a person.
const RECONNECT_FOR: Duration = Duration::from_secs(30);

pub(super) async fn run(mut run: RunView, client: &Client, out: &Output) -> anyhow::Result<Exit> {
    let id = run.id;
    out.hint(&format!("{id} continues if you stop watching."));
    let mut told: HashMap<String, String> = HashMap::new();
    let mut lost_at = None;
    let progress = Progress::new(&run, out);
    loop {
        progress.show(&run);
        for node in &run.nodes {
            let before = told.insert(node.name.clone(), node.state.clone());
            if before.as_ref() != Some(&node.state) && node.state != "waiting" {
                progress.0.suspend(|| out.hint(&format!("{}: {}", node.name, node.state)));
            }
        }
        if run.state != "running" {
            break;
        }
        tokio::time::sleep(LOOK_EVERY).await;
        match client.workflow_run(id).await {
            Ok(now) => (run, lost_at) = (now, None),
            Err(error) if error.may_pass() => {
                let lost_at = *lost_at.get_or_insert_with(Instant::now);
                if lost_at.elapsed() >= RECONNECT_FOR {
                    progress.0.finish_and_clear();
                    let message = Report::new(&error.into()).message;
                    let hint = format!("it goes on without us; when the server is back: `punctual workflow get {id}`");
                    return Err(Refusal { exit: Exit::Unreachable, message, hint }.into());
                }
                tokio::time::sleep(RECONNECT_PAUSE).await;
            }
            Err(error) => return Err(named(error)),
        }
    }
    progress.0.finish_and_clear();
    view::workflow::run(&run, out)?;
    Ok(if run.state == "succeeded" { Exit::Ok } else { Exit::JobFailed })
}

/// Nodes that are named while they are under way.
const NAMED_MAX: usize = 3;

/// A bar on stderr, if that is a terminal. The jobs of a list count one by one.
struct Progress(ProgressBar);

impl Progress {
    fn new(run: &RunView, out: &Output) -> Self {
        if out.chatter != Chatter::Hints {
            return Self(ProgressBar::hidden());
        }
        let style = ProgressStyle::with_template("{spinner} {bar:30} {pos}/{len}  {wide_msg}");
        let bar = ProgressBar::new(done_of_all(run).1).with_style(style.expect("the template is valid"));
        bar.enable_steady_tick(LOOK_EVERY);
        Self(bar)
    }

    fn show(&self, run: &RunView) {
        let (done, all) = done_of_all(run);
        self.0.set_length(all);
        self.0.set_position(done);
        self.0.set_message(under_way(run));
    }
}

/// What has ended, and how much there is as far as it is known: how long a list is turns out when its turn comes.
fn done_of_all(run: &RunView) -> (u64, u64) {
    let counted = run.nodes.iter().map(|node| match (&node.items, node.state.as_str()) {
        (Some(items), _) => (u64::from(items.succeeded + items.failed), u64::from(items.total)),
        (None, "waiting" | "active" | "open") => (0, 1),
        (None, _) => (1, 1),
    });
    counted.fold((0, 0), |(done, all), (more, of)| (done + more, all + of))
}

fn under_way(run: &RunView) -> String {
    let nodes: Vec<&str> =
        run.nodes.iter().filter(|node| ["active", "open"].contains(&&*node.state)).map(|node| &*node.name).collect();
    let more = nodes.len().saturating_sub(NAMED_MAX);
    let named = nodes[..nodes.len() - more].join(", ");
    if more > 0 { format!("{named} and {more} more") } else { named }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn run(nodes: Value) -> RunView {
        let by = json!({ "at": "2026-01-01T00:00:00Z", "who": "ann" });
        serde_json::from_value(json!({
            "id": "run_01m7et433kee4803yssgvaf2fh", "workflow": "etl", "version": 1, "state": "running", "created": by,
            "deadline": "2026-01-08T00:00:00Z", "timed_out": false, "nodes": nodes,
        }))
        .unwrap()
    }

    fn node(name: &str, state: &str) -> Value {
        json!({ "name": name, "kind": "task", "needs": [], "state": state })
    }

    #[test]
    fn the_jobs_of_a_list_count_one_by_one_and_nodes_under_way_are_named() {
        let mut list = node("copy", "active");
        list["items"] =
            json!({ "total": 10, "waiting": 5, "active": 2, "succeeded": 2, "failed": 1, "failed_jobs": [] });
        let shown = run(json!([node("extract", "succeeded"), list, node("ok", "open"), node("load", "waiting")]));
        assert_eq!((done_of_all(&shown), &*under_way(&shown)), ((4, 13), "copy, ok"));
        let many: Vec<Value> = ["a", "b", "c", "d", "e"].iter().map(|name| node(name, "active")).collect();
        assert_eq!(under_way(&run(json!(many))), "a, b, c and 2 more");
    }
}
