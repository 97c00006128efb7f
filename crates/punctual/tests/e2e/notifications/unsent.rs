//! Messages that wait because the mail server is away.

use serde_json::Value;

use super::{BROKEN, Office};
use crate::harness::eventually;
use crate::mailbox::Mailbox;

/// An office whose mail server is away, with a task that fails.
fn without_mail() -> Office {
    let office = Office::with_mailbox(Mailbox::closed());
    office.ok(&format!("task apply broken {BROKEN}"));
    office
}

impl Office {
    fn deliveries(&self, rule: &str) -> Vec<Value> {
        self.json(&format!("notify log {rule}"))["deliveries"].as_array().expect("a list").clone()
    }

    /// The deliveries of a rule, when there are so many and all of them have been refused once.
    async fn refused(&self, rule: &str, count: usize) -> Vec<Value> {
        let waits = |delivery: &Value| {
            let reason = delivery["reason"].as_str();
            delivery["state"] == "scheduled" && reason.is_some_and(|reason| reason.contains("connect"))
        };
        eventually("the messages are refused, and wait", async || {
            let deliveries = self.deliveries(rule);
            deliveries.len() == count && deliveries.iter().all(waits)
        })
        .await;
        self.deliveries(rule)
    }

    /// Does not wait for the time of its next attempt.
    fn send_now(&self, delivery: &Value) {
        self.say(&format!("job run-now {}", id_of(delivery)));
    }
}

fn id_of(delivery: &Value) -> &str {
    delivery["job"].as_str().expect("an id")
}

#[tokio::test]
async fn mails_that_cannot_be_sent_do_not_pile_up_and_are_summed_up_when_they_can() {
    let office = without_mail();
    office.ok("notify apply ops --email ops@example.org --window 5s");
    let mut jobs = Vec::new();
    for count in 1..=3 {
        jobs.push(office.fails("broken"));
        office.refused("ops", count).await;
    }
    for _ in 0..4 {
        office.fails("broken");
    }
    eventually("the rest is held back", async || {
        let waiting = office.json("notify get ops")["waiting"].clone();
        waiting["events"] == 4 && waiting["held"] == "the last 3 messages have not been sent"
    })
    .await;
    assert_eq!(office.deliveries("ops").len(), 3);

    office.mailbox.listen();
    office.deliveries("ops").iter().for_each(|delivery| office.send_now(delivery));
    let mails = office.mails("three that had been made, and one about the rest", |mails| mails.len() >= 4);
    for job in &jobs {
        let about = mails.iter().filter(|mail| mail.text.contains(job.as_str()));
        assert_eq!(about.count(), 1, "{job} in {mails:#?}");
    }
    let rest = mails.iter().filter(|mail| mail.subject() == "[punctual] broken: 4 failed");
    assert_eq!((rest.count(), mails.len()), (1, 4), "{mails:#?}");
    let events: u64 = office.deliveries("ops").iter().filter_map(|delivery| delivery["events"].as_u64()).sum();
    assert_eq!(events, 7, "each is counted once");
}

#[tokio::test]
async fn a_rule_that_is_removed_sends_nothing_that_waited() {
    let office = without_mail();
    for rule in ["ops", "boss"] {
        office.ok(&format!("notify apply {rule} --email {rule}@example.org --window 5s"));
    }
    let job = office.fails("broken");
    let dropped = office.refused("ops", 1).await;
    let kept = office.refused("boss", 1).await;
    office.ok("notify delete ops");
    let state = |delivery: &Value| office.json(&format!("job get {}", id_of(delivery)))["state"].clone();
    // What is cancelled never runs again.
    assert_eq!((state(&dropped[0]), state(&kept[0])), (Value::from("cancelled"), Value::from("scheduled")));

    office.mailbox.listen();
    office.send_now(&kept[0]);
    let mails = office.mails("the other rule's mail", |mails| !mails.is_empty());
    assert_eq!((mails.len(), mails[0].to.clone()), (1, vec!["boss@example.org".to_owned()]));
    assert!(mails[0].text.contains(&job), "{}", mails[0].text);
    assert_eq!(state(&dropped[0]), "cancelled");
}
