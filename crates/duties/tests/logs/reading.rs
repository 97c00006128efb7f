//! A log reads the same wherever it is.

use bytes::Bytes;
use punctual_app::AttemptNumbers;
use punctual_core::AttemptNo;
use punctual_core::log::LogStream;
use punctual_store::{JobRecord, LogChunk, NewJob, Retention, Submission, Submit};
use punctual_store_tests::fixture::{at, new_job, original, owner_of, succeed};

use super::{ENDED, tried_twice};
use crate::world::{World, by};

#[tokio::test]
async fn a_log_that_is_moved_between_two_looks_is_read_from_its_object() {
    let world = World::new().await;
    let (job, _owner) = tried_twice(&world.store).await;
    world.print(&job, 2, 0, b"second").await;
    world.pass(ENDED + 3);
    let pieces = world.store.snapshot();
    world.archive().await;
    let archived = world.store.snapshot();
    // The reader asks history, finds nothing, and then the log moves.
    for offset in [0, 3] {
        world.store.restore(pieces.clone());
        let (store, after) = (world.store.clone(), archived.clone());
        world.store.before_log(move || store.restore(after));
        let view = world.app.log(&by(&world.app), job.id, Some(2), offset).await.unwrap();
        assert_eq!((&view.bytes[..], view.is_complete), (&b"second"[offset as usize..], false));
    }
    world.store.restore(pieces);
    let (store, after) = (world.store.clone(), archived);
    world.store.before_log(move || store.restore(after));
    assert_eq!(world.app.log_range(&by(&world.app), job.id, 2, 1..4).await.unwrap(), "eco");
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
        world.archive().await;
        // And moved again, because they grew.
        for job in &jobs {
            world.print(job, 1, content(job).len() as u64, b"").await;
            world.print(job, 1, 0, b"once more").await;
        }
        world.archive().await;
    };
    let reading = async {
        let mut reads = 0;
        while world.pieces() > 0 || reads < 300 {
            for job in &jobs {
                assert_eq!(world.log(job, 1).await, content(job), "after {reads} reads");
                let all = world.app.log_range(&by(&world.app), job.id, 1, 0..content(job).len() as u64).await.unwrap();
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
        let size = world.app.log_size(&by(&world.app), job.id, None).await.unwrap();
        assert_eq!((size.attempt, size.bytes, size.is_over), (2, end, true), "{when}");
        for (first, last) in [(0, end), (2, 5), (0, 1), (end - 1, end)] {
            let bytes = world.app.log_range(&by(&world.app), job.id, 2, first..last).await.unwrap();
            assert_eq!(bytes, whole[first as usize..last as usize], "{when}: {first}..{last}");
        }
    };
    check("in pieces", 7, b"one two").await;
    world.pass(ENDED + 3);
    world.archive().await;
    check("in an object", 7, b"one two").await;
    world.print(&job, 2, 7, b" three").await;
    check("in both", 13, b"one two three").await;
    world.archive().await;
    check("in one object again", 13, b"one two three").await;
    assert_eq!(world.app.log_size(&by(&world.app), job.id, Some(1)).await.unwrap().bytes, 0);
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
        let first = world.app.log(&by(&world.app), job.id, Some(2), 0).await.unwrap();
        assert!(std::str::from_utf8(&first.bytes).is_ok());
        assert_eq!(world.log(&job, 2).await, text.as_bytes());
        assert_eq!(world.log(&job, 1).await, b"half a letter: \xe2\x82");
        world.archive().await;
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
    world.archive().await;
    assert_eq!((world.pieces(), world.objects().len()), (0, 2), "the log, and the marks beside it");
    assert_eq!(world.lines(&job).await, first);
    // A piece that comes late makes a new object of both, and the old ones go.
    world.print_to(LogStream::Stdout, 9, &job, 8, "three\n").await;
    let all = [&first[..], &[line("three", "stdout", 9)]].concat();
    assert_eq!(world.lines(&job).await, all);
    world.archive().await;
    assert_eq!((world.pieces(), world.objects().len()), (0, 2), "{:?}", world.objects());
    assert_eq!(world.lines(&job).await, all);
    world.store.prune(at(ENDED + 1), at(ENDED + 1), 10).await.unwrap();
    world.archive().await;
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

#[tokio::test]
async fn readers_learn_which_attempts_a_job_has() {
    let world = World::new().await;
    let (job, _owner) = tried_twice(&world.store).await;
    let known = world.app.attempt_numbers(&by(&world.app), job.id).await.unwrap();
    assert_eq!(known, AttemptNumbers { ended: 2, latest: 2, is_final: true, is_uncertain: false });
    // Nobody owns the shard of the next one, so an attempt may be running.
    let waiting = new_job(2, 10, 1);
    world.store.submit(Submission { jobs: vec![waiting.clone()], idempotency: None, batch: None }).await.unwrap();
    let known = world.app.attempt_numbers(&by(&world.app), waiting.id).await.unwrap();
    assert_eq!(known, AttemptNumbers { ended: 0, latest: 0, is_final: false, is_uncertain: true });
    assert!(
        world.app.log(&by(&world.app), waiting.id, Some(1), 0).await.is_ok()
            && world.app.log(&by(&world.app), job.id, Some(3), 0).await.is_err()
    );
    assert!(world.app.attempt_numbers(&by(&world.app), new_job(9, 10, 1).id).await.is_err());
}
