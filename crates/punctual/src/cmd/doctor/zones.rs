//! The time zone data: its version, where it comes from, and whether all servers have the same.

use std::collections::BTreeMap;

use punctual_api::ServerView;
use punctual_core::schedule::recurrence::ZoneData;

use super::Check;
use crate::cmd::Context;
use crate::when::zone_of;

const NAME: &str = "time zones";

pub(super) async fn check(context: &Context) -> Check {
    let Ok(client) = context.client() else { return here() };
    let Ok(node) = client.server().await else { return here() };
    let servers = client.servers().await.map(|list| list.servers).unwrap_or_default();
    of_servers(node.zone_data.as_deref(), &servers)
}

/// Without a server, what this machine has.
fn here() -> Check {
    match zone_of("Europe/Berlin") {
        Ok(_) => Check::pass(NAME, format!("{} (of this machine)", ZoneData::in_use())),
        Err(error) => Check::fail(NAME, error, "install the package tzdata"),
    }
}

/// `answered` is what the server that answered says about its own.
fn of_servers(answered: Option<&str>, servers: &[ServerView]) -> Check {
    let mut by_version: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for server in servers.iter().filter(|server| server.state == "alive") {
        if let Some(version) = &server.zone_data {
            by_version.entry(version).or_default().push(&server.address);
        }
    }
    if by_version.len() > 1 {
        let versions = by_version.iter().map(|(version, servers)| format!("{version} on {}", servers.join(", ")));
        let reason = format!(
            "the servers have different versions, so schedules may fire at different times after a takeover: {}",
            versions.collect::<Vec<_>>().join("; ")
        );
        return Check::warn(NAME, reason, "install the same version of tzdata on all servers and restart them");
    }
    let count = by_version.values().map(Vec::len).sum::<usize>();
    match answered {
        Some(answered) if count > 1 => {
            Check::pass(NAME, format!("{answered}; the same version on all {count} servers"))
        }
        Some(answered) => Check::pass(NAME, answered),
        None => Check::warn(NAME, "the server does not say the version of its time zone data", "update the server"),
    }
}

#[cfg(test)]
mod tests {
    use punctual_core::{ServerId, Timestamp};

    use super::*;
    use crate::cmd::doctor::Verdict;

    fn server(address: &str, state: &str, zone_data: Option<&str>) -> ServerView {
        ServerView {
            id: ServerId::new(Timestamp::EPOCH, 1),
            address: address.to_owned(),
            version: "1".to_owned(),
            roles: Vec::new(),
            state: state.to_owned(),
            answered: false,
            started_at: Timestamp::EPOCH,
            last_seen_at: Timestamp::EPOCH,
            shards: Vec::new(),
            duties: Vec::new(),
            workers: 0,
            running: 0,
            lag_us: 0,
            skew_us: None,
            zone_data: zone_data.map(str::to_owned),
        }
    }

    #[test]
    fn servers_with_different_zone_data_are_named() {
        let (a, b) = (server("http://a", "alive", Some("2026a")), server("http://b", "alive", Some("2026a")));
        let answered = Some("version 2026a, built in");
        let same = of_servers(answered, &[a.clone(), b.clone(), server("http://c", "alive", None)]);
        assert_eq!(
            (same.verdict, same.reason.as_str()),
            (Verdict::Pass, "version 2026a, built in; the same version on all 2 servers")
        );
        let gone = of_servers(answered, &[a.clone(), server("http://c", "silent", Some("2025b"))]);
        assert_eq!((gone.verdict, gone.reason.as_str()), (Verdict::Pass, "version 2026a, built in"));
        let other = of_servers(answered, &[a, b, server("http://c", "alive", Some("2025b"))]);
        assert_eq!(other.verdict, Verdict::Warn);
        assert!(other.reason.ends_with("2025b on http://c; 2026a on http://a, http://b"), "{}", other.reason);
        assert_eq!(of_servers(None, &[]).verdict, Verdict::Warn);
    }

    #[test]
    fn without_a_server_the_data_of_this_machine_is_shown() {
        let check = here();
        assert!(check.reason.starts_with("version ") && check.reason.ends_with("(of this machine)"), "{check:?}");
    }
}
