//! A TCP proxy that can be told to misbehave: the network between two parts of a cluster,
//! on machines where nobody may touch the real one.
//!
//! It holds bytes back, delays and drips them, and cuts connections; it never changes,
//! reorders or forgets them, because TCP does not. A direction that is stalled goes on
//! where it stopped, as a network does that was mended before anybody gave up.

mod peer;
mod pump;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

pub use peer::Known;

/// How bytes travel in one direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Flow {
    #[default]
    Open,
    /// Not at all.
    Stalled,
    /// Every byte is forwarded with this delay.
    Late(Duration),
    /// In small pieces, with a pause after each.
    Drip { bytes: usize, pause: Duration },
}

/// What happens to a connection, as seen by the one who dials.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Link {
    pub there: Flow,
    pub back: Flow,
    pub refuses: bool,
}

impl Link {
    pub const OPEN: Self = Self { there: Flow::Open, back: Flow::Open, refuses: false };
    pub const CUT: Self = Self { there: Flow::Stalled, back: Flow::Stalled, refuses: false };
    pub const NO_REQUESTS: Self = Self { there: Flow::Stalled, ..Self::OPEN };
    pub const NO_ANSWERS: Self = Self { back: Flow::Stalled, ..Self::OPEN };

    pub const fn late(latency: Duration) -> Self {
        Self { there: Flow::Late(latency), back: Flow::Late(latency), refuses: false }
    }
}

/// Who is treated how. A dialler is known by its process.
#[derive(Debug, Clone, Default)]
struct Book {
    all: Link,
    by_pid: HashMap<u32, Link>,
    /// Connections with a lower number are cut.
    cut: u64,
    /// The same number for connections of one process.
    cut_pid: HashMap<u32, u64>,
}

impl Book {
    fn link(&self, pid: Option<u32>) -> Link {
        pid.and_then(|pid| self.by_pid.get(&pid)).copied().unwrap_or(self.all)
    }

    fn is_cut(&self, pid: Option<u32>, number: u64) -> bool {
        let cut_pid = pid.and_then(|pid| self.cut_pid.get(&pid)).copied().unwrap_or(0);
        number < self.cut.max(cut_pid)
    }
}

#[derive(Debug, Default)]
struct Counters {
    opened: AtomicU64,
    cut: AtomicU64,
    held: AtomicU64,
}

/// What the proxy did to connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    pub opened: u64,
    pub cut: u64,
    /// Bytes that arrived for a direction that was stalled.
    pub held: u64,
}

#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    target: Arc<Mutex<Option<SocketAddr>>>,
    book: watch::Sender<Book>,
    counters: Arc<Counters>,
    accepting: tokio::task::JoinHandle<()>,
}

impl Proxy {
    /// Listens on a free port. Until it has a target, it accepts nobody.
    pub async fn start(host: IpAddr, known: Known) -> std::io::Result<Self> {
        let listener = TcpListener::bind((host, 0)).await?;
        let address = listener.local_addr()?;
        let (book, rules) = watch::channel(Book::default());
        let counters = Arc::new(Counters::default());
        let target = Arc::new(Mutex::new(None));
        let accepting = tokio::spawn(accept(listener, Arc::clone(&target), rules, Arc::clone(&counters), known));
        Ok(Self { address, target, book, counters, accepting })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn lead_to(&self, target: SocketAddr) {
        *self.target.lock().unwrap_or_else(PoisonError::into_inner) = Some(target);
    }

    /// For everybody without rules of their own.
    pub fn set(&self, link: Link) {
        self.book.send_modify(|book| book.all = link);
    }

    /// For the connections of one process.
    pub fn set_for(&self, pid: u32, link: Link) {
        self.book.send_modify(|book| {
            book.by_pid.insert(pid, link);
        });
    }

    /// As if nothing had ever been said. Cut connections stay cut.
    pub fn heal(&self) {
        self.book.send_modify(|book| {
            book.all = Link::OPEN;
            book.by_pid.clear();
        });
    }

    /// Ends all connections with a reset.
    pub fn reset_all(&self) {
        let opened = self.counters.opened.load(Ordering::Relaxed);
        self.book.send_modify(|book| book.cut = opened);
    }

    /// Ends the connections of these processes with a reset.
    pub fn cut_of(&self, pids: &[u32]) {
        let opened = self.counters.opened.load(Ordering::Relaxed);
        self.book.send_modify(|book| book.cut_pid.extend(pids.iter().map(|pid| (*pid, opened))));
    }

    pub fn counts(&self) -> Counts {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counts { opened: read(&self.counters.opened), cut: read(&self.counters.cut), held: read(&self.counters.held) }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// How a connection ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Orderly,
    /// By one of its ends.
    Reset,
    /// By the run.
    Cut,
}

/// One connection through the proxy.
struct Passage {
    pid: Option<u32>,
    number: u64,
    rules: watch::Receiver<Book>,
    counters: Arc<Counters>,
}

async fn accept(
    listener: TcpListener,
    target: Arc<Mutex<Option<SocketAddr>>>,
    rules: watch::Receiver<Book>,
    counters: Arc<Counters>,
    known: Known,
) {
    while let Ok((dialled, from)) = listener.accept().await {
        let number = counters.opened.fetch_add(1, Ordering::Relaxed);
        let passage =
            Passage { pid: known.owner_of(from), number, rules: rules.clone(), counters: Arc::clone(&counters) };
        let target = *target.lock().unwrap_or_else(PoisonError::into_inner);
        tokio::spawn(async move {
            let link = passage.rules.borrow().link(passage.pid);
            // A connection to nobody ends as the kernel would end it.
            let Some(target) = target.filter(|_| !link.refuses) else { return reset(&dialled) };
            passage.open(dialled, target).await;
        });
    }
}

fn reset(stream: &TcpStream) {
    // A stream that is gone already needs no reset.
    let _ = stream.set_zero_linger();
}

impl Passage {
    async fn open(self, mut dialled: TcpStream, target: SocketAddr) {
        // A dialler beyond a cut does not reach the target either.
        let is_reachable = |book: &Book| book.link(self.pid).there != Flow::Stalled;
        let mut rules = self.rules.clone();
        if rules.wait_for(|book| is_reachable(book) || book.is_cut(self.pid, self.number)).await.is_err() {
            return reset(&dialled);
        }
        let Ok(mut reached) = TcpStream::connect(target).await else { return reset(&dialled) };
        let _ = (dialled.set_nodelay(true), reached.set_nodelay(true));
        let end = {
            let (from_dialled, to_dialled) = dialled.split();
            let (from_reached, to_reached) = reached.split();
            let there = pump::pump(&self, from_dialled, to_reached, |link| link.there);
            let back = pump::pump(&self, from_reached, to_dialled, |link| link.back);
            // One whose other end was reset would wait for an answer for ever.
            let both = async { tokio::try_join!(there, back) };
            tokio::select! {
                ended = both => if ended.is_ok() { End::Orderly } else { End::Reset },
                () = cut(&mut rules, self.pid, self.number) => End::Cut,
            }
        };
        if end == End::Cut {
            self.counters.cut.fetch_add(1, Ordering::Relaxed);
        }
        if end != End::Orderly {
            reset(&dialled);
            reset(&reached);
        }
    }
}

async fn cut(rules: &mut watch::Receiver<Book>, pid: Option<u32>, number: u64) {
    if rules.wait_for(|book| book.is_cut(pid, number)).await.is_err() {
        // The proxy is gone; its connections go on until one side ends them.
        std::future::pending().await
    }
}
