//! How well this machine can shut in the programs that a worker would run.

use punctual_sandbox::{Launcher, LevelName};

use super::Check;
use crate::wiring::sandbox_options;

const NAME: &str = "sandbox";

pub(super) async fn check() -> Check {
    let launcher = match sandbox_options() {
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
        LevelName::Full => Check::pass(NAME, "binaries are fully shut in"),
        LevelName::Partial => Check::warn(NAME, "binaries are shut in, but not as well as could be", &missing),
        LevelName::None => {
            Check::warn(NAME, "a worker here would run no binaries: it could not shut them in", &missing)
        }
    }
}
