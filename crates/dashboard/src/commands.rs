//! What does the same as a page, in a terminal and over HTTP.

use std::fmt::Write as _;

use maud::{Markup, html};

use crate::Viewer;
use crate::layout::command;
use crate::text::shell;

/// What `punctual` needs to talk about what is shown here.
fn global(viewer: &Viewer) -> String {
    if viewer.namespace == "default" { String::new() } else { format!(" --namespace {}", shell(&viewer.namespace)) }
}

/// `words` are arguments as they are meant; they are quoted here.
pub(crate) fn punctual(viewer: &Viewer, words: &[&str]) -> String {
    let words: Vec<String> = words.iter().map(|word| shell(word)).collect();
    format!("punctual {}{}", words.join(" "), global(viewer))
}

/// The request as `curl` sends it.
pub(crate) fn curl(viewer: &Viewer, method: &str, path: &str, body: Option<&str>) -> String {
    let mut text = "curl -fsS".to_owned();
    if method != "GET" {
        let _ = write!(text, " -X {method}");
    }
    if viewer.has_session {
        text.push_str(" -H \"Authorization: Bearer $PUNCTUAL_TOKEN\"");
    }
    if viewer.namespace != "default" {
        let _ = write!(text, " -H {}", shell(&format!("Punctual-Namespace: {}", viewer.namespace)));
    }
    if let Some(body) = body {
        let _ = write!(text, " -H 'Content-Type: application/json' -d {}", shell(body));
    }
    let _ = write!(text, " {}", shell(&format!("{}{path}", viewer.home.trim_end_matches('/'))));
    text
}

/// A panel with commands that do the same.
pub(crate) fn panel(commands: &[String]) -> Markup {
    html! {
        section.panel aria-label="Commands" {
            div.row { h2 { "The same in a terminal" } }
            @for (index, text) in commands.iter().enumerate() { (command(&format!("command-{index}"), text)) }
        }
    }
}
