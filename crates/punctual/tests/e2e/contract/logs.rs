//! What attempts wrote: in pieces, and as it comes.

use serde_json::json;

use super::{World, far_future, probe};

/// A job that failed silently once, then wrote one line.
async fn talkative(world: &World) -> String {
    let mut spec = probe(json!({ "fail_times": 1, "output": "grüße" }));
    spec["retry"] = json!({ "max": 1, "initial": "0s" });
    let id = world.api.submit(json!({ "inline": spec })).await;
    world.api.finished(&id).await;
    id
}

#[tokio::test]
async fn a_log_is_read_from_any_byte_of_any_attempt() {
    let world = World::working().await;
    let id = talkative(&world).await;
    let whole = "grüße\n".len();
    for (query, text, next, attempt) in [
        ("", "grüße\n", whole, 2),
        ("?attempt=2", "grüße\n", whole, 2),
        ("?offset=4", "ße\n", whole, 2),
        ("?offset=8", "", whole, 2),
        ("?offset=1000", "", 1000, 2),
        ("?attempt=1", "", 0, 1),
    ] {
        let log = world.api.get(&format!("/v1/jobs/{id}/logs{query}")).await.expect(200);
        assert_eq!(log.text, text, "{query}");
        assert_eq!(log.header("punctual-next-offset"), Some(next.to_string().as_str()), "{query}");
        assert_eq!(log.header("punctual-attempt"), Some(attempt.to_string().as_str()), "{query}");
    }
    for query in ["?attempt=0", "?attempt=3"] {
        world.api.get(&format!("/v1/jobs/{id}/logs{query}")).await.refused(404, "not_found");
    }
}

#[tokio::test]
async fn a_log_is_followed_from_before_the_start_until_the_end() {
    let world = World::working().await;
    let mut job = far_future();
    job["inline"] = probe(json!({ "sleep": "300ms", "output": "at last" }));
    let id = world.api.submit(job).await;
    let events = world.api.listen(&format!("/v1/jobs/{id}/logs"), &[]).await;
    world.api.command(&format!("/v1/jobs/{id}/run")).await.expect(200);
    let events = events.all().await;
    let (end, pieces) = events.split_last().expect("at least the end");
    assert_eq!(end.name, "end");
    let text: String = pieces.iter().map(|piece| piece.json().as_str().expect("text").to_owned()).collect();
    assert_eq!(text, "at last\n");
    assert_eq!(pieces.last().map(|piece| piece.id.as_str()), Some("8"));
}

#[tokio::test]
async fn a_follower_that_comes_back_goes_on_where_it_was() {
    let world = World::working().await;
    let id = talkative(&world).await;
    let path = format!("/v1/jobs/{id}/logs");
    for (last_event_id, expected) in [("4", vec!["ße\n"]), ("8", vec![])] {
        let events = world.api.listen(&path, &[("last-event-id", last_event_id)]).await.all().await;
        let (end, pieces) = events.split_last().expect("at least the end");
        assert_eq!(end.name, "end");
        let texts: Vec<_> = pieces.iter().map(super::super::checked::Event::json).collect();
        assert_eq!(texts, expected);
    }
}

#[tokio::test]
async fn a_job_that_has_not_started_has_an_empty_log() {
    let world = World::idle().await;
    let id = world.api.submit(far_future()).await;
    let log = world.api.get(&format!("/v1/jobs/{id}/logs")).await.expect(200);
    assert_eq!((log.text.as_str(), log.header("punctual-attempt")), ("", Some("0")));
}
