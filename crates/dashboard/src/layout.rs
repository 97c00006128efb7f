//! What all pages have: head, navigation, preferences, and the place for what was just done.

use maud::{DOCTYPE, Markup, PreEscaped, html};
use punctual_core::access::Right;

use crate::assets::{ICON, LIVE, LOG, PAGE, STYLE, address};
use crate::text::{clean, user};
use crate::times::{offset, tick, zone_name};
use crate::{Confirmation, Page, Theme, Viewer};

/// A part of the navigation: its key for the keyboard, its name and address, and the right without which it is not offered.
type Place = (&'static str, &'static str, &'static str, Right);

const WORK: [Place; 6] = [
    ("overview", "Overview", "/", Right::ViewJobs),
    ("jobs", "Jobs", "/jobs", Right::ViewJobs),
    ("tasks", "Tasks", "/tasks", Right::ViewTasks),
    ("schedules", "Schedules", "/schedules", Right::ViewSchedules),
    ("workflows", "Workflows", "/workflows", Right::ViewTasks),
    ("runs", "Runs", "/runs", Right::ViewJobs),
];
const MACHINES: [Place; 3] = [
    ("queues", "Queues", "/queues", Right::ViewJobs),
    ("workers", "Workers", "/workers", Right::ViewWorkers),
    ("cluster", "Cluster", "/cluster", Right::ViewCluster),
];
const RECORDS: [Place; 7] = [
    ("notifications", "Notifications", "/notifications", Right::ViewNotifications),
    ("artifacts", "Artifacts", "/artifacts", Right::ViewArtifacts),
    ("secrets", "Secrets", "/secrets", Right::ViewSecrets),
    ("keys", "Keys", "/keys", Right::CreateKeys),
    ("people", "People", "/people", Right::ManagePeople),
    ("namespaces", "Namespaces", "/namespaces", Right::ViewJobs),
    ("audit", "Audit", "/audit", Right::ReadAudit),
];

/// Zones that are offered. Any other name can be typed.
const ZONES: [&str; 12] = [
    "UTC",
    "Europe/London",
    "Europe/Berlin",
    "Europe/Helsinki",
    "Asia/Kolkata",
    "Asia/Singapore",
    "Asia/Tokyo",
    "Australia/Sydney",
    "America/New_York",
    "America/Chicago",
    "America/Los_Angeles",
    "America/Sao_Paulo",
];

/// What a page shows, and what it needs for that.
pub(crate) struct Content<'a> {
    pub(crate) title: &'a str,
    pub(crate) notice: Option<Confirmation>,
    /// Where changes are told, if the page is renewed by itself.
    pub(crate) live: Option<String>,
    /// Whether it follows a log.
    pub(crate) has_log: bool,
}

impl<'a> Content<'a> {
    /// A page that is renewed when any job changes.
    pub(crate) fn live(title: &'a str, notice: Option<Confirmation>) -> Self {
        Self { title, notice, live: Some("/events".to_owned()), has_log: false }
    }

    /// A page that stays as it is.
    pub(crate) fn still(title: &'a str, notice: Option<Confirmation>) -> Self {
        Self { title, notice, live: None, has_log: false }
    }
}

/// A page with `h1` in its main part.
pub(crate) fn page(viewer: &Viewer, content: &Content<'_>, main: &Markup) -> Page {
    let here = viewer.address.split('?').next().unwrap_or("/");
    let body = html! {
        a.skip href="#main" { "Skip to the content" }
        header.top {
            (brand())
            (namespace_menu(viewer))
            form.find method="get" action="/find" role="search" {
                input name="q" aria-label="Find a job, a run or a task" placeholder="Job id, run id or task" autocomplete="off" spellcheck="false";
                kbd aria-hidden="true" { "/" }
            }
            (clock(viewer))
            span #live.live role="status" {}
            (account_menu(viewer))
        }
        div.frame {
            nav aria-label="Main" {
                (places(viewer, here, &WORK))
                (places(viewer, here, &MACHINES))
                (places(viewer, here, &RECORDS))
            }
            main #main tabindex="-1" data-live=[content.live.as_deref()] {
                @if let Some(notice) = content.notice { p.notice role="status" { (notice.text()) } }
                (main)
            }
            footer {
                span { (user(&viewer.who)) " in " (user(&viewer.namespace)) }
                a href="/openapi.json" { "API" }
                button.plain #show-keys type="button" { "Keyboard" }
            }
        }
        (keys())
    };
    document(viewer.theme, Some(viewer), content.title, content.has_log, &body)
}

/// A page for somebody who is nobody yet.
pub(crate) fn bare(title: &str, main: &Markup) -> Page {
    let body = html! {
        header.top { (brand()) }
        main.bare #main { h1 { (user(title)) } (main) }
    };
    document(Theme::System, None, title, false, &body)
}

fn brand() -> Markup {
    html! {
        a.brand href="/" {
            svg viewBox="0 0 20 20" aria-hidden="true" { path.mark d="M2 10h6M12 10h6" {} path.mark-now d="M10 2v16" {} }
            "Punctual"
        }
    }
}

fn document(theme: Theme, viewer: Option<&Viewer>, title: &str, has_log: bool, body: &Markup) -> Page {
    let chosen = viewer.map(|viewer| if viewer.has_chosen_zone { "yes" } else { "no" });
    let html = html! {
        (DOCTYPE)
        html lang="en" data-theme=(theme.name()) data-zone-chosen=[chosen] data-zone=[viewer.map(|viewer| zone_name(&viewer.zone))] data-preferences="/preferences" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (clean(title)) " · Punctual" }
                link rel="icon" href=(address(&ICON));
                link rel="stylesheet" href=(address(&STYLE));
                @if viewer.is_some() {
                    script type="module" src=(address(&LIVE)) {}
                    script type="module" src=(address(&PAGE)) {}
                }
                @if has_log { script type="module" src=(address(&LOG)) {} }
            }
            body { (body) }
        }
    };
    let PreEscaped(html) = html;
    Page(html)
}

fn places(viewer: &Viewer, here: &str, places: &[Place]) -> Markup {
    let is_here =
        |place: &str| if place == "/" { here == "/" } else { here == place || here.starts_with(&format!("{place}/")) };
    html! {
        @if places.iter().any(|(.., right)| viewer.may(*right)) {
            ul {
                @for (key, name, place, right) in places {
                    @if viewer.may(*right) {
                        li { a href=(place) data-place=(key) aria-current=[is_here(place).then_some("page")] { (name) } }
                    }
                }
            }
        }
    }
}

fn clock(viewer: &Viewer) -> Markup {
    let zone = zone_name(&viewer.zone);
    html! {
        span.clock {
            time.num #clock datetime=(viewer.now.to_string()) data-zone=(&zone) { (tick(viewer, viewer.now, "%H:%M:%S")) }
            " " span.zone { (zone) @if zone != "UTC" { " UTC" (offset(viewer)) } }
        }
    }
}

/// One namespace needs no choice.
fn namespace_menu(viewer: &Viewer) -> Markup {
    html! {
        @if viewer.namespaces.len() > 1 {
            details.menu {
                summary { span.hidden { "Namespace " } (user(&viewer.namespace)) }
                form method="post" action="/preferences" {
                    input type="hidden" name="back" value="/";
                    label {
                        "Namespace"
                        select name="namespace" {
                            @for name in &viewer.namespaces { option value=(name) selected[*name == viewer.namespace] { (clean(name)) } }
                        }
                    }
                    button.first type="submit" { "Show" }
                }
            }
        }
    }
}

fn account_menu(viewer: &Viewer) -> Markup {
    html! {
        details.menu #account {
            summary { span.hidden { "Preferences of " } (user(&viewer.who)) }
            div {
                form.form method="post" action="/preferences" {
                    input type="hidden" name="back" value=(viewer.address);
                    label {
                        "Time zone"
                        input name="zone" list="zones" value=(zone_name(&viewer.zone)) autocomplete="off" spellcheck="false";
                    }
                    datalist #zones { @for zone in ZONES { option value=(zone) {} } }
                    label {
                        "Colours"
                        select name="theme" {
                            @for theme in Theme::ALL {
                                option value=(theme.name()) selected[theme == viewer.theme] { (theme.name()) }
                            }
                        }
                    }
                    button.first type="submit" { "Save" }
                }
                @if viewer.has_session {
                    form method="post" action="/logout" { button type="submit" { "Log out" } }
                }
            }
        }
    }
}

fn keys() -> Markup {
    const KEYS: [(&str, &str); 12] = [
        ("/", "find"),
        ("j", "next row"),
        ("k", "row before"),
        ("Enter", "open the row"),
        ("g o", "overview"),
        ("g j", "jobs"),
        ("g t", "tasks"),
        ("g s", "schedules"),
        ("g w", "workflows"),
        ("g q", "queues"),
        ("g k", "workers"),
        ("?", "these keys"),
    ];
    html! {
        dialog #keys aria-label="Keyboard" {
            dl { @for (key, what) in KEYS { dt { kbd { (key) } } dd { (what) } } }
            form method="dialog" { p { button.first type="submit" { "Close" } } }
        }
    }
}

/// The title of a page, what to say of it in a line, and what to do.
pub(crate) fn head(title: &str, about: &Markup, actions: &Markup) -> Markup {
    html! {
        div.head {
            div { h1 { (user(title)) } @if !about.0.is_empty() { p.muted { (about) } } }
            @if !actions.0.is_empty() { div.actions { (actions) } }
        }
    }
}

/// A button that changes something.
pub(crate) fn action(address: &str, name: &str, kind: ActionKind) -> Markup {
    html! {
        form method="post" action=(address) { button type="submit" class=[kind.class()] { (name) } }
    }
}

/// A change that cannot be undone or that others notice: it is confirmed on the page before anything is sent, also without
/// scripts.
pub(crate) fn confirmed(address: &str, name: &str, question: &str) -> Markup {
    html! {
        details.confirm {
            summary.btn.danger { (name) }
            form method="post" action=(address) {
                p { (question) }
                button.danger type="submit" { "Yes, " (name.to_lowercase()) }
            }
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ActionKind {
    First,
    Other,
}

impl ActionKind {
    const fn class(self) -> Option<&'static str> {
        match self {
            Self::First => Some("first"),
            Self::Other => None,
        }
    }
}

/// Where nothing is listed: why, and what to do.
pub(crate) fn empty(what: &str, next: &Markup) -> Markup {
    html! { div.empty { p { strong { (what) } } p { (next) } } }
}

/// The rest of a list.
pub(crate) fn more(address: Option<&str>) -> Markup {
    html! { @if let Some(address) = address { p.more { a rel="next" href=(address) { "Next page" } } } }
}

/// A command that does what the page does, to be copied.
pub(crate) fn command(id: &str, text: &str) -> Markup {
    html! {
        div.command {
            pre #(id) tabindex="0" { (clean(text)) }
            button type="button" data-copy=(id) { "Copy" }
        }
    }
}

/// What was wrong with a form.
pub(crate) fn refused(fault: Option<&crate::FormFault>) -> Markup {
    html! {
        @if let Some(fault) = fault {
            div.notice.error role="alert" {
                p { strong { (user(&fault.detail)) } }
                @if let Some(hint) = &fault.hint { p { (user(hint)) } }
            }
        }
    }
}
