use super::*;
use crate::schedule::seed_of;

fn spec(rule: &str) -> ScheduleSpec {
    ScheduleSpec::new(punctual_recurrence::ScheduleSpec::new(rule.parse().unwrap(), "UTC"))
}

fn shared(rule: &str) -> Plan {
    Plan::shared(spec(rule), &BTreeMap::new()).unwrap()
}

fn at(text: &str) -> Timestamp {
    Timestamp::parse(text).unwrap()
}

#[test]
fn stored_schedules_keep_their_slots() {
    // As a server chose them that made a plan for each name. A change here would move schedules that people have.
    for (name, rule, next) in [
        ("nightly", "H H * * *", "2026-11-15T17:43:00Z"),
        ("nightly", "H H(0-7) * * H", "2026-11-21T05:43:00Z"),
        ("nightly", "~ 0~5 H * *", "2026-12-08T04:43:00Z"),
        ("nightly", "H H H(1-3) H/4 *", "2027-01-01T17:43:00Z"),
        ("reports-daily", "H H * * *", "2026-11-15T18:20:00Z"),
        ("reports-daily", "H H(0-7) * * H", "2026-11-17T06:20:00Z"),
        ("reports-daily", "H H H(1-3) H/4 *", "2027-03-01T18:20:00Z"),
        ("backup-7", "~ 0~5 H * *", "2026-12-08T01:26:00Z"),
        ("backup-7", "H H H(1-3) H/4 *", "2027-02-01T05:26:00Z"),
    ] {
        let planned = shared(rule).next_after(at("2026-11-15T00:00:00Z"), seed_of(name)).unwrap();
        assert_eq!(planned.at, at(next), "{name}: {rule}");
    }
}

#[test]
fn one_plan_serves_all_names() {
    let mut skipping = spec("H H * * H");
    skipping.when.rules.push("30 2 * * *".parse().unwrap());
    skipping.when.zone = "Europe/Berlin".to_owned();
    skipping.when.gap = GapPolicy::Skip;
    let plan = Plan::shared(skipping.clone(), &BTreeMap::new()).unwrap();
    let from = at("2026-03-01T00:00:00Z");
    let mut firsts = std::collections::BTreeSet::new();
    for number in 0..200 {
        let seed = seed_of(&format!("tenant-{number}"));
        let own = Schedule::new(skipping.when.clone(), &format!("{seed:016x}")).unwrap();
        let expected: Vec<_> = own.next_n(to_jiff(from), 40).iter().map(|next| next.at.as_microsecond()).collect();
        let fires = plan.times_after(from, seed).filter(|planned| planned.unfired.is_none());
        assert_eq!(fires.take(40).map(|planned| planned.at.as_micros()).collect::<Vec<_>>(), expected);
        let gaps = plan.times_after(from, seed).take(60).filter(|planned| planned.unfired == Some(Unfired::Gap));
        assert!(gaps.count() >= 1, "02:30 on the last Sunday of March");
        assert_eq!(plan.schedule(seed).explain(), own.explain());
        firsts.insert(plan.schedule(seed).explain());
    }
    assert!(firsts.len() > 150, "{} different slots for 200 names", firsts.len());
}

#[test]
fn what_never_fires_is_refused_for_the_names_that_choose_it() {
    let rule = "0 0 H(29-30) 2 *";
    let plan = shared(rule);
    let (good, bad): (Vec<u64>, Vec<u64>) = (0..100).partition(|seed| plan.check(*seed).is_ok());
    assert!(good.len() > 20 && bad.len() > 20, "{} of 100 fire", good.len());
    for seed in good {
        assert!(plan.next_after(at("2026-01-01T00:00:00Z"), seed).is_some());
        Plan::new(spec(rule), &BTreeMap::new(), seed).unwrap();
    }
    for seed in bad {
        assert_eq!(plan.next_after(at("2026-01-01T00:00:00Z"), seed), None);
        let refused = Plan::new(spec(rule), &BTreeMap::new(), seed).unwrap_err();
        assert!(matches!(refused, PlanError::When(ScheduleError::NeverFires { rule: 1, .. })), "{refused}");
    }
}

#[test]
fn plans_share_the_dates_of_their_calendars() {
    let dates = (1..=28).map(|day| jiff::civil::date(2026, 12, day)).collect();
    let calendar = Arc::new(Calendar { name: "holidays".to_owned(), dates });
    let calendars = BTreeMap::from([("holidays".to_owned(), Arc::clone(&calendar))]);
    let plans = (0..10).map(|minute| {
        let mut closed = spec(&format!("{minute} H * * *"));
        closed.calendars.exclude = vec!["holidays".to_owned()];
        closed.when.gap = GapPolicy::Skip;
        Plan::shared(closed, &calendars).unwrap()
    });
    for plan in plans.collect::<Vec<_>>() {
        let schedule = plan.schedule(7);
        assert!(Arc::ptr_eq(&schedule.spec().calendars.exclude[0], &calendar));
        let fires = plan.fires_after(at("2026-12-01T00:00:00Z"), 7).next().unwrap();
        assert_eq!(fires.nominal.date(), jiff::civil::date(2026, 12, 29));
    }
    drop(calendars);
    assert_eq!(Arc::strong_count(&calendar), 1, "nobody keeps them for ever");
}
