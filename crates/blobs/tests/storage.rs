//! One set of facts for both kinds of storage.

use bytes::Bytes;
use futures_util::stream::{self, TryStreamExt};
use http::Method;
use punctual_blobs::{BadUrl, BlobError, Blobs, Key, S3Settings, ServedBy, SignedUrl, UrlKey};
use punctual_core::{Span, Timestamp};
use punctual_local_s3::{BUCKET, KEY_ID, LocalS3, REGION, SECRET};
use tempfile::TempDir;

#[test]
fn child_that_serves_s3() {
    punctual_local_s3::serve_if_asked();
}

struct Fixture {
    blobs: Blobs,
    s3: Option<LocalS3>,
    folder: TempDir,
}

fn folder() -> Fixture {
    let folder = tempfile::tempdir().unwrap();
    let blobs = Blobs::folder(&folder.path().join("storage"), UrlKey::derive(&[1; 32])).unwrap();
    Fixture { blobs, s3: None, folder }
}

fn settings(s3: &LocalS3) -> S3Settings {
    S3Settings {
        bucket: BUCKET.to_owned(),
        prefix: "some/where".to_owned(),
        region: REGION.to_owned(),
        endpoint: Some(s3.endpoint()),
        key_id: KEY_ID.to_owned(),
        secret: SECRET.to_owned(),
        session_token: None,
    }
}

fn s3() -> Fixture {
    let s3 = LocalS3::start("child_that_serves_s3");
    let blobs = Blobs::s3(&settings(&s3)).unwrap();
    Fixture { blobs, s3: Some(s3), folder: tempfile::tempdir().unwrap() }
}

macro_rules! on_both {
    ($($name:ident)*) => {
        mod in_a_folder {
            $(#[tokio::test]
            async fn $name() {
                super::$name(super::folder()).await;
            })*
        }
        mod in_s3 {
            $(#[tokio::test]
            async fn $name() {
                super::$name(super::s3()).await;
            })*
        }
    };
}

on_both! {
    a_blob_reads_back_whole_and_in_parts
    a_blob_of_many_parts_reads_back
    an_upload_is_invisible_until_it_is_finished
    an_upload_that_is_dropped_or_fails_leaves_nothing
    a_blob_that_is_too_large_is_refused
    a_blob_that_is_not_there_is_not_found
    a_blob_can_be_replaced_copied_and_deleted
    blobs_are_listed_by_folder_in_order
    blobs_of_inner_folders_are_listed_in_order_of_their_keys
    signed_urls_are_good_for_what_was_signed
}

fn key(text: &str) -> Key {
    Key::new(text).unwrap()
}

async fn put(blobs: &Blobs, name: &str, bytes: &[u8]) {
    // In small pieces, as they come from a network.
    let pieces: Vec<_> = bytes.chunks(1000).map(|piece| Ok(Bytes::copy_from_slice(piece))).collect();
    assert_eq!(blobs.put(&key(name), u64::MAX, stream::iter(pieces)).await.unwrap(), bytes.len() as u64);
}

async fn read(blobs: &Blobs, name: &str, range: Option<std::ops::Range<u64>>) -> Vec<u8> {
    let blob = blobs.get(&key(name), range).await.unwrap();
    let pieces: Vec<Bytes> = blob.bytes.try_collect().await.unwrap();
    assert_eq!(pieces.iter().map(|piece| piece.len() as u64).sum::<u64>(), blob.range.end - blob.range.start);
    pieces.concat()
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|n| (n % 251) as u8).collect()
}

async fn a_blob_reads_back_whole_and_in_parts(it: Fixture) {
    let bytes = pattern(5_000);
    put(&it.blobs, "artifacts/one", &bytes).await;
    put(&it.blobs, "artifacts/empty", b"").await;
    assert_eq!(it.blobs.head(&key("artifacts/one")).await.unwrap(), Some(5_000));
    assert_eq!(read(&it.blobs, "artifacts/one", None).await, bytes);
    assert_eq!(read(&it.blobs, "artifacts/one", Some(10..20)).await, bytes[10..20]);
    assert_eq!(read(&it.blobs, "artifacts/one", Some(4_990..9_999)).await, bytes[4_990..]);
    assert_eq!(read(&it.blobs, "artifacts/one", Some(7_000..9_999)).await, b"");
    assert_eq!(read(&it.blobs, "artifacts/empty", None).await, b"");
}

async fn a_blob_of_many_parts_reads_back(it: Fixture) {
    let bytes = pattern((20 << 20) + 7);
    let pieces: Vec<_> = bytes.chunks(1 << 20).map(|piece| Ok(Bytes::copy_from_slice(piece))).collect();
    it.blobs.put(&key("large"), u64::MAX, stream::iter(pieces)).await.unwrap();
    assert!(read(&it.blobs, "large", None).await == bytes);
    let middle = (8 << 20) - 3..(16 << 20) + 3;
    assert!(read(&it.blobs, "large", Some(middle.clone())).await == bytes[middle.start as usize..middle.end as usize]);
}

async fn an_upload_is_invisible_until_it_is_finished(it: Fixture) {
    let mut upload = it.blobs.upload(&key("a/b"), 100).await.unwrap();
    upload.write(Bytes::from_static(b"half")).await.unwrap();
    assert_eq!(it.blobs.head(&key("a/b")).await.unwrap(), None);
    assert_eq!(it.blobs.list(&key("a"), None, 10).await.unwrap(), []);
    upload.write(Bytes::from_static(b" and half")).await.unwrap();
    assert_eq!(upload.finish().await.unwrap(), 13);
    assert_eq!(read(&it.blobs, "a/b", None).await, b"half and half");
}

async fn an_upload_that_is_dropped_or_fails_leaves_nothing(it: Fixture) {
    let mut upload = it.blobs.upload(&key("a/b"), 100).await.unwrap();
    upload.write(Bytes::from_static(b"half")).await.unwrap();
    drop(upload);
    let broken = stream::iter([Ok(Bytes::from_static(b"half")), Err(BlobError::Unavailable("cut".to_owned()))]);
    let result = it.blobs.put(&key("a/b"), 100, broken).await;
    assert!(matches!(result, Err(BlobError::Unavailable(_))), "{result:?}");
    assert_eq!(it.blobs.head(&key("a/b")).await.unwrap(), None);
    if it.s3.is_none() {
        let left = std::fs::read_dir(it.folder.path().join("storage/.uploads")).unwrap().count();
        assert_eq!(left, 0);
    }
}

async fn a_blob_that_is_too_large_is_refused(it: Fixture) {
    let exactly = stream::iter([Ok(Bytes::from(pattern(10)))]);
    assert_eq!(it.blobs.put(&key("ten"), 10, exactly).await.unwrap(), 10);
    let more = stream::iter([Ok(Bytes::from(pattern(10))), Ok(Bytes::from_static(b"x"))]);
    let result = it.blobs.put(&key("eleven"), 10, more).await;
    assert!(matches!(result, Err(BlobError::TooLarge { limit: 10 })), "{result:?}");
    assert_eq!(it.blobs.head(&key("eleven")).await.unwrap(), None);
}

async fn a_blob_that_is_not_there_is_not_found(it: Fixture) {
    assert!(matches!(it.blobs.get(&key("a/b"), None).await.map(drop), Err(BlobError::NotFound)));
    assert_eq!(it.blobs.head(&key("a/b")).await.unwrap(), None);
    it.blobs.delete(&key("a/b")).await.unwrap();
    let copied = it.blobs.copy(&key("a/b"), &key("a/c")).await;
    assert!(matches!(copied, Err(BlobError::NotFound)), "{copied:?}");
    assert_eq!(it.blobs.list(&key("a"), None, 10).await.unwrap(), []);
}

async fn a_blob_can_be_replaced_copied_and_deleted(it: Fixture) {
    put(&it.blobs, "a/b", b"first").await;
    put(&it.blobs, "a/b", b"second").await;
    it.blobs.copy(&key("a/b"), &key("c/d")).await.unwrap();
    put(&it.blobs, "a/b", b"third").await;
    assert_eq!(read(&it.blobs, "c/d", None).await, b"second");
    it.blobs.delete(&key("a/b")).await.unwrap();
    assert_eq!(it.blobs.head(&key("a/b")).await.unwrap(), None);
    assert_eq!(read(&it.blobs, "c/d", None).await, b"second");
}

async fn blobs_are_listed_by_folder_in_order(it: Fixture) {
    for (name, len) in [("list/c", 3), ("list/a", 1), ("list/b", 2), ("other/d", 4)] {
        put(&it.blobs, name, &pattern(len)).await;
    }
    let names = async |after: Option<&str>, limit| {
        let listed = it.blobs.list(&key("list"), after.map(key).as_ref(), limit).await.unwrap();
        listed.into_iter().map(|found| (found.key.to_string(), found.size)).collect::<Vec<_>>()
    };
    let found = |name: &str, size| (name.to_owned(), size);
    assert_eq!(names(None, 10).await, [found("list/a", 1), found("list/b", 2), found("list/c", 3)]);
    assert_eq!(names(None, 2).await, [found("list/a", 1), found("list/b", 2)]);
    assert_eq!(names(Some("list/b"), 2).await, [found("list/c", 3)]);
}

async fn blobs_of_inner_folders_are_listed_in_order_of_their_keys(it: Fixture) {
    let all = ["list/a-1/x", "list/a/b/c", "list/a/b/d", "list/a/e", "list/b"];
    for name in all.iter().rev() {
        put(&it.blobs, name, b"x").await;
    }
    let names = async |after: Option<&str>, limit| {
        let listed = it.blobs.list(&key("list"), after.map(key).as_ref(), limit).await.unwrap();
        listed.into_iter().map(|found| found.key.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(names(None, 10).await, all);
    for (place, after) in all.iter().enumerate() {
        assert_eq!(names(Some(after), 10).await, all[place + 1..], "after {after}");
        assert_eq!(names(Some(after), 1).await, all[place + 1..].iter().take(1).copied().collect::<Vec<_>>());
    }
    for name in all {
        it.blobs.delete(&key(name)).await.unwrap();
    }
    assert_eq!(names(None, 10).await, Vec::<String>::new());
    assert!(!it.folder.path().join("storage/list/a").exists(), "inner folders go with their last blob");
    put(&it.blobs, "list/a/e", b"again").await;
    assert_eq!(names(None, 10).await, ["list/a/e"]);
}

fn at(secs: i64) -> Timestamp {
    Timestamp::EPOCH + Span::from_secs(secs)
}

async fn signed_urls_are_good_for_what_was_signed(it: Fixture) {
    let put = it.blobs.presign_put(&key("a/b"), 5, at(1000), at(1060)).await.unwrap();
    let get = it.blobs.presign_get(&key("a/b"), at(1000), at(1060)).await.unwrap();
    match (it.blobs.served_by(), put, get) {
        (ServedBy::Server, SignedUrl::Here(put), SignedUrl::Here(get)) => {
            assert_eq!(it.blobs.verify(&Method::PUT, &key("a/b"), &put, at(1060)), Ok(()));
            assert_eq!(it.blobs.verify(&Method::GET, &key("a/b"), &get, at(1060)), Ok(()));
            assert_eq!(it.blobs.verify(&Method::GET, &key("a/b"), &put, at(1)), Err(BadUrl::Signature));
            assert_eq!(it.blobs.verify(&Method::PUT, &key("a/b"), &put, at(1061)), Err(BadUrl::Expired));
        }
        (ServedBy::Storage, SignedUrl::Of(put), SignedUrl::Of(get)) => through_s3(&it.blobs, &put, &get).await,
        other => panic!("{other:?}"),
    }
}

/// As a client would, without credentials.
async fn through_s3(blobs: &Blobs, put: &str, get: &str) {
    let client = reqwest::Client::builder().no_proxy().tls_certs_only([]).build().unwrap();
    let sent = client.put(put).body("hello").send().await.unwrap();
    assert!(sent.status().is_success(), "{}", sent.status());
    assert_eq!(blobs.head(&key("a/b")).await.unwrap(), Some(5));
    let fetched = client.get(get).header("range", "bytes=1-3").send().await.unwrap();
    assert_eq!((fetched.status().as_u16(), fetched.text().await.unwrap().as_str()), (206, "ell"));
    // It checks: another method, another object, a changed signature.
    let last = put.chars().last().unwrap();
    let forged = format!("{}{}", &put[..put.len() - 1], if last == '0' { '1' } else { '0' });
    for (name, answer) in [
        ("a get url", client.put(get).body("x").send().await),
        ("another object", client.get(get.replace("/a/b", "/a/c")).send().await),
        ("a changed signature", client.put(forged).body("x").send().await),
    ] {
        assert_eq!(answer.unwrap().status().as_u16(), 403, "{name}");
    }
}

#[tokio::test]
async fn s3_that_is_down_is_unavailable_and_goes_on_when_it_is_back() {
    let mut it = s3();
    put(&it.blobs, "a/b", b"kept").await;
    it.s3.as_mut().unwrap().kill();
    let head = it.blobs.head(&key("a/b")).await;
    assert!(matches!(head, Err(BlobError::Unavailable(_))), "{head:?}");
    let sent = it.blobs.put(&key("a/c"), 10, stream::iter([Ok(Bytes::from_static(b"lost"))])).await;
    assert!(matches!(sent, Err(BlobError::Unavailable(_))), "{sent:?}");
    it.s3.as_mut().unwrap().start_again();
    assert_eq!(read(&it.blobs, "a/b", None).await, b"kept");
    assert_eq!(it.blobs.head(&key("a/c")).await.unwrap(), None);
}

#[tokio::test]
async fn wrong_credentials_are_denied_and_not_shown() {
    let it = s3();
    let wrong = S3Settings { secret: "wrong-and-secret".to_owned(), ..settings(it.s3.as_ref().unwrap()) };
    assert!(!format!("{wrong:?}").contains("wrong-and-secret"));
    let error = Blobs::s3(&wrong).unwrap().head(&key("a/b")).await.unwrap_err();
    assert!(matches!(error, BlobError::Denied(_)), "{error:?}");
    assert!(!format!("{error:?}").contains("wrong-and-secret"), "{error:?}");
}

#[tokio::test]
async fn what_a_crashed_upload_left_is_swept_and_what_is_written_is_not() {
    let it = folder();
    let uploads = it.folder.path().join("storage/.uploads");
    let mut under_way = it.blobs.upload(&key("a/b"), 100).await.unwrap();
    under_way.write(Bytes::from_static(b"half")).await.unwrap();
    let old = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1);
    std::fs::write(uploads.join("99-0-left"), "half of it").unwrap();
    std::fs::write(uploads.join("99-1-new"), "just made").unwrap();
    for entry in std::fs::read_dir(&uploads).unwrap().map(|entry| entry.unwrap().path()) {
        if !entry.ends_with("99-1-new") {
            std::fs::File::options().write(true).open(entry).unwrap().set_modified(old).unwrap();
        }
    }
    assert_eq!(it.blobs.sweep().await.unwrap(), 1);
    assert_eq!(std::fs::read_dir(&uploads).unwrap().count(), 2);
    under_way.finish().await.unwrap();
    assert_eq!(read(&it.blobs, "a/b", None).await, b"half");
}

#[tokio::test]
async fn a_folder_that_cannot_be_made_is_named() {
    let it = folder();
    let file = it.folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    let error = Blobs::folder(&file.join("storage"), UrlKey::derive(&[1; 32])).map(drop).unwrap_err();
    assert!(error.to_string().contains("file/storage"), "{error}");
}
