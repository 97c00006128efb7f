//! Parts of the OpenAPI document that the types alone do not say.

use punctual_core::attempt::{Ending, FailureClass};
use punctual_core::batch::{BatchStatus, MemberStatus};
use punctual_core::schedule::{ChangeKind, SourceKind, Verdict};
use punctual_core::{ArtifactId, BackfillId, BatchId, JobId, JobState, RunId, ScheduleId, ServerId, TaskId, WorkerId};
use utoipa::openapi::schema::{Array, ArrayBuilder, Object, ObjectBuilder, Type};

fn id(prefix: &str) -> Object {
    ObjectBuilder::new()
        .schema_type(Type::String)
        .pattern(Some(format!("^{prefix}_[0-7][0-9a-hjkmnp-tv-z]{{25}}$")))
        .examples([format!("{prefix}_06bpwz2d0e5kx8r4n7v1t3m9qc")])
        .build()
}

pub(crate) fn job_id() -> Object {
    id(JobId::PREFIX)
}

pub(crate) fn job_ids() -> Array {
    ArrayBuilder::new().items(job_id()).build()
}

pub(crate) fn task_id() -> Object {
    id(TaskId::PREFIX)
}

pub(crate) fn schedule_id() -> Object {
    id(ScheduleId::PREFIX)
}

pub(crate) fn run_id() -> Object {
    id(RunId::PREFIX)
}

pub(crate) fn batch_id() -> Object {
    id(BatchId::PREFIX)
}

pub(crate) fn batch_state() -> Object {
    words(std::iter::once("scheduled").chain(BatchStatus::ALL.into_iter().map(BatchStatus::as_str)))
}

pub(crate) fn member_state() -> Object {
    words(MemberStatus::ALL.into_iter().map(MemberStatus::as_str))
}

pub(crate) fn backfill_id() -> Object {
    id(BackfillId::PREFIX)
}

pub(crate) fn backfill_overlap() -> Object {
    words(["queue_all", "allow"].into_iter())
}

pub(crate) fn artifact_id() -> Object {
    id(ArtifactId::PREFIX)
}

pub(crate) fn artifact_state() -> Object {
    words(["pending", "ready", "refused"].into_iter())
}

pub(crate) fn worker_id() -> Object {
    id(WorkerId::PREFIX)
}

pub(crate) fn server_id() -> Object {
    id(ServerId::PREFIX)
}

pub(crate) fn server_ids() -> Array {
    ArrayBuilder::new().items(server_id()).build()
}

fn words(words: impl Iterator<Item = &'static str>) -> Object {
    ObjectBuilder::new().schema_type(Type::String).enum_values(Some(words)).build()
}

pub(crate) fn job_state() -> Object {
    words(JobState::ALL.iter().map(|state| state.as_str()))
}

pub(crate) fn failure_class() -> Object {
    words(FailureClass::ALL.iter().map(|class| class.as_str()))
}

pub(crate) fn attempt_state() -> Object {
    let endings = Ending::ALL.iter().map(|ending| ending.as_str());
    words(std::iter::once(JobState::Running.as_str()).chain(endings))
}

pub(crate) fn gap_policy() -> Object {
    words(["shift", "skip"].into_iter())
}

pub(crate) fn fold_policy() -> Object {
    words(["first", "last", "both"].into_iter())
}

pub(crate) fn on_closed_day() -> Object {
    words(["skip", "previous_business_day", "next_business_day"].into_iter())
}

pub(crate) fn change_kind() -> Object {
    words(ChangeKind::ALL.iter().map(|kind| kind.as_str()))
}

pub(crate) fn verdict() -> Object {
    words(Verdict::ALL.iter().map(|verdict| verdict.as_str()))
}

pub(crate) fn source_kind() -> Object {
    let kinds = [SourceKind::Planned, SourceKind::Replayed, SourceKind::Manual, SourceKind::Backfill];
    words(kinds.into_iter().map(SourceKind::as_str))
}

pub(crate) fn marks() -> Array {
    ArrayBuilder::new().items(words(crate::occurrence::MARKS.iter().map(|(_, name)| *name))).build()
}
