//! The form of a job: one for each kind, with the command that does the same.

use maud::{Markup, html};
use punctual_core::access::Right;

use crate::commands::{curl, punctual};
use crate::job_form::{JobForm, JobKind};
use crate::layout::{self, Content, command, head, refused};
use crate::text::user;
use crate::times::zone_name;
use crate::{FormFault, Page, Viewer};

/// What the form would send.
#[derive(Debug, Clone)]
pub struct JobPreview {
    pub form: JobForm,
    /// The names of tasks, to choose from.
    pub tasks: Vec<String>,
    /// Why it was refused.
    pub fault: Option<FormFault>,
}

pub fn new_job(viewer: &Viewer, shown: &JobPreview) -> Page {
    let JobPreview { form, tasks, fault } = shown;
    let kind = form.kind();
    let main = html! {
        (head("New job", &html! { "It is stored before you get an answer, and runs when its time has come." }, &html! {}))
        nav.tabs aria-label="What it does" {
            @for other in JobKind::ALL {
                @if viewer.may(needed(*other)) {
                    a href=(format!("/jobs/new?kind={}", other.name())) aria-current=[(*other == kind).then_some("page")] { (other.title()) }
                }
            }
        }
        (refused(fault.as_ref()))
        div.editor {
            form.form.panel method="post" action="/jobs/new" data-preview="/jobs/preview" {
                input type="hidden" name="kind" value=(kind.name());
                input type="hidden" name="once" value=(form.once);
                fieldset { legend { (kind.title()) } (what(kind, form, tasks)) }
                (when(viewer, form))
                (rules(kind, form))
                div.actions {
                    button.first type="submit" { "Create job" }
                    button type="submit" formaction="/jobs/preview" data-script-hides { "Show the command" }
                }
            }
            aside.side #preview aria-live="polite" { (preview(viewer, form)) }
        }
    };
    layout::page(viewer, &Content::still("New job", None), &main)
}

/// A job that is defined inline defines a task.
fn needed(kind: JobKind) -> Right {
    match kind {
        JobKind::Task => Right::SubmitJobs,
        JobKind::Command => Right::UseCommands,
        _ => Right::EditTasks,
    }
}

fn preview(viewer: &Viewer, form: &JobForm) -> Markup {
    html! {
        section.panel {
            div.row { h2 { "The same in a terminal" } }
            @match form.request() {
                Ok(_) if form.is_blank() => { p.muted { "Fill in the form, and the command that does the same appears here." } }
                Ok(request) => {
                    @if let Some(words) = form.words() {
                        (command("preview-command", &punctual(viewer, &words.iter().map(String::as_str).collect::<Vec<_>>())))
                    }
                    (command("preview-curl", &curl(viewer, "POST", "/v1/jobs", Some(&request))))
                }
                Err(fault) => { p.error { (user(&fault.detail)) } }
            }
            @if form.when == "at" {
                @if let Ok(at) = crate::job_form::instant(form.at.trim(), form.zone.trim()) { p.muted { "It is due at " b { (at) } "." } }
            }
        }
    }
}

/// A field in a line.
fn field(label: &str, name: &str, value: &str, hint: &str) -> Markup {
    html! { label { (label) input name=(name) value=(value) placeholder=(hint) autocomplete="off" spellcheck="false"; } }
}

fn required(label: &str, name: &str, value: &str, hint: &str) -> Markup {
    html! { label.wide { (label) input name=(name) value=(value) placeholder=(hint) required autocomplete="off" spellcheck="false"; } }
}

/// A field of several lines. The first line break of a text area does not count, so one is written.
fn area(label: &str, name: &str, value: &str, hint: &str) -> Markup {
    html! { label.wide { (label) textarea.mono name=(name) rows="3" placeholder=(hint) spellcheck="false" { "\n" (value) } } }
}

fn choice(label: &str, name: &str, value: &str, options: &[(&str, &str)]) -> Markup {
    html! { label { (label) select name=(name) { @for (option, text) in options { option value=(option) selected[*option == value] { (text) } } } } }
}

fn what(kind: JobKind, form: &JobForm, tasks: &[String]) -> Markup {
    html! {
        @match kind {
            JobKind::Task => {
                label.wide { "Task" input name="task" value=(form.task) list="tasks" required autocomplete="off" spellcheck="false"; }
                datalist #tasks { @for task in tasks { option value=(task) {} } }
            }
            JobKind::Http => {
                (required("Address", "url", &form.url, "https://example.com/health"))
                (choice("Method", "method", &form.method, &[("", "GET"), ("HEAD", "HEAD"), ("POST", "POST"), ("PUT", "PUT"), ("PATCH", "PATCH"), ("DELETE", "DELETE")]))
                (area("Headers, one a line", "headers", &form.headers, "Accept: application/json"))
                (area("Body", "body", &form.body, ""))
            }
            JobKind::Ping => { (required("Address", "url", &form.url, "https://example.com/health")) }
            JobKind::Webhook => {
                (required("Address", "url", &form.url, "https://example.com/hook"))
                (area("Headers, one a line", "headers", &form.headers, "Content-Type: application/json"))
                (area("Body", "body", &form.body, "Without one, the input of the job"))
            }
            JobKind::Email => {
                (required("To", "to", &form.to, "ops@example.com, dev@example.com"))
                (field("Copies to", "cc", &form.cc, ""))
                (required("Subject", "subject", &form.subject, ""))
                (area("Text", "text", &form.text, "Without one, the input of the job"))
            }
            JobKind::Slack => {
                (required("Webhook: a name from the worker's settings, or an address", "channel", &form.channel, "ops"))
                (area("Text", "text", &form.text, ""))
            }
            JobKind::Telegram => {
                (required("Chat: its id, or the name of a public channel", "chat", &form.chat, "@news"))
                (field("Bot", "bot", &form.bot, "default"))
                (area("Text", "text", &form.text, ""))
            }
            JobKind::Command => {
                (area("Line for the shell of a worker with --allow-commands", "line", &form.line, "df -h"))
                (area("Environment, one NAME=value a line", "environment", &form.environment, ""))
            }
            JobKind::Binary => {
                (required("Artifact", "artifact", &form.artifact, "artifact_…"))
                (area("Arguments, one a line", "args", &form.args, "--verbose"))
                (area("Environment, one NAME=value a line", "environment", &form.environment, ""))
                p.hint.wide { "Upload the file first: " code { "punctual artifact create ./tool" } " · " a href="/artifacts" { "Artifacts" } }
            }
            JobKind::Handler => { (required("Name of the function in your worker", "handler", &form.handler, "resize")) }
            JobKind::Workflow => { (required("Workflow", "workflow", &form.workflow, "nightly")) }
            JobKind::Probe => {
                (field("Sleep", "sleep", &form.sleep, "2s"))
                (field("Fail the first attempts", "fail_times", &form.fail_times, "0"))
                (area("Print and return", "output", &form.output, "hello"))
            }
        }
    }
}

fn when(viewer: &Viewer, form: &JobForm) -> Markup {
    let zone = if form.zone.is_empty() { zone_name(&viewer.zone) } else { form.zone.clone() };
    html! {
        fieldset {
            legend { "When" }
            (choice("Start", "when", &form.when, &[("now", "as soon as possible"), ("at", "at a time"), ("in", "after a delay")]))
            label { "Time" input type="datetime-local" step="1" name="at" value=(form.at); }
            label { "Time zone of this time" input name="zone" list="zones" value=(zone) autocomplete="off" spellcheck="false"; }
            (field("Delay", "delay", &form.delay, "10m, 2h, 7d"))
        }
    }
}

fn rules(kind: JobKind, form: &JobForm) -> Markup {
    html! {
        details {
            summary { "Input and rules" }
            fieldset {
                (area("Input as JSON", "input", &form.input, "{\"day\": \"monday\"}"))
                @if kind != JobKind::Task {
                    (field("Queue", "queue", &form.queue, "default"))
                    (field("Time limit of an attempt", "timeout", &form.timeout, "20m"))
                    (field("Retries", "retries", &form.retries, "3"))
                    (choice("Delivery", "delivery", &form.delivery, &[("", "at least once"), ("at_most_once", "at most once"), ("exactly_once", "exactly once")]))
                }
                (field("Priority, -100 to 100", "priority", &form.priority, "0"))
                (field("Tracing id", "tracing_id", &form.tracing_id, ""))
            }
        }
    }
}
