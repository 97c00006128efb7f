//! What rules and messages look like in tables and in detail.

use comfy_table::{Cell, Color};
use punctual_api::{
    DeliveryView, DoneBy, EmailChannel, NotificationView, SlackChannel, TelegramChannel, WaitingMessage, WebhookChannel,
};
use punctual_core::notice::NoticeKind;

use super::{Detail, one_line};
use crate::clock::now;
use crate::output::{Output, Row, counted};
use crate::table::Yield;
use crate::zone::relative;

impl Row for NotificationView {
    const HEADER: &'static [&'static str] = &["NAME", "STATE", "TO", "ON", "ABOUT", "WINDOW", "WAITING"];
    const YIELDS: &'static [Yield] = &[
        Yield::Cut("ABOUT", 40),
        Yield::Cut("TO", 40),
        Yield::Drop("WINDOW"),
        Yield::Cut("ON", 20),
        Yield::Cut("ABOUT", 20),
        Yield::Cut("TO", 24),
        Yield::Drop("ON"),
        Yield::Drop("WAITING"),
        Yield::Cut("ABOUT", 12),
        Yield::Cut("NAME", 20),
        Yield::Drop("ABOUT"),
        Yield::Cut("TO", 12),
    ];

    fn name(&self) -> String {
        self.name.clone()
    }

    fn cells(&self, out: &Output) -> Vec<Cell> {
        vec![
            Cell::new(&self.name),
            standing(self.enabled, out),
            Cell::new(one_line(&channel(self))),
            Cell::new(kinds(&self.on)),
            Cell::new(one_line(&scope(self))),
            Cell::new(self.window),
            Cell::new(self.waiting.as_ref().map_or_else(|| "-".to_owned(), |waiting| waits(waiting, out))),
        ]
    }
}

fn standing(enabled: bool, out: &Output) -> Cell {
    let (word, color) = if enabled { ("enabled", Color::DarkGreen) } else { ("disabled", Color::DarkYellow) };
    if out.colored { Cell::new(word).fg(color) } else { Cell::new(word) }
}

fn waits(waiting: &WaitingMessage, out: &Output) -> String {
    format!("{} ({})", waiting.events, out.relative(waiting.send_at))
}

impl Row for DeliveryView {
    const HEADER: &'static [&'static str] = &["AT", "RULE", "STATE", "EVENTS", "SUMMARY", "JOB", "REASON"];
    const YIELDS: &'static [Yield] = &[
        Yield::Cut("REASON", 40),
        Yield::ShortTimes,
        Yield::Cut("SUMMARY", 40),
        Yield::Drop("EVENTS"),
        // Why something did not arrive says more than by which job.
        Yield::Drop("JOB"),
        Yield::Cut("REASON", 20),
        Yield::Cut("RULE", 16),
        Yield::Cut("SUMMARY", 20),
        Yield::Drop("REASON"),
        Yield::Cut("RULE", 8),
        Yield::Cut("SUMMARY", 12),
        Yield::Drop("RULE"),
    ];

    fn name(&self) -> String {
        self.job.to_string()
    }

    fn cells(&self, out: &Output) -> Vec<Cell> {
        let reason = self.reason.as_deref().map(|reason| out.zone.localize(reason));
        vec![
            Cell::new(out.time(self.at)),
            Cell::new(&self.rule),
            self.state.as_deref().map_or_else(|| Cell::new("gone"), |state| out.state(state)),
            Cell::new(self.events),
            Cell::new(one_line(&self.summary)),
            Cell::new(self.job),
            Cell::new(reason.map_or_else(|| "-".to_owned(), |reason| one_line(&reason))),
        ]
    }
}

/// `failed, lost, recovered`
fn kinds(on: &[NoticeKind]) -> String {
    on.iter().map(|kind| kind.as_str()).collect::<Vec<_>>().join(", ")
}

/// By which way, and to whom.
pub(crate) fn channel(rule: &NotificationView) -> String {
    if let Some(EmailChannel { to, requester, .. }) = &rule.email {
        let requester = requester.then(|| "whoever asked for it".to_owned());
        return to.iter().cloned().chain(requester).collect::<Vec<_>>().join(", ");
    }
    if let Some(WebhookChannel { url, .. }) = &rule.webhook {
        return url.clone();
    }
    if let Some(TelegramChannel { chat, .. }) = &rule.telegram {
        return format!("Telegram {chat}");
    }
    match &rule.slack {
        Some(SlackChannel { webhook }) if webhook == SlackChannel::HIDDEN => "a Slack channel".to_owned(),
        Some(SlackChannel { webhook }) => format!("Slack {webhook}"),
        None => "nobody".to_owned(),
    }
}

/// Whose events.
fn scope(rule: &NotificationView) -> String {
    let lists = [("task", &rule.tasks), ("queue", &rule.queues), ("schedule", &rule.schedules)];
    let parts = lists.into_iter().filter(|(_, names)| !names.is_empty()).map(|(word, names)| {
        let plural = if names.len() == 1 { "" } else { "s" };
        format!("{word}{plural} {}", names.join(", "))
    });
    let parts: Vec<String> = parts.collect();
    if parts.is_empty() { "everything".to_owned() } else { parts.join("; ") }
}

/// The events of a rule and their scope: `failed, was lost or recovered, in task invoice`.
pub(crate) fn about(rule: &NotificationView) -> String {
    let words: Vec<String> = rule.on.iter().map(|kind| verb(*kind).to_owned()).collect();
    let listed = match &words[..] {
        [] => "nothing".to_owned(),
        [only] => only.clone(),
        [some @ .., last] => format!("{} or {last}", some.join(", ")),
    };
    match scope(rule).as_str() {
        "everything" => listed,
        scope => format!("{listed}, in {scope}"),
    }
}

fn verb(kind: NoticeKind) -> &'static str {
    match kind {
        NoticeKind::Failed => "failed",
        NoticeKind::Lost => "was lost",
        NoticeKind::Quarantined => "was quarantined",
        NoticeKind::Missed => "was missed",
        NoticeKind::Late => "is late",
        NoticeKind::Recovered => "recovered",
    }
}

/// Everything that is known of a rule, and what it sent last.
pub(crate) fn detail(rule: &NotificationView, last: &[DeliveryView], out: &Output) -> String {
    let state = if rule.enabled { "enabled" } else { "disabled" };
    let mut text = Detail::new(&format!("{}  {state}", rule.name), 10);
    text.line("to", one_line(&channel(rule)));
    if let Some(EmailChannel { cc, .. }) = rule.email.as_ref().filter(|email| !email.cc.is_empty()) {
        text.line("cc", one_line(&cc.join(", ")));
    }
    if let Some(TelegramChannel { bot, silent, .. }) = &rule.telegram {
        text.optional("bot", bot.as_ref());
        if *silent {
            text.line("silent", "yes");
        }
    }
    text.optional("signed by", rule.webhook.as_ref().and_then(|webhook| webhook.sign_with.as_ref()));
    text.line("on", kinds(&rule.on));
    if rule.on.contains(&NoticeKind::Late) {
        text.line("late after", rule.late_after);
    }
    text.line("about", one_line(&scope(rule)));
    text.line("window", format!("at most one message in {}", rule.window));
    text.line("queue", &rule.queue);
    if let Some(WaitingMessage { events, send_at, held }) = &rule.waiting {
        let when = format!("{} ({})", out.zone.show(*send_at), relative(*send_at, now()));
        text.line("waiting", format!("{}, sent at {when}", counted(*events as usize, "event")));
        text.optional("held", held.as_ref());
    }
    for warning in &rule.warnings {
        text.line("warning", one_line(&warning.detail));
    }
    for (place, message) in last.iter().enumerate() {
        text.line(if place == 0 { "last" } else { "" }, message_words(message, out));
    }
    text.line("revision", rule.revision);
    text.line("created", done_by(&rule.created, out));
    text.line("changed", done_by(&rule.changed, out));
    if let Some(templates) = &rule.templates {
        for (name, template) in [("subject", &templates.subject), ("text", &templates.text)] {
            template.iter().for_each(|template| text.block(name, template));
        }
    }
    text.text
}

fn message_words(message: &DeliveryView, out: &Output) -> String {
    let state = message.state.as_deref().unwrap_or("gone");
    let mut words = format!("{} {}: {}", out.zone.show(message.at), out.state_text(state), one_line(&message.summary));
    if let Some(reason) = &message.reason {
        words += &format!(" ({})", one_line(&out.zone.localize(reason)));
    }
    words
}

fn done_by(done: &DoneBy, out: &Output) -> String {
    format!("{} by {}", out.zone.show(done.at), one_line(&done.who))
}
