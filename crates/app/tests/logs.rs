//! Logs on their way from the store into objects, on the model store with a clock of the test's own.

mod world;

use std::path::Path;

use bytes::Bytes;
use futures_util::stream;
use punctual_api::ErrorKind;
use punctual_app::NotArchived;
use punctual_blobs::Key;
use punctual_core::log::{LogMark, LogStream, encode_marks};
use punctual_core::shard::write::{Rerun, Write};
use punctual_core::{AttemptNo, JobKey};
use punctual_store::{JobRecord, LogChunk, NewJob, Retention, Store};
use punctual_store_tests::fixture::{Owner, at, counters, new_job, original, owner_of, retried, succeed};

use world::{RETENTION, World};

/// When the attempts of the fixture ended.
const ENDED: i64 = 102;

impl World {
    async fn print(&self, job: &NewJob, attempt: u32, offset: u64, content: &[u8]) {
        let bytes = Bytes::copy_from_slice(content);
        let chunk = LogChunk { job: job.id, attempt: AttemptNo(attempt), offset, bytes, marks: Bytes::new() };
        self.app.append_logs(vec![chunk]).await.unwrap();
    }

    /// With the time `at_ms` and a stream for all of it.
    async fn print_to(&self, stream: LogStream, at_ms: i64, job: &NewJob, offset: u64, content: &str) {
        let marks = encode_marks(offset, &[LogMark { offset, stream, at_ms }]).into();
        let bytes = Bytes::copy_from_slice(content.as_bytes());
        let chunk = LogChunk { job: job.id, attempt: AttemptNo(2), offset, bytes, marks };
        self.app.append_logs(vec![chunk]).await.unwrap();
    }

    /// Each line of the second attempt with its stream and its time in milliseconds.
    async fn lines(&self, job: &NewJob) -> Vec<(String, String, i64)> {
        let (mut lines, mut offset) = (Vec::new(), 0);
        loop {
            let view = self.app.log_lines(job.id, Some(2), offset).await.unwrap();
            lines.extend(view.lines);
            offset = view.next_offset;
            if view.is_complete {
                break;
            }
        }
        let shown = |line: punctual_api::LogLine| {
            let at_ms = line.time.map_or(-1, |time| time.as_micros() / 1000);
            (line.text, line.stream.unwrap_or_default(), at_ms)
        };
        lines.into_iter().map(shown).collect()
    }

    /// All of a log, piece by piece.
    async fn log(&self, job: &NewJob, attempt: u32) -> Vec<u8> {
        let mut log = Vec::new();
        loop {
            let view = self.app.log(job.id, Some(attempt), log.len() as u64).await.unwrap();
            log.extend_from_slice(&view.bytes);
            assert_eq!(view.next_offset, log.len() as u64);
            if view.is_complete {
                return log;
            }
        }
    }

    async fn path(&self, job: &NewJob, attempt: u32) -> Option<String> {
        let job = self.app.job(job.id, None).await.unwrap();
        job.attempts.into_iter().find(|found| found.attempt == attempt)?.log_path
    }

    /// Keys in the storage, and that the objects are what history says.
    fn objects(&self) -> Vec<String> {
        let mut found = Vec::new();
        collect(&self.folder.path().join("logs"), "logs", &mut found);
        found.sort();
        found
    }

    fn pieces(&self) -> usize {
        self.store.kept_logs_now(None, 1000).len()
    }

    /// After the time that an attempt's last pieces have to come.
    async fn archived(&self) {
        self.app.archive_logs().await.unwrap();
    }
}

fn day(secs: i64) -> String {
    at(secs).to_string().chars().take(10).collect()
}

fn collect(folder: &Path, key: &str, found: &mut Vec<String>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let key = format!("{key}/{}", entry.file_name().to_string_lossy());
        if entry.path().is_dir() {
            collect(&entry.path(), &key, found);
        } else {
            found.push(key);
        }
    }
}

/// A job whose first attempt failed and whose second succeeded.
async fn tried_twice(store: &dyn Store) -> (NewJob, Owner<'_>) {
    let job = new_job(1, 10, 0);
    let mut owner = owner_of(store, std::slice::from_ref(&job)).await;
    owner.done(vec![Write::Requeue(retried(original(&job), 1, at(20)))]).await;
    owner.done(vec![succeed(JobKey { due_at: at(20), id: job.id }, 2)]).await;
    (job, owner)
}

#[tokio::test]
async fn a_log_moves_into_one_object_and_reads_the_same() {
    let world = World::new().await;
    let (job, _owner) = tried_twice(&world.store).await;
    let long: Vec<u8> = (0..700_000_u32).map(|n| b'a' + (n % 26) as u8).collect();
    for (n, piece) in long.chunks(64 << 10).enumerate() {
        world.print(&job, 2, (n * (64 << 10)) as u64, piece).await;
    }
    world.print(&job, 1, 0, b"first").await;
    world.pass(ENDED + 2);
    world.archived().await;
    assert_eq!(world.objects(), Vec::<String>::new(), "its last pieces may still come");
    world.pass(1);
    world.archived().await;
    assert_eq!((world.pieces(), world.objects().len()), (0, 2));
    assert_eq!((world.log(&job, 1).await, world.log(&job, 2).await), (b"first".to_vec(), long.clone()));
    let path = world.path(&job, 2).await.unwrap();
    assert!(path.starts_with(&format!("logs/{}/", day(ENDED))) && path.contains(&job.id.to_string()), "{path}");
    assert_eq!(std::fs::read(world.folder.path().join(&path)).unwrap(), long);
    let from = world.app.log(job.id, None, 300_000).await.unwrap();
    assert_eq!(from.bytes[..], long[300_000..300_000 + from.bytes.len()]);
    let beyond = world.app.log(job.id, None, 700_001).await.unwrap();
    assert!(beyond.bytes.is_empty() && beyond.is_complete && beyond.next_offset == 700_001);
    // There is nothing left to do.
    let before = world.objects();
    world.archived().await;
    assert_eq!(world.objects(), before);
}

#[tokio::test]
async fn an_attempt_that_ended_is_archived_although_its_job_goes_on() {
    let world = World::new().await;
    let (job, mut owner) = tried_twice(&world.store).await;
    let again = Rerun { id: job.id, due_at: at(40), counters: counters(3, 0, 0) };
    owner.done(vec![Write::Rerun(again)]).await;
    world.print(&job, 1, 0, b"first").await;
    world.print(&job, 3, 0, b"it runs").await;
    world.pass(ENDED + 3);
    world.archived().await;
    assert_eq!(world.pieces(), 1, "what runs stays");
    assert!(world.path(&job, 1).await.is_some());
    assert_eq!(world.path(&job, 2).await, None, "it printed nothing");
    assert_eq!(world.log(&job, 1).await, b"first");
    owner.done(vec![succeed(JobKey { due_at: at(40), id: job.id }, 3)]).await;
    world.archived().await;
    assert_eq!(world.log(&job, 3).await, b"it runs");
    assert_eq!((world.pieces(), world.objects().len()), (0, 2));
}

#[tokio::test]
async fn pieces_that_come_late_make_no_second_log() {
    let world = World::new().await;
    let (job, _owner) = tried_twice(&world.store).await;
    world.print(&job, 2, 0, b"one ").await;
    world.pass(ENDED + 3);
    world.archived().await;
    let first = world.objects();
    // A worker that was cut off says everything again.
    world.print(&job, 2, 0, b"one ").await;
    assert_eq!(world.log(&job, 2).await, b"one ");
    world.archived().await;
    assert_eq!((world.objects(), world.pieces()), (first.clone(), 0));
    // And something that nobody had heard.
    world.print(&job, 2, 0, b"one ").await;
    world.print(&job, 2, 4, b"two").await;
    assert_eq!(world.log(&job, 2).await, b"one two", "before it is moved");
    world.archived().await;
    assert_eq!(world.log(&job, 2).await, b"one two");
    assert_eq!((world.objects().len(), world.pieces()), (1, 0));
    assert_ne!(world.objects(), first, "an object never changes");
    // Other words at the same place change nothing.
    world.print(&job, 2, 0, b"ONE TWO").await;
    world.archived().await;
    assert_eq!(world.log(&job, 2).await, b"one two");
}

#[tokio::test]
async fn a_place_that_no_piece_covers_is_filled_when_it_comes() {
    let world = World::new().await;
    let (job, _owner) = tried_twice(&world.store).await;
    world.print(&job, 2, 0, b"one ").await;
    world.print(&job, 2, 8, b"three").await;
    world.pass(ENDED + 3);
    world.archived().await;
    assert_eq!(world.log(&job, 2).await, b"one \0\0\0\0three");
    world.print(&job, 2, 4, b"two ").await;
    world.archived().await;
    assert_eq!(world.log(&job, 2).await, b"one two three");
}

#[tokio::test]
async fn a_crash_after_any_step_is_made_good_by_the_next_round() {
    let world = World::new().await;
    let (job, _owner) = tried_twice(&world.store).await;
    world.print(&job, 1, 0, b"first").await;
    world.print(&job, 2, 0, b"second").await;
    world.pass(ENDED + 3);
    // The objects are written, and the power goes before they are recorded.
    let before = world.store.snapshot();
    world.archived().await;
    let objects = world.objects();
    world.store.restore(before);
    assert_eq!(world.log(&job, 2).await, b"second");
    world.archived().await;
    assert_eq!((world.objects(), world.pieces()), (objects, 0), "the same objects again");
    // Recorded under another name, and the power goes before the old object is deleted.
    world.print(&job, 2, 6, b" and more").await;
    let old = world.path(&job, 2).await.unwrap();
    let before = world.store.snapshot();
    world.archived().await;
    let key = Key::new(old.clone()).unwrap();
    world.blobs.put(&key, 100, stream::iter([Ok(Bytes::from_static(b"second"))])).await.unwrap();
    assert_eq!(world.log(&job, 2).await, b"second and more");
    // The power goes before that is recorded, too.
    world.store.restore(before);
    world.archived().await;
    assert_eq!(world.log(&job, 2).await, b"second and more");
    assert!(!world.objects().contains(&old), "{:?}", world.objects());
    assert_eq!(world.objects().len(), 2);
}

#[tokio::test]
async fn while_the_storage_is_away_logs_stay_readable_where_they_are() {
    let world = World::new().await;
    let (job, _owner) = tried_twice(&world.store).await;
    world.print(&job, 1, 0, b"first").await;
    world.print(&job, 2, 0, b"second").await;
    world.pass(ENDED + 3);
    // Where the folder for logs should be is something else.
    std::fs::write(world.folder.path().join("logs"), "").unwrap();
    for _ in 0..2 {
        let error = world.app.archive_logs().await.unwrap_err();
        assert!(matches!(error, NotArchived::Storage(_)), "{error:?}");
        assert_eq!(world.pieces(), 2);
        assert_eq!(world.log(&job, 2).await, b"second");
        assert_eq!(world.path(&job, 2).await, None);
    }
    std::fs::remove_file(world.folder.path().join("logs")).unwrap();
    world.archived().await;
    assert_eq!((world.pieces(), world.objects().len()), (0, 2));
    assert_eq!((world.log(&job, 1).await, world.log(&job, 2).await), (b"first".to_vec(), b"second".to_vec()));
}

#[tokio::test]
async fn an_object_that_somebody_deleted_is_missed_by_name() {
    let world = World::new().await;
    let (job, _owner) = tried_twice(&world.store).await;
    world.print(&job, 2, 0, b"second").await;
    world.pass(ENDED + 3);
    world.archived().await;
    let path = world.path(&job, 2).await.unwrap();
    std::fs::remove_file(world.folder.path().join(&path)).unwrap();
    let error = world.app.log(job.id, None, 0).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::NotFound);
    assert!(error.detail.contains(&path), "{error}");
    assert!(world.app.log_range(job.id, 2, 0..3).await.unwrap_err().detail.contains(&path));
}

#[tokio::test]
async fn the_objects_of_jobs_go_with_them() {
    let world = World::new().await;
    let (job, _owner) = tried_twice(&world.store).await;
    world.print(&job, 1, 0, b"first").await;
    world.print(&job, 2, 0, b"second").await;
    world.pass(ENDED + 3);
    world.archived().await;
    world.store.prune(at(ENDED + 1), at(ENDED + 1), 10).await.unwrap();
    assert_eq!(world.objects().len(), 2, "rows go first");
    // The power goes after the first was deleted.
    std::fs::remove_file(world.folder.path().join(&world.objects()[0])).unwrap();
    world.archived().await;
    assert_eq!(world.objects(), Vec::<String>::new());
    assert_eq!(world.store.dropped_logs_now(10), Vec::<String>::new());
    // What comes after that is nobody's. It goes when no job could be so old.
    world.print(&job, 2, 0, b"late").await;
    world.archived().await;
    assert_eq!(world.pieces(), 1);
    world.pass(RETENTION);
    world.archived().await;
    assert_eq!(world.pieces(), 0);
}

#[tokio::test]
async fn objects_that_nothing_names_are_swept_when_their_day_is_over() {
    let world = World::new().await;
    let (job, _owner) = tried_twice(&world.store).await;
    world.print(&job, 2, 0, b"second").await;
    world.pass(ENDED + 3);
    world.archived().await;
    let named = world.path(&job, 2).await.unwrap();
    let put = async |name: String| {
        let key = Key::new(name).unwrap();
        world.blobs.put(&key, 100, stream::iter([Ok(Bytes::from_static(b"x"))])).await.unwrap();
    };
    let stray = format!("logs/{}/{}/2-0123456789ab.log", day(ENDED), job.id);
    let unknown = format!("logs/{}/{}/1-0123456789ab.log", day(ENDED), new_job(9, 10, 0).id);
    let foreign = format!("logs/{}/notes.txt", day(ENDED));
    let young = format!("logs/{}/{}/1-0123456789ab.log", day(ENDED + 86_400), new_job(9, 10, 0).id);
    for name in [&stray, &unknown, &foreign, &young] {
        put(name.clone()).await;
    }
    assert_eq!(world.app.sweep_files().await.unwrap(), 0, "nothing is old enough");
    world.pass(86_400 + RETENTION);
    // Pieces say that somebody is about to archive it.
    world.print(&job, 2, 6, b" time").await;
    assert_eq!(world.app.sweep_files().await.unwrap(), 1);
    assert!(!world.objects().contains(&unknown) && world.objects().contains(&stray));
    world.archived().await;
    let renamed = world.path(&job, 2).await.unwrap();
    assert_ne!(renamed, named);
    assert_eq!(world.app.sweep_files().await.unwrap(), 1);
    let mut left = vec![renamed, foreign, young];
    left.sort();
    assert_eq!(world.objects(), left);
    assert_eq!(world.log(&job, 2).await, b"second time");
}

#[tokio::test]
async fn a_log_that_is_moved_between_two_looks_is_read_from_its_object() {
    let world = World::new().await;
    let (job, _owner) = tried_twice(&world.store).await;
    world.print(&job, 2, 0, b"second").await;
    world.pass(ENDED + 3);
    let pieces = world.store.snapshot();
    world.archived().await;
    let archived = world.store.snapshot();
    // The reader asks history, finds nothing, and then the log moves.
    for offset in [0, 3] {
        world.store.restore(pieces.clone());
        let (store, after) = (world.store.clone(), archived.clone());
        world.store.before_log(move || store.restore(after));
        let view = world.app.log(job.id, Some(2), offset).await.unwrap();
        assert_eq!((&view.bytes[..], view.is_complete), (&b"second"[offset as usize..], false));
    }
    world.store.restore(pieces);
    let (store, after) = (world.store.clone(), archived);
    world.store.before_log(move || store.restore(after));
    assert_eq!(world.app.log_range(job.id, 2, 1..4).await.unwrap(), "eco");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_sees_the_same_log_while_it_is_moved() {
    let world = World::new().await;
    let jobs: Vec<NewJob> = (0..60).map(|n| new_job(n, 10, 0)).collect();
    let mut owner = owner_of(&world.store, &jobs).await;
    let content = |job: &NewJob| format!("{} says hello\n", job.id).repeat(20).into_bytes();
    for job in &jobs {
        owner.done(vec![succeed(original(job), 1)]).await;
        for (n, piece) in content(job).chunks(100).enumerate() {
            world.print(job, 1, n as u64 * 100, piece).await;
        }
    }
    world.pass(ENDED + 3);
    let moving = async {
        world.archived().await;
        // And moved again, because they grew.
        for job in &jobs {
            world.print(job, 1, content(job).len() as u64, b"").await;
            world.print(job, 1, 0, b"once more").await;
        }
        world.archived().await;
    };
    let reading = async {
        let mut reads = 0;
        while world.pieces() > 0 || reads < 300 {
            for job in &jobs {
                assert_eq!(world.log(job, 1).await, content(job), "after {reads} reads");
                let all = world.app.log_range(job.id, 1, 0..content(job).len() as u64).await.unwrap();
                assert_eq!(all, content(job));
                reads += 1;
                tokio::task::yield_now().await;
            }
        }
    };
    tokio::join!(moving, reading);
    assert_eq!(world.objects().len(), jobs.len());
}

#[tokio::test]
async fn bytes_are_read_by_their_range_wherever_they_are() {
    let world = World::new().await;
    let (job, _owner) = tried_twice(&world.store).await;
    world.print(&job, 2, 0, b"one ").await;
    world.print(&job, 2, 4, b"two").await;
    let check = async |when: &str, end: u64, whole: &[u8]| {
        let size = world.app.log_size(job.id, None).await.unwrap();
        assert_eq!((size.attempt, size.bytes, size.is_over), (2, end, true), "{when}");
        for (first, last) in [(0, end), (2, 5), (0, 1), (end - 1, end)] {
            let bytes = world.app.log_range(job.id, 2, first..last).await.unwrap();
            assert_eq!(bytes, whole[first as usize..last as usize], "{when}: {first}..{last}");
        }
    };
    check("in pieces", 7, b"one two").await;
    world.pass(ENDED + 3);
    world.archived().await;
    check("in an object", 7, b"one two").await;
    world.print(&job, 2, 7, b" three").await;
    check("in both", 13, b"one two three").await;
    world.archived().await;
    check("in one object again", 13, b"one two three").await;
    assert_eq!(world.app.log_size(job.id, Some(1)).await.unwrap().bytes, 0);
}

#[tokio::test]
async fn letters_are_not_torn_apart() {
    let world = World::new().await;
    let (job, _owner) = tried_twice(&world.store).await;
    // The limit of one answer lies within a letter.
    let text = format!("{}€ and \u{1f980}", "x".repeat((256 << 10) - 1));
    for (n, piece) in text.as_bytes().chunks(64 << 10).enumerate() {
        world.print(&job, 2, (n * (64 << 10)) as u64, piece).await;
    }
    // What is torn in the log itself comes as it is.
    world.print(&job, 1, 0, b"half a letter: \xe2\x82").await;
    world.pass(ENDED + 3);
    for _ in 0..2 {
        let first = world.app.log(job.id, Some(2), 0).await.unwrap();
        assert!(std::str::from_utf8(&first.bytes).is_ok());
        assert_eq!(world.log(&job, 2).await, text.as_bytes());
        assert_eq!(world.log(&job, 1).await, b"half a letter: \xe2\x82");
        world.archived().await;
    }
    match world.store.job_now(job.id).unwrap() {
        JobRecord::Finished { attempts, .. } => assert!(attempts.iter().all(|attempt| attempt.log.is_some())),
        JobRecord::Hot { .. } => panic!("it has finished"),
    }
}

#[tokio::test]
async fn pieces_that_the_store_does_not_take_at_once_are_tried_again() {
    let world = World::new().await;
    let (job, _owner) = tried_twice(&world.store).await;
    world.store.refuse_logs(2);
    world.print(&job, 2, 0, b"at last").await;
    assert_eq!(world.log(&job, 2).await, b"at last");
}

#[tokio::test]
async fn times_and_streams_follow_a_log_into_its_object_and_go_with_it() {
    let world = World::new().await;
    let (job, owner) = tried_twice(&world.store).await;
    world.print_to(LogStream::Stdout, 7, &job, 0, "one\n").await;
    world.print_to(LogStream::Stderr, 8, &job, 4, "two\n").await;
    let line = |text: &str, stream: &str, at_ms| (text.to_owned(), stream.to_owned(), at_ms);
    let first = [line("one", "stdout", 7), line("two", "stderr", 8)];
    assert_eq!(world.lines(&job).await, first);
    world.pass(ENDED + 3);
    world.archived().await;
    assert_eq!((world.pieces(), world.objects().len()), (0, 2), "the log, and the marks beside it");
    assert_eq!(world.lines(&job).await, first);
    // A piece that comes late makes a new object of both, and the old ones go.
    world.print_to(LogStream::Stdout, 9, &job, 8, "three\n").await;
    let all = [&first[..], &[line("three", "stdout", 9)]].concat();
    assert_eq!(world.lines(&job).await, all);
    world.archived().await;
    assert_eq!((world.pieces(), world.objects().len()), (0, 2), "{:?}", world.objects());
    assert_eq!(world.lines(&job).await, all);
    world.store.prune(at(ENDED + 1), at(ENDED + 1), 10).await.unwrap();
    world.archived().await;
    assert_eq!(world.objects(), Vec::<String>::new());
    drop(owner);
}

#[tokio::test]
async fn marks_that_are_none_are_not_kept_and_the_text_is() {
    let world = World::new().await;
    let (job, _owner) = tried_twice(&world.store).await;
    for (offset, marks) in [(0, &b"\xff\xff"[..]), (4, b""), (8, &[0; 4096])] {
        let (bytes, marks) = (Bytes::from_static(b"all\n"), Bytes::copy_from_slice(marks));
        let chunk = LogChunk { job: job.id, attempt: AttemptNo(2), offset, bytes, marks };
        world.app.append_logs(vec![chunk]).await.unwrap();
    }
    let line = ("all".to_owned(), String::new(), -1);
    assert_eq!(world.lines(&job).await, [line.clone(), line.clone(), line]);
}
