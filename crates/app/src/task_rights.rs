//! What a task may do only if who defines it has a right of its own. Whoever may edit tasks does not thereby get the
//! workers' machines or the network that they are in.
//!
//! Checked where a task is defined. Who runs it later needs none of these rights.

use std::net::{Ipv4Addr, Ipv6Addr};

use punctual_core::access::Right;
use punctual_core::run::{Network, Run};
use punctual_core::task::TaskSpec;
use url::{Host, Url};

use crate::Result;
use crate::principal::{By, Permission};

/// A task that is defined where it is needed, for one job or schedule.
pub(crate) fn check_inline<R: Permission>(by: &By<R>, spec: &TaskSpec) -> Result<()> {
    // That a workflow is to run defines nothing: its definition was checked when it was applied.
    if !matches!(spec.run, Run::Workflow(_)) {
        by.principal().check(Right::EditTasks)?;
    }
    check(by, spec)
}

pub(crate) fn check<R: Permission>(by: &By<R>, spec: &TaskSpec) -> Result<()> {
    if needs_secrets(&spec.run) {
        by.principal().check(Right::UseSecrets)?;
    }
    needed(&spec.run).map_or(Ok(()), |right| by.principal().check(right))
}

/// Whether a run refers to secrets.
pub(crate) fn needs_secrets(run: &Run) -> bool {
    run.has_placeholders() && !run.secret_places().is_empty()
}

fn needed(run: &Run) -> Option<Right> {
    match run {
        Run::Command(_) => Some(Right::UseCommands),
        Run::Binary(binary) => match binary.network {
            Network::None => None,
            Network::Host => Some(Right::UseNetwork),
        },
        Run::Http(call) => is_private(&call.url).then_some(Right::UsePrivateAddresses),
        Run::Email(_)
        | Run::Slack(_)
        | Run::Telegram(_)
        | Run::Probe(_)
        | Run::Handler(_)
        // The tasks of a definition were checked when it was applied.
        | Run::Workflow(_) => None,
    }
}

/// Whether a URL names a loopback, private or link-local address. What a name resolves to is for the worker to judge, when
/// it makes the call.
pub(crate) fn is_private(url: &str) -> bool {
    let Ok(url) = Url::parse(url) else { return false };
    match url.host() {
        None => false,
        Some(Host::Ipv4(address)) => is_private_v4(address),
        Some(Host::Ipv6(address)) => is_private_v6(address),
        Some(Host::Domain(name)) => {
            let name = name.trim_end_matches('.').to_ascii_lowercase();
            name == "localhost" || name.ends_with(".localhost")
        }
    }
}

fn is_private_v4(address: Ipv4Addr) -> bool {
    let [first, second, ..] = address.octets();
    // 100.64.0.0/10 is what carriers and clouds use inside.
    let is_shared = first == 100 && (64..128).contains(&second);
    address.is_loopback() || address.is_private() || address.is_link_local() || first == 0 || is_shared
}

fn is_private_v6(address: Ipv6Addr) -> bool {
    if let Some(address) = address.to_ipv4_mapped() {
        return is_private_v4(address);
    }
    address.is_loopback() || address.is_unspecified() || address.is_unique_local() || address.is_unicast_link_local()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_reaches_beyond_the_sandbox_takes_a_right_of_its_own() {
        let file = "artifact_01m7et433kee4803yssgvaf2fh";
        for (run, right) in [
            (r#"{"command":{"line":"id"}}"#.to_owned(), Some(Right::UseCommands)),
            (format!(r#"{{"binary":{{"artifact":"{file}"}}}}"#), None),
            (format!(r#"{{"binary":{{"artifact":"{file}","network":"host"}}}}"#), Some(Right::UseNetwork)),
            (r#"{"http":{"url":"http://169.254.169.254/latest"}}"#.to_owned(), Some(Right::UsePrivateAddresses)),
            (r#"{"http":{"url":"https://example.com"}}"#.to_owned(), None),
            (r#"{"probe":{}}"#.to_owned(), None),
        ] {
            assert_eq!(needed(&serde_json::from_str(&run).unwrap()), right, "{run}");
        }
    }

    #[test]
    fn private_addresses_are_recognized_however_they_are_written() {
        for url in [
            "http://localhost:1/",
            "http://LOCALHOST./",
            "http://a.localhost/",
            "http://127.0.0.1/",
            "http://127.1/",
            "http://2130706433/",
            "http://0x7f.1/",
            "http://0/",
            "http://10.1.2.3/",
            "http://172.16.0.1/",
            "http://192.168.0.1/",
            "http://100.64.0.1/",
            "http://[::1]/",
            "http://[fd00::1]/",
            "http://[fe80::1]/",
            "http://[::ffff:10.0.0.1]/",
        ] {
            assert!(is_private(url), "{url}");
        }
        for url in [
            "https://example.com/",
            "http://8.8.8.8/",
            "http://[2001:4860:4860::8888]/",
            "http://100.128.0.1/",
            "{{url}}",
        ] {
            assert!(!is_private(url), "{url}");
        }
    }
}
