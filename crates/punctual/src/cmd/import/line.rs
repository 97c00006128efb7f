//! What a line of a crontab becomes: a call, a program in a sandbox, a command, or the input of a task.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use punctual_api::{CatchUpRequest, ScheduleRequest};
use punctual_core::run::{Binary, Command, Limits, Network, default_grace};
use punctual_core::schedule::recurrence::crontab::{CrontabEntry, CrontabOverlap, Severity, Variables};
use punctual_core::schedule::recurrence::{self, Rule};
use punctual_core::schedule::{CatchUpMode, Overlap, Plan, ScheduleSpec, seed_of};
use punctual_core::task::{DeliveryMode, Run, TaskSpec, default_timeout};
use punctual_core::{ArtifactId, Span, Timestamp};
use serde_json::json;
use serde_json::value::RawValue;

use super::calls::{self, Request};
use super::mail;
use super::shell_words::{Plain, plain};
use super::user_column::{self, Users};
use crate::upload::program_problem;

/// cron does not end what takes long, and a backup may.
const PROGRAM_TIMEOUT: Span = Span::from_secs(86_400);
/// Between the end of a request and the end of its attempt.
const CALL_MARGIN: Span = Span::from_secs(60);
/// Where cron looks for programs.
const CRON_PATH: &str = "/usr/bin:/bin";
/// Variables that are meant for cron and not for the command.
const FOR_CRON: [&str; 5] = ["MAILTO", "MAILFROM", "CRON_TZ", "RANDOM_DELAY", "SHELL"];

/// What the flags say about all lines.
pub(super) struct Settings<'a> {
    /// The zone of entries without a `CRON_TZ` above them.
    pub(super) zone: &'a str,
    pub(super) rest: Rest<'a>,
    pub(super) network: Network,
    /// Names that a command does not begin with, if the lines have no user column.
    pub(super) users: Users,
    pub(super) now: Timestamp,
}

/// What becomes of lines that need the machine of the crontab.
#[derive(Debug, Clone, Copy)]
pub(super) enum Rest<'a> {
    /// They cannot be imported.
    Refused,
    /// They run by a shell on workers that allow it, as they ran by cron.
    Commands,
    /// They are the input of this task.
    Task(&'a str),
}

#[derive(Debug)]
pub(super) enum Becomes {
    Call(Box<Request>),
    Program { path: PathBuf, args: Vec<String>, env: BTreeMap<String, String>, network: Network },
    Command(Box<Command>),
    Input { task: String, input: Box<RawValue> },
}

/// Why a line cannot be imported.
#[derive(Debug)]
pub(super) enum Refusal {
    /// It needs the machine of the crontab, and nobody said how it should get there.
    NeedsMachine(String),
    /// There is no schedule for its times.
    NoPlan(String),
    /// It seems to name a user, and the crontab is read as one whose lines do not.
    UserColumn(String),
}

impl Refusal {
    fn message(&self) -> &str {
        match self {
            Self::NeedsMachine(message) | Self::NoPlan(message) | Self::UserColumn(message) => message,
        }
    }
}

/// A line that has a time and a command.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) number: usize,
    /// The name of the schedule and of its task.
    pub(super) name: String,
    pub(super) rule: Rule,
    pub(super) overlap: CrontabOverlap,
    pub(super) zone: String,
    /// When it fires, for people.
    pub(super) words: String,
    pub(super) next: Option<Timestamp>,
    /// `Err` if it cannot be imported.
    pub(super) becomes: Result<Becomes, Refusal>,
    pub(super) warnings: Vec<String>,
    /// Addresses that are mailed if it fails.
    pub(super) mail_to: Vec<String>,
}

/// What is wrong with a line, or worth a look.
#[derive(Debug)]
pub(super) struct Problem {
    pub(super) line: usize,
    pub(super) severity: Severity,
    pub(super) message: String,
}

impl Line {
    pub(super) fn new(entry: &CrontabEntry, name: String, settings: &Settings<'_>) -> Self {
        let zone = entry.zone.as_deref().unwrap_or(settings.zone).to_owned();
        let mut warnings = Vec::new();
        let mut becomes = becomes(entry, settings, &mut warnings);
        let spec = ScheduleSpec::new(recurrence::ScheduleSpec::new(entry.schedule.clone(), zone.as_str()));
        let seed = seed_of(&name);
        let (words, next) = match Plan::new(spec, &BTreeMap::new(), seed) {
            Ok(plan) => {
                let words = plan.schedule(seed).explain();
                // The zone has a column of its own.
                let words = words.strip_suffix(&format!(", {zone}")).unwrap_or(&words).to_owned();
                (words, plan.next_after(settings.now, seed).map(|planned| planned.at))
            }
            Err(error) => {
                becomes = Err(Refusal::NoPlan(error.to_string()));
                (String::new(), None)
            }
        };
        let (number, rule, mail_to) = (entry.line, entry.schedule.clone(), mail::addresses(entry));
        Self { number, name, rule, overlap: entry.overlap, zone, words, next, becomes, warnings, mail_to }
    }

    pub(super) fn problems(&self) -> impl Iterator<Item = Problem> {
        let warnings = self.warnings.iter().map(|message| (Severity::Warning, message.as_str()));
        let error = self.becomes.as_ref().err().map(|refusal| (Severity::Error, refusal.message()));
        let line = self.number;
        warnings.chain(error).map(move |(severity, message)| Problem { line, severity, message: message.to_owned() })
    }

    /// As cron does it: what was missed stays missed, and runs go side by side unless the line says otherwise.
    pub(super) fn schedule(&self) -> ScheduleRequest {
        let (cron, every) = rule_fields(&self.rule);
        let (task, input) = match &self.becomes {
            Ok(Becomes::Input { task, input }) => (task.clone(), Some(input.clone())),
            Ok(Becomes::Call(_) | Becomes::Program { .. } | Becomes::Command(_)) | Err(_) => (self.name.clone(), None),
        };
        ScheduleRequest {
            name: Some(self.name.clone()),
            task: Some(task),
            cron,
            every,
            zone: Some(self.zone.clone()),
            catch_up: Some(CatchUpRequest { mode: Some(CatchUpMode::None), ..CatchUpRequest::default() }),
            overlap: match self.overlap {
                CrontabOverlap::Allow => None,
                CrontabOverlap::Skip => Some(Overlap::Skip),
            },
            input,
            ..ScheduleRequest::default()
        }
    }
}

impl Becomes {
    /// In a few words.
    pub(super) fn words(&self) -> String {
        match self {
            Self::Call(request) => format!("{} {}", request.call.method.as_str(), request.call.url),
            Self::Program { path, args, .. } => {
                let words = std::iter::once(path.display().to_string()).chain(args.iter().cloned());
                format!("program {}", words.collect::<Vec<_>>().join(" "))
            }
            Self::Command(command) => format!("command {}", command.line),
            Self::Input { task, .. } => format!("input of {task}"),
        }
    }
}

/// `cron` and `every` of a schedule.
pub(super) fn rule_fields(rule: &Rule) -> (Option<String>, Option<Span>) {
    match rule {
        Rule::Cron(expression) => (Some(expression.to_string()), None),
        Rule::Interval { every, .. } => {
            let micros = i64::try_from(every.as_micros()).unwrap_or(i64::MAX);
            (None, Some(Span::from_micros(micros)))
        }
        Rule::Daily { .. } | Rule::Once(_) => unreachable!("a crontab has expressions and intervals"),
    }
}

/// The task of a call. It is tried again only if the line asks for it, and not after the loss of its worker.
pub(super) fn call(request: &Request) -> TaskSpec {
    let mut spec = TaskSpec::new(Run::Http(request.call.clone()));
    if request.retries == 0 {
        start_once(&mut spec);
    } else {
        spec.retry.max = request.retries;
        spec.node_retry.max = 0;
    }
    let request_end = request.call.timeout.as_micros().saturating_add(CALL_MARGIN.as_micros());
    spec.timeout = default_timeout().max(Span::from_micros(request_end));
    spec
}

/// The task of a command, with cron's habits as well.
pub(super) fn command(command: &Command) -> TaskSpec {
    as_long_as_it_takes(Run::Command(command.clone()))
}

/// The task of a program that was uploaded.
pub(super) fn program(
    artifact: ArtifactId,
    args: &[String],
    env: &BTreeMap<String, String>,
    network: Network,
) -> TaskSpec {
    as_long_as_it_takes(Run::Binary(Binary {
        artifact,
        args: args.to_vec(),
        env: env.clone(),
        files: Vec::new(),
        network,
        limits: Limits::default(),
        grace: default_grace(),
    }))
}

fn as_long_as_it_takes(run: Run) -> TaskSpec {
    let mut spec = TaskSpec::new(run);
    start_once(&mut spec);
    spec.timeout = PROGRAM_TIMEOUT;
    spec
}

/// As with cron: neither a failure nor the loss of the machine starts it again.
fn start_once(spec: &mut TaskSpec) {
    spec.delivery = DeliveryMode::AtMostOnce;
    spec.retry.max = 0;
    spec.node_retry.max = 0;
}

fn becomes(entry: &CrontabEntry, settings: &Settings<'_>, warnings: &mut Vec<String>) -> Result<Becomes, Refusal> {
    if entry.user.is_none()
        && let Some(problem) = user_column::problem(entry, &settings.users)
    {
        return Err(Refusal::UserColumn(problem));
    }
    let as_call = as_call(entry, warnings);
    let reason = match (as_call, settings.rest) {
        (Ok(becomes), _) => return Ok(becomes),
        // Where it can run as cron ran it, a sandbox would only keep it from its files.
        (Err(_), Rest::Commands) => return Ok(as_command(entry, warnings)),
        (Err(NotACall::Program(plain)), Rest::Refused | Rest::Task(_)) => {
            match as_program(entry, &plain, settings.network, warnings) {
                Ok(becomes) => return Ok(becomes),
                Err(reason) => reason,
            }
        }
        (Err(NotACall::Reason(reason)), Rest::Refused | Rest::Task(_)) => reason,
    };
    match settings.rest {
        Rest::Task(task) => {
            warnings.clear();
            Ok(Becomes::Input { task: task.to_owned(), input: input(entry) })
        }
        Rest::Refused | Rest::Commands => Err(Refusal::NeedsMachine(reason)),
    }
}

enum NotACall {
    /// It is simple enough to be a program with its arguments.
    Program(Plain),
    /// It can be nothing but a line for a shell.
    Reason(String),
}

fn as_call(entry: &CrontabEntry, warnings: &mut Vec<String>) -> Result<Becomes, NotACall> {
    let line = plain(&entry.command).map_err(NotACall::Reason)?;
    if !line.words.first().is_some_and(|program| calls::is_known(program)) {
        return Err(NotACall::Program(line));
    }
    let request = calls::translate(&line.words, entry.stdin.as_deref()).map_err(NotACall::Reason)?;
    warn_of_files(&line, warnings);
    Ok(Becomes::Call(Box::new(request)))
}

fn as_program(
    entry: &CrontabEntry,
    line: &Plain,
    network: Network,
    warnings: &mut Vec<String>,
) -> Result<Becomes, String> {
    let Some((program, args)) = line.words.split_first() else { return Err("there is no command".to_owned()) };
    let path = find(program, &entry.env)?;
    if let Some(problem) = program_problem(&path) {
        // What it advises is for somebody who builds the program.
        let fault = problem.split_once("; ").map_or(problem.as_str(), |(fault, _)| fault);
        return Err(format!("the sandbox cannot run {}: {fault}", path.display()));
    }
    if entry.stdin.is_some() {
        return Err("a program in the sandbox cannot be given the text behind `%`".to_owned());
    }
    let access = match network {
        Network::None => "no files of this machine and no network (--network allows it)",
        Network::Host => "no files of this machine",
    };
    warn_of_files(line, warnings);
    warnings.push(format!("it runs in a sandbox, with {access}"));
    Ok(Becomes::Program { path, args: args.to_vec(), env: variables(entry), network })
}

fn warn_of_files(line: &Plain, warnings: &mut Vec<String>) {
    warnings
        .extend(line.output_files.iter().map(|file| format!("what it prints is kept in the job's log, not in {file}")));
}

/// As cron runs it, but for the user.
fn as_command(entry: &CrontabEntry, warnings: &mut Vec<String>) -> Becomes {
    if let Some(user) = &entry.user {
        warnings.push(format!("it runs as the worker's user, not as {user}"));
    }
    let variable = |name: &str| entry.env.get(name).map(|value| value.to_string());
    Becomes::Command(Box::new(Command {
        shell: variable("SHELL"),
        stdin: entry.stdin.clone(),
        directory: variable("HOME"),
        environment: variables(entry),
        ..Command::new(entry.command.as_str())
    }))
}

/// What the crontab puts into the environment of the command.
fn variables(entry: &CrontabEntry) -> BTreeMap<String, String> {
    let for_command = entry.env.iter().filter(|(name, _)| !FOR_CRON.contains(&name.as_ref()));
    for_command.map(|(name, value)| (name.to_string(), value.to_string())).collect()
}

/// Where the program is, found as cron's shell would.
pub(super) fn find(program: &str, env: &Variables) -> Result<PathBuf, String> {
    if program.starts_with('/') {
        let path = PathBuf::from(program);
        return if path.is_file() { Ok(path) } else { Err(format!("there is no file {program} on this machine")) };
    }
    if program.contains('/') {
        return Err(format!("`{program}` is a path from a home folder; write it in full"));
    }
    let folders = env.get("PATH").map_or(CRON_PATH, AsRef::as_ref);
    let places = folders.split(':').map(|folder| Path::new(folder).join(program));
    let found = places.into_iter().find(|path| path.is_file());
    found.ok_or_else(|| format!("there is no program `{program}` in {folders}"))
}

/// What a task of the user's own is told of the line.
fn input(entry: &CrontabEntry) -> Box<RawValue> {
    let mut told = json!({ "command": entry.command });
    if let Some(stdin) = &entry.stdin {
        told["stdin"] = json!(stdin);
    }
    if let Some(user) = &entry.user {
        told["user"] = json!(user);
    }
    let environment: BTreeMap<&str, &str> =
        entry.env.iter().map(|(name, value)| (name.as_ref(), value.as_ref())).collect();
    told["environment"] = json!(environment);
    RawValue::from_string(told.to_string()).expect("what was made of JSON is JSON")
}
