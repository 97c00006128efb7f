//! Where a right counts: in one namespace, or for the whole cluster.

use super::{Right, Rights};

/// Where a right can be granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reach {
    /// Only by a role or a key for the cluster.
    Cluster,
    /// In one namespace, or for the cluster and then in every namespace.
    Namespace,
}

impl Reach {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cluster => "cluster",
            Self::Namespace => "namespace",
        }
    }
}

impl Right {
    /// Whatever concerns machines, people and namespaces themselves is a matter of the cluster.
    pub const fn reach(self) -> Reach {
        match self {
            Self::ViewWorkers
            | Self::ManageWorkers
            | Self::ServeJobs
            | Self::ManageKeys
            | Self::ManagePeople
            | Self::ManageNamespaces
            | Self::ViewCluster
            | Self::ManageCluster => Reach::Cluster,
            Self::ViewJobs
            | Self::SubmitJobs
            | Self::ControlJobs
            | Self::ViewInputs
            | Self::ViewOutputs
            | Self::ViewLogs
            | Self::ViewTasks
            | Self::EditTasks
            | Self::UseCommands
            | Self::UseNetwork
            | Self::UsePrivateAddresses
            | Self::UseSecrets
            | Self::ViewSecrets
            | Self::EditSecrets
            | Self::ViewSchedules
            | Self::EditSchedules
            | Self::ControlSchedules
            | Self::ViewArtifacts
            | Self::ReadArtifacts
            | Self::EditArtifacts
            | Self::ViewNotifications
            | Self::EditNotifications
            | Self::CreateKeys
            | Self::ReadAudit => Reach::Namespace,
        }
    }

    /// Whether it reaches beyond the sandbox, into the machines of the workers and their network. A role in a namespace
    /// never includes such a right: it is granted by name.
    pub const fn is_beyond_sandbox(self) -> bool {
        matches!(self, Self::UseCommands | Self::UseNetwork | Self::UsePrivateAddresses)
    }
}

impl Rights {
    /// Those that can be granted in a namespace.
    pub const IN_NAMESPACE: Self = Self::reaching(Reach::Namespace);
    /// Those that can be granted for the cluster alone.
    pub const OF_CLUSTER: Self = Self::reaching(Reach::Cluster);

    const fn reaching(reach: Reach) -> Self {
        let (mut set, mut index) = (Self::NONE, 0);
        while index < Right::ALL.len() {
            let right = Right::ALL[index];
            if right.reach() as u8 == reach as u8 {
                set = set.union(Self::of(&[right]));
            }
            index += 1;
        }
        set
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::Role;

    #[test]
    fn every_right_counts_in_one_place() {
        assert_eq!(Rights::IN_NAMESPACE.union(Rights::OF_CLUSTER), Rights::all());
        assert!(Rights::IN_NAMESPACE.intersection(Rights::OF_CLUSTER).is_empty());
    }

    #[test]
    fn a_role_in_a_namespace_has_nothing_of_the_cluster_and_nothing_beyond_the_sandbox() {
        for role in Role::ALL {
            let rights = role.rights_in_namespace();
            assert!(rights.intersection(Rights::OF_CLUSTER).is_empty(), "{role}");
            assert!(!rights.iter().any(Right::is_beyond_sandbox), "{role}");
            assert!(role.rights().covers(rights), "{role}");
        }
        let left_out = Rights::IN_NAMESPACE.without(Role::Admin.rights_in_namespace());
        assert_eq!(left_out.names(), ["commands.use", "network.use", "private_addresses.use"]);
    }
}
