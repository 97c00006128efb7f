//! Rules: who is told of what. Their owner is nobody; the server that reports reads them before each round.

use punctual_api::{
    EmailChannel, ErrorKind, NotificationList, NotificationPreview, NotificationPreviewRequest, NotificationRequest,
    NotificationTemplates, NotificationView, SlackChannel, TelegramChannel, TestAnswer, WaitingMessage, Warning,
    WebhookChannel,
};
use punctual_core::access::Right;
use punctual_core::namespace::NamespaceId;
use punctual_core::notice::{Channel, RuleSpec};
use punctual_core::run::Slack;
use punctual_core::schedule::By;
use punctual_core::shard::event::Command;
use punctual_store::{Dispatch, Dispatched, JobRecord, RULES_MAX, RULES_OF_ALL_MAX, RuleChange, RuleDeletion, RuleRow};

use super::deliver::{MessageDelivery, sending_spec};
use super::messages::UNSENT_MAX;
use super::requesters::sent_to;
use super::waiting::RuleState;
use super::{check, render, sample};
use crate::placement::no_worker;
use crate::principal::permission::{EditNotifications, ViewNotifications};
use crate::route::Live;
use crate::schedules::done_by;
use crate::submit::near_future;
use crate::{App, AppError, Faults, Precondition, Result, cut, task_rights, validate};

/// Messages that are looked at when a rule goes: those that may be unsent, and some tests.
const DROPPED_MAX: usize = 20;

/// What an error about a rule calls it.
const WHAT: &str = "notification rule";

/// What stands in the place of a name in addresses.
const RESERVED: &str = "preview";

/// Whether a rule was new.
#[derive(Debug)]
pub enum PutRule {
    Created(Box<NotificationView>),
    Replaced(Box<NotificationView>),
}

impl App {
    /// Stores a rule, or replaces the one with this name.
    pub async fn put_notification(
        &self,
        by: &crate::By<EditNotifications>,
        name: &str,
        mut request: NotificationRequest,
        when: Precondition,
    ) -> Result<PutRule> {
        let who = by.who();
        let named = check_name(name);
        let mut when = when;
        if named.is_ok()
            && let Some(slack) = request.slack.as_mut().filter(|slack| slack.webhook == SlackChannel::HIDDEN)
        {
            let (webhook, revision) = self.kept_webhook(by.namespace(), name).await?;
            slack.webhook = webhook;
            // The address is that of this revision and of no other.
            if matches!(when, Precondition::None | Precondition::Exists) {
                when = Precondition::Revision(revision);
            }
        }
        let mut faults = Faults::default();
        faults.check(named);
        let spec = faults.value(check::rule_aside(request, self.sample_message(name)).await);
        faults.finish()?;
        let spec = spec.expect("it was read, or refused");
        // Its messages say what failed and why.
        by.principal().check(Right::ViewOutputs)?;
        if let Channel::Webhook { url, .. } = &spec.channel
            && task_rights::is_private(url)
        {
            by.principal().check(Right::UsePrivateAddresses)?;
        }
        let sending = sending_spec(&spec);
        if task_rights::needs_secrets(&sending.run) {
            by.principal().check(Right::UseSecrets)?;
        }
        self.check_secrets(by.namespace(), &sending, "").await.map_err(check::in_rule)?;
        let is_enabled = spec.enabled;
        let now = By { at: self.now(), who: who.to_owned() };
        let row = RuleRow {
            namespace: by.namespace(),
            name: name.to_owned(),
            spec: serde_json::to_string(&spec).expect("a rule is JSON"),
            revision: 0,
            created: now.clone(),
            changed: now,
            state: None,
            // Room to grow without reaching the sign.
            version: self.random() & (u64::MAX >> 2),
        };
        let expected = match when {
            Precondition::None => None,
            Precondition::Absent => Some(0),
            Precondition::Revision(revision) => Some(revision),
            Precondition::Exists => {
                let revision = self.0.store.rule(by.namespace(), name).await?.map(|row| row.revision);
                when.expect(WHAT, name, revision)?
            }
        };
        match self.0.store.put_rule(row, expected).await? {
            RuleChange::Done { revision } => {
                if !is_enabled {
                    self.drop_unsent(by.namespace(), name).await;
                }
                let view = Box::new(self.view_rule(by.namespace(), name).await?);
                Ok(if revision == 1 { PutRule::Created(view) } else { PutRule::Replaced(view) })
            }
            RuleChange::Conflict { revision } => {
                Err(when.refusal(WHAT, name, Some(revision).filter(|revision| *revision > 0)))
            }
            RuleChange::Full => {
                let detail = format!(
                    "there are too many notification rules: {RULES_MAX} may be in a namespace, and {RULES_OF_ALL_MAX} in the \
                     cluster"
                );
                Err(AppError::new(ErrorKind::TooManyNotifications, detail)
                    .hint("delete those that nobody needs; one rule may name up to 100 tasks"))
            }
        }
    }

    /// The address that `***` stands for.
    async fn kept_webhook(&self, namespace: NamespaceId, name: &str) -> Result<(String, u32)> {
        let row = self.0.store.rule(namespace, name).await?;
        let kept = row.as_ref().and_then(|row| match read_spec(row)?.channel {
            Channel::Slack { webhook } => Some((webhook, row.revision)),
            Channel::Email { .. } | Channel::Telegram { .. } | Channel::Webhook { .. } => None,
        });
        kept.ok_or_else(|| {
            AppError::field("/slack/webhook", "*** stands for the address that there is, and there is none")
                .hint("give the address, or the name of one in the worker's settings")
        })
    }

    pub async fn notification(&self, by: &crate::By<ViewNotifications>, name: &str) -> Result<NotificationView> {
        Ok(cut::notification(by, self.view_rule(by.namespace(), name).await?))
    }

    async fn view_rule(&self, namespace: NamespaceId, name: &str) -> Result<NotificationView> {
        let (row, spec) = self.read_rule(namespace, name).await?;
        let warnings = if spec.enabled { self.sending_warnings(namespace, &spec).await } else { Vec::new() };
        Ok(NotificationView { warnings, ..view(row, spec) })
    }

    /// Why messages of a rule would wait if they were made now.
    async fn sending_warnings(&self, namespace: NamespaceId, spec: &RuleSpec) -> Vec<Warning> {
        self.lack_of(namespace, &sending_spec(spec)).await.map(no_worker).into_iter().collect()
    }

    async fn read_rule(&self, namespace: NamespaceId, name: &str) -> Result<(RuleRow, RuleSpec)> {
        validate::name("name", name)?;
        let row = self.0.store.rule(namespace, name).await?.ok_or_else(|| not_found(name))?;
        let spec = read_spec(&row).ok_or_else(|| {
            AppError::new(ErrorKind::Internal, format!("the notification rule {name} cannot be read"))
                .hint("it may be of a newer version; PUT /v1/notifications/{name} replaces it")
        })?;
        Ok((row, spec))
    }

    /// All of them; those that cannot be read are left out.
    pub async fn list_notifications(&self, by: &crate::By<ViewNotifications>) -> Result<NotificationList> {
        let rows = self.0.store.rules(Some(by.namespace())).await?.into_iter();
        let notifications =
            rows.filter_map(|row| read_spec(&row).map(|spec| cut::notification(by, view(row, spec)))).collect();
        Ok(NotificationList { notifications })
    }

    /// What waits to be sent goes with it.
    pub async fn delete_notification(
        &self,
        by: &crate::By<EditNotifications>,
        name: &str,
        when: Precondition,
    ) -> Result<()> {
        validate::name("name", name)?;
        match self.0.store.delete_rule(by.namespace(), name, when.revision()).await? {
            RuleDeletion::Done => {}
            RuleDeletion::Absent => return Err(not_found(name)),
            RuleDeletion::Conflict { revision } => return Err(when.refusal(WHAT, name, Some(revision))),
        }
        self.drop_unsent(by.namespace(), name).await;
        Ok(())
    }

    /// Deletes the last messages of a rule that wait for a worker, and cancels those that wait for a retry: what was started
    /// cannot be deleted. One that is being sent is left alone, and one that cannot be ended now is sent after all.
    async fn drop_unsent(&self, namespace: NamespaceId, rule: &str) {
        let sent = self.0.store.deliveries(namespace, Some(rule.to_owned()), None, DROPPED_MAX).await;
        let Ok(rows) = sent else { return };
        for row in rows {
            let Ok(Some(JobRecord::Hot { job, .. })) = self.0.store.job(row.job).await else { continue };
            if !matches!(self.live(row.job).await, Ok(Live::Waiting)) {
                continue;
            }
            let ended = match job.counters.has_started() {
                true => self.command(row.job, Command::Cancel).await,
                false => self.command(row.job, Command::Delete).await,
            };
            if let Err(error) = ended {
                tracing::debug!(job = %row.job, %error, "a message that waits was not dropped");
            }
        }
    }

    /// Sends a sample at once, as a message of the rule is sent.
    pub async fn test_notification(&self, by: &crate::By<EditNotifications>, name: &str) -> Result<TestAnswer> {
        let (_, spec) = self.read_rule(by.namespace(), name).await?;
        let spec = self.tested(by, spec)?;
        let mut message = render::write_aside(self.test_message(name, &spec), spec.templates.clone()).await?;
        message.subject = format!("Test: {}", message.subject);
        message.text.insert_str(0, &format!("This is a test of the rule {name}. What follows is made up.\n\n"));
        let now = self.now();
        let delivery = MessageDelivery::new(by.namespace(), &spec, &message).summary("a test".to_owned());
        let outgoing = self.outgoing(std::slice::from_ref(&delivery), now).await?;
        let job = outgoing.jobs[0].id;
        let hint = near_future(&outgoing.jobs, &outgoing.tasks, now);
        let dispatch = Dispatch { jobs: outgoing.jobs, deliveries: outgoing.rows, ..Dispatch::default() };
        match self.0.store.dispatch(dispatch).await? {
            Dispatched::Done => self.tell_owners(hint),
            Dispatched::Conflict => unreachable!("it takes no notice and changes no rule"),
        }
        Ok(TestAnswer { job, warnings: self.sending_warnings(by.namespace(), &spec).await })
    }

    /// Whoever tests a rule that sends to requesters alone is the requester.
    fn tested(&self, by: &crate::By<EditNotifications>, spec: RuleSpec) -> Result<RuleSpec> {
        if spec.channel.has_recipients() {
            return Ok(spec);
        }
        let person = self.person_behind(by.principal());
        let address = person.and_then(|person| self.mail_of(person, by.namespace()));
        address.map(|address| sent_to(&spec, address)).ok_or_else(|| {
            AppError::field("/email/requester", "the rule sends to requesters, and you have no mail address")
                .hint("test it as a user with a mail address: punctual user edit NAME --mail ADDRESS")
        })
    }

    /// What a rule makes of a sample.
    pub async fn preview_notification(
        &self,
        _: &crate::By<ViewNotifications>,
        request: &NotificationPreviewRequest,
    ) -> Result<NotificationPreview> {
        let sample = self.sample_message("preview");
        let spec = check::rule_aside(request.rule.clone(), sample.clone()).await;
        let spec = spec.map_err(|error| error.under("/rule"))?;
        let message = render::write_aside(sample::for_rule(sample, &spec), spec.templates).await?;
        Ok(NotificationPreview { subject: message.subject, text: message.text })
    }
}

fn check_name(name: &str) -> Result<()> {
    validate::name("name", name)?;
    if name == RESERVED {
        return Err(AppError::field("name", format!("must not be `{name}`, which is part of the interface")));
    }
    Ok(())
}

pub(super) fn read_spec(row: &RuleRow) -> Option<RuleSpec> {
    // The error is of no use: it might quote the address of a webhook.
    serde_json::from_str(&row.spec).ok()
}

fn view(row: RuleRow, spec: RuleSpec) -> NotificationView {
    let waiting = RuleState::read(row.state.as_deref()).unwrap_or_default();
    let send_at = waiting.send_at(spec.window).filter(|_| spec.enabled);
    let held = waiting.held_until.map(|_| format!("the last {UNSENT_MAX} messages have not been sent"));
    let events = waiting.waiting.map_or(0, |waiting| waiting.events());
    let (mut email, mut slack, mut telegram, mut webhook) = (None, None, None, None);
    match spec.channel {
        Channel::Email { to, cc, requester } => email = Some(EmailChannel { to, cc, requester }),
        Channel::Slack { webhook } => slack = Some(SlackChannel { webhook: shown(webhook) }),
        Channel::Telegram { bot, chat, silent } => telegram = Some(TelegramChannel { bot: Some(bot), chat, silent }),
        Channel::Webhook { url, sign_with } => webhook = Some(WebhookChannel { url, sign_with }),
    }
    let templates = NotificationTemplates { subject: spec.templates.subject, text: spec.templates.text };
    NotificationView {
        name: row.name,
        on: spec.on,
        tasks: spec.tasks,
        queues: spec.queues,
        schedules: spec.schedules,
        late_after: spec.late_after,
        email,
        slack,
        telegram,
        webhook,
        window: spec.window,
        templates: Some(templates).filter(|templates| *templates != NotificationTemplates::default()),
        queue: spec.queue,
        enabled: spec.enabled,
        revision: row.revision,
        created: done_by(row.created),
        changed: done_by(row.changed),
        waiting: send_at.map(|send_at| WaitingMessage { events, send_at, held }),
        warnings: Vec::new(),
    }
}

/// A name of a webhook is none of its secrets.
fn shown(webhook: String) -> String {
    let slack = Slack { webhook, text: None };
    if slack.is_address() { SlackChannel::HIDDEN.to_owned() } else { slack.webhook }
}

pub(super) fn not_found(name: &str) -> AppError {
    AppError::new(ErrorKind::NotificationNotFound, format!("there is no notification rule named {name}"))
        .hint("GET /v1/notifications lists them; PUT /v1/notifications/{name} makes one")
}
