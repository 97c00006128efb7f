//! Places: how the attempts that a namespace may have running are divided among the servers.
//!
//! A namespace is spread over all shards, and so over the servers that own them. Each server has an *account* in the store:
//! how many attempts it may have running (its places), and how many it last said are running. It starts an attempt only
//! if fewer run than it has places; what it takes over with a shard counts as running there. Servers report a few times a second, one after
//! the other, and here it is decided what each gets.
//!
//! Never more than the quota run at once, because of two rules. What a server holds is the larger of what it says is running
//! and its places, and places are added only while all that is held is less than the quota. They are added, and accounts
//! of servers without shards removed, only while every shard is *covered*: its owner has reported since it took the shard
//! over, and so what runs in it is in an account. The owner does its part: see `shard::running_quotas`.
//!
//! Decides, and does nothing. Stores call it in the transaction that keeps the accounts.

use std::collections::{BTreeMap, BTreeSet};

use crate::id::{ServerId, ShardId};
use crate::namespace::NamespaceId;
use crate::shard::write::Epoch;
use crate::time::{Span, Timestamp};

/// A place that several servers want goes to the next of them after this. Shorter turns would leave it unused for
/// much of the time, on its way from one server to the next.
const TURN: Span = Span::from_secs(2);

/// What a server says of the namespaces whose running attempts are limited.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RunningReport {
    /// Which state of the owner it is about: an answer to an older one is void.
    pub version: u64,
    /// All shards that the server owns, by its own knowledge.
    pub shards: Vec<(ShardId, Epoch)>,
    pub namespaces: Vec<RunningUse>,
}

/// One namespace on one server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunningUse {
    pub namespace: NamespaceId,
    pub quota: u64,
    /// Attempts that are being started, run, or have ended and are not yet on record as ended.
    pub running: u64,
    /// How many it lets run.
    pub places: u64,
    /// Jobs that are due and that a worker with a free slot could run.
    pub waiting: u64,
}

/// What is stored of one namespace and one server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Account {
    pub running: u64,
    pub places: u64,
    pub waiting: u64,
    /// When it was last its turn to have a place that others want as well.
    pub served_at: Timestamp,
}

impl Account {
    /// What may run on its behalf before its next report.
    fn held(&self) -> u64 {
        self.running.max(self.places)
    }

    fn demand(&self) -> u64 {
        self.running.saturating_add(self.waiting)
    }
}

/// All that is stored about places, with who owns which shard.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Accounts {
    pub owners: Vec<(ShardId, Epoch, Option<ServerId>)>,
    /// The shards of each server's last report.
    pub reported: BTreeMap<ServerId, Vec<(ShardId, Epoch)>>,
    pub accounts: BTreeMap<(NamespaceId, ServerId), Account>,
}

/// What follows from a report.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Exchanged {
    /// How many attempts the server may have running from now on.
    pub places: Vec<(NamespaceId, u64)>,
    /// Its accounts, to be stored with the shards of its report before it hears of its places.
    pub accounts: Vec<(NamespaceId, Account)>,
    /// Servers that own nothing any more: their accounts and reports are to be removed.
    pub gone: Vec<ServerId>,
}

impl Accounts {
    /// Takes a report in. All accounts of its namespaces must be here.
    pub fn exchange(mut self, server: ServerId, report: &RunningReport, now: Timestamp) -> Exchanged {
        self.reported.insert(server, report.shards.clone());
        let is_covered = self.is_covered();
        let mut gone = Vec::new();
        if is_covered {
            let owners: BTreeSet<ServerId> = self.owners.iter().filter_map(|(_, _, owner)| *owner).collect();
            gone.extend(self.reported.keys().filter(|server| !owners.contains(server)));
            self.accounts.retain(|(_, server), _| owners.contains(server));
        }
        let mut exchanged = Exchanged { gone, ..Exchanged::default() };
        for one in &report.namespaces {
            let RunningUse { namespace, quota, running, places, waiting } = *one;
            let known = self.accounts.get(&(namespace, server)).copied().unwrap_or_default();
            // It may have fewer than it was given: an answer was lost, or some left with a shard. It never has more, unless
            // it was believed to be gone, and then it can start nothing before it has asked again.
            let account = Account { running, places: places.min(known.places), waiting, ..known };
            self.accounts.insert((namespace, server), account);
            let (places, account) = self.share(namespace, server, quota, is_covered, now);
            exchanged.places.push((namespace, places));
            exchanged.accounts.push((namespace, account));
        }
        exchanged
    }

    /// Whether everything that runs is in an account.
    fn is_covered(&self) -> bool {
        self.owners.iter().all(|(shard, epoch, owner)| {
            let reported = owner.and_then(|owner| self.reported.get(&owner));
            reported.is_some_and(|shards| shards.contains(&(*shard, *epoch)))
        })
    }

    /// The places of one server, and its account.
    fn share(
        &self,
        namespace: NamespaceId,
        server: ServerId,
        quota: u64,
        is_covered: bool,
        now: Timestamp,
    ) -> (u64, Account) {
        let of_namespace = self.accounts.iter().filter(|((of, _), _)| *of == namespace);
        let all: Vec<(ServerId, Account)> = of_namespace.map(|((_, id), one)| (*id, *one)).collect();
        let own = all.iter().position(|(id, _)| *id == server).expect("it was just inserted");
        let accounts: Vec<Account> = all.into_iter().map(|(_, account)| account).collect();
        let mut account = accounts[own];
        let Target { sure, turn, spare } = targets(quota, &accounts, now)[own];
        let target = sure + turn + spare;
        if target > account.places {
            let held = accounts.iter().fold(0_u64, |held, one| held.saturating_add(one.held()));
            let free = if is_covered { quota.saturating_sub(held) } else { 0 };
            // What it runs already it may be given as places at any time: that is held as well.
            account.places = target.min(account.held().saturating_add(free)).max(account.places);
        }
        if turn > 0 && account.held() > sure && now.since(account.served_at) >= TURN {
            // Its turn begins now that it has the place, and not while another server still uses it.
            account.served_at = now;
        }
        // It is the server that gives places up; they are free when it has said so.
        (target.min(account.places), account)
    }
}

/// What one server should have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Target {
    /// As much as it needs, or an equal share.
    sure: u64,
    /// One more, if it is its turn.
    turn: u64,
    /// What nobody needs is spread, so that a job that comes does not wait for a report.
    spare: u64,
}

fn targets(quota: u64, accounts: &[Account], now: Timestamp) -> Vec<Target> {
    let mut targets = vec![Target::default(); accounts.len()];
    let mut left = quota;
    let mut open: Vec<usize> = (0..accounts.len()).filter(|one| accounts[*one].demand() > 0).collect();
    while !open.is_empty() && left >= open.len() as u64 {
        let share = left / open.len() as u64;
        for &one in &open {
            let more = share.min(accounts[one].demand() - targets[one].sure);
            targets[one].sure += more;
            left -= more;
        }
        open.retain(|one| targets[*one].sure < accounts[*one].demand());
    }
    // Fewer places than servers that want one: those whose turn it is, and then those that waited the longest.
    open.sort_by_key(|&one| {
        let account = &accounts[one];
        let is_in_turn = account.held() > targets[one].sure && now.since(account.served_at) < TURN;
        (!is_in_turn, account.served_at)
    });
    for one in open.into_iter().take(usize::try_from(left).unwrap_or(usize::MAX)) {
        targets[one].turn = 1;
        left -= 1;
    }
    let count = accounts.len() as u64;
    for (place, target) in (0..).zip(&mut targets) {
        // Only if nobody wants more.
        target.spare = left / count + u64::from(place < left % count);
    }
    targets
}

#[cfg(test)]
mod tests;
