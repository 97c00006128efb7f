//! Where people are reached who asked for something.

use punctual_core::Timestamp;
use punctual_core::access::Right;
use punctual_core::namespace::NamespaceId;
use punctual_store::IdentityId;

use crate::App;

impl App {
    /// The person whom a record means by `user:ana`, or on whose behalf the key `key:deploy` was made. Not one who got the
    /// name later.
    pub(crate) fn person_named(&self, who: &str, at: Timestamp) -> Option<IdentityId> {
        let snapshot = self.identities().snapshot();
        if let Some(name) = who.strip_prefix("user:") {
            return snapshot.user_named(name).filter(|user| user.created.at <= at).map(|user| user.id);
        }
        let name = who.strip_prefix("key:")?;
        // A key of a namespace is named with it, and names have no slash.
        let (namespace, name) = match name.split_once('/') {
            Some((namespace, name)) => (Some(self.0.namespaces.named(namespace)?.id()), name),
            None => (None, name),
        };
        let is_meant =
            |row: &punctual_store::KeyRow| row.name == name && row.namespace == namespace && row.created.at <= at;
        let keys = snapshot.keys().filter(|key| is_meant(&key.row));
        keys.max_by_key(|key| key.row.created.at).and_then(|key| key.row.owner)
    }

    /// The mail address of a person who may see jobs of a namespace and why they fail.
    pub(crate) fn mail_of(&self, person: IdentityId, namespace: NamespaceId) -> Option<String> {
        let snapshot = self.identities().snapshot();
        let rights = snapshot.grants_of_user(person)?.within(namespace);
        let may_know = rights.contains(Right::ViewJobs) && rights.contains(Right::ViewOutputs);
        snapshot.user(person)?.mail.clone().filter(|_| may_know)
    }
}
