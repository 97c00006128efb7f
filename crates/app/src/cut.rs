//! What a view leaves out because who asks may not see it. Inputs, outputs and logs take rights of their own.

use punctual_api::{
    ArtifactView, DeliveryView, Job, JobSummary, NotificationView, RunView, ScheduleView, TaskView, WorkflowView,
};
use punctual_core::access::Right;

use crate::definition::without_inputs;
use crate::principal::{By, Permission};

/// Stands for what is left out where something must stand.
pub(crate) const HIDDEN: &str = "***";

pub(crate) fn job<R: Permission>(by: &By<R>, mut job: Job) -> Job {
    if !by.may(Right::ViewInputs) {
        job.input = None;
        if let Some(definition) = &mut job.definition {
            without_inputs(&mut definition.spec);
        }
    }
    if !by.may(Right::ViewOutputs) {
        // Errors quote what a program printed or a server answered.
        if !job.attempts.is_empty() || job.finished_at.is_some() {
            job.explanation = format!("{}; why is for those who have the right `{}`", job.state, Right::ViewOutputs);
        }
        job.output = None;
        job.reason = None;
        job.attempts.iter_mut().for_each(|attempt| attempt.reason = None);
        job.late_outcomes.iter_mut().for_each(|late| cut_after_colon(&mut late.outcome));
        if let Some(notification) = &mut job.notification {
            notification.summary = None;
        }
    }
    if !by.may(Right::ViewLogs) {
        job.attempts.iter_mut().for_each(|attempt| attempt.log_path = None);
    }
    job
}

/// `failed: exit code 1` becomes `failed`.
fn cut_after_colon(outcome: &mut String) {
    if let Some(end) = outcome.find(':') {
        outcome.truncate(end);
    }
}

pub(crate) fn summary<R: Permission>(by: &By<R>, mut job: JobSummary) -> JobSummary {
    if !by.may(Right::ViewOutputs) {
        job.reason = None;
    }
    job
}

pub(crate) fn task<R: Permission>(by: &By<R>, mut task: TaskView) -> TaskView {
    if !by.may(Right::ViewInputs) {
        without_inputs(&mut task.spec);
    }
    task
}

/// The definitions of tasks, the conditions and the fixed values of a workflow are inputs.
pub(crate) fn workflow<R: Permission>(by: &By<R>, mut workflow: WorkflowView) -> WorkflowView {
    if !by.may(Right::ViewInputs) {
        let spec = &mut workflow.spec;
        let handlers = [&mut spec.on_failure, &mut spec.on_success, &mut spec.on_end].into_iter().flatten();
        for handler in handlers {
            handler.inline.as_deref_mut().into_iter().for_each(without_inputs);
            handler.input = None;
        }
        for node in &mut spec.nodes {
            node.inline.as_deref_mut().into_iter().for_each(without_inputs);
            node.input = None;
            node.condition = None;
        }
    }
    workflow
}

pub(crate) fn run<R: Permission>(by: &By<R>, mut run: RunView) -> RunView {
    if !by.may(Right::ViewInputs) {
        run.input = None;
        run.output = None;
    }
    run
}

pub(crate) fn schedule<R: Permission>(by: &By<R>, mut schedule: ScheduleView) -> ScheduleView {
    if !by.may(Right::ViewInputs) {
        schedule.definition.input = None;
        if let Some(spec) = &mut schedule.definition.inline {
            without_inputs(spec);
        }
    }
    schedule
}

pub(crate) fn delivery<R: Permission>(by: &By<R>, mut delivery: DeliveryView) -> DeliveryView {
    if !by.may(Right::ViewOutputs) {
        delivery.reason = None;
        delivery.summary = HIDDEN.to_owned();
    }
    delivery
}

/// The address of a webhook is often the whole credential for it.
pub(crate) fn notification<R: Permission>(by: &By<R>, mut rule: NotificationView) -> NotificationView {
    if !by.may(Right::ViewInputs)
        && let Some(webhook) = &mut rule.webhook
    {
        HIDDEN.clone_into(&mut webhook.url);
    }
    rule
}

pub(crate) fn artifact<R: Permission>(by: &By<R>, mut artifact: ArtifactView) -> ArtifactView {
    if !by.may(Right::ReadArtifacts) {
        artifact.path = None;
    }
    artifact
}
