//! The settings of a server: what must go together, and what parts of it are made of.

use punctual_app::{Roles, TaskLimits};
use punctual_core::task_defaults::TaskDefaults;

use super::addresses::host_of;
use super::{Config, Database, Origin, ServerSettings, TlsMode};
use crate::exit::usage;

impl ServerSettings {
    pub(crate) fn new(config: &Config) -> anyhow::Result<Self> {
        let settings = Self::read(config)?;
        settings.check(config)?;
        Ok(settings)
    }

    pub(crate) const fn task_defaults(&self) -> TaskDefaults {
        TaskDefaults { timeout: self.default_timeout, retries: self.default_retries }
    }

    pub(crate) const fn task_limits(&self) -> TaskLimits {
        TaskLimits { timeout_max: self.timeout_max, retries_max: self.retries_max }
    }

    /// Settings that must go together.
    fn check(&self, config: &Config) -> anyhow::Result<()> {
        // Everyone on a machine can read the command lines of its processes.
        if config.value("database").origin == Origin::Flag && self.database.has_password() {
            return Err(usage(
                "--database: a password on the command line can be read by everyone on this machine",
                "pass it in PUNCTUAL_DATABASE, in a settings file, or in PGPASSWORD",
            ));
        }
        self.check_network()?;
        // One lost heartbeat must not cost a worker its jobs.
        if self.worker_dead_after.as_micros() < 2 * self.heartbeat.as_micros() {
            let (dead_after, heartbeat) = (self.worker_dead_after, self.heartbeat);
            return Err(usage(
                format!("worker_dead_after ({dead_after}) is less than two heartbeats of {heartbeat}"),
                "raise worker_dead_after or lower heartbeat",
            ));
        }
        let (TaskDefaults { timeout, retries }, TaskLimits { timeout_max, retries_max }) =
            (self.task_defaults(), self.task_limits());
        if timeout > timeout_max {
            let message = format!("default_timeout ({timeout}) is longer than timeout_max ({timeout_max})");
            return Err(usage(message, "lower default_timeout or raise timeout_max"));
        }
        if retries > retries_max {
            let message = format!("default_retries ({retries}) is more than retries_max ({retries_max})");
            return Err(usage(message, "lower default_retries or raise retries_max"));
        }
        if self.full_poll_interval < self.poll_interval {
            let (full, part) = (self.full_poll_interval, self.poll_interval);
            let message = format!("full_poll_interval ({full}) is shorter than poll_interval ({part})");
            return Err(usage(message, "raise full_poll_interval or lower poll_interval"));
        }
        Ok(())
    }
}

impl ServerSettings {
    pub(crate) const fn scheme(&self) -> &'static str {
        match self.tls {
            TlsMode::Off => "http",
            TlsMode::Files | TlsMode::Cluster => "https",
        }
    }

    /// Names and addresses by which this server is reached, beside those of loopback.
    pub(crate) fn hosts(&self) -> Vec<String> {
        let urls = [&self.advertise, &self.public_url].into_iter().flatten();
        let mut hosts: Vec<String> = urls.filter_map(|url| Some(host_of(url)?.to_ascii_lowercase())).collect();
        hosts.extend(self.public_hosts.iter().cloned());
        let listens = self.listen.ip().to_canonical();
        if !listens.is_unspecified() && !listens.is_loopback() {
            hosts.push(listens.to_string());
        }
        hosts.sort();
        hosts.dedup();
        hosts
    }

    /// What other machines can reach needs TLS: here, or at a proxy that is named.
    fn check_network(&self) -> anyhow::Result<()> {
        let has_files = self.tls_cert.is_some() && self.tls_key.is_some();
        match self.tls {
            TlsMode::Files if !has_files => {
                return Err(usage("tls is files, and tls_cert or tls_key is missing", "name both files"));
            }
            TlsMode::Off | TlsMode::Cluster if self.tls_cert.is_some() || self.tls_key.is_some() => {
                return Err(usage(
                    "tls_cert or tls_key is set, and tls is not files",
                    "set tls to files, or leave them out",
                ));
            }
            TlsMode::Off | TlsMode::Files | TlsMode::Cluster => {}
        }
        let (listen, advertised) = (self.listen, self.advertise.as_deref().unwrap_or_default());
        let is_elsewhere = !listen.ip().to_canonical().is_loopback();
        if is_elsewhere && self.tls == TlsMode::Off && self.proxies.is_empty() {
            return Err(usage(
                format!(
                    "{listen} can be reached from other machines, and without TLS they could read commands, jobs and \
                     credentials on the way"
                ),
                "set --tls cluster (or files), name the proxy that ends TLS with --proxies, or listen on 127.0.0.1; see \
                 docs/tls.md",
            ));
        }
        if is_elsewhere && self.tls == TlsMode::Off && self.database != Database::Embedded {
            return Err(usage(
                "servers on several machines need TLS among themselves, and tls is off",
                "set --tls cluster, and let the proxy connect with https; see docs/tls.md",
            ));
        }
        if is_elsewhere && listen.ip().is_unspecified() && advertised.is_empty() {
            return Err(usage(
                format!("workers and other servers cannot reach a server at {listen}"),
                format!("say where they reach it: --advertise {}://NAME:{}", self.scheme(), listen.port()),
            ));
        }
        if self.tls != TlsMode::Off && advertised.starts_with("http://") {
            return Err(usage(format!("advertise is {advertised}, and the server speaks TLS"), "write https://"));
        }
        if self.tls == TlsMode::Off && self.proxies.is_empty() && advertised.starts_with("https://") {
            return Err(usage(
                format!("advertise is {advertised}, and the server speaks no TLS"),
                "set --tls cluster (or files), or name the proxy that ends TLS with --proxies",
            ));
        }
        let is_far = host_of(advertised).is_some_and(|host| !is_loopback(host));
        if self.tls == TlsMode::Off && is_far && advertised.starts_with("http://") {
            return Err(usage(
                format!("advertise is {advertised}, an address of another machine without TLS"),
                "set --tls cluster (or files), or advertise the https address of the proxy",
            ));
        }
        Ok(())
    }
}

fn is_loopback(host: &str) -> bool {
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.to_canonical().is_loopback())
}

pub(super) fn roles(text: &str) -> Result<Roles, String> {
    let mut roles = Roles { api: false, scheduler: false };
    for word in text.split(',').map(str::trim) {
        match word {
            "api" => roles.api = true,
            "scheduler" => roles.scheduler = true,
            _ => return Err(format!("`{word}` is neither api nor scheduler")),
        }
    }
    Ok(roles)
}
