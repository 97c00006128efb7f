//! The matrix.

use super::{Cell, Needs, artifacts, clients, clocks, databases, hosts, links, netns, servers, workers};

macro_rules! cells {
    ($($name:literal $about:literal $quick:literal $needs:ident $inject:path;)*) => {
        pub static CELLS: &[Cell] = &[$(
            Cell { name: $name, about: $about, quick: $quick, needs: Needs::$needs, inject: $inject },
        )*];
    };
}

cells! {
    "worker-kill" "SIGKILL of a worker" true Nothing workers::kill;
    "worker-kill-most" "SIGKILL of all workers but one" false Nothing workers::kill_most;
    "worker-pause" "a worker stands still for three leases" false Nothing workers::pause;
    "worker-rolling-restart" "all workers leave in turn, and others come" false Nothing workers::rolling_restart;
    "server-kill-owner" "SIGKILL of the server with the most shards" true Nothing servers::kill_owner;
    "server-kill-bystander" "SIGKILL of a server that only answers clients" false ApiServer servers::kill_bystander;
    "server-kill-during-takeover" "SIGKILL of a second server while the first's shards move" false Nothing servers::kill_during_takeover;
    "server-start" "jobs come before the servers have shared out the shards" false LoadAtOnce links::nothing;
    "server-join" "a server joins and takes its share" false Nothing servers::join;
    "server-join-first" "two servers join the only one, at the same time" false OneServer servers::join_first;
    "server-same-address" "a second server has the address of the first" false Nothing servers::same_address;
    "server-pause" "a server stands still for three leases" true Nothing servers::pause;
    "server-rolling-restart" "all servers are restarted in turn" true Nothing servers::rolling_restart;
    "postgres-kill" "SIGKILL of PostgreSQL, and its restart" true Nothing databases::kill;
    "postgres-restart" "PostgreSQL is stopped at once and started, three times" false Nothing databases::restart_immediately;
    "postgres-pause" "PostgreSQL stands still for three leases" false Nothing databases::pause;
    "postgres-slow" "PostgreSQL is 200 ms away" false Nothing databases::slow;
    "postgres-locked" "someone else holds locks on all tables" false Nothing databases::locked;
    "postgres-standby-promoted" "the primary dies, its synchronous standby takes over" false Standby databases::promote_standby;
    "postgres-commits-lost" "the primary dies, and a standby that lacks its last commits takes over" false AsynchronousStandby databases::lose_commits;
    "partition-worker" "a worker is cut off from all servers" false Nothing links::worker;
    "partition-worker-requests" "what a worker says does not arrive" false Nothing links::worker_requests;
    "partition-worker-answers" "what is said to a worker does not arrive" false Nothing links::worker_answers;
    "partition-owner-workers" "a server is cut off from all workers, for half of what they are waited for" false Nothing links::owner;
    "partition-database" "a server is cut off from the database" false Nothing links::database;
    "partition-database-requests" "what a server says to the database does not arrive" false Nothing links::database_requests;
    "partition-database-answers" "what the database says to a server does not arrive" false Nothing links::database_answers;
    "partition-peers" "a server is cut off from the others" false Nothing links::peers;
    "partition-peers-requests" "what servers ask each other does not arrive" false Nothing links::peers_requests;
    "partition-peers-answers" "what servers answer each other does not arrive" false Nothing links::peers_answers;
    "partition-flapping" "all links of a server are cut and mended every second" false Nothing links::flapping;
    "network-resets" "all connections are reset, again and again" true Nothing links::resets;
    "network-drip" "what workers and servers send arrives in small pieces" false Nothing links::drip;
    "network-loss-10" "one packet in ten is lost" false OwnNetwork netns::loss_10;
    "network-loss-30" "three packets in ten are lost" false OwnNetwork netns::loss_30;
    "partition-all-peers" "no server reaches another" false Nothing links::peers_refused;
    "hosts-server-cable" "each part on a host of its own: the cable of the server with the most shards is pulled" false Hosts hosts::server_cable;
    "hosts-server-database" "each part on a host of its own: a server hears nothing from the database" false Hosts hosts::server_database;
    "hosts-server-deaf" "each part on a host of its own: a server hears nobody, and is heard" false Hosts hosts::server_deaf;
    "hosts-worker-cable" "each part on a host of its own: the cable of a worker is pulled" false Hosts hosts::worker_cable;
    "hosts-peers" "each part on a host of its own: servers do not hear each other" false Hosts hosts::peers;
    "hints-dropped" "no hint is sent" false DroppedHints links::hints_dropped;
    "hints-repeated" "every hint is sent twice" false RepeatedHints links::hints_repeated;
    "clients-leave" "every second client disconnects before its answer" false PlainHttp clients::leave;
    "artifact-lost" "a program is gone from the storage" false Nothing artifacts::lose;
    "clock-ahead" "a server's clock jumps an hour ahead" false FakeClock clocks::ahead;
    "clock-back" "a server's clock jumps an hour back" false FakeClock clocks::back;
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::CELLS;

    #[test]
    fn names_are_unique_and_a_few_cells_stand_for_all() {
        let names: BTreeSet<_> = CELLS.iter().map(|cell| cell.name).collect();
        assert_eq!(names.len(), CELLS.len());
        assert_eq!(CELLS.iter().filter(|cell| cell.quick).count(), 6);
    }
}
