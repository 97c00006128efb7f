//! Parts of the OpenAPI document that the types alone do not say.

use punctual_core::attempt::{Ending, FailureClass};
use punctual_core::{ArtifactId, JobId, JobState, ServerId, TaskId, WorkerId};
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
