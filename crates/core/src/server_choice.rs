//! Which servers a worker prefers: rendezvous hashing of its id and their addresses.
//!
//! Every worker has an order of its own over all servers and connects to the first few of it. The orders are independent, so
//! the workers spread evenly; and a server that joins or leaves moves only the connections that go to it. Addresses and not
//! server ids are hashed, because every start of a server makes a new id: a server that restarts gets the same workers back.

use crate::id::WorkerId;
use crate::random::SplitMix64;

/// The addresses in the order in which this worker prefers them, each once.
pub fn preferred<'a>(worker: WorkerId, addresses: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let mut scored: Vec<(u64, &str)> = addresses.into_iter().map(|address| (score(worker, address), address)).collect();
    scored.sort_unstable_by(|left, right| right.cmp(left));
    scored.dedup();
    scored.into_iter().map(|(_, address)| address).collect()
}

/// How much this worker prefers a server: 64 bits that depend on both in every bit.
fn score(worker: WorkerId, address: &str) -> u64 {
    const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
    const FNV_PRIME: u64 = 0x0100_0000_01b3;
    let hash = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(FNV_PRIME);
    let server = address.as_bytes().iter().fold(FNV_OFFSET, hash);
    let id = u128::from_be_bytes(worker.to_bytes());
    // Each half is mixed on its own: the first one is a time, and equal for workers that start together.
    let mixed = SplitMix64::new(server ^ (id >> 64) as u64).bits();
    SplitMix64::new(mixed ^ id as u64).bits()
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;
    use crate::time::Timestamp;

    const WORKERS: usize = 2000;
    const CHOSEN: usize = 5;

    fn addresses(count: usize) -> Vec<String> {
        (0..count).map(|number| format!("http://10.0.0.{}:8020", number + 1)).collect()
    }

    fn workers() -> impl Iterator<Item = WorkerId> {
        let mut random = SplitMix64::new(7);
        // Started within one millisecond, as a fleet may be.
        (0..WORKERS).map(move |_| WorkerId::new(Timestamp::EPOCH, random.bits()))
    }

    fn chosen(worker: WorkerId, addresses: &[String]) -> BTreeSet<&str> {
        preferred(worker, addresses.iter().map(String::as_str)).into_iter().take(CHOSEN).collect()
    }

    fn loads(addresses: &[String]) -> BTreeMap<&str, usize> {
        let mut loads: BTreeMap<&str, usize> = addresses.iter().map(|address| (address.as_str(), 0)).collect();
        for address in workers().flat_map(|worker| chosen(worker, addresses)) {
            *loads.get_mut(address).unwrap() += 1;
        }
        loads
    }

    #[test]
    fn every_server_has_nearly_the_same_number_of_workers() {
        let addresses = addresses(20);
        let loads = loads(&addresses);
        assert_eq!(loads.values().sum::<usize>(), WORKERS * CHOSEN);
        // The mean of 500 less four times its square root, as docs/workers.md says.
        let (least, most) = (loads.values().min().unwrap(), loads.values().max().unwrap());
        assert!((411..=589).contains(least) && (411..=589).contains(most), "{least} to {most}");
    }

    #[test]
    fn a_server_that_joins_moves_only_the_connections_that_it_gets() {
        let (before, after) = (addresses(20), addresses(21));
        let joined = after.last().unwrap().as_str();
        let mut moved = 0;
        for worker in workers() {
            let (old, new) = (chosen(worker, &before), chosen(worker, &after));
            let gained: Vec<_> = new.difference(&old).collect();
            assert!(gained.is_empty() || gained == [&joined], "{gained:?}");
            moved += gained.len();
        }
        // Its fair share is 2000 · 5 / 21 = 476.
        assert!((390..=560).contains(&moved), "{moved}");
    }

    #[test]
    fn a_server_that_leaves_gives_its_connections_to_all_others_alike() {
        let (before, after) = (addresses(20), addresses(19));
        let gone = before.last().unwrap().as_str();
        let mut gains: BTreeMap<&str, usize> = BTreeMap::new();
        for worker in workers() {
            let (old, new) = (chosen(worker, &before), chosen(worker, &after));
            assert_eq!(
                old.difference(&new).copied().collect::<Vec<_>>(),
                old.get(gone).copied().into_iter().collect::<Vec<_>>()
            );
            for address in new.difference(&old) {
                *gains.entry(address).or_default() += 1;
            }
        }
        // About 500 / 19 = 26 each.
        assert_eq!(gains.len(), 19, "{gains:?}");
        assert!(gains.values().all(|gain| (6..=52).contains(gain)), "{gains:?}");
    }

    #[test]
    fn the_order_depends_on_the_addresses_alone() {
        let worker = workers().next().unwrap();
        let (a, b) = ("http://a:1", "http://b:1");
        assert_eq!(preferred(worker, [a, b]), preferred(worker, [b, a, b]));
    }
}
