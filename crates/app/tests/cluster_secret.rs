//! How the cluster's secret is replaced: the stages, and what counts in each.

mod world;

use std::any::Any;
use std::sync::Arc;

use punctual_api::{AuditExportQuery, ClusterSecretStage, RotateClusterSecret};
use punctual_app::{
    App, AuditVerifier, ClusterKeys, KnownAuthorities, RootKey, RootKeySource, RootKeys, Transport, VaultParts, unlock,
};
use punctual_core::{AttemptNo, JobId, ShardId, Span, Timestamp};
use world::{World, by};

/// A root key that everybody knows.
struct Keys;

impl RootKeySource for Keys {
    fn place(&self) -> String {
        "a test".to_owned()
    }
    fn read(&self) -> Result<Option<RootKeys>, String> {
        Ok(Some(RootKeys::with_new(RootKey::new([1; 32]), None)))
    }
    fn hold(&self) -> Result<Box<dyn Any + Send>, String> {
        Ok(Box::new(()))
    }
    fn replace(&self, _: &RootKeys, _: Option<&RootKeys>) -> Result<Option<RootKeys>, String> {
        Ok(None)
    }
}

/// A server that starts now.
async fn start(world: &World) -> App {
    let entropy = VaultParts::for_tests().entropy;
    let unlocked = unlock(&world.store, &Keys, &entropy).await.unwrap();
    let vault = VaultParts { key: unlocked.vault, entropy, root_keys: Arc::new(Keys) };
    world.server_with(ClusterKeys::open(&unlocked.secrets), vault)
}

fn job() -> JobId {
    JobId::new(Timestamp::EPOCH, ShardId(1), 7)
}

/// Whether one server accepts what another has signed.
fn accepts(signer: &App, checker: &App) -> bool {
    let token = signer.attempt_tokens().token(job(), AttemptNo(1));
    let access = signer.cluster_keys().now().access_token().as_str().to_owned();
    let by_token = checker.authenticate(&Transport::default(), Some(&access), None).is_ok();
    assert_eq!(checker.attempt_tokens().is_of(job(), AttemptNo(1), &token), by_token);
    by_token
}

async fn stage(app: &App) -> ClusterSecretStage {
    app.cluster_secret(&by(app)).await.unwrap().stage
}

async fn rotate(app: &App, overlap: i64) -> String {
    let request = RotateClusterSecret { overlap: Some(Span::from_secs(overlap)) };
    let view = app.rotate_cluster_secret(&by(app), request).await.unwrap();
    assert_eq!(view.stage, ClusterSecretStage::Announced);
    view.next.unwrap().id
}

#[tokio::test]
async fn each_stage_follows_when_the_servers_have_confirmed_the_one_before() {
    let world = World::new().await;
    let (app, late) = (start(&world).await, start(&world).await);
    let before = app.cluster_secret(&by(&app)).await.unwrap();
    assert_eq!((before.stage, before.made_at), (ClusterSecretStage::Settled, None));
    assert!(app.retire_cluster_secret(&by(&app)).await.is_err(), "there is no former one");
    let former_access = app.cluster_keys().now().access_token().as_str().to_owned();
    let by_former = |app: &App| app.authenticate(&Transport::default(), Some(&former_access), None);
    let held = by_former(&app).unwrap();

    let next = rotate(&app, 60).await;
    assert!(app.rotate_cluster_secret(&by(&app), RotateClusterSecret::default()).await.is_err(), "one is under way");
    assert!(app.retire_cluster_secret(&by(&app)).await.is_err(), "the former one signs");
    assert!(accepts(&app, &late), "nothing is signed with the next one");
    late.refresh_cluster_secret().await.unwrap();
    assert!(app.advance_cluster_secret().await.unwrap());
    assert_eq!(stage(&app).await, ClusterSecretStage::Signing);
    assert!(accepts(&app, &late) && accepts(&late, &app), "each accepts what the other signs");
    let started = start(&world).await;
    for (one, other) in [(&started, &late), (&late, &started), (&started, &app)] {
        assert!(accepts(one, other));
    }
    late.refresh_cluster_secret().await.unwrap();
    let view = late.cluster_secret(&by(&late)).await.unwrap();
    assert_eq!((&view.id, view.former.as_ref().map(|former| &former.id)), (&next, Some(&before.id)));
    assert!(view.former_until.is_some() && view.waiting_for.is_empty());
    assert!(by_former(&late).is_ok() && late.renew(&held).is_ok(), "the former token counts");

    world.pass(59);
    app.advance_cluster_secret().await.unwrap();
    assert_eq!(stage(&app).await, ClusterSecretStage::Signing, "the overlap is not over");
    world.pass(2);
    app.advance_cluster_secret().await.unwrap();
    assert_eq!(stage(&app).await, ClusterSecretStage::Settled);
    assert!(accepts(&app, &late) && accepts(&late, &app), "one that has not noticed signs with the new one");
    late.refresh_cluster_secret().await.unwrap();
    for app in [&app, &late, &start(&world).await] {
        assert!(by_former(app).is_err() && app.renew(&held).is_err(), "also for a stream that is open");
        assert!(accepts(app, &late));
    }
    assert!(!app.advance_cluster_secret().await.unwrap(), "there is nothing to do");
    let settled = app.cluster_secret(&by(&app)).await.unwrap();
    assert!(settled.id == next && settled.former.is_none() && settled.made_at.is_some(), "{settled:?}");
}

#[tokio::test]
async fn authorities_and_the_audit_log_outlive_the_secret() {
    let world = World::new().await;
    let app = start(&world).await;
    let entropy = VaultParts::for_tests().entropy;
    let load = async |keys: &ClusterKeys| KnownAuthorities::load_or_make(&world.store, keys, &entropy, app.now()).await;
    let before = load(app.cluster_keys()).await.unwrap();
    let noted = app.export_audit(&by(&app), AuditExportQuery::default()).await.unwrap().head.public_key;
    let former = ClusterKeys::open(&unlock(&world.store, &Keys, &entropy).await.unwrap().secrets);
    for _ in 0..2 {
        rotate(&app, 0).await;
        app.advance_cluster_secret().await.unwrap();
        let during = load(app.cluster_keys()).await.unwrap();
        assert_eq!((during.certificates(), during.cluster()), (before.certificates(), before.cluster()));
        app.retire_cluster_secret(&by(&app)).await.unwrap();
        let after = load(app.cluster_keys()).await.unwrap();
        assert_eq!((after.certificates(), after.cluster()), (before.certificates(), before.cluster()));
    }
    assert!(load(&former).await.is_err(), "the key is sealed with the new secret alone");
    let export = app.export_audit(&by(&app), AuditExportQuery::default()).await.unwrap();
    assert_ne!(export.head.public_key, noted);
    let verify = |key: &str| {
        let mut verifier = AuditVerifier::new(&export.head).unwrap();
        export.lines.iter().for_each(|line| verifier.line(line).unwrap());
        verifier.finish(&export.head, Some(key))
    };
    assert!(verify(&noted).is_ok(), "the key that was noted leads to the new one");
    assert!(verify(&"0".repeat(64)).is_err());
}
