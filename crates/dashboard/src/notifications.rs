//! Notification rules, and the messages that were sent.

use maud::{Markup, html};
use punctual_api::{DeliveryList, NotificationList, NotificationView};

use crate::layout::{self, Content, empty, head};
use crate::state::state;
use crate::text::{address, clean, escaped, maybe, user};
use crate::times::{caption, duration, time_and_ago};
use crate::{Page, Viewer};

pub fn notifications(viewer: &Viewer, rules: &NotificationList, deliveries: &DeliveryList) -> Page {
    let next =
        deliveries.next_cursor.as_ref().map(|cursor| address("/notifications", [("cursor", Some(cursor.as_str()))]));
    let main = html! {
        (head("Notifications", &html! { "Who is told of what, and what was sent." }, &html! {}))
        @if rules.notifications.is_empty() {
            (empty("There are no rules yet, so nobody is told of a failure.", &html! { "Make one: " code { "punctual notify apply ops --email ops@example.com" } }))
        } @else {
            section.panel.flush {
                table.list {
                    (caption(viewer, "Rules"))
                    thead { tr { th scope="col" { "Rule" } th scope="col" { "State" } th scope="col" { "On" } th scope="col" { "For" } th scope="col" { "To" } th.number scope="col" { "At most one in" } } }
                    tbody { @for rule in &rules.notifications { (row(viewer, rule)) } }
                }
            }
        }
        section.panel.flush #deliveries data-part {
            @if deliveries.deliveries.is_empty() {
                div.row { h2 { "Deliveries" } } p.more.muted { "Nothing has been sent yet." }
            } @else {
                table.list {
                    (caption(viewer, "Deliveries"))
                    thead { tr { th scope="col" { "State" } th scope="col" { "Message" } th scope="col" { "Rule" } th.number scope="col" { "Events" } th scope="col" { "Made" } th scope="col" { "Note" } } }
                    tbody {
                        @for delivery in &deliveries.deliveries {
                            tr id=(format!("delivery-{}", delivery.job)) {
                                td { @match &delivery.state { Some(word) => { (state(word)) } None => { span.none { "removed" } } } }
                                td.wrap { a.main href=(format!("/jobs/{}", delivery.job)) { (user(&delivery.summary)) } }
                                td data-k="Rule" { (user(&delivery.rule)) }
                                td.number data-k="Events" { (delivery.events) }
                                td data-k="Made" { (time_and_ago(viewer, delivery.at)) }
                                td.wrap.muted { (maybe(delivery.reason.as_deref())) }
                            }
                        }
                    }
                }
                (layout::more(next.as_deref()))
            }
        }
    };
    layout::page(viewer, &Content::live("Notifications", None), &main)
}

fn row(viewer: &Viewer, rule: &NotificationView) -> Markup {
    let scope: Vec<String> = [("task", &rule.tasks), ("queue", &rule.queues), ("schedule", &rule.schedules)]
        .into_iter()
        .flat_map(|(kind, names)| names.iter().map(move |name| format!("{kind} {name}")))
        .collect();
    html! {
        tr id=(format!("rule-{}", escaped(&rule.name))) {
            td.wrap { (user(&rule.name)) @if let Some(waiting) = &rule.waiting { span.small.muted { "gathers " (waiting.events) " events, sends " (time_and_ago(viewer, waiting.send_at)) } @if let Some(held) = &waiting.held { span.small.warning { (user(held)) } } } }
            td { (state(if rule.enabled { "active" } else { "disabled" })) }
            td.wrap data-k="On" { @for kind in &rule.on { span.tag { (kind.as_str()) } } }
            td.wrap data-k="For" { @if scope.is_empty() { "everything" } @for name in &scope { span.tag { (clean(name)) } } }
            td.wrap data-k="To" { (user(&recipients(rule))) }
            td.number data-k="At most one in" { (duration(rule.window)) }
        }
    }
}

fn recipients(rule: &NotificationView) -> String {
    if let Some(mail) = &rule.email {
        let requester = if mail.requester { vec!["the requester".to_owned()] } else { Vec::new() };
        return mail.to.iter().chain(&mail.cc).cloned().chain(requester).collect::<Vec<_>>().join(", ");
    }
    if let Some(slack) = &rule.slack {
        return format!("Slack {}", slack.webhook);
    }
    if let Some(telegram) = &rule.telegram {
        return format!("Telegram {}", telegram.chat);
    }
    rule.webhook.as_ref().map(|webhook| webhook.url.clone()).unwrap_or_default()
}
