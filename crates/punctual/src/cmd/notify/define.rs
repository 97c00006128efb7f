//! `punctual notify apply` and `preview`.

use clap::{ArgGroup, Args};
use punctual_api::{
    EmailChannel, ErrorKind, NotificationRequest, NotificationTemplates, NotificationView, SlackChannel,
    TelegramChannel, WebhookChannel,
};
use punctual_client::{Client, ClientError, IfMatch};
use punctual_core::Span;
use punctual_core::notice::NoticeKind;

use super::{named, tell};
use crate::exit::usage;
use crate::input::{read_file, text_or_file};
use crate::output::{Format, Output};
use crate::secret_files;
use crate::task_flags::word;
use crate::view;
use crate::when::{parse_span, whole};

/// Stands among addresses for everybody who asked for a job.
const REQUESTER: &str = "requester";

#[derive(Debug, Args)]
#[command(group(ArgGroup::new("channel").args(["email", "slack", "telegram", "webhook"]).required(true)))]
#[command(after_help = "Examples:\n  \
    punctual notify apply ops --email ops@example.org\n  \
    punctual notify apply own --email requester\n  \
    punctual notify apply billing --slack billing --task invoice --task dunning --on failed,lost,late --late-after 10m\n  \
    punctual notify apply pager --webhook https://example.org/hook --sign-with pager --schedule nightly --window 5m\n\n\
    Without --task, --queue and --schedule it tells of everything; with several of them, of what any one names.")]
pub(crate) struct ApplyArgs {
    /// The rule's name
    #[arg(value_name = "NAME")]
    name: String,
    /// Only if the rule still has this revision; 0: only if it does not exist
    #[arg(long, value_name = "N", value_parser = whole::<u32, 0, 4_294_967_295>)]
    if_revision: Option<u32>,
    /// Send mails to this address; may be repeated. `requester`: to everybody who asked for a job that failed, about their
    /// own jobs
    #[arg(long, value_name = "ADDRESS")]
    email: Vec<String>,
    /// A copy of each mail to this address; may be repeated
    #[arg(long, value_name = "ADDRESS", requires = "email")]
    cc: Vec<String>,
    /// Post to a Slack channel: a name from the worker's settings, the address of a webhook, or @file that holds it
    #[arg(long, value_name = "NAME")]
    slack: Option<String>,
    /// Send a message by a Telegram bot to this chat: its id, or the name of a public channel, such as @news
    #[arg(long, value_name = "CHAT", allow_hyphen_values = true)]
    telegram: Option<String>,
    /// The Telegram bot, by its name in the worker's settings [default: default]
    #[arg(long, value_name = "NAME", requires = "telegram")]
    bot: Option<String>,
    /// Send Telegram messages without a sound
    #[arg(long, requires = "telegram")]
    silent: bool,
    /// POST a JSON document to this address
    #[arg(long, value_name = "URL")]
    webhook: Option<String>,
    /// Sign what is posted with this key of the worker's settings
    #[arg(long, value_name = "KEY", requires = "webhook")]
    sign_with: Option<String>,
    /// The events to notify about, with commas: failed, lost, quarantined, missed, late, recovered [default: all but late]
    #[arg(long, value_name = "EVENTS", value_delimiter = ',', value_parser = word::<NoticeKind>)]
    on: Vec<NoticeKind>,
    /// Only of jobs of this task; may be repeated
    #[arg(short, long, value_name = "NAME", help_heading = "Filters")]
    task: Vec<String>,
    /// Only of jobs of this queue; may be repeated
    #[arg(long, value_name = "NAME", help_heading = "Filters")]
    queue: Vec<String>,
    /// Only of this schedule; may be repeated
    #[arg(long, value_name = "NAME", help_heading = "Filters")]
    schedule: Vec<String>,
    /// With `--on late`: what starts or waits this long after it was due is late; 5s to 7d [default: 5m]
    #[arg(long, value_name = "TIME", value_parser = parse_span)]
    late_after: Option<Span>,
    /// At most one message in this time; 5s to 24h [default: 60s]
    #[arg(long, value_name = "TIME", value_parser = parse_span)]
    window: Option<Span>,
    #[command(flatten)]
    templates: TemplateFlags,
    /// The queue of the jobs that send [default: default]
    #[arg(long, value_name = "NAME")]
    send_queue: Option<String>,
    /// Store it, and tell nothing yet
    #[arg(long)]
    disabled: bool,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Templates")]
pub(super) struct TemplateFlags {
    /// A file with a template of the subject, or - for stdin
    #[arg(long, value_name = "FILE")]
    subject_template: Option<String>,
    /// A file with a template of the text, or - for stdin
    #[arg(long, value_name = "FILE")]
    text_template: Option<String>,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    punctual notify preview ops\n  \
    punctual notify preview --text-template ops.txt      the file as it is now, without a rule")]
pub(crate) struct PreviewArgs {
    /// The rule's name; without one, the built-in texts
    #[arg(value_name = "NAME")]
    name: Option<String>,
    #[command(flatten)]
    templates: TemplateFlags,
}

impl TemplateFlags {
    /// Changes what is given, and nothing else.
    fn apply(&self, request: &mut NotificationRequest) -> anyhow::Result<()> {
        if [&self.subject_template, &self.text_template].into_iter().all(|file| file.as_deref() == Some("-")) {
            return Err(usage("stdin can be read only once", "put one of the two templates into a file"));
        }
        let (subject, text) = (read(self.subject_template.as_deref())?, read(self.text_template.as_deref())?);
        if subject.is_none() && text.is_none() {
            return Ok(());
        }
        let templates = request.templates.get_or_insert_with(NotificationTemplates::default);
        // The line break that ends a file is not part of a subject.
        templates.subject = subject.map(|text| text.trim_end().to_owned()).or(templates.subject.take());
        templates.text = text.or(templates.text.take());
        Ok(())
    }
}

fn read(file: Option<&str>) -> anyhow::Result<Option<String>> {
    file.map(read_file).transpose()
}

impl ApplyArgs {
    fn request(&self) -> anyhow::Result<NotificationRequest> {
        if self.late_after.is_some() && !self.on.contains(&NoticeKind::Late) {
            return Err(usage("--late-after is given, and nothing tells of what is late", "add --on failed,late"));
        }
        let mut request = NotificationRequest {
            on: (!self.on.is_empty()).then(|| self.on.clone()),
            tasks: self.task.clone(),
            queues: self.queue.clone(),
            schedules: self.schedule.clone(),
            late_after: self.late_after,
            window: self.window,
            queue: self.send_queue.clone(),
            enabled: self.disabled.then_some(false),
            ..NotificationRequest::default()
        };
        if !self.email.is_empty() {
            let (requester, to): (Vec<_>, Vec<_>) = self.email.iter().cloned().partition(|to| to == REQUESTER);
            request.email = Some(EmailChannel { to, cc: self.cc.clone(), requester: !requester.is_empty() });
        }
        if let Some(written) = &self.slack {
            if let Some(file) = written.strip_prefix('@') {
                secret_files::warn(file);
            }
            request.slack = Some(SlackChannel { webhook: text_or_file(written)?.trim().to_owned() });
        }
        if let Some(chat) = &self.telegram {
            let (bot, chat) = (self.bot.clone(), chat.clone());
            request.telegram = Some(TelegramChannel { bot, chat, silent: self.silent });
        }
        if let Some(url) = &self.webhook {
            request.webhook = Some(WebhookChannel { url: url.clone(), sign_with: self.sign_with.clone() });
        }
        self.templates.apply(&mut request)?;
        Ok(request)
    }
}

pub(super) async fn apply(args: &ApplyArgs, client: &Client, out: &Output) -> anyhow::Result<()> {
    let request = args.request()?;
    let stored = client.put_notification(&args.name, &request, IfMatch::of_revision(args.if_revision)).await;
    let rule = stored.map_err(|error| named(with_address(error, &request)))?;
    let name = &rule.name;
    let replaced = if rule.revision > 1 { format!("Revision {}, replaced. ", rule.revision) } else { String::new() };
    let next = match rule.enabled {
        true => format!("Try it: punctual notify test {name}"),
        false => format!("It is silent until you run: punctual notify enable {name}"),
    };
    let sentence = format!(
        "{replaced}Tells {} of what {}. {next}",
        view::notification::channel(&rule),
        view::notification::about(&rule)
    );
    tell(&rule, &sentence, out)?;
    hint_unknown(&rule, client, out).await;
    Ok(())
}

/// Adds to an error the address that it is about: people who typed several should not have to count them.
fn with_address(mut error: ClientError, request: &NotificationRequest) -> ClientError {
    /// An address may be of any length.
    const SHOWN_CHARS: usize = 64;
    let (ClientError::Problem(problem), Some(email)) = (&mut error, &request.email) else { return error };
    for field in &mut problem.errors {
        for (list, addresses) in [("/email/to/", &email.to), ("/email/cc/", &email.cc)] {
            let place: Option<usize> = field.pointer.strip_prefix(list).and_then(|place| place.parse().ok());
            let Some(address) = place.and_then(|place| addresses.get(place)) else { continue };
            field.detail = format!("`{}` {}", address.chars().take(SHOWN_CHARS).collect::<String>(), field.detail);
        }
    }
    error
}

/// A rule may come before what it is about; a name that was mistyped looks the same.
async fn hint_unknown(rule: &NotificationView, client: &Client, out: &Output) {
    let mut unknown = Vec::new();
    for name in &rule.tasks {
        if is_missing(client.task(name).await, ErrorKind::TaskNotFound) {
            unknown.push(format!("task named {name}"));
        }
    }
    for name in &rule.schedules {
        if is_missing(client.schedule(name).await, ErrorKind::ScheduleNotFound) {
            unknown.push(format!("schedule named {name}"));
        }
    }
    if !unknown.is_empty() {
        out.hint(&format!("There is no {} yet.", unknown.join(" and no ")));
    }
}

/// Whether an answer says that something does not exist. Other errors prove nothing.
fn is_missing<T>(found: Result<T, ClientError>, kind: ErrorKind) -> bool {
    found.is_err_and(|error| error.kind() == Some(kind))
}

pub(super) async fn preview(args: &PreviewArgs, client: &Client, out: &Output) -> anyhow::Result<()> {
    let mut request = match &args.name {
        Some(name) => as_request(client.notification(name).await.map_err(named)?),
        None => NotificationRequest::default(),
    };
    // The way does not matter, and that of a rule may be a secret that we were not told.
    (request.slack, request.telegram, request.webhook) = (None, None, None);
    request.email = Some(EmailChannel { to: vec!["preview@example.org".to_owned()], cc: Vec::new(), requester: false });
    args.templates.apply(&mut request)?;
    let preview = client.preview_notification(&request).await.map_err(named)?;
    match out.format {
        Format::Json | Format::Jsonl => out.json(&preview),
        Format::Name => out.line(&preview.subject),
        Format::Table => out.write(&format!("Subject: {}\n\n{}\n", preview.subject, preview.text.trim_end())),
    }
}

/// What would store a rule again as it is. An address that is not shown stays the one there is.
pub(crate) fn as_request(rule: NotificationView) -> NotificationRequest {
    let NotificationView { on, tasks, queues, schedules, late_after, email, slack, telegram, webhook, window, .. } =
        rule;
    NotificationRequest {
        // It counts with `late` only.
        late_after: on.contains(&NoticeKind::Late).then_some(late_after),
        on: Some(on),
        tasks,
        queues,
        schedules,
        email,
        slack,
        telegram,
        webhook,
        window: Some(window),
        templates: rule.templates,
        queue: Some(rule.queue),
        enabled: Some(rule.enabled),
    }
}
