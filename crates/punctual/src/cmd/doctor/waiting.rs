//! Whether the jobs that are due have a worker that can run them.

use punctual_api::{ErrorKind, Overdue, OverdueQuery};
use punctual_client::Client;
use punctual_core::namespace::NamespaceName;

use super::Check;
use crate::output::counted;
use crate::view::{most_frequent, without_lateness};

const NAME: &str = "waiting jobs";

/// Namespaces that are looked at. More of them would take long, and are counted.
const NAMESPACES_MAX: usize = 100;

/// What is overdue in one namespace; without a name if the cluster has one.
struct Look {
    namespace: Option<String>,
    overdue: Overdue,
}

/// In the namespace that was chosen, or in all that the caller may see.
pub(super) async fn check(client: &Client, chosen: bool) -> Check {
    let listed = if chosen { None } else { client.namespaces().await.ok() };
    let names: Vec<Option<String>> = match listed {
        Some(list) if list.namespaces.iter().any(|found| found.name != NamespaceName::DEFAULT) => {
            list.namespaces.into_iter().map(|found| Some(found.name)).collect()
        }
        _ => vec![None],
    };
    let left_out = names.len().saturating_sub(NAMESPACES_MAX);
    let mut looks = Vec::new();
    for namespace in names.into_iter().take(NAMESPACES_MAX) {
        let client = match &namespace {
            Some(name) => client.clone().in_namespace(Some(name.as_str())),
            None => client.clone(),
        };
        // What has been due for a moment may be on its way to a worker.
        let query = OverdueQuery { after: Some("1s".to_owned()) };
        match client.overdue(&query).await {
            Ok(overdue) => looks.push(Look { namespace, overdue }),
            // Somebody may have other rights in a namespace than to see its jobs.
            Err(error) if namespace.is_some() && error.kind() == Some(ErrorKind::Forbidden) => {}
            Err(error) => return Check::warn(NAME, format!("cannot be listed: {error}"), "see the server's log"),
        }
    }
    verdict(&looks, left_out)
}

fn verdict(looks: &[Look], left_out: usize) -> Check {
    let reasons: Vec<String> = looks.iter().flat_map(reasons).collect();
    let shown =
        most_frequent(reasons.iter().map(String::as_str), |why, jobs| format!("{}: {why}", counted(jobs, "job")));
    if !shown.is_empty() {
        return Check::fail(NAME, shown.join("; "), fix(looks));
    }
    let total: u64 = looks.iter().map(|look| look.overdue.jobs_total).sum();
    let total = usize::try_from(total).unwrap_or(usize::MAX);
    let place = match looks {
        [Look { namespace: None, .. }] => String::new(),
        looks => format!(" in {}", counted(looks.len(), "namespace")),
    };
    let others = match left_out {
        0 => String::new(),
        more => format!("; {more} more namespaces were not looked at"),
    };
    let reason = format!("every job that is due{place} has a worker that can run it ({total} waiting){others}");
    Check::pass(NAME, reason)
}

/// Why jobs that no worker can run, or that workers could not start, wait.
fn reasons(look: &Look) -> impl Iterator<Item = String> + '_ {
    look.overdue.jobs.iter().filter_map(|job| {
        let why = match &job.could_not_start {
            _ if job.unserved => {
                let why = without_lateness(&job.why);
                why.split(". ").next().unwrap_or(why).trim_end_matches('.')
            }
            could_not_start => could_not_start.as_deref()?,
        };
        Some(match &look.namespace {
            Some(namespace) => format!("{why} (namespace {namespace})"),
            None => why.to_owned(),
        })
    })
}

fn fix(looks: &[Look]) -> &'static str {
    if looks.iter().any(|look| look.overdue.jobs.iter().any(|job| job.unserved)) {
        "start or restart a worker as each reason says; `punctual overdue` lists the jobs of a namespace"
    } else {
        "correct what each reason names, such as a lost file with `punctual artifact create FILE`; `punctual overdue` \
         lists the jobs of a namespace"
    }
}

#[cfg(test)]
mod tests {
    use punctual_api::OverdueJob;
    use punctual_core::{JobId, ShardId, Span, Timestamp};

    use super::super::Verdict;
    use super::*;

    fn one(jobs: &[(&str, bool)]) -> Check {
        super::verdict(&[Look { namespace: None, overdue: overdue(jobs) }], 0)
    }

    fn overdue(jobs: &[(&str, bool)]) -> Overdue {
        let job = |(why, unserved): &(&str, bool)| OverdueJob {
            job: JobId::new(Timestamp::EPOCH, ShardId(0), 1),
            task: "t".to_owned(),
            queue: "default".to_owned(),
            due_at: Timestamp::EPOCH,
            late_by: Span::from_secs(9),
            why: format!("It has been due for 9s: {why}."),
            unserved: *unserved,
            could_not_start: None,
        };
        Overdue {
            jobs: jobs.iter().map(job).collect(),
            jobs_total: jobs.len() as u64,
            jobs_total_is_minimum: false,
            planned: Vec::new(),
            planned_is_partial: false,
            shards_without_owner: Vec::new(),
            ailing: Vec::new(),
        }
    }

    #[test]
    fn a_due_job_that_no_worker_can_run_fails_with_the_reason() {
        let busy = ("the workers of queue default that can run it are busy", false);
        let found = one(&[busy]);
        assert!(found.verdict == Verdict::Pass && found.reason.contains("(1 waiting)"), "{found:?}");
        let lacking = ("no connected worker of queue default can run handler:nope", true);
        let found = one(&[lacking, busy, lacking]);
        assert_eq!(found.verdict, Verdict::Fail);
        assert_eq!(found.reason, "2 jobs: no connected worker of queue default can run handler:nope");
        assert!(found.fix.unwrap().contains("as each reason says"));
        let of = |name: &str| format!("no connected worker has the handler {name}");
        let handlers = ["h1", "h2", "h3", "h4"].map(of);
        let mut jobs: Vec<(&str, bool)> = handlers.iter().map(|why| (why.as_str(), true)).collect();
        jobs.extend([("no connected worker runs commands", true); 10]);
        let found = one(&jobs).reason;
        assert!(found.starts_with("10 jobs: no connected worker runs commands; 1 job: "), "{found}");
        assert!(found.ends_with("; 2 more jobs wait for 2 other reasons"), "{found}");
    }

    #[test]
    fn every_namespace_is_looked_at_and_named() {
        let lacking = ("no connected worker runs commands", true);
        let look =
            |name: &str, jobs: &[(&str, bool)]| Look { namespace: Some(name.to_owned()), overdue: overdue(jobs) };
        let found = super::verdict(&[look("default", &[]), look("team-b", &[lacking])], 0);
        assert_eq!(found.verdict, Verdict::Fail);
        assert_eq!(found.reason, "1 job: no connected worker runs commands (namespace team-b)");
        let found = super::verdict(&[look("default", &[]), look("team-b", &[("busy", false)])], 3);
        assert_eq!(found.verdict, Verdict::Pass);
        assert_eq!(
            found.reason,
            "every job that is due in 2 namespaces has a worker that can run it (1 waiting); 3 more namespaces were not \
             looked at"
        );
    }

    #[test]
    fn a_due_job_that_workers_could_not_start_fails_with_the_reason() {
        let mut found = overdue(&[("the workers that can run it are busy", false)]);
        let reason = "workers could not start it, last because: cannot fetch the program: the storage answered 404";
        found.jobs[0].could_not_start = Some(reason.to_owned());
        let found = super::verdict(&[Look { namespace: None, overdue: found }], 0);
        assert_eq!(found.verdict, Verdict::Fail);
        assert_eq!(found.reason, format!("1 job: {reason}"));
        assert!(found.fix.unwrap().contains("artifact create"));
    }
}
