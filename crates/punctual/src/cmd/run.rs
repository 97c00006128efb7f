//! `punctual run` and `punctual job submit`.

use clap::{ArgGroup, Args};
use punctual_api::{JobRequest, JobSubmitted};
use punctual_client::{Client, IdempotencyKey, Logs};
use punctual_core::task::Priority;
use punctual_core::{JobId, Span, Timestamp};
use serde_json::value::RawValue;

use super::flags::{self, in_flags};
use super::patience::Patience;
use super::spec::{JobInput, SpecFlags, priority};
use super::wait::{Late, gave_up, of_state, say_pending, wait_for};
use super::{Context, logs, text_or_file};
use crate::exit::{Exit, usage};
use crate::output::{Format, note};
use crate::when::{parse_at, parse_span};
use crate::world::now;
use crate::zone::relative;

#[derive(Debug, Args)]
#[command(group(ArgGroup::new("waits").args(["wait", "follow"]).multiple(true)))]
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
    /// With --wait or --follow: stop waiting after this time, with exit code 124
    #[arg(long, value_name = "TIME", value_parser = parse_span, requires = "waits")]
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
        let input = input.transpose()?;
        Ok(JobRequest {
            task: self.task.clone(),
            inline: self.spec.spec(if input.is_some() { JobInput::Given } else { JobInput::None })?,
            run_at: self.at.or_else(|| Some(now + self.after?)),
            input,
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
    let patience = Patience::new(args.wait_timeout.map(Span::to_std), &context.out);
    patience.found();
    if args.follow {
        context.out.hint(&format!("{id} submitted, due {}", relative(submitted.due_at, now())));
        return follow(&client, id, &patience, context).await;
    }
    if args.wait {
        context.out.hint(&format!(
            "{id} submitted, due {}. It goes on if you stop waiting.",
            relative(submitted.due_at, now())
        ));
        return wait_for(&[id], &patience, LATE, context).await;
    }
    show(&submitted, args.at, context)?;
    Ok(Exit::Ok)
}

const LATE: Late = Late::TimedOut("--wait-timeout");

/// Prints what the job writes, and how it ended.
async fn follow(client: &Client, id: JobId, patience: &Patience<'_>, context: &Context) -> anyhow::Result<Exit> {
    let following = logs::follow(client, id, Logs::default(), patience, context);
    let followed = match patience.left() {
        Some(left) => tokio::time::timeout(left, following).await.ok(),
        None => Some(following.await),
    };
    let Some(job) = followed else {
        say_pending(&client.job(id).await?, context);
        return Ok(gave_up(id, LATE, context));
    };
    let job = job?;
    note(&format!("{id} {}: {}", job.state, context.out.zone.localize(&job.explanation)));
    Ok(of_state(&job.state))
}

async fn submit(client: &Client, request: &JobRequest, key: Option<&str>) -> anyhow::Result<JobSubmitted> {
    let Some(key) = key else {
        return client.submit(request).await.map_err(|error| in_flags(error, flags::OF_JOBS).into());
    };
    let key = IdempotencyKey::new(key).ok_or_else(|| {
        usage("--idempotency-key is empty, too long, or not plain ASCII", "use up to 255 letters, digits and signs")
    })?;
    client.submit_with_key(request, &key).await.map_err(|error| in_flags(error, flags::OF_JOBS).into())
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
