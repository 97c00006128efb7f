//! Follows a run to its end, and says what becomes of its nodes.

use std::collections::HashMap;
use std::time::Duration;

use punctual_api::RunView;
use punctual_client::Client;
use tokio::time::Instant;

use super::named;
use crate::exit::{Exit, Refusal, Report};
use crate::output::Output;
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
    loop {
        for node in &run.nodes {
            let before = told.insert(node.name.clone(), node.state.clone());
            if before.as_ref() != Some(&node.state) && node.state != "waiting" {
                out.hint(&format!("{}: {}", node.name, node.state));
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
                    let message = Report::new(&error.into()).message;
                    let hint = format!("it goes on without us; when the server is back: `punctual workflow get {id}`");
                    return Err(Refusal { exit: Exit::Unreachable, message, hint }.into());
                }
                tokio::time::sleep(RECONNECT_PAUSE).await;
            }
            Err(error) => return Err(named(error)),
        }
    }
    view::workflow::run(&run, out)?;
    Ok(if run.state == "succeeded" { Exit::Ok } else { Exit::JobFailed })
}
