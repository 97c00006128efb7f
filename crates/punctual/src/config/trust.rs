//! The settings file in the current folder. It may have come with somebody else's project, so it is read only if nobody else could
//! have written it, and it cannot set servers, permissions or credentials.

use std::collections::BTreeMap;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::exit::usage;

pub(super) const LOCAL_FILE: &str = "punctual.toml";

/// Settings that the file in the current folder cannot have.
pub(super) const NOT_LOCAL: [&str; 31] = [
    "server",
    "token_file",
    "allow_plain_http",
    "advertise",
    "database",
    "storage",
    "storage_endpoint",
    "storage_region",
    "storage_key_id",
    "storage_secret",
    "storage_token",
    "spawn",
    "agent_server",
    "agent_ca",
    "container_socket",
    "container_image",
    "container_network",
    "http_allow",
    "http_deny",
    "webhook_keys",
    "slack_webhooks",
    "smtp_url",
    "smtp_password",
    "smtp_from",
    "telegram_bots",
    "telegram_api",
    "allow_commands",
    "allow_network",
    "sandbox_require",
    "listen",
    "probe_effects",
];

/// What happens to a file that somebody else could have written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Untrusted {
    /// For servers and workers: without their settings they would run for long as nobody wanted.
    Refuse,
    Ignore,
}

/// Why a file in the current folder is not read.
pub(super) fn distrust(path: &Path) -> Option<String> {
    let found = std::fs::metadata(path).ok()?;
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let reason = reason(&found, uid, gid)?;
    Some(format!("./{} is not read: {reason}", path.display()))
}

/// Said with each refusal.
pub(super) const TRUST_HINT: &str =
    "check what it says, then correct that with chown or chmod, or name the file with --config";

fn reason(found: &Metadata, uid: u32, gid: u32) -> Option<String> {
    if found.uid() != uid && found.uid() != 0 {
        return Some(format!("it belongs to uid {}", found.uid()));
    }
    // Where each user has a group of their own, files are writable by it as a rule.
    let is_own_group = found.gid() == gid && gid == uid;
    let writable = found.mode() & if is_own_group { 0o002 } else { 0o022 };
    (writable != 0).then(|| format!("others can write to it (mode {:04o})", found.mode() & 0o7777))
}

/// Refuses settings that do not belong into the file in the current folder.
pub(super) fn check_keys(values: &BTreeMap<String, String>) -> anyhow::Result<()> {
    let Some(key) = NOT_LOCAL.iter().find(|key| values.contains_key(**key)) else { return Ok(()) };
    Err(usage(
        format!("./{LOCAL_FILE}: `{key}` cannot be set by a file in the current folder, which may be somebody else's"),
        format!(
            "set it in $XDG_CONFIG_HOME/punctual/config.toml or in {}, or name the file with --config",
            super::variable(key)
        ),
    ))
}
