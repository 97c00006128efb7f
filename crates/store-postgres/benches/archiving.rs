//! What moving logs out costs beside a million finished jobs without logs, on a PostgreSQL of its own that keeps
//! what it acknowledges: `cargo bench -p punctual-store-postgres --bench archiving`.

use punctual_core::{JobId, ShardId, Span, hex};
use punctual_local_postgres::Settings;
use punctual_store::Leases;
use punctual_store_postgres::{Options, PostgresStore};

const FINISHED: u64 = 1_000_000;
const LOGS: u64 = 1_000;
const DATABASE: &str = "archiving";

#[tokio::main(worker_threads = 2)]
async fn main() {
    let server = Settings::durable().start().expect("a PostgreSQL");
    let url = server.create_database(DATABASE).expect("a database");
    let store = PostgresStore::connect(Options::new(url)).await.expect("a fresh store");
    let now = store.now().await.expect("the time");
    let (at, step) = (now.as_micros(), FINISHED / LOGS);
    let fill = format!(
        "INSERT INTO history (id, finished_at, submitted_at, task, picked_up_at, started_at, next_attempt, attempt, worker,
                              server, failures, node_failures, priority, state, ending, early)
         SELECT gen_random_uuid(), {at}, {at}, 1, {at}, {at}, 2, 1, 1, 1, 0, 0, 0, 1, 1, false
         FROM generate_series(1, {FINISHED})"
    );
    server.execute_in(DATABASE, &fill).expect("rows");
    let jobs: Vec<JobId> =
        (0..LOGS).map(|n| JobId::new(now + Span::from_micros((n * step) as i64), ShardId(0), n)).collect();
    for page in jobs.chunks(100) {
        let rows: Vec<String> = page.iter().map(row).collect();
        let text = format!(
            "INSERT INTO history (id, finished_at, submitted_at, task, next_attempt, attempt, failures, node_failures,
                                  priority, state, ending, early)
             SELECT id::uuid, {at}, {at}, 1, 2, 1, 0, 0, 0, 1, 1, false FROM unnest(ARRAY[{}]) AS id",
            rows.join(", ")
        );
        server.execute_in(DATABASE, &text).expect("rows");
    }
    server.execute_in(DATABASE, "ANALYZE").expect("statistics");
    println!("{FINISHED} finished jobs, {}\n", punctual_store::Store::description(&store));
    punctual_store_tests::archiving::measure(&store, &jobs).await;
    store.close().await.expect("it closes");
}

fn row(job: &JobId) -> String {
    let hex = hex::encode(job.to_bytes());
    format!("'{hex}'")
}
