//! The tasks of a run, one for each promise.

use punctual_client::{Client, IfMatch};
use punctual_core::Span;
use punctual_core::retry::{FailureClasses, RetryPolicy};
use punctual_core::task::{self, Handler, Run, TaskSpec};

use crate::history::{ClientLine, DeliveryMode, Journal, Rules};
use crate::witness::HANDLER;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TaskKind {
    pub(crate) name: &'static str,
    pub(crate) delivery: DeliveryMode,
}

pub(crate) const TASKS: [TaskKind; 3] = [
    TaskKind { name: "at-least-once", delivery: DeliveryMode::AtLeastOnce },
    TaskKind { name: "at-most-once", delivery: DeliveryMode::AtMostOnce },
    TaskKind { name: "exactly-once", delivery: DeliveryMode::ExactlyOnce },
];

/// Short, so that a run sees many retries.
const RETRY: RetryPolicy = RetryPolicy {
    max: 3,
    initial: Span::from_millis(400),
    factor: 2.0,
    cap: Span::from_secs(60),
    jitter: 0.2,
    except: FailureClasses::NONE,
};

impl TaskKind {
    fn spec(self) -> TaskSpec {
        let mut spec = TaskSpec::new(Run::Handler(Handler { name: HANDLER.to_owned() }));
        spec.retry = RETRY;
        spec.delivery = match self.delivery {
            DeliveryMode::AtLeastOnce => task::DeliveryMode::AtLeastOnce,
            DeliveryMode::AtMostOnce => task::DeliveryMode::AtMostOnce,
            DeliveryMode::ExactlyOnce => task::DeliveryMode::ExactlyOnce,
        };
        spec
    }

    fn rules(self) -> Rules {
        Rules {
            delivery: self.delivery,
            retry_max: u32::from(RETRY.max),
            retry_initial_ms: RETRY.initial.as_micros() / 1000,
            retry_factor: RETRY.factor,
            retry_jitter: RETRY.jitter,
            node_retry_max: u32::from(RetryPolicy::after_node_failure().max),
        }
    }
}

/// Defines all of them, and puts what they promise on record.
pub(crate) async fn define_tasks(client: &Client, journal: &Journal) -> anyhow::Result<()> {
    for task in TASKS {
        client.apply_task(task.name, &task.spec(), IfMatch::Any).await?;
        journal.write(&ClientLine::Task { name: task.name.to_owned(), rules: task.rules() });
    }
    Ok(())
}
