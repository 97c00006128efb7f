//! Compares a statement's columns with those that its reader names.

use punctual_store::columns::{finished_job, hot_job, job_row};

/// Whether the statement reads jobs, and so was compared.
///
/// # Panics
/// If its columns do not begin with those that its reader names.
pub fn check_columns<'c>(query: &str, text: &str, columns: impl IntoIterator<Item = &'c str>) -> bool {
    let expected: &[&str] = if !text.contains("task.id AS task") {
        return false;
    } else if text.contains("FROM history") || text.contains("JOIN history") {
        &finished_job::NAMES
    } else if text.contains("AS input_len") {
        &job_row::NAMES
    } else {
        &hot_job::NAMES
    };
    let columns: Vec<String> = columns.into_iter().take(expected.len()).map(str::to_ascii_uppercase).collect();
    assert_eq!(columns, expected, "{query}");
    true
}
