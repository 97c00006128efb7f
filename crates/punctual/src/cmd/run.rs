//! `punctual run` and `punctual job create`.

use std::path::Path;

use clap::{ArgGroup, Args};
use punctual_api::{ErrorKind, Job, JobRequest, JobSubmitted};
use punctual_client::{Client, ClientError, IdempotencyKey, Logs, Waited};
use punctual_core::attempt::Ending;
use punctual_core::task::Priority;
use punctual_core::{Span, Timestamp};
use serde_json::value::RawValue;

use super::wait::{Late, gave_up, of_state, say_pending, wait_finished, wait_for};
use super::{Context, logs};
use crate::clock::now;
use crate::exit::{Exit, Refusal, usage};
use crate::field_flags::{self, in_flags};
use crate::output::{Format, Raw, note};
use crate::reconnection::Reconnection;
use crate::task_flags::{BinaryFlags, SpecFlags, TargetFlags, priority, read_input, sparse, with_inline};
use crate::tips::nearest;
use crate::wait_hints::{DueTime, tell_why_they_wait, warn};
use crate::when::{parse_at, parse_span};
use crate::zone::relative;

#[derive(Debug, Args)]
#[command(group(ArgGroup::new("waits").args(["wait", "follow"]).multiple(true)))]
#[command(after_help = "Examples:\n  \
    punctual run nightly-report --input '{\"day\":\"monday\"}' --wait\n  \
    punctual run nightly-report --at '2026-12-24 18:00 Europe/Berlin'\n  \
    punctual run ./tool --memory 64MiB -- --verbose\n  \
    punctual run --webhook https://example.org/hook --body '{}' --in 10m\n  \
    punctual run --email ops@example.org --subject 'It is done' --text 'All of it.'\n  \
    punctual run --slack ops --text 'It is done' --at '2026-12-24 18:00 Europe/Berlin'\n  \
    punctual run --telegram @news --text 'It is done' --silent\n  \
    punctual run --command 'df -h | mail root' --queue host-web1\n  \
    punctual run --probe '{\"sleep\":\"1s\",\"output\":\"hi\"}' --follow")]
pub(crate) struct RunArgs {
    /// The name of a task or, with a slash in it, the path of a static binary; or say what to run with --http, --email, --slack, --telegram, --command, --probe or --handler
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
    /// An id of your own that the job carries into logs, calls and messages
    #[arg(long, value_name = "TEXT")]
    tracing_id: Option<String>,
    /// Submissions with the same key make one job
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
    /// Wait until it has finished; exit with code 3 unless it succeeded
    #[arg(short, long)]
    wait: bool,
    /// Print what it writes until it has finished; exits like --wait. A binary that runs now is followed, and its exit code is passed on
    #[arg(short, long)]
    follow: bool,
    /// Pass control sequences in what it writes to the terminal; without it they are shown as codes, such as ^[[31m
    #[arg(long, conflicts_with_all = ["wait", "detach"])]
    raw: bool,
    /// With --wait or --follow, or for a binary that runs now: stop waiting after this time, with exit code 124
    #[arg(long, value_name = "TIME", value_parser = parse_span, conflicts_with = "detach")]
    wait_timeout: Option<Span>,
    /// For a binary that runs now: do not wait for it
    #[arg(short, long, conflicts_with = "waits")]
    detach: bool,
    #[command(flatten)]
    binary: BinaryFlags,
    #[command(flatten)]
    spec: SpecFlags,
    /// What the binary is called with
    #[arg(last = true, value_name = "ARGS")]
    args: Vec<String>,
}

impl RunArgs {
    fn target_flags(&self) -> TargetFlags<'_> {
        TargetFlags { task: self.task.as_deref(), spec: &self.spec, binary: &self.binary, args: &self.args }
    }

    /// A binary that runs now is watched, like any other program that is started.
    fn follows(&self) -> bool {
        let is_now = self.at.is_none() && self.after.is_none();
        self.follow || (self.target_flags().file().is_some() && is_now && !self.wait && !self.detach)
    }

    /// A limit on waiting has no meaning for a command that does not wait.
    fn check(&self) -> anyhow::Result<()> {
        if self.wait_timeout.is_some() && !self.wait && !self.follows() {
            return Err(usage("--wait-timeout is given, but the command does not wait", "add --wait or --follow"));
        }
        Ok(())
    }

    /// Whether the command stands for the program that it runs.
    pub(crate) fn passes_exit_code_on(&self) -> bool {
        (self.follows() || self.wait) && self.target_flags().file().is_some()
    }

    /// What the command exits with after the job has finished.
    fn exit_of(&self, job: &Job) -> Exit {
        if self.passes_exit_code_on() { of_program(job) } else { of_state(&job.state) }
    }

    async fn request(&self, client: &Client, context: &Context) -> anyhow::Result<JobRequest> {
        let input = read_input(self.input.as_deref())?;
        let mut target = self.target_flags().target(input.as_deref())?;
        self.target_flags().upload(&mut target, client, &context.out).await?;
        Ok(JobRequest {
            task: target.task,
            inline: target.inline,
            run_at: self.at,
            // By the server's clock: this machine's may be another.
            delay: self.after,
            input,
            priority: self.priority,
            tracing_id: self.tracing_id.clone(),
        })
    }
}

pub(crate) async fn run(args: RunArgs, context: &Context) -> anyhow::Result<Exit> {
    args.check()?;
    let client = context.client()?;
    let mut request = args.request(&client, context).await?;
    let inline = request.inline.take().map(|spec| sparse(&spec, args.spec.unset()));
    let request = with_inline(&request, inline);
    let submitted = submit(&client, &request, args.idempotency_key.as_deref()).await;
    let submitted = match submitted {
        Ok(submitted) => submitted,
        Err(error) => {
            let error = match error.downcast::<ClientError>() {
                Ok(error) => args.spec.in_typed(error).into(),
                Err(error) => error,
            };
            return Err(or_near(or_file(error, args.task.as_deref()), args.task.as_deref(), &client).await);
        }
    };
    warn(&submitted.warnings);
    if args.follows() || args.wait {
        return tokio::select! {
            exit = watch(&args, &client, &submitted, context) => exit,
            _ = tokio::signal::ctrl_c() => {
                let id = submitted.id;
                note(&format!("{id} continues; to cancel it: punctual cancel {id}"));
                Ok(Exit::Interrupted)
            }
        };
    }
    show(&submitted, args.at, context)?;
    Ok(Exit::Ok)
}

/// Waits for the job to finish, with or without what it prints.
async fn watch(args: &RunArgs, client: &Client, submitted: &JobSubmitted, context: &Context) -> anyhow::Result<Exit> {
    let id = submitted.id;
    let reconnection = Reconnection::new(args.wait_timeout.map(Span::to_std), &context.out);
    reconnection.found();
    if args.follows() && context.out.format == Format::Name {
        // What it prints would be taken for names.
        context.out.line(&id.to_string())?;
        return match wait_finished(client, id, &submitted.warnings, &reconnection, context).await? {
            Waited::Finished(job) => Ok(args.exit_of(&job)),
            Waited::Pending(job) => {
                say_pending(&job, context);
                Ok(gave_up(id, LATE, context))
            }
        };
    }
    if args.follows() {
        context.out.hint(&format!("{id} submitted, due {}", relative(submitted.due_at, now())));
        return Ok(match follow(client, submitted, args.raw.into(), &reconnection, context).await? {
            Some(job) => args.exit_of(&job),
            None => gave_up(id, LATE, context),
        });
    }
    context.out.hint(&format!(
        "{id} submitted, due {}. The job continues if you stop waiting.",
        relative(submitted.due_at, now())
    ));
    match wait_for(&[id], &submitted.warnings, &reconnection, LATE, context).await? {
        Exit::JobFailed if args.passes_exit_code_on() => Ok(of_program(&client.job(id).await?)),
        exit => Ok(exit),
    }
}

/// Whoever names a file of this folder like a task is told how to name it.
fn or_file(error: anyhow::Error, task: Option<&str>) -> anyhow::Error {
    let kind = error.downcast_ref::<ClientError>().and_then(ClientError::kind);
    match task.filter(|name| kind == Some(ErrorKind::TaskNotFound) && Path::new(name).is_file()) {
        Some(name) => {
            let (message, hint) =
                (format!("there is no task named {name}"), format!("to run the file, write ./{name}"));
            Refusal { exit: Exit::NotFound, message, hint }.into()
        }
        None => error,
    }
}

/// Whoever mistypes the name of a task is told the right one.
async fn or_near(error: anyhow::Error, task: Option<&str>, client: &Client) -> anyhow::Error {
    /// Enough for most, and one page.
    const LOOKED_AT: usize = 1000;
    let kind = error.downcast_ref::<ClientError>().and_then(ClientError::kind);
    let Some(typed) = task.filter(|_| kind == Some(ErrorKind::TaskNotFound)) else { return error };
    let Ok(known) = client.tasks(Some(LOOKED_AT), None).await else { return error };
    let Some(name) = nearest(typed, known.tasks.iter().map(|task| task.name.as_str())) else { return error };
    let message = format!("there is no task named {typed}");
    let hint = format!("the nearest name is `{name}`; `punctual task list` shows all of them");
    Refusal { exit: Exit::NotFound, message, hint }.into()
}

const LATE: Late = Late::TimedOut("--wait-timeout");

/// Prints what the job writes, and how it ended. `None` if there was no time to see that.
async fn follow(
    client: &Client,
    submitted: &JobSubmitted,
    raw: Raw,
    reconnection: &Reconnection<'_>,
    context: &Context,
) -> anyhow::Result<Option<Job>> {
    let id = submitted.id;
    let ids = [id];
    let telling = tell_why_they_wait(client, &ids, &submitted.warnings, DueTime::Told, &context.out);
    let following = async {
        tokio::select! {
            job = logs::follow(client, id, Logs::default(), None, raw, reconnection, context) => job,
            never = telling => match never {},
        }
    };
    let followed = match reconnection.left() {
        Some(left) => tokio::time::timeout(left, following).await.ok(),
        None => Some(following.await),
    };
    let Some(job) = followed else {
        say_pending(&client.job(id).await?, context);
        return Ok(None);
    };
    let job = job?;
    note(&format!("{id} {}: {}", job.state, context.out.zone.localize(&job.explanation)));
    Ok(Some(job))
}

/// How the program of the last attempt exited. A time limit and failures of ours have codes that programs leave alone; so
/// has a program that exited with 0 and whose attempt failed, as when its output is too long.
fn of_program(job: &Job) -> Exit {
    const SIGNALLED: i32 = 128;
    if of_state(&job.state) == Exit::Ok {
        return Exit::Ok;
    }
    let Some(last) = job.attempts.last() else { return Exit::NotRun };
    if last.state == Ending::TimedOut.as_str() {
        return Exit::Timeout;
    }
    let details = last.details.as_ref();
    let code = details.and_then(|details| details.exit_code.or_else(|| Some(SIGNALLED + details.signal?)));
    code.and_then(|code| u8::try_from(code).ok()).filter(|code| *code != 0).map_or(Exit::NotRun, Exit::Program)
}

async fn submit(client: &Client, request: &RawValue, key: Option<&str>) -> anyhow::Result<JobSubmitted> {
    let Some(key) = key else {
        return client.submit(request).await.map_err(|error| in_flags(error, field_flags::OF_JOBS).into());
    };
    let key = IdempotencyKey::new(key).ok_or_else(|| {
        usage("--idempotency-key is empty, too long, or not plain ASCII", "use up to 255 letters, digits and signs")
    })?;
    client.submit_with_key(request, &key).await.map_err(|error| in_flags(error, field_flags::OF_JOBS).into())
}

fn show(submitted: &JobSubmitted, asked: Option<Timestamp>, context: &Context) -> anyhow::Result<()> {
    let id = submitted.id;
    match context.out.format {
        Format::Json | Format::Jsonl => context.out.json(submitted)?,
        Format::Name | Format::Table => context.out.line(&id.to_string())?,
    }
    if asked.is_some_and(|at| at < now()) {
        context.out.hint("That time is in the past; the job runs now.");
    }
    if context.out.format == Format::Table {
        let due = submitted.due_at;
        let shown = context.out.zone.show(due);
        context.out.hint(&format!("Due {shown} ({}). Next: punctual logs -f {id}", relative(due, now())));
    }
    Ok(())
}
