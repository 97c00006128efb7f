//! What a store does when its disk, its file or its write-ahead log is not what it should be.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use punctual_core::ShardId;
use punctual_core::shard::write::Epoch;
use punctual_store::{Filter, JobReads, NewJob, Order, Store, StoreError, StoreFault, Submission, Submit, Transitions};
use punctual_store_sqlite::{DataLoss, Options, SqliteStore, check_whole};
use punctual_store_tests::fixture::*;
use tempfile::TempDir;

fn options() -> Options {
    Options { wal_kept_bytes: 1 << 20, ..Options::new(Arc::new(|| at(0))) }
}

fn open_at(folder: &Path) -> Result<SqliteStore, StoreError> {
    SqliteStore::open(&folder.join("jobs.db"), options())
}

fn open_accepting(folder: &Path) -> SqliteStore {
    let options = Options { data_loss: DataLoss::Accept, ..options() };
    SqliteStore::open(&folder.join("jobs.db"), options).unwrap()
}

fn refusal(folder: &Path) -> StoreError {
    match open_at(folder) {
        Ok(_) => panic!("the store was opened"),
        Err(error) => error,
    }
}

fn fault(result: Result<impl std::fmt::Debug, StoreError>) -> StoreFault {
    match result {
        Err(StoreError::Faulty { fault, .. }) => fault,
        other => panic!("{other:?}"),
    }
}

fn data_loss(folder: &Path) -> String {
    match refusal(folder) {
        StoreError::DataLoss(text) => text,
        other => panic!("{other:?}"),
    }
}

/// One commit each.
async fn submit_some(store: &SqliteStore, from: u64, count: u64) {
    for n in from..from + count {
        let job = NewJob { input: Some(vec![7; 3000].into()), ..new_job(n, 10 + n as i64, 1) };
        submit(store, vec![job]).await.unwrap();
    }
}

async fn listed(store: &SqliteStore) -> Result<usize, StoreError> {
    Ok(store.list_jobs(Filter::default(), first_page(Order::Ascending, 1000)).await?.hot.rows.len())
}

/// The files as a kill of the process would leave them now.
fn crash_image(folder: &TempDir) -> TempDir {
    let image = tempfile::tempdir().unwrap();
    for name in ["jobs.db", "jobs.db-wal", "jobs.db-commits"] {
        fs::copy(folder.path().join(name), image.path().join(name)).unwrap();
    }
    image
}

fn overwrite(path: PathBuf, at: u64, bytes: &[u8]) {
    File::options().write(true).open(path).unwrap().write_all_at(bytes, at).unwrap();
}

async fn with_jobs(count: u64) -> (TempDir, SqliteStore) {
    let folder = tempfile::tempdir().unwrap();
    let store = open_at(folder.path()).unwrap();
    with_task(&store).await;
    submit_some(&store, 0, count).await;
    (folder, store)
}

/// Closed in good order, so that all of it is in the file.
async fn stopped_with_jobs(count: u64) -> TempDir {
    let (folder, store) = with_jobs(count).await;
    store.close().await.unwrap();
    folder
}

#[tokio::test]
async fn a_killed_store_opens_with_all_its_commits() {
    let (folder, _store) = with_jobs(20).await;
    let image = crash_image(&folder);
    assert_eq!(listed(&open_at(image.path()).unwrap()).await.unwrap(), 20);
}

#[tokio::test]
async fn a_removed_write_ahead_log_is_refused_with_the_number_of_lost_commits() {
    let (folder, store) = with_jobs(5).await;
    store.close().await.unwrap();
    drop(store);
    let store = open_at(folder.path()).unwrap();
    submit_some(&store, 100, 30).await;
    let image = crash_image(&folder);
    fs::remove_file(image.path().join("jobs.db-wal")).unwrap();
    let text = data_loss(image.path());
    // The migration check at the start writes too, and its commits are not counted.
    assert!(text.contains("has lost its last 30 commits of "), "{text}");
    assert!(text.contains("--accept-data-loss") && text.contains("backup"), "{text}");
    let accepted = open_accepting(image.path());
    assert_eq!(listed(&accepted).await.unwrap(), 5);
    accepted.close().await.unwrap();
    drop(accepted);
    assert_eq!(listed(&open_at(image.path()).unwrap()).await.unwrap(), 5, "the loss was accepted once");
}

#[tokio::test]
async fn after_a_loss_that_was_accepted_starts_of_before_prove_nothing() {
    let (folder, store) = with_jobs(1).await;
    let job = NewJob { input: None, ..new_job(50, 10, 1) };
    submit(&store, vec![job.clone()]).await.unwrap();
    let mut owner = Owner::new(&store, 1).await;
    owner.done(vec![start(original(&job), 1)]).await;
    let before = owner.epoch(1);
    assert_eq!(store.open_starts(ShardId(1)).await.unwrap().whole_since, Epoch(0), "nothing was lost so far");
    let image = crash_image(&folder);
    submit_some(&store, 100, 3).await;
    let later = crash_image(&folder);
    fs::copy(later.path().join("jobs.db-commits"), image.path().join("jobs.db-commits")).unwrap();
    assert!(data_loss(image.path()).contains("has lost its last 3 commits"));

    let accepted = open_accepting(image.path());
    let owner = Owner::new(&accepted, 2).await;
    let open = accepted.open_starts(ShardId(1)).await.unwrap();
    assert_eq!(open.running.len(), 1);
    assert!(open.whole_since > before && open.whole_since <= owner.epoch(1), "{open:?}");
    accepted.close().await.unwrap();
    drop(accepted);
    let again = open_at(image.path()).unwrap();
    assert_eq!(again.open_starts(ShardId(1)).await.unwrap().whole_since, open.whole_since, "it is remembered");
}

#[tokio::test]
async fn bad_bytes_in_the_middle_of_the_write_ahead_log_show() {
    let (folder, _store) = with_jobs(40).await;
    let image = crash_image(&folder);
    overwrite(image.path().join("jobs.db-wal"), 200_000, &[0xff; 64]);
    let text = data_loss(image.path());
    assert!(text.contains("has lost its last"), "{text}");
}

#[tokio::test]
async fn a_log_that_is_removed_after_an_orderly_stop_is_not_missed() {
    let folder = stopped_with_jobs(7).await;
    fs::remove_file(folder.path().join("jobs.db-wal")).unwrap();
    assert_eq!(listed(&open_at(folder.path()).unwrap()).await.unwrap(), 7);
}

#[tokio::test]
async fn an_older_copy_in_the_place_of_the_database_is_refused() {
    let folder = stopped_with_jobs(3).await;
    let copy = folder.path().join("copy");
    fs::copy(folder.path().join("jobs.db"), &copy).unwrap();
    let store = open_at(folder.path()).unwrap();
    submit_some(&store, 100, 10).await;
    store.close().await.unwrap();
    drop(store);
    fs::rename(&copy, folder.path().join("jobs.db")).unwrap();
    fs::remove_file(folder.path().join("jobs.db-wal")).unwrap();
    let text = data_loss(folder.path());
    assert!(text.contains("has lost its last 10 commits"), "{text}");
}

#[tokio::test]
async fn another_database_in_its_place_is_refused() {
    let (folder, other) = (stopped_with_jobs(3).await, stopped_with_jobs(5).await);
    fs::copy(other.path().join("jobs.db"), folder.path().join("jobs.db")).unwrap();
    let text = data_loss(folder.path());
    assert!(text.contains("is another database than"), "{text}");
    assert_eq!(listed(&open_accepting(folder.path())).await.unwrap(), 5);
}

#[tokio::test]
async fn an_empty_database_is_not_made_where_there_was_one() {
    let folder = stopped_with_jobs(3).await;
    let file = folder.path().join("jobs.db");
    let kept = folder.path().join("kept");
    fs::rename(&file, &kept).unwrap();
    for _ in 0..2 {
        let text = data_loss(folder.path());
        assert!(text.contains("jobs.db is missing") && text.contains("restore a backup"), "{text}");
    }
    File::create(&file).unwrap();
    let text = data_loss(folder.path());
    assert!(text.contains("jobs.db is empty"), "{text}");
    // Without the count of commits, the log is left to tell of it.
    fs::remove_file(folder.path().join("jobs.db-commits")).unwrap();
    let text = data_loss(folder.path());
    assert!(text.contains("there is a write-ahead log beside it"), "{text}");
    fs::rename(&kept, &file).unwrap();
    assert_eq!(listed(&open_at(folder.path()).unwrap()).await.unwrap(), 3);
}

#[tokio::test]
async fn a_lost_header_is_damage_and_not_a_file_of_another_kind() {
    let folder = stopped_with_jobs(3).await;
    overwrite(folder.path().join("jobs.db"), 0, &[0; 100]);
    assert_eq!(fault(Err::<(), _>(refusal(folder.path()))), StoreFault::Corrupt);
}

#[tokio::test]
async fn damaged_pages_are_found_at_the_start() {
    let folder = stopped_with_jobs(300).await;
    let file = folder.path().join("jobs.db");
    let pages = fs::metadata(&file).unwrap().len() / 4096;
    // Into the header of each of the last pages.
    for page in pages - 50..pages {
        overwrite(file.clone(), page * 4096, &[0xa5; 8]);
    }
    let error = refusal(folder.path());
    assert!(error.to_string().contains(" table "), "{error}");
    assert_eq!(fault(Err::<(), _>(error)), StoreFault::Corrupt);
}

#[tokio::test]
async fn a_whole_check_also_compares_indexes_with_tables() {
    let folder = stopped_with_jobs(50).await;
    let file = folder.path().join("jobs.db");
    let mut seen = Vec::new();
    let checked = check_whole(&file, |table| seen.push(table.to_owned())).unwrap();
    assert!(checked.is_whole() && seen.contains(&"job".to_owned()), "{seen:?}");
    // The index is taken out of the schema for one change of the table, which it then does not know of.
    let raw = |sql: &str| {
        let conn = rusqlite::Connection::open(&file).unwrap();
        conn.execute_batch(&format!("PRAGMA writable_schema = ON; {sql}")).unwrap();
    };
    raw("CREATE TABLE kept AS SELECT * FROM sqlite_schema WHERE name = 'task_live_name';
         DELETE FROM sqlite_schema WHERE name = 'task_live_name'");
    raw("UPDATE task SET name = 'other'");
    raw("INSERT INTO sqlite_schema SELECT * FROM kept; DROP TABLE kept");
    let error = check_whole(&file, |_| ()).unwrap_err();
    assert!(error.to_string().contains("task_live_name"), "{error}");
    assert_eq!(fault(Err::<(), _>(error)), StoreFault::Corrupt);
}

#[tokio::test]
async fn damage_that_shows_while_the_store_is_open_stops_reads_and_writes() {
    let folder = stopped_with_jobs(300).await;
    let store = open_at(folder.path()).unwrap();
    let file = folder.path().join("jobs.db");
    let pages = fs::metadata(&file).unwrap().len() / 4096;
    for page in 1..pages {
        overwrite(file.clone(), page * 4096, &[0xa5; 4096]);
    }
    assert_eq!(fault(listed(&store).await), StoreFault::Corrupt);
    // What is asked after the alarm finds nothing to read, and leaves the files as they are.
    let before = (fs::read(&file).unwrap(), fs::read(folder.path().join("jobs.db-wal")).unwrap());
    assert_eq!(fault(store.probe().await), StoreFault::Corrupt);
    assert_eq!(fault(store.job(new_job(1, 11, 1).id).await), StoreFault::Corrupt);
    assert_eq!(
        fault(store.submit(Submission { jobs: vec![new_job(1, 1, 1)], idempotency: None, batch: None }).await),
        StoreFault::Corrupt
    );
    store.close().await.unwrap();
    drop(store);
    let after = (fs::read(&file).unwrap(), fs::read(folder.path().join("jobs.db-wal")).unwrap());
    assert!(before == after);
}

#[tokio::test]
async fn writes_stop_while_the_file_is_elsewhere_and_go_on_when_it_is_back() {
    let (folder, store) = with_jobs(3).await;
    for name in ["jobs.db", "jobs.db-wal"] {
        let (file, elsewhere) = (folder.path().join(name), folder.path().join("elsewhere"));
        store.probe().await.unwrap();
        fs::rename(&file, &elsewhere).unwrap();
        assert_eq!(fault(store.probe().await), StoreFault::FileReplaced, "{name}");
        let answer = store.submit(Submission { jobs: vec![new_job(50, 1, 1)], idempotency: None, batch: None }).await;
        assert_eq!(fault(answer), StoreFault::FileReplaced, "{name}");
        assert_eq!(listed(&store).await.unwrap(), 3, "what is there can be read");
        // Another file at the path is not the one.
        File::create(&file).unwrap();
        assert_eq!(fault(store.probe().await), StoreFault::FileReplaced, "{name}");
        fs::rename(&elsewhere, &file).unwrap();
        store.probe().await.unwrap();
    }
}

#[tokio::test]
async fn a_store_whose_files_were_all_deleted_is_not_made_anew_in_silence() {
    let (folder, store) = with_jobs(3).await;
    for file in fs::read_dir(folder.path()).unwrap() {
        fs::remove_file(file.unwrap().path()).unwrap();
    }
    assert_eq!(fault(store.probe().await), StoreFault::FileReplaced);
    store.close().await.unwrap();
    drop(store);
    let text = data_loss(folder.path());
    assert!(text.contains("jobs.db is missing, and "), "{text}");
}

#[tokio::test]
async fn the_lock_does_not_depend_on_the_file_beside_the_database() {
    let (folder, store) = with_jobs(3).await;
    fs::remove_file(folder.path().join("jobs.db.lock")).unwrap();
    let error = refusal(folder.path());
    assert!(matches!(error, StoreError::InUse(_)), "{error:?}");
    submit_some(&store, 10, 1).await;
    drop(store);
    assert_eq!(listed(&open_at(folder.path()).unwrap()).await.unwrap(), 4);
}

#[tokio::test]
async fn a_probe_is_a_commit() {
    let (folder, store) = with_jobs(1).await;
    let counted = || fs::read_to_string(folder.path().join("jobs.db-commits")).unwrap();
    let before = counted();
    store.probe().await.unwrap();
    assert_ne!(counted(), before);
}
