//! The changes that a peer sends.

use std::collections::VecDeque;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream;
use punctual_app::{Heard, PeerChanges};
use punctual_proto::peer as wire;
use punctual_proto::peer_convert as convert;
use tonic::Streaming;

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
