//! The settings of executors that send: allowed addresses, keys, webhooks, bots, mail server.

use std::sync::Arc;

use crate::{
    Email, Executor, Guard, Http, MailServer, Outbound, Slack, SlackWebhooks, Telegram, TelegramBots, WebhookKeys,
};

/// What executors may call, and with which credentials. By default only the public internet, without keys, bots and
/// mail.
#[derive(Debug, Clone, Default)]
pub struct Sending {
    pub guard: Guard,
    pub webhook_keys: WebhookKeys,
    pub slack_webhooks: SlackWebhooks,
    /// Telegram bots. Without any, the worker does not offer to send Telegram messages.
    pub telegram_bots: TelegramBots,
    /// The mail server. Without one, the worker does not offer to send mail.
    pub mail: Option<MailServer>,
}

impl Sending {
    pub fn executors(&self) -> Vec<Arc<dyn Executor>> {
        let outbound = Arc::new(Outbound::new(self.guard.clone()));
        let mut executors: Vec<Arc<dyn Executor>> = vec![
            Arc::new(Http::new(Arc::clone(&outbound)).webhook_keys(self.webhook_keys.clone())),
            Arc::new(Slack::new(Arc::clone(&outbound), self.slack_webhooks.clone())),
        ];
        if !self.telegram_bots.is_empty() {
            executors.push(Arc::new(Telegram::new(Arc::clone(&outbound), self.telegram_bots.clone())));
        }
        if let Some(server) = &self.mail {
            executors.push(Arc::new(Email::new(outbound, server.clone())));
        }
        executors
    }
}
