//! Where the database is: what the operator's URL says, one host at a time.

use std::path::PathBuf;
use std::time::Duration;

use punctual_store::{Result, StoreError};
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode, TargetSessionAttrs};

/// A host that does not answer within this is passed over.
pub(crate) const CONNECT_LIMIT: Duration = Duration::from_secs(3);
const KEEPALIVE_IDLE: Duration = Duration::from_secs(5);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(2);
const KEEPALIVE_RETRIES: u32 = 3;
/// What was sent and not acknowledged for so long was sent to nobody.
const UNACKNOWLEDGED_LIMIT: Duration = Duration::from_secs(10);

/// What the operator asked for, beyond what tokio-postgres reads itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Trust {
    /// Encrypted or not as `sslmode` says, without a look at the certificate.
    Anyone,
    /// `verify-ca` and `verify-full`: the certificate must be valid and carry the host's name.
    Verified { roots: Option<PathBuf> },
}

#[derive(Debug, Clone)]
pub(crate) struct Target {
    /// One for each host.
    pub(crate) hosts: Vec<Config>,
    pub(crate) trust: Trust,
}

impl Target {
    pub(crate) fn parse(url: &str) -> Result<Self> {
        let (url, wishes) = take_tls_wishes(url);
        let config: Config = url
            .parse()
            .map_err(|error| StoreError::Unavailable(format!("the PostgreSQL URL is not valid: {error}")))?;
        let verify = matches!(wishes.mode.as_deref(), Some("verify-ca" | "verify-full"));
        let trust = if verify || wishes.roots.is_some() {
            Trust::Verified { roots: wishes.roots.map(PathBuf::from) }
        } else {
            Trust::Anyone
        };
        let ssl_mode = if verify { SslMode::Require } else { config.get_ssl_mode() };
        let hosts = split_hosts(&config, ssl_mode);
        if hosts.is_empty() {
            return Err(StoreError::Unavailable("the PostgreSQL URL names no host".to_owned()));
        }
        Ok(Self { hosts, trust })
    }
}

/// Each host alone: tokio-postgres would wait for ever for one that accepts and says nothing.
fn split_hosts(config: &Config, ssl_mode: SslMode) -> Vec<Config> {
    let ports = config.get_ports();
    let hosts = config.get_hosts().iter().enumerate();
    hosts
        .map(|(place, host)| {
            let mut one = Config::new();
            match host {
                Host::Tcp(name) => one.host(name),
                #[cfg(unix)]
                Host::Unix(path) => one.host_path(path),
            };
            if let Some(port) = ports.get(place).or(ports.first()) {
                one.port(*port);
            }
            if let Some(address) = config.get_hostaddrs().get(place) {
                one.hostaddr(*address);
            }
            if let Some(user) = config.get_user() {
                one.user(user);
            }
            if let Some(password) = config.get_password() {
                one.password(password);
            }
            if let Some(database) = config.get_dbname() {
                one.dbname(database);
            }
            if let Some(options) = config.get_options() {
                one.options(options);
            }
            one.ssl_mode(ssl_mode)
                .ssl_negotiation(config.get_ssl_negotiation())
                .channel_binding(config.get_channel_binding())
                .connect_timeout(*config.get_connect_timeout().unwrap_or(&CONNECT_LIMIT))
                .tcp_user_timeout(UNACKNOWLEDGED_LIMIT)
                .keepalives_idle(KEEPALIVE_IDLE)
                .keepalives_interval(KEEPALIVE_INTERVAL)
                .keepalives_retries(KEEPALIVE_RETRIES);
            // A standby would refuse every write; wait for the one that takes them.
            let attrs = match config.get_target_session_attrs() {
                TargetSessionAttrs::Any => TargetSessionAttrs::ReadWrite,
                wanted => wanted,
            };
            one.target_session_attrs(attrs);
            one
        })
        .collect()
}

#[derive(Debug, Default, PartialEq, Eq)]
struct TlsWishes {
    mode: Option<String>,
    roots: Option<String>,
}

/// Takes out what tokio-postgres does not know: `sslmode=verify-*` and `sslrootcert`.
fn take_tls_wishes(url: &str) -> (String, TlsWishes) {
    let mut wishes = TlsWishes::default();
    let mut keep = |part: &&str| match part.split_once('=') {
        Some(("sslmode", mode)) if mode.starts_with("verify-") => {
            wishes.mode = Some(mode.to_owned());
            false
        }
        Some(("sslrootcert", path)) => {
            wishes.roots = Some(path.to_owned()).filter(|path| path != "system");
            false
        }
        _ => true,
    };
    let is_url = url.starts_with("postgres://") || url.starts_with("postgresql://");
    let rest = if !is_url {
        url.split_whitespace().filter(&mut keep).collect::<Vec<_>>().join(" ")
    } else if let Some((address, query)) = url.split_once('?') {
        let kept = query.split('&').filter(&mut keep).collect::<Vec<_>>().join("&");
        if kept.is_empty() { address.to_owned() } else { format!("{address}?{kept}") }
    } else {
        url.to_owned()
    };
    (rest, wishes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_tried_one_by_one_and_only_a_primary_will_do() {
        let target = Target::parse("postgresql://me@one:1,two:2/jobs").unwrap();
        let ports: Vec<_> = target.hosts.iter().map(|host| host.get_ports().to_vec()).collect();
        assert_eq!(ports, [[1], [2]]);
        assert_eq!(target.hosts[1].get_hosts(), [Host::Tcp("two".to_owned())]);
        assert!(target.hosts.iter().all(|host| host.get_target_session_attrs() == TargetSessionAttrs::ReadWrite));
        let pairs = Target::parse("host=one,two port=7 dbname=jobs").unwrap();
        assert_eq!(pairs.hosts[1].get_ports(), [7]);
        assert_eq!(pairs.hosts[1].get_dbname(), Some("jobs"));
    }

    #[test]
    fn how_far_a_certificate_is_trusted_is_read_from_the_url() {
        let trust = |url| Target::parse(url).unwrap();
        let verified = trust("postgresql://h/jobs?sslmode=verify-full&application_name=x&sslrootcert=/ca.pem");
        assert_eq!(verified.trust, Trust::Verified { roots: Some("/ca.pem".into()) });
        assert_eq!(verified.hosts[0].get_ssl_mode(), SslMode::Require);
        assert_eq!(trust("host=h sslmode=verify-ca").trust, Trust::Verified { roots: None });
        assert_eq!(trust("postgresql://h/jobs?sslmode=require").trust, Trust::Anyone);
        assert_eq!(trust("postgresql://h/jobs?sslmode=disable").hosts[0].get_ssl_mode(), SslMode::Disable);
    }

    #[test]
    fn a_url_that_is_none_is_refused() {
        for url in ["", "jobs.db", "postgresql://h:many/jobs"] {
            assert!(Target::parse(url).is_err(), "{url}");
        }
    }
}
