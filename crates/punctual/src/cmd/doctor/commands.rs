//! Which users run commands outside the sandbox: those of the connected workers, or of one that is started here.

use punctual_api::WorkerView;
use punctual_exec::Account;

use super::Check;
use crate::config::{Config, WorkerSettings};

const NAME: &str = "commands";
const ROOT: &str = "root";
const FIX: &str = "run the worker as a user of its own, which may do only what its tasks need";

/// `workers` are those that the server knows; `None` if it did not say.
pub(super) fn check(config: &Config, workers: Option<&[WorkerView]>) -> Option<Check> {
    if let Some(workers) = workers {
        return Some(of_workers(workers));
    }
    let settings = WorkerSettings::new(config).ok()?;
    Some(of_settings(settings.allow_commands, &Account::own().name))
}

fn of_workers(workers: &[WorkerView]) -> Check {
    let runs_commands = |worker: &&WorkerView| worker.capabilities.iter().any(|known| known == COMMAND);
    let mut users: Vec<(&str, &str)> = workers
        .iter()
        .filter(|worker| worker.state != "silent")
        .filter(runs_commands)
        .map(|worker| (worker.commands_as.as_deref().unwrap_or(UNKNOWN), worker.name.as_str()))
        .collect();
    users.sort_unstable();
    users.dedup();
    if users.is_empty() {
        return Check::pass(NAME, "no connected worker runs commands outside the sandbox");
    }
    let told: Vec<String> = users.iter().map(|(user, worker)| format!("{worker} as {user}")).collect();
    let reason = format!("outside the sandbox, commands are run by {}", told.join(", "));
    if users.iter().any(|(user, _)| *user == ROOT || *user == UNKNOWN) {
        return Check::warn(NAME, reason, FIX);
    }
    Check::pass(NAME, reason)
}

/// The capability of workers that run them.
const COMMAND: &str = "command";
/// A worker of an older version does not say.
const UNKNOWN: &str = "a user that it does not name";

fn of_settings(are_allowed: bool, user: &str) -> Check {
    if !are_allowed {
        return Check::pass(NAME, "a worker started here would run none outside the sandbox (allow_commands is false)");
    }
    let reason = format!("a worker started here would run commands on this machine as {user} (allow_commands is true)");
    if user == ROOT {
        return Check::warn(NAME, reason, FIX);
    }
    Check::pass(NAME, reason)
}

#[cfg(test)]
mod tests {
    use super::super::Verdict;
    use super::super::tests::worker;
    use super::*;

    #[test]
    fn commands_as_root_are_worth_a_warning() {
        for (are_allowed, user, expected) in
            [(false, ROOT, Verdict::Pass), (true, "cron", Verdict::Pass), (true, ROOT, Verdict::Warn)]
        {
            let check = of_settings(are_allowed, user);
            assert_eq!(check.verdict, expected, "{check:?}");
            assert_eq!(check.reason.contains(&format!("on this machine as {user}")), are_allowed, "{check:?}");
        }
    }

    #[test]
    fn connected_workers_say_as_whom_they_run_commands() {
        let one = |state, user: Option<&str>| {
            let capabilities = vec!["http".to_owned(), COMMAND.to_owned()];
            WorkerView { capabilities, commands_as: user.map(str::to_owned), ..worker(state, "default") }
        };
        for (workers, expected, reason) in [
            (vec![worker("connected", "default")], Verdict::Pass, "no connected worker runs commands"),
            (vec![one("connected", Some("cron"))], Verdict::Pass, "w as cron"),
            (vec![one("connected", Some("cron")), one("connected", Some(ROOT))], Verdict::Warn, "w as cron, w as root"),
            (vec![one("connected", None)], Verdict::Warn, "a user that it does not name"),
            (vec![one("silent", Some(ROOT))], Verdict::Pass, "no connected worker"),
        ] {
            let check = of_workers(&workers);
            assert!(check.verdict == expected && check.reason.contains(reason), "{check:?}");
        }
    }
}
