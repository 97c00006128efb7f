//! Decides which users of this machine the programs of a worker run as.

use std::sync::OnceLock;

use punctual_exec::ProgramUsers;
use punctual_sandbox::ProgramUser;

use crate::config::{Spawn, UserSettings};
use crate::exit::failed;

/// A user for each namespace where the worker may choose. Elsewhere the programs of one namespace only, unless somebody said
/// that all may run as one user.
pub(crate) fn choose(settings: &UserSettings, spawn: &Spawn) -> anyhow::Result<ProgramUsers> {
    choose_from(settings, spawn, settings.range.is_usable())
}

fn choose_from(settings: &UserSettings, spawn: &Spawn, is_usable: bool) -> anyhow::Result<ProgramUsers> {
    let UserSettings { range, is_named, allow_shared } = *settings;
    // A container of its own for each attempt keeps them apart, and has users of its own.
    if matches!(spawn, Spawn::Container(_)) {
        return Ok(ProgramUsers::Shared(ProgramUser::Usual));
    }
    if is_usable {
        return Ok(ProgramUsers::PerNamespace(range));
    }
    if is_named {
        let message = format!("this worker cannot run programs as the users {range} of program_users");
        let fix = "start it as root, choose users that exist in its container, or leave program_users out";
        return Err(failed(message, fix));
    }
    if allow_shared.unwrap_or(false) {
        return Ok(ProgramUsers::Shared(ProgramUser::Usual));
    }
    tracing::info!(
        "programs run as this worker's own user, so it runs those of one namespace only; a worker that is root runs those of \
         each namespace as a user of its own"
    );
    Ok(ProgramUsers::OneNamespace(OnceLock::new()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(is_named: bool, allow_shared: Option<bool>) -> UserSettings {
        UserSettings { range: "5000-6000".parse().unwrap(), is_named, allow_shared }
    }

    #[test]
    fn each_namespace_has_a_user_where_the_worker_may_choose() {
        for settings in [settings(false, None), settings(true, None), settings(false, Some(true))] {
            let chosen = choose_from(&settings, &Spawn::Process, true).unwrap();
            assert!(matches!(chosen, ProgramUsers::PerNamespace(_)), "{settings:?}: {chosen:?}");
        }
    }

    #[test]
    fn a_worker_that_may_not_choose_runs_one_namespace_unless_told_otherwise() {
        for (allow_shared, is_shared) in [(None, false), (Some(false), false), (Some(true), true)] {
            let chosen = choose_from(&settings(false, allow_shared), &Spawn::Never, false).unwrap();
            assert_eq!(matches!(chosen, ProgramUsers::Shared(ProgramUser::Usual)), is_shared, "{chosen:?}");
            assert_eq!(matches!(chosen, ProgramUsers::OneNamespace(_)), !is_shared, "{chosen:?}");
        }
        let refused = choose_from(&settings(true, None), &Spawn::Never, false).unwrap_err().to_string();
        assert!(refused.contains("cannot run programs as the users 5000-6000"), "{refused}");
    }
}
