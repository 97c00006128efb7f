//! How often somebody may do something: token buckets, bounded in number. Of more sources than are remembered, those that have
//! used the least go first.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;

use punctual_core::{Span, Timestamp};

use crate::access::SocketUser;

/// Sources that are remembered at a time.
pub const REMEMBERED_MAX: usize = 10_000;

/// Where somebody is who has shown no credential that counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Source {
    /// A user of the server's own machine: there, all have one address.
    User(u32),
    /// The server's own user, or root.
    Local,
    V4([u8; 4]),
    /// The network of an address: whoever has one address of IPv6 has 2⁶⁴.
    V6([u8; 8]),
    Unknown,
}

impl Source {
    pub fn new(user: SocketUser, address: Option<IpAddr>) -> Self {
        match user {
            SocketUser::Other(uid) => return Self::User(uid),
            SocketUser::Own | SocketUser::Root => return Self::Local,
            SocketUser::Unknown => {}
        }
        match address.map(|address| address.to_canonical()) {
            Some(IpAddr::V4(address)) => Self::V4(address.octets()),
            Some(IpAddr::V6(address)) => {
                let octets = address.octets();
                Self::V6(octets[..8].try_into().expect("an address has 16 bytes"))
            }
            None => Self::Unknown,
        }
    }
}

/// So many at once, and one more in each interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    pub burst: i64,
    pub every: Span,
}

/// When the bucket of each would be full again, by the rate at which it fills.
#[derive(Debug)]
pub struct Buckets<K>(HashMap<K, Timestamp>);

impl<K> Default for Buckets<K> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<K: Eq + Hash + Clone> Buckets<K> {
    /// Counts one, or says how long to wait for the next. What is refused does not count.
    pub fn take(&mut self, key: K, rate: Rate, now: Timestamp) -> Result<(), Span> {
        let empty_at = self.0.get(&key).copied().unwrap_or(now).max(now);
        let full = Span::from_micros(rate.every.as_micros() * (rate.burst - 1));
        if empty_at.since(now) > full {
            return Err((empty_at - full).since(now));
        }
        if !self.0.contains_key(&key) && self.0.len() >= REMEMBERED_MAX {
            self.make_room(now);
        }
        self.0.insert(key, empty_at + rate.every);
        Ok(())
    }

    /// One that was counted does not count.
    pub fn give_back(&mut self, key: K, rate: Rate) {
        if let Some(empty_at) = self.0.get_mut(&key) {
            *empty_at = *empty_at - rate.every;
        }
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn make_room(&mut self, now: Timestamp) {
        self.0.retain(|_, empty_at| *empty_at > now);
        if self.0.len() >= REMEMBERED_MAX
            && let Some(mildest) = self.0.iter().min_by_key(|(_, empty_at)| **empty_at).map(|(key, _)| key.clone())
        {
            self.0.remove(&mildest);
        }
    }
}
