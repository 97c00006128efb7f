//! What is answered about a job that was just accepted.

use punctual_api::{JobContent, JobLinks, JobSubmitted, Warning};
use punctual_core::namespace::NamespaceId;
use punctual_core::run::Run;
use punctual_core::task::Task;
use punctual_core::{ArtifactId, JobId, JobState};

use crate::App;
use crate::artifacts::file_key;
use crate::jobs::task_ref;

impl App {
    pub(crate) async fn accepted(
        &self,
        id: JobId,
        task: &Task,
        tracing_id: Option<String>,
        warnings: Vec<Warning>,
    ) -> JobSubmitted {
        let title = match &task.name {
            Some(name) => name.clone(),
            None => Box::pin(self.titles(std::iter::once(task), std::iter::empty())).await.of_task(task),
        };
        JobSubmitted {
            id,
            state: JobState::Scheduled.as_str().to_owned(),
            title,
            task: Some(task_ref(task.id, Some(task))),
            tracing_id,
            scheduled_at: id.due_at(),
            due_at: id.due_at(),
            content: self.content_of(&task.spec.run),
            links: JobLinks::new(id),
            warnings,
            job: None,
        }
    }

    /// The answer to a repeated request, with what is on record of its job by now.
    pub(crate) async fn accepted_before(&self, namespace: NamespaceId, id: JobId) -> JobSubmitted {
        let mut answer = JobSubmitted {
            id,
            state: JobState::Scheduled.as_str().to_owned(),
            title: String::new(),
            task: None,
            tracing_id: None,
            scheduled_at: id.due_at(),
            due_at: id.due_at(),
            content: Vec::new(),
            links: JobLinks::new(id),
            warnings: Vec::new(),
            job: None,
        };
        // It may be gone: then only its id is known.
        if let Ok(job) = self.read_job(namespace, id).await {
            answer.content = job.definition.as_ref().map(|known| self.content_of(&known.spec.run)).unwrap_or_default();
            answer.state = job.state;
            answer.title = job.title;
            answer.task = Some(job.task);
            answer.tracing_id = job.tracing_id;
            answer.due_at = job.due_at;
        }
        answer
    }

    /// The uploaded files that a task runs or reads.
    pub(crate) fn content_of(&self, run: &Run) -> Vec<JobContent> {
        let content = |artifact: ArtifactId| JobContent {
            artifact,
            path: self.artifact_path(artifact),
            link: format!("/v1/artifacts/{artifact}"),
        };
        run.artifacts().map(content).collect()
    }

    /// Where object storage has the file of an artifact.
    pub(crate) fn artifact_path(&self, id: ArtifactId) -> String {
        self.log_address(file_key(id).as_str())
    }
}
