//! A duty that does what the test tells it, under Tokio's paused clock.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use punctual_store::StoreError;
use tokio::sync::Notify;

use super::*;

const EVERY: Duration = Duration::from_secs(60);
const LEASE: &str = "test";

#[derive(Default)]
struct World {
    has_lease: AtomicBool,
    is_broken: AtomicBool,
    wake: Notify,
    /// Since the start of the test.
    ticks: Mutex<Vec<Duration>>,
    lost: Mutex<u32>,
}

impl World {
    fn ticks(&self) -> Vec<u64> {
        self.ticks.lock().unwrap().iter().map(Duration::as_secs).collect()
    }
}

impl Leases for World {
    fn holds(&self, lease: &str) -> bool {
        lease == LEASE && self.has_lease.load(Ordering::Relaxed)
    }

    fn now(&self) -> Timestamp {
        Timestamp::EPOCH
    }
}

struct Scripted {
    world: Arc<World>,
    begun: Instant,
}

#[async_trait::async_trait]
impl Duty for Scripted {
    fn name(&self) -> &'static str {
        "scripted"
    }

    fn lease(&self) -> Option<&'static str> {
        Some(LEASE)
    }

    async fn tick(&mut self) -> Result<Next, TickError> {
        self.world.ticks.lock().unwrap().push(self.begun.elapsed());
        if self.world.is_broken.load(Ordering::Relaxed) {
            return Err(StoreError::Inconsistent("broken".to_owned()).into());
        }
        Ok(Next::After(EVERY))
    }

    async fn wake(&mut self) {
        self.world.wake.notified().await;
    }

    fn lease_lost(&mut self) {
        *self.world.lost.lock().unwrap() += 1;
    }
}

fn start(has_lease: bool) -> (Arc<World>, Runner) {
    let world = Arc::new(World { has_lease: AtomicBool::new(has_lease), ..World::default() });
    let duty = Scripted { world: Arc::clone(&world), begun: Instant::now() };
    let runner = Runner::with_leases(Arc::clone(&world) as Arc<dyn Leases>, vec![Box::new(duty)]);
    (world, runner)
}

#[tokio::test(start_paused = true)]
async fn a_duty_ticks_at_its_time_and_when_it_wakes() {
    let (world, runner) = start(true);
    sleep(EVERY + EVERY / 2).await;
    assert_eq!(world.ticks(), [0, 60]);
    world.wake.notify_one();
    sleep(Duration::from_secs(1)).await;
    assert_eq!(world.ticks(), [0, 60, 90]);
    let status = runner.statuses().borrow()["scripted"].clone();
    assert_eq!((status.ticks, status.failure, status.failures), (3, None, 0));
}

#[tokio::test(start_paused = true)]
async fn only_the_holder_of_the_lease_ticks() {
    let (world, _runner) = start(false);
    sleep(EVERY).await;
    assert!(world.ticks().is_empty());
    world.has_lease.store(true, Ordering::Relaxed);
    sleep(EVERY).await;
    assert_eq!(world.ticks().len(), 1);
    world.has_lease.store(false, Ordering::Relaxed);
    sleep(2 * EVERY).await;
    assert_eq!((world.ticks().len(), *world.lost.lock().unwrap()), (1, 1), "it forgets once what it knew");
}

#[tokio::test(start_paused = true)]
async fn a_duty_that_fails_backs_off_whatever_wakes_it() {
    let (world, runner) = start(true);
    world.is_broken.store(true, Ordering::Relaxed);
    world.wake.notify_one();
    sleep(Duration::from_millis(36_500)).await;
    assert_eq!(world.ticks(), [0, 1, 3, 7, 15, 25, 35]);
    let status = runner.statuses().borrow()["scripted"].clone();
    assert_eq!((status.ticks, status.failures), (7, 7));
    assert_eq!(status.failure.as_deref(), Some("the store is inconsistent: broken"));
    world.is_broken.store(false, Ordering::Relaxed);
    sleep(Duration::from_secs(10)).await;
    assert_eq!(runner.statuses().borrow()["scripted"].failures, 0);
}

struct Slow {
    takes: Duration,
    has_ended: Arc<AtomicBool>,
}

#[async_trait::async_trait]
impl Duty for Slow {
    fn name(&self) -> &'static str {
        "slow"
    }

    fn lease(&self) -> Option<&'static str> {
        None
    }

    async fn tick(&mut self) -> Result<Next, TickError> {
        sleep(self.takes).await;
        self.has_ended.store(true, Ordering::Relaxed);
        Ok(Next::AtOnce)
    }
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_lets_a_tick_end_and_waits_for_it_only_so_long() {
    for (takes, ends) in [(Duration::from_secs(2), true), (Duration::from_secs(600), false)] {
        let has_ended = Arc::new(AtomicBool::new(false));
        let slow = Slow { takes, has_ended: Arc::clone(&has_ended) };
        let runner = Runner::with_leases(Arc::new(World::default()), vec![Box::new(slow)]);
        tokio::task::yield_now().await;
        let asked = Instant::now();
        runner.stop().await;
        assert_eq!(has_ended.load(Ordering::Relaxed), ends);
        assert!(asked.elapsed() <= SHUTDOWN_MAX);
    }
}
