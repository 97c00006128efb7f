//! Commands on jobs that are named by their ids: cancel, delete, retry, run now.

use clap::Args;
use comfy_table::Cell;
use punctual_api::Answered;
use punctual_client::{Client, ClientError};
use punctual_core::JobId;

use super::Context;
use crate::cli::Failure;
use crate::exit::Exit;
use crate::output::{Output, Row};
use crate::report;
use crate::table::Yield;

#[derive(Debug, Args)]
pub(crate) struct Ids {
    /// The jobs' ids, as `punctual run` and `punctual ps` print them
    #[arg(required = true, value_name = "ID")]
    ids: Vec<JobId>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verb {
    Cancel,
    Delete,
    Retry,
    RunNow,
}

impl Row for Answered {
    const HEADER: &'static [&'static str] = &["ID", "STATE"];
    const YIELDS: &'static [Yield] = &[];

    fn name(&self) -> String {
        self.id.to_string()
    }

    fn cells(&self, out: &Output) -> Vec<Cell> {
        vec![Cell::new(self.id), out.state(&self.state)]
    }
}

/// Does it to each job; one that refuses does not spare the others. Exits with the
/// code of the first refusal.
pub(crate) async fn run(verb: Verb, Ids { ids }: Ids, context: &Context) -> anyhow::Result<Exit> {
    let client = context.client()?;
    let mut answers = Vec::new();
    let mut exit = Exit::Ok;
    for &id in &ids {
        match command(&client, verb, id).await {
            Ok(answer) => answers.push(answer),
            // The others would fare no better.
            Err(error @ ClientError::Unreachable { .. }) => return Err(error.into()),
            Err(error) => {
                let refused = report(&anyhow::Error::from(error), context.out.format, Failure::HasItsCode);
                exit = if exit == Exit::Ok { refused } else { exit };
            }
        }
    }
    context.out.rows(&answers, &answers)?;
    if let Some(answer) = answers.iter().find(|answer| answer.pending) {
        let are = if answers.iter().filter(|answer| answer.pending).count() > 1 { " and others are" } else { " is" };
        context.out.hint(&format!("{}{are} being cancelled. Wait for it: punctual wait {}", answer.id, answer.id));
    }
    Ok(exit)
}

async fn command(client: &Client, verb: Verb, id: JobId) -> Result<Answered, ClientError> {
    match verb {
        Verb::Cancel => client.cancel(id).await,
        Verb::Delete => client.delete_job(id).await,
        Verb::Retry => client.retry(id).await,
        Verb::RunNow => client.run_now(id).await,
    }
}
