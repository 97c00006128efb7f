//! Which protections work on this machine. Found out once, by trying each for real; kept
//! with every attempt as a short text, and explained by `doctor` in sentences.

use std::fmt;

/// Why a protection is missing that needs another, which is missing.
pub(crate) const NOT_TRIED: &str = "not tried without the former";

/// One wall of the sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Protection {
    Namespaces,
    PrivateRoot,
    NoCapabilities,
    NoNewPrivileges,
    Seccomp,
    OwnProc,
    Landlock,
    MemoryLimit,
    CpuLimit,
    PidsLimit,
}

impl Protection {
    pub const ALL: [Self; 10] = [
        Self::Namespaces,
        Self::PrivateRoot,
        Self::NoCapabilities,
        Self::NoNewPrivileges,
        Self::Seccomp,
        Self::OwnProc,
        Self::Landlock,
        Self::MemoryLimit,
        Self::CpuLimit,
        Self::PidsLimit,
    ];

    /// The protections without which nothing is ever executed, whatever the options say.
    pub const FLOOR: [Self; 5] =
        [Self::Namespaces, Self::PrivateRoot, Self::NoCapabilities, Self::NoNewPrivileges, Self::Seccomp];

    /// The stable name, for storing and for settings.
    pub fn name(self) -> &'static str {
        match self {
            Self::Namespaces => "namespaces",
            Self::PrivateRoot => "private_root",
            Self::NoCapabilities => "no_capabilities",
            Self::NoNewPrivileges => "no_new_privileges",
            Self::Seccomp => "seccomp",
            Self::OwnProc => "own_proc",
            Self::Landlock => "landlock",
            Self::MemoryLimit => "memory_limit",
            Self::CpuLimit => "cpu_limit",
            Self::PidsLimit => "pids_limit",
        }
    }

    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|protection| protection.name() == name)
    }

    /// What the absence of this protection means, and what to do about it.
    fn advice(self) -> (&'static str, &'static str) {
        const BE_ROOT: &str = "run the worker as root, or as a service with Delegate=yes";
        match self {
            Self::Namespaces => (
                "programs cannot be separated from this machine",
                "permit user namespaces (sysctl user.max_user_namespaces and, on Ubuntu, \
                 kernel.apparmor_restrict_unprivileged_userns=0), and in a container allow the system calls clone3, \
                 unshare and mount",
            ),
            Self::PrivateRoot => {
                ("the files of this machine cannot be hidden", "in a container allow mount and pivot_root")
            }
            Self::NoCapabilities => ("capabilities cannot be given up", "use Linux 5.14 or newer"),
            Self::NoNewPrivileges => ("programs could gain privileges", "use Linux 5.14 or newer"),
            Self::Seccomp => ("system calls cannot be filtered", "the kernel needs CONFIG_SECCOMP_FILTER"),
            Self::OwnProc => (
                "programs find an empty /proc",
                "in a container unmask /proc to give them one of their own (Linux 5.8 or newer)",
            ),
            Self::Landlock => (
                "a second wall around files and signals is missing",
                "use Linux 5.13 or newer with landlock among the security modules (lsm=)",
            ),
            Self::MemoryLimit => ("memory is limited for each process, not for the program as a whole", BE_ROOT),
            Self::CpuLimit => ("one program may use every processor", BE_ROOT),
            Self::PidsLimit => (
                "processes are limited by the user's limit (RLIMIT_NPROC) only, and a program that meets it is not \
                 told apart",
                BE_ROOT,
            ),
        }
    }

    pub(crate) fn index(self) -> u8 {
        self as u8
    }

    pub(crate) fn from_index(index: u8) -> Option<Self> {
        Self::ALL.get(usize::from(index)).copied()
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Availability {
    Available,
    Missing { reason: String },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LevelName {
    /// Everything there is.
    Full,
    /// The floor holds; something on top of it is missing.
    Partial,
    /// The floor does not hold; nothing is executed.
    None,
}

/// The protections of a program on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Level {
    pub name: LevelName,
    /// Each protection once, in the order of [`Protection::ALL`].
    pub protections: Vec<(Protection, Availability)>,
}

impl Level {
    pub(crate) fn new(missing: &[(Protection, String)]) -> Self {
        let protections: Vec<(Protection, Availability)> = Protection::ALL
            .into_iter()
            .map(|protection| {
                let reason = missing.iter().find(|(which, _)| *which == protection).map(|(_, reason)| reason.clone());
                (protection, reason.map_or(Availability::Available, |reason| Availability::Missing { reason }))
            })
            .collect();
        let lacks = |protection: &Protection| missing.iter().any(|(which, _)| which == protection);
        let name = if Protection::FLOOR.iter().any(lacks) {
            LevelName::None
        } else if missing.is_empty() {
            LevelName::Full
        } else {
            LevelName::Partial
        };
        Self { name, protections }
    }

    pub fn has(&self, protection: Protection) -> bool {
        self.protections.iter().any(|(which, found)| *which == protection && *found == Availability::Available)
    }

    pub(crate) fn missing(&self) -> impl Iterator<Item = (Protection, &str)> {
        self.protections.iter().filter_map(|(protection, found)| match found {
            Availability::Available => None,
            Availability::Missing { reason } => Some((*protection, reason.as_str())),
        })
    }

    /// One sentence for each missing protection, with what to do. Protections that could not be tried because another
    /// is missing are left out, and advice that helps against several is given once.
    pub fn sentences(&self) -> Vec<String> {
        self.sentences_about(|_| true)
    }

    /// Describes the missing protections among `required` and [`Protection::FLOOR`]; empty if none of them is missing.
    pub fn lacks(&self, required: &[Protection]) -> Vec<String> {
        self.sentences_about(|protection| Protection::FLOOR.contains(&protection) || required.contains(&protection))
    }

    pub(crate) fn sentences_about(&self, wanted: impl Fn(Protection) -> bool) -> Vec<String> {
        let missing: Vec<(Protection, &str)> =
            self.missing().filter(|(protection, reason)| wanted(*protection) && *reason != NOT_TRIED).collect();
        let sentence = |(place, (protection, reason)): (usize, &(Protection, &str))| {
            let (effect, remedy) = protection.advice();
            let is_said_later = missing[place + 1..].iter().any(|(later, _)| later.advice().1 == remedy);
            let name = protection.name();
            match is_said_later {
                true => format!("{name} is missing ({reason}): {effect}"),
                false => format!("{name} is missing ({reason}): {effect}; {remedy}"),
            }
        };
        missing.iter().enumerate().map(sentence).collect()
    }
}

/// The stable short text that is kept with an attempt: `full`, or `partial -landlock -cpu_limit`.
impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.name {
            LevelName::Full => "full",
            LevelName::Partial => "partial",
            LevelName::None => "none",
        })?;
        self.missing().try_for_each(|(protection, _)| write!(f, " -{}", protection.name()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_has_a_stable_short_text() {
        assert_eq!(Level::new(&[]).to_string(), "full");
        let partial = Level::new(&[(Protection::CpuLimit, "no".into()), (Protection::Landlock, "old".into())]);
        assert_eq!(partial.to_string(), "partial -landlock -cpu_limit");
        assert_eq!(Level::new(&[(Protection::Seccomp, "no".into())]).to_string(), "none -seccomp");
    }

    #[test]
    fn a_missing_protection_is_explained() {
        let level = Level::new(&[(Protection::Landlock, "Function not implemented".into())]);
        let [sentence] = &level.sentences()[..] else { panic!("one sentence is expected") };
        assert!(sentence.starts_with("landlock is missing (Function not implemented): "), "{sentence}");
        assert!(!level.has(Protection::Landlock));
    }

    #[test]
    fn what_helps_against_several_is_said_once_and_what_was_not_tried_is_not_talked_about() {
        let limits = [Protection::MemoryLimit, Protection::CpuLimit].map(|limit| (limit, "denied".to_owned()));
        let [memory, cpu] = &Level::new(&limits).sentences()[..] else { panic!("two sentences are expected") };
        assert!(!memory.contains("Delegate=yes") && cpu.ends_with("Delegate=yes"), "{memory}; {cpu}");
        let level = Level::new(&[(Protection::Namespaces, "no".into()), (Protection::Seccomp, NOT_TRIED.into())]);
        assert_eq!(level.sentences().len(), 1, "{:?}", level.sentences());
        assert!(!level.has(Protection::Seccomp));
    }

    #[test]
    fn indexes_lead_back() {
        for protection in Protection::ALL {
            assert_eq!(Protection::from_index(protection.index()), Some(protection));
        }
        assert_eq!(Protection::from_index(200), None);
    }
}
