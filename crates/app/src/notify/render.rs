//! The words of a message: the built-in ones, or those of the rule's own templates.

mod syntax;
mod template;
mod text;

use punctual_api::{ErrorKind, NotificationMessage};
use punctual_core::notice::Templates;

use crate::{AppError, Result};

pub(super) use template::check;
pub(super) use text::{cut, for_people, local, summary};

/// Subjects of mails are one line that people see the begin of.
const SUBJECT_CHARS_MAX: usize = 200;
/// Of a text, be it built in or by a template.
pub(super) const TEXT_BYTES_MAX: usize = 64 << 10;

/// Writes subject and text into the message. A template that fails is replaced by the built-in words, which say so.
pub(super) fn write(message: &mut NotificationMessage, templates: &Templates) {
    message.subject = text::subject(message);
    message.text = text::text(message);
    if templates.is_empty() {
        return;
    }
    let context = template::Context::new(message);
    let mut failures = Vec::new();
    let mut render = |what: &str, source: &Option<String>| {
        let source = source.as_deref()?;
        template::render(source, &context).map_err(|error| failures.push(format!("{what}: {error}"))).ok()
    };
    let subject = render("subject", &templates.subject);
    let text = render("text", &templates.text);
    if let Some(subject) = subject.map(|subject| one_line(&subject)).filter(|subject| !subject.is_empty()) {
        message.subject = subject;
    }
    if let Some(text) = text {
        message.text = text;
    }
    if !failures.is_empty() {
        let told = format!(
            "The rule's own template could not be used, so this is the built-in text.\n{}\n\n",
            failures.join("\n")
        );
        message.text.insert_str(0, &told);
    }
}

/// As [`write`], aside from the threads of requests: a template may use a core for a while.
pub(super) async fn write_aside(mut message: NotificationMessage, templates: Templates) -> Result<NotificationMessage> {
    let writing = move || {
        write(&mut message, &templates);
        message
    };
    let written = tokio::task::spawn_blocking(writing).await;
    written.map_err(|_| AppError::new(ErrorKind::Internal, "the message could not be written"))
}

/// What may stand in a header.
fn one_line(text: &str) -> String {
    let words: Vec<&str> =
        text.split(|c: char| c.is_control() || c.is_whitespace()).filter(|w| !w.is_empty()).collect();
    cut(&words.join(" "), SUBJECT_CHARS_MAX)
}

#[cfg(test)]
#[path = "render/tests.rs"]
mod tests;
