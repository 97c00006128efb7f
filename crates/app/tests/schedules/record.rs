//! What people read of schedules and their runs when something did not go by plan.

use punctual_api::RunRequest;

use crate::world::{WHO, World};

#[tokio::test]
async fn jobs_keep_the_name_of_their_schedule_when_it_is_deleted() {
    let world = World::new().await;
    let named = world.create(r#"{"name":"report","task":"t","daily":"09:00"}"#).await;
    let unnamed = world.create(r#"{"name":"nightly","inline":{"run":{"probe":{}}},"daily":"09:00"}"#).await;
    let mut jobs = Vec::new();
    for schedule in [&named, &unnamed] {
        let run = world.owner.run_schedule(&schedule.name, RunRequest::default(), WHO).await.unwrap();
        jobs.push(run.job.expect("it made a job"));
        world.owner.delete_schedule(&schedule.name, WHO).await.unwrap();
    }
    // The other server has never seen the schedules.
    for (id, name, title) in [(jobs[0], "report", "t"), (jobs[1], "nightly", "nightly")] {
        let job = world.front.job(id, None).await.unwrap();
        assert_eq!(job.schedule.and_then(|schedule| schedule.name).as_deref(), Some(name));
        assert_eq!(job.title, title);
        let list = world.front.list_jobs(Default::default()).await.unwrap().jobs;
        let listed = list.into_iter().find(|job| job.id == id).expect("it is in the list");
        assert_eq!(listed.schedule.and_then(|schedule| schedule.name).as_deref(), Some(name));
        assert_eq!(listed.title, title);
    }
}
