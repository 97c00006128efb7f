//! Messages to those who asked for the jobs that failed.

use punctual_api::{SecretText, UserEdit, UserRequest};
use punctual_app::permission::ManagePeople;
use punctual_app::{Precondition, Reports};
use punctual_core::task::Run;
use punctual_store::{NewJob, Requester, RequesterId, Requesters};
use punctual_store_tests::fixture::{new_job, owner_of};
use serde_json::json;

use super::{fail, put, report, rule, sent, text};
use crate::world::{World, by};

async fn world() -> World {
    let world = World::new().await;
    world.app.refresh_identities().await.unwrap();
    world.app.refresh_namespaces().await.unwrap();
    for (name, role) in [("ana", "operator"), ("ben", "developer"), ("carl", "none")] {
        let request = UserRequest {
            name: name.to_owned(),
            role: Some(role.to_owned()).filter(|role| role != "none"),
            namespace_roles: Default::default(),
            password: Some(SecretText("correct horse battery staple".to_owned())),
            mail: Some(format!("{name}@example.com")),
        };
        world.app.create_user(&by::<ManagePeople>(&world.app), &request).await.unwrap();
    }
    world
}

async fn requester(world: &World, name: &str) -> RequesterId {
    let who = format!("user:{name}");
    let users = world.app.list_users(&by::<ManagePeople>(&world.app)).await.unwrap().users;
    let user = users.iter().find(|user| user.name == name).map(|user| user.id.clone());
    let user = user.map(|id| punctual_store::IdentityId(u64::from_str_radix(&id, 16).unwrap()));
    world.store.requester_id(Requester { kind: "person".to_owned(), name: who, user }).await.unwrap()
}

/// The recipients of each mail, and what it says.
async fn mails(world: &World) -> Vec<(Vec<String>, String)> {
    let mails = sent(world).await.into_iter().map(|(_, _, task, input)| {
        let text = text(&task, &input);
        let Run::Email(mail) = task.spec.run else { panic!("it is a mail") };
        (mail.to, text)
    });
    let mut mails: Vec<_> = mails.collect();
    mails.sort();
    mails
}

#[tokio::test]
async fn everybody_who_asked_for_a_job_that_failed_is_told_of_their_own() {
    let world = world().await;
    put(&world, &[("own", json!({"email": {"requester": true}}))]).await;
    let mut jobs = Vec::new();
    for (n, name) in (1..).zip(["ana", "ana", "ana", "ana", "ben", "carl"]) {
        jobs.push(NewJob { requester: Some(requester(&world, name).await), ..new_job(n, 60, 0) });
    }
    jobs.push(new_job(9, 60, 0));
    let mut owner = owner_of(&world.store, &jobs).await;
    for job in &jobs {
        fail(&mut owner, job).await;
    }
    world.pass(200);
    let mut reports = Reports::default();
    report(&world, &mut reports).await;
    let mails = mails(&world).await;
    let to: Vec<&str> = mails.iter().map(|(to, _)| to[0].as_str()).collect();
    assert_eq!(to, ["ana@example.com", "ben@example.com"], "carl may not see jobs, and one job has no requester");
    assert!(mails.iter().all(|(to, _)| to.len() == 1));
    let named = |text: &str, job: &NewJob| text.contains(&job.id.to_string());
    assert!(mails[1].1.contains(&jobs[4].id.to_string()), "{}", mails[1].1);
    assert!(jobs[..4].iter().all(|job| !named(&mails[1].1, job)), "nobody is told of others' jobs: {}", mails[1].1);
    assert!(!named(&mails[0].1, &jobs[4]) && mails[0].1.contains('4'), "{}", mails[0].1);
}

#[tokio::test]
async fn whoever_is_told_with_all_others_gets_no_mail_of_their_own() {
    let world = world().await;
    let channel = json!({"email": {"to": ["ana@example.com"], "requester": true}});
    put(&world, &[("all", channel)]).await;
    let (ana, ben) = (requester(&world, "ana").await, requester(&world, "ben").await);
    let of = |n, requester| NewJob { requester: Some(requester), ..new_job(n, 60, 0) };
    let jobs = [of(1, ana), of(2, ben)];
    let mut owner = owner_of(&world.store, &jobs).await;
    for job in &jobs {
        fail(&mut owner, job).await;
    }
    // Ben is disabled by the time at which the message goes out.
    let edit = UserEdit { disabled: Some(true), ..UserEdit::default() };
    world.app.edit_user(&by::<ManagePeople>(&world.app), "ben", &edit).await.unwrap();
    world.pass(200);
    report(&world, &mut Reports::default()).await;
    let mails = mails(&world).await;
    assert_eq!(mails.len(), 1, "{mails:?}");
    assert_eq!(mails[0].0, ["ana@example.com"]);
    assert!(jobs.iter().all(|job| mails[0].1.contains(&job.id.to_string())), "{}", mails[0].1);
}

#[tokio::test]
async fn a_rule_without_any_recipient_is_refused() {
    let world = world().await;
    for (channel, is_accepted) in [
        (json!({"email": {}}), false),
        (json!({"email": {"cc": ["a@example.com"], "requester": true}}), false),
        (json!({"email": {"requester": true}}), true),
    ] {
        let stored = world.app.put_notification(&by(&world.app), "own", rule(channel), Precondition::None).await;
        assert_eq!(stored.is_ok(), is_accepted, "{:?}", stored.err());
    }
    // Whoever tests it is the requester, and the server's own user has no address.
    let tested = world.app.test_notification(&by(&world.app), "own").await.unwrap_err();
    assert_eq!(tested.errors[0].pointer, "/email/requester");
}
