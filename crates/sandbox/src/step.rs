//! The steps by which a sandbox is built, in their order. The one that fails is named in the
//! error, and by trying them once the launcher learns what works here.

use crate::level::Protection;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SetupStep {
    Fork,
    MapIds,
    Cgroup,
    Await,
    Namespaces,
    Root,
    Proc,
    LeaveOldRoot,
    Rlimits,
    Capabilities,
    NoNewPrivileges,
    ForkProgram,
    Stdio,
    Landlock,
    Network,
    Seccomp,
    Execute,
    /// The first process died without a message, for example because it ran out of memory.
    Died,
}

impl SetupStep {
    const ALL: [Self; 18] = [
        Self::Fork,
        Self::MapIds,
        Self::Cgroup,
        Self::Await,
        Self::Namespaces,
        Self::Root,
        Self::Proc,
        Self::LeaveOldRoot,
        Self::Rlimits,
        Self::Capabilities,
        Self::NoNewPrivileges,
        Self::ForkProgram,
        Self::Stdio,
        Self::Landlock,
        Self::Network,
        Self::Seccomp,
        Self::Execute,
        Self::Died,
    ];

    pub(crate) fn index(self) -> u8 {
        self as u8
    }

    pub(crate) fn from_index(index: u8) -> Option<Self> {
        Self::ALL.get(usize::from(index)).copied()
    }

    /// Completes "cannot …".
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::Fork => "start a process in new user and pid namespaces",
            Self::MapIds => "map the user of the sandbox",
            Self::Cgroup => "limit the program by a cgroup",
            Self::Await => "reach the launcher from inside the sandbox",
            Self::Namespaces => "enter new namespaces",
            Self::Root => "build the sandbox's own files",
            Self::Proc => "mount the sandbox's own /proc",
            Self::LeaveOldRoot => "leave the files of this machine",
            Self::Rlimits => "set the limits of the process",
            Self::Capabilities => "give up all capabilities",
            Self::NoNewPrivileges => "refuse new privileges",
            Self::ForkProgram => "start the program's process",
            Self::Stdio => "connect the program's input and output",
            Self::Landlock => "restrict the program by Landlock",
            Self::Network => "give the program a network without the loopback of this machine",
            Self::Seccomp => "filter the program's system calls",
            Self::Execute => "execute the program",
            Self::Died => "build the sandbox within the program's limits",
        }
    }

    /// The protection that is missing if this step fails; `None` for plumbing.
    pub(crate) fn protection(self) -> Option<Protection> {
        match self {
            Self::Fork | Self::MapIds | Self::Namespaces => Some(Protection::Namespaces),
            Self::Root | Self::LeaveOldRoot => Some(Protection::PrivateRoot),
            Self::Proc => Some(Protection::OwnProc),
            Self::Capabilities => Some(Protection::NoCapabilities),
            Self::NoNewPrivileges => Some(Protection::NoNewPrivileges),
            Self::Landlock => Some(Protection::Landlock),
            Self::Seccomp => Some(Protection::Seccomp),
            Self::Cgroup
            | Self::Await
            | Self::Rlimits
            | Self::ForkProgram
            | Self::Stdio
            | Self::Network
            | Self::Execute
            | Self::Died => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indexes_lead_back() {
        for step in SetupStep::ALL {
            assert_eq!(SetupStep::from_index(step.index()), Some(step));
        }
        assert_eq!(SetupStep::from_index(200), None);
    }
}
