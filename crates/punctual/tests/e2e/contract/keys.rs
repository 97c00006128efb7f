//! Idempotency keys.

use reqwest::Method;
use serde_json::{Value, json};

use super::{World, far_future};

async fn send(world: &World, path: &str, key: &str, body: Value) -> crate::checked::Answer {
    world.api.send(Method::POST, path, Some(body), &[("idempotency-key", key)]).await
}

async fn count(world: &World) -> usize {
    world.api.get("/v1/jobs").await.expect(200).body["jobs"].as_array().map_or(0, Vec::len)
}

/// Warnings are about the moment at which the job was stored.
fn lasting(body: &Value) -> Value {
    let mut body = body.clone();
    body.as_object_mut().expect("an object").remove("warnings");
    body
}

#[tokio::test]
async fn a_request_that_is_repeated_with_its_key_makes_no_second_job() {
    let world = World::idle().await;
    let first = send(&world, "/v1/jobs", "order-1", far_future()).await.expect(201);
    assert_eq!(first.header("idempotency-replayed"), None);
    let again = send(&world, "/v1/jobs", "order-1", far_future()).await.expect(201);
    assert_eq!(again.header("idempotency-replayed"), Some("true"));
    assert_eq!(lasting(&again.body), lasting(&first.body));
    assert_eq!(again.header("location"), first.header("location"));
    assert_eq!(count(&world).await, 1);
    let other = send(&world, "/v1/jobs", "order-2", far_future()).await.expect(201);
    assert_ne!(other.body["id"], first.body["id"]);
}

#[tokio::test]
async fn a_key_that_belongs_to_another_request_is_refused() {
    let world = World::idle().await;
    send(&world, "/v1/jobs", "order-1", far_future()).await.expect(201);
    let mut other = far_future();
    other["priority"] = json!(1);
    send(&world, "/v1/jobs", "order-1", other).await.refused(422, "idempotency_key_reused");
    let bulk = json!({ "jobs": [far_future()] });
    send(&world, "/v1/jobs/bulk", "order-1", bulk).await.refused(422, "idempotency_key_reused");
    assert_eq!(count(&world).await, 1);
}

#[tokio::test]
async fn a_bulk_that_is_repeated_answers_with_the_same_ids() {
    let world = World::idle().await;
    let bulk = json!({ "jobs": [far_future(), far_future(), far_future()] });
    let first = send(&world, "/v1/jobs/bulk", "batch", bulk.clone()).await.expect(201);
    let again = send(&world, "/v1/jobs/bulk", "batch", bulk).await.expect(201);
    assert_eq!((lasting(&again.body), again.header("idempotency-replayed")), (lasting(&first.body), Some("true")));
    assert_eq!(count(&world).await, 3);
}
