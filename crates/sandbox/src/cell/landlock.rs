//! A second wall, should the first have a hole: Landlock knows which files a process may
//! touch, whatever it manages to mount or reach. Best effort: the rules that an older kernel
//! does not know are left out.

use std::io;
use std::os::fd::BorrowedFd;

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, PathBeneath, PathFd, Ruleset, RulesetAttr, RulesetCreatedAttr,
    RulesetStatus, Scope,
};

use crate::job::Network;

const NEWEST: ABI = ABI::V6;

pub(super) fn restrict(network: Network, program: Option<BorrowedFd<'_>>) -> io::Result<()> {
    let mut rules = Ruleset::default().handle_access(AccessFs::from_all(NEWEST)).map_err(failed)?;
    if network == Network::None {
        rules = rules.handle_access(AccessNet::from_all(NEWEST)).map_err(failed)?;
    }
    // Signals and abstract sockets stay within the program's own processes.
    let mut rules = rules.scope(Scope::from_all(NEWEST)).map_err(failed)?.create().map_err(failed)?;

    let read = AccessFs::ReadFile | AccessFs::ReadDir;
    let devices = AccessFs::ReadFile | AccessFs::WriteFile;
    let tmp = AccessFs::from_all(NEWEST)
        & !(AccessFs::Execute | AccessFs::MakeChar | AccessFs::MakeBlock | AccessFs::IoctlDev);
    // A shared mapping of /dev/zero that can be written is memory that the limit of a process does not count, so the device can be
    // read and no more. Nobody needs to write to the random ones.
    for (path, access) in [("/", read), ("/dev/null", devices), ("/dev/full", devices), ("/tmp", tmp)] {
        rules = allow(rules, path, access)?;
    }
    if let Some(program) = program {
        // A sealed copy in memory needs no rule and can have none. If a file on disk gets none,
        // it is not executed, and that is reported.
        let _ = (&mut rules).add_rule(PathBeneath::new(program, AccessFs::Execute | AccessFs::ReadFile));
    }
    match rules.restrict_self().map_err(failed)?.ruleset {
        RulesetStatus::NotEnforced => Err(rustix::io::Errno::OPNOTSUPP.into()),
        RulesetStatus::PartiallyEnforced | RulesetStatus::FullyEnforced => Ok(()),
    }
}

fn allow(
    rules: landlock::RulesetCreated,
    path: &str,
    access: BitFlags<AccessFs>,
) -> io::Result<landlock::RulesetCreated> {
    rules.add_rule(PathBeneath::new(PathFd::new(path).map_err(failed)?, access)).map_err(failed)
}

/// The number of the system call's error is at the bottom of the chain.
fn failed(error: impl std::error::Error + 'static) -> io::Error {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(&error);
    while let Some(error) = cause {
        if let Some(number) = error.downcast_ref::<io::Error>().and_then(io::Error::raw_os_error) {
            return io::Error::from_raw_os_error(number);
        }
        cause = error.source();
    }
    rustix::io::Errno::OPNOTSUPP.into()
}
