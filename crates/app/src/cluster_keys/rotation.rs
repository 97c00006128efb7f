//! Replaces the cluster's secret, in stages that every server confirms.
//!
//! First all servers accept the next secret, then all sign with it, and at last the former one is dropped. Servers read the state
//! once a second. One of them, which holds the lease of retention, moves the stage on. Each move is one transaction under the
//! revision that was read, so it does not matter who does it, or who crashes before or after.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use punctual_api::{ClusterSecretStage, ClusterSecretView, ErrorKind, OtherClusterSecret, RotateClusterSecret};
use punctual_core::access::Rights;
use punctual_core::{ShardId, Span, Timestamp};
use punctual_store::{
    CLUSTER_SECRET, ClusterSecret, ClusterSecretState, NEXT_CLUSTER_SECRET, ResealedAuthority, SealedKey, SecretStage,
};
use zeroize::Zeroize;

use super::opened::{self, OpenedSecrets};
use super::progress::Progress;
use super::{KeySet, SecretKeys};
use crate::audit::AuditEvent;
use crate::authority::sealing_place;
use crate::principal::permission::{ManageCluster, ViewCluster};
use crate::principal::{By, Principal, PrincipalKind};
use crate::seal::{RootKeys, UnlockError};
use crate::secrets::not_opened;
use crate::{App, AppError, Checked, Result, Throttle};

/// Uploads may take an hour, and workers that were cut off may come back with outcomes from before.
pub const SECRET_OVERLAP_DEFAULT: Span = Span::from_secs(86_400);
const OVERLAP_MAX: Span = Span::from_secs(365 * 86_400);
/// Times of starts and of confirmations come from the clocks of different servers.
const CLOCKS_DIFFER: Span = Span::from_secs(5);
/// A server that has not read the state for so long does not know which secrets are accepted.
const KNOWN_FOR: Span = Span::from_secs(10);

static LEFT_BEHIND: Throttle = Throttle::new(Duration::from_secs(60));

fn refused(detail: impl Into<String>, hint: &str) -> AppError {
    AppError::new(ErrorKind::ClusterSecretRefused, detail).hint(hint)
}

const SEE_STAGE: &str = "`punctual cluster-secret show` shows how far it is";

impl Checked for RotateClusterSecret {
    fn check(&self) -> Result<()> {
        match self.overlap {
            Some(overlap) if !(Span::ZERO..=OVERLAP_MAX).contains(&overlap) => {
                Err(AppError::out_of_range("/overlap", "is not between 0 and 365 days"))
            }
            _ => Ok(()),
        }
    }
}

impl App {
    /// The secret, without its value, and how far its rotation is.
    pub async fn cluster_secret(&self, _: &By<ViewCluster>) -> Result<ClusterSecretView> {
        self.cluster_secret_view().await
    }

    /// Makes the next secret. Servers accept it at once, sign with it when all of them do, and drop the former one after
    /// `overlap` when no attempt needs it any more.
    pub async fn rotate_cluster_secret(
        &self,
        by: &By<ManageCluster>,
        request: RotateClusterSecret,
    ) -> Result<ClusterSecretView> {
        request.check()?;
        let overlap = request.overlap.unwrap_or(SECRET_OVERLAP_DEFAULT);
        let (secrets, stored, root_keys) = self.read_secrets().await?;
        if secrets.state.stage != SecretStage::Settled {
            return Err(refused("the cluster's secret is being rotated already", SEE_STAGE));
        }
        let keys = KeySet::new(&secrets);
        by.was(format!("secret {}", keys.signing.id));
        let entropy = self.0.vault.entropy();
        let mut next = ClusterSecret(entropy()?);
        by.changes(format!("secret {}", SecretKeys::new(&next).id));
        let sealed = root_key_of(&root_keys, &stored)?.seal(NEXT_CLUSTER_SECRET, &next.0, entropy);
        next.0.zeroize();
        let (cluster, now) = (keys.cluster().to_string(), self.now());
        let store = &self.0.store;
        if !store.announce_cluster_secret(secrets.state.revision, sealed?, &cluster, overlap, now).await? {
            return Err(refused("keys are being rotated elsewhere", "look at the result of that first"));
        }
        tracing::warn!(former = keys.signing.id, "the cluster's secret is being rotated");
        self.refresh_cluster_secret().await?;
        self.cluster_secret_view().await
    }

    /// Drops the former secret now, whatever was signed with it.
    pub async fn retire_cluster_secret(&self, by: &By<ManageCluster>) -> Result<ClusterSecretView> {
        self.refresh_cluster_secret().await?;
        let state = self.0.store.cluster_secret().await?;
        match state.stage {
            SecretStage::Settled => {
                return Err(refused(
                    "there is no former secret",
                    "`punctual cluster-secret rotate` replaces the secret",
                ));
            }
            SecretStage::Announced => {
                return Err(refused("the former secret still signs", "try again in a few seconds"));
            }
            SecretStage::Signing => {}
        }
        if self.progress(&state).await?.confirmed_at.is_none() {
            let hint = "try again in a few seconds; `punctual cluster-secret show` names the servers";
            return Err(refused("some servers still sign with the former secret", hint));
        }
        let former = self.0.keys.now().other.as_ref().map(|other| format!("secret {}", other.id));
        by.changes(former.unwrap_or_default());
        if !self.retire(&state).await? {
            return Err(refused("keys are being rotated elsewhere", "look at the result of that first"));
        }
        self.cluster_secret_view().await
    }

    async fn cluster_secret_view(&self) -> Result<ClusterSecretView> {
        self.refresh_cluster_secret().await?;
        let (state, keys) = (self.0.store.cluster_secret().await?, self.0.keys.now());
        if state.revision != keys.revision {
            let error = AppError::new(ErrorKind::Unavailable, "the cluster's secret has just changed");
            return Err(error.hint("try again"));
        }
        let progress = self.progress(&state).await?;
        Ok(view(&state, &keys, &progress))
    }

    async fn progress(&self, state: &ClusterSecretState) -> Result<Progress> {
        if state.stage == SecretStage::Settled {
            return Ok(Progress { waiting_for: Vec::new(), confirmed_at: state.stage_since });
        }
        let members = self.0.store.members().await?;
        Ok(Progress::of(state, &members, self.0.settings.lease_ttl, self.now()))
    }

    /// Learns which secrets count now, and confirms it.
    pub async fn refresh_cluster_secret(&self) -> Result<()> {
        let asked_at = self.now();
        let state = self.0.store.cluster_secret().await?;
        let mut keys = self.0.keys.now();
        if state.revision != keys.revision {
            let _turn = self.0.key_changes.lock().await;
            let (secrets, ..) = self.read_secrets().await?;
            keys = self.0.keys.replace(&secrets);
            let (signing, other) = keys.url_keys();
            self.0.blobs.use_url_keys(signing, other);
            tracing::info!(signs = keys.signing.id, stage = ?keys.stage, "the cluster's secret is in another stage");
        }
        self.0.keys_read_at.store(asked_at.as_micros(), Ordering::Relaxed);
        let me = self.server_id();
        let is_on_record = state.revision == keys.revision && state.confirmed.iter().any(|known| known.server == me);
        if keys.stage != SecretStage::Settled && !is_on_record {
            self.0.store.confirm_cluster_secret(me, keys.revision, self.now()).await?;
        }
        Ok(())
    }

    /// Whether this server knows which secrets count: what it cannot verify, nobody can.
    pub fn knows_cluster_secret(&self) -> bool {
        let read_at = self.0.keys_read_at.load(Ordering::Relaxed);
        self.now().since(Timestamp::saturating_from_micros(read_at)) <= KNOWN_FOR
    }

    /// Moves a rotation on if all servers have confirmed its stage. True while there is one.
    pub async fn advance_cluster_secret(&self) -> Result<bool> {
        let state = self.0.store.cluster_secret().await?;
        if state.stage == SecretStage::Settled || state.revision != self.0.keys.now().revision {
            return Ok(state.stage != SecretStage::Settled);
        }
        let Progress { waiting_for, confirmed_at } = self.progress(&state).await?;
        let Some(confirmed_at) = confirmed_at else { return Ok(true) };
        if !waiting_for.is_empty()
            && let Some(left_out) = LEFT_BEHIND.pass()
        {
            let servers = waiting_for.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
            tracing::error!(
                servers,
                left_out,
                "these servers do not act by the cluster's new secret and are left behind"
            );
        }
        match state.stage {
            SecretStage::Settled => {}
            SecretStage::Announced => self.sign_with_next(&state).await?,
            SecretStage::Signing => {
                let is_over = self.now() >= confirmed_at + state.overlap.unwrap_or(SECRET_OVERLAP_DEFAULT);
                if is_over && !self.runs_attempts_from_before(confirmed_at + CLOCKS_DIFFER).await? {
                    self.retire(&state).await?;
                }
            }
        }
        Ok(true)
    }

    async fn sign_with_next(&self, state: &ClusterSecretState) -> Result<()> {
        let keys = self.0.keys.now();
        let Some(next) = &keys.other else { return Ok(()) };
        // Before the new key signs anything, the former one vouches for it.
        self.record(keys.signing.audit.succession(&next.audit)).await?;
        if self.0.store.sign_with_next_secret(state.revision, self.now()).await? {
            let event = server_event("sign_with_cluster_secret");
            let (object, before) = (format!("secret {}", next.id), format!("secret {}", keys.signing.id));
            tracing::warn!(former = keys.signing.id, current = next.id, "servers sign with the cluster's new secret");
            self.refresh_cluster_secret().await?;
            self.record(event.object(Some(&object)).before(Some(&before))).await?;
        }
        Ok(())
    }

    /// Whether an attempt still runs that may have a token of the former secret.
    async fn runs_attempts_from_before(&self, time: Timestamp) -> Result<bool> {
        for shard in 0..self.0.store.shard_count() {
            let open = self.0.store.open_starts(ShardId(shard)).await?;
            if open.running.iter().any(|(open, _)| open.start.started_at < time) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    async fn retire(&self, state: &ClusterSecretState) -> Result<bool> {
        let (secrets, stored, root_keys) = self.read_secrets().await?;
        let Some(next) = secrets.next.filter(|_| secrets.state.revision == state.revision) else { return Ok(false) };
        let entropy = self.0.vault.entropy();
        let sealed = root_key_of(&root_keys, &stored)?.seal(CLUSTER_SECRET, &next.0, entropy)?;
        let keys = self.0.keys.now();
        if keys.revision != state.revision {
            return Ok(false);
        }
        let authorities = self.resealed_authorities(&keys).await?;
        self.sign_audit_log_anew(&keys).await?;
        if !self.0.store.retire_cluster_secret(state.revision, sealed, authorities, self.now()).await? {
            return Ok(false);
        }
        let former = keys.other.as_ref().map(|former| format!("secret {}", former.id)).unwrap_or_default();
        tracing::warn!(former, current = keys.signing.id, "the cluster's former secret was dropped");
        self.refresh_cluster_secret().await?;
        let current = format!("secret {}", keys.signing.id);
        let event = server_event("drop_cluster_secret").object(Some(&former)).before(Some(&current));
        self.record(event).await?;
        Ok(true)
    }

    /// The keys of all authorities, sealed with what signs now. One that does not open is of no use to anybody, and stays as it is.
    async fn resealed_authorities(&self, keys: &KeySet) -> Result<Vec<ResealedAuthority>> {
        let mut resealed = Vec::new();
        for row in self.0.store.authorities().await? {
            let place = sealing_place(row.generation);
            let opened = keys.accepted().find_map(|keys| keys.authority.open(&row.sealed_key, &place));
            let sealed_key = match opened {
                Some(opened) => keys.signing.authority.seal(&opened, &place, self.0.vault.entropy())?,
                None => row.sealed_key.clone(),
            };
            resealed.push(ResealedAuthority { generation: row.generation, former: row.sealed_key, sealed_key });
        }
        Ok(resealed)
    }

    /// The head of the audit log keeps the signature of the last line, and its key goes.
    async fn sign_audit_log_anew(&self, keys: &KeySet) -> Result<()> {
        let ends = self.0.store.audit_ends().await?;
        if ends.head.seq > 0 && !keys.signing.audit.has_signed(ends.head, &ends.signature) {
            self.record(server_event("sign_audit_log")).await?;
        }
        Ok(())
    }

    /// The secrets as they are stored, with the sealed keys, and the root keys that open them.
    async fn read_secrets(&self) -> Result<(OpenedSecrets, Vec<SealedKey>, RootKeys)> {
        let (state, stored) = opened::read(&*self.0.store).await?;
        let source = Arc::clone(&self.0.root_keys);
        // The root key may be printed by a command.
        let read = tokio::task::spawn_blocking(move || source.read().map_err(|reason| (source.place(), reason)));
        let internal = |error| AppError::new(ErrorKind::Internal, "the root key cannot be read").because(error);
        let root_keys = read
            .await
            .map_err(internal)?
            .and_then(|keys| keys.ok_or_else(|| (self.0.root_keys.place(), "there is no key".to_owned())));
        let root_keys = root_keys.map_err(|(place, reason)| not_opened(UnlockError::Source { place, reason }))?;
        let open = |key: &SealedKey| {
            let mismatch = || UnlockError::Mismatch {
                place: self.0.root_keys.place(),
                wanted: key.root_key,
                found: root_keys.ids(),
            };
            let root_key = root_keys.get(key.root_key).ok_or_else(mismatch)?;
            let damaged = || UnlockError::Damaged { label: key.label.clone(), root_key: key.root_key };
            root_key.open(key).ok_or_else(damaged)
        };
        let secrets = OpenedSecrets::open(state, &stored, open).map_err(not_opened)?;
        Ok((secrets, stored, root_keys))
    }
}

/// The key that the cluster's secret is sealed with: all keys of a database are.
fn root_key_of<'k>(root_keys: &'k RootKeys, stored: &[SealedKey]) -> Result<&'k crate::seal::RootKey> {
    let id = stored.iter().find(|key| key.label == CLUSTER_SECRET).map(|key| key.root_key);
    let known = id.and_then(|id| root_keys.get(id));
    known.ok_or_else(|| AppError::new(ErrorKind::RootKeyRefused, "the root key of the database is not known here"))
}

fn server_event(action: &str) -> AuditEvent {
    let by = Principal::new(PrincipalKind::Server, "server", Rights::NONE);
    AuditEvent::new(&by, action, AuditEvent::DONE)
}

fn view(state: &ClusterSecretState, keys: &KeySet, progress: &Progress) -> ClusterSecretView {
    let other = |made_at| keys.other.as_ref().map(|other| OtherClusterSecret { id: other.id.clone(), made_at });
    let (stage, made_at, next, former) = match state.stage {
        SecretStage::Settled => (ClusterSecretStage::Settled, state.made_at, None, None),
        SecretStage::Announced => (ClusterSecretStage::Announced, state.made_at, other(state.next_made_at), None),
        SecretStage::Signing => (ClusterSecretStage::Signing, state.next_made_at, None, other(state.made_at)),
    };
    let former_until = match (state.stage, progress.confirmed_at, state.overlap) {
        (SecretStage::Signing, Some(confirmed_at), Some(overlap)) => Some(confirmed_at + overlap),
        _ => None,
    };
    ClusterSecretView {
        id: keys.signing.id.clone(),
        made_at,
        stage,
        stage_since: state.stage_since,
        next,
        former,
        former_until,
        waiting_for: progress.waiting_for.iter().map(ToString::to_string).collect(),
    }
}
