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

/// The definitions of tasks, the conditions and the fixed values of a workflow are inputs, those of its output among them.
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
        spec.output = None;
    }
    workflow
}

pub(crate) fn run<R: Permission>(by: &By<R>, mut run: RunView) -> RunView {
    if !by.may(Right::ViewInputs) {
        run.input = None;
    }
    if !by.may(Right::ViewOutputs) {
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use punctual_core::access::Rights;
    use serde_json::json;

    use super::*;
    use crate::principal::Principal;
    use crate::principal::permission::{ViewJobs, ViewTasks};

    fn by<R: Permission>(further: &[Right]) -> By<R> {
        let rights = Rights::of(&[Right::ViewJobs, Right::ViewTasks]).union(Rights::of(further));
        Arc::new(Principal::made_up("key:test", rights)).permit().unwrap()
    }

    #[test]
    fn the_input_and_the_output_of_a_run_take_a_right_each() {
        let view = json!({
            "id": "run_01m7et433kee4803yssgvaf2fh", "workflow": "w", "version": 1, "state": "succeeded",
            "created": { "at": "2026-11-16T08:00:00Z", "who": "ada" }, "deadline": "2026-11-16T09:00:00Z",
            "timed_out": false, "input": "given", "output": "returned", "nodes": []
        });
        let shown = |rights: &[Right]| {
            let run = run(&by::<ViewJobs>(rights), serde_json::from_str(&view.to_string()).unwrap());
            (run.input.is_some(), run.output.is_some())
        };
        assert_eq!(shown(&[]), (false, false));
        assert_eq!(shown(&[Right::ViewInputs]), (true, false));
        assert_eq!(shown(&[Right::ViewOutputs]), (false, true));
        assert_eq!(shown(&[Right::ViewInputs, Right::ViewOutputs]), (true, true));
    }

    #[test]
    fn a_workflow_shows_none_of_its_values_to_whoever_may_not_see_inputs() {
        let call = json!({ "run": { "http": { "url": "https://example.com/s3cret" } } });
        let values = json!({ "field": { "value": "s3cret" }, "other": { "from": "input.a", "default": "s3cret" } });
        let handler = json!([{ "name": "h", "inline": call, "input": values }]);
        let view = json!({
            "name": "w", "version": 1, "created": { "at": "2026-11-16T08:00:00Z", "who": "ada" },
            "spec": {
                "nodes": [{
                    "name": "a", "inline": call, "input": values, "if": { "path": "input.a", "eq": "s3cret" }
                }],
                "on_failure": handler, "on_success": handler, "on_end": handler, "output": values
            }
        });
        let shown = |rights: &[Right]| {
            let workflow = workflow(&by::<ViewTasks>(rights), serde_json::from_str(&view.to_string()).unwrap());
            serde_json::to_string(&workflow).unwrap()
        };
        assert!(!shown(&[]).contains("s3cret"), "{}", shown(&[]));
        assert_eq!(shown(&[Right::ViewInputs]).matches("s3cret").count(), 4 + 3 * 3 + 2);
    }
}
