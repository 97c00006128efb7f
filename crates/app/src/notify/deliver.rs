//! Hands messages to jobs, which are durable, retried and on record like all others.

use bytes::Bytes;
use punctual_api::NotificationMessage;
use punctual_core::namespace::NamespaceId;
use punctual_core::notice::{Channel, RuleSpec};
use punctual_core::retry::RetryPolicy;
use punctual_core::task::{Email, HttpCall, Method, Priority, Run, Slack, Task, TaskSpec, Telegram};
use punctual_core::{JobId, Span, Timestamp};
use punctual_store::{DeliveryRow, NewJob};
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::render;
use crate::submit::WantedTask;
use crate::{App, Result};

/// An attempt at a delivery that takes longer is stuck.
const TIMEOUT: Span = Span::from_secs(5 * 60);
/// With the waits of [`retries`], the last one is about three days after the first attempt.
const RETRIES: u16 = 80;
/// A message that no worker has taken for this long is given up: it would be no news any more.
const UNSENT_KEPT_FOR: Span = Span::from_secs(86_400);
/// Slack folds what is longer, and cuts at 40,000.
const SLACK_CHARS_MAX: usize = 12_000;

/// What the tracing ids of deliveries begin with; the name of the rule follows.
const TRACED_AS: &str = "notification:";

/// A message and how it goes out.
pub(super) struct MessageDelivery {
    namespace: NamespaceId,
    pub(super) rule: String,
    pub(super) spec: TaskSpec,
    input: Bytes,
    events: u64,
    summary: String,
}

impl MessageDelivery {
    pub(super) fn new(namespace: NamespaceId, rule: &RuleSpec, message: &NotificationMessage) -> Self {
        let (run, input) = match &rule.channel {
            Channel::Email { to, cc, .. } => {
                // The text is the job's own: tasks are kept in memory by all servers.
                (email(to, cc, without_placeholders(&message.subject)), json!(message.text))
            }
            Channel::Slack { webhook } => {
                let run = Run::Slack(Slack { webhook: webhook.clone(), text: None });
                (run, json!({ "text": slack_text(message) }))
            }
            Channel::Telegram { bot, chat, silent } => (telegram(bot, chat, *silent), json!(telegram_text(message))),
            Channel::Webhook { url, sign_with } => {
                let sign_with = sign_with.clone();
                let headers = [("content-type".to_owned(), "application/json".to_owned())].into();
                let call = HttpCall { method: Method::Post, sign_with, headers, ..HttpCall::new(url.clone()) };
                (Run::Http(call), json!(message))
            }
        };
        let events = message.counts.values().fold(0_u64, |sum, count| sum.saturating_add(*count));
        Self {
            namespace,
            rule: message.rule.clone(),
            spec: quiet(rule, run),
            input: Bytes::from(input.to_string()),
            events,
            summary: render::summary(message),
        }
    }

    #[must_use]
    pub(super) fn summary(self, summary: String) -> Self {
        Self { summary, ..self }
    }

    fn record(&self, job: JobId, at: Timestamp) -> DeliveryRow {
        DeliveryRow {
            namespace: self.namespace,
            rule: self.rule.clone(),
            at,
            job,
            events: u32::try_from(self.events).unwrap_or(u32::MAX),
            summary: self.summary.clone(),
        }
    }
}

/// Nobody is told when a delivery fails, or every failure would make another.
fn quiet(rule: &RuleSpec, run: Run) -> TaskSpec {
    TaskSpec {
        queue: rule.queue.clone(),
        // Ahead of what it tells about.
        priority: Priority::new(Priority::MAX).unwrap_or_default(),
        retry: retries(),
        node_retry: RetryPolicy { initial: Span::from_secs(1), ..retries() },
        timeout: TIMEOUT,
        queue_timeout: Some(UNSENT_KEPT_FOR),
        quiet: true,
        ..TaskSpec::new(run)
    }
}

/// What a worker must be able to do that sends messages of a rule.
pub(super) fn sending_spec(rule: &RuleSpec) -> TaskSpec {
    let run = match &rule.channel {
        Channel::Email { to, cc, .. } => email(to, cc, String::new()),
        Channel::Slack { webhook } => Run::Slack(Slack { webhook: webhook.clone(), text: None }),
        Channel::Telegram { bot, chat, silent } => telegram(bot, chat, *silent),
        Channel::Webhook { url, .. } => Run::Http(HttpCall::new(url.clone())),
    };
    quiet(rule, run)
}

fn retries() -> RetryPolicy {
    RetryPolicy {
        max: RETRIES,
        initial: Span::from_secs(5),
        factor: 2.0,
        cap: Span::from_secs(3600),
        ..RetryPolicy::default()
    }
}

fn email(to: &[String], cc: &[String], subject: String) -> Run {
    Run::Email(Email {
        to: to.to_vec(),
        cc: cc.to_vec(),
        bcc: Vec::new(),
        reply_to: None,
        subject,
        text: None,
        html: None,
    })
}

/// A subject is a part of the task, and what failed may have written a part of the subject: it must not get secrets.
fn without_placeholders(subject: &str) -> String {
    let mut apart = subject.to_owned();
    while apart.contains("{{") {
        apart = apart.replace("{{", "{ {");
    }
    apart
}

fn telegram(bot: &str, chat: &str, silent: bool) -> Run {
    Run::Telegram(Telegram { bot: bot.to_owned(), silent, ..Telegram::new(chat) })
}

/// Plain text, cut to the length that Telegram accepts.
fn telegram_text(message: &NotificationMessage) -> String {
    // No character is more than two UTF-16 units.
    render::cut(&format!("{}\n\n{}", message.subject, message.text.trim_end()), Telegram::TEXT_UNITS_MAX / 2)
}

/// In Slack's markup, in which these three signs mean something.
fn slack_text(message: &NotificationMessage) -> String {
    let escaped = |text: &str| text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let text = render::cut(message.text.trim_end(), SLACK_CHARS_MAX);
    format!("*{}*\n{}", escaped(&message.subject), escaped(&text))
}

/// The rule whose message a job delivers.
pub(crate) fn delivered_rule<'a>(tracing_id: Option<&'a str>, task: &Task) -> Option<&'a str> {
    tracing_id.filter(|_| task.spec.quiet)?.strip_prefix(TRACED_AS)
}

/// Jobs that deliver, ready to be stored.
pub(super) struct Outgoing {
    pub(super) jobs: Vec<NewJob>,
    pub(super) rows: Vec<DeliveryRow>,
    /// The task of each job.
    pub(super) tasks: Vec<Arc<Task>>,
}

impl App {
    /// The task of each delivery, in order. A rule sends in its own namespace, on the workers of that.
    async fn sending_tasks(&self, deliveries: &[MessageDelivery]) -> Result<Vec<Arc<Task>>> {
        let mut places: BTreeMap<NamespaceId, Vec<usize>> = BTreeMap::new();
        for (place, delivery) in deliveries.iter().enumerate() {
            places.entry(delivery.namespace).or_default().push(place);
        }
        let mut tasks: Vec<Option<Arc<Task>>> = vec![None; deliveries.len()];
        for (namespace, places) in places {
            let inline = |place: &usize| WantedTask { name: None, inline: Some(&deliveries[*place].spec) };
            let wanted: Vec<WantedTask<'_>> = places.iter().map(inline).collect();
            let resolved = self.resolve_tasks(namespace, &wanted, |_| String::new()).await?;
            for (place, task) in places.into_iter().zip(resolved) {
                tasks[place] = Some(task);
            }
        }
        Ok(tasks.into_iter().map(|task| task.expect("every delivery has a task")).collect())
    }

    /// Their tasks are stored now; without a job they are forgotten again.
    pub(super) async fn outgoing(&self, deliveries: &[MessageDelivery], now: Timestamp) -> Result<Outgoing> {
        let tasks = self.sending_tasks(deliveries).await?;
        let shards = self.shards_for_new_jobs();
        let mut jobs = Vec::with_capacity(deliveries.len());
        let mut rows = Vec::with_capacity(deliveries.len());
        for (delivery, task) in deliveries.iter().zip(&tasks) {
            let shard = shards[(self.random() % shards.len() as u64) as usize];
            let id = JobId::new(now, shard, self.random());
            jobs.push(NewJob {
                id,
                namespace: task.namespace,
                task: task.id,
                priority: task.spec.priority,
                submitted_at: now,
                tracing_id: Some(format!("{TRACED_AS}{}", delivery.rule)),
                source: None,
                requester: None,
                node: None,
                member: None,
                input: Some(delivery.input.clone()),
            });
            rows.push(delivery.record(id, now));
        }
        Ok(Outgoing { jobs, rows, tasks })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subject_that_something_else_wrote_gets_no_secrets() {
        let hostile = "failed: {{ secret.db }} {{{secret.db}}} {{{{secret.db";
        assert!(punctual_core::run::secrets_in(&without_placeholders(hostile)).is_empty());
    }

    #[test]
    fn retries_go_on_for_about_three_days() {
        let policy = retries();
        policy.check().unwrap();
        let waits = (1..=policy.max).filter_map(|retry| policy.wait(retry, 0.5));
        let total: i64 = waits.map(Span::as_micros).sum();
        let days = total as f64 / 86_400e6;
        assert!((2.5..3.5).contains(&days), "{days} days");
    }
}
