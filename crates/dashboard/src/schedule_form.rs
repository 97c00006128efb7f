//! The form of a schedule, with its next runs while it is written.

use maud::{Markup, html};
use punctual_api::{Preview, ScheduleRequest};
use punctual_core::access::Right;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use crate::commands::{curl, punctual};
use crate::job_form::instant;
use crate::layout::{self, Content, command, head, refused};
use crate::text::{clean, escaped, user};
use crate::times::{ago, time, with_times, zone_name};
use crate::{FormFault, Page, Viewer};

/// The fields of the form, as they were written.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ScheduleForm {
    pub name: String,
    /// `task`, `workflow`, `http` or `command`.
    pub what: String,
    pub target: String,
    /// `cron`, `every`, `daily` or `at`.
    pub rule: String,
    pub value: String,
    pub zone: String,
    pub start_at: String,
    pub end_at: String,
    pub overlap: String,
    pub catch_up: String,
    pub jitter: String,
    pub input: String,
    /// Of the schedule that is changed.
    pub revision: String,
    /// What a definition has that this form does not show: it is kept.
    pub rest: String,
}

fn given(text: &str) -> Option<&str> {
    let text = text.trim();
    (!text.is_empty()).then_some(text)
}

/// What the form shows of a definition.
const SHOWN: [&str; 15] = [
    "name", "task", "workflow", "inline", "cron", "every", "daily", "at", "zone", "start_at", "end_at", "overlap",
    "catch_up", "jitter", "input",
];

impl ScheduleForm {
    /// What is known of a schedule, to be changed. `None`: the definition is more than the form can show.
    pub fn of(request: &ScheduleRequest, name: &str, revision: u32) -> Option<Self> {
        let Ok(Value::Object(mut all)) = serde_json::to_value(request) else { return None };
        let mut take = |name: &str| match all.remove(name) {
            Some(Value::String(text)) => text,
            Some(other) => other.to_string(),
            None => String::new(),
        };
        let mut form = Self { name: name.to_owned(), revision: revision.to_string(), ..Self::default() };
        take("name");
        for what in ["task", "workflow"] {
            let target = take(what);
            if !target.is_empty() {
                (form.what, form.target) = (what.to_owned(), target);
            }
        }
        for rule in ["cron", "every", "daily", "at"] {
            let value = take(rule);
            if !value.is_empty() {
                (form.rule, form.value) = (rule.to_owned(), value);
            }
        }
        (form.zone, form.start_at, form.end_at) = (take("zone"), take("start_at"), take("end_at"));
        (form.overlap, form.catch_up, form.jitter) = (take("overlap"), take("catch_up"), take("jitter"));
        form.input = request.input.as_ref().map(|input| input.get().to_owned()).unwrap_or_default();
        take("input");
        if form.rule.is_empty() || form.what.is_empty() {
            return None;
        }
        if form.catch_up.starts_with('{') {
            let mode: Value = serde_json::from_str(&form.catch_up).unwrap_or_default();
            let is_mode_alone = mode.as_object().is_some_and(|mode| mode.len() == 1);
            match mode.get("mode").and_then(Value::as_str).filter(|_| is_mode_alone) {
                Some(mode) => form.catch_up = mode.to_owned(),
                None => {
                    all.insert("catch_up".to_owned(), mode);
                    form.catch_up = String::new();
                }
            }
        }
        form.rest = Value::Object(all).to_string();
        Some(form)
    }

    /// The body of `PUT /v1/schedules/{name}`. `zone` counts where the form has none.
    pub fn request(&self, zone: &str) -> Result<String, FormFault> {
        let mut request: Map<String, Value> = match given(&self.rest) {
            Some(rest) => serde_json::from_str(rest).map_err(|_| FormFault {
                detail: "the form was changed on its way".to_owned(),
                hint: Some("load the page again".to_owned()),
            })?,
            None => Map::new(),
        };
        request.retain(|name, _| !SHOWN.contains(&name.as_str()) || name == "catch_up");
        let target = self.target.trim();
        let (name, value) = match self.what.as_str() {
            "workflow" => ("workflow", target.into()),
            "http" => ("inline", json!({ "run": { "http": { "url": target } } })),
            "command" => ("inline", json!({ "run": { "command": { "line": target } } })),
            _ => ("task", target.into()),
        };
        request.insert(name.to_owned(), value);
        let zone = given(&self.zone).unwrap_or(zone);
        request.insert("zone".to_owned(), zone.into());
        let rule = if ["every", "daily", "at"].contains(&self.rule.as_str()) { self.rule.as_str() } else { "cron" };
        let value = if rule == "at" { moment(&self.value, zone)? } else { self.value.trim().to_owned() };
        request.insert(rule.to_owned(), value.into());
        for (name, value) in [("start_at", &self.start_at), ("end_at", &self.end_at)] {
            if let Some(value) = given(value) {
                request.insert(name.to_owned(), moment(value, zone)?.into());
            }
        }
        for (name, value) in [("overlap", &self.overlap), ("catch_up", &self.catch_up), ("jitter", &self.jitter)] {
            if let Some(value) = given(value) {
                request.insert(name.to_owned(), value.into());
            }
        }
        let mut text = serde_json::to_string(&Value::Object(request)).expect("a request is JSON");
        if let Some(input) = given(&self.input) {
            let raw: &RawValue = serde_json::from_str(input).map_err(|error| FormFault {
                detail: format!("the input is not valid JSON: {error}"),
                hint: Some("write a JSON value, such as {\"day\": \"monday\"}".to_owned()),
            })?;
            text.truncate(text.len() - 1);
            text.push_str(",\"input\":");
            text.push_str(raw.get());
            text.push('}');
        }
        Ok(text)
    }

    /// The arguments of `punctual` that do the same.
    fn words(&self, zone: &str) -> Vec<String> {
        let mut words: Vec<String> =
            ["schedule", if self.revision.is_empty() { "create" } else { "edit" }, self.name.trim()]
                .map(str::to_owned)
                .to_vec();
        let zone = given(&self.zone).unwrap_or(zone);
        let flags = [
            (self.what.as_str(), self.target.as_str()),
            (self.rule.as_str(), self.value.as_str()),
            ("zone", zone),
            ("start-at", &self.start_at),
            ("end-at", &self.end_at),
            ("overlap", &self.overlap),
            ("catch-up", &self.catch_up),
            ("jitter", &self.jitter),
            ("input", &self.input),
        ];
        for (flag, value) in flags {
            if let (false, Some(value)) = (flag.is_empty(), given(value)) {
                let is_local =
                    ["at", "start-at", "end-at"].contains(&flag) && !value.ends_with('Z') && !value.contains('+');
                let value = if is_local { format!("{} {zone}", value.replace('T', " ")) } else { value.to_owned() };
                words.extend([format!("--{flag}"), value]);
            }
        }
        words
    }
}

/// A time with an offset, or as clocks in the zone of the schedule show it.
fn moment(text: &str, zone: &str) -> Result<String, FormFault> {
    let text = text.trim();
    if text.parse::<jiff::Timestamp>().is_ok() { Ok(text.to_owned()) } else { instant(text, zone) }
}

/// The form, and what it means.
#[derive(Debug, Clone)]
pub struct SchedulePreview {
    pub form: ScheduleForm,
    pub tasks: Vec<String>,
    /// The next runs, if the form says when.
    pub next: Option<Result<Preview, FormFault>>,
    /// Why it was not saved.
    pub fault: Option<FormFault>,
}

pub fn edit_schedule(viewer: &Viewer, shown: &SchedulePreview) -> Page {
    let SchedulePreview { form, tasks, fault, .. } = shown;
    let is_new = form.revision.is_empty();
    let title = if is_new { "New schedule".to_owned() } else { format!("Edit {}", form.name) };
    let address = if is_new { "/schedules/new".to_owned() } else { format!("/schedules/{}/edit", escaped(&form.name)) };
    let main = html! {
        (head(&title, &html! { "What runs, and when. The next runs are shown as you write." }, &html! {}))
        (refused(fault.as_ref()))
        div.editor {
            form.form.panel method="post" action=(address) data-preview="/schedules/preview" {
                input type="hidden" name="revision" value=(form.revision);
                input type="hidden" name="rest" value=(form.rest);
                (fields(viewer, form, tasks, is_new))
                div.actions {
                    button.first type="submit" { @if is_new { "Create schedule" } @else { "Save" } }
                    button type="submit" formaction="/schedules/preview" data-script-hides { "Show the next runs" }
                }
            }
            aside.side #preview aria-live="polite" { (preview(viewer, shown)) }
        }
    };
    layout::page(viewer, &Content::still(&title, None), &main)
}

fn fields(viewer: &Viewer, form: &ScheduleForm, tasks: &[String], is_new: bool) -> Markup {
    let text = |label: &str, name: &str, value: &str, hint: &str| {
        html! { label { (label) input name=(name) value=(value) placeholder=(hint) autocomplete="off" spellcheck="false"; } }
    };
    let choice = |label: &str, name: &str, value: &str, options: &[(&str, &str)]| {
        html! { label { (label) select name=(name) { @for (option, text) in options { option value=(option) selected[*option == value] { (text) } } } } }
    };
    let mut whats = vec![("task", "a stored task"), ("workflow", "a workflow")];
    if viewer.may(Right::EditTasks) {
        whats.push(("http", "a call of an address"));
    }
    if viewer.may(Right::UseCommands) {
        whats.push(("command", "a command on a worker"));
    }
    let zone = if form.zone.is_empty() { zone_name(&viewer.zone) } else { form.zone.clone() };
    html! {
        fieldset {
            legend { "What" }
            label.wide { "Name" input name="name" value=(form.name) required readonly[!is_new] autocomplete="off" spellcheck="false" placeholder="nightly-report"; }
            (choice("Runs", "what", &form.what, &whats))
            label { "Its name, address or line" input name="target" value=(form.target) list="tasks" required autocomplete="off" spellcheck="false"; }
            datalist #tasks { @for task in tasks { option value=(task) {} } }
        }
        fieldset {
            legend { "When" }
            (choice("Rule", "rule", &form.rule, &[("cron", "cron expression"), ("every", "interval"), ("daily", "every day at"), ("at", "once at")]))
            label { "Value" input name="value" value=(form.value) required autocomplete="off" spellcheck="false" placeholder="30 2 * * MON-FRI"; }
            label { "Time zone" input name="zone" list="zones" value=(zone) autocomplete="off" spellcheck="false"; }
            p.hint.wide { "Such as " code { "*/15 * * * *" } ", " code { "6h" } ", " code { "09:30" } " or " code { "2026-12-24T18:00" } "." }
        }
        details {
            summary { "Limits and policies" }
            fieldset {
                (text("From", "start_at", &form.start_at, "2026-12-24T00:00"))
                (text("Until", "end_at", &form.end_at, ""))
                (choice("When a run has not ended", "overlap", &form.overlap, &[("", "start another one"), ("skip", "skip the time"), ("queue_one", "queue one"), ("queue_all", "queue all"), ("cancel_previous", "cancel the one before")]))
                (choice("Missed runs", "catch_up", &form.catch_up, &[("", "run the last one"), ("none", "run none"), ("all", "run all")]))
                (text("Jitter", "jitter", &form.jitter, "1m"))
                label.wide { "Input of each run as JSON" textarea.mono name="input" rows="2" spellcheck="false" { "\n" (form.input) } }
            }
        }
    }
}

fn preview(viewer: &Viewer, shown: &SchedulePreview) -> Markup {
    let SchedulePreview { form, next, .. } = shown;
    let zone = zone_name(&viewer.zone);
    html! {
        section.panel {
            div.row { h2 { "Next runs" } }
            @match next {
                None => { p.muted { "Write when it runs, and its next runs appear here." } }
                Some(Err(fault)) => { p.error { (user(&fault.detail)) } @if let Some(hint) = &fault.hint { p.muted { (user(hint)) } } }
                Some(Ok(preview)) => {
                    p { (user(&preview.explanation)) }
                    table {
                        thead { tr { th scope="col" { "In " (clean(&preview.zone)) } @if preview.zone != zone { th scope="col" { "In " (zone) } } } }
                        tbody {
                            @for planned in &preview.occurrences {
                                tr {
                                    td.wrap {
                                        (clean(&planned.local))
                                        @if let Some(note) = &planned.note { span.small.warning { (user(note)) } }
                                        @if planned.unfired.is_some() { span.small.muted { "does not run" } }
                                        @else if preview.zone == zone { span.small { (ago(viewer, planned.start_at)) } }
                                    }
                                    @if preview.zone != zone { td { (time(viewer, planned.start_at)) span.small { (ago(viewer, planned.start_at)) } } }
                                }
                            }
                        }
                    }
                    @for change in &preview.clock_changes { p.small.warning { (user(&change.explanation)) ": " (with_times(viewer, &change.effects.join("; "))) } }
                }
            }
        }
        @if let (Ok(request), false) = (form.request(&zone), form.name.trim().is_empty()) {
            section.panel {
                div.row { h2 { "The same in a terminal" } }
                (command("preview-command", &punctual(viewer, &form.words(&zone).iter().map(String::as_str).collect::<Vec<_>>())))
                (command("preview-curl", &curl(viewer, "PUT", &format!("/v1/schedules/{}", escaped(form.name.trim())), Some(&request))))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form() -> ScheduleForm {
        ScheduleForm {
            name: "nightly".into(),
            what: "task".into(),
            target: "report".into(),
            rule: "cron".into(),
            value: "0 3 * * *".into(),
            ..ScheduleForm::default()
        }
    }

    fn read(form: &ScheduleForm) -> Value {
        let body = form.request("Europe/Berlin").unwrap();
        serde_json::from_str::<ScheduleRequest>(&body).unwrap();
        serde_json::from_str(&body).unwrap()
    }

    #[test]
    fn a_form_is_a_request_and_a_command() {
        assert_eq!(read(&form()), json!({ "task": "report", "cron": "0 3 * * *", "zone": "Europe/Berlin" }));
        assert_eq!(form().words("UTC").join(" "), "schedule create nightly --task report --cron 0 3 * * * --zone UTC");
        let once =
            ScheduleForm { rule: "at".into(), value: "2026-12-24T18:00".into(), overlap: "skip".into(), ..form() };
        assert_eq!(
            read(&once),
            json!({ "task": "report", "at": "2026-12-24T18:00:00+01:00", "zone": "Europe/Berlin", "overlap": "skip" })
        );
        let call = ScheduleForm { what: "http".into(), target: "https://example.com/".into(), ..form() };
        assert_eq!(read(&call)["inline"], json!({ "run": { "http": { "url": "https://example.com/" } } }));
    }

    #[test]
    fn what_the_form_does_not_show_survives_an_edit() {
        let before: ScheduleRequest = serde_json::from_value(json!({
            "task": "report", "cron": "0 3 * * *", "zone": "UTC", "gap": "skip", "max_runs": 7, "late_after": "PT5M",
            "calendars": { "exclude": ["holidays"] }, "catch_up": { "mode": "all", "max": 7 }, "input": 1.50,
        }))
        .unwrap();
        let mut form = ScheduleForm::of(&before, "nightly", 3).unwrap();
        assert_eq!((form.rule.as_str(), form.value.as_str(), form.input.as_str()), ("cron", "0 3 * * *", "1.5"));
        form.value = "0 4 * * *".to_owned();
        let after: ScheduleRequest = serde_json::from_str(&form.request("UTC").unwrap()).unwrap();
        let expected = ScheduleRequest { cron: Some("0 4 * * *".to_owned()), ..before };
        assert_eq!(serde_json::to_value(after).unwrap(), serde_json::to_value(expected).unwrap());
    }

    #[test]
    fn a_definition_that_the_form_cannot_show_is_not_edited_with_it() {
        let rules: ScheduleRequest =
            serde_json::from_value(json!({ "task": "t", "rules": [{ "cron": "0 3 * * *" }, { "daily": "09:30" }] }))
                .unwrap();
        assert_eq!(ScheduleForm::of(&rules, "s", 1), None);
    }
}
