//! From a task's definition to the bytes of a mail.
//!
//! Headers are typed, and control characters are refused before they come near one: whatever a
//! field holds, the mail has the headers that we meant and no others.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use lettre::message::header::{Header, HeaderName, HeaderValue};
use lettre::message::{Mailbox, MultiPart, SinglePart};
use punctual_core::run::Email as Mail;
use punctual_core::{JobId, Timestamp};
use serde_json::Value;

/// A mail, ready for the server.
pub(super) struct Letter {
    pub(super) id: String,
    pub(super) from: String,
    /// Everyone it goes to, each once.
    pub(super) to: Vec<String>,
    pub(super) bytes: Vec<u8>,
}

/// The error is a sentence for the user: nothing was sent.
pub(super) fn write(
    mail: &Mail,
    from: &Mailbox,
    job: JobId,
    input: Option<&Bytes>,
    now: Timestamp,
) -> Result<Letter, String> {
    let id = format!("<{job}@{}>", from.email.domain());
    let mut builder = lettre::Message::builder()
        .from(from.clone())
        .subject(one_line("subject", &mail.subject)?)
        .message_id(Some(id.clone()))
        .date(SystemTime::UNIX_EPOCH + Duration::from_micros(now.as_micros().max(0).unsigned_abs()))
        .header(JobHeader(job.to_string()))
        .header(AutoSubmitted);
    if mail.to.is_empty() {
        return Err("the mail has no address in `to`".to_owned());
    }
    for address in &mail.to {
        builder = builder.to(mailbox("to", address)?);
    }
    for address in &mail.cc {
        builder = builder.cc(mailbox("cc", address)?);
    }
    for address in &mail.bcc {
        builder = builder.bcc(mailbox("bcc", address)?);
    }
    if let Some(address) = &mail.reply_to {
        builder = builder.reply_to(mailbox("reply_to", address)?);
    }
    let text = text(mail, input).as_deref().map(with_crlf);
    let message = match (text, mail.html.as_deref().map(with_crlf)) {
        (Some(text), Some(html)) => builder.multipart(MultiPart::alternative_plain_html(text, html)),
        (None, Some(html)) => builder.singlepart(SinglePart::html(html)),
        (text, None) => builder.singlepart(SinglePart::plain(text.unwrap_or_default())),
    };
    let message = message.map_err(|error| format!("the mail cannot be written: {error}"))?;
    let mut to: Vec<String> = Vec::new();
    for address in message.envelope().to().iter().map(ToString::to_string) {
        if !to.contains(&address) {
            to.push(address);
        }
    }
    Ok(Letter { id, from: from.email.to_string(), to, bytes: message.formatted() })
}

/// The task's own text; without one, and without HTML, the job's input.
fn text(mail: &Mail, input: Option<&Bytes>) -> Option<String> {
    if mail.text.is_some() || mail.html.is_some() {
        return mail.text.clone();
    }
    input.map(|input| match serde_json::from_slice(input) {
        Ok(Value::String(text)) => text,
        Ok(_) | Err(_) => String::from_utf8_lossy(input).into_owned(),
    })
}

/// Turns line breaks into CRLF. The library would move each line once for every line before it.
fn with_crlf(text: &str) -> String {
    text.replace("\r\n", "\n").replace('\r', "\n").replace('\n', "\r\n")
}

fn one_line<'a>(field: &str, value: &'a str) -> Result<&'a str, String> {
    if value.chars().any(char::is_control) {
        return Err(format!("`{field}` has control characters"));
    }
    Ok(value)
}

fn mailbox(field: &str, text: &str) -> Result<Mailbox, String> {
    let mailbox: Mailbox = one_line(field, text)?
        .parse()
        .map_err(|error| format!("`{field}` has {text:?}, which is not an address: {error}"))?;
    // A server would have to know SMTPUTF8, and so would everyone on the way.
    if !mailbox.email.to_string().is_ascii() {
        return Err(format!("`{field}` has {text:?}, which is not plain ASCII around the @"));
    }
    Ok(mailbox)
}

#[derive(Clone)]
struct JobHeader(String);

impl Header for JobHeader {
    fn name() -> HeaderName {
        HeaderName::new_from_ascii_str("X-Punctual-Job")
    }

    fn parse(text: &str) -> Result<Self, Box<dyn std::error::Error + Send + Sync>> {
        Ok(Self(text.to_owned()))
    }

    fn display(&self) -> HeaderValue {
        HeaderValue::new(Self::name(), self.0.clone())
    }
}

/// Keeps holiday notes from answering.
#[derive(Clone)]
struct AutoSubmitted;

impl Header for AutoSubmitted {
    fn name() -> HeaderName {
        HeaderName::new_from_ascii_str("Auto-Submitted")
    }

    fn parse(_: &str) -> Result<Self, Box<dyn std::error::Error + Send + Sync>> {
        Ok(Self)
    }

    fn display(&self) -> HeaderValue {
        HeaderValue::new(Self::name(), "auto-generated".to_owned())
    }
}
