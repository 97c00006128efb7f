//! The one thread that writes. It takes everything that is queued, runs it in one
//! transaction, and answers after the COMMIT: while one flush is under way the
//! next group gathers, so no timer is needed and an idle store adds no wait.
//!
//! A refused operation leaves nothing behind and disturbs no other. When SQLite
//! itself fails, the whole group is rolled back and every caller is told.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use punctual_core::{NamespaceId, TaskId, Timestamp};
use punctual_store::{Graphs, Result, StoreError};
use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};

use crate::answers::Answers;
use crate::commits::Commits;
use crate::health::Health;

/// More operations in one transaction would keep the first of them waiting.
const GROUP_OPERATIONS_MAX: usize = 2_000;
/// A transaction ends once it has written about so many rows, for the same reason.
const GROUP_ROWS_MAX: usize = 10_000;
/// What waits beyond this waits in its caller.
const INBOX_MAX: usize = 4_000;

/// Why an operation did not do what it was asked to.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The operation alone: it left nothing behind.
    Refused(StoreError),
    /// SQLite: whoever shares the transaction fails as well.
    Broken(rusqlite::Error),
}

impl Failure {
    pub(crate) fn inconsistent(text: impl Into<String>) -> Self {
        Self::Refused(StoreError::Inconsistent(text.into()))
    }

    pub(crate) fn into_error(self, health: &Health) -> StoreError {
        match self {
            Self::Refused(error) => error,
            Self::Broken(error) => health.judge(&error),
        }
    }
}

impl From<rusqlite::Error> for Failure {
    fn from(error: rusqlite::Error) -> Self {
        use rusqlite::Error as E;
        match error {
            E::FromSqlConversionFailure(..) | E::IntegralValueOutOfRange(..) | E::InvalidColumnType(..) => {
                Self::inconsistent(format!("a value cannot be read: {error}"))
            }
            error => match error.sqlite_error_code() {
                Some(rusqlite::ErrorCode::ConstraintViolation) => {
                    Self::inconsistent(format!("it is there already: {error}"))
                }
                Some(rusqlite::ErrorCode::TooBig) => Self::inconsistent("a value is too large to be stored"),
                _ => Self::Broken(error),
            },
        }
    }
}

/// What storing a job needs to know of its task.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KnownTask {
    /// By which rows refer to it.
    pub(crate) number: i64,
    pub(crate) namespace: NamespaceId,
    /// At least until then its row says that it is used.
    pub(crate) used_until: Timestamp,
}

/// What an operation works with.
pub(crate) struct Db {
    pub(crate) conn: Connection,
    /// Tasks that were looked up; emptied when something is rolled back.
    pub(crate) known_tasks: HashMap<TaskId, KnownTask>,
    /// Definitions that runs are stepped by; emptied when the transaction is rolled back.
    pub(crate) graphs: Graphs,
    /// `None` in a database without a file.
    commits: Option<Commits>,
}

impl Db {
    pub(crate) fn new(conn: Connection, commits: Option<Commits>) -> Self {
        Self { conn, known_tasks: HashMap::new(), graphs: Graphs::default(), commits }
    }

    /// For operations that may find out halfway that they must refuse.
    pub(crate) fn all_or_nothing<T>(
        &mut self,
        run: impl FnOnce(&mut Self) -> std::result::Result<T, Failure>,
    ) -> std::result::Result<T, Failure> {
        self.statement("SAVEPOINT operation")?;
        let result = run(self);
        if let Err(Failure::Refused(_)) = result {
            self.known_tasks.clear();
            self.statement("ROLLBACK TO operation")?;
        }
        if !matches!(result, Err(Failure::Broken(_))) {
            self.statement("RELEASE operation")?;
        }
        result
    }

    fn statement(&self, text: &str) -> rusqlite::Result<()> {
        self.conn.prepare_cached(text)?.execute([]).map(drop)
    }
}

/// One call: run inside the transaction, answered after it.
pub(crate) trait Operation: Send {
    fn rows(&self) -> usize;
    fn run(&mut self, db: &mut Db) -> rusqlite::Result<()>;
    /// `failed` says why the transaction did not commit.
    fn answer(self: Box<Self>, failed: Option<&StoreError>);
}

struct Call<T, F> {
    rows: usize,
    run: Option<F>,
    result: Option<Result<T>>,
    reply: oneshot::Sender<Result<T>>,
}

impl<T, F> Operation for Call<T, F>
where
    T: Send,
    F: FnOnce(&mut Db) -> std::result::Result<T, Failure> + Send,
{
    fn rows(&self) -> usize {
        self.rows
    }

    fn run(&mut self, db: &mut Db) -> rusqlite::Result<()> {
        let run = self.run.take().expect("an operation runs once");
        self.result = Some(match run(db) {
            Ok(value) => Ok(value),
            Err(Failure::Refused(error)) => Err(error),
            Err(Failure::Broken(error)) => return Err(error),
        });
        Ok(())
    }

    fn answer(self: Box<Self>, failed: Option<&StoreError>) {
        let result = match failed {
            None => self.result.expect("a committed operation ran"),
            Some(why) => Err(why.clone()),
        };
        // A caller that stopped waiting does not want the answer.
        let _ = self.reply.send(result);
    }
}

enum Message {
    Run(Box<dyn Operation>),
    Close,
}

pub(crate) struct Writer {
    inbox: Option<mpsc::Sender<Message>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Writer {
    pub(crate) fn start(db: Db, health: Arc<Health>) -> Result<Self> {
        let (inbox, messages) = mpsc::channel(INBOX_MAX);
        let answers = Answers::start();
        let thread = std::thread::Builder::new()
            .name("sqlite-writer".to_owned())
            .spawn(move || write_until_closed(db, &health, &answers, messages))
            .map_err(|error| StoreError::Unavailable(format!("cannot start the writer: {error}")))?;
        Ok(Self { inbox: Some(inbox), thread: Mutex::new(Some(thread)) })
    }

    pub(crate) async fn write<T: Send + 'static>(
        &self,
        rows: usize,
        run: impl FnOnce(&mut Db) -> std::result::Result<T, Failure> + Send + 'static,
    ) -> Result<T> {
        let (reply, answer) = oneshot::channel();
        let call = Call { rows, run: Some(run), result: None, reply };
        self.send(Message::Run(Box::new(call))).await?;
        answer.await.map_err(|_| StoreError::Closed)?
    }

    async fn send(&self, message: Message) -> Result<()> {
        let inbox = self.inbox.as_ref().ok_or(StoreError::Closed)?;
        inbox.send(message).await.map_err(|_| StoreError::Closed)
    }

    pub(crate) async fn close(&self) -> Result<()> {
        // An error says that it is closed already.
        let _ = self.send(Message::Close).await;
        let Some(thread) = self.take_thread() else { return Ok(()) };
        let joined = tokio::task::spawn_blocking(move || thread.join()).await;
        match joined {
            Ok(Ok(())) => Ok(()),
            _ => Err(StoreError::Unavailable("the writer ended in a panic".to_owned())),
        }
    }

    fn take_thread(&self) -> Option<JoinHandle<()>> {
        self.thread.lock().ok().and_then(|mut thread| thread.take())
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.inbox = None;
        if let Some(thread) = self.take_thread() {
            let _ = thread.join();
        }
    }
}

fn write_until_closed(mut db: Db, health: &Health, answers: &Answers, mut messages: mpsc::Receiver<Message>) {
    let mut received = Vec::with_capacity(GROUP_OPERATIONS_MAX);
    let mut group = Vec::with_capacity(GROUP_OPERATIONS_MAX);
    // Zero: every sender is gone, and so is everything that was queued.
    while messages.blocking_recv_many(&mut received, GROUP_OPERATIONS_MAX) > 0 {
        let mut rows = 0;
        for message in received.drain(..) {
            match message {
                Message::Run(operation) => {
                    rows += operation.rows();
                    group.push(operation);
                    if rows >= GROUP_ROWS_MAX {
                        rows = 0;
                        commit_group(&mut db, health, answers, &mut group);
                    }
                }
                Message::Close => messages.close(),
            }
        }
        commit_group(&mut db, health, answers, &mut group);
    }
    if health.is_corrupt() {
        // Whoever repairs it wants the file and the log as they are.
        return;
    }
    // What remains in the log is read again at the next start, so a failure here loses nothing.
    // Whether somebody was in the way, and how many pages of the log are in the file.
    let read = |row: &rusqlite::Row<'_>| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?, row.get::<_, i64>(2)?));
    match db.conn.query_row("PRAGMA wal_checkpoint(RESTART)", [], read) {
        Ok((0, logged, moved)) if logged == moved => db.commits.iter_mut().for_each(Commits::stopped),
        Ok(_) => {}
        Err(error) => tracing::warn!(%error, "the last checkpoint failed"),
    }
}

fn commit_group(db: &mut Db, health: &Health, answers: &Answers, group: &mut Vec<Box<dyn Operation>>) {
    if group.is_empty() {
        return;
    }
    let failed = match health.writable() {
        Ok(()) => run_group(db, group).err().map(|error| roll_back(db, health, &error)),
        Err(error) => {
            db.commits.iter().for_each(Commits::leave_note);
            Some(error)
        }
    };
    if failed.is_none() {
        db.commits.iter_mut().for_each(Commits::committed);
        health.committed();
    }
    answers.give(group, failed);
}

fn roll_back(db: &mut Db, health: &Health, error: &rusqlite::Error) -> StoreError {
    db.known_tasks.clear();
    db.graphs.forget();
    if !db.conn.is_autocommit()
        && let Err(error) = db.statement("ROLLBACK")
    {
        tracing::error!(%error, "a failed transaction could not be rolled back");
    }
    let judged = health.judge(error);
    // Faults are logged where they begin and end.
    if !matches!(judged, StoreError::Faulty { .. }) {
        tracing::error!(%error, "a transaction failed");
    }
    judged
}

fn run_group(db: &mut Db, group: &mut [Box<dyn Operation>]) -> rusqlite::Result<()> {
    db.statement("BEGIN IMMEDIATE")?;
    for operation in group {
        operation.run(db)?;
    }
    if let Some(commits) = &db.commits {
        commits.count(&db.conn)?;
    }
    db.statement("COMMIT")
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use punctual_store::StoreFault;

    use super::*;

    fn writer() -> Writer {
        let conn = Connection::open_in_memory().unwrap();
        conn.execute_batch("CREATE TABLE seen (n INTEGER PRIMARY KEY)").unwrap();
        let health = Health::new(Path::new("nowhere.db"), &[]).unwrap();
        Writer::start(Db::new(conn, None), Arc::new(health)).unwrap()
    }

    fn insert(n: i64) -> impl FnOnce(&mut Db) -> std::result::Result<(), Failure> + Send {
        move |db| Ok(db.conn.execute("INSERT INTO seen VALUES (?1)", [n]).map(drop)?)
    }

    async fn seen(writer: &Writer) -> Vec<i64> {
        let read = |db: &mut Db| {
            let mut statement = db.conn.prepare("SELECT n FROM seen ORDER BY n")?;
            let rows = statement.query_map([], |row| row.get(0))?;
            Ok(rows.collect::<rusqlite::Result<_>>()?)
        };
        writer.write(1, read).await.unwrap()
    }

    /// Keeps the writer busy until the sender is dropped, so that what follows is one group.
    async fn hold(writer: &Writer) -> (impl Future<Output = Result<()>>, std::sync::mpsc::Sender<()>) {
        let (release, held) = std::sync::mpsc::channel::<()>();
        let (begun, has_begun) = oneshot::channel();
        let mut holding = Box::pin(writer.write(1, move |_| {
            let _ = begun.send(());
            let _ = held.recv();
            Ok(())
        }));
        tokio::select! {
            _ = &mut holding => panic!("it is held"),
            _ = has_begun => {}
        }
        (holding, release)
    }

    #[tokio::test]
    async fn a_refused_operation_leaves_its_group_alone() {
        let writer = writer();
        let (holding, release) = hold(&writer).await;
        let refused = |db: &mut Db| {
            db.all_or_nothing(|db| {
                insert(2)(db)?;
                Err::<(), _>(Failure::inconsistent("no"))
            })
        };
        let group = async {
            tokio::join!(writer.write(1, insert(1)), writer.write(1, refused), writer.write(1, insert(3)), async {
                drop(release)
            })
        };
        let (held, (one, two, three, ())) = tokio::join!(holding, group);
        assert!(held.is_ok() && one.is_ok() && three.is_ok());
        assert!(matches!(two, Err(StoreError::Inconsistent(_))), "{two:?}");
        assert_eq!(seen(&writer).await, [1, 3]);
    }

    #[tokio::test]
    async fn when_sqlite_fails_the_whole_group_fails_and_the_next_one_works() {
        let writer = writer();
        let (holding, release) = hold(&writer).await;
        let broken = |db: &mut Db| Ok(db.conn.execute_batch("SELECT * FROM nowhere")?);
        let group = async {
            tokio::join!(writer.write(1, insert(1)), writer.write(1, broken), writer.write(1, insert(3)), async {
                drop(release)
            })
        };
        let (held, (one, two, three, ())) = tokio::join!(holding, group);
        assert!(held.is_ok(), "it was in the group before");
        for answer in [one, two, three] {
            assert!(matches!(answer, Err(StoreError::Unavailable(_))), "{answer:?}");
        }
        assert_eq!(seen(&writer).await, Vec::<i64>::new());
        writer.write(1, insert(4)).await.unwrap();
        assert_eq!(seen(&writer).await, [4]);
    }

    #[tokio::test]
    async fn a_full_disk_is_named_and_writes_go_on_when_there_is_space() {
        let writer = writer();
        let limit =
            |pages| move |db: &mut Db| Ok(db.conn.execute_batch(&format!("PRAGMA max_page_count = {pages}"))?);
        let fill = |db: &mut Db| {
            db.conn.execute_batch("CREATE TABLE large (x); INSERT INTO large VALUES (zeroblob(1000000))")?;
            Ok(())
        };
        writer.write(1, limit(3)).await.unwrap();
        let answer = writer.write(1, fill).await;
        assert!(matches!(answer, Err(StoreError::Faulty { fault: StoreFault::DiskFull, .. })), "{answer:?}");
        writer.write(1, limit(1 << 20)).await.unwrap();
        writer.write(1, fill).await.unwrap();
    }

    #[tokio::test]
    async fn a_group_that_holds_many_rows_is_split() {
        let writer = writer();
        let (holding, release) = hold(&writer).await;
        let broken = |db: &mut Db| Ok(db.conn.execute_batch("SELECT * FROM nowhere")?);
        let group = async {
            tokio::join!(writer.write(GROUP_ROWS_MAX, insert(1)), writer.write(1, broken), async { drop(release) })
        };
        let (_, (large, broken, ())) = tokio::join!(holding, group);
        assert!(large.is_ok() && broken.is_err());
        assert_eq!(seen(&writer).await, [1]);
    }
}
