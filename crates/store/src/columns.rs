//! The columns that a job is read from, by name and the same in every store. Several statements begin with each of these lists
//! and go on with columns of their own; a test in each store compares the lists with its SQL. They are constants, so that
//! reading a row looks nothing up.

/// A constant for each column, and `NAMES` and `COUNT` of all.
macro_rules! columns {
    (@ $place:expr;) => {
        pub const COUNT: usize = $place;
    };
    (@ $place:expr; $name:ident $($rest:ident)*) => {
        pub const $name: usize = $place;
        columns!(@ $place + 1; $($rest)*);
    };
    ($(#[$doc:meta])* $module:ident: $($name:ident)*) => {
        $(#[$doc])*
        pub mod $module {
            columns!(@ 0; $($name)*);
            pub const NAMES: [&str; COUNT] = [$(stringify!($name)),*];
        }
    };
}

columns! {
    /// What an owner needs to run a job. The input is there if it is short, and its length always.
    job_row: ID DUE_AT TASK PRIORITY NEXT_ATTEMPT FAILURES NODE_FAILURES SUBMITTED_AT TRACING_ID INPUT INPUT_LEN SOURCE GIVE_BACKS
}

columns! {
    /// A job that waits or runs, as it is shown. Lists go on with the task's kind and queue.
    hot_job: ID DUE_AT TASK PRIORITY NEXT_ATTEMPT FAILURES NODE_FAILURES SUBMITTED_AT TRACING_ID CANCEL_REQUESTED SOURCE GIVE_BACKS NAMESPACE
}

columns! {
    /// A job that has ended, as it is shown. Lists go on with the task's kind and queue.
    finished_job: ID TASK PRIORITY NEXT_ATTEMPT FAILURES NODE_FAILURES SUBMITTED_AT TRACING_ID STATE FINISHED_AT DUE_AT REASON SOURCE NAMESPACE
}
