//! `punctual import crontab`: each line becomes a task and a schedule.

mod calls;
mod flags;
mod known;
mod left_over;
mod line;
mod mail;
mod name;
mod offer;
mod reading;
mod report;
mod shell_words;
mod user_column;

use std::io::IsTerminal;

use clap::{Args, Subcommand};
use punctual_api::{ArtifactKind, IfExists, ScheduleBulkAnswer, ScheduleBulkRequest};
use punctual_client::{Client, ClientError, IfMatch};
use punctual_core::Timestamp;
use punctual_core::run::Network;
use punctual_core::schedule::recurrence::crontab::{Crontab, CrontabFormat};

use super::Context;
use crate::clock::now;
use crate::exit::{Exit, failed, usage};
use crate::field_flags::{OF_TASKS, in_flags};
use crate::input::read_file;
use crate::output::{counted, note};
use crate::upload::{Upload, upload};
use crate::wait_hints::warn;
use crate::when::{machine_zone, zone_name};
use known::Known;
use line::{Becomes, Line, Problem, Refusal, Rest, Settings};
use mail::MailRule;
use offer::Source;
use reading::{Extent, Reading};
use report::Report;
use user_column::Users;

#[derive(Debug, Subcommand)]
pub(crate) enum ImportVerb {
    /// Make tasks and schedules of a crontab
    ///
    /// A call by curl or wget becomes an HTTP task; a static program is uploaded and runs in a sandbox; other lines run by a
    /// shell with --shell, or go to a task of yours with --task. MAILTO becomes a rule that mails when a run fails or is missed. Nothing is made
    /// unless every line can be. Importing again replaces what the first time made; of a rule, only its schedules and addresses.
    Crontab(CrontabArgs),
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    crontab -l | punctual import crontab --dry-run\n  \
    punctual import crontab --system /etc/crontab --shell --prefix web1-")]
pub(crate) struct CrontabArgs {
    /// The crontab, or - for stdin [default: -]
    #[arg(value_name = "FILE")]
    file: Option<String>,
    /// Its lines name a user, like those of /etc/crontab and /etc/cron.d
    #[arg(long)]
    system: bool,
    /// Show what would be made, and make nothing
    #[arg(long)]
    dry_run: bool,
    /// Import what can be imported, leave out the rest, and exit with 9 if something was left out
    #[arg(long)]
    keep_going: bool,
    /// Run the lines that need this machine by a shell, on workers that were started with --allow-commands
    #[arg(long, conflicts_with = "task")]
    shell: bool,
    /// Hand the lines that need this machine to this task; its input is {"command", "stdin", "user", "environment"}
    #[arg(long, value_name = "NAME")]
    task: Option<String>,
    /// What the names of tasks and schedules begin with
    #[arg(long, value_name = "TEXT", default_value = "crontab-")]
    prefix: String,
    /// The zone of lines without CRON_TZ [default: this machine's]
    #[arg(long, value_name = "ZONE", value_parser = zone_name)]
    zone: Option<String>,
    /// Let programs use the worker's network
    #[arg(long)]
    network: bool,
}

pub(crate) async fn run(verb: ImportVerb, context: &Context) -> anyhow::Result<Exit> {
    match verb {
        ImportVerb::Crontab(args) => import(&args, context).await,
    }
}

async fn import(args: &CrontabArgs, context: &Context) -> anyhow::Result<Exit> {
    let text = args.text()?;
    let client = context.client()?;
    if let Some(task) = &args.task {
        client.task(task).await?;
    }
    let crontab = args.parse(&text);
    let known = Known::read(&args.prefix, &crontab.entries, &client).await;
    let reading = args.read(&crontab, known.as_ref().unwrap_or(&Known::default()), now())?;
    let Reading { lines, problems, .. } = &reading;
    let rules = mail::rules(&args.prefix, lines);
    let broken = reading.broken();
    let stops = broken > 0 && !args.keep_going;
    if args.dry_run || stops {
        if known.is_err() {
            hint_numbers(lines, context);
        }
        let known = known.or_else(tolerated)?;
        Report::new(lines, problems, &rules, None).show(&context.out)?;
        hint_mail(&rules, context);
        let broken_words = broken_words(broken, mail::problems(lines).len());
        context.out.hint(&match (broken, stops) {
            (0, _) => "Nothing was made. Import it without --dry-run.".to_owned(),
            (_, true) => format!(
                "{broken_words} cannot be imported, and nothing was made. Without {}: --keep-going",
                if broken == 1 { "it" } else { "them" }
            ),
            (_, false) => {
                format!("{broken_words} would be left out. Nothing was made. Import the rest without --dry-run.")
            }
        });
        left_over::tell_schedules(&args.prefix, &reading, &known);
        args.offer_shell(lines, context);
        return Ok(if stops { Exit::Usage } else { exit(broken) });
    }
    let known = known?;
    mail::check(&rules, &client).await?;
    let answer = make(lines, &client, context).await?;
    let mail::Stored { rules: stored, silent } = mail::store(&rules, &reading, &client).await?;
    Report::new(lines, problems, &rules, Some(&answer)).show(&context.out)?;
    if !answer.names_taken.is_empty() {
        let names = answer.names_taken.join(", ");
        return Err(failed(format!("others took these names meanwhile: {names}"), "import it again"));
    }
    left_over::tell(&args.prefix, &reading, &known, &stored, &client, &context.out).await?;
    hint_mail(&rules, context);
    if let Some(rule) = rules.first() {
        context.out.hint(&format!("Check that mails arrive: punctual notify test {}", rule.name));
    }
    if !silent.is_empty() {
        let names = silent.join(", ");
        context.out.hint(&format!("Still disabled: {names}. Enable one: punctual notify enable NAME"));
    }
    if lines.iter().any(|line| matches!(line.becomes, Ok(Becomes::Command(_)))) {
        context.out.hint(offer::COMMANDS_NEED);
    }
    let (created, replaced) = (counted(answer.created, "schedule"), answer.replaced);
    context.out.hint(&format!(
        "{created} created, {replaced} replaced. Remove the lines from the crontab, or they run twice. As with cron, \
         what is missed stays missed; to change that: punctual schedule edit NAME --catch-up last"
    ));
    if broken > 0 {
        note(&format!("{} left out; see above.", broken_words(broken, mail::problems(lines).len())));
    }
    args.offer_shell(lines, context);
    Ok(exit(broken))
}

/// Scripts must be able to tell a whole import from one that left something out.
fn exit(left_out: usize) -> Exit {
    if left_out == 0 { Exit::Ok } else { Exit::Partial }
}

/// A run that makes nothing needs no server.
fn tolerated(error: ClientError) -> Result<Known, ClientError> {
    if matches!(error, ClientError::Unreachable { .. }) { Ok(Known::default()) } else { Err(error) }
}

/// Says that names may differ, because the schedules of earlier imports could not be read.
fn hint_numbers(lines: &[Line], context: &Context) {
    let is_repeated = |line: &Line| name::parts("", &line.name).is_some_and(|(_, number)| number > 1);
    if lines.iter().any(is_repeated) {
        context.out.hint(
            "No server was reached, so lines of the same command are numbered in their order here. An import keeps the \
             schedule of each line whose time is unchanged.",
        );
    }
}

/// Lines, and lists of addresses, which are told of at lines that are fine.
fn broken_words(broken: usize, lists: usize) -> String {
    match (broken.saturating_sub(lists), lists) {
        (lines, 0) => counted(lines, "line"),
        (0, lists) => format!("{} of MAILTO", counted(lists, "list")),
        (lines, lists) => format!("{} and {} of MAILTO", counted(lines, "line"), counted(lists, "list")),
    }
}

/// What is not as with cron.
fn hint_mail(rules: &[MailRule], context: &Context) {
    if rules.is_empty() {
        return;
    }
    context.out.hint(&format!(
        "Cron mails whatever a command prints. {} when a run fails, is lost, quarantined or missed, and what it \
         prints is in `punctual logs`.",
        if rules.len() == 1 { "The rule mails" } else { "The rules mail" },
    ));
}

impl CrontabArgs {
    fn text(&self) -> anyhow::Result<String> {
        if self.file.is_none() && std::io::stdin().is_terminal() {
            return Err(usage("there is no crontab to read", "pipe it in: crontab -l | punctual import crontab"));
        }
        read_file(self.file.as_deref().unwrap_or("-"))
    }

    /// Once for all lines that it would help.
    fn offer_shell(&self, lines: &[Line], context: &Context) {
        let needing = lines.iter().filter(|line| matches!(line.becomes, Err(Refusal::NeedsMachine(_)))).count();
        if needing == 0 {
            return;
        }
        let typed: Vec<String> = std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
        context.out.hint(&offer::of_shell(needing, Source::of(self.file.as_deref()), &typed));
    }

    fn parse(&self, text: &str) -> Crontab {
        Crontab::parse(text, if self.system { CrontabFormat::System } else { CrontabFormat::User })
    }

    fn read(&self, crontab: &Crontab, known: &Known, now: Timestamp) -> anyhow::Result<Reading> {
        let zone = self.zone.clone().unwrap_or_else(machine_zone);
        let settings = Settings {
            zone: &zone,
            rest: match &self.task {
                Some(task) => Rest::Task(task),
                None if self.shell => Rest::Commands,
                None => Rest::Refused,
            },
            network: if self.network { Network::Host } else { Network::None },
            users: Users::of_machine(),
            now,
        };
        let names = name::names(&self.prefix, &crontab.entries, &zone, known);
        let named = crontab.entries.iter().zip(names);
        let lines: Vec<Line> = named.map(|(entry, name)| Line::new(entry, name, &settings)).collect();
        let of_file = crontab.diagnostics.iter().map(|diagnostic| Problem {
            line: diagnostic.line,
            severity: diagnostic.severity,
            message: diagnostic.message.clone(),
        });
        let mut problems: Vec<Problem> = of_file.chain(lines.iter().flat_map(Line::problems)).collect();
        let of_lists = mail::problems(&lines);
        let names_user = |line: &Line| matches!(line.becomes, Err(Refusal::UserColumn(_)));
        let is_whole = !crontab.has_errors() && of_lists.is_empty() && !lines.iter().any(names_user);
        problems.extend(of_lists);
        problems.sort_by_key(|problem| problem.line);
        if lines.is_empty() && problems.is_empty() {
            return Err(usage("the crontab has no lines to import", "see what cron has with `crontab -l`"));
        }
        Ok(Reading { lines, problems, extent: if is_whole { Extent::Whole } else { Extent::Part } })
    }
}

/// Tasks first: a schedule of a task that is not there would be refused. All schedules in one request.
async fn make(lines: &[Line], client: &Client, context: &Context) -> anyhow::Result<ScheduleBulkAnswer> {
    let mut schedules = Vec::new();
    let mut numbers = Vec::new();
    for line in lines {
        let Ok(becomes) = &line.becomes else { continue };
        let spec = match becomes {
            Becomes::Call(request) => Some(line::call(request)),
            Becomes::Program { path, args, env, network } => {
                let Upload { artifact, was_sent } = upload(client, path, None, ArtifactKind::Binary).await?;
                if was_sent {
                    context.out.hint(&format!("Uploaded {} as {}.", path.display(), artifact.id));
                }
                Some(line::program(artifact.id, args, env, *network))
            }
            Becomes::Command(command) => Some(line::command(command)),
            Becomes::Input { .. } => None,
        };
        if let Some(spec) = spec {
            let applied = client.apply_task(&line.name, &spec, IfMatch::Any).await;
            applied.map_err(|error| of_line(line.number, in_flags(error, OF_TASKS)))?;
        }
        schedules.push(line.schedule());
        numbers.push(line.number);
    }
    if schedules.is_empty() {
        return Ok(ScheduleBulkAnswer::default());
    }
    let request = ScheduleBulkRequest { schedules, if_exists: IfExists::Replace };
    let made = client.create_schedules(&request).await.map_err(|error| of_lines(&numbers, error))?;
    warn(&made.warnings);
    Ok(made)
}

/// Names lines of the crontab in an error in place of `/schedules/17`.
fn of_lines(numbers: &[usize], mut error: ClientError) -> ClientError {
    if let ClientError::Problem(problem) = &mut error {
        for field in &mut problem.errors {
            let Some(place) = field.pointer.strip_prefix("/schedules/") else { continue };
            let (index, rest) = place.split_once('/').unwrap_or((place, ""));
            let Some(number) = index.parse().ok().and_then(|index: usize| numbers.get(index)) else { continue };
            field.pointer = format!("line {number}: {rest}").trim_end_matches([':', ' ']).to_owned();
        }
    }
    error
}

/// Adds to an error the line of the crontab that it comes from.
fn of_line(number: usize, mut error: ClientError) -> ClientError {
    if let ClientError::Problem(problem) = &mut error {
        problem.detail = format!("line {number}: {}", problem.detail);
        for field in &mut problem.errors {
            field.pointer = format!("line {number}: {}", field.pointer).trim_end_matches([':', ' ']).to_owned();
        }
    }
    error
}

#[cfg(test)]
mod tests;
