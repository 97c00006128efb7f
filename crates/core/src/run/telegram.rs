//! A message by a Telegram bot.

use std::fmt;

use serde::de::{Error, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

/// A message by a Telegram bot. The bot's token is in the worker's settings and never in a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Telegram {
    /// The name of a bot in the worker's setting `telegram_bots`.
    #[serde(default = "default_bot")]
    pub bot: String,
    /// The recipient: the id of a chat, such as `-1001234567890`, or the name of a public channel, such as `@news`.
    #[serde(deserialize_with = "read_chat")]
    #[cfg_attr(feature = "schema", schema(example = "@news"))]
    pub chat: String,
    /// Absent: the job's input, sent as plain text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The markup of `text`. Absent: plain text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parse_mode: Option<ParseMode>,
    /// Recipients get no sound.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub silent: bool,
}

impl Telegram {
    /// Telegram refuses longer texts. It counts UTF-16 code units.
    pub const TEXT_UNITS_MAX: usize = 4096;

    /// A plain text from the bot of the usual name, which the job's input says.
    pub fn new(chat: impl Into<String>) -> Self {
        Self { bot: default_bot(), chat: chat.into(), text: None, parse_mode: None, silent: false }
    }

    /// The length of a text as Telegram counts it.
    pub fn units(text: &str) -> usize {
        text.encode_utf16().count()
    }

    /// Whether this could be the id of a chat or the name of a channel.
    pub fn is_chat(text: &str) -> bool {
        match text.strip_prefix('@') {
            Some(name) => {
                (4..=32).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
            }
            None => text.parse::<i64>().is_ok_and(|id| id != 0 && id.to_string() == text),
        }
    }
}

/// The bot of a task that names none.
pub fn default_bot() -> String {
    "default".to_owned()
}

/// The markup of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum ParseMode {
    Html,
    MarkdownV2,
}

impl ParseMode {
    /// Telegram's own word for it.
    pub const fn as_telegram(self) -> &'static str {
        match self {
            Self::Html => "HTML",
            Self::MarkdownV2 => "MarkdownV2",
        }
    }
}

/// Telegram's own API writes ids as numbers, so they are accepted as such.
fn read_chat<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    struct Chat;
    impl Visitor<'_> for Chat {
        type Value = String;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("the id of a chat or the name of a channel, such as @news")
        }
        fn visit_str<E: Error>(self, text: &str) -> Result<String, E> {
            Ok(text.to_owned())
        }
        fn visit_i64<E: Error>(self, id: i64) -> Result<String, E> {
            Ok(id.to_string())
        }
        fn visit_u64<E: Error>(self, id: u64) -> Result<String, E> {
            i64::try_from(id).map(|id| id.to_string()).map_err(|_| E::invalid_value(Unexpected::Unsigned(id), &self))
        }
    }
    deserializer.deserialize_any(Chat)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::Run;

    #[test]
    fn a_chat_is_an_id_or_the_name_of_a_channel() {
        for good in ["1", "-1001234567890", "@news", "@a_b9c"] {
            assert!(Telegram::is_chat(good), "{good}");
        }
        for bad in ["", "0", "news", "@", "@abc", "@a b c", "@ne\u{200b}ws", "+5", "007", "1e3", "99999999999999999999"]
        {
            assert!(!Telegram::is_chat(bad), "{bad}");
        }
    }

    #[test]
    fn an_id_may_be_written_as_a_number_and_is_shown_as_text() {
        let read = |json: &str| serde_json::from_str::<Run>(json).map_err(|error| error.to_string());
        let run = read(r#"{"telegram":{"chat":-1001234567890,"parse_mode":"markdown_v2","text":"*hi*"}}"#).unwrap();
        assert_eq!(
            serde_json::to_string(&run).unwrap(),
            r#"{"telegram":{"bot":"default","chat":"-1001234567890","text":"*hi*","parse_mode":"markdown_v2"}}"#
        );
        assert!(read(r#"{"telegram":{"chat":1.5}}"#).unwrap_err().contains("the id of a chat"));
        assert!(read(r#"{"telegram":{"chat":"@news","token":"1:x"}}"#).unwrap_err().contains("token"));
        assert!(Run::KINDS.contains(&run.kind()));
    }

    #[test]
    fn texts_are_counted_as_telegram_counts_them() {
        assert_eq!(Telegram::units("aä😀"), 4);
    }
}
