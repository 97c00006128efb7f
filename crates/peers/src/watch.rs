//! Changes of jobs on their way to a peer, and from one.

use std::collections::VecDeque;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::{self, Stream};
use punctual_app::{Heard, PeerChanges};
use punctual_engine::Changes;
use punctual_proto::peer as wire;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};
use tonic::{Status, Streaming};

use crate::convert;

/// Changes that go out in one message.
const CHANGES_MAX: usize = 512;

/// What a peer is sent that watches.
pub(crate) fn replies(changes: Changes) -> impl Stream<Item = Result<wire::WatchReply, Status>> + Send {
    stream::unfold(Watcher { changes, is_told: false }, |mut watcher| async move {
        let reply = watcher.next().await?;
        Some((Ok(reply), watcher))
    })
}

struct Watcher {
    changes: Changes,
    is_told: bool,
}

impl Watcher {
    /// What has accumulated, in one message. The first is empty: the watch is on.
    async fn next(&mut self) -> Option<wire::WatchReply> {
        let mut reply = wire::WatchReply::default();
        if !std::mem::replace(&mut self.is_told, true) {
            return Some(reply);
        }
        match self.changes.recv().await {
            Ok(change) => reply.changes.push(convert::change_to_wire(&change)),
            Err(RecvError::Lagged(count)) => reply.missed = count,
            Err(RecvError::Closed) => return None,
        }
        while reply.changes.len() < CHANGES_MAX {
            match self.changes.try_recv() {
                Ok(change) => reply.changes.push(convert::change_to_wire(&change)),
                Err(TryRecvError::Lagged(count)) => {
                    reply.missed += count;
                    break;
                }
                Err(TryRecvError::Empty | TryRecvError::Closed) => break,
            }
        }
        Some(reply)
    }
}

/// Returns when the peer has said that the watch is on.
pub(crate) async fn changes(mut replies: Streaming<wire::WatchReply>, limit: Duration) -> Result<PeerChanges, String> {
    match tokio::time::timeout(limit, replies.message()).await {
        Ok(Ok(Some(_))) => {}
        Ok(Ok(None)) => return Err("it ended the stream".to_owned()),
        Ok(Err(status)) => return Err(format!("{}: {}", status.code(), status.message())),
        Err(_) => return Err("no answer in time".to_owned()),
    }
    let heard = stream::unfold((replies, VecDeque::new()), |(mut replies, mut ready)| async move {
        loop {
            if let Some(heard) = ready.pop_front() {
                return Some((heard, (replies, ready)));
            }
            let reply = replies.message().await.ok()??;
            if reply.missed > 0 {
                ready.push_back(Heard::Missed(Some(reply.missed)));
            }
            for change in &reply.changes {
                // A state that is not known comes from a newer version: something was missed.
                let change = convert::change_from_wire(change);
                ready.push_back(change.map_or(Heard::Missed(Some(1)), Heard::Change));
            }
        }
    });
    Ok(heard.boxed())
}
