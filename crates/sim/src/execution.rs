//! How long an attempt takes and how it ends, as chance and the task's behavior have it.

use punctual_core::Timestamp;
use punctual_core::attempt::{Details, Failure, FailureClass, Last, Outcome, Ran};
use punctual_core::shard::event::{Assignment, Report};

use crate::plan::TaskBehavior;
use crate::simulation::Simulation;

impl Simulation {
    /// What the worker will report, and when.
    pub(crate) fn draw_execution(&mut self, assignment: &Assignment) -> (Report, Timestamp) {
        let (id, attempt, timeout) = (assignment.key.id, assignment.attempt, assignment.task.spec.timeout);
        let behavior = self.plan.behavior_of(assignment.task.id);
        let drawn = self.draw_outcome(behavior);
        let outcome = self.draw_node_outcome(id).unwrap_or(drawn);
        let report = Report { id, attempt, outcome, timed_out: false, details: self.draw_details() };
        let takes = match self.rng.below(100) {
            0..60 => self.rng.millis(1, 300),
            60..85 => self.rng.millis(300, 4_000),
            85..97 => self.rng.millis(4_000, 15_000),
            // Does not end when its time is over, so that the owner has to end it.
            _ => return (report, self.now + timeout + self.rng.millis(5_000, 15_000)),
        };
        if takes > timeout {
            let outcome = Outcome::Failed(Failure { class: FailureClass::Timeout, ..Failure::new("timed out") });
            return (Report { outcome, timed_out: true, ..report }, self.now + timeout);
        }
        (report, self.now + takes)
    }

    fn draw_details(&mut self) -> Option<Box<Details>> {
        let known = self.rng.percent(30);
        known.then(|| Box::new(Details { cpu_us: Some(self.rng.next()), ..Details::default() }))
    }

    fn draw_outcome(&mut self, behavior: TaskBehavior) -> Outcome {
        let class = *self.rng.pick(&FailureClass::ALL);
        let failure = Failure { class, ..Failure::new("exit code 1") };
        let place = match behavior {
            TaskBehavior::Mixed => self.rng.below(100),
            TaskBehavior::Fails => 65 + self.rng.below(15),
            // Its workers give it back; see `Simulation::assigned`.
            TaskBehavior::Unstartable => 0,
            TaskBehavior::NeverRuns => 80 + self.rng.below(6),
            TaskBehavior::NobodyKnows => 86 + self.rng.below(6),
        };
        match place {
            0..65 => Outcome::Succeeded { output: None },
            65..80 => Outcome::Failed(failure),
            80..86 => Outcome::Failed(Failure { ran: Ran::No, ..failure }),
            86..92 => Outcome::Failed(Failure { ran: Ran::Unknown, ..failure }),
            92..95 => Outcome::Failed(Failure { last: Last::Yes, ..failure }),
            // Nobody asked for it.
            95 => Outcome::Cancelled,
            _ => Outcome::Failed(Failure { retry_after: Some(self.rng.millis(100, 8_000)), ..failure }),
        }
    }
}
