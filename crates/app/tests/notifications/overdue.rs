//! When a planned time is overdue, and what people see who look at what is late.

use punctual_api::OverdueQuery;
use punctual_app::Reports;
use punctual_core::schedule::Verdict;
use punctual_core::{NamespaceId, Span};
use punctual_store::Notices;
use punctual_store_tests::fixture::{new_job, owner_of};
use punctual_store_tests::schedule_fixture::{add, decide, unfired, watermark};
use serde_json::json;

use super::late::go_on;
use super::{fail, interval, mail, put, report, schedule, summaries, with, world_with};
use crate::world::{World, by};

/// A time was planned for 09:00, second 3600, and nobody decides about it. What is told until `secs` after it.
async fn told(missed_after: i64, rule: serde_json::Value, secs: i64) -> Vec<String> {
    let world = World::with_missed_after(Span::from_secs(missed_after)).await;
    put(&world, &[("ops", rule)]).await;
    let mut owner = owner_of(&world.store, &[]).await;
    owner.done(vec![add(&schedule(1, "stuck", 2, &interval(60))), watermark(2, 3599)]).await;
    let mut reports = Reports::default();
    report(&world, &mut reports).await;
    world.pass(3600 + secs - 40);
    go_on(&world, &mut reports, 40).await;
    summaries(&world).await
}

const OVERDUE: [&str; 1] = ["report is overdue"];

#[tokio::test]
async fn a_time_is_overdue_when_its_owner_would_have_called_it_missed() {
    for (missed_after, early, late) in [(1, 110, 165), (60, 110, 165), (600, 650, 705), (3600, 3570, 3710)] {
        assert_eq!(told(missed_after, mail(), early).await, Vec::<String>::new(), "missed after {missed_after}");
        assert_eq!(told(missed_after, mail(), late).await, OVERDUE, "missed after {missed_after}");
    }
}

#[tokio::test]
async fn a_rule_about_what_is_late_tells_of_it_when_it_is_late() {
    let late = with(json!({"on": ["late"], "late_after": "5m"}));
    for missed_after in [60, 3600] {
        assert_eq!(told(missed_after, late.clone(), 290).await, Vec::<String>::new());
        assert_eq!(told(missed_after, late.clone(), 345).await, OVERDUE);
    }
    let both = with(json!({"on": ["late", "missed"], "late_after": "5m"}));
    assert_eq!(told(3600, both, 345).await, OVERDUE, "whatever comes first");
}

#[tokio::test]
async fn a_time_that_was_told_is_told_once_by_rules_of_different_patience() {
    let world = World::with_missed_after(Span::from_secs(600)).await;
    let late = with(json!({"on": ["late"], "late_after": "2m", "window": "5s"}));
    put(&world, &[("late", late), ("missed", with(json!({"on": ["missed"], "window": "5s"})))]).await;
    let mut owner = owner_of(&world.store, &[]).await;
    let row = schedule(1, "stuck", 2, &interval(60));
    owner.done(vec![add(&row), watermark(2, 3599)]).await;
    let mut reports = Reports::default();
    world.pass(3600);
    go_on(&world, &mut reports, 400).await;
    let sent_by = async |rule: &str| {
        world.store.deliveries(NamespaceId::DEFAULT, Some(rule.to_owned()), None, 10).await.unwrap().len()
    };
    assert_eq!((sent_by("late").await, sent_by("missed").await), (1, 0));
    go_on(&world, &mut reports, 400).await;
    assert_eq!((sent_by("late").await, sent_by("missed").await), (1, 1));
    owner.done(vec![decide(&unfired(row.id, 3600, Verdict::Missed))]).await;
    go_on(&world, &mut reports, 100).await;
    assert_eq!((sent_by("late").await, sent_by("missed").await), (1, 1));
}

#[tokio::test]
async fn a_delivery_that_waits_is_shown_with_the_rule_that_it_is_for_and_told_to_nobody() {
    let rules = [("ops", mail()), ("late", with(json!({"on": ["late"], "late_after": "60s"})))];
    let world = world_with(&rules).await;
    let job = new_job(1, 60, 0);
    let mut owner = owner_of(&world.store, std::slice::from_ref(&job)).await;
    fail(&mut owner, &job).await;
    world.pass(104);
    let mut reports = Reports::default();
    go_on(&world, &mut reports, 300).await;
    assert_eq!(summaries(&world).await, ["report failed"], "that its mail is late is told to nobody");
    let overdue = world.app.overdue(&by(&world.app), OverdueQuery::default()).await.unwrap();
    let [delivery] = &overdue.jobs[..] else { panic!("{overdue:?}") };
    let sent = world.store.deliveries(NamespaceId::DEFAULT, None, None, 10).await.unwrap();
    assert_eq!(delivery.job, sent[0].job);
    let (begin, end) = ("It has been due for 5m", " It delivers a message of the notification rule ops.");
    assert!(delivery.why.starts_with(begin) && delivery.why.ends_with(end), "{}", delivery.why);
}
