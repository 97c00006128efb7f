//! Facts about the division of slots, and a world of servers and streams that does not let
//! any two of them count on the same slot.

use std::collections::VecDeque;

use super::*;
use crate::id::{BatchId, ShardId};
use crate::random::SplitMix64;

const T0: Timestamp = Timestamp::EPOCH;

fn at_ms(millis: i64) -> Timestamp {
    T0 + Span::from_millis(millis)
}

fn credits(slots: u32, servers: usize) -> Credits<usize> {
    let mut credits = Credits::new(slots);
    for link in 0..servers {
        credits.add(link, Expected::Yes, T0);
    }
    credits
}

/// Confirms a credit, as a server does that has nothing in flight.
fn confirm(credits: &mut Credits<usize>, link: usize) -> u32 {
    let told = credits.take_untold(link).unwrap_or(credits.accounts[&link].told);
    credits.kept(link, CreditKept { told, bound: told });
    told
}

#[test]
fn the_slots_are_divided_evenly_among_the_servers_that_are_expected() {
    let mut credits = credits(5, 2);
    assert_eq!([0, 1].map(|link| credits.open(link, T0)), [3, 2]);
}

#[test]
fn with_fewer_slots_than_servers_some_get_none() {
    let mut credits = credits(1, 3);
    assert_eq!([0, 1, 2].map(|link| credits.open(link, T0)), [1, 0, 0]);
}

#[test]
fn the_share_of_a_server_that_stays_away_goes_to_the_others() {
    let mut credits = credits(8, 2);
    assert_eq!(credits.open(0, T0), 4);
    confirm(&mut credits, 0);
    assert_eq!(credits.plan(T0), Some(T0 + EXPECTED_FOR));
    credits.plan(T0 + EXPECTED_FOR);
    assert_eq!(confirm(&mut credits, 0), 8);
}

#[test]
fn a_newcomer_gets_its_share_when_the_others_have_given_it_up() {
    let mut credits = credits(8, 1);
    assert_eq!(credits.open(0, T0), 8);
    confirm(&mut credits, 0);
    credits.add(1, Expected::No, T0);
    assert_eq!(credits.open(1, T0), 0);
    credits.kept(1, CreditKept { told: 0, bound: 0 });
    credits.plan(T0);
    assert_eq!(credits.take_untold(0), Some(4));
    credits.plan(T0);
    assert_eq!(credits.take_untold(1), None, "nothing is confirmed yet");
    credits.kept(0, CreditKept { told: 4, bound: 6 });
    credits.plan(T0);
    assert_eq!(credits.take_untold(1), Some(2), "two of the slots are still in use");
    credits.kept(1, CreditKept { told: 2, bound: 2 });
    credits.kept(0, CreditKept { told: 4, bound: 4 });
    credits.plan(T0);
    assert_eq!(credits.take_untold(1), Some(4));
}

#[test]
fn credit_moves_to_where_work_waits_and_back_when_that_is_over() {
    let mut credits = credits(16, 2);
    for link in [0, 1] {
        credits.open(link, T0);
        confirm(&mut credits, link);
    }
    credits.demand(1, 1000);
    let mut seen = Vec::new();
    for round in 0..6 {
        let now = at_ms(100 * round);
        credits.plan(now);
        let lowered = confirm(&mut credits, 0);
        credits.plan(now);
        seen.push((lowered, confirm(&mut credits, 1)));
    }
    assert_eq!(seen, [(4, 12), (2, 14), (1, 15), (1, 15), (1, 15), (1, 15)]);
    credits.demand(1, 0);
    for round in 6..12 {
        let now = at_ms(100 * round);
        credits.plan(now);
        confirm(&mut credits, 1);
        credits.plan(now);
        confirm(&mut credits, 0);
    }
    assert_eq!([0, 1].map(|link| credits.accounts[&link].told), [8, 8]);
    assert_eq!(credits.plan(at_ms(1300)), None, "there is nothing left to do");
}

#[test]
fn what_a_server_runs_is_not_taken_from_it() {
    let mut credits = credits(8, 2);
    for link in [0, 1] {
        credits.open(link, T0);
        confirm(&mut credits, link);
    }
    (0..3).for_each(|_| assert!(!credits.began(0)));
    credits.demand(1, 5);
    for round in 0..5 {
        credits.plan(at_ms(100 * round));
        confirm(&mut credits, 0);
    }
    assert_eq!(credits.accounts[&0].told, 3);
}

#[test]
fn what_a_server_gave_up_and_nobody_took_yet_is_made_up_for_by_the_others() {
    let mut credits = credits(8, 2);
    for link in [0, 1] {
        credits.open(link, T0);
        confirm(&mut credits, link);
    }
    let overdrawn: Vec<bool> = (0..6).map(|_| credits.began(0)).collect();
    assert_eq!(overdrawn, [false, false, false, false, true, true]);
    credits.plan(T0);
    assert_eq!(credits.take_untold(1), Some(2), "six of the eight slots are taken");
}

#[test]
fn a_server_that_is_refused_counts_on_less_until_there_is_room() {
    let mut credits = credits(8, 2);
    for link in [0, 1] {
        credits.open(link, T0);
        confirm(&mut credits, link);
        (0..4).for_each(|_| assert!(!credits.began(link)));
    }
    // Two of what runs for the first are of a shard that it gave up.
    credits.refused(0, 2);
    credits.refused(0, 2);
    assert_eq!(credits.take_untold(0), Some(2), "once is enough");
    credits.kept(0, CreditKept { told: 2, bound: 3 });
    credits.refused(0, 1);
    credits.kept(0, CreditKept { told: 2, bound: 2 });
    credits.plan(T0);
    assert!(!credits.has_untold(0));
    // The second took it over.
    credits.set_active(0, 2);
    credits.set_active(1, 6);
    credits.plan(T0);
    assert!(!credits.has_untold(0));
    credits.set_active(1, 4);
    credits.plan(T0);
    assert_eq!(credits.take_untold(0), Some(4));
}

#[test]
fn servers_in_need_take_turns_where_there_are_too_few_slots() {
    let mut credits = credits(1, 2);
    for link in [0, 1] {
        credits.open(link, T0);
        confirm(&mut credits, link);
        credits.demand(link, 9);
    }
    let mut had = [false; 2];
    for round in 0..40 {
        let now = at_ms(100 * round);
        for _ in 0..2 {
            credits.plan(now);
            for (link, had) in had.iter_mut().enumerate() {
                *had |= confirm(&mut credits, link) > 0;
            }
        }
    }
    assert_eq!(had, [true; 2]);
}

#[test]
fn a_worker_that_leaves_grants_nothing_whatever_is_still_open() {
    let mut credits = credits(4, 1);
    credits.open(0, T0);
    credits.stop();
    assert!(!credits.is_told_nothing(0));
    assert_eq!(credits.take_untold(0), Some(0));
    assert!(credits.is_told_nothing(0));
    assert_eq!(credits.plan(T0), None);
}

/// A server and both directions of its stream.
#[derive(Default)]
struct Server {
    is_connected: bool,
    credit: u32,
    /// Decided, and not sent yet.
    starting: u32,
    /// Sent, and not known to have ended.
    running: u32,
    to_server: VecDeque<ToServer>,
    to_worker: VecDeque<ToWorker>,
}

enum ToServer {
    Credit(u32),
    Ended,
}

enum ToWorker {
    Assigned,
    Kept(CreditKept),
    Demand(u32),
}

impl Server {
    fn in_use(&self) -> u32 {
        self.starting + self.running
    }

    fn echo(&mut self) {
        let bound = self.credit.max(self.in_use());
        self.to_worker.push_back(ToWorker::Kept(CreditKept { told: self.credit, bound }));
    }

    /// What it may have in flight, now or when it has read what was sent to it.
    fn may_count_on(&self) -> u32 {
        let told = |message: &ToServer| match message {
            ToServer::Credit(credit) => *credit,
            ToServer::Ended => 0,
        };
        let granted = self.to_server.iter().map(told).max().unwrap_or(0).max(self.credit);
        let ended = self.to_server.iter().filter(|message| matches!(message, ToServer::Ended)).count();
        if self.is_connected { granted.max(self.in_use() - ended as u32) } else { 0 }
    }
}

struct World {
    slots: u32,
    credits: Credits<usize>,
    servers: Vec<Server>,
    /// What the worker runs, by the server that gave it.
    active: Vec<u32>,
    now: Timestamp,
    random: SplitMix64,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut world = Self {
            slots: 0,
            credits: Credits::new(0),
            servers: Vec::new(),
            active: Vec::new(),
            now: T0,
            random: SplitMix64::new(seed),
        };
        let servers = 1 + world.below(4);
        world.slots = world.below(12) as u32;
        world.credits = credits(world.slots, servers);
        world.servers = (0..servers).map(|_| Server::default()).collect();
        world.active = vec![0; servers];
        world
    }

    fn below(&mut self, limit: usize) -> usize {
        self.random.below(limit as u64) as usize
    }

    fn connect(&mut self, place: usize) {
        let credit = self.credits.open(place, self.now);
        let running = self.active[place];
        // What it had sent and does not find in the hello was never received.
        self.servers[place] = Server { is_connected: true, credit, running, ..Server::default() };
        self.servers[place].echo();
    }

    fn plan(&mut self) {
        self.credits.plan(self.now);
        for (place, server) in self.servers.iter_mut().enumerate() {
            if let Some(credit) = self.credits.take_untold(place) {
                server.to_server.push_back(ToServer::Credit(credit));
            }
        }
    }

    fn server_reads(&mut self, place: usize) {
        let server = &mut self.servers[place];
        match server.to_server.pop_front() {
            Some(ToServer::Credit(credit)) => {
                server.credit = credit;
                server.echo();
            }
            Some(ToServer::Ended) => {
                let was_overdrawn = server.in_use() > server.credit;
                server.running -= 1;
                if was_overdrawn {
                    server.echo();
                }
            }
            None => {}
        }
    }

    fn worker_reads(&mut self, place: usize) {
        match self.servers[place].to_worker.pop_front() {
            Some(ToWorker::Assigned) => {
                self.active[place] += 1;
                assert!(!self.credits.began(place), "more than it may count on");
                let running: u32 = self.active.iter().sum();
                assert!(running <= self.slots, "{running} attempts in {} slots", self.slots);
            }
            Some(ToWorker::Kept(kept)) => self.credits.kept(place, kept),
            Some(ToWorker::Demand(jobs)) => self.credits.demand(place, jobs),
            None => {}
        }
    }

    fn step(&mut self) {
        let place = self.below(self.servers.len());
        let (wish, choice) = (self.below(3) as u32, self.below(12));
        let server = &mut self.servers[place];
        match choice {
            0..3 => self.server_reads(place),
            3..6 => self.worker_reads(place),
            6 if server.is_connected && server.in_use() < server.credit => server.starting += 1,
            7 if server.is_connected && server.starting > 0 => {
                server.starting -= 1;
                server.running += 1;
                server.to_worker.push_back(ToWorker::Assigned);
            }
            8 if self.active[place] > 0 => {
                self.active[place] -= 1;
                self.credits.ended(place);
                if server.is_connected {
                    server.to_server.push_back(ToServer::Ended);
                }
            }
            9 if server.is_connected => server.to_worker.push_back(ToWorker::Demand(wish)),
            10 if !server.is_connected => self.connect(place),
            11 if wish == 0 && server.is_connected => {
                *server = Server::default();
                self.credits.close(place, self.now);
            }
            _ => self.now = self.now + Span::from_millis(30),
        }
        self.plan();
    }

    fn check(&self) {
        let counted_on: u32 = self.servers.iter().map(Server::may_count_on).sum();
        let away = self.servers.iter().zip(&self.active).filter(|(server, _)| !server.is_connected);
        let taken = counted_on + away.map(|(_, active)| active).sum::<u32>();
        assert!(taken <= self.slots, "{taken} of {} slots were promised", self.slots);
    }

    /// Lets everything arrive and end, with no more demand.
    fn settle(&mut self) {
        for place in 0..self.servers.len() {
            if !self.servers[place].is_connected {
                self.connect(place);
            }
            let server = &mut self.servers[place];
            for _ in 0..std::mem::take(&mut server.starting) {
                server.running += 1;
                server.to_worker.push_back(ToWorker::Assigned);
            }
            server.to_worker.push_back(ToWorker::Demand(0));
        }
        for _ in 0..60 {
            for place in 0..self.servers.len() {
                while !self.servers[place].to_worker.is_empty() {
                    self.worker_reads(place);
                }
                for _ in 0..std::mem::take(&mut self.active[place]) {
                    self.credits.ended(place);
                    self.servers[place].to_server.push_back(ToServer::Ended);
                }
                while !self.servers[place].to_server.is_empty() {
                    self.server_reads(place);
                }
            }
            self.now = self.now + MOVE_EVERY;
            self.plan();
            self.check();
        }
    }
}

#[test]
fn no_two_servers_ever_count_on_the_same_slot() {
    for seed in 0..3_000 {
        let mut world = World::new(seed);
        for _ in 0..200 {
            world.step();
            world.check();
        }
        world.settle();
        let even = divide(world.slots, world.servers.len(), 0);
        let had: Vec<u32> = world.servers.iter().map(|server| server.credit).collect();
        assert_eq!(had, even, "seed {seed}");
    }
}

#[test]
fn a_server_is_released_when_it_has_confirmed_that_nothing_of_it_runs() {
    let mut credits = credits(8, 2);
    for link in [0, 1] {
        credits.open(link, T0);
        confirm(&mut credits, link);
    }
    credits.began(1);
    credits.release(1);
    credits.plan(T0);
    assert_eq!(credits.take_untold(1), Some(0));
    assert!(!credits.is_released(1), "it has not answered yet");
    credits.kept(1, CreditKept { told: 0, bound: 1 });
    assert!(!credits.is_released(1), "an attempt runs");
    credits.ended(1);
    credits.kept(1, CreditKept { told: 0, bound: 0 });
    assert!(credits.is_released(1));
    credits.plan(at_ms(200));
    assert_eq!(credits.take_untold(0), Some(8), "its slots serve the other one");
}

#[test]
fn a_server_that_is_needed_again_gets_its_share_back() {
    let mut credits = credits(8, 2);
    for link in [0, 1] {
        credits.open(link, T0);
        confirm(&mut credits, link);
    }
    credits.release(1);
    for at in [T0, at_ms(200)] {
        credits.plan(at);
        confirm(&mut credits, 1);
    }
    credits.demand(1, 3);
    assert!(credits.is_used(1));
    credits.retain(1);
    assert!(!credits.is_released(1));
    for millis in [400, 600, 800, 1000] {
        credits.plan(at_ms(millis));
        for link in [0, 1] {
            confirm(&mut credits, link);
        }
    }
    assert_eq!([0, 1].map(|link| credits.accounts[&link].told), [1, 7]);
}

#[test]
fn the_oldest_gang_gets_what_it_needs_before_the_others() {
    let gang = |due_ms: i64| {
        let batch = BatchId::new(Timestamp::EPOCH, ShardId(0), due_ms.unsigned_abs());
        Some(GangKey { due_at: at_ms(due_ms), batch })
    };
    let mut credits = credits(6, 3);
    for link in [0, 1, 2] {
        credits.open(link, T0);
        confirm(&mut credits, link);
    }
    for (link, due_ms) in [(0, 20), (1, 10)] {
        credits.demand(link, 5);
        credits.demand_of_gang(link, gang(due_ms));
    }
    // Without an order, each of the two would have half of what its gang needs.
    let settle = |credits: &mut Credits<usize>, from: i64| {
        for millis in 0..10 {
            credits.plan(at_ms(from + 200 * millis));
            (0..3).for_each(|link| _ = confirm(credits, link));
        }
        [0, 1, 2].map(|link| credits.accounts[&link].told)
    };
    assert_eq!(settle(&mut credits, 200)[1], 5);
    (0..5).for_each(|_| _ = credits.began(1));
    credits.demand(1, 0);
    credits.demand_of_gang(1, None);
    (0..5).for_each(|_| credits.ended(1));
    assert_eq!(settle(&mut credits, 4_000)[0], 5, "it is the other one's turn");
}
