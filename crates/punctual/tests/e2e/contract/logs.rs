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
    assert_eq!(pieces.last().map(|piece| piece.id.as_str()), Some("1-8"));
}

#[tokio::test]
async fn a_follower_that_comes_back_goes_on_where_it_was() {
    let world = World::working().await;
    let id = talkative(&world).await;
    let path = format!("/v1/jobs/{id}/logs");
    for (last_event_id, expected) in
        [("4", vec!["ße\n"]), ("8", vec![]), ("2-4", vec!["ße\n"]), ("1-0", vec!["grüße\n"])]
    {
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

#[tokio::test]
async fn bytes_of_a_log_are_read_by_their_range() {
    let world = World::working().await;
    let id = talkative(&world).await;
    let path = format!("/v1/jobs/{id}/logs");
    let get = async |query: &str, headers: &[(&str, &str)]| {
        world.api.send(reqwest::Method::GET, &format!("{path}{query}"), None, headers).await
    };
    for (range, status, text, described) in [
        ("bytes=0-1", 206, "gr", "bytes 0-1/8"),
        ("bytes=2-", 206, "üße\n", "bytes 2-7/8"),
        ("bytes=-2", 206, "e\n", "bytes 6-7/8"),
        ("bytes=0-999", 206, "grüße\n", "bytes 0-7/8"),
        ("bytes=-999", 206, "grüße\n", "bytes 0-7/8"),
        // Passed over, as HTTP has it.
        ("bytes=0-1,3-4", 200, "grüße\n", ""),
        ("bytes=5-2", 200, "grüße\n", ""),
        ("lines=1-2", 200, "grüße\n", ""),
    ] {
        let part = get("", &[("range", range)]).await.expect(status);
        assert_eq!(part.text, text, "{range}");
        assert_eq!(part.header("content-range").unwrap_or(""), described, "{range}");
        assert_eq!(part.header("accept-ranges"), Some("bytes"));
        assert_eq!(part.header("punctual-attempt"), Some("2"));
    }
    for (query, range, described) in
        [("", "bytes=8-", "bytes */8"), ("", "bytes=-0", "bytes */8"), ("?attempt=1", "bytes=0-", "bytes */0")]
    {
        let refused = get(query, &[("range", range)]).await.refused(416, "range_not_satisfiable");
        assert_eq!(refused.header("content-range"), Some(described), "{range}");
    }
    // An offset says what is wanted, and so does a condition that we cannot judge.
    assert_eq!(get("?offset=4", &[("range", "bytes=0-1")]).await.expect(200).text, "ße\n");
    assert_eq!(get("", &[("range", "bytes=0-1"), ("if-range", "\"x\"")]).await.expect(200).text, "grüße\n");
    get("?attempt=3", &[("range", "bytes=0-1")]).await.refused(404, "not_found");
}

#[tokio::test]
async fn a_log_that_is_being_written_has_no_length_yet() {
    let world = World::working().await;
    let id = world.api.submit(json!({ "inline": probe(json!({ "sleep": "60s", "output": "at last" })) })).await;
    crate::harness::eventually("it runs", || async {
        world.api.get(&format!("/v1/jobs/{id}")).await.str("/state") == "running"
    })
    .await;
    let path = format!("/v1/jobs/{id}/logs");
    let empty = world.api.send(reqwest::Method::GET, &path, None, &[("range", "bytes=0-")]).await;
    assert_eq!(empty.refused(416, "range_not_satisfiable").header("content-range"), Some("bytes */0"));
}
