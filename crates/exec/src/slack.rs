//! Posts a message to a Slack webhook.
//!
//! Everyone who has the URL of a webhook can post, so it is a secret: no log and no reason contains it. A task may name
//! a URL at Slack itself, or a name from the worker's settings, whose URL may be anywhere.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use http::StatusCode;
use punctual_core::attempt::{Failure, Last};
use punctual_core::run::Slack as Message;
use punctual_core::task::Run;
use serde_json::{Value, json};
use url::Url;

use crate::dial::Outbound;
use crate::http::wire::Wire;
use crate::http::{is_final, never_sent};
use crate::message::{self, MessageAnswer, not_configured};
use crate::{Call, ExecutionEnd, Executor, named, wrong_kind};

/// Slack's answers after which a retry cannot succeed, whatever the status.
const FINAL_WORDS: [&str; 6] =
    ["no_service", "invalid_payload", "invalid_token", "no_text", "action_prohibited", "channel_is_archived"];

/// URLs of webhooks, by name.
#[derive(Clone, Default)]
pub struct SlackWebhooks(BTreeMap<String, Url>);

impl fmt::Debug for SlackWebhooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

impl SlackWebhooks {
    /// Reads `name=https://…` pairs. Errors never contain a URL.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut webhooks = BTreeMap::new();
        for (name, address) in named::parse(text, "webhook")? {
            let url = Url::parse(&address).ok().filter(|url| matches!(url.scheme(), "https" | "http"));
            let url = url.ok_or_else(|| format!("the webhook {name} is not an address that begins with https://"))?;
            if webhooks.insert(name.clone(), url).is_some() {
                return Err(format!("there are two webhooks {name}"));
            }
        }
        Ok(Self(webhooks))
    }
}

pub struct Slack {
    wire: Wire,
    webhooks: SlackWebhooks,
}

impl Slack {
    pub fn new(outbound: Arc<Outbound>, webhooks: SlackWebhooks) -> Self {
        Self { wire: Wire::new(outbound), webhooks }
    }

    /// The URL, and the name to show for it.
    fn place(&self, message: &Message) -> Result<(Url, String), Failure> {
        if message.is_address() {
            let url = direct(&message.webhook).map_err(|reason| never_sent(reason.to_owned()))?;
            return Ok((url, "a Slack webhook".to_owned()));
        }
        let name = &message.webhook;
        match self.webhooks.0.get(name) {
            Some(url) => Ok((url.clone(), format!("the Slack webhook {name}"))),
            None => Err(not_configured("Slack webhook", name, "slack_webhooks")),
        }
    }

    async fn post(&self, message: &Message, call: &Call) -> Result<Bytes, Failure> {
        let (url, place) = self.place(message)?;
        let body = payload(message, call.input.as_ref())?;
        let outgoing = message::Message {
            url,
            place: format!("POST to {place}"),
            content_type: "application/json; charset=utf-8",
            body,
        };
        message::post(&self.wire, call, outgoing, judge).await
    }
}

/// A URL that a task contains: it must be one of Slack's own, and nothing that could be mistaken for it.
fn direct(address: &str) -> Result<Url, &'static str> {
    const REFUSED: &str = "the webhook is not an address of Slack, such as https://hooks.slack.com/services/…; put \
                           others into the worker's setting slack_webhooks and use their name";
    if address.contains(|letter: char| letter.is_control()) {
        return Err(REFUSED);
    }
    let url = Url::parse(address).map_err(|_| REFUSED)?;
    let is_slack = matches!(url.host_str(), Some("hooks.slack.com" | "hooks.slack-gov.com"));
    let is_plain = url.port().is_none() && url.username().is_empty() && url.password().is_none();
    if url.scheme() == "https" && is_slack && is_plain { Ok(url) } else { Err(REFUSED) }
}

/// The text of a task is in Slack's markup. A text that came as input is data and is escaped, so that it cannot mention
/// a whole channel.
fn payload(message: &Message, input: Option<&Bytes>) -> Result<Bytes, Failure> {
    let json = match (&message.text, input) {
        (Some(text), _) => json!({ "text": text }),
        (None, Some(input)) => match serde_json::from_slice(input) {
            Ok(object @ Value::Object(_)) => object,
            Ok(Value::String(text)) => json!({ "text": escaped(&text) }),
            Ok(_) | Err(_) => json!({ "text": escaped(&String::from_utf8_lossy(input)) }),
        },
        (None, None) => return Err(never_sent("there is nothing to post: neither a text nor an input".to_owned())),
    };
    Ok(Bytes::from(json.to_string()))
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

fn judge(answered: &MessageAnswer) -> Result<Bytes, Failure> {
    // Without an answer, the status has said what Slack thinks of it.
    let Some(answer) = &answered.answer else { return Err(refused(answered, "")) };
    let text = answer.text();
    let word = text.trim();
    if answered.status.is_success() && !FINAL_WORDS.contains(&word) {
        return Ok(answer.to_output(answered.status));
    }
    Err(refused(answered, word))
}

fn refused(answered: &MessageAnswer, word: &str) -> Failure {
    let MessageAnswer { status, retry_after, .. } = *answered;
    let is_last = FINAL_WORDS.contains(&word) || (is_final(status) && retry_after.is_none());
    Failure {
        last: if is_last { Last::Yes } else { Last::No },
        retry_after,
        ..Failure::new(format!("Slack answered {status}{}", said(word, status)))
    }
}

/// Describes an answer. Slack's answers are single words; anything else is not shown.
fn said(word: &str, status: StatusCode) -> String {
    let is_word = !word.is_empty() && word.len() <= 64 && word.chars().all(|c| c.is_ascii_lowercase() || c == '_');
    match (is_word, status) {
        (true, _) => format!(": {word}"),
        (false, StatusCode::NOT_FOUND | StatusCode::GONE) => ": the webhook is not there (any more)".to_owned(),
        (false, _) => String::new(),
    }
}

#[async_trait]
impl Executor for Slack {
    fn kind(&self) -> &'static str {
        "slack"
    }

    fn capabilities(&self) -> Vec<String> {
        vec!["slack".to_owned()]
    }

    async fn execute(self: Arc<Self>, call: Call) -> ExecutionEnd {
        let Run::Slack(message) = &*call.run else {
            return wrong_kind(&call.run).into();
        };
        message::until_cancelled(&call, self.post(message, &call)).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_of_slack_itself_may_stand_in_a_task() {
        assert!(direct("https://hooks.slack.com/services/T/B/x").is_ok());
        for bad in [
            "http://hooks.slack.com/services/T/B/x",
            "https://hooks.slack.com.evil.example/services",
            "https://evil.example/hooks.slack.com",
            "https://hooks.slack.com@evil.example/",
            "https://hooks.slack.com:8443/services",
            "https://me:pw@hooks.slack.com/services",
            "https://hooks.slack.com/serv\r\nices",
            "ftp://hooks.slack.com/",
        ] {
            let refused = direct(bad).unwrap_err();
            assert!(!refused.contains("evil") && !refused.contains("pw"), "{bad}");
        }
    }

    #[test]
    fn an_input_is_the_message_or_its_text() {
        let message = |text: Option<&str>| Message { webhook: "x".to_owned(), text: text.map(str::to_owned) };
        let sent = |text: Option<&str>, input: Option<&'static str>| {
            payload(&message(text), input.map(|input| Bytes::from_static(input.as_bytes())).as_ref())
                .map(|bytes| String::from_utf8(bytes.to_vec()).unwrap())
                .map_err(|failure| failure.reason)
        };
        assert_eq!(sent(Some("<!here> hi"), Some("1")).unwrap(), r#"{"text":"<!here> hi"}"#);
        assert_eq!(sent(None, Some(r#"{"blocks":[]}"#)).unwrap(), r#"{"blocks":[]}"#);
        assert_eq!(sent(None, Some(r#""<!here> & co""#)).unwrap(), r#"{"text":"&lt;!here&gt; &amp; co"}"#);
        assert_eq!(sent(None, Some("[1,2]")).unwrap(), r#"{"text":"[1,2]"}"#);
        assert!(sent(None, None).unwrap_err().starts_with("there is nothing to post"));
    }
}
