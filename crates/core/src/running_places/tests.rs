//! A cluster of servers that report, start and end attempts, take shards over and die, in random order: never more run than
//! the quota, and nobody waits for ever.

use super::*;
use crate::random::SplitMix64;

/// How many places each namespace has, as a report is answered.
type Places = Vec<(NamespaceId, u64)>;

const NAMESPACE: NamespaceId = NamespaceId(1);
const SHARDS: u16 = 6;

fn server(n: u64) -> ServerId {
    ServerId::new(Timestamp::EPOCH, n)
}

fn at(millis: i64) -> Timestamp {
    Timestamp::EPOCH + Span::from_secs(1000) + Span::from_millis(millis)
}

/// What the owner of a server remembers; see `shard::running_quotas`.
#[derive(Debug, Clone, Default)]
struct Server {
    shards: BTreeMap<ShardId, Epoch>,
    /// Running attempts, by shard.
    running: BTreeMap<ShardId, u64>,
    places: u64,
    waiting: u64,
    started: u64,
    version: u64,
}

impl Server {
    fn count(&self) -> u64 {
        self.running.values().sum()
    }

    fn report(&self, quota: u64) -> RunningReport {
        let (running, places, waiting) = (self.count(), self.places, self.waiting);
        RunningReport {
            version: self.version,
            shards: self.shards.iter().map(|(shard, epoch)| (*shard, *epoch)).collect(),
            namespaces: vec![RunningUse { namespace: NAMESPACE, quota, running, places, waiting }],
        }
    }
}

#[derive(Debug, Clone, Default)]
struct World {
    quota: u64,
    now: i64,
    stored: Accounts,
    servers: BTreeMap<ServerId, Server>,
    /// What the rows say: attempts by shard.
    rows: BTreeMap<ShardId, u64>,
}

impl World {
    fn new(quota: u64, count: u64) -> Self {
        let mut world = Self { quota, ..Self::default() };
        for n in 0..count {
            world.servers.insert(server(n), Server::default());
        }
        for shard in 0..SHARDS {
            world.stored.owners.push((ShardId(shard), Epoch(0), None));
            world.take(server(u64::from(shard) % count), ShardId(shard));
        }
        world
    }

    /// A server takes a shard, with what runs in it. Its former owner does not know it yet.
    fn take(&mut self, by: ServerId, shard: ShardId) {
        let lease = &mut self.stored.owners[usize::from(shard.0)];
        let epoch = Epoch(lease.1.0 + 1);
        *lease = (shard, epoch, Some(by));
        let running = self.rows.get(&shard).copied().unwrap_or_default();
        let server = self.servers.get_mut(&by).unwrap();
        server.lose(shard);
        server.shards.insert(shard, epoch);
        server.running.insert(shard, running);
        server.places = 0;
        server.version += 1;
    }

    /// A server is believed to be dead, and does not know it.
    fn take_all(&mut self, by: ServerId, dead: ServerId) {
        let its = |(shard, _, owner): &(ShardId, Epoch, Option<ServerId>)| (*owner == Some(dead)).then_some(*shard);
        let shards: Vec<ShardId> = self.stored.owners.iter().filter_map(its).collect();
        for shard in shards {
            self.take(by, shard);
        }
    }

    fn is_owner(&self, of: ServerId, shard: ShardId) -> bool {
        let epoch = self.servers[&of].shards.get(&shard);
        let (_, current, owner) = self.stored.owners[usize::from(shard.0)];
        owner == Some(of) && epoch == Some(&current)
    }

    fn commit(&mut self, by: ServerId, report: &RunningReport) -> Vec<(NamespaceId, u64)> {
        let exchanged = self.stored.clone().exchange(by, report, at(self.now));
        for (namespace, account) in exchanged.accounts {
            self.stored.accounts.insert((namespace, by), account);
        }
        self.stored.reported.insert(by, report.shards.clone());
        for gone in exchanged.gone {
            self.stored.reported.remove(&gone);
            self.stored.accounts.retain(|(_, server), _| *server != gone);
        }
        exchanged.places
    }

    fn exchange(&mut self, by: ServerId) {
        let report = self.servers[&by].report(self.quota);
        let places = self.commit(by, &report);
        self.heard(by, report.version, &places);
    }

    fn heard(&mut self, by: ServerId, version: u64, places: &[(NamespaceId, u64)]) {
        let server = self.servers.get_mut(&by).unwrap();
        if server.version == version {
            server.places = places[0].1;
            server.version += 1;
        }
    }

    fn start(&mut self, by: ServerId, shard: ShardId) {
        let own = &self.servers[&by];
        if own.count() >= own.places || own.waiting == 0 || !own.shards.contains_key(&shard) {
            return;
        }
        let is_owner = self.is_owner(by, shard);
        let own = self.servers.get_mut(&by).unwrap();
        if !is_owner {
            // The fence says that the shard is lost.
            own.lose(shard);
            return;
        }
        own.waiting -= 1;
        own.started += 1;
        *own.running.entry(shard).or_default() += 1;
        *self.rows.entry(shard).or_default() += 1;
    }

    fn end(&mut self, by: ServerId, shard: ShardId) {
        if self.is_owner(by, shard) && self.rows.get(&shard).is_some_and(|running| *running > 0) {
            *self.rows.get_mut(&shard).unwrap() -= 1;
            *self.servers.get_mut(&by).unwrap().running.get_mut(&shard).unwrap() -= 1;
        }
    }

    fn running(&self) -> u64 {
        self.rows.values().sum()
    }
}

impl Server {
    fn lose(&mut self, shard: ShardId) {
        if self.shards.remove(&shard).is_some() {
            let left = self.running.remove(&shard).unwrap_or_default();
            self.places = self.places.saturating_sub(left);
            self.version += 1;
        }
    }
}

#[test]
fn never_more_run_than_the_quota_whatever_servers_do_and_miss() {
    for seed in 0..400 {
        let mut chance = SplitMix64::new(seed);
        let mut pick = |below: u64| (chance.fraction() * below as f64) as u64;
        let mut world = World::new(1 + pick(6), 1 + pick(4));
        // Answers on their way, as after a pause of the server.
        let mut late: Vec<(ServerId, u64, Places)> = Vec::new();
        for step in 0..600 {
            world.now += pick(300) as i64;
            let count = world.servers.len() as u64;
            let (by, shard) = (server(pick(count)), ShardId(pick(u64::from(SHARDS)) as u16));
            match pick(20) {
                0..4 => world.exchange(by),
                4 => {
                    let report = world.servers[&by].report(world.quota);
                    let places = world.commit(by, &report);
                    late.push((by, report.version, places));
                    // Nothing else is asked before the answer is there, or was given up.
                    world.servers.get_mut(&by).unwrap().version += u64::from(pick(2) == 0);
                }
                5 => {
                    if let Some((by, version, places)) = late.pop() {
                        world.heard(by, version, &places);
                    }
                }
                6..12 => world.start(by, shard),
                12..16 => world.end(by, shard),
                16 => world.take(by, shard),
                17 => world.servers.get_mut(&by).unwrap().lose(shard),
                18 => world.take_all(by, server(pick(count))),
                _ => world.servers.get_mut(&by).unwrap().waiting += 1,
            }
            assert!(world.running() <= world.quota, "seed {seed}, step {step}: {world:?}");
        }
    }
}

/// All servers want to run as much as they can; attempts take `takes` turns of reports. Answers how many each has started.
fn busy(world: &mut World, turns: i64, takes: i64) -> Vec<u64> {
    for turn in 0..turns {
        world.now += 250;
        let servers: Vec<ServerId> = world.servers.keys().copied().collect();
        for by in servers {
            let shards: Vec<ShardId> = world.servers[&by].shards.keys().copied().collect();
            world.servers.get_mut(&by).unwrap().waiting = 100;
            for &shard in &shards {
                if (turn + i64::from(shard.0)) % takes == 0 {
                    while world.rows.get(&shard).is_some_and(|running| *running > 0) {
                        world.end(by, shard);
                    }
                }
            }
            for &shard in shards.iter().cycle().take(20) {
                world.start(by, shard);
            }
            world.exchange(by);
            assert!(world.running() <= world.quota);
        }
    }
    world.servers.values().map(|server| server.started).collect()
}

#[test]
fn servers_that_want_more_than_there_is_share_it_and_take_turns() {
    for (quota, servers) in [(1, 1), (1, 3), (2, 3), (5, 3), (7, 4), (20, 3)] {
        let mut world = World::new(quota, servers);
        let started = busy(&mut world, 2000, 4);
        let (least, most) = (started.iter().min().unwrap(), started.iter().max().unwrap());
        assert!(*least > 0 && most <= &(least * 2), "quota {quota}: {started:?}");
    }
}

#[test]
fn one_server_gets_what_the_others_do_not_need_and_shares_it_again() {
    let mut world = World::new(12, 3);
    let all: Vec<ServerId> = world.servers.keys().copied().collect();
    world.servers.get_mut(&all[0]).unwrap().waiting = 12;
    for _ in 0..4 {
        for &by in &all {
            world.exchange(by);
        }
    }
    assert_eq!(world.servers[&all[0]].places, 12);
    world.servers.get_mut(&all[1]).unwrap().waiting = 12;
    for _ in 0..6 {
        for &by in &all {
            world.exchange(by);
        }
    }
    let places: Vec<u64> = all.iter().map(|id| world.servers[id].places).collect();
    assert_eq!(places, [6, 6, 0]);
}

#[test]
fn the_places_of_a_server_that_died_are_given_to_others_when_its_shards_have_owners_again() {
    let mut world = World::new(4, 2);
    let (dead, alive) = (server(0), server(1));
    for _ in 0..3 {
        for by in [dead, alive] {
            world.servers.get_mut(&by).unwrap().waiting = 100;
            world.exchange(by);
            for shard in (0..SHARDS).map(ShardId) {
                world.start(by, shard);
            }
        }
    }
    assert_eq!((world.servers[&dead].count(), world.servers[&alive].count()), (2, 2));
    for shard in (0..SHARDS).step_by(2).map(ShardId) {
        world.exchange(alive);
        assert_eq!(world.stored.accounts.len(), 2, "not before all that ran there is in another account");
        world.take(alive, shard);
    }
    world.exchange(alive);
    assert_eq!(world.stored.accounts.len(), 1);
    assert_eq!((world.servers[&alive].count(), world.servers[&alive].places), (4, 4));
}

#[test]
fn a_lower_quota_ends_nothing_and_starts_nothing() {
    let mut world = World::new(4, 1);
    let by = server(0);
    world.servers.get_mut(&by).unwrap().waiting = 100;
    world.exchange(by);
    for _ in 0..5 {
        world.start(by, ShardId(0));
    }
    assert_eq!(world.running(), 4);
    world.quota = 2;
    for running in (0..4).rev() {
        world.exchange(by);
        world.start(by, ShardId(0));
        world.end(by, ShardId(0));
        let expected = if running >= 2 { running } else { 1 };
        assert_eq!(world.running(), expected);
        world.start(by, ShardId(0));
    }
}
