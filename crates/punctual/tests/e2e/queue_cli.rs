//! Queues from the command line, on one server with a real worker.

use serde_json::json;

use crate::harness::eventually;
use crate::schedule_cli::World;

#[tokio::test]
async fn a_queue_is_listed_paused_resumed_drained_and_edited() {
    let world = World::with_worker(&["--queues", "default,mail"]);
    eventually("the worker serves the queue", async || world.ok("queue list -o name").contains("mail")).await;
    world.ok("queue edit mail --description 'Mails to customers' --default-timeout 30s --default-retries 8");
    world.ok("queue edit mail --default-priority -3");
    world.ok("task apply letter --queue mail --probe '{\"output\":\"hi\"}'");
    let spec = &world.json("task get letter")["spec"];
    assert_eq!((&spec["timeout"], &spec["retry"]["max"], &spec["priority"]), (&json!("PT30S"), &json!(8), &json!(-3)));
    world.ok("task apply urgent --queue mail --priority 5 --timeout 1m --probe '{\"output\":\"hi\"}'");
    let spec = &world.json("task get urgent")["spec"];
    assert_eq!((&spec["timeout"], &spec["priority"]), (&json!("PT1M"), &json!(5)), "what is written is kept");

    let paused = world.say("queue pause mail --note 'the provider is down'");
    assert_eq!((paused.code, paused.out.as_str()), (Some(0), "mail\n"), "{}", paused.err);
    assert!(paused.err.contains("mail is paused. Let it go on: punctual queue resume mail"), "{}", paused.err);
    let job = world.ok("job create letter -o name").trim().to_owned();
    eventually("it waits", async || world.json("queue get mail")["waiting"] == json!(1)).await;
    let shown = world.ok("queue get mail");
    for line in [
        "mail\n",
        "description   Mails to customers",
        "state         paused since ",
        "note          the provider is down",
    ] {
        assert!(shown.contains(line), "{line}: {shown}");
    }
    assert!(shown.contains("waiting       1\n") && shown.contains("default       retries 8\n"), "{shown}");
    let explained = world.ok(&format!("explain {job}"));
    assert!(
        explained.contains("queue mail is paused since ") && explained.contains("the provider is down"),
        "{explained}"
    );
    assert!(world.ok("queue list").contains("the provider is down"));

    eventually("it is overdue", async || {
        let overdue = world.json("overdue --after 1s");
        let why = overdue["jobs"][0]["why"].as_str().unwrap_or_default().to_owned();
        why.contains("queue mail is paused since ")
    })
    .await;
    let doctor = world.say("doctor");
    assert!(doctor.out.contains("every job that is due has a worker that can run it (1 waiting)"), "{}", doctor.out);

    world.ok("queue resume mail");
    world.ok(&format!("wait {job}"));
    world.ok("queue drain mail");
    let refused = world.say("job create letter");
    assert_eq!(refused.code, Some(6), "{}", refused.err);
    assert!(refused.err.contains("punctual queue resume"), "{}", refused.err);
    world.ok("queue resume mail --note 'all is well'");

    world.ok("queue edit mail --unset timeout --description ''");
    let left = world.json("queue get mail");
    assert_eq!(
        (&left["defaults"]["timeout"], &left["description"], &left["note"]),
        (&json!(null), &json!(null), &json!("all is well"))
    );
    let stale = world.say("queue edit mail --description x --if-revision 1");
    assert_eq!(stale.code, Some(6), "{}", stale.err);
    let unknown = world.say("queue pause mial");
    assert_eq!(unknown.code, Some(5), "{}", unknown.err);
    assert!(unknown.err.contains("punctual queue list"), "{}", unknown.err);
}
