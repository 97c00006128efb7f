//! Carries the bytes of one direction.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::time::Instant;

use super::{Book, Flow, Link, Passage};

/// More than this on its way, and the sender has to wait, as with a real network.
const ON_THE_WAY_BYTES_MAX: usize = 1 << 20;
const CHUNK_BYTES: usize = 64 << 10;

/// Until the sender ends or an end is gone. An end is passed on when all before it was. An error says that an end was reset.
pub(super) async fn pump(
    passage: &Passage,
    mut from: ReadHalf<'_>,
    mut to: WriteHalf<'_>,
    direction: fn(&Link) -> Flow,
) -> io::Result<()> {
    let mut rules = passage.rules.clone();
    let mut on_the_way: VecDeque<(Instant, Vec<u8>)> = VecDeque::new();
    let mut bytes_on_the_way = 0;
    let mut chunk = vec![0; CHUNK_BYTES];
    let mut has_ended = false;
    loop {
        let flow = direction(&rules.borrow_and_update().link(passage.pid));
        if has_ended && on_the_way.is_empty() {
            return to.shutdown().await;
        }
        let next_at = match (flow, on_the_way.front()) {
            (Flow::Stalled, _) | (_, None) => None,
            (Flow::Late(_), Some((at, _))) => Some(*at),
            (Flow::Open | Flow::Drip { .. }, Some(_)) => Some(Instant::now()),
        };
        let deliver = async {
            match next_at {
                Some(at) => tokio::time::sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            read = from.read(&mut chunk), if !has_ended && bytes_on_the_way < ON_THE_WAY_BYTES_MAX => {
                let len = match read {
                    Ok(len) => len,
                    Err(error) => {
                        // A reset does not get through a stalled link either.
                        let passes = |book: &Book| direction(&book.link(passage.pid)) != Flow::Stalled;
                        let _ = rules.wait_for(passes).await;
                        return Err(error);
                    }
                };
                has_ended = len == 0;
                if flow == Flow::Open && on_the_way.is_empty() {
                    to.write_all(&chunk[..len]).await?;
                } else if len > 0 {
                    if flow == Flow::Stalled {
                        passage.counters.held.fetch_add(len as u64, Ordering::Relaxed);
                    }
                    let latency = if let Flow::Late(latency) = flow { latency } else { Duration::ZERO };
                    on_the_way.push_back((Instant::now() + latency, chunk[..len].to_vec()));
                    bytes_on_the_way += len;
                }
            }
            () = deliver => {
                let (_, bytes) = on_the_way.pop_front().expect("something is on the way");
                bytes_on_the_way -= bytes.len();
                write(&mut to, &bytes, flow).await?;
            }
            changed = rules.changed() => {
                if changed.is_err() {
                    return Ok(());
                }
            }
        }
    }
}

async fn write(to: &mut WriteHalf<'_>, bytes: &[u8], flow: Flow) -> io::Result<()> {
    let Flow::Drip { bytes: piece, pause } = flow else { return to.write_all(bytes).await };
    for piece in bytes.chunks(piece.max(1)) {
        to.write_all(piece).await?;
        tokio::time::sleep(pause).await;
    }
    Ok(())
}
