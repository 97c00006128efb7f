//! Promises about all jobs together.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::story::stories;
use crate::history::{Answer, Asked, FinalJob, History};

pub(super) fn one_key_makes_one_job(history: &History) -> Vec<(String, String)> {
    let mut jobs_of: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for call in &history.calls {
        if let (Asked::Submit { key, .. }, Answer::Ok { job, .. }) = (&call.asked, &call.answer) {
            jobs_of.entry(key).or_default().insert(job);
        }
    }
    for job in &history.jobs {
        jobs_of.entry(&job.key).or_default().insert(&job.id);
    }
    let several = jobs_of.into_iter().filter(|(_, jobs)| jobs.len() > 1);
    several.map(|(key, jobs)| (key.to_owned(), format!("one key and {jobs:?}"))).collect()
}

/// All that is there was asked for and not refused, and each is there once; what servers
/// counted is what there is.
pub(super) fn jobs_are_conserved(history: &History) -> Vec<(String, String)> {
    let mut wrong = Vec::new();
    let mut ids = BTreeSet::new();
    for job in &history.jobs {
        if !ids.insert(&job.id) {
            wrong.push((job.id.clone(), "it is listed twice".to_owned()));
        }
    }
    let mut asked = BTreeSet::new();
    for story in stories(history) {
        asked.insert(story.key);
        if let Some(job) = story.job.filter(|_| story.was_refused()) {
            wrong.push((job.id.clone(), "its submission was refused, and it is there".to_owned()));
        }
    }
    for job in history.jobs.iter().filter(|job| !asked.contains(job.key.as_str())) {
        wrong.push((job.id.clone(), "nobody submitted it".to_owned()));
    }
    for told in &history.witness {
        if ids.insert(&told.job) {
            wrong.push((told.job.clone(), "it began and is not listed".to_owned()));
        }
    }
    if let Some(counted) = &history.counted {
        for (what, counted) in counted {
            let there = history.jobs.iter().filter(|job| what == "submitted" || job.state == *what).count() as u64;
            if *counted != there {
                wrong.push((what.clone(), format!("servers counted {counted}, and {there} are listed")));
            }
        }
    }
    wrong
}

/// Told twice, by two servers, it is the same. A lost job may be settled by its late result.
pub(super) fn what_has_ended_stays(history: &History) -> Vec<(String, String)> {
    let again: HashMap<&str, &FinalJob> = history.again.iter().map(|job| (job.id.as_str(), job)).collect();
    if history.again.is_empty() {
        return Vec::new();
    }
    let mut wrong = Vec::new();
    for job in history.jobs.iter().filter(|job| job.is_finished() && job.state != "lost") {
        match again.get(job.id.as_str()) {
            None => wrong.push((job.id.clone(), "the other server does not know it".to_owned())),
            Some(other) if *other != job => {
                wrong.push((job.id.clone(), format!("{} and, by the other server, {}", job.state, other.state)));
            }
            Some(_) => {}
        }
    }
    wrong
}

#[cfg(test)]
mod tests {
    use crate::check::tale::Tale;
    use crate::history::Delivery::AtLeastOnce;

    fn good() -> Tale {
        Tale::new(AtLeastOnce).submit().runs(1, 10).ends("succeeded")
    }

    #[test]
    fn two_jobs_of_one_key_are_found() {
        let found = "one key makes one job";
        good().change(|history| history.calls.extend(history.calls.clone())).holds();
        good()
            .change(|history| {
                let mut again = history.calls[0].clone();
                again.answer = crate::history::Answer::Ok {
                    job: "job_2".to_owned(),
                    due_us: Some(0),
                    state: None,
                    pending: false,
                };
                history.calls.push(again);
            })
            .breaks(found);
        let twin = |history: &mut crate::history::History| {
            let mut twin = history.jobs[0].clone();
            twin.id = "job_2".to_owned();
            history.jobs.push(twin);
        };
        good().change(twin).breaks(found);
        Tale::new(AtLeastOnce).submit_unanswered().runs(1, 10).ends("succeeded").change(twin).breaks(found);
    }

    #[test]
    fn jobs_from_nowhere_are_found() {
        let found = "jobs are conserved";
        good().change(|history| history.calls.clear()).breaks(found);
        good().change(|history| history.jobs.push(history.jobs[0].clone())).breaks(found);
        good().change(|history| history.jobs[0].key = "another".to_owned()).breaks(found);
        good().change(|history| history.witness[0].job = "job_9".to_owned()).breaks(found);
        Tale::new(AtLeastOnce).submit_refused().runs(1, 10).ends("succeeded").breaks(found);
        Tale::new(AtLeastOnce).submit_refused().holds();
    }

    #[test]
    fn wrong_counts_are_found() {
        let counted = |submitted, succeeded| {
            let counted = [("submitted".to_owned(), submitted), ("succeeded".to_owned(), succeeded)];
            good().change(move |history| history.counted = Some(counted.into()))
        };
        counted(1, 1).holds();
        counted(2, 1).breaks("jobs are conserved");
        counted(1, 0).breaks("jobs are conserved");
    }

    #[test]
    fn a_story_that_changes_is_found() {
        let found = "what has ended stays as it is";
        let again = |change: fn(&mut crate::history::FinalJob)| {
            good().change(move |history| {
                let mut job = history.jobs[0].clone();
                change(&mut job);
                history.again.push(job);
            })
        };
        again(|_| {}).holds();
        again(|job| job.state = "failed".to_owned()).breaks(found);
        again(|job| job.attempts.clear()).breaks(found);
        again(|job| job.id = "job_9".to_owned()).breaks(found);
    }
}
