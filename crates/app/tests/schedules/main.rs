//! Schedules from the app down: checked requests, an owner in this process or at a peer, and its answers.

mod backfill_records;
mod bulk;
mod calendars;
mod life;
mod lost;
#[path = "../world/peers.rs"]
mod peers;
mod people;
mod record;
#[expect(dead_code, reason = "tests of backfills use more of it")]
mod worker;
#[expect(dead_code, reason = "tests of backfills use more of it")]
mod world;
