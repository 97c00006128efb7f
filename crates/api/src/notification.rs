//! Notifications on the wire: who is told of what, and what was sent.

use std::collections::BTreeMap;
use std::fmt;

use punctual_core::notice::NoticeKind;
use punctual_core::{JobId, Span, Timestamp};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{DoneBy, Warning, schema};

/// Says who is told of what. Exactly one of `email`, `slack`, `telegram` and `webhook` says how.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NotificationRequest {
    /// All but `late` by default.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub on: Option<Vec<NoticeKind>>,
    /// Names of tasks. If `tasks`, `queues` and `schedules` are empty, everything is told; otherwise what any of them
    /// names.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    #[schema(max_items = 100)]
    pub tasks: Vec<String>,
    /// Names of queues.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    #[schema(max_items = 100)]
    pub queues: Vec<String>,
    /// Names of schedules.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    #[schema(max_items = 100)]
    pub schedules: Vec<String>,
    /// With `late`: from which lateness on; 5m by default, 5s to 7d. A schedule's own `late_after` goes before.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(value_type = Option<String>, format = "x-duration", example = "PT5M")]
    pub late_after: Option<Span>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub email: Option<EmailChannel>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub slack: Option<SlackChannel>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub telegram: Option<TelegramChannel>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub webhook: Option<WebhookChannel>,
    /// At most one message in this time; 60s by default, 5s to 24h.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(value_type = Option<String>, format = "x-duration", example = "PT1M")]
    pub window: Option<Span>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub templates: Option<NotificationTemplates>,
    /// The queue of the jobs that deliver messages; `default` by default.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub queue: Option<String>,
    /// True by default. A rule that is not enabled drops what waits to be sent.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub enabled: Option<bool>,
}

/// A mail, by the worker's mail server.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct EmailChannel {
    /// At least one, unless `requester` is true.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    #[schema(example = json!(["ops@example.com"]))]
    pub to: Vec<String>,
    /// Copies of the message to `to`.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub cc: Vec<String>,
    /// Everybody who asked for a job that a message is about gets a message of their own, with their jobs alone: whoever
    /// submitted the job or asked for the run; of a planned run, who made the schedule. Of a key, its owner.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub requester: bool,
}

/// A message to a Slack incoming webhook.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SlackChannel {
    /// The address that Slack gave, or the name of one in the worker's settings. An address is a secret: answers show
    /// it as `***`, and a `PUT` with `***` keeps the one there is.
    pub webhook: String,
}

impl SlackChannel {
    /// What is shown of an address.
    pub const HIDDEN: &str = "***";
}

impl fmt::Debug for SlackChannel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let webhook = if self.webhook.contains("://") { Self::HIDDEN } else { &self.webhook };
        f.debug_struct("SlackChannel").field("webhook", &webhook).finish()
    }
}

/// A message by a Telegram bot, whose token is in the worker's settings.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TelegramChannel {
    /// The name of a bot in the worker's setting `telegram_bots`; `default` by default.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub bot: Option<String>,
    /// The id of a chat, or the name of a public channel.
    #[schema(example = "@news")]
    pub chat: String,
    /// Recipients get no sound.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub silent: bool,
}

/// An HTTP POST with a [`NotificationMessage`].
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct WebhookChannel {
    pub url: String,
    /// The name of a key in the worker's settings: requests are signed with it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub sign_with: Option<String>,
}

/// Texts of your own. A template that cannot be rendered is replaced by the built-in text, which says so.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NotificationTemplates {
    /// At most 16 KiB.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(max_length = 16_384)]
    pub subject: Option<String>,
    /// At most 16 KiB; what it makes, at most 64 KiB.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(max_length = 16_384)]
    pub text: Option<String>,
}

/// A rule as it is stored, with every default filled in.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct NotificationView {
    pub name: String,
    pub on: Vec<NoticeKind>,
    pub tasks: Vec<String>,
    pub queues: Vec<String>,
    pub schedules: Vec<String>,
    #[schema(value_type = String, pattern = "^-?P", example = "PT5M")]
    pub late_after: Span,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub email: Option<EmailChannel>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub slack: Option<SlackChannel>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub telegram: Option<TelegramChannel>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub webhook: Option<WebhookChannel>,
    #[schema(value_type = String, pattern = "^-?P", example = "PT1M")]
    pub window: Span,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub templates: Option<NotificationTemplates>,
    pub queue: String,
    pub enabled: bool,
    /// Grows with each change.
    pub revision: u32,
    pub created: DoneBy,
    pub changed: DoneBy,
    /// What the next message will be about.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub waiting: Option<WaitingMessage>,
    /// Why its messages cannot be sent now. Absent in lists.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub warnings: Vec<Warning>,
}

/// A message that is being gathered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct WaitingMessage {
    /// Jobs and planned times.
    pub events: u64,
    #[schema(value_type = String, format = DateTime)]
    pub send_at: Timestamp,
    /// Why it is held back: earlier messages have not been sent. What happens meanwhile is merged into it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub held: Option<String>,
}

/// All notification rules.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct NotificationList {
    /// All of them, in order of name.
    pub notifications: Vec<NotificationView>,
}

/// A sample was handed to a job, which is durable.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TestAnswer {
    #[schema(schema_with = schema::job_id)]
    pub job: JobId,
    /// Why it cannot be sent now.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub warnings: Vec<Warning>,
}

/// A rule to render a sample message for. People who write templates use it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NotificationPreviewRequest {
    /// As for a `PUT`.
    pub rule: NotificationRequest,
}

/// What would be sent for a sample.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct NotificationPreview {
    pub subject: String,
    pub text: String,
}

/// A message of a rule, and the job that delivers it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct DeliveryView {
    pub rule: String,
    #[schema(value_type = String, format = DateTime)]
    pub at: Timestamp,
    /// The job that delivers it.
    #[schema(schema_with = schema::job_id)]
    pub job: JobId,
    /// How many jobs and planned times it is about.
    pub events: u32,
    /// A summary for people.
    pub summary: String,
    /// The state of the job; absent if the job was removed.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(schema_with = schema::job_state, required = false)]
    pub state: Option<String>,
    /// Why its last attempt failed, if it did; or what it waits for.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reason: Option<String>,
}

/// A page of deliveries.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct DeliveryList {
    /// The latest first.
    pub deliveries: Vec<DeliveryView>,
    /// Pass as `cursor` for the next page; absent on the last.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub next_cursor: Option<String>,
}

/// `GET /v1/deliveries?…`
#[derive(Debug, Clone, Default, Serialize, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct DeliveryQuery {
    /// 1 to 1000; 50 by default.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub limit: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cursor: Option<String>,
}

/// What a webhook gets, and what templates see.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
pub struct NotificationMessage {
    /// `punctual.notification`
    #[serde(rename = "type")]
    pub kind: String,
    pub rule: String,
    #[schema(value_type = String, format = DateTime)]
    pub at: Timestamp,
    pub subject: String,
    pub text: String,
    /// When the first and the last of what it is about happened.
    #[schema(value_type = String, format = DateTime)]
    pub since: Timestamp,
    #[schema(value_type = String, format = DateTime)]
    pub until: Timestamp,
    /// How many jobs and planned times, by what happened: the words of `on`, and `overdue`.
    pub counts: BTreeMap<String, u64>,
    /// The tasks with the most of them; at most 20.
    pub tasks: Vec<MessageTask>,
    /// How many more tasks there are; a minimum.
    #[serde(default)]
    pub more_tasks: u64,
    /// The schedules whose runs or planned times they are; at most 200.
    #[serde(default)]
    pub schedules: Vec<MessageSchedule>,
    /// There are more schedules than these.
    #[serde(default)]
    pub has_more_schedules: bool,
    /// Some of them, the most important first; at most 20.
    pub events: Vec<MessageEvent>,
}

impl NotificationMessage {
    pub const TYPE: &str = "punctual.notification";
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct MessageTask {
    /// Its name; of a one-off task, that of its schedule, or what it runs; its id if it is gone.
    pub task: String,
    pub counts: BTreeMap<String, u64>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct MessageSchedule {
    /// Its name; its id if it is gone.
    pub schedule: String,
    pub counts: BTreeMap<String, u64>,
}

/// One job, or planned times of one schedule.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct MessageEvent {
    /// One of the words of `on`, or `overdue`.
    pub kind: String,
    /// The name of the task, as in `tasks`.
    pub task: String,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub schedule: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub planned_at: Option<Timestamp>,
    /// The planned time as the clocks of the schedule's zone show it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(example = "2026-11-16 04:00:00 CET (Europe/Berlin)")]
    pub planned_local: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(schema_with = schema::job_id, required = false)]
    pub job: Option<JobId>,
    /// The time that was asked for, of the job.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub scheduled_at: Option<Timestamp>,
    /// The job's state when the message was made.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(schema_with = schema::job_state, required = false)]
    pub state: Option<String>,
    /// The job's tracing id, as whoever submitted it gave it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub tracing_id: Option<String>,
    /// When it happened.
    #[schema(value_type = String, format = DateTime)]
    pub at: Timestamp,
    /// How many jobs or planned times it stands for.
    pub count: u64,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reason: Option<String>,
    /// The last ones; at most 5.
    #[serde(default)]
    pub attempts: Vec<MessageAttempt>,
    /// How many attempts came before those.
    #[serde(default)]
    pub earlier_attempts: u64,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(value_type = Option<String>, pattern = "^-?P", example = "PT6M12S")]
    pub late_by: Option<Span>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub link: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct MessageAttempt {
    pub attempt: u32,
    /// The worker's id.
    pub worker: String,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub worker_name: Option<String>,
    /// The machine that the worker ran on.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub worker_host: Option<String>,
    #[schema(value_type = String, format = DateTime)]
    pub started_at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(value_type = Option<String>, pattern = "^-?P", example = "PT1.2S")]
    pub took: Option<Span>,
    /// How it ended.
    #[schema(schema_with = schema::attempt_state)]
    pub ending: String,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reason: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_is_read_strictly() {
        let read = |json: &str| serde_json::from_str::<NotificationRequest>(json).map_err(|error| error.to_string());
        let rule = read(r#"{"on":["failed","late"],"email":{"to":["ops@example.com"]},"window":"5m"}"#).unwrap();
        assert_eq!(rule.on, Some(vec![NoticeKind::Failed, NoticeKind::Late]));
        assert_eq!(rule.window, Some(Span::from_secs(300)));
        for (json, part) in [
            (r#"{"windows":"5m"}"#, "unknown field `windows`"),
            (r#"{"email":{"too":[]}}"#, "unknown field `too`"),
            (r#"{"on":["fail"]}"#, "unknown variant `fail`, expected one of `failed`"),
            (r#"{"window":"soon"}"#, "not a duration"),
        ] {
            let refused = read(json).unwrap_err();
            assert!(refused.contains(part), "{json}: {refused}");
        }
    }

    #[test]
    fn the_address_of_a_webhook_of_slack_is_not_shown() {
        let shown = |webhook: &str| format!("{:?}", SlackChannel { webhook: webhook.to_owned() });
        assert!(!shown("https://hooks.slack.com/services/s3cret").contains("s3cret"));
        assert!(shown("ops").contains("ops"));
    }
}
