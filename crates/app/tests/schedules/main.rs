//! Schedules from the app down: checked requests, an owner in this process or at a peer, and its answers.

mod aborted_backfills;
mod backfill_records;
mod backfills;
mod bulk;
mod calendars;
mod life;
mod lost;
#[path = "../world/peers.rs"]
mod peers;
mod record;
mod worker;
mod world;
