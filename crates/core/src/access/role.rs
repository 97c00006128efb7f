//! The four roles, each with all rights of the one before.

use std::fmt;

use super::{Right, Rights};

/// A bundle of rights that people and keys are given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// Sees what there is and how it goes. No inputs, outputs or logs.
    Viewer,
    /// Runs and stops what others defined, and sees what it did.
    Operator,
    /// Defines tasks and schedules. Nothing that reaches beyond the sandbox, and no secrets: those are granted one by one.
    Developer,
    /// May do everything.
    Admin,
}

const VIEWER: Rights = Rights::of(&[
    Right::ViewJobs,
    Right::ViewTasks,
    Right::ViewSchedules,
    Right::ViewArtifacts,
    Right::ViewNotifications,
    Right::ViewWorkers,
    Right::ViewCluster,
]);

const OPERATOR: Rights = VIEWER.union(Rights::of(&[
    Right::SubmitJobs,
    Right::ControlJobs,
    Right::ControlSchedules,
    Right::ViewInputs,
    Right::ViewOutputs,
    Right::ViewLogs,
]));

const DEVELOPER: Rights = OPERATOR.union(Rights::of(&[
    Right::EditTasks,
    Right::EditSchedules,
    Right::ReadArtifacts,
    Right::EditArtifacts,
    Right::EditNotifications,
    Right::ViewSecrets,
    Right::CreateKeys,
]));

impl Role {
    pub const ALL: [Self; 4] = [Self::Viewer, Self::Operator, Self::Developer, Self::Admin];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Viewer => "viewer",
            Self::Operator => "operator",
            Self::Developer => "developer",
            Self::Admin => "admin",
        }
    }

    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.name() == name)
    }

    /// In one namespace. Rights that reach beyond the sandbox are granted there by name, and those of the cluster not at all.
    pub const fn rights_in_namespace(self) -> Rights {
        let beyond = Rights::of(&[Right::UseCommands, Right::UseNetwork, Right::UsePrivateAddresses]);
        self.rights().intersection(Rights::IN_NAMESPACE).without(beyond)
    }

    /// For the cluster, and so in every namespace.
    pub const fn rights(self) -> Rights {
        match self {
            Self::Viewer => VIEWER,
            Self::Operator => OPERATOR,
            Self::Developer => DEVELOPER,
            Self::Admin => Rights::all(),
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
