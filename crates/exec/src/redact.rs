//! Takes the secrets of an attempt out of what leaves the worker: logs, outputs, reasons and details.
//!
//! Found are the exact value, each line of a value with several lines, and both as base64 (either alphabet, at any alignment,
//! in lines or in one), percent-encoded, in hexadecimal, and as they stand in JSON. What a program does to a value beyond
//! that, such as reversing or encrypting it, is not found.

mod forms;
mod search;
mod stream;

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use punctual_core::attempt::{Details, Outcome};
use punctual_core::secret::SecretValues;
use zeroize::Zeroizing;

use search::Search;
pub use stream::RedactingStream;

/// A beginning of a value that ends a text is taken out from this length on: the rest was cut off.
const CUT_BYTES_MIN: usize = 8;

/// The secrets of one attempt, ready to be looked for.
#[derive(Clone)]
pub struct Redactor(Arc<Inner>);

struct Inner {
    /// In the text as it is.
    plain: Search,
    /// In the text without its line breaks: encodings that programs write in lines.
    unbroken: Search,
}

/// A text that is looked for.
struct Pattern {
    text: Zeroizing<Vec<u8>>,
    /// What stands in its place.
    mark: Arc<str>,
}

impl Redactor {
    /// `None` if there is nothing to look for.
    pub fn new(secrets: &SecretValues) -> Option<Self> {
        let (mut plain, mut unbroken): (Vec<Pattern>, Vec<Pattern>) = (Vec::new(), Vec::new());
        for (name, value) in secrets.iter() {
            let mark: Arc<str> = format!("[secret {name}]").into();
            let forms = forms::of(value.expose());
            let pattern = |text: &Vec<u8>| Pattern { text: Zeroizing::new(text.clone()), mark: Arc::clone(&mark) };
            unbroken.extend(forms.in_lines.iter().map(pattern));
            plain.extend(forms.plain.iter().chain(&forms.in_lines).map(pattern));
        }
        if plain.is_empty() {
            return None;
        }
        Some(Self(Arc::new(Inner { plain: Search::new(plain), unbroken: Search::new(unbroken) })))
    }

    /// A text that comes in pieces.
    pub fn stream(&self) -> RedactingStream {
        RedactingStream::new(self.clone())
    }

    /// The text without secrets. What is left of one that was cut at its end goes too.
    pub fn redact<'a>(&self, text: &'a [u8]) -> Cow<'a, [u8]> {
        let mut stream = self.stream();
        let mut redacted = stream.push(text);
        redacted.extend(stream.finish());
        if redacted == text { Cow::Borrowed(text) } else { Cow::Owned(redacted) }
    }

    pub fn redact_text(&self, text: String) -> String {
        match self.redact(text.as_bytes()) {
            Cow::Borrowed(_) => text,
            Cow::Owned(redacted) => String::from_utf8_lossy(&redacted).into_owned(),
        }
    }

    /// Before it is cut to its length, or a part of a secret would not be found.
    pub fn redact_outcome(&self, outcome: Outcome) -> Outcome {
        match outcome {
            Outcome::Succeeded { output: Some(output) } => {
                let redacted = match self.redact(&output) {
                    Cow::Borrowed(_) => None,
                    Cow::Owned(redacted) => Some(Bytes::from(redacted)),
                };
                Outcome::Succeeded { output: Some(redacted.unwrap_or(output)) }
            }
            Outcome::Failed(mut failure) => {
                failure.reason = self.redact_text(failure.reason);
                Outcome::Failed(failure)
            }
            Outcome::NotStarted { reason } => Outcome::NotStarted { reason: self.redact_text(reason) },
            Outcome::Succeeded { output: None } | Outcome::Cancelled => outcome,
        }
    }

    pub fn redact_details(&self, mut details: Details) -> Details {
        for text in [&mut details.limit, &mut details.sandbox, &mut details.host].into_iter().flatten() {
            *text = self.redact_text(std::mem::take(text));
        }
        details
    }

    /// The pattern of which the end of `text` is a beginning, and how much of it: what was cut off.
    fn cut_at_end(&self, text: &[u8]) -> Option<(usize, &Pattern)> {
        let overlap = |pattern: &Pattern| {
            let longest = text.len().min(pattern.text.len() - 1);
            (CUT_BYTES_MIN..=longest).rev().find(|len| pattern.text.starts_with(&text[text.len() - len..]))
        };
        let cuts = self.0.plain.patterns.iter().filter_map(|pattern| Some((overlap(pattern)?, pattern)));
        cuts.max_by_key(|(len, _)| *len)
    }
}

impl std::fmt::Debug for Redactor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Redactor")
    }
}

#[cfg(test)]
mod tests;
