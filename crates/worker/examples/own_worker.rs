//! A worker of one's own: a function with a name, and nothing else.

use punctual_worker::{JobContext, Worker, WorkerError};

#[tokio::main]
async fn main() -> Result<(), WorkerError> {
    Worker::connect("http://127.0.0.1:8020")
        .slots(16)
        .handler("resize", |job: JobContext| async move {
            job.log("resizing");
            Ok(job.input().cloned())
        })
        .run()
        .await
}
