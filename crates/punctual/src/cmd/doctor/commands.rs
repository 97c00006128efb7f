//! Whether a worker here would run commands outside the sandbox.

use punctual_exec::Account;

use super::Check;
use crate::config::{Config, WorkerSettings};

const NAME: &str = "commands";
const ROOT: &str = "root";

pub(super) fn check(config: &Config) -> Option<Check> {
    let settings = WorkerSettings::new(config).ok()?;
    Some(verdict(settings.allow_commands, &Account::own().name))
}

fn verdict(are_allowed: bool, user: &str) -> Check {
    if !are_allowed {
        return Check::pass(NAME, "a worker here runs none outside the sandbox (allow_commands is false)");
    }
    let reason = format!("a worker here runs commands on this machine as {user} (allow_commands is true)");
    if user == ROOT {
        return Check::warn(NAME, reason, "run the worker as a user of its own, which may do only what its tasks need");
    }
    Check::pass(NAME, reason)
}

#[cfg(test)]
mod tests {
    use super::super::Verdict;
    use super::*;

    #[test]
    fn commands_as_root_are_worth_a_warning() {
        for (are_allowed, user, expected) in
            [(false, ROOT, Verdict::Pass), (true, "cron", Verdict::Pass), (true, ROOT, Verdict::Warn)]
        {
            let check = verdict(are_allowed, user);
            assert_eq!(check.verdict, expected, "{check:?}");
            assert_eq!(check.reason.contains(&format!("on this machine as {user}")), are_allowed, "{check:?}");
        }
    }
}
