//! Commands on jobs that are named by their ids: cancel, delete, retry, run now.

use clap::Args;
use punctual_api::Answered;
use punctual_client::{Client, ClientError};
use punctual_core::JobId;

use crate::cli::Failure;
use crate::context::Context;
use crate::exit::Exit;
use crate::report;

#[derive(Debug, Args)]
pub(crate) struct JobIds {
    /// The jobs' ids, as `punctual run` and `punctual ps` print them
    #[arg(required = true, value_name = "ID")]
    ids: Vec<JobId>,
}

/// What can be asked of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum JobCommand {
    Cancel,
    Delete,
    Retry,
    RunNow,
}

/// Sends the command to each job, also after one has refused. Exits with the code of the first refusal.
pub(crate) async fn command(command: JobCommand, JobIds { ids }: JobIds, context: &Context) -> anyhow::Result<Exit> {
    let client = context.client()?;
    let mut answers = Vec::new();
    let mut exit = Exit::Ok;
    for &id in &ids {
        match send(&client, command, id).await {
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

async fn send(client: &Client, command: JobCommand, id: JobId) -> Result<Answered, ClientError> {
    match command {
        JobCommand::Cancel => client.cancel(id).await,
        JobCommand::Delete => client.delete_job(id).await,
        JobCommand::Retry => client.retry(id).await,
        JobCommand::RunNow => client.run_now(id).await,
    }
}
