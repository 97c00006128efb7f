//! For tests: an agent as a program of its own, tied to its parent process; `launcher` is the launcher of its sandbox.

use std::error::Error;

use punctual_agent::{Handover, Tie, guard_this_process, run};
use punctual_sandbox::{LauncherOptions, launcher_main};

fn main() -> Result<(), Box<dyn Error>> {
    if std::env::args().nth(1).is_some_and(|mode| mode == "launcher") {
        launcher_main();
    }
    guard_this_process(Tie::Worker)?;
    let handover = Handover::read(|name| std::env::var(name).ok())?;
    let sandbox = LauncherOptions { command: "/proc/self/exe".into(), args: vec!["launcher".into()], required: vec![] };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    Ok(runtime.block_on(run(handover, sandbox))?)
}
