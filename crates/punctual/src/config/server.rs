//! The settings of a server: what must go together, and what parts of it are made of.

use punctual_app::{Roles, TaskLimits};
use punctual_core::task_defaults::TaskDefaults;

use super::{Config, Origin, ServerSettings};
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
