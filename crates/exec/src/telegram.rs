//! Sends a message with a Telegram bot, through the method `sendMessage` of the Bot API.
//!
//! Everyone who has the token of a bot can act for it, and the token is part of the URL: no task, log or reason
//! contains it. A task names a bot of the worker's settings.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use http::StatusCode;
use punctual_core::Span;
use punctual_core::attempt::{Failure, FailureClass, Last};
use punctual_core::run::Telegram as Message;
use punctual_core::task::Run;
use serde_json::{Value, json};
use url::Url;

use crate::dial::Outbound;
use crate::http::wire::Wire;
use crate::http::{is_final, never_sent};
use crate::message::{self, MessageAnswer, in_doubt, not_configured};
use crate::{Call, ExecutionEnd, Executor, named, wrong_kind};

/// A description is a sentence; longer ones are cut.
const DESCRIPTION_CHARS_MAX: usize = 200;
/// Replaces the rest of a text that is too long.
const CUT: &str = "…";

/// The tokens of bots by name, and the address of the API.
#[derive(Clone)]
pub struct TelegramBots {
    tokens: BTreeMap<String, String>,
    api: Url,
}

impl Default for TelegramBots {
    fn default() -> Self {
        let api = Url::parse("https://api.telegram.org").expect("the address is valid");
        Self { tokens: BTreeMap::new(), api }
    }
}

impl fmt::Debug for TelegramBots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.tokens.keys()).finish()
    }
}

impl TelegramBots {
    /// Reads `name=123456:…` pairs. Errors never contain a token.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut tokens = BTreeMap::new();
        for (name, token) in named::parse(text, "bot")? {
            if !is_token(&token) {
                return Err(format!("the token of the bot {name} is not written like 123456:ABC-DEF"));
            }
            if tokens.insert(name.clone(), token).is_some() {
                return Err(format!("there are two bots {name}"));
            }
        }
        Ok(Self { tokens, ..Self::default() })
    }

    /// Uses the API at another address, such as a self-hosted Bot API server.
    pub fn reached_at(self, address: &str) -> Result<Self, String> {
        const REFUSED: &str = "must begin with https:// or http:// and name a host, without a user, query or fragment";
        let url = Url::parse(address).map_err(|_| REFUSED)?;
        let is_plain = url.username().is_empty() && url.password().is_none();
        let is_whole = url.query().is_none() && url.fragment().is_none() && url.has_host();
        if !matches!(url.scheme(), "https" | "http") || !is_plain || !is_whole {
            return Err(REFUSED.to_owned());
        }
        Ok(Self { api: url, ..self })
    }

    pub fn is_empty(&self) -> bool {
        self.tokens.is_empty()
    }

    fn address(&self, token: &str) -> Url {
        let mut url = self.api.clone();
        let path = format!("{}/bot{token}/sendMessage", url.path().trim_end_matches('/'));
        url.set_path(&path);
        url
    }
}

/// Digits, a colon, and letters, so that a token cannot change the meaning of a URL.
fn is_token(text: &str) -> bool {
    let is_secret = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    text.split_once(':').is_some_and(|(id, secret)| {
        !id.is_empty()
            && id.bytes().all(|byte| byte.is_ascii_digit())
            && !secret.is_empty()
            && secret.bytes().all(is_secret)
    })
}

pub struct Telegram {
    wire: Wire,
    bots: TelegramBots,
}

impl Telegram {
    pub fn new(outbound: Arc<Outbound>, bots: TelegramBots) -> Self {
        Self { wire: Wire::new(outbound), bots }
    }

    async fn send(&self, message: &Message, call: &Call) -> Result<Bytes, Failure> {
        let name = &message.bot;
        let token = self.bots.tokens.get(name);
        let token = token.ok_or_else(|| not_configured("Telegram bot", name, "telegram_bots"))?;
        let Payload { body, left_out } = payload(message, call.input.as_ref())?;
        if left_out > 0 {
            call.log.line(format!("the text is too long for Telegram: the last {left_out} characters are left out"));
        }
        let outgoing = message::Message {
            url: self.bots.address(token),
            place: format!("sendMessage by the Telegram bot {name}"),
            content_type: "application/json",
            body,
        };
        message::post(&self.wire, call, outgoing, |answered| judge(answered, token)).await
    }
}

struct Payload {
    body: Bytes,
    /// The number of characters at the end of the text that are not sent.
    left_out: usize,
}

/// The text of a task may have markup. A text that came as input is data, and is sent as it is.
fn payload(message: &Message, input: Option<&Bytes>) -> Result<Payload, Failure> {
    let text = match (&message.text, input) {
        (Some(text), _) => text.clone(),
        (None, Some(input)) => match serde_json::from_slice(input) {
            Ok(Value::String(text)) => text,
            Ok(_) | Err(_) => String::from_utf8_lossy(input).into_owned(),
        },
        (None, None) => return Err(never_sent("there is nothing to send: neither a text nor an input".to_owned())),
    };
    if text.trim().is_empty() {
        return Err(never_sent("there is nothing to send: the text is empty".to_owned()));
    }
    let (text, left_out) = fitting(text);
    let mut json = json!({ "chat_id": message.chat, "text": text });
    if let (Some(mode), true) = (message.parse_mode, message.text.is_some()) {
        json["parse_mode"] = json!(mode.as_telegram());
    }
    if message.silent {
        json["disable_notification"] = json!(true);
    }
    Ok(Payload { body: Bytes::from(json.to_string()), left_out })
}

/// Cuts a text to the length that Telegram accepts.
fn fitting(text: String) -> (String, usize) {
    if Message::units(&text) <= Message::TEXT_UNITS_MAX {
        return (text, 0);
    }
    let mut units = Message::units(CUT);
    let mut kept: String = text
        .chars()
        .take_while(|letter| {
            units += letter.len_utf16();
            units <= Message::TEXT_UNITS_MAX
        })
        .collect();
    let left_out = text.chars().count() - kept.chars().count();
    kept += CUT;
    (kept, left_out)
}

/// The API's answer to a request.
#[derive(Default)]
struct BotReply {
    ok: bool,
    description: String,
    retry_after_secs: Option<u32>,
    migrate_to_chat_id: Option<i64>,
    message_id: Option<i64>,
}

impl BotReply {
    /// Reads an answer; `None` if it is not one of the API's.
    fn read(text: &str) -> Option<Self> {
        let json: Value = serde_json::from_str(text).ok()?;
        let parameters = &json["parameters"];
        Some(Self {
            ok: json["ok"].as_bool()?,
            description: json["description"].as_str().unwrap_or_default().to_owned(),
            retry_after_secs: parameters["retry_after"].as_u64().map(|secs| u32::try_from(secs).unwrap_or(u32::MAX)),
            migrate_to_chat_id: parameters["migrate_to_chat_id"].as_i64(),
            message_id: json["result"]["message_id"].as_i64(),
        })
    }
}

fn judge(answered: &MessageAnswer, token: &str) -> Result<Bytes, Failure> {
    let status = answered.status;
    match answered.answer.as_ref().and_then(|answer| BotReply::read(&answer.text())) {
        Some(verdict) if status.is_success() && verdict.ok => {
            Ok(Bytes::from(json!({ "message_id": verdict.message_id }).to_string()))
        }
        Some(verdict) => Err(refused(answered, &verdict, token)),
        // Something else answered in its place.
        None if status.is_success() => {
            Err(in_doubt(FailureClass::Network, "the answer is not one of the Telegram Bot API".to_owned()))
        }
        None => Err(refused(answered, &BotReply::default(), token)),
    }
}

fn refused(answered: &MessageAnswer, verdict: &BotReply, token: &str) -> Failure {
    let status = answered.status;
    let said = verdict.retry_after_secs.map(|secs| Span::from_secs(i64::from(secs)).min(Span::MAX));
    let retry_after = said.or(answered.retry_after);
    // An answer without success that claims to be one has a refusal in its body.
    let is_last = retry_after.is_none() && (is_final(status) || status.is_success());
    let mut reason = format!("Telegram answered {status}");
    let description: String =
        verdict.description.chars().filter(|c| !c.is_control()).take(DESCRIPTION_CHARS_MAX).collect();
    // It often begins with the words of the status.
    let words = status.canonical_reason().unwrap_or_default();
    let description =
        description.strip_prefix(words).map_or(description.as_str(), |rest| rest.trim_start_matches(": "));
    if !description.is_empty() && !description.contains(token) {
        reason += &format!(": {description}");
    }
    match (status, verdict.migrate_to_chat_id) {
        (_, Some(chat)) => reason += &format!("; the chat has a new id, {chat}"),
        (StatusCode::UNAUTHORIZED | StatusCode::NOT_FOUND, None) => reason += "; check the token of the bot",
        _ => {}
    }
    Failure { last: if is_last { Last::Yes } else { Last::No }, retry_after, ..Failure::new(reason) }
}

#[async_trait]
impl Executor for Telegram {
    fn kind(&self) -> &'static str {
        "telegram"
    }

    fn capabilities(&self) -> Vec<String> {
        vec!["telegram".to_owned()]
    }

    async fn execute(self: Arc<Self>, call: Call) -> ExecutionEnd {
        let Run::Telegram(message) = &*call.run else {
            return wrong_kind(&call.run).into();
        };
        message::until_cancelled(&call, self.send(message, &call)).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_read_and_never_repeated() {
        let bots = TelegramBots::parse("ops=12:s3cret_-, default=7:s3cret").unwrap();
        assert_eq!(format!("{bots:?}"), r#"{"default", "ops"}"#);
        for bad in
            ["ops=s3cret", "ops=12:s3cret/../x", "ops=x:s3cret", "ops=12:", "ops=1:s3cret,ops=2:s3cret", "s3cret"]
        {
            let refused = TelegramBots::parse(bad).unwrap_err();
            assert!(!refused.contains("s3cret"), "{refused}");
        }
        assert_eq!(bots.address("12:x").as_str(), "https://api.telegram.org/bot12:x/sendMessage");
        let own = bots.clone().reached_at("http://127.0.0.1:8081/telegram/").unwrap();
        assert_eq!(own.address("12:x").as_str(), "http://127.0.0.1:8081/telegram/bot12:x/sendMessage");
        for bad in ["api.telegram.org", "ftp://x", "https://me:pw@x", "https://x?y", "https://"] {
            assert!(bots.clone().reached_at(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_text_that_is_too_long_is_cut_and_says_so() {
        let whole = "a".repeat(4096);
        assert_eq!(fitting(whole.clone()), (whole, 0));
        let (kept, left_out) = fitting("😀".repeat(3000));
        assert!(Message::units(&kept) <= 4096 && kept.ends_with("😀…"), "{}", Message::units(&kept));
        assert_eq!(left_out, 3000 - 2047);
    }

    #[test]
    fn markup_holds_for_texts_of_tasks_and_an_input_is_plain() {
        let sent = |json: &str, input: Option<&'static str>| {
            let message: Message = serde_json::from_str(json).unwrap();
            let input = input.map(|input| Bytes::from_static(input.as_bytes()));
            payload(&message, input.as_ref())
                .map(|payload| String::from_utf8(payload.body.to_vec()).unwrap())
                .map_err(|failure| failure.reason)
        };
        assert_eq!(
            sent(r#"{"chat":"@news","text":"<b>hi</b>","parse_mode":"html","silent":true}"#, None).unwrap(),
            r#"{"chat_id":"@news","disable_notification":true,"parse_mode":"HTML","text":"<b>hi</b>"}"#
        );
        assert_eq!(sent(r#"{"chat":5}"#, Some(r#""*hi*""#)).unwrap(), r#"{"chat_id":"5","text":"*hi*"}"#);
        let object = sent(r#"{"chat":5}"#, Some(r#"{"chat_id":6}"#)).unwrap();
        assert_eq!(object, r#"{"chat_id":"5","text":"{\"chat_id\":6}"}"#);
        assert!(sent(r#"{"chat":5}"#, None).unwrap_err().starts_with("there is nothing to send"));
    }
}
