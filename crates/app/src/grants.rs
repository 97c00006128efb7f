//! What somebody was granted: for the cluster, and in single namespaces.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use punctual_core::access::{Right, Rights};
use punctual_core::namespace::NamespaceId;

/// The rights of a principal, everywhere.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Grants {
    /// They count in every namespace, too.
    cluster: Rights,
    /// Those that a namespace adds. None of them is a right of the cluster.
    namespaces: Arc<BTreeMap<NamespaceId, Rights>>,
}

impl Grants {
    pub(crate) fn of_cluster(rights: Rights) -> Self {
        // One for all who have no others.
        static NONE: LazyLock<Arc<BTreeMap<NamespaceId, Rights>>> = LazyLock::new(Arc::default);
        Self { cluster: rights, namespaces: Arc::clone(&NONE) }
    }

    pub(crate) fn new(cluster: Rights, namespaces: BTreeMap<NamespaceId, Rights>) -> Self {
        let cut = namespaces.into_iter().map(|(id, rights)| (id, rights.intersection(Rights::IN_NAMESPACE)));
        Self { cluster, namespaces: Arc::new(cut.filter(|(_, rights)| !rights.is_empty()).collect()) }
    }

    pub(crate) fn in_namespace(namespace: NamespaceId, rights: Rights) -> Self {
        Self::new(Rights::NONE, BTreeMap::from([(namespace, rights)]))
    }

    pub(crate) fn cluster(&self) -> Rights {
        self.cluster
    }

    /// What is permitted to somebody who chose this namespace.
    pub(crate) fn within(&self, namespace: NamespaceId) -> Rights {
        self.namespaces.get(&namespace).map_or(self.cluster, |added| self.cluster.union(*added))
    }

    /// Whether the namespace is there for somebody with these rights.
    pub(crate) fn sees(&self, namespace: NamespaceId) -> bool {
        let within = self.within(namespace);
        !within.intersection(Rights::IN_NAMESPACE).is_empty() || within.contains(Right::ManageNamespaces)
    }

    /// Whether it is one namespace in which anything is granted.
    pub(crate) fn is_of_one(&self) -> bool {
        self.cluster.is_empty() && self.namespaces.len() <= 1
    }

    /// What both grant.
    #[must_use]
    pub(crate) fn intersection(&self, other: &Self) -> Self {
        let named = self.namespaces.keys().chain(other.namespaces.keys());
        let both = |id: &NamespaceId| (*id, self.within(*id).intersection(other.within(*id)));
        Self::new(self.cluster.intersection(other.cluster), named.map(both).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: NamespaceId = NamespaceId(1);
    const B: NamespaceId = NamespaceId(2);

    #[test]
    fn a_namespace_adds_rights_in_itself_alone_and_none_of_the_cluster() {
        let rights = Rights::of(&[Right::ViewJobs, Right::ManagePeople]);
        let grants = Grants::in_namespace(A, rights);
        assert_eq!(grants.within(A), Rights::of(&[Right::ViewJobs]));
        assert!(grants.within(B).is_empty() && grants.cluster().is_empty());
        assert!(grants.sees(A) && !grants.sees(B) && !grants.sees(NamespaceId::DEFAULT));
    }

    #[test]
    fn rights_of_the_cluster_alone_show_no_namespace() {
        assert!(!Grants::of_cluster(Rights::of(&[Right::ServeJobs, Right::ManagePeople])).sees(A));
        assert!(Grants::of_cluster(Rights::of(&[Right::ManageNamespaces])).sees(A));
        assert!(Grants::of_cluster(Rights::of(&[Right::ViewJobs])).sees(A));
    }

    #[test]
    fn a_key_has_in_each_namespace_what_its_owner_still_has_there() {
        let key = Grants::in_namespace(A, Rights::of(&[Right::ViewJobs, Right::SubmitJobs]));
        let viewer = Grants::of_cluster(Rights::of(&[Right::ViewJobs]));
        assert_eq!(key.intersection(&viewer).within(A), Rights::of(&[Right::ViewJobs]));
        let elsewhere = Grants::in_namespace(B, Rights::of(&[Right::ViewJobs]));
        let none = key.intersection(&elsewhere);
        assert!(none.within(A).is_empty() && none.within(B).is_empty());
    }
}
