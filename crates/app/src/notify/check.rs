//! Checks of rules. Each refusal says where and what to do.

use std::collections::BTreeSet;

use punctual_api::{
    ErrorKind, NotificationMessage, NotificationPreviewRequest, NotificationRequest, NotificationTemplates,
    SlackChannel, TelegramChannel,
};
use punctual_core::Span;
use punctual_core::namespace::NamespaceId;
use punctual_core::notice::{Channel, RuleSpec, Templates};
use punctual_core::run::default_bot;
use punctual_core::task::default_queue;

use super::deliver::MessageDelivery;
use super::render;
use super::requesters::sent_to;
use crate::{AppError, Checked, Faults, Result, validate};

/// Names in each list of a rule.
const NAMES_MAX: usize = 100;
const WINDOW_MIN: Span = Span::from_secs(5);
const WINDOW_MAX: Span = Span::from_secs(86_400);
const LATE_AFTER_MIN: Span = Span::from_secs(5);
const LATE_AFTER_MAX: Span = Span::from_secs(7 * 86_400);

/// Where each part of a delivery's task stands in a rule.
const PLACES: [(&str, &str); 5] = [
    ("/run/email", "/email"),
    ("/run/slack", "/slack"),
    ("/run/telegram", "/telegram"),
    ("/run/http", "/webhook"),
    ("/queue", "/queue"),
];

/// As [`rule`], aside from the threads of requests: a template may use a core for a while.
pub(super) async fn rule_aside(request: NotificationRequest, sample: NotificationMessage) -> Result<RuleSpec> {
    let checked = tokio::task::spawn_blocking(move || rule(&request, sample)).await;
    checked.unwrap_or_else(|_| Err(AppError::new(ErrorKind::Internal, "the rule could not be checked")))
}

/// The rule with every default filled in. `sample` is what templates are tried on.
pub(super) fn rule(request: &NotificationRequest, sample: NotificationMessage) -> Result<RuleSpec> {
    let mut faults = Faults::default();
    let spec = read(request, &mut faults);
    let templates = request.templates.as_ref().map(templates).unwrap_or_default();
    check_templates(&templates, &sample, &mut faults);
    let spec = spec.map(|spec| RuleSpec { templates, ..spec });
    if let Some(spec) = &spec {
        faults.check(check_delivery(spec, sample));
    }
    faults.finish()?;
    Ok(spec.expect("a rule without a channel was refused"))
}

/// All but the templates; what was refused has its default. `None` without a channel.
fn read(request: &NotificationRequest, faults: &mut Faults) -> Option<RuleSpec> {
    let on = faults.value(on(request));
    let [tasks, queues, schedules] =
        [("/tasks", &request.tasks), ("/queues", &request.queues), ("/schedules", &request.schedules)]
            .map(|(pointer, written)| faults.value(names(pointer, written)).unwrap_or_default());
    let late_after = faults.value(late_after(request));
    let window = faults.value(window(request));
    let channel = faults.value(channel(request))?;
    Some(RuleSpec {
        on: on.unwrap_or_default(),
        tasks,
        queues,
        schedules,
        late_after: late_after.unwrap_or_else(RuleSpec::late_after_default),
        channel,
        window: window.unwrap_or_else(RuleSpec::window_default),
        templates: Templates::default(),
        queue: request.queue.clone().unwrap_or_else(default_queue),
        enabled: request.enabled.unwrap_or(true),
    })
}

/// All but the templates, which take a while.
impl Checked for NotificationRequest {
    fn check(&self) -> Result<()> {
        let mut faults = Faults::default();
        if let Some(spec) = read(self, &mut faults) {
            let written = NotificationMessage { subject: "-".to_owned(), ..NotificationMessage::default() };
            faults.check(check_channel(&spec, &written));
        }
        faults.finish()
    }
}

impl Checked for NotificationPreviewRequest {
    fn check(&self) -> Result<()> {
        self.rule.check().map_err(|error| error.under("/rule"))
    }
}

fn on(request: &NotificationRequest) -> Result<Vec<punctual_core::notice::NoticeKind>> {
    let Some(on) = &request.on else { return Ok(RuleSpec::ON_DEFAULT.to_vec()) };
    if on.is_empty() {
        return Err(AppError::field("/on", "must name at least one").hint("leave it out for all but late"));
    }
    Ok(on.iter().copied().collect::<BTreeSet<_>>().into_iter().collect())
}

fn names(pointer: &str, names: &[String]) -> Result<Vec<String>> {
    if names.len() > NAMES_MAX {
        let detail = format!("must be at most {NAMES_MAX} names, not {}", names.len());
        return Err(AppError::too_long(pointer, detail).hint("make several rules, or one for a queue"));
    }
    let mut faults = Faults::default();
    for (place, name) in names.iter().enumerate() {
        faults.check(validate::name(&format!("{pointer}/{place}"), name));
    }
    faults.finish()?;
    Ok(names.to_vec())
}

fn late_after(request: &NotificationRequest) -> Result<Span> {
    let Some(late_after) = request.late_after else { return Ok(RuleSpec::late_after_default()) };
    if !(LATE_AFTER_MIN..=LATE_AFTER_MAX).contains(&late_after) {
        let detail = format!("must be from {LATE_AFTER_MIN} to {} days", 7);
        return Err(AppError::out_of_range("/late_after", detail));
    }
    Ok(late_after)
}

fn window(request: &NotificationRequest) -> Result<Span> {
    let Some(window) = request.window else { return Ok(RuleSpec::window_default()) };
    if !(WINDOW_MIN..=WINDOW_MAX).contains(&window) {
        return Err(AppError::out_of_range("/window", format!("must be from {WINDOW_MIN} to 24h")));
    }
    Ok(window)
}

fn channel(request: &NotificationRequest) -> Result<Channel> {
    let NotificationRequest { email, slack, telegram, webhook, .. } = request;
    let email = email.as_ref().map(|email| Channel::Email {
        to: email.to.clone(),
        cc: email.cc.clone(),
        requester: email.requester,
    });
    let slack = slack.as_ref().map(|slack| Channel::Slack { webhook: slack.webhook.clone() });
    let telegram = telegram.as_ref().map(|TelegramChannel { bot, chat, silent }| Channel::Telegram {
        bot: bot.clone().unwrap_or_else(default_bot),
        chat: chat.clone(),
        silent: *silent,
    });
    let webhook = webhook
        .as_ref()
        .map(|webhook| Channel::Webhook { url: webhook.url.clone(), sign_with: webhook.sign_with.clone() });
    let mut channels = [email, slack, telegram, webhook].into_iter().flatten();
    match (channels.next(), channels.next()) {
        (Some(channel), None) => Ok(channel),
        (None, _) => Err(AppError::field("", "the rule does not say who is told")
            .hint("give one of `email`, `slack`, `telegram` and `webhook`")),
        (Some(_), Some(_)) => Err(AppError::field("", "the rule has more than one channel")
            .hint("give one of `email`, `slack`, `telegram` and `webhook`, and make another rule for the other")),
    }
}

fn templates(request: &NotificationTemplates) -> Templates {
    Templates { subject: request.subject.clone(), text: request.text.clone() }
}

fn check_templates(templates: &Templates, sample: &NotificationMessage, faults: &mut Faults) {
    for (pointer, source) in [("/templates/subject", &templates.subject), ("/templates/text", &templates.text)] {
        let Some(source) = source else { continue };
        faults.check(render::check(source, sample).map_err(|error| {
            AppError::field(pointer, error.to_string())
                .hint("POST /v1/notifications/preview shows what a template makes of a sample")
        }));
    }
}

/// What is wrong with the task that delivers is wrong with the rule.
fn check_delivery(spec: &RuleSpec, mut sample: NotificationMessage) -> Result<()> {
    render::write(&mut sample, &spec.templates);
    check_channel(spec, &sample)
}

fn check_channel(spec: &RuleSpec, written: &NotificationMessage) -> Result<()> {
    // Requesters have addresses that were checked. Copies go with a message to somebody.
    let stands_for_requesters;
    let spec = match &spec.channel {
        Channel::Email { to, cc, requester: true } if to.is_empty() && cc.is_empty() => {
            stands_for_requesters = sent_to(spec, "requester@example.invalid".to_owned());
            &stands_for_requesters
        }
        _ => spec,
    };
    // In whichever namespace it is.
    let mut delivery = MessageDelivery::new(NamespaceId::DEFAULT, spec, written).spec;
    if let punctual_core::task::Run::Slack(slack) = &mut delivery.run
        && slack.webhook == SlackChannel::HIDDEN
    {
        // It stands for an address that was checked when it was stored.
        return Ok(());
    }
    validate::spec(&delivery).map_err(in_rule)
}

/// The same error, where the rule has what is wrong.
pub(super) fn in_rule(mut error: AppError) -> AppError {
    for field in &mut error.errors {
        for (of_task, of_rule) in PLACES {
            if let Some(rest) = field.pointer.strip_prefix(of_task) {
                field.pointer = format!("{of_rule}{rest}");
                break;
            }
        }
    }
    error.under("")
}

#[cfg(test)]
#[path = "check_tests.rs"]
mod tests;
