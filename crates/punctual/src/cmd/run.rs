//! `punctual run` and `punctual job submit`.

use clap::Args;
use punctual_api::{JobRequest, JobSubmitted};
use punctual_client::{Client, IdempotencyKey, Logs};
use punctual_core::task::Priority;
use punctual_core::{Span, Timestamp};
use serde_json::value::RawValue;

use super::spec::{SpecFlags, priority};
use super::wait::{of_state, wait_for};
use super::{Context, logs, text_or_file};
use crate::exit::{Exit, usage};
use crate::output::{Format, note};
use crate::when::{parse_at, parse_span};
use crate::world::now;
use crate::zone::relative;

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    punctual run nightly-report --input '{\"day\":\"monday\"}' --wait\n  \
    punctual run nightly-report --at '2026-12-24 18:00 Europe/Berlin'\n  \
    punctual run --http https://example.org/hook --body '{}' --in 10m\n  \
    punctual run --probe '{\"sleep\":\"1s\",\"output\":\"hi\"}' --follow")]
pub(crate) struct RunArgs {
    /// The name of a task; or say what to run with --http, --probe or --handler
    #[arg(value_name = "TASK")]
    task: Option<String>,
    /// The task's input: JSON, @file, or - for stdin
    #[arg(short, long, value_name = "JSON")]
    input: Option<String>,
    /// When to run it: 2026-12-24T18:00:00+01:00 or '2026-12-24 18:00 Europe/Berlin'
    #[arg(long, value_name = "TIME", value_parser = parse_at)]
    at: Option<Timestamp>,
    /// How long from now to run it: 30s, 10m, 7d
    #[arg(long = "in", value_name = "TIME", value_parser = parse_span, conflicts_with = "at")]
    after: Option<Span>,
    /// From -100 to 100; each point is worth 15 minutes of waiting
    #[arg(long, value_name = "N", value_parser = priority, allow_hyphen_values = true)]
    priority: Option<Priority>,
    /// Follows the job everywhere
    #[arg(long, value_name = "TEXT")]
    tracing_id: Option<String>,
    /// Submissions with the same key make one job
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
    /// Wait until it has finished; exit with code 3 unless it succeeded
    #[arg(short, long)]
    wait: bool,
    /// Print what it writes until it has finished; exits like --wait
    #[arg(short, long)]
    follow: bool,
    /// Stop waiting after this time, with exit code 124
    #[arg(long, value_name = "TIME", value_parser = parse_span, requires = "wait")]
    wait_timeout: Option<Span>,
    #[command(flatten)]
    spec: SpecFlags,
}

impl RunArgs {
    fn request(&self, now: Timestamp) -> anyhow::Result<JobRequest> {
        match (&self.task, self.spec.says_what()) {
            (None, false) => {
                return Err(usage("nothing says what to run", "name a task, or use --http, --probe or --handler"));
            }
            (Some(task), _) if self.spec.are_given() => {
                return Err(usage(
                    format!("the task `{task}` has its own definition"),
                    "change it with `punctual task apply`, or leave out either the name or the flags",
                ));
            }
            _ => {}
        }
        let input = self.input.as_deref().map(|input| {
            RawValue::from_string(text_or_file(input)?.trim().to_owned())
                .map_err(|error| usage(format!("--input is not JSON: {error}"), "put texts in quotes: '\"text\"'"))
        });
        Ok(JobRequest {
            task: self.task.clone(),
            inline: self.spec.spec()?,
            run_at: self.at.or_else(|| Some(now + self.after?)),
            input: input.transpose()?,
            priority: self.priority,
            tracing_id: self.tracing_id.clone(),
        })
    }
}

pub(crate) async fn run(args: RunArgs, context: &Context) -> anyhow::Result<Exit> {
    let client = context.client()?;
    let request = args.request(now())?;
    let submitted = submit(&client, &request, args.idempotency_key.as_deref()).await?;
    let id = submitted.id;
    if args.follow {
        context.out.hint(&format!("{id} submitted, due {}", relative(submitted.due_at, now())));
        logs::follow(&client, id, Logs::default(), context).await?;
        let job = client.job(id).await?;
        note(&format!("{id} {}: {}", job.state, job.explanation));
        return Ok(of_state(&job.state));
    }
    if args.wait {
        context.out.hint(&format!(
            "{id} submitted, due {}. It goes on if you stop waiting.",
            relative(submitted.due_at, now())
        ));
        return wait_for(&[id], args.wait_timeout, Exit::Timeout, context).await;
    }
    show(&submitted, args.at, context)?;
    Ok(Exit::Ok)
}

async fn submit(client: &Client, request: &JobRequest, key: Option<&str>) -> anyhow::Result<JobSubmitted> {
    let Some(key) = key else {
        return Ok(client.submit(request).await?);
    };
    let key = IdempotencyKey::new(key).ok_or_else(|| {
        usage("--idempotency-key is empty, too long, or not plain ASCII", "use up to 255 letters, digits and signs")
    })?;
    Ok(client.submit_with_key(request, &key).await?)
}

fn show(submitted: &JobSubmitted, asked: Option<Timestamp>, context: &Context) -> anyhow::Result<()> {
    let id = submitted.id;
    match context.out.format {
        Format::Json | Format::Jsonl => context.out.json(submitted)?,
        Format::Name | Format::Table => context.out.line(&id.to_string())?,
    }
    if asked.is_some_and(|at| at < now()) {
        context.out.hint("That time is over; it runs now.");
    }
    if context.out.format == Format::Table {
        let due = submitted.due_at;
        let shown = context.out.zone.show(due);
        context.out.hint(&format!("Due {shown} ({}). Next: punctual logs -f {id}", relative(due, now())));
    }
    Ok(())
}
