//! Keys, people, namespaces and secrets: who may do what, and where.

use maud::{Markup, html};
use punctual_api::{KeyList, NamespaceList, SecretList, SessionList, UserList};
use punctual_core::access::Right;

use crate::layout::{self, Content, empty, head, refused};
use crate::state::state;
use crate::text::{clean, escaped, maybe, user};
use crate::times::{caption, maybe_time, time_and_ago};
use crate::{Confirmation, FormFault, Page, Viewer};

/// `sessions` are the viewer's own, or everybody's.
pub fn keys(viewer: &Viewer, keys: &KeyList, sessions: &SessionList) -> Page {
    let main = html! {
        (head("Keys", &html! { "Credentials of programs, and logins of people." }, &html! {}))
        @if keys.keys.is_empty() {
            (empty("There are no keys yet.", &html! { "Make one, which is shown once: " code { "punctual key create deploy --role operator" } }))
        } @else {
            section.panel.flush {
                table.list {
                    (caption(viewer, "Keys"))
                    thead { tr { th scope="col" { "Key" } th scope="col" { "State" } th scope="col" { "Rights" } th scope="col" { "Owner" } th scope="col" { "Last used" } th scope="col" { "Expires" } } }
                    tbody {
                        @for key in &keys.keys {
                            tr id=(format!("key-{}", key.id)) {
                                td.wrap { (user(&key.name)) span.small.muted { code { (clean(&key.id)) } @if let Some(namespace) = &key.namespace { " in " (user(namespace)) } } }
                                td { (state(key.state.as_str())) }
                                td.wrap data-k="Rights" { @match &key.role { Some(role) => { (clean(role)) } None => { (key.rights.len()) " rights" } } }
                                td data-k="Owner" { (maybe(key.owner.as_deref())) }
                                td data-k="Last used" { (maybe_time(viewer, key.last_used_at)) }
                                td data-k="Expires" { (maybe_time(viewer, key.expires_at)) }
                            }
                        }
                    }
                }
            }
        }
        @if !sessions.sessions.is_empty() {
            section.panel.flush {
                table.list {
                    (caption(viewer, "Sessions"))
                    thead { tr { th scope="col" { "Person" } th scope="col" { "From" } th scope="col" { "Began" } th scope="col" { "Last used" } th scope="col" { "Ends" } } }
                    tbody {
                        @for session in &sessions.sessions {
                            tr {
                                td { (user(&session.user)) @if session.current { " " span.tag { "this one" } } }
                                td data-k="From" { (maybe(session.address.as_deref())) }
                                td data-k="Began" { (time_and_ago(viewer, session.created_at)) }
                                td data-k="Last used" { (time_and_ago(viewer, session.last_used_at)) }
                                td data-k="Ends" { (time_and_ago(viewer, session.expires_at)) }
                            }
                        }
                    }
                }
            }
        }
    };
    layout::page(viewer, &Content::still("Keys", None), &main)
}

pub fn people(viewer: &Viewer, list: &UserList) -> Page {
    let main = html! {
        (head("People", &html! { "Who may log in, and with which roles." }, &html! {}))
        @if list.users.is_empty() {
            (empty("There are no people yet.", &html! { "Add one: " code { "punctual user create ana --role operator" } }))
        } @else {
            section.panel.flush {
                table.list {
                    (caption(viewer, "People"))
                    thead { tr { th scope="col" { "Name" } th scope="col" { "State" } th scope="col" { "Roles" } th scope="col" { "Mail" } th scope="col" { "Logs in with" } th scope="col" { "Added" } } }
                    tbody {
                        @for person in &list.users {
                            tr id=(format!("person-{}", person.id)) {
                                td.wrap { (user(&person.name)) }
                                td { (state(if person.disabled { "disabled" } else { "active" })) }
                                td.wrap data-k="Roles" {
                                    @if let Some(role) = &person.role { span.tag { (clean(role)) } }
                                    @for (namespace, roles) in &person.namespace_roles { span.tag { (clean(namespace)) ": " (clean(&roles.join(", "))) } }
                                }
                                td.wrap data-k="Mail" { (maybe(person.mail.as_deref())) }
                                td data-k="Logs in with" { @if person.has_password { "password " } @if let Some(account) = &person.openid { (user(&account.issuer)) } }
                                td data-k="Added" { (time_and_ago(viewer, person.created.at)) }
                            }
                        }
                    }
                }
            }
        }
    };
    layout::page(viewer, &Content::still("People", None), &main)
}

pub fn namespaces(viewer: &Viewer, list: &NamespaceList) -> Page {
    let main = html! {
        (head("Namespaces", &html! { "Tenants that share the cluster and see nothing of each other. You look at " strong { (user(&viewer.namespace)) } "." }, &html! {}))
        section.panel.flush {
            table.list {
                (caption(viewer, "Namespaces"))
                thead { tr { th scope="col" { "Namespace" } th scope="col" { "Your rights" } th scope="col" { "Quotas" } th scope="col" { "Changed" } th scope="col" { span.hidden { "Actions" } } } }
                tbody {
                    @for namespace in &list.namespaces {
                        tr id=(format!("namespace-{}", escaped(&namespace.name))) {
                            td.wrap { (user(&namespace.name)) @if let Some(text) = &namespace.description { span.small.muted { (user(text)) } } }
                            td data-k="Your rights" { (namespace.rights.len()) }
                            td.wrap data-k="Quotas" { (quotas(&namespace.quotas)) }
                            td data-k="Changed" { (time_and_ago(viewer, namespace.changed.at)) }
                            td {
                                @if namespace.name != viewer.namespace {
                                    form method="post" action="/preferences" {
                                        input type="hidden" name="namespace" value=(namespace.name);
                                        button type="submit" { "Show" }
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    };
    layout::page(viewer, &Content::still("Namespaces", None), &main)
}

fn quotas(quotas: &punctual_api::Quotas) -> Markup {
    let value = serde_json::to_value(quotas).unwrap_or_default();
    html! {
        @for (name, limit) in value.as_object().into_iter().flatten() { span.tag { (name.replace('_', " ")) " " (clean(limit.to_string().trim_matches('"'))) } }
    }
}

pub fn secrets(viewer: &Viewer, list: &SecretList, fault: Option<&FormFault>, notice: Option<Confirmation>) -> Page {
    let main = html! {
        (head("Secrets", &html! { "Their values are used by tasks and can be read by nobody. Tasks refer to one as " code { "{{ secret.name }}" } "." }, &html! {}))
        (refused(fault))
        @if viewer.may(Right::EditSecrets) {
            form.form.panel method="post" action="/secrets" {
                fieldset {
                    legend { "Store a secret, or replace its value" }
                    label { "Name" input name="name" required autocomplete="off" spellcheck="false"; }
                    label { "Value" input name="value" type="password" required autocomplete="new-password"; }
                }
                div.actions { button.first type="submit" { "Store" } }
            }
        }
        @if list.secrets.is_empty() {
            (empty("There are no secrets yet.", &html! { "In a terminal: " code { "punctual secret set stripe-key < stripe.key" } }))
        } @else {
            section.panel.flush {
                table.list {
                    (caption(viewer, "Secrets"))
                    thead { tr { th scope="col" { "Secret" } th.number scope="col" { "Revision" } th.number scope="col" { "Tasks that use it" } th scope="col" { "Changed" } th scope="col" { "By" } } }
                    tbody {
                        @for secret in &list.secrets {
                            tr id=(format!("secret-{}", escaped(&secret.name))) {
                                td.wrap { (user(&secret.name)) }
                                td.number data-k="Revision" { (secret.revision) }
                                td.number data-k="Tasks" { @match secret.used_by_tasks { Some(count) => { (count) } None => { span.none { "not known" } } } }
                                td data-k="Changed" { (time_and_ago(viewer, secret.changed.at)) }
                                td data-k="By" { (user(&secret.changed.who)) }
                            }
                        }
                    }
                }
            }
        }
    };
    layout::page(viewer, &Content::still("Secrets", notice), &main)
}
