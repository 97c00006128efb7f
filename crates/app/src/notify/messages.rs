//! The messages that are to be sent now.

use punctual_api::NotificationMessage;
use punctual_core::Timestamp;
use punctual_core::namespace::NamespaceId;
use punctual_core::notice::Templates;
use punctual_store::JobRecord;

use super::deliver::MessageDelivery;
use super::render;
use super::rule::Rule;
use crate::route::Live;
use crate::{App, Result};

/// Messages of one rule that may be unsent: they wait for a worker, or their recipient cannot be reached and they wait for
/// a retry. What happens after them is merged into one that is sent when one of them was.
pub(super) const UNSENT_MAX: usize = 3;
/// Messages of one round. Each reads what its samples need; further ones are made in the next.
const MESSAGES_AT_ONCE: usize = 50;

impl App {
    /// Those that wait for longest, and how many are left for the next round.
    pub(super) async fn take_messages(
        &self,
        rules: &mut [Rule],
        now: Timestamp,
    ) -> Result<(Vec<MessageDelivery>, usize)> {
        let waiting = rules.iter_mut().filter_map(|rule| Some((rule.send_at()?, rule)));
        let mut due: Vec<(Timestamp, &mut Rule)> = waiting.filter(|(send_at, _)| *send_at <= now).collect();
        due.sort_by_key(|(send_at, _)| *send_at);
        let left = due.len().saturating_sub(MESSAGES_AT_ONCE);
        let mut deliveries = Vec::new();
        for (_, rule) in due.into_iter().take(MESSAGES_AT_ONCE) {
            if self.has_many_unsent(rule.namespace, &rule.name).await? {
                rule.state.hold(now);
                continue;
            }
            let Some(waiting) = rule.state.take_due(rule.spec.window, now) else { continue };
            deliveries.extend(self.messages_to_requesters(rule, &waiting, now).await?);
            if !rule.spec.channel.has_recipients() {
                continue;
            }
            let message = self.message_of(&rule.name, &waiting, &rule.state.schedules, now).await?;
            let message = written(message, &rule.spec.templates).await;
            deliveries.push(MessageDelivery::new(rule.namespace, &rule.spec, &message));
        }
        Ok((deliveries, left))
    }
}

impl App {
    /// Whether the last messages of a rule all wait, for a worker or for a retry: more of them would only pile up.
    async fn has_many_unsent(&self, namespace: NamespaceId, rule: &str) -> Result<bool> {
        let rows = self.0.store.deliveries(namespace, Some(rule.to_owned()), None, UNSENT_MAX).await?;
        if rows.len() < UNSENT_MAX {
            return Ok(false);
        }
        for row in rows {
            let Some(JobRecord::Hot { attempts, .. }) = self.0.store.job(row.job).await? else { return Ok(false) };
            // One that is being sent for the first time is about to be gone.
            if attempts.is_empty() && matches!(self.live(row.job).await?, Live::Running { .. }) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// With subject and text. A text that breaks down is our defect, and no reason not to tell.
pub(super) async fn written(message: NotificationMessage, templates: &Templates) -> NotificationMessage {
    if let Ok(message) = render::write_aside(message.clone(), templates.clone()).await {
        return message;
    }
    tracing::error!(rule = message.rule, "the text of a message broke down");
    if let Ok(mut message) = render::write_aside(message.clone(), Templates::default()).await {
        message.text.insert_str(0, "The rule's own template broke down, so this is the built-in text.\n\n");
        return message;
    }
    let subject = format!("[punctual] notification of the rule {}", message.rule);
    let text = format!("The text of this message could not be written. What happened: {:?}\n", message.counts);
    NotificationMessage { subject, text, ..message }
}
