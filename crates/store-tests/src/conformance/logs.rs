use punctual_core::AttemptNo;
use punctual_store::{LogChunk, LogPiece, Store};

use crate::fixture::*;

fn chunk(attempt: u32, offset: u64, content: &str) -> LogChunk {
    LogChunk { job: job_id(1, 10, 0), attempt: AttemptNo(attempt), offset, bytes: text(content) }
}

async fn read(store: &dyn Store, attempt: u32, offset: u64, limit: usize) -> (String, u64) {
    let LogPiece { bytes, next_offset } =
        store.read_log(job_id(1, 10, 0), AttemptNo(attempt), offset, limit).await.unwrap();
    (String::from_utf8(bytes.to_vec()).unwrap(), next_offset)
}

fn piece(content: &str, next_offset: u64) -> (String, u64) {
    (content.to_owned(), next_offset)
}

pub(super) async fn a_log_is_read_from_any_offset(store: &dyn Store) {
    assert_eq!(read(store, 1, 0, 100).await, piece("", 0));
    store.append_logs(vec![chunk(1, 0, "one "), chunk(1, 4, ""), chunk(1, 4, "two ")]).await.unwrap();
    store.append_logs(vec![chunk(1, 8, "three")]).await.unwrap();
    assert_eq!(read(store, 1, 0, 100).await, piece("one two three", 13));
    assert_eq!(read(store, 1, 4, 100).await, piece("two three", 13));
    assert_eq!(read(store, 1, 6, 100).await, piece("o three", 13));
    assert_eq!(read(store, 1, 13, 100).await, piece("", 13));
    assert_eq!(read(store, 1, 99, 100).await, piece("", 99));
}

pub(super) async fn a_log_has_nothing_at_an_offset_that_no_log_can_have(store: &dyn Store) {
    store.append_logs(vec![chunk(1, 0, "one")]).await.unwrap();
    for offset in [i64::MAX as u64, i64::MAX as u64 + 1, u64::MAX] {
        assert_eq!(read(store, 1, offset, 100).await, piece("", offset));
    }
    assert_inconsistent(store.append_logs(vec![chunk(1, u64::MAX, "x")]).await);
}

pub(super) async fn a_chunk_that_is_there_is_left_as_it_is(store: &dyn Store) {
    store.append_logs(vec![chunk(1, 0, "first")]).await.unwrap();
    store.append_logs(vec![chunk(1, 0, "again"), chunk(1, 5, "!")]).await.unwrap();
    assert_eq!(read(store, 1, 0, 100).await, piece("first!", 6));
}

pub(super) async fn a_read_ends_near_its_limit_but_gives_one_chunk(store: &dyn Store) {
    store.append_logs(vec![chunk(1, 0, "12345678"), chunk(1, 8, "90"), chunk(1, 10, "ab")]).await.unwrap();
    assert_eq!(read(store, 1, 0, 0).await, piece("12345678", 8));
    assert_eq!(read(store, 1, 0, 10).await, piece("1234567890", 10));
    assert_eq!(read(store, 1, 8, 3).await, piece("90", 10));
}

pub(super) async fn logs_of_attempts_are_apart(store: &dyn Store) {
    store.append_logs(vec![chunk(1, 0, "one"), chunk(2, 0, "two")]).await.unwrap();
    assert_eq!(read(store, 1, 0, 100).await, piece("one", 3));
    assert_eq!(read(store, 2, 0, 100).await, piece("two", 3));
    assert_eq!(read(store, 3, 0, 100).await, piece("", 0));
}

pub(super) async fn a_lost_chunk_is_skipped(store: &dyn Store) {
    store.append_logs(vec![chunk(1, 0, "one"), chunk(1, 9, "four")]).await.unwrap();
    assert_eq!(read(store, 1, 0, 100).await, piece("onefour", 13));
    assert_eq!(read(store, 1, 5, 100).await, piece("four", 13));
}

pub(super) async fn a_log_ends_where_its_last_chunk_does(store: &dyn Store) {
    let end = async |attempt| store.log_end(job_id(1, 10, 0), AttemptNo(attempt)).await.unwrap();
    assert_eq!(end(1).await, 0);
    store.append_logs(vec![chunk(1, 0, "one"), chunk(1, 9, "four"), chunk(2, 0, "x")]).await.unwrap();
    assert_eq!((end(1).await, end(2).await, end(3).await), (13, 1, 0));
}
