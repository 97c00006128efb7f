//! The stored form of a notification rule: which events notify which recipients, through which channel.

use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::notice::NoticeKind;
use crate::run::{Slack, default_bot};
use crate::time::Span;

/// A rule that was checked, with every default filled in.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RuleSpec {
    pub on: Vec<NoticeKind>,
    /// Names; without any of these three lists, everything is meant.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tasks: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub queues: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub schedules: Vec<String>,
    /// Counts with [`NoticeKind::Late`] only.
    #[serde(default = "RuleSpec::late_after_default")]
    pub late_after: Span,
    pub channel: Channel,
    /// At most one message in this time.
    #[serde(default = "RuleSpec::window_default")]
    pub window: Span,
    #[serde(default, skip_serializing_if = "Templates::is_empty")]
    pub templates: Templates,
    /// The queue of the jobs that deliver messages.
    #[serde(default = "crate::task::default_queue")]
    pub queue: String,
    #[serde(default = "yes")]
    pub enabled: bool,
}

#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Channel {
    Email {
        to: Vec<String>,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        cc: Vec<String>,
        /// Everybody who asked for a job that a message is about gets one of their own, too.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        requester: bool,
    },
    /// The URL is a secret: everyone who has it can post.
    Slack { webhook: String },
    /// By a bot of the worker's settings.
    Telegram {
        #[serde(default = "default_bot")]
        bot: String,
        chat: String,
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        silent: bool,
    },
    Webhook {
        url: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        sign_with: Option<String>,
    },
}

impl Channel {
    /// Whether it names anybody, besides those who asked for what a message is about.
    pub fn has_recipients(&self) -> bool {
        match self {
            Self::Email { to, .. } => !to.is_empty(),
            Self::Slack { .. } | Self::Telegram { .. } | Self::Webhook { .. } => true,
        }
    }
}

/// The user's own texts; without one, the built-in text is sent.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Templates {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

impl Templates {
    pub fn is_empty(&self) -> bool {
        self.subject.is_none() && self.text.is_none()
    }
}

impl RuleSpec {
    pub const ON_DEFAULT: [NoticeKind; 5] =
        [NoticeKind::Failed, NoticeKind::Lost, NoticeKind::Quarantined, NoticeKind::Missed, NoticeKind::Recovered];

    pub const fn late_after_default() -> Span {
        Span::from_secs(5 * 60)
    }

    pub const fn window_default() -> Span {
        Span::from_secs(60)
    }

    pub fn wants(&self, kind: NoticeKind) -> bool {
        self.on.contains(&kind)
    }

    /// Whether it is about everything.
    pub fn is_for_all(&self) -> bool {
        self.tasks.is_empty() && self.queues.is_empty() && self.schedules.is_empty()
    }
}

impl fmt::Debug for Channel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Email { to, cc, requester } => {
                f.debug_struct("Email").field("to", to).field("cc", cc).field("requester", requester).finish()
            }
            Self::Slack { webhook } => Slack { webhook: webhook.clone(), text: None }.fmt(f),
            Self::Telegram { bot, chat, silent } => {
                f.debug_struct("Telegram").field("bot", bot).field("chat", chat).field("silent", silent).finish()
            }
            Self::Webhook { url, sign_with } => {
                f.debug_struct("Webhook").field("url", url).field("sign_with", sign_with).finish()
            }
        }
    }
}

/// The different lateness limits of stored rules, the shortest first. A rule that cannot be read has none.
pub fn late_limits(specs: &[String]) -> Vec<Span> {
    /// The fields of a rule that this function needs, whatever version wrote the rule.
    #[derive(Deserialize)]
    struct LateLimit {
        #[serde(default)]
        on: Vec<String>,
        #[serde(default = "RuleSpec::late_after_default")]
        late_after: Span,
        #[serde(default = "yes")]
        enabled: bool,
    }
    let late = NoticeKind::Late.as_str();
    let looked = specs.iter().filter_map(|spec| serde_json::from_str::<LateLimit>(spec).ok());
    let wanted = looked.filter(|rule| rule.enabled && rule.on.iter().any(|kind| kind == late));
    wanted.map(|rule| rule.late_after).collect::<BTreeSet<_>>().into_iter().collect()
}

const fn yes() -> bool {
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_those_of_rules_that_ask_for_them() {
        let specs = [
            r#"{"on":["late"],"late_after":"10s","enabled":false}"#,
            r#"{"on":["failed"],"late_after":"5s"}"#,
            r#"{"on":["late","of a later version"],"late_after":"2m","colour":"red"}"#,
            r#"{"on":["late"]}"#,
            "no JSON",
        ];
        let specs = specs.map(str::to_owned);
        let limits = |specs: &[String]| late_limits(specs);
        assert_eq!(limits(&specs), [Span::from_secs(120), Span::from_secs(300)]);
        assert!(limits(&specs[..2]).is_empty());
        assert_eq!(limits(&specs[3..]), [Span::from_secs(300)]);
    }

    #[test]
    fn a_rule_reads_back_as_it_was_written_and_its_address_is_not_shown() {
        let spec = RuleSpec {
            on: RuleSpec::ON_DEFAULT.to_vec(),
            tasks: vec!["nightly".to_owned()],
            queues: Vec::new(),
            schedules: Vec::new(),
            late_after: RuleSpec::late_after_default(),
            channel: Channel::Slack { webhook: "https://hooks.slack.com/services/s3cret".to_owned() },
            window: RuleSpec::window_default(),
            templates: Templates::default(),
            queue: "default".to_owned(),
            enabled: true,
        };
        let json = serde_json::to_string(&spec).unwrap();
        assert_eq!(serde_json::from_str::<RuleSpec>(&json).unwrap(), spec);
        let shown = format!("{spec:?}");
        assert!(shown.contains("***") && !shown.contains("s3cret"), "{shown}");
    }
}
