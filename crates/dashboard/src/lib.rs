//! The pages of the dashboard: what the app says, as HTML.
//!
//! This crate turns answers of the interface into pages and asks nothing itself, so a page can show no more than the interface
//! would. Pages are read and used without scripts; `live.js` renews what is shown. Nothing is loaded from elsewhere, and no
//! script or style is inline, so [`CONTENT_SECURITY_POLICY`] holds. Texts of users go through `text.rs`.

mod access;
mod artifacts;
mod assets;
mod attempts;
mod audit;
mod cluster;
mod commands;
mod graph;
mod job;
mod job_form;
mod jobs;
mod layout;
mod login;
mod new_job;
mod notifications;
mod overview;
mod problem;
mod queues;
mod runs;
mod schedule;
mod schedule_form;
mod schedules;
mod state;
mod tasks;
mod text;
mod timeline;
mod times;
mod workers;
mod workflows;

#[cfg(test)]
mod hostile;

use jiff::tz::TimeZone;
use punctual_core::Timestamp;
use punctual_core::access::{Right, Rights};

pub use access::{keys, namespaces, people, secrets};
pub use artifacts::artifacts;
pub use assets::{Asset, asset};
pub use audit::audit;
pub use cluster::cluster;
pub use job::{JobPage, LogPiece, job};
pub use job_form::{JobForm, JobKind};
pub use jobs::jobs;
pub use login::login;
pub use new_job::{JobPreview, new_job};
pub use notifications::notifications;
pub use overview::{Overview, overview};
pub use problem::problem;
pub use queues::queues;
pub use runs::{run, runs};
pub use schedule::schedule;
pub use schedule_form::{ScheduleForm, SchedulePreview, edit_schedule};
pub use schedules::schedules;
pub use tasks::{task, tasks};
pub use text::escaped as url_escaped;
pub use timeline::HORIZON;
pub use workers::workers;
pub use workflows::{workflow, workflows};

/// Scripts and styles of this server only, nothing inline, and no frames.
pub const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
    connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; \
    require-trusted-types-for 'script'; trusted-types punctual-live punctual-page";

/// A whole page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page(pub String);

/// Attributes that hold an address. Those of this server begin with a slash.
const ADDRESSES: [&str; 8] =
    ["href", "src", "action", "formaction", "data-live", "data-follow", "data-preview", "data-preferences"];

impl Page {
    /// The page for a server that browsers reach below a path, such as `/punctual`. A quotation mark in a text of a user is
    /// escaped, so what looks like an attribute is one.
    #[must_use]
    pub fn below(self, path: &str) -> String {
        if path.is_empty() {
            return self.0;
        }
        ADDRESSES.iter().fold(self.0, |html, name| html.replace(&format!(" {name}=\"/"), &format!(" {name}=\"{path}/")))
    }
}

/// Light or dark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Theme {
    /// As the system is set.
    #[default]
    System,
    Light,
    Dark,
}

impl Theme {
    pub const ALL: [Self; 3] = [Self::System, Self::Light, Self::Dark];

    pub const fn name(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::Light => "light",
            Self::Dark => "dark",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|theme| theme.name() == text)
    }
}

/// Who looks at a page, and how they want it.
#[derive(Debug, Clone)]
pub struct Viewer {
    /// As records show it, such as `user:ana`.
    pub who: String,
    pub namespace: String,
    /// Those that there are to choose from.
    pub namespaces: Vec<String>,
    pub rights: Rights,
    /// Whether there is a login that can be ended.
    pub has_session: bool,
    pub zone: TimeZone,
    /// Otherwise the browser's is suggested.
    pub has_chosen_zone: bool,
    pub theme: Theme,
    /// Path and query of this page.
    pub address: String,
    /// Where people reach the servers.
    pub home: String,
    /// The server's clock.
    pub now: Timestamp,
}

impl Viewer {
    fn may(&self, right: Right) -> bool {
        self.rights.contains(right)
    }
}

/// Why a form was not taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FormFault {
    pub detail: String,
    pub hint: Option<String>,
}

macro_rules! notices {
    ($($(#[doc = $doc:literal])* $variant:ident $name:literal $text:literal;)*) => {
        /// What was just done, for the next page to say.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Confirmation { $($(#[doc = $doc])* $variant),* }

        impl Confirmation {
            const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// In addresses.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name),* }
            }

            const fn text(self) -> &'static str {
                match self { $(Self::$variant => $text),* }
            }
        }
    };
}

notices! {
    CancelRequested "cancel-requested" "The running attempt was asked to end.";
    Cancelled "cancelled" "Cancelled.";
    Created "created" "Created. This page shows what becomes of it.";
    Saved "saved" "Saved.";
    Deleted "deleted" "Deleted. It will not run.";
    Retried "retried" "The job runs again.";
    Started "started" "The job starts as soon as a worker is free.";
    Paused "paused" "Paused. Nothing starts until it is resumed.";
    Resumed "resumed" "Resumed.";
    Drained "drained" "Draining. New submissions are refused; stored jobs still run.";
    Skipped "skipped" "The next planned run is skipped.";
    RunStarted "run-started" "A run was started.";
    RunNotStarted "run-not-started" "No run was started now, because of the overlap policy.";
    Decided "decided" "The decision is on record, and the run goes on.";
    SecretStored "secret-stored" "Stored. Its value cannot be read again.";
}

impl Confirmation {
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|notice| notice.name() == text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn below_a_path_addresses_move_and_texts_do_not() {
        let title = "x\" href=\"/evil";
        let html = maud::html! {
            a href="/jobs" title=(title) { (title) " action=\"/\"" }
            input value="/tmp/x";
            form action="/jobs" data-preview="/jobs/preview" data-preferences="/preferences" {}
        };
        let moved = Page(html.0.clone()).below("/punctual");
        assert_eq!(
            moved,
            "<a href=\"/punctual/jobs\" title=\"x&quot; href=&quot;/evil\">x&quot; href=&quot;/evil action=&quot;/&quot;</a>\
             <input value=\"/tmp/x\"><form action=\"/punctual/jobs\" data-preview=\"/punctual/jobs/preview\" \
             data-preferences=\"/punctual/preferences\"></form>"
        );
        assert_eq!(Page(html.0.clone()).below(""), html.0);
    }

    #[test]
    fn a_notice_is_found_by_its_name() {
        for notice in Confirmation::ALL {
            assert_eq!(Confirmation::parse(notice.name()), Some(*notice));
        }
        assert_eq!(Confirmation::parse("<script>"), None);
    }
}
