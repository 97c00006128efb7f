//! What rules say: of what, to whom, in which words.

use punctual_api::{DeliveryQuery, ErrorKind, NotificationPreviewRequest};
use punctual_app::{Precondition, PutRule, Reports};
use punctual_core::NamespaceId;
use punctual_core::notice::{Notice, NoticeKind};
use punctual_core::task::Run;
use punctual_store::Notices;
use punctual_store_tests::fixture::{at, new_job, owner_of};
use punctual_store_tests::report_fixture::{notice, tell};
use punctual_store_tests::schedule_fixture::add;
use serde_json::json;

use super::{fail, interval, mail, report, rule, schedule, sent, summaries, with, world_with};
use crate::world::{World, by};

#[tokio::test]
async fn a_rule_is_for_the_tasks_queues_and_schedules_that_it_names() {
    let world = world_with(&[
        ("by-task", with(json!({"tasks": ["other", "report"]}))),
        ("by-other-task", with(json!({"tasks": ["other"]}))),
        ("by-queue", with(json!({"queues": ["default"]}))),
        ("by-other-queue", with(json!({"queues": ["slow"]}))),
        ("by-schedule", with(json!({"tasks": ["other"], "schedules": ["backup"]}))),
        ("by-other-schedule", with(json!({"schedules": ["other"]}))),
        ("other-kind", with(json!({"on": ["lost"]}))),
    ])
    .await;
    let mut owner = owner_of(&world.store, &[]).await;
    let row = schedule(1, "backup", 2, &interval(60));
    owner.done(vec![add(&row)]).await;
    let missed = Notice { planned: Some((row.id, at(0))), ..notice(NoticeKind::Missed, 1, 2) };
    owner.done(vec![tell(&missed)]).await;
    world.pass(60);
    report(&world, &mut Reports::default()).await;
    let rows = world.store.deliveries(NamespaceId::DEFAULT, None, None, 100).await.unwrap();
    let mut rules: Vec<&str> = rows.iter().map(|row| row.rule.as_str()).collect();
    rules.sort_unstable();
    assert_eq!(rules, ["by-queue", "by-schedule", "by-task"]);
}

#[tokio::test]
async fn a_rule_that_is_switched_off_drops_what_waits() {
    let world = world_with(&[("ops", mail())]).await;
    let mut owner = owner_of(&world.store, &[]).await;
    owner.done(vec![tell(&notice(NoticeKind::Failed, 0, 0))]).await;
    let mut reports = Reports::default();
    report(&world, &mut reports).await;
    assert!(world.app.notification(&by(&world.app), "ops").await.unwrap().waiting.is_some());
    let off = rule(with(json!({"enabled": false})));
    assert!(matches!(
        world.app.put_notification(&by(&world.app), "ops", off, Precondition::Revision(1)).await.unwrap(),
        PutRule::Replaced(_)
    ));
    world.pass(10);
    report(&world, &mut reports).await;
    world.app.put_notification(&by(&world.app), "ops", rule(mail()), Precondition::Revision(2)).await.unwrap();
    world.pass(1000);
    report(&world, &mut reports).await;
    assert_eq!(summaries(&world).await, Vec::<String>::new());
    assert_eq!(world.store.waiting_notices(10).await.unwrap(), [], "they are taken all the same");
}

#[tokio::test]
async fn the_address_of_slack_is_shown_nowhere_and_may_be_kept() {
    let address = "https://hooks.slack.com/services/T0/B0/s3cret";
    let world = world_with(&[("chat", json!({"slack": {"webhook": address}}))]).await;
    let view = world.app.notification(&by(&world.app), "chat").await.unwrap();
    assert_eq!(view.slack.as_ref().unwrap().webhook, "***");
    assert!(!format!("{view:?}{}", json!(view)).contains("s3cret"));
    let kept = rule(json!({"slack": {"webhook": "***"}, "window": "5m"}));
    assert_eq!(
        world.app.put_notification(&by(&world.app), "none", kept.clone(), Precondition::None).await.unwrap_err().errors
            [0]
        .pointer,
        "/slack/webhook"
    );
    assert!(matches!(
        world.app.put_notification(&by(&world.app), "chat", kept, Precondition::None).await.unwrap(),
        PutRule::Replaced(_)
    ));
    let job = world.app.test_notification(&by(&world.app), "chat").await.unwrap().job;
    let (summary, _, task, input) = sent(&world).await.pop().unwrap();
    assert_eq!(summary, "a test");
    let Run::Slack(slack) = &task.spec.run else { panic!("{:?}", task.spec.run) };
    assert_eq!(slack.webhook, address);
    assert!(!format!("{task:?}").contains("s3cret"));
    let text = input.unwrap()["text"].as_str().unwrap().to_owned();
    assert!(text.starts_with("*Test: [punctual] nightly-report failed*\nThis is a test of the rule chat."), "{text}");
    let list = world.app.deliveries(&by(&world.app), Some("chat"), DeliveryQuery::default()).await.unwrap().deliveries;
    assert_eq!((list[0].job, list[0].state.as_deref()), (job, Some("scheduled")));
}

#[tokio::test]
async fn a_webhook_gets_the_whole_message() {
    let hook = json!({"webhook": {"url": "https://example.com/hook", "sign_with": "main"}, "queue": "urgent"});
    let world = world_with(&[("hook", hook)]).await;
    let job = new_job(1, 60, 0);
    let mut owner = owner_of(&world.store, std::slice::from_ref(&job)).await;
    fail(&mut owner, &job).await;
    world.pass(200);
    report(&world, &mut Reports::default()).await;
    let (_, _, task, input) = sent(&world).await.pop().unwrap();
    assert_eq!(task.spec.queue, "urgent");
    let Run::Http(call) = &task.spec.run else { panic!("{:?}", task.spec.run) };
    assert_eq!((call.url.as_str(), call.sign_with.as_deref()), ("https://example.com/hook", Some("main")));
    let body = input.unwrap();
    assert_eq!(body["type"], "punctual.notification");
    assert_eq!(body["counts"], json!({"failed": 1}));
    assert_eq!(body["tasks"], json!([{"task": "report", "counts": {"failed": 1}}]));
    let event = &body["events"][0];
    assert_eq!(event["job"], json!(job.id));
    assert_eq!(event["reason"], "attempt 1 failed");
    assert_eq!(event["attempts"][0]["ending"], "failed");
    assert_eq!(event["attempts"][0]["took"], "PT1S");
}

#[tokio::test]
async fn a_rule_cannot_have_a_name_that_stands_for_something_else() {
    let world = World::new().await;
    let refused =
        world.app.put_notification(&by(&world.app), "preview", rule(mail()), Precondition::None).await.unwrap_err();
    assert_eq!((refused.kind, refused.errors[0].pointer.as_str()), (ErrorKind::InvalidRequest, "name"));
}

#[tokio::test]
async fn rules_have_revisions() {
    let world = world_with(&[("ops", mail())]).await;
    let refused =
        world.app.put_notification(&by(&world.app), "ops", rule(mail()), Precondition::Revision(7)).await.unwrap_err();
    assert_eq!(refused.kind, ErrorKind::RevisionConflict);
    let refused =
        world.app.put_notification(&by(&world.app), "new", rule(mail()), Precondition::Revision(1)).await.unwrap_err();
    assert_eq!(refused.kind, ErrorKind::RevisionConflict);
    assert_eq!(world.app.notification(&by(&world.app), "new").await.unwrap_err().kind, ErrorKind::NotificationNotFound);
    assert_eq!(world.app.notification(&by(&world.app), "ops").await.unwrap().revision, 1);
    world.app.delete_notification(&by(&world.app), "ops", Precondition::None).await.unwrap();
    assert_eq!(
        world.app.delete_notification(&by(&world.app), "ops", Precondition::None).await.unwrap_err().kind,
        ErrorKind::NotificationNotFound
    );
    let gone = world.app.deliveries(&by(&world.app), Some("ops"), DeliveryQuery::default()).await.unwrap_err();
    assert_eq!(gone.kind, ErrorKind::NotificationNotFound);
    assert_eq!(world.app.list_notifications(&by(&world.app)).await.unwrap().notifications, []);
}

#[tokio::test]
async fn a_preview_shows_what_a_template_makes_of_everything_there_can_be() {
    let world = World::new().await;
    let request = |text: &str| NotificationPreviewRequest { rule: rule(with(json!({"templates": {"text": text}}))) };
    let preview = world
        .app
        .preview_notification(&by(&world.app), &request("{% for e in events %}{{ e.kind }} {% endfor %}"))
        .await
        .unwrap();
    assert_eq!(preview.text, "quarantined lost failed missed overdue recovered ");
    assert_eq!(preview.subject.split(':').next(), Some("[punctual] nightly-report"));
    let refused = world.app.preview_notification(&by(&world.app), &request("{{ nothing }}")).await.unwrap_err();
    assert_eq!(refused.errors[0].pointer, "/rule/templates/text");
}

#[tokio::test]
async fn a_sample_does_not_contradict_itself() {
    let world = World::new().await;
    let template = "{% for e in events %}{{ e.kind }}, {{ e.state }}, {{ e.reason }}, late by {{ e.late_by }}, planned \
                    {{ e.planned_at | utc }}, at {{ e.at | utc }}\n{% endfor %}from {{ since | utc }} to {{ until | utc }}";
    let on = ["failed", "lost", "quarantined", "missed", "late", "recovered"];
    let rule = rule(with(json!({"on": on, "templates": {"text": template}})));
    let told =
        world.app.preview_notification(&by(&world.app), &NotificationPreviewRequest { rule }).await.unwrap().text;
    let silent = "the worker was silent for 30s";
    let planned = "planned 2026-11-16 07:53:48 UTC";
    let expected = [
        format!("quarantined, quarantined, {silent}, late by , {planned}, at 2026-11-16 07:54:53 UTC"),
        format!("lost, lost, {silent}, late by , {planned}, at 2026-11-16 07:54:18 UTC"),
        format!("failed, failed, exit code 1, late by , {planned}, at 2026-11-16 07:53:55 UTC"),
        format!("missed, , Nobody was there in time., late by 6m 12s, {planned}, at 2026-11-16 08:00:00 UTC"),
        format!(
            "overdue, , Nobody has decided about this time yet., late by 6m 12s, {planned}, at 2026-11-16 08:00:00 UTC"
        ),
        format!("late, , It has not started yet., late by 6m 12s, {planned}, at 2026-11-16 08:00:00 UTC"),
        "recovered, succeeded, , late by , planned 2026-11-16 07:59:58 UTC, at 2026-11-16 08:00:00 UTC".to_owned(),
        "from 2026-11-16 07:53:55 UTC to 2026-11-16 08:00:00 UTC".to_owned(),
    ];
    assert_eq!(told.lines().collect::<Vec<_>>(), expected);
}

#[tokio::test]
async fn a_test_is_about_what_the_rule_tells() {
    let world = world_with(&[("late", with(json!({"on": ["late"]})))]).await;
    world.app.test_notification(&by(&world.app), "late").await.unwrap();
    let (.., task, _) = sent(&world).await.pop().unwrap();
    let Run::Email(mail) = task.spec.run else { panic!("it is a mail") };
    assert_eq!(mail.subject, "Test: [punctual] nightly-report is late");
}
