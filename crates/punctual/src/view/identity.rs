//! What keys, people and sessions look like in a table and in detail.

use comfy_table::Cell;
use punctual_api::{KeyView, SessionView, UserView, Whoami};

use crate::output::{Format, Output, Row};
use crate::table::Yield;

/// Rights that a line names before it counts the rest.
const RIGHTS_SHOWN: usize = 4;

fn rights(rights: &[String]) -> String {
    match rights.len() {
        0 => "none".to_owned(),
        count if count > RIGHTS_SHOWN => {
            format!("{} and {} more", rights[..RIGHTS_SHOWN].join(", "), count - RIGHTS_SHOWN)
        }
        _ => rights.join(", "),
    }
}

pub(crate) fn key(key: &KeyView, out: &Output) -> anyhow::Result<()> {
    match out.format {
        Format::Json | Format::Jsonl => return out.json(key),
        Format::Name => return out.line(&key.name),
        Format::Table => {}
    }
    let time = |at| out.zone.show(at);
    out.line(&format!("{}  {}  {}", key.name, key.id, key.state.as_str()))?;
    out.line(&format!("  namespace  {}", key.namespace.as_deref().unwrap_or("all")))?;
    out.line(&format!("  created    {} by {}", time(key.created.at), key.created.who))?;
    let expires = key.expires_at.map_or_else(|| "never".to_owned(), time);
    out.line(&format!("  expires    {expires}"))?;
    let used = key.last_used_at.map_or_else(|| "never".to_owned(), time);
    out.line(&format!("  last used  {used}"))?;
    if let Some(owner) = &key.owner {
        out.line(&format!("  owner      {owner}"))?;
    }
    if let Some(new) = &key.replaced_by {
        out.line(&format!("  replaced   by {new}"))?;
    }
    if let Some(revoked) = &key.revoked {
        out.line(&format!("  revoked    {} by {}", time(revoked.at), revoked.who))?;
    }
    if let Some(role) = &key.role {
        out.line(&format!("  role       {role}"))?;
    }
    out.line(&format!("  rights     {}", if key.rights.is_empty() { "none".to_owned() } else { key.rights.join(", ") }))
}

pub(crate) fn user(user: &UserView, out: &Output) -> anyhow::Result<()> {
    match out.format {
        Format::Json | Format::Jsonl => return out.json(user),
        Format::Name => return out.line(&user.name),
        Format::Table => {}
    }
    let disabled = if user.disabled { "  disabled" } else { "" };
    out.line(&format!("{}  {}{disabled}", user.name, user.role.as_deref().unwrap_or("no role for the cluster")))?;
    for (namespace, words) in &user.namespace_roles {
        out.line(&format!("  in {namespace}: {}", words.join(", ")))?;
    }
    if let Some(mail) = &user.mail {
        out.line(&format!("  mail      {mail}"))?;
    }
    match &user.openid {
        Some(openid) => out.line(&format!("  openid    {} at {}", openid.subject, openid.issuer))?,
        None => out.line(&format!("  password  {}", if user.has_password { "set" } else { "none" }))?,
    }
    out.line(&format!("  sessions  {}", user.sessions))?;
    out.line(&format!("  created   {} by {}", out.zone.show(user.created.at), user.created.who))?;
    out.line(&format!("  changed   {} by {}", out.zone.show(user.changed.at), user.changed.who))
}

pub(crate) fn whoami(whoami: &Whoami, out: &Output) -> anyhow::Result<()> {
    match out.format {
        Format::Json | Format::Jsonl => return out.json(whoami),
        Format::Name => return out.line(&whoami.name),
        Format::Table => {}
    }
    out.line(&format!("{}  {}", whoami.name, whoami.kind))?;
    if let Some(credential) = &whoami.credential {
        out.line(&format!("  credential  {credential}"))?;
    }
    if let Some(expires_at) = whoami.expires_at {
        out.line(&format!("  expires     {}", out.zone.show(expires_at)))?;
    }
    out.line(&format!("  namespace   {}", whoami.namespace))?;
    let rights = if whoami.rights.is_empty() { "none in this namespace".to_owned() } else { whoami.rights.join(", ") };
    out.line(&format!("  rights      {rights}"))
}

impl Row for KeyView {
    const HEADER: &'static [&'static str] =
        &["NAME", "NAMESPACE", "ID", "STATE", "GRANTS", "EXPIRES", "LAST USED", "CREATED BY"];
    const YIELDS: &'static [Yield] = &[
        Yield::ShortTimes,
        Yield::Drop("CREATED BY"),
        Yield::Drop("ID"),
        Yield::Drop("LAST USED"),
        Yield::Cut("GRANTS", 20),
        Yield::Cut("NAMESPACE", 16),
        Yield::Cut("NAME", 20),
    ];

    fn name(&self) -> String {
        self.name.clone()
    }

    fn cells(&self, out: &Output) -> Vec<Cell> {
        vec![
            Cell::new(&self.name),
            Cell::new(self.namespace.as_deref().unwrap_or("all")),
            Cell::new(&self.id),
            Cell::new(self.state.as_str()),
            Cell::new(self.role.clone().unwrap_or_else(|| rights(&self.rights))),
            Cell::new(self.expires_at.map_or_else(|| "never".to_owned(), |at| out.time(at))),
            Cell::new(self.last_used_at.map_or_else(|| "never".to_owned(), |at| out.time(at))),
            Cell::new(&self.created.who),
        ]
    }
}

impl Row for UserView {
    const HEADER: &'static [&'static str] = &["NAME", "ROLE", "NAMESPACES", "STATE", "SESSIONS", "MAIL", "CHANGED"];
    const YIELDS: &'static [Yield] = &[
        Yield::ShortTimes,
        Yield::Drop("CHANGED"),
        Yield::Drop("MAIL"),
        Yield::Cut("NAMESPACES", 24),
        Yield::Cut("NAME", 20),
    ];

    fn name(&self) -> String {
        self.name.clone()
    }

    fn cells(&self, out: &Output) -> Vec<Cell> {
        let state = match (self.disabled, self.has_password || self.openid.is_some()) {
            (true, _) => "disabled",
            (false, true) => "active",
            (false, false) => "no password",
        };
        vec![
            Cell::new(&self.name),
            Cell::new(self.role.as_deref().unwrap_or("-")),
            Cell::new(in_namespaces(self)),
            Cell::new(state),
            Cell::new(self.sessions),
            Cell::new(self.mail.as_deref().unwrap_or("-")),
            Cell::new(out.time(self.changed.at)),
        ]
    }
}

/// Such as `team-a=developer team-b=viewer`.
fn in_namespaces(user: &UserView) -> String {
    let each = user.namespace_roles.iter().map(|(namespace, words)| format!("{namespace}={}", words.join(",")));
    let all: Vec<String> = each.collect();
    if all.is_empty() { "-".to_owned() } else { all.join(" ") }
}

impl Row for SessionView {
    const HEADER: &'static [&'static str] = &["SESSION", "USER", "CURRENT", "FROM", "BEGUN", "LAST USED", "EXPIRES"];
    const YIELDS: &'static [Yield] =
        &[Yield::ShortTimes, Yield::Drop("EXPIRES"), Yield::Drop("FROM"), Yield::Drop("BEGUN"), Yield::Cut("USER", 20)];

    fn name(&self) -> String {
        self.id.clone()
    }

    fn cells(&self, out: &Output) -> Vec<Cell> {
        vec![
            Cell::new(&self.id),
            Cell::new(&self.user),
            Cell::new(if self.current { "yes" } else { "-" }),
            Cell::new(self.address.as_deref().unwrap_or("-")),
            Cell::new(out.time(self.created_at)),
            Cell::new(out.time(self.last_used_at)),
            Cell::new(out.time(self.expires_at)),
        ]
    }
}
