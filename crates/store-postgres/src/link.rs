//! A connection that is made again when it was lost, and a few of them for work that needs
//! one alone. A call is answered soon in any case: while the database cannot be reached,
//! most are refused at once and one in a while tries.

use std::ops::Deref;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use punctual_store::{Result, StoreError};
use tokio::sync::{Mutex as AsyncMutex, Semaphore, SemaphorePermit};
use tokio::time::Instant;

use crate::connection::{Class, Conn};
use crate::instance::Instance;
use crate::target::Target;
use crate::tls::MakeTls;

const BACKOFF_FIRST: Duration = Duration::from_millis(50);
const BACKOFF_MAX: Duration = Duration::from_secs(1);

/// What every connection is made from.
pub(crate) struct Origin {
    pub(crate) target: Target,
    pub(crate) tls: MakeTls,
    /// The host that answered last: others are tried after it.
    host: AtomicUsize,
    /// Connections that were made before it rose are not used any more.
    round: Arc<AtomicU64>,
    /// Counts the connections that were made: after one, a failure from before says nothing any more.
    made: AtomicU64,
}

impl Origin {
    pub(crate) fn new(url: &str) -> Result<Self> {
        let target = Target::parse(url)?;
        let tls = MakeTls::new(&target.trust)?;
        Ok(Self { target, tls, host: AtomicUsize::new(0), round: Arc::default(), made: AtomicU64::new(0) })
    }

    pub(crate) async fn open(&self, class: Class) -> Result<Conn> {
        let host = self.host.load(Ordering::Relaxed);
        let (conn, host) = Conn::open(&self.target, &self.tls, class, host, &self.round).await?;
        self.host.store(host, Ordering::Relaxed);
        Ok(conn)
    }

    /// Whatever is done next is done on new connections.
    pub(crate) fn connect_anew(&self) {
        self.round.fetch_add(1, Ordering::Relaxed);
    }
}

pub(crate) struct Link {
    origin: Arc<Origin>,
    class: Class,
    /// Asked before anybody uses a new connection.
    instance: Arc<Instance>,
    state: AsyncMutex<State>,
}

#[derive(Default)]
struct State {
    conn: Option<Arc<Conn>>,
    failure: Option<Failure>,
}

struct Failure {
    error: StoreError,
    backoff: Duration,
    retry_at: Instant,
    /// How many connections of all links had been made by then.
    made: u64,
}

impl Link {
    pub(crate) fn new(origin: Arc<Origin>, class: Class, instance: Arc<Instance>) -> Self {
        Self { origin, class, instance, state: AsyncMutex::default() }
    }

    /// The connection, made anew if need be.
    pub(crate) async fn conn(&self) -> Result<Arc<Conn>> {
        let mut state = self.state.lock().await;
        if let Some(conn) = &state.conn
            && conn.is_usable()
        {
            return Ok(conn.clone());
        }
        state.conn = None;
        if let Some(failure) = &state.failure
            && Instant::now() < failure.retry_at
            && failure.made == self.origin.made.load(Ordering::Relaxed)
        {
            return Err(failure.error.clone());
        }
        let made = self.origin.made.load(Ordering::Relaxed);
        let opened = match self.origin.open(self.class).await {
            Ok(conn) => self.instance.confirm(&conn).await.map(|()| conn).map_err(StoreError::from),
            Err(error) => Err(error),
        };
        match opened {
            Ok(conn) => {
                self.origin.made.fetch_add(1, Ordering::Relaxed);
                let conn = Arc::new(conn);
                *state = State { conn: Some(conn.clone()), failure: None };
                Ok(conn)
            }
            Err(error) => {
                let before = state.failure.as_ref().map(|failure| failure.backoff * 2);
                let backoff = before.unwrap_or(BACKOFF_FIRST).min(BACKOFF_MAX);
                let failure = Failure { error: error.clone(), backoff, retry_at: Instant::now() + backoff, made };
                state.failure = Some(failure);
                Err(error)
            }
        }
    }
}

/// A few links, each used by one call at a time: for what takes more than one statement.
pub(crate) struct Pool {
    links: Vec<Link>,
    free: Semaphore,
    idle: Mutex<Vec<usize>>,
}

impl Pool {
    pub(crate) fn new(origin: &Arc<Origin>, class: Class, count: usize, instance: &Arc<Instance>) -> Self {
        let links = (0..count).map(|_| Link::new(origin.clone(), class, instance.clone())).collect();
        Self { links, free: Semaphore::new(count), idle: Mutex::new((0..count).collect()) }
    }

    pub(crate) async fn take(&self) -> Result<Borrowed<'_>> {
        let permit = self.free.acquire().await.map_err(|_| StoreError::Closed)?;
        let place = self.idle().pop().expect("a permit stands for an idle link");
        // Gives the place back if the connection cannot be made.
        let mut borrowed = Borrowed { pool: self, place, conn: None, is_clean: false, _permit: permit };
        borrowed.conn = Some(self.links[place].conn().await?);
        Ok(borrowed)
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<usize>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn close(&self) {
        self.free.close();
    }
}

pub(crate) struct Borrowed<'p> {
    pool: &'p Pool,
    place: usize,
    conn: Option<Arc<Conn>>,
    is_clean: bool,
    // Dropped after the place was given back.
    _permit: SemaphorePermit<'p>,
}

impl Borrowed<'_> {
    pub(crate) fn shared(&self) -> &Arc<Conn> {
        self.conn.as_ref().expect("it is taken with its connection")
    }

    /// Nothing is under way on the connection: the next call may have it.
    pub(crate) fn done(mut self) {
        self.is_clean = true;
    }
}

impl Deref for Borrowed<'_> {
    type Target = Conn;
    fn deref(&self) -> &Conn {
        self.conn.as_ref().expect("it is taken with its connection")
    }
}

impl Drop for Borrowed<'_> {
    fn drop(&mut self) {
        // The caller stopped in the middle, perhaps of a transaction.
        if let Some(conn) = self.conn.as_ref().filter(|_| !self.is_clean) {
            conn.give_up();
        }
        self.pool.idle().push(self.place);
    }
}
