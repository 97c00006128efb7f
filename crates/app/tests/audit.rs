//! The audit log on the model store: lines of requests that come together, and what retention removes.

#[path = "world/mod.rs"]
mod world;

use futures_util::future::join_all;
use punctual_api::{AuditExportQuery, AuditQuery};
use punctual_app::{App, AuditEvent, AuditFault, AuditVerified, AuditVerifier};
use punctual_core::Span;
use world::{World, by};

fn event(number: usize) -> AuditEvent {
    let object = format!("task{number}");
    AuditEvent::by_nobody(None, "apply_task", AuditEvent::DONE).object(Some(&object))
}

async fn verify(app: &App) -> Result<AuditVerified, AuditFault> {
    let mut query = AuditExportQuery::default();
    let mut verifier = None;
    loop {
        let part = app.export_audit(&by(app), query).await.unwrap();
        if verifier.is_none() {
            verifier = Some(AuditVerifier::new(&part.head)?);
        }
        let verifier = verifier.as_mut().expect("just made");
        part.lines.iter().try_for_each(|line| verifier.line(line))?;
        if part.is_complete {
            return verifier.clone().finish(&part.head, None);
        }
        query = AuditExportQuery { after_seq: Some(verifier.last().to_string()) };
    }
}

#[tokio::test]
async fn lines_that_are_written_at_once_are_all_in_the_chain() {
    let world = World::new().await;
    let written = join_all((0..1500).map(|number| world.app.record(event(number)))).await;
    assert!(written.into_iter().all(|line| line.is_ok()));
    assert_eq!(verify(&world.app).await.unwrap().lines, 1500);
    // Pages and filters of what is there.
    let page = async |query: AuditQuery| world.app.audit(&by(&world.app), query).await.unwrap();
    let all = page(AuditQuery { limit: Some("1000".to_owned()), ..AuditQuery::default() }).await;
    assert_eq!((all.entries.len(), all.entries[0].line.seq), (1000, 1500));
    let rest =
        page(AuditQuery { cursor: all.next_cursor, limit: Some("1000".to_owned()), ..AuditQuery::default() }).await;
    assert_eq!((rest.entries.len(), rest.entries[0].line.seq, rest.next_cursor), (500, 500, None));
    let one = page(AuditQuery { object: Some("task7".to_owned()), ..AuditQuery::default() }).await;
    assert_eq!(one.entries.len(), 1);
    let none = page(AuditQuery { outcome: Some("forbidden".to_owned()), ..AuditQuery::default() }).await;
    assert_eq!(none.entries.len(), 0);
}

#[tokio::test]
async fn what_retention_removes_is_noted_in_the_log() {
    let world = World::new().await;
    for number in 0..10 {
        world.app.record(event(number)).await.unwrap();
        world.pass(10);
    }
    let before = world.app.now() - Span::from_secs(45);
    assert_eq!(world.app.trim_audit(before).await.unwrap(), 6);
    assert_eq!(world.app.trim_audit(before).await.unwrap(), 0);
    let verified = verify(&world.app).await.unwrap();
    assert_eq!((verified.base, verified.lines), (6, 5), "four lines, and the one of the trimming");
    // The line that speaks of it goes later, and another one takes its place.
    world.pass(1000);
    assert_eq!(world.app.trim_audit(world.app.now()).await.unwrap(), 5);
    let verified = verify(&world.app).await.unwrap();
    assert_eq!((verified.base, verified.lines), (11, 1));
}
