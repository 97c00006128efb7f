//! Promises about all jobs together.

use std::collections::BTreeSet;

use crate::{AtEnd, Listing, RunHistory};

/// All jobs of a request exist or none, and repeating the request makes no others.
pub(crate) fn one_request_makes_one_set_of_jobs(run: &RunHistory) -> Vec<(Option<String>, String)> {
    let (mut keys, mut found) = (BTreeSet::new(), Vec::new());
    for request in run.requests.iter().filter(|request| !request.made.is_empty()) {
        let (first, made) = (request.made.first().cloned(), request.made.len());
        if made < request.job_count {
            found.push((first.clone(), format!("{made} of {} jobs of {} exist", request.job_count, request.key)));
        }
        if !keys.insert(&request.key) {
            found.push((first, format!("{} made its jobs twice", request.key)));
        }
    }
    found
}

/// Every job that exists was asked for and not refused, each is listed once, and the servers' counts agree. A source that
/// only knows how many jobs there are cannot say which is wrong.
pub(crate) fn jobs_are_conserved(run: &RunHistory) -> Vec<(Option<String>, String)> {
    let exists = |at_end: AtEnd| !matches!(at_end, AtEnd::NotRead | AtEnd::Absent);
    let mut found = Vec::new();
    match &run.listing {
        Listing::NotRead => {}
        Listing::Count(count) => {
            let known = run.jobs.iter().filter(|job| exists(job.at_end)).count();
            if *count != known {
                found.push((None, format!("{known} jobs are known and {count} exist")));
            }
        }
        Listing::Jobs { ids, begun, counters } => {
            let submitted: BTreeSet<&String> = run.jobs.iter().map(|job| &job.name).collect();
            let mut listed = BTreeSet::new();
            for id in ids {
                if !listed.insert(id) {
                    found.push((Some(id.clone()), "it is listed twice".to_owned()));
                }
                if !submitted.contains(id) {
                    found.push((Some(id.clone()), "nobody submitted it".to_owned()));
                }
            }
            let unlisted = begun.iter().filter(|id| !listed.contains(id));
            found.extend(unlisted.map(|id| (Some(id.clone()), "it began and is not listed".to_owned())));
            for counter in counters.iter().filter(|counter| counter.counted != counter.listed) {
                let text = format!("servers counted {}, and {} are listed", counter.counted, counter.listed);
                found.push((Some(counter.name.clone()), text));
            }
        }
    }
    let refused = run.jobs.iter().filter(|job| job.submission.was_refused && exists(job.at_end));
    found.extend(refused.map(|job| (Some(job.name.clone()), "its submission was refused, and it exists".to_owned())));
    found
}
