//! States as shape, colour and word, the same in tables, timelines and graphs.

use maud::{Markup, html};

use crate::text::clean;

/// What a state means to whoever looks: it chooses glyph and colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Meaning {
    Ok,
    Running,
    Waiting,
    Failed,
    /// Nobody knows, or nobody did it: lost, missed, silent.
    Lost,
    /// Ended, left out or held back on purpose.
    Off,
    Planned,
    /// A clock change or a calendar moved it.
    Moved,
    Warning,
}

impl Meaning {
    /// Of a state as the interface calls it.
    pub(crate) fn of(state: &str) -> Self {
        match state {
            "running" => Self::Running,
            "active" | "connected" | "alive" | "succeeded" | "approved" | "fired" | "ready" | "valid" | "done" => {
                Self::Ok
            }
            "failed" | "quarantined" | "broken" | "rejected" | "upstream_failed" | "timed_out" | "refused" => {
                Self::Failed
            }
            "lost" | "missed" | "silent" => Self::Lost,
            "cancelled" | "deleted" | "skipped" | "paused" | "ended" | "left" | "draining" | "not_run" | "replaced"
            | "expired" | "revoked" | "disabled" | "owner_disabled" => Self::Off,
            _ => Self::Waiting,
        }
    }

    /// Of a node of a workflow, where `active` is a job that waits or runs.
    pub(crate) fn of_node(state: &str) -> Self {
        if state == "active" { Self::Running } else { Self::of(state) }
    }

    /// Of the verdict on a planned time.
    pub(crate) fn of_verdict(verdict: &str) -> Self {
        match verdict {
            "fired" => Self::Ok,
            "queued" => Self::Waiting,
            "missed" => Self::Lost,
            _ => Self::Off,
        }
    }

    pub(crate) const fn class(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Running => "run",
            Self::Waiting => "wait",
            Self::Failed => "fail",
            Self::Lost => "lost",
            Self::Off => "off",
            Self::Planned => "plan",
            Self::Moved | Self::Warning => "warn",
        }
    }

    /// The shape, in a square of 16 by 16.
    pub(crate) fn shape(self) -> Markup {
        html! {
            @match self {
                Self::Ok => { circle cx="8" cy="8" r="6.8" class="fill" {} path d="M5 8.2l2.1 2.1L11 6.2" class="cut" {} }
                Self::Running => { circle cx="8" cy="8" r="6" class="faint" {} path d="M8 2a6 6 0 0 1 6 6" class="line" {} }
                Self::Waiting => { circle cx="8" cy="8" r="6" class="line" {} path d="M8 4.8V8l2.2 1.4" class="line" {} }
                Self::Failed => { rect x="1.8" y="1.8" width="12.4" height="12.4" rx="2" class="fill" {} path d="M5.6 5.6l4.8 4.8M10.4 5.6l-4.8 4.8" class="cut" {} }
                Self::Lost | Self::Warning => { path d="M8 1.4l6.9 12.6H1.1z" class="fill" {} path d="M8 6v3.6M8 11.6v.4" class="cut" {} }
                Self::Off => { circle cx="8" cy="8" r="6" class="line" {} path d="M3.9 12.1l8.2-8.2" class="line" {} }
                Self::Planned => { circle cx="8" cy="8" r="5.6" class="dash" {} }
                Self::Moved => { path d="M8 1.6L14.4 8 8 14.4 1.6 8z" class="line" {} }
            }
        }
    }

    pub(crate) fn glyph(self) -> Markup {
        html! { svg viewBox="0 0 16 16" aria-hidden="true" { (self.shape()) } }
    }

    /// With a word of its own.
    pub(crate) fn named(self, word: &str) -> Markup {
        html! { span class=(format!("s {}", self.class())) { (self.glyph()) (clean(word)) } }
    }

    /// Without a word, for a place where the text says it.
    pub(crate) fn alone(self) -> Markup {
        html! { span class=(format!("s {}", self.class())) { (self.glyph()) } }
    }

    /// A mark in a row of marks, which says in its title what it stands for.
    pub(crate) fn dot(self, title: &str) -> Markup {
        html! { span class=(format!("s {}", self.class())) role="img" aria-label=(clean(title)) title=(clean(title)) { (self.glyph()) } }
    }
}

/// A state, such as `running`.
pub(crate) fn state(state: &str) -> Markup {
    Meaning::of(state).named(&state.replace('_', " "))
}

/// The same, large, beside the sentence of a page.
pub(crate) fn big(meaning: Meaning, word: &str) -> Markup {
    html! { span class=(format!("s big {}", meaning.class())) role="img" aria-label=(clean(word)) title=(clean(word)) { (meaning.glyph()) } }
}
