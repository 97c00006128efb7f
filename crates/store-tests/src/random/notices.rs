//! Chooses what people are told, and what becomes of it.

use punctual_core::notice::{Notice, NoticeKind};
use punctual_core::{ShardId, Span, TaskId};
use punctual_store::{Ailing, DeliveryRow, Dispatch, NewJob, RuleRow, RuleUpdate};

use super::operation::Operation;
use super::plan::{Plan, all_tasks, namespace_of};
use crate::fixture::at;
use crate::model::ModelStore;
use crate::report_fixture::new_rule;
use crate::schedule_fixture::by;

const RULES: [&str; 4] = ["ops", "devs", "Ops", "ä"];
/// Nobody gets it.
const NO_NUMBER: i64 = 1 << 60;

/// Everything that can be seen of them.
pub(super) fn final_reads() -> Vec<Operation> {
    let mut final_reads = vec![
        Operation::Rules,
        Operation::WaitingNotices(1000),
        Operation::Ailing(100),
        Operation::AilingOf(all_tasks()),
        Operation::Deliveries(None, None, 1000),
    ];
    final_reads.extend(RULES.map(|rule| Operation::Deliveries(Some(rule.to_owned()), None, 1000)));
    final_reads
}

impl Plan {
    /// What an owner says together with a write of this shard, or nothing.
    pub(super) fn notice(&mut self, shard: ShardId) -> Option<Box<Notice>> {
        if self.random.one_in(2) {
            return None;
        }
        Some(Box::new(Notice {
            at: self.moment(),
            kind: self.random.pick(&NoticeKind::ALL),
            shard,
            task: self.random.one_in(2).then(|| self.random.pick(&all_tasks())),
            job: self.random.one_in(2).then(|| self.job()),
            planned: self.random.one_in(2).then(|| (self.schedule(), self.planned())),
            count: self.random.pick(&[1, 7, u32::MAX]),
            lateness: self.random.one_in(2).then(|| Span::from_micros(self.random.below(1 << 40) as i64)),
        }))
    }

    pub(super) fn report(&mut self, model: &ModelStore) -> Operation {
        let limit = self.random.below(4) as usize;
        match self.random.below(12) {
            0..2 => self.put_rule(model),
            2 => Operation::DeleteRule(self.namespace(), self.rule(), self.expected_revision()),
            3 => Operation::Rule(self.rule()),
            4 => Operation::WaitingNotices(limit),
            5 => Operation::Ailing(limit),
            6 => {
                let rule = self.random.one_in(2).then(|| self.rule());
                let before = self.random.one_in(2).then(|| (self.moment(), self.job()));
                Operation::Deliveries(rule, before, limit)
            }
            7 => Operation::AilingOf(self.some_tasks()),
            _ => self.dispatch(model),
        }
    }

    fn rule(&mut self) -> String {
        self.random.pick(&RULES).to_owned()
    }

    fn some_tasks(&mut self) -> Vec<TaskId> {
        all_tasks().into_iter().filter(|_| self.random.one_in(4)).collect()
    }

    fn put_rule(&mut self, model: &ModelStore) -> Operation {
        let name = self.rule();
        let namespace = self.namespace();
        let known = model.rule_now(namespace, &name).map_or(0, |rule| rule.revision);
        let expected = self.random.one_in(2).then(|| known + u32::from(self.random.one_in(4)));
        let spec = format!("spec {}", self.now);
        let version = self.random.below(1 << 40);
        Operation::PutRule(
            RuleRow { namespace, spec, changed: by("ada", self.now), version, ..new_rule(&name) },
            expected,
        )
    }

    /// Mostly of what waits, for rules as they are.
    fn dispatch(&mut self, model: &ModelStore) -> Operation {
        let places: Vec<usize> = (0..model.waiting_notices_now(1000).len()).filter(|_| self.random.one_in(3)).collect();
        let mut rules = Vec::new();
        for name in RULES {
            if self.random.one_in(3) {
                rules.extend(self.rule_update(model, name));
            }
        }
        let (ailing, mut well) = (self.some_tasks(), self.some_tasks());
        well.retain(|task| !ailing.contains(task));
        let known: Vec<TaskId> = model.tasks_by_id_now(&all_tasks()).iter().map(|task| task.id).collect();
        let jobs = (0..self.random.below(3)).map(|_| self.known_job(&known)).collect::<Vec<_>>();
        self.jobs.extend(jobs.iter().map(|job| job.id));
        let deliveries = jobs.iter().map(|job| self.delivery(job)).collect();
        let dispatch = Dispatch {
            taken: self.random.one_in(4).then_some(NO_NUMBER).into_iter().collect(),
            rules,
            ailing: ailing.into_iter().map(|task| self.ailing(task)).collect(),
            well,
            deliveries,
            jobs,
        };
        Operation::Dispatch(places, dispatch)
    }

    /// Mostly of a task that is there: else nothing of all that it is part of is done.
    pub(super) fn known_job(&mut self, known: &[TaskId]) -> NewJob {
        let job = self.new_job();
        if known.is_empty() || self.random.one_in(8) {
            return job;
        }
        let task = self.random.pick(known);
        NewJob { task, namespace: namespace_of(task), ..job }
    }

    /// `None` of one that is not there, but now and then.
    fn rule_update(&mut self, model: &ModelStore, name: &str) -> Option<RuleUpdate> {
        let namespace = self.namespace();
        let version = match model.rule_now(namespace, name) {
            Some(rule) => rule.version + u64::from(self.random.one_in(10)),
            None if self.random.one_in(10) => 0,
            None => return None,
        };
        let state = (!self.random.one_in(4)).then(|| format!("state {}", self.now));
        Some(RuleUpdate { namespace, name: name.to_owned(), version, state })
    }

    fn ailing(&mut self, task: TaskId) -> Ailing {
        Ailing { task, since: self.moment(), last: self.moment(), failures: self.random.below(9) as u32 }
    }

    fn delivery(&mut self, job: &NewJob) -> DeliveryRow {
        let (rule, summary) = (self.rule(), format!("summary {}", self.now));
        DeliveryRow {
            namespace: self.namespace(),
            rule,
            at: at(self.random.below(60) as i64),
            job: job.id,
            events: self.now as u32,
            summary,
        }
    }
}
