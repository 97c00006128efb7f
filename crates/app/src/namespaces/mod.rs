//! Namespaces: the tenants of a cluster. Which of them somebody sees, in which one they ask, and how they are managed.
//!
//! To somebody without a right in it, a namespace is not there: one that does not exist gets the same answer after the same
//! work.

mod table;

use punctual_api::{DoneBy, ErrorKind, NamespaceEdit, NamespaceList, NamespaceRequest, NamespaceView, Quotas, limits};
use punctual_core::JobId;
use punctual_core::namespace::{NamespaceId, NamespaceName, ServedNamespaces};
use punctual_core::schedule::By as ChangedBy;
use punctual_store::{NAMESPACES_MAX, NamespaceChange, NamespaceDeletion, NamespaceRow};
use serde::{Deserialize, Serialize};

pub use table::Namespace;
pub(crate) use table::{NamespaceTable, OwnJobs};

use crate::principal::permission::ManageNamespaces;
use crate::principal::{By, Permission, Principal};
use crate::{App, AppError, Checked, Faults, Precondition, Result, jobs, validate};

const WHAT: &str = "namespace";

/// What people write down about a namespace, as the store keeps it. Fields of a newer version are lost when an older one
/// changes it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
struct Spec {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    #[serde(default, skip_serializing_if = "Quotas::is_empty")]
    quotas: Quotas,
}

impl Spec {
    fn read(row: &NamespaceRow) -> Self {
        serde_json::from_str(&row.spec).unwrap_or_else(|error| {
            tracing::warn!(namespace = %row.name, %error, "what is written about a namespace cannot be read");
            Self::default()
        })
    }

    fn to_text(&self) -> String {
        serde_json::to_string(self).expect("texts are JSON")
    }
}

impl App {
    /// Asks in the namespace of this name, or says that it is not there.
    pub(crate) fn choose_namespace(&self, principal: Principal, name: &str) -> Result<Principal> {
        let found = self.0.namespaces.named(name).filter(|found| principal.grants().sees(found.id()));
        found.map(|found| principal.choosing(found)).ok_or_else(|| not_found(name))
    }

    /// `now` is what `before` is by now. It asks in the same namespace, if that is still there for it.
    pub(crate) fn choose_again(&self, now: Principal, before: &Principal) -> Result<Principal> {
        if !before.has_chosen_namespace() {
            return Ok(now);
        }
        let found = self.0.namespaces.by_id(before.namespace().id()).filter(|found| now.grants().sees(found.id()));
        found.map(|found| now.choosing(found)).ok_or_else(|| not_found(before.namespace().name()))
    }

    /// Reads the namespaces if they have changed. Called once a second, and after each change made here.
    pub async fn refresh_namespaces(&self) -> Result<()> {
        let table = &self.0.namespaces;
        let _turn = table.turn.lock().await;
        if table.revision() != Some(self.0.store.namespaces_revision().await?) {
            table.replace(self.0.store.namespaces().await?);
            let quotas = |row: &NamespaceRow| (row.id, row.name.as_str().to_owned(), Spec::read(row).quotas);
            self.0.quotas.replace(table.live().iter().map(|row| quotas(row)));
            self.0.vault.keep_keys(|namespace| table.by_id(namespace).is_some());
        }
        Ok(())
    }

    /// Whether there is one namespace. Reads them first if that is not known yet, as right after a start.
    pub(crate) async fn has_one_namespace(&self) -> Result<bool> {
        if self.0.namespaces.revision().is_none() {
            self.refresh_namespaces().await?;
        }
        Ok(self.0.namespaces.is_single())
    }

    /// Whether there is a namespace beside the default one, as far as this server knows.
    pub fn has_several_namespaces(&self) -> bool {
        self.0.namespaces.has_several()
    }

    /// Those in which the principal has a right, in order of name.
    pub async fn list_namespaces(&self, principal: &Principal) -> Result<NamespaceList> {
        self.refresh_namespaces().await?;
        let rows = self.0.namespaces.live();
        let seen = rows.iter().filter(|row| principal.grants().sees(row.id));
        Ok(NamespaceList { namespaces: seen.map(|row| view(row, principal)).collect() })
    }

    /// One of them, with what it uses.
    pub async fn namespace(&self, principal: &Principal, name: &str) -> Result<NamespaceView> {
        self.refresh_namespaces().await?;
        let rows = self.0.namespaces.live();
        let found = rows.iter().find(|row| row.name.as_str() == name);
        let seen = found.filter(|row| principal.grants().sees(row.id)).ok_or_else(|| not_found(name))?;
        Ok(NamespaceView { usage: Some(self.usage_of(seen.id).await?), ..view(seen, principal) })
    }

    pub async fn create_namespace(
        &self,
        by: &By<ManageNamespaces>,
        request: NamespaceRequest,
    ) -> Result<NamespaceView> {
        request.check()?;
        let name = parsed(&request.name)?;
        self.check_quotas(&request.quotas, name.as_str() == NamespaceName::DEFAULT)?;
        by.changes(&request.name);
        let description = request.description.filter(|text| !text.is_empty());
        let spec = Spec { description, quotas: Quotas::default().with(request.quotas) };
        match self.0.store.create_namespace(name, spec.to_text(), self.changed_by(by)).await? {
            NamespaceChange::Done(row) => {
                self.refresh_namespaces().await?;
                Ok(view(&row, by.principal()))
            }
            NamespaceChange::NameTaken => {
                let detail = format!("there is a namespace named {}", request.name);
                Err(AppError::new(ErrorKind::NamespaceExists, detail).hint("choose another name, or use that one"))
            }
            NamespaceChange::Full | NamespaceChange::Absent | NamespaceChange::Conflict { .. } => {
                let detail = format!("there are {NAMESPACES_MAX} namespaces, the most there may be");
                let hint = "delete those that nobody needs; one that was deleted counts until its history is gone";
                Err(AppError::new(ErrorKind::TooManyNamespaces, detail).hint(hint))
            }
        }
    }

    /// Changes what the request names.
    pub async fn edit_namespace(
        &self,
        by: &By<ManageNamespaces>,
        name: &str,
        edit: NamespaceEdit,
        when: Precondition,
    ) -> Result<NamespaceView> {
        edit.check()?;
        for _ in 0..TRIES_MAX {
            self.refresh_namespaces().await?;
            let rows = self.0.namespaces.live();
            let row = rows.iter().find(|row| row.name.as_str() == name).ok_or_else(|| not_found(name))?;
            when.check(WHAT, name, Some(row.revision))?;
            self.check_quotas(&edit.quotas, row.id.is_default())?;
            by.was(format!("revision {}", row.revision));
            let mut spec = Spec::read(row);
            spec.quotas = spec.quotas.with(edit.quotas);
            if let Some(description) = &edit.description {
                spec.description = Some(description.clone()).filter(|text| !text.is_empty());
            }
            let changed = self.0.store.update_namespace(row.id, row.revision, spec.to_text(), self.changed_by(by));
            match changed.await? {
                NamespaceChange::Done(row) => {
                    self.refresh_namespaces().await?;
                    return Ok(view(&row, by.principal()));
                }
                NamespaceChange::Absent => return Err(not_found(name)),
                NamespaceChange::NameTaken | NamespaceChange::Full | NamespaceChange::Conflict { .. } => {}
            }
        }
        let error = AppError::new(ErrorKind::Unavailable, format!("{name} is being changed by many at once"));
        Err(error.hint("try again"))
    }

    /// Deletes a namespace in which there is nothing but history.
    pub async fn delete_namespace(&self, by: &By<ManageNamespaces>, name: &str, when: Precondition) -> Result<()> {
        self.refresh_namespaces().await?;
        let rows = self.0.namespaces.live();
        let row = rows.iter().find(|row| row.name.as_str() == name).ok_or_else(|| not_found(name))?;
        when.check(WHAT, name, Some(row.revision))?;
        by.was(format!("revision {}", row.revision));
        let in_use =
            |detail: String, hint: &str| Err(AppError::new(ErrorKind::NamespaceInUse, detail).hint(hint.to_owned()));
        let deleted = self.0.store.delete_namespace(row.id, when.revision(), self.changed_by(by)).await?;
        self.refresh_namespaces().await?;
        match deleted {
            NamespaceDeletion::Done => Ok(()),
            NamespaceDeletion::Absent => Err(not_found(name)),
            NamespaceDeletion::Conflict { revision } => Err(when.refusal(WHAT, name, Some(revision))),
            NamespaceDeletion::IsDefault => {
                in_use("the namespace default always exists".to_owned(), "delete what is in it instead")
            }
            NamespaceDeletion::InUse(content) => in_use(
                format!("there are still {} in {name}", content.as_str()),
                "delete them first; waiting jobs can be deleted or cancelled",
            ),
        }
    }

    fn changed_by(&self, by: &By<ManageNamespaces>) -> ChangedBy {
        ChangedBy { at: self.now(), who: by.who().to_owned() }
    }

    /// Those of the names that are namespaces now.
    pub(crate) fn namespaces_named(&self, names: &[String]) -> ServedNamespaces {
        let found = names.iter().filter_map(|name| self.0.namespaces.named(name));
        ServedNamespaces::Only(found.map(|namespace| namespace.id()).collect())
    }

    /// Refuses what is asked about a job of another namespace as if the job were not there. Nothing is read as long as there is
    /// one namespace: what every request of a single tenant passes must cost nothing.
    pub(crate) async fn check_job<R: Permission>(&self, by: &By<R>, id: JobId) -> Result<()> {
        self.check_job_in(by.namespace(), id).await
    }

    pub(crate) async fn check_job_in(&self, own: NamespaceId, id: JobId) -> Result<()> {
        if own.is_default() && self.has_one_namespace().await? {
            return Ok(());
        }
        if self.0.own_jobs.has(own, id) {
            return Ok(());
        }
        match self.namespace_of_job(id).await? {
            Some(namespace) if namespace == own => {
                self.0.own_jobs.remember(namespace, id);
                Ok(())
            }
            Some(_) | None => Err(jobs::not_found(id)),
        }
    }

    /// `None` if there is no such job. One read of a few bytes, whether it is there or not.
    pub(crate) async fn namespace_of_job(&self, id: JobId) -> Result<Option<NamespaceId>> {
        if id.shard().0 >= self.0.store.shard_count() {
            return Ok(None);
        }
        Ok(self.0.store.namespace_of_job(id).await?)
    }
}

/// How often a change is tried again that others came before.
const TRIES_MAX: usize = 5;

/// The same for a namespace that does not exist and one that is not for whoever asks.
pub(crate) fn not_found(name: &str) -> AppError {
    let shown: String = name.chars().take(limits::NAME_CHARS_MAX).collect();
    AppError::new(ErrorKind::NamespaceNotFound, format!("there is no namespace {shown}"))
        .hint("GET /v1/namespaces lists yours; the header `Punctual-Namespace` chooses one")
}

fn parsed(name: &str) -> Result<NamespaceName> {
    name.parse()
        .map_err(|error: punctual_core::namespace::NotANamespaceName| AppError::field("/name", error.to_string()))
}

fn view(row: &NamespaceRow, principal: &Principal) -> NamespaceView {
    NamespaceView {
        name: row.name.as_str().to_owned(),
        description: Spec::read(row).description,
        revision: row.revision,
        quotas: Spec::read(row).quotas,
        usage: None,
        created: DoneBy { at: row.created_at, who: row.created_by.clone() },
        changed: DoneBy { at: row.changed_at, who: row.changed_by.clone() },
        rights: principal.grants().within(row.id).names().into_iter().map(str::to_owned).collect(),
    }
}

fn description(text: Option<&String>) -> Result<()> {
    text.map_or(Ok(()), |text| validate::text("/description", text, limits::NAMESPACE_DESCRIPTION_CHARS_MAX))
}

impl Checked for NamespaceRequest {
    fn check(&self) -> Result<()> {
        let mut faults = Faults::default();
        faults.value(parsed(&self.name));
        faults.check(description(self.description.as_ref()));
        faults.finish()
    }
}

impl Checked for NamespaceEdit {
    fn check(&self) -> Result<()> {
        description(self.description.as_ref())
    }
}
