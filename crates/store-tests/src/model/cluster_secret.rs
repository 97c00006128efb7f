use punctual_core::{ServerId, Span, Timestamp};
use punctual_store::{
    CLUSTER_SECRET, ClusterSecretState, Confirmation, NEXT_CLUSTER_SECRET, ResealedAuthority, Result, SealedKey,
};

use super::{ModelStore, State};

impl State {
    fn cluster_secret(&self) -> ClusterSecretState {
        self.cluster_secret.get(&()).cloned().unwrap_or_default()
    }

    fn is_sealed_as(&self, label: &str, key: &SealedKey) -> bool {
        self.sealed_keys.get(label).is_some_and(|stored| stored.root_key == key.root_key)
    }
}

impl ModelStore {
    pub fn cluster_secret_now(&self) -> ClusterSecretState {
        self.state().cluster_secret()
    }

    pub fn announce_cluster_secret_now(
        &self,
        known: u64,
        next: SealedKey,
        cluster: &str,
        overlap: Span,
        now: Timestamp,
    ) -> Result<bool> {
        self.state().all_or_nothing(|state| {
            let announced = state.cluster_secret().announced(known, cluster, overlap, now);
            let Some(announced) = announced.filter(|_| state.is_sealed_as(CLUSTER_SECRET, &next)) else {
                return Ok(false);
            };
            state.sealed_keys.put(NEXT_CLUSTER_SECRET.to_owned(), next);
            state.cluster_secret.put((), announced);
            Ok(true)
        })
    }

    pub fn sign_with_next_secret_now(&self, known: u64, now: Timestamp) -> Result<bool> {
        self.state().all_or_nothing(|state| {
            let Some(signing) = state.cluster_secret().signing(known, now) else { return Ok(false) };
            state.cluster_secret.put((), signing);
            Ok(true)
        })
    }

    pub fn retire_cluster_secret_now(
        &self,
        known: u64,
        secret: SealedKey,
        authorities: &[ResealedAuthority],
        now: Timestamp,
    ) -> Result<bool> {
        self.state().all_or_nothing(|state| {
            let settled = state.cluster_secret().settled(known, now);
            let stored = state.authorities.values().map(|row| (row.generation, &row.sealed_key));
            let are_all = stored.eq(authorities.iter().map(|known| (known.generation, &known.former)));
            let is_as_known = are_all && state.is_sealed_as(NEXT_CLUSTER_SECRET, &secret);
            let Some(settled) = settled.filter(|_| is_as_known) else { return Ok(false) };
            state.sealed_keys.take(&NEXT_CLUSTER_SECRET.to_owned());
            state.sealed_keys.put(CLUSTER_SECRET.to_owned(), secret);
            for ResealedAuthority { generation, sealed_key, .. } in authorities {
                let mut row = state.authorities[generation].clone();
                row.sealed_key.clone_from(sealed_key);
                state.authorities.put(*generation, row);
            }
            state.cluster_secret.put((), settled);
            Ok(true)
        })
    }

    pub fn confirm_cluster_secret_now(&self, server: ServerId, revision: u64, now: Timestamp) -> Result<()> {
        self.state().all_or_nothing(|state| {
            let mut known = state.cluster_secret();
            if known.revision == revision && !known.confirmed.iter().any(|confirmed| confirmed.server == server) {
                known.confirmed.push(Confirmation { server, at: now });
                known.confirmed.sort_by_key(|confirmed| confirmed.server);
                state.cluster_secret.put((), known);
            }
            Ok(())
        })
    }
}
