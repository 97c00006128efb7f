//! Several servers on one store: who owns what, when somebody comes, goes, dies, stalls or
//! has the wrong time. Real time with short leases; nothing waits for a period, only for
//! what should follow.

mod harness;
mod leaving;
mod queues;
mod schedules;
mod shares;
mod stalls;
mod store;
mod worker_requests;
