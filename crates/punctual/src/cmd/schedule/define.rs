//! `punctual schedule create` and `edit`.

use clap::Args;
use punctual_api::{PlannedStart, ScheduleRequest, ScheduleView};
use punctual_client::{Client, ClientError, IfMatch};
use punctual_core::Span;

use super::named;
use super::policy::{PolicyFlags, Unset};
use super::when::{WhenFlags, set_zone};
use crate::exit::usage;
use crate::field_flags::{OF_SCHEDULES, in_flags};
use crate::output::{Format, Output};
use crate::task_flags::{BinaryFlags, SpecFlags, Target, TargetFlags, nothing_to_run, sparse, with_inline};
use crate::view::schedule::next_lines;
use crate::wait_hints::warn;
use crate::zone::{plain_local, short};

/// Starts that the answer to a new schedule names.
const STARTS_TOLD: usize = 3;

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    punctual schedule create nightly --task report --cron '30 2 * * MON-FRI' --zone Europe/Berlin\n  \
    punctual schedule create heartbeat --ping https://example.org/health --every 90s\n  \
    punctual schedule create twice --task report --daily 09:30 --daily 17:30 --exclude holidays\n  \
    punctual schedule create backup --task ./backup --daily 01:00 --overlap skip -- --full")]
pub(crate) struct CreateArgs {
    /// The schedule's name
    #[arg(value_name = "NAME")]
    name: String,
    #[command(flatten)]
    definition: Definition,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    punctual schedule edit nightly --cron '0 3 * * MON-FRI'\n  \
    punctual schedule edit nightly --catch-up all --unset jitter,end-at")]
pub(crate) struct EditArgs {
    /// The schedule's name; `punctual schedule list` shows them
    #[arg(value_name = "NAME")]
    name: String,
    /// Set back to the default: start-at, end-at, jitter, gap, fold, exclude, include, on-closed-day, overlap, catch-up,
    /// max-runs, pause-after-failures, late-after, input or priority; several with commas
    #[arg(long, value_name = "NAMES", value_delimiter = ',', hide_possible_values = true)]
    unset: Vec<Unset>,
    #[command(flatten)]
    definition: Definition,
}

#[derive(Debug, Args)]
struct Definition {
    /// The name of a task or, with a slash in it, the path of a static binary; or say what to run with --http, --email, --slack, --telegram, --command, --probe or --handler
    #[arg(long, value_name = "TASK")]
    task: Option<String>,
    #[command(flatten)]
    when: WhenFlags,
    #[command(flatten)]
    policy: PolicyFlags,
    #[command(flatten)]
    binary: BinaryFlags,
    #[command(flatten)]
    spec: SpecFlags,
    /// What the binary is called with
    #[arg(last = true, value_name = "ARGS")]
    args: Vec<String>,
}

impl Definition {
    fn target_flags(&self) -> TargetFlags<'_> {
        TargetFlags { task: self.task.as_deref(), spec: &self.spec, binary: &self.binary, args: &self.args }
    }

    async fn apply(&self, request: &mut ScheduleRequest, client: &Client, out: &Output) -> anyhow::Result<()> {
        self.when.apply(request);
        self.policy.apply(request)?;
        if self.target_flags().is_given() {
            let mut target = self.target_flags().target(request.input.as_deref())?;
            self.target_flags().upload(&mut target, client, out).await?;
            let Target { task, inline } = target;
            (request.task, request.inline) = (task, inline);
        }
        Ok(())
    }
}

fn as_typed(error: ClientError, spec: &SpecFlags) -> anyhow::Error {
    named(spec.in_typed(in_flags(error, OF_SCHEDULES)))
}

pub(super) async fn create(args: &CreateArgs, client: &Client, out: &Output) -> anyhow::Result<()> {
    if !args.definition.when.has_rules() {
        return Err(usage("nothing says when to run it", "use --cron, --every, --daily or --at"));
    }
    let mut request = ScheduleRequest { name: Some(args.name.clone()), ..ScheduleRequest::default() };
    if !args.definition.target_flags().is_given() {
        return Err(nothing_to_run());
    }
    args.definition.apply(&mut request, client, out).await?;
    set_zone(&mut request);
    let inline = request.inline.take().map(|spec| sparse(&spec, args.definition.spec.unset()));
    let schedule = client.create_schedule(&with_inline(&request, inline)).await;
    let schedule = schedule.map_err(|error| as_typed(error, &args.definition.spec))?;
    warn(&schedule.warnings);
    match out.format {
        Format::Json | Format::Jsonl => return out.json(&schedule),
        Format::Name => return out.line(&schedule.name),
        Format::Table => {}
    }
    let next: Vec<PlannedStart> = schedule.next.iter().take(STARTS_TOLD).cloned().collect();
    let mut text = format!("{}  {}\n", schedule.name, out.zone.localize(&schedule.explanation));
    next_lines(&mut text, &next);
    out.write(&text)?;
    out.hint(&format!("More starts, and clock changes: punctual schedule preview {}", schedule.name));
    Ok(())
}

pub(super) async fn edit(args: &EditArgs, client: &Client, out: &Output) -> anyhow::Result<()> {
    let before = client.schedule(&args.name).await.map_err(named)?;
    let mut request = before.definition;
    let was = serde_json::to_value(&request)?;
    for unset in &args.unset {
        unset.apply(&mut request);
    }
    args.definition.apply(&mut request, client, out).await?;
    if was == serde_json::to_value(&request)? {
        return Err(usage(
            "nothing would change",
            "say with flags what is to change; `punctual schedule get` tells what is",
        ));
    }
    // Whoever changed it meanwhile is not overruled.
    let only = IfMatch::Revision(before.revision);
    let after = client.apply_schedule(&args.name, &request, only).await;
    let after = after.map_err(|error| as_typed(error, &args.definition.spec))?;
    warn(&after.warnings);
    match out.format {
        Format::Json | Format::Jsonl => return out.json(&after),
        Format::Name => return out.line(&after.name),
        Format::Table => {}
    }
    out.write(&moved(&after, out))?;
    out.hint(&format!("Revision {}. What it is now: punctual schedule get {}", after.revision, after.name));
    Ok(())
}

/// The coming starts by the former definition and by the new one, side by side.
fn moved(schedule: &ScheduleView, out: &Output) -> String {
    let mut text = format!("{}  {}\n", schedule.name, out.zone.localize(&schedule.explanation));
    let Some(moves) = &schedule.moves else { return text };
    if moves.before == moves.after {
        text += "  its coming starts stay as they were\n";
        return text;
    }
    let with_delay = |start: &PlannedStart| match start.start_at.since(start.at) {
        Span::ZERO => plain_local(&start.local),
        delay => format!("{} +{}", plain_local(&start.local), short(delay)),
    };
    let before: Vec<String> = moves.before.iter().map(with_delay).collect();
    let after: Vec<String> = moves.after.iter().map(with_delay).collect();
    let width = before.iter().map(|shown| shown.chars().count()).max().unwrap_or_default().max("before".len());
    text += &format!("  {:<width$}  after\n", "before");
    for place in 0..before.len().max(after.len()) {
        let shown = |starts: &[String]| starts.get(place).cloned().unwrap_or_else(|| "-".to_owned());
        text += &format!("  {:<width$}  {}\n", shown(&before), shown(&after));
    }
    text
}

#[cfg(test)]
mod tests;
