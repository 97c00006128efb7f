//! Chooses which servers this worker has links to. Pure: `servers` does what it says.
//!
//! In a small cluster that is every server. In a larger one it is a few: those that the worker prefers, and those that have
//! asked for it because their jobs have no other worker. A link that is not needed any more is released first: its credit is
//! taken back, and it is closed when the server has confirmed that nothing of it runs here.

use std::time::Duration;

use punctual_core::id::WorkerId;
use punctual_core::server_choice::preferred;

use crate::held::{LinkNo, LinkStage, LinkSurvey, Survey};

/// A server that was not reached for this long is replaced by the next one in the worker's order, and is still tried.
const REPLACED_AFTER: Duration = Duration::from_secs(3);

/// A link that a server has asked for is kept while it is used at least this often.
const IDLE_MAX: Duration = Duration::from_secs(60);

/// After this, it is tried whether the server still needs this worker: its credit is taken back, and the link is kept if the
/// server has jobs that wait for it then. Otherwise every backlog would leave links behind for as long as there are jobs.
const TRIED_AFTER: Duration = Duration::from_secs(300);

/// A link as it is now.
#[derive(Debug, Clone)]
pub(crate) struct KnownLink {
    pub(crate) url: String,
    pub(crate) survey: LinkSurvey,
    /// How long it has not been open.
    pub(crate) down_for: Duration,
    /// How long it has not been used.
    pub(crate) idle_for: Duration,
    /// How long ago the server last asked for this worker; `None` if it never did.
    pub(crate) asked_ago: Option<Duration>,
}

pub(crate) struct Choice {
    pub(crate) worker: WorkerId,
    /// How many servers to connect to; 0 for all.
    pub(crate) servers_max: usize,
    pub(crate) configured: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Haste {
    AtOnce,
    /// With jitter: a whole fleet may have learned of a new server at the same moment.
    Spread,
}

/// What is to be done. What is not named stays as it is.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) open: Vec<(String, Haste)>,
    pub(crate) release: Vec<LinkNo>,
    pub(crate) retain: Vec<LinkNo>,
    pub(crate) close: Vec<LinkNo>,
}

impl Choice {
    /// Whether the worker connects to every server.
    pub(crate) fn is_all(&self, survey: &Survey) -> bool {
        let max = self.servers_max;
        max == 0 || (survey.peers.len() <= max && self.configured.len() <= max)
    }

    /// Which of the configured servers to connect to first.
    pub(crate) fn first(&self) -> Vec<&str> {
        match self.servers_max {
            max if max > 0 && max < self.configured.len() => {
                self.preferred(self.configured.iter().map(String::as_str)).into_iter().take(max).collect()
            }
            _ => self.configured.iter().map(String::as_str).collect(),
        }
    }

    fn preferred<'a>(&self, addresses: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
        preferred(self.worker, addresses)
    }

    /// For a worker that connects to a few of the servers.
    pub(crate) fn plan(&self, survey: &Survey, known: &[KnownLink]) -> Plan {
        let announced = survey.peers.iter().map(|peer| peer.address.as_str()).filter(|address| !address.is_empty());
        // Without a server that says who there is, all addresses are as good.
        let is_lost = survey.is_cut_off || survey.peers.is_empty();
        let configured = self.configured.iter().map(String::as_str).filter(|_| is_lost);
        let order = self.preferred(announced.chain(configured));
        let mut chosen: Vec<&str> = Vec::new();
        let mut healthy = 0;
        for address in order {
            if healthy == self.servers_max {
                break;
            }
            chosen.push(address);
            let is_failing = |link: &KnownLink| !link.survey.is_open() && link.down_for >= REPLACED_AFTER;
            healthy += usize::from(!link_to(survey, known, address).is_some_and(is_failing));
        }
        let mut plan = Plan::default();
        for &address in &chosen {
            if link_to(survey, known, address).is_none() {
                let haste = if survey.is_cut_off { Haste::AtOnce } else { Haste::Spread };
                plan.open.push((address.to_owned(), haste));
            }
        }
        for peer in survey.peers.iter().filter(|peer| survey.invited.contains(&peer.server)) {
            let is_planned = plan.open.iter_mut().find(|(address, _)| *address == peer.address);
            match is_planned {
                Some((_, haste)) => *haste = Haste::AtOnce,
                None if link_to(survey, known, &peer.address).is_none() => {
                    plan.open.push((peer.address.clone(), Haste::AtOnce));
                }
                None => {}
            }
        }
        let is_chosen = |link: &KnownLink| {
            chosen
                .iter()
                .any(|address| link_to(survey, known, address).is_some_and(|to| to.survey.no == link.survey.no))
        };
        let chosen_up = known.iter().filter(|link| link.survey.stage == LinkStage::Up && is_chosen(link)).count();
        for link in known {
            let is_invited = link.survey.server.is_some_and(|server| survey.invited.contains(&server))
                || survey.peers.iter().any(|peer| peer.address == link.url && survey.invited.contains(&peer.server));
            if is_chosen(link) || is_invited || link.is_needed() {
                plan.retain.push(link.survey.no);
            } else if !link.survey.is_open() {
                if !survey.is_cut_off {
                    plan.close.push(link.survey.no);
                }
            } else if link.survey.is_released {
                plan.close.push(link.survey.no);
            } else if chosen_up >= healthy {
                plan.release.push(link.survey.no);
            }
        }
        plan
    }
}

impl KnownLink {
    /// Whether the server has asked for this worker and uses it, or wants to.
    fn is_needed(&self) -> bool {
        let is_open = self.survey.is_open();
        is_open && self.idle_for < IDLE_MAX && self.asked_ago.is_some_and(|ago| ago < TRIED_AFTER)
    }
}

/// The link to the server at this address, under whichever name the worker knows it.
fn link_to<'a>(survey: &Survey, known: &'a [KnownLink], address: &str) -> Option<&'a KnownLink> {
    let server = survey.peers.iter().find(|peer| peer.address == address).map(|peer| peer.server);
    let leads_there = |link: &&KnownLink| server.is_some() && link.survey.is_open() && link.survey.server == server;
    known.iter().find(leads_there).or_else(|| known.iter().find(|link| link.url == address))
}

#[cfg(test)]
mod tests;
