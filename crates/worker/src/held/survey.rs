//! What the choice of servers goes by: the links, the servers that there are, and those that asked for this worker.

use std::collections::BTreeSet;

use punctual_core::{ServerId, Span};

use super::links::LinkState;
use super::{HeldAttempts, LinkNo, LinkStage, PeerAddress};

pub(crate) struct Survey {
    pub(crate) links: Vec<LinkSurvey>,
    /// Each server once.
    pub(crate) peers: Vec<PeerAddress>,
    /// Servers that have asked for this worker.
    pub(crate) invited: Vec<ServerId>,
    /// No server can be reached.
    pub(crate) is_cut_off: bool,
}

/// A link as the choice of servers sees it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LinkSurvey {
    pub(crate) no: LinkNo,
    pub(crate) stage: LinkStage,
    pub(crate) server: Option<ServerId>,
    /// Jobs of the server run here or wait for a slot here, or an outcome of them is not acknowledged yet.
    pub(crate) is_used: bool,
    /// Jobs of the server wait for a slot here.
    pub(crate) is_demanded: bool,
    /// The server has confirmed that nothing of it is on its way here; see [`HeldAttempts::release`].
    pub(crate) is_released: bool,
}

impl LinkSurvey {
    pub(crate) fn is_open(&self) -> bool {
        matches!(self.stage, LinkStage::Greeted | LinkStage::Up)
    }
}

/// More servers than any cluster has. Further ones are ignored.
const PEERS_MAX: usize = 256;

/// An invitation that is not used lapses after this, whatever the server says.
const INVITED_MAX: Span = Span::from_secs(600);
/// As many servers as a worker has links to, at most.
const INVITATIONS_MAX: usize = 256;

impl HeldAttempts {
    /// The links, and the peers that reachable servers announce. If no server can be reached, the last announcements
    /// are used.
    pub(crate) fn survey(&self) -> Survey {
        let state = self.state();
        let is_cut_off = !state.links.values().any(LinkState::is_up);
        let heard = state.links.values().filter(|link| is_cut_off || link.is_up());
        let mut peers: Vec<PeerAddress> = Vec::new();
        for peer in heard.flat_map(|link| link.announced.iter()) {
            if peers.len() < PEERS_MAX && !peers.iter().any(|known| known.server == peer.server) {
                peers.push(peer.clone());
            }
        }
        let unacked: BTreeSet<LinkNo> = match state.held.len() > state.running {
            true => state.held.keys().filter_map(|(job, _)| state.owners.link(job.shard())).collect(),
            false => BTreeSet::new(),
        };
        let survey = |(no, link): (&LinkNo, &LinkState)| LinkSurvey {
            no: *no,
            stage: link.stage,
            server: link.server,
            is_used: state.credits.is_used(*no) || unacked.contains(no),
            is_demanded: state.credits.is_demanded(*no),
            is_released: state.credits.is_released(*no) && !unacked.contains(no),
        };
        let links = state.links.iter().map(survey).collect();
        let now = self.now();
        let invited = state.invited.iter().filter(|(_, until)| **until > now).map(|(server, _)| *server).collect();
        Survey { links, peers, invited, is_cut_off }
    }

    /// Servers that have jobs for this worker asked it to connect, through the server of this link.
    pub(crate) fn invited(&self, servers: impl IntoIterator<Item = (ServerId, Span)>) {
        let now = self.now();
        let mut state = self.state();
        state.invited.retain(|_, until| *until > now);
        for (server, span) in servers {
            if state.invited.len() < INVITATIONS_MAX || state.invited.contains_key(&server) {
                state.invited.insert(server, now + span.min(INVITED_MAX));
            }
        }
        drop(state);
        self.servers.notify_one();
    }

    /// The link is to be closed: its credit is taken back first, so that no assignment is on its way when it ends.
    pub(crate) fn release(&self, link: LinkNo) {
        let mut state = self.state();
        state.credits.release(link);
        self.replan(&mut state);
    }

    /// The link is needed after all.
    pub(crate) fn retain(&self, link: LinkNo) {
        let mut state = self.state();
        if state.credits.retain(link) {
            self.replan(&mut state);
        }
    }
}
