//! Faults of clients.

use std::time::Duration;

use super::Injecting;
use super::arena::Arena;
use super::measure::Measure;
use crate::clients::half_leave;
use crate::cluster::Server;

/// How many clients leave before their answer, and how many stay.
const EACH: usize = 400;

/// Every second client disconnects before its answer.
pub(super) fn leave(arena: &mut Arena) -> Injecting<'_> {
    Box::pin(async {
        // Not by way of the proxies: they pass a reset on before the server has read the request.
        let servers: Vec<_> = arena.cluster.servers.iter().filter_map(Server::address).collect();
        arena.begin("the clients", "half of them leave");
        half_leave(&arena.caller, &servers, EACH).await?;
        arena.healed(Duration::from_secs(1));
        arena.measure(Measure::Leavers);
        Ok(())
    })
}
