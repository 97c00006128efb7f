//! How a worker divides its slots among servers.
//!
//! A server may have as many attempts in flight on a worker as it was granted credit for. A
//! slot that two servers count on would be given back by the worker, after a round trip and
//! a transaction. So the sum of what servers may count on never exceeds the slots: credit is
//! taken from one server first, and granted to another only when the first has confirmed it.
//!
//! Every server gets an even share, until some have work and others do not; then credit moves
//! to where the work is, in steps, and back when that is over. Pure: the simulator's workers
//! go by the same rules.

mod shares;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use crate::shard::GangKey;
use crate::shard::event::CreditKept;
use crate::time::{Span, Timestamp};
use shares::divide;

/// The shortest interval between two withdrawals of credit. Demands are sent as often.
const MOVE_EVERY: Span = Span::from_millis(100);

/// How long a server whose stream broke keeps its share. Most return at once, for example after a takeover.
const EXPECTED_FOR: Span = Span::from_secs(2);

/// How long a server keeps a slot before the next server's turn, when there are fewer slots than servers in need.
const TURN: Span = Span::from_secs(1);

/// The accounts of the servers that a worker has, by some name of the link to each.
pub struct Credits<L> {
    slots: u32,
    accounts: BTreeMap<L, Account>,
    /// Slots taken by what no server of ours owns any more.
    orphans: u32,
    next_lowering: Timestamp,
    grant: Grant,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Grant {
    Slots,
    /// No credit for now, because too many outcomes wait to be acknowledged.
    Nothing,
    /// The worker leaves.
    NothingAnyMore,
}

/// Whether a new server gets its share reserved before it has been reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expected {
    Yes,
    No,
}

#[derive(Default)]
struct Account {
    is_up: bool,
    expected_until: Timestamp,
    told: u32,
    /// The credit `told` has not been sent yet.
    is_untold: bool,
    /// The credit `told` has not been confirmed yet; no other credit is sent before.
    is_open: bool,
    /// What the server may count on.
    bound: u32,
    /// Attempts that run and are the server's.
    active: u32,
    demand: u32,
    /// The demand is that of a gang.
    gang: Option<GangKey>,
    /// The stream is to be closed, so the server gets no credit any more.
    is_released: bool,
}

impl Account {
    /// Slots that cannot be granted to anyone else.
    fn reserved(&self) -> u32 {
        if self.is_up { self.bound.max(self.active) } else { self.active }
    }

    fn can_change(&self) -> bool {
        self.is_up && !self.is_open
    }

    fn tell(&mut self, credit: u32) {
        self.told = credit;
        self.bound = self.bound.max(credit);
        self.is_untold = true;
        self.is_open = true;
    }
}

impl<L: Ord + Copy> Credits<L> {
    pub fn new(slots: u32) -> Self {
        let grant = Grant::Slots;
        Self { slots, accounts: BTreeMap::new(), orphans: 0, next_lowering: Timestamp::EPOCH, grant }
    }

    pub fn add(&mut self, link: L, expected: Expected, now: Timestamp) {
        let expected_until = match expected {
            Expected::Yes => now + EXPECTED_FOR,
            Expected::No => now,
        };
        self.accounts.insert(link, Account { expected_until, ..Account::default() });
    }

    /// What still runs for it is counted by [`Credits::set_orphans`] from now on.
    pub fn remove(&mut self, link: L) {
        self.accounts.remove(&link);
    }

    /// A stream is about to be opened: the credit for its hello.
    pub fn open(&mut self, link: L, now: Timestamp) -> u32 {
        let Some(account) = self.accounts.get_mut(&link) else { return 0 };
        (account.is_up, account.demand, account.gang, account.bound) = (true, 0, None, 0);
        let wish = self.wishes(now).into_iter().find(|(of, _)| *of == link).map_or(0, |(_, wish)| wish);
        // What runs for it already takes slots of its own credit.
        let own = self.accounts[&link].active;
        let credit = wish.min(self.free() + own);
        let account = self.accounts.get_mut(&link).expect("it was just found");
        account.tell(credit);
        account.bound = credit;
        account.is_untold = false;
        credit
    }

    /// Ends a stream, and with it everything that the server could count on.
    pub fn close(&mut self, link: L, now: Timestamp) {
        // A server that was not reached again is not expected for any longer.
        if let Some(account) = self.accounts.get_mut(&link).filter(|account| account.is_up) {
            let active = account.active;
            *account = Account { active, expected_until: now + EXPECTED_FOR, ..Account::default() };
        }
    }

    /// The server said how it keeps to its credit.
    pub fn kept(&mut self, link: L, kept: CreditKept) {
        let Some(account) = self.accounts.get_mut(&link).filter(|account| account.is_up) else { return };
        account.bound = kept.bound.max(account.told);
        if kept.told == account.told && !account.is_untold {
            account.is_open = false;
        }
    }

    pub fn demand(&mut self, link: L, jobs: u32) {
        if let Some(account) = self.accounts.get_mut(&link).filter(|account| account.is_up) {
            account.demand = jobs;
        }
    }

    /// The demand of this server is that of a gang. The oldest one gets what it needs before all others: if each of two
    /// servers had half of what its gang needs, both would wait.
    pub fn demand_of_gang(&mut self, link: L, gang: Option<GangKey>) {
        if let Some(account) = self.accounts.get_mut(&link).filter(|account| account.is_up) {
            account.gang = gang;
        }
    }

    /// The stream to this server is to be closed: its credit is taken back first, so that nothing is on its way to the
    /// worker when the stream ends. Look at the [plan](Credits::plan).
    pub fn release(&mut self, link: L) {
        self.set_released(link, true);
    }

    /// The server is needed after all. True if it was to be released.
    pub fn retain(&mut self, link: L) -> bool {
        self.set_released(link, false)
    }

    fn set_released(&mut self, link: L, is_released: bool) -> bool {
        let account = self.accounts.get_mut(&link);
        account.is_some_and(|account| std::mem::replace(&mut account.is_released, is_released) != is_released)
    }

    /// Whether the stream to this server is to be closed.
    pub fn is_being_released(&self, link: L) -> bool {
        self.accounts.get(&link).is_some_and(|account| account.is_released)
    }

    /// Whether the server has confirmed that nothing of it runs on this worker, or will.
    pub fn is_released(&self, link: L) -> bool {
        self.accounts.get(&link).is_some_and(|account| {
            let is_settled = account.is_up && !account.is_open && !account.is_untold;
            account.is_released && is_settled && account.told == 0 && account.bound == 0 && account.active == 0
        })
    }

    /// Whether jobs of the server wait for a slot here.
    pub fn is_demanded(&self, link: L) -> bool {
        self.accounts.get(&link).is_some_and(|account| account.demand > 0)
    }

    /// Whether jobs of the server run here, or wait for a slot here.
    pub fn is_used(&self, link: L) -> bool {
        self.accounts.get(&link).is_some_and(|account| account.active > 0 || account.demand > 0)
    }

    /// True when more runs than the server may count on: it gave up a shard, and with it what
    /// runs for that, and the next owner has not made itself known yet. Look at the
    /// [plan](Credits::plan).
    pub fn began(&mut self, link: L) -> bool {
        let Some(account) = self.accounts.get_mut(&link) else { return false };
        account.active += 1;
        account.active > account.bound
    }

    /// So many of what the server sent at once found no slot. It gave up a shard whose attempts
    /// still run here, and takes their slots for free until the next owner makes itself
    /// known. Without this it would send and be refused, over and over.
    pub fn refused(&mut self, link: L, count: u32) {
        let account = self.accounts.get_mut(&link).filter(|account| account.can_change());
        // What was on its way when it was told less says nothing new.
        if let Some(account) = account.filter(|account| account.told > 0 && account.bound <= account.told) {
            account.tell(account.told.saturating_sub(count));
        }
    }

    pub fn ended(&mut self, link: L) {
        if let Some(account) = self.accounts.get_mut(&link) {
            account.active = account.active.saturating_sub(1);
        }
    }

    /// Counted anew: shards have changed hands.
    pub fn set_active(&mut self, link: L, active: u32) {
        if let Some(account) = self.accounts.get_mut(&link) {
            account.active = active;
        }
    }

    pub fn set_orphans(&mut self, orphans: u32) {
        self.orphans = orphans;
    }

    /// Grants nothing any more, at once and to everyone.
    pub fn stop(&mut self) {
        self.grant = Grant::NothingAnyMore;
        for account in self.accounts.values_mut() {
            if account.told > 0 {
                account.tell(0);
            }
        }
    }

    /// Grants nothing until [`Credits::resume`].
    pub fn pause(&mut self) {
        if self.grant == Grant::Slots {
            self.grant = Grant::Nothing;
        }
    }

    pub fn resume(&mut self) {
        if self.grant == Grant::Nothing {
            self.grant = Grant::Slots;
        }
    }

    /// The credit to send to this server, if it changed. It must be sent at once.
    pub fn take_untold(&mut self, link: L) -> Option<u32> {
        let account = self.accounts.get_mut(&link)?;
        std::mem::take(&mut account.is_untold).then_some(account.told)
    }

    pub fn has_untold(&self, link: L) -> bool {
        self.accounts.get(&link).is_some_and(|account| account.is_untold)
    }

    /// Whether the server was told that it may send nothing.
    pub fn is_told_nothing(&self, link: L) -> bool {
        self.accounts.get(&link).is_none_or(|account| account.told == 0 && !account.is_untold)
    }

    /// Slots that no server may count on.
    fn free(&self) -> u32 {
        let reserved = self.accounts.values().map(Account::reserved).fold(self.orphans, u32::saturating_add);
        self.slots.saturating_sub(reserved)
    }

    /// Decides which credits to send. Returns when to look again if nothing happens before.
    pub fn plan(&mut self, now: Timestamp) -> Option<Timestamp> {
        if self.grant == Grant::NothingAnyMore {
            return None;
        }
        let wishes = self.wishes(now);
        self.make_up(now);
        self.lower(&wishes, now);
        self.raise(&wishes);
        let is_too_high = |(link, wish): &(L, u32)| {
            let account = &self.accounts[link];
            account.can_change() && account.told > *wish
        };
        let lowering = wishes.iter().any(is_too_high).then_some(self.next_lowering);
        let returns = self.accounts.values().filter(|account| !account.is_up && account.expected_until > now);
        let returns = returns.map(|account| account.expected_until);
        lowering.into_iter().chain(returns).chain(self.next_turn(now)).min().map(|at| at.max(now))
    }

    fn lower(&mut self, wishes: &[(L, u32)], now: Timestamp) {
        if now < self.next_lowering {
            return;
        }
        // Half of the way, so that a demand that is over in a moment does not move everything.
        // A server that has nothing at all does not wait for that.
        let is_starved = |(link, wish): &(L, u32)| {
            let account = &self.accounts[link];
            account.is_up && account.told == 0 && *wish > 0
        };
        let at_once = self.grant == Grant::Nothing || wishes.iter().any(is_starved);
        for (link, wish) in wishes {
            let account = self.accounts.get_mut(link).expect("wishes are of accounts");
            if account.can_change() && account.told > *wish {
                let step = account.told - wish;
                let is_whole_step = at_once || account.is_released;
                account.tell(account.told - if is_whole_step { step } else { step.div_ceil(2) });
                self.next_lowering = now + MOVE_EVERY;
            }
        }
    }

    fn raise(&mut self, wishes: &[(L, u32)]) {
        let mut free = self.free();
        let mut wishes: Vec<_> = wishes.to_vec();
        wishes.sort_by_key(|(link, _)| self.accounts[link].told);
        for (link, wish) in wishes {
            let account = self.accounts.get_mut(&link).expect("wishes are of accounts");
            if free > 0 && account.can_change() && account.told < wish {
                let more = (wish - account.told).min(free);
                let reserved = account.reserved();
                account.tell(account.told + more);
                free -= account.reserved() - reserved;
            }
        }
    }

    /// Takes credit back when more runs than there are slots for: a server that took shards
    /// over took what runs for them over, too.
    fn make_up(&mut self, now: Timestamp) {
        let reserved = self.accounts.values().map(Account::reserved).fold(self.orphans, u32::saturating_add);
        let mut excess = reserved.saturating_sub(self.slots);
        for account in self.accounts.values_mut().filter(|account| account.can_change()) {
            let slack = account.told.saturating_sub(account.active).min(excess);
            if slack > 0 {
                account.tell(account.told - slack);
                self.next_lowering = now + MOVE_EVERY;
                excess -= slack;
            }
        }
    }

    /// The servers that the slots are divided among.
    fn members(&self, now: Timestamp) -> impl Iterator<Item = (L, &Account)> {
        let is_member =
            move |account: &Account| !account.is_released && (account.is_up || account.expected_until > now);
        self.accounts.iter().filter(move |(_, account)| is_member(account)).map(|(link, account)| (*link, account))
    }

    /// The credit that each server should have.
    fn wishes(&self, now: Timestamp) -> Vec<(L, u32)> {
        let released = |account: &Account| account.is_up && account.is_released;
        let nothing = self.accounts.iter().filter(|(_, account)| released(account)).map(|(link, _)| (*link, 0));
        let members: Vec<_> = self.members(now).collect();
        if self.grant != Grant::Slots {
            return members.into_iter().map(|(link, _)| (link, 0)).chain(nothing).collect();
        }
        self.shares_of_all(members, now).into_iter().chain(nothing).collect()
    }

    /// What each of the servers gets that have a share.
    fn shares_of_all(&self, members: Vec<(L, &Account)>, now: Timestamp) -> Vec<(L, u32)> {
        let gangs = members.iter().filter(|(_, account)| account.demand > 0);
        let oldest = gangs.filter_map(|(link, account)| Some((account.gang?, *link, *account))).min_by_key(|one| one.0);
        let Some((_, first, account)) = oldest else { return self.shares(self.slots, members, now) };
        let wish = account.active.saturating_add(account.demand).min(self.slots);
        let others = members.into_iter().filter(|(link, _)| *link != first).collect();
        let mut shares = self.shares(self.slots - wish, others, now);
        shares.push((first, wish));
        shares
    }

    /// What each of the servers gets of so many slots.
    fn shares(&self, slots: u32, members: Vec<(L, &Account)>, now: Timestamp) -> Vec<(L, u32)> {
        let even = divide(slots, members.len(), 0);
        let needy = members.iter().filter(|(_, account)| account.demand > 0).count();
        if needy == 0 {
            return members.into_iter().map(|(link, _)| link).zip(even).collect();
        }
        // One is kept where nothing waits, so that the next job there starts at once.
        let floor = u32::from(slots as usize >= members.len());
        let wish = |(account, even): (&Account, u32)| match account.demand {
            0 => Some(account.active.clamp(floor, even.max(floor))),
            _ => None,
        };
        let kept: Vec<Option<u32>> = members.iter().zip(&even).map(|((_, a), even)| wish((a, *even))).collect();
        let rest = slots.saturating_sub(kept.iter().flatten().sum());
        let mut shares = divide(rest, needy, turn(now)).into_iter();
        let share = |kept: Option<u32>| kept.unwrap_or_else(|| shares.next().expect("one for each in need"));
        let shares: Vec<u32> = kept.into_iter().map(share).collect();
        members.into_iter().map(|(link, _)| link).zip(shares).collect()
    }

    /// When the turn goes on, where there are turns.
    fn next_turn(&self, now: Timestamp) -> Option<Timestamp> {
        let is_needy = |account: &&Account| account.is_up && !account.is_released && account.demand > 0;
        let needy = self.accounts.values().filter(is_needy).count();
        let next = Timestamp::saturating_from_micros((turn(now) as i64 + 1) * TURN.as_micros());
        (needy > self.slots as usize).then_some(next)
    }
}

fn turn(now: Timestamp) -> usize {
    (now.as_micros() / TURN.as_micros()) as usize
}
