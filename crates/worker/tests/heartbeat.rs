//! The heartbeat goes on whatever the executors do.

mod far_side;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc;

use far_side::*;
use punctual_worker::{JobContext, Worker};

#[tokio::test]
async fn heartbeats_go_on_while_every_thread_of_the_runtime_is_blocked() {
    const THREADS: usize = 2;
    let mut server = FarServer::start().await;
    let (block, unblock) = mpsc::channel::<()>();
    let unblock = Arc::new(std::sync::Mutex::new(unblock));
    let blocked = Arc::new(std::sync::Barrier::new(THREADS + 1));
    let entered = blocked.clone();
    let worker = Worker::connect(server.url()).handler("block", move |_: JobContext| {
        let (entered, unblock) = (entered.clone(), unblock.clone());
        async move {
            entered.wait();
            // Ends when the test does: no thread of the runtime is left to do anything else.
            let _ = unblock.lock().unwrap().recv();
            Ok(None)
        }
    });
    // The worker's runtime, with all of its threads for the handlers to block.
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(THREADS).enable_all().build().unwrap();
    let worker = runtime.spawn(worker.run());

    let stream = server.accept().await;
    stream.send(welcome_message(10, 0));
    stream.assign(handler_task("block"), &[job(1), job(2)]);
    let barrier = blocked.clone();
    within("the handlers", tokio::task::spawn_blocking(move || barrier.wait())).await.unwrap();
    while server.heartbeats.try_recv().is_ok() {}
    for _ in 0..5 {
        let heartbeat = within("a heartbeat", server.heartbeats.recv()).await.unwrap();
        assert_eq!(heartbeat.worker_id, stream.hello.worker_id);
    }
    worker.abort();
    drop(block);
    runtime.shutdown_background();
}

#[tokio::test]
async fn a_worker_that_the_server_does_not_know_says_hello_again() {
    let mut server = FarServer::start().await;
    let _worker = run(Worker::connect(server.url()).standard_executors());
    let stream = server.accept().await;
    server.known.store(false, Ordering::SeqCst);
    stream.send(welcome_message(10, 0));
    let again = server.accept().await;
    assert_eq!(again.hello.worker_id, stream.hello.worker_id);
}
