//! How well this machine can sandbox the programs that a worker would run.

use punctual_sandbox::{Launcher, LevelName};

use super::Check;
use crate::config::{Config, SandboxSettings};
use crate::wiring::sandbox_options;

const NAME: &str = "sandbox";

pub(super) async fn check(config: &Config) -> Check {
    let required = match SandboxSettings::new(config) {
        Ok(settings) => settings.required,
        Err(error) => return Check::warn(NAME, format!("{error:#}"), "correct the setting"),
    };
    let launcher = match sandbox_options(Vec::new()) {
        Ok(options) => Launcher::start(options).await,
        Err(error) => return Check::warn(NAME, format!("{error:#}"), "start punctual by its path"),
    };
    let level = match &launcher {
        Ok(launcher) => launcher.level(),
        Err(error) => {
            let fix = "run workers on Linux with user namespaces; the others run no binaries";
            return Check::warn(NAME, format!("a worker here would run no binaries: {error}"), fix);
        }
    };
    let missing = level.sentences().join("; ");
    match level.name {
        LevelName::Full => Check::pass(NAME, "binaries run fully sandboxed"),
        LevelName::Partial if !level.lacks(&required).is_empty() => {
            let fix = format!("{missing}; or accept it with --sandbox-require none, as `punctual dev` does");
            Check::warn(NAME, "a worker here would run no binaries: not all limits can be enforced", &fix)
        }
        LevelName::Partial => Check::warn(NAME, "binaries run sandboxed, with some protections missing", &missing),
        LevelName::None => {
            Check::warn(NAME, "a worker here would run no binaries: it could not shut them in", &missing)
        }
    }
}
