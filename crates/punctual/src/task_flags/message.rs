//! The flags of mails and messages.

use clap::Args;
use punctual_core::run::{Email, ParseMode, Slack, Telegram, default_bot};

use super::word;
use crate::input::text_or_file;

/// What is neither. That one is required does not keep clap from taking these instead.
const OTHERS: [&str; 5] = ["request", "probe", "handler", "command", "workflow"];
const NO_MAILS: [&str; 7] = ["request", "slack", "telegram", "probe", "handler", "command", "workflow"];
const NO_TELEGRAMS: [&str; 7] = ["request", "email", "slack", "probe", "handler", "command", "workflow"];

#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Mails and messages")]
pub(super) struct MessageFlags {
    /// The subject of the mail
    #[arg(long, value_name = "TEXT", requires = "email", conflicts_with_all = NO_MAILS)]
    subject: Option<String>,
    /// What it says: text, @file, or - for stdin. Without it, the job's input
    #[arg(long, value_name = "TEXT", requires = "message", conflicts_with_all = OTHERS)]
    text: Option<String>,
    /// The same as HTML, for mails: text, @file, or - for stdin
    #[arg(long, value_name = "HTML", requires = "email", conflicts_with_all = NO_MAILS)]
    html: Option<String>,
    /// Who else gets the mail; may be repeated
    #[arg(long, value_name = "ADDRESS", requires = "email", conflicts_with_all = NO_MAILS)]
    cc: Vec<String>,
    /// Who else gets it without the others seeing it; may be repeated
    #[arg(long, value_name = "ADDRESS", requires = "email", conflicts_with_all = NO_MAILS)]
    bcc: Vec<String>,
    /// Where answers to the mail go
    #[arg(long, value_name = "ADDRESS", requires = "email", conflicts_with_all = NO_MAILS)]
    reply_to: Option<String>,
    /// The Telegram bot, by its name in the worker's settings [default: default]
    #[arg(long, value_name = "NAME", requires = "telegram", conflicts_with_all = NO_TELEGRAMS)]
    bot: Option<String>,
    /// The markup of a Telegram message: html or markdown_v2 [default: plain text]
    #[arg(long, value_name = "MODE", value_parser = word::<ParseMode>, requires = "telegram", conflicts_with_all = NO_TELEGRAMS)]
    parse_mode: Option<ParseMode>,
    /// Send the Telegram message without a sound
    #[arg(long, requires = "telegram", conflicts_with_all = NO_TELEGRAMS)]
    silent: bool,
}

impl MessageFlags {
    pub(super) fn email(&self, to: &[String]) -> anyhow::Result<Email> {
        Ok(Email {
            to: to.to_vec(),
            cc: self.cc.clone(),
            bcc: self.bcc.clone(),
            reply_to: self.reply_to.clone(),
            subject: self.subject.clone().unwrap_or_default(),
            text: self.text.as_deref().map(text_or_file).transpose()?,
            html: self.html.as_deref().map(text_or_file).transpose()?,
        })
    }

    pub(super) fn telegram(&self, chat: &str) -> anyhow::Result<Telegram> {
        Ok(Telegram {
            bot: self.bot.clone().unwrap_or_else(default_bot),
            chat: chat.to_owned(),
            text: self.text.as_deref().map(text_or_file).transpose()?,
            parse_mode: self.parse_mode,
            silent: self.silent,
        })
    }

    pub(super) fn slack(&self, webhook: &str) -> anyhow::Result<Slack> {
        Ok(Slack { webhook: webhook.to_owned(), text: self.text.as_deref().map(text_or_file).transpose()? })
    }
}
