//! Two tenants that are filled with the same names. Whatever one of them asks for, it changes and learns nothing of the other:
//! the answers are those of a cluster in which the other does not exist, and they take as long.

mod requests;
mod rows;
mod tenant;
mod times;

use std::collections::BTreeSet;

use self::requests::{Asked, Dice};
use self::rows::rows_of;
use self::tenant::{Tenant, admin};
use crate::harness::{Home, Server};

/// What the tenant that asks is called, and the other one.
const OWN: &str = "team-a";
const OTHER: &str = "team-b";

const REQUESTS: usize = 5000;

/// A server with the tenants of these names, the first of which is the one that asks.
struct World {
    home: Home,
    server: Server,
    tenants: Vec<Tenant>,
}

impl World {
    async fn new(names: &[&str]) -> Self {
        let home = Home::new();
        let server = home.server();
        let mut tenants = Vec::new();
        for name in names {
            tenants.push(Tenant::new(&server, name).await);
        }
        Self { home, server, tenants }
    }

    fn own(&self) -> &Tenant {
        &self.tenants[0]
    }
}

#[tokio::test]
async fn what_one_tenant_asks_for_changes_and_tells_nothing_of_the_other() {
    // One after the other: ids have times in them, and what is of the other tenant is the newest in both.
    let alone = World::new(&[OWN]).await;
    let shared = World::new(&[OWN, OTHER]).await;
    let other = &shared.tenants[1];
    let before = rows_of(&shared.home, other.number);
    let (tables, known): (BTreeSet<&str>, usize) =
        (before.iter().map(|(table, _)| table.as_str()).collect(), before.len());
    assert!(known >= 12, "the other tenant has something everywhere: {tables:?}");
    let shown = other.shown().await;
    let mut dice = Dice::new(0x5eed_0018);
    let (mut statuses, mut differences) = (BTreeSet::new(), Vec::new());
    for number in 0..REQUESTS {
        let asked = Asked::random(&mut dice, number);
        let [here, there] = [shared.own(), alone.own()].map(|own| asked.send(own, other));
        let (here, there) = tokio::join!(here, there);
        statuses.insert(here.status);
        assert!(here.status < 500, "{asked:?}: {here:?}");
        // The forms of both are those of one program; what differs was learned of the other tenant.
        let (here, there) = (shared.own().normalized(&here, other), alone.own().normalized(&there, other));
        if here != there {
            differences.push(format!("{number} {asked:?}\n  {here}\n  {there}"));
        }
    }
    assert!(
        differences.is_empty(),
        "{} answers differ:\n{}",
        differences.len(),
        differences[..differences.len().min(5)].join("\n")
    );
    for status in [200, 201, 403, 404, 409, 422] {
        assert!(statuses.contains(&status), "some were answered with {status}: {statuses:?}");
    }
    assert_eq!(rows_of(&shared.home, other.number), before);
    assert_eq!(other.shown().await, shown);
}

#[tokio::test]
async fn what_is_of_another_tenant_takes_as_long_as_what_does_not_exist() {
    let world = World::new(&[OWN, OTHER]).await;
    let mut told = Vec::new();
    for pair in times::pairs(&world.tenants[1]) {
        // A machine that does other things meanwhile may be slower for one of them once, and not each time.
        let mut measured = None;
        for _ in 0..times::TRIES {
            let times = times::measure(world.own(), &pair).await;
            let is_alike = times.are_alike();
            measured = Some(times);
            if is_alike {
                break;
            }
        }
        let measured = measured.expect("measured at least once");
        assert!(measured.are_alike(), "{pair:?}: {measured:?}");
        told.push(format!("{}: {measured:?}", pair.what));
    }
    println!("{}", told.join("\n"));
}

#[tokio::test]
async fn a_stream_ends_when_the_right_in_its_namespace_is_gone() {
    let world = World::new(&[OWN, OTHER]).await;
    let own = world.own();
    let response = own.request(reqwest::Method::GET, "/v1/events").send().await.expect("a stream");
    assert_eq!(response.status().as_u16(), 200);
    admin(&world.server).revoke_key(&own.key_id).await.expect("it is revoked");
    let revoked = std::time::Instant::now();
    // It says nothing of the other tenant, and ends.
    let told = response.text().await.unwrap_or_default();
    assert!(revoked.elapsed() < std::time::Duration::from_secs(8), "{:?}", revoked.elapsed());
    assert!(!told.contains("job_"), "{told}");
}
