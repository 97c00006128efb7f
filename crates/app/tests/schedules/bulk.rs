//! Many schedules at once.

use punctual_api::{ErrorKind, IfExists, ScheduleBulkAnswer, ScheduleBulkRequest, Warning};
use punctual_app::Precondition;
use punctual_core::schedule::{Plan, ScheduleSpec, recurrence, seed_of};

use crate::world::{World, by, request};

fn many(names: &[&str], daily: &str, if_exists: IfExists) -> ScheduleBulkRequest {
    let schedule = |name: &&str| request(&format!(r#"{{"name":"{name}","task":"t","daily":"{daily}"}}"#));
    ScheduleBulkRequest { schedules: names.iter().map(schedule).collect(), if_exists }
}

fn answer(created: usize, replaced: usize, skipped: usize) -> ScheduleBulkAnswer {
    ScheduleBulkAnswer { created, replaced, skipped, ..ScheduleBulkAnswer::default() }
}

/// What was done, whoever can run it.
fn done(answer: ScheduleBulkAnswer) -> ScheduleBulkAnswer {
    ScheduleBulkAnswer { warnings: Vec::new(), ..answer }
}

#[tokio::test]
async fn those_that_exist_fail_the_request_or_are_skipped_or_replaced() {
    let world = World::new().await;
    for app in [&world.owner, &world.front] {
        let create = async |request| app.create_schedules(&by(app), request, None).await;
        assert_eq!(create(many(&["a", "b"], "09:00", IfExists::Fail)).await.map(done).unwrap(), answer(2, 0, 0));
        let error = create(many(&["b", "c"], "10:00", IfExists::Fail)).await.unwrap_err();
        assert_eq!((error.kind, error.detail.as_str()), (ErrorKind::ScheduleNameTaken, "there is a schedule named b"));
        assert_eq!(world.names().await, ["a", "b"], "nothing was stored");
        assert_eq!(create(many(&["b", "c"], "10:00", IfExists::Skip)).await.map(done).unwrap(), answer(1, 0, 1));
        let explained = async |name| world.owner.schedule(&by(&world.owner), name).await.unwrap().explanation;
        assert_eq!(explained("b").await, "at 09:00, every day, UTC");
        assert_eq!(create(many(&["b", "d"], "11:00", IfExists::Replace)).await.map(done).unwrap(), answer(1, 1, 0));
        assert_eq!(explained("b").await, "at 11:00, every day, UTC");
        assert_eq!(world.names().await, ["a", "b", "c", "d"]);
        for name in ["a", "b", "c", "d"] {
            app.delete_schedule(&by(app), name, Precondition::None).await.unwrap();
        }
    }
}

#[tokio::test]
async fn one_that_is_wrong_keeps_all_from_being_stored() {
    let world = World::new().await;
    let mut wrong = many(&["a", "b", "c"], "09:00", IfExists::Fail);
    wrong.schedules[1] = request(r#"{"task":"t","rules":[{"every":"1h"},{"cron":"61 * * * *"}]}"#);
    let error = world.owner.create_schedules(&by(&world.owner), wrong, None).await.unwrap_err();
    assert_eq!(error.errors[0].pointer, "/schedules/1/rules/1/cron");
    let twice = many(&["a", "b", "a"], "09:00", IfExists::Fail);
    let error = world.owner.create_schedules(&by(&world.owner), twice, None).await.unwrap_err();
    assert_eq!(error.detail, "/schedules/2/name: is the name of /schedules/0, too");
    let mut no_task = many(&["a", "b"], "09:00", IfExists::Fail);
    no_task.schedules[1].task = Some("nobody".to_owned());
    let error = world.owner.create_schedules(&by(&world.owner), no_task, None).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::TaskNotFound);
    assert!(error.detail.starts_with("/schedules/1/task: "), "{error}");
    let error =
        world.owner.create_schedules(&by(&world.owner), ScheduleBulkRequest::default(), None).await.unwrap_err();
    assert_eq!(error.errors[0].pointer, "/schedules");
    assert!(world.names().await.is_empty());
}

/// Whether 29 or 30 February is meant, which the name decides.
fn leap_day(name: &str) -> bool {
    let rule = "0 0 H(29-30) 2 *".parse().expect("a rule");
    let spec = ScheduleSpec::new(recurrence::ScheduleSpec::new(rule, "UTC"));
    Plan::new(spec, &Default::default(), seed_of(name)).is_ok()
}

#[tokio::test]
async fn a_name_whose_slots_no_date_has_is_refused_and_others_are_not() {
    let world = World::new().await;
    let (good, bad): (Vec<String>, Vec<String>) = (0..20).map(|n| format!("s-{n}")).partition(|name| leap_day(name));
    let hashed = |name: &String| request(&format!(r#"{{"name":"{name}","task":"t","cron":"0 0 H(29-30) 2 *"}}"#));
    let mut mixed: Vec<_> = good.iter().map(hashed).collect();
    mixed.push(hashed(&bad[0]));
    let all = ScheduleBulkRequest { schedules: mixed, if_exists: IfExists::Fail };
    let error = world.owner.create_schedules(&by(&world.owner), all, None).await.unwrap_err();
    assert_eq!(error.errors[0].pointer, format!("/schedules/{}/cron", good.len()));
    let all = ScheduleBulkRequest { schedules: good.iter().map(hashed).collect(), if_exists: IfExists::Fail };
    let made = world.owner.create_schedules(&by(&world.owner), all, None).await.unwrap();
    assert_eq!(made.warnings.len(), 1, "each reason once: {made:?}");
    assert_eq!(made.warnings[0].code, Warning::NO_WORKER);
    assert_eq!(done(made), answer(good.len(), 0, 0));
    for name in &good {
        let view = world.owner.schedule(&by(&world.owner), name).await.unwrap();
        assert_eq!(view.explanation, "at 00:00, on day 29 of the month, in February, UTC");
        assert_eq!(view.next[0].at.to_string(), "2028-02-29T00:00:00.000000Z");
    }
    // By its id, too, a schedule is judged by its name. The name that stands in for it in between may be refused.
    world.owner.create_schedules(&by(&world.owner), many(&[&bad[0]], "09:00", IfExists::Fail), None).await.unwrap();
    let id = world.owner.schedule(&by(&world.owner), &bad[0]).await.unwrap().id.to_string();
    for _ in 0..20 {
        let nameless = request(r#"{"task":"t","cron":"0 0 H(29-30) 2 *"}"#);
        let error =
            world.owner.put_schedule(&by(&world.owner), &id, nameless, Precondition::None, None).await.unwrap_err();
        assert_eq!(error.errors[0].pointer, "/cron");
    }
}

#[tokio::test]
async fn thousands_are_spread_over_all_shards() {
    let world = World::new().await;
    for (app, prefix) in [(&world.owner, "own"), (&world.front, "asked")] {
        let schedule =
            |n: usize| request(&format!(r#"{{"name":"{prefix}{n:04}","task":"t","cron":"{} 9 * * *"}}"#, n % 60));
        let request = ScheduleBulkRequest { schedules: (0..2000).map(schedule).collect(), if_exists: IfExists::Fail };
        assert_eq!(app.create_schedules(&by(app), request, None).await.map(done).unwrap(), answer(2000, 0, 0));
        let mut shards = [0_usize; 4];
        for n in 0..40 {
            let view = app.schedule(&by(app), &format!("{prefix}{n:04}")).await.unwrap();
            shards[usize::from(view.id.shard().0)] += 1;
        }
        assert!(shards.iter().all(|count| *count == 10), "{prefix}: {shards:?}");
    }
}
