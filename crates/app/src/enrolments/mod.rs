//! Workers on other hosts: join tokens, certificates, and what each worker may do.
//!
//! An administrator makes a token with a scope. A worker joins with it, gets an enrolment with that scope and a certificate that
//! names the enrolment, and renews the certificate while the enrolment lasts. What a worker may do is read from its enrolment at
//! each connection, never from the worker or the certificate, so a revocation counts at once; see [`table`].

mod join;
mod table;
mod tokens;

use punctual_api::{EnrolmentList, EnrolmentQuery, EnrolmentView, ErrorKind, WorkerEdit};
use punctual_core::namespace::ServedNamespaces;
use punctual_core::shard::event::WorkerSpec;
use punctual_core::worker_scope::OutOfScope;
use punctual_core::{EnrolmentId, Timestamp, WorkerId};
use punctual_store::Enrolment;

pub use join::{CERTIFICATE_LIFETIME, IssuedCertificate, JoiningWorker};
pub(crate) use table::EnrolmentTable;
use table::Standing;

use crate::parameters;
use crate::principal::permission::{ManageWorkers, ServeJobs, ViewWorkers};
use crate::principal::{By, Principal, PrincipalKind};
use crate::{App, AppError, Checked, Result, WorkerHello};

/// What changed since the last look is read in pieces of this size.
const CHANGES_READ_AT_ONCE: usize = 1000;

impl Checked for EnrolmentQuery {
    fn check(&self) -> Result<()> {
        read_page(self).map(drop)
    }
}

fn read_page(query: &EnrolmentQuery) -> Result<(usize, Option<EnrolmentId>)> {
    let cursor = |text: &str| text.parse().map_err(|_| parameters::bad_cursor());
    parameters::page(query.limit.as_deref(), query.cursor.as_deref(), cursor)
}

impl App {
    /// The workers that joined, the oldest first.
    pub async fn list_enrolments(&self, _: &By<ViewWorkers>, query: &EnrolmentQuery) -> Result<EnrolmentList> {
        let (limit, after) = read_page(query)?;
        // What another server did a moment ago is shown, too.
        self.refresh_enrolments().await?;
        let now = self.now();
        let mut rows = self.0.enrolments.page(after, limit + 1);
        let has_more = rows.len() > limit;
        rows.truncate(limit);
        let next_cursor = rows.last().filter(|_| has_more).map(|row| row.id.to_string());
        Ok(EnrolmentList { enrolments: rows.iter().map(|row| view(row, now)).collect(), next_cursor })
    }

    /// Ends an enrolment: the worker's streams are cut on all servers, and what it runs is lost.
    pub async fn revoke_worker(&self, by: &By<ManageWorkers>, id: EnrolmentId) -> Result<()> {
        let is_new = self.0.store.revoke_enrolment(id, self.now()).await?;
        self.refresh_enrolments().await?;
        if is_new {
            tracing::info!(enrolment = %id, who = by.who(), "a worker was revoked");
            return Ok(());
        }
        match self.0.enrolments.standing(id, self.now()) {
            Standing::Revoked => Ok(()),
            Standing::Active(_) | Standing::Expired | Standing::Unknown | Standing::NotLoaded => Err(not_joined(id)),
        }
    }

    /// Changes the namespaces whose jobs a worker runs. Its streams are opened anew within seconds; what it runs goes on.
    pub async fn edit_worker(
        &self,
        by: &By<ManageWorkers>,
        id: EnrolmentId,
        edit: &WorkerEdit,
    ) -> Result<EnrolmentView> {
        let namespaces = self.granted_namespaces(by, edit)?;
        self.refresh_enrolments().await?;
        if let Standing::Active(row) = self.0.enrolments.standing(id, self.now()) {
            by.was(format!("namespaces {}", row.scope.namespaces.join(", ")));
        }
        let row = self.0.store.set_worker_namespaces(id, namespaces).await?.ok_or_else(|| not_joined(id))?;
        self.refresh_enrolments().await?;
        tracing::info!(enrolment = %id, namespaces = row.scope.namespaces.join(","), who = by.who(), "a worker serves other namespaces");
        Ok(view(&row, self.now()))
    }

    /// The namespaces that a worker with an enrolment may serve now. `None` without one, and while it is not known.
    pub fn namespaces_of_worker(&self, by: &By<ServeJobs>) -> Option<ServedNamespaces> {
        match self.0.enrolments.standing(enrolment_of(by.principal())?, self.now()) {
            Standing::Active(row) => Some(self.namespaces_named(&row.scope.namespaces)),
            Standing::Revoked | Standing::Expired | Standing::Unknown | Standing::NotLoaded => None,
        }
    }

    /// Reads what has changed about enrolments, and ends the work of workers that may not work any more. Called every second.
    pub async fn refresh_enrolments(&self) -> Result<()> {
        let table = &self.0.enrolments;
        // One at a time: a page that was read earlier must not come after a later one.
        let _turn = table.turn.lock().await;
        let mut after = table.revision();
        let mut first = true;
        loop {
            let changes = self.0.store.enrolments_changed(after, CHANGES_READ_AT_ONCE).await?;
            if first && changes.revision < after {
                // The database went back in time: what was known since may not be true.
                table.forget_all();
                after = 0;
                continue;
            }
            first = false;
            let is_last = changes.rows.len() < CHANGES_READ_AT_ONCE;
            after = changes.rows.last().map_or(after, |row| row.revision);
            table.keep(changes.rows, self.now());
            if is_last {
                break;
            }
        }
        table.loaded();
        let ended = table.ended_workers(self.now());
        if !ended.is_empty() {
            tracing::warn!(
                workers = ended.len(),
                "workers were cut off: they were revoked, or their certificate expired"
            );
            self.0.engine.workers_revoked(ended);
        }
        Ok(())
    }

    /// The principal of a worker whose certificate was verified.
    pub(crate) fn enrolled_principal(&self, id: &str) -> Result<Principal> {
        let refused = |kind, detail: &str, hint: &str| Err(AppError::new(kind, detail.to_owned()).hint(hint));
        let again = "have an administrator make a join token, and start the worker with it";
        let Ok(enrolment) = id.parse::<EnrolmentId>() else {
            return refused(ErrorKind::WorkerNotEnrolled, "the certificate names no enrolment", again);
        };
        match self.0.enrolments.standing(enrolment, self.now()) {
            Standing::Active(_) => {
                let rights = punctual_core::access::Rights::of(&[punctual_core::access::Right::ServeJobs]);
                let principal = Principal::new(PrincipalKind::Worker, format!("worker:{enrolment}"), rights);
                Ok(principal.with_credential(enrolment.to_string()))
            }
            Standing::Revoked => refused(ErrorKind::WorkerRevoked, "the worker was revoked", again),
            Standing::Expired => refused(ErrorKind::WorkerNotEnrolled, "the worker's certificate expired", again),
            Standing::Unknown => refused(ErrorKind::WorkerNotEnrolled, "there is no such enrolment", again),
            Standing::NotLoaded => {
                refused(ErrorKind::Unavailable, "the enrolments are not loaded yet", "try again in a moment")
            }
        }
    }

    /// Whether somebody may speak as a worker. Off this machine only a worker with a certificate may.
    pub fn check_worker(&self, by: &By<ServeJobs>) -> Result<()> {
        let principal = by.principal();
        let is_here = principal.address().is_none_or(|address| address.to_canonical().is_loopback());
        match principal.kind() {
            PrincipalKind::Worker => self.renew(principal).map(drop),
            PrincipalKind::LocalUser => Ok(()),
            _ if is_here => Ok(()),
            _ => Err(Self::certificate_lacking()),
        }
    }

    /// What a worker on another machine is told that shows no certificate.
    pub fn certificate_lacking() -> AppError {
        let detail = "a worker on another machine needs a certificate, and no other credential will do";
        AppError::new(ErrorKind::WorkerNotEnrolled, detail)
            .hint("make a join token with `punctual worker token create`, and start the worker with `punctual worker --join FILE`")
    }

    /// What a worker offers, cut to what its enrolment permits.
    pub(crate) fn in_scope(&self, by: &By<ServeJobs>, hello: WorkerHello) -> Result<WorkerHello> {
        self.check_worker(by)?;
        let Some(enrolment) = enrolment_of(by.principal()) else { return Ok(hello) };
        let Standing::Active(row) = self.0.enrolments.standing(enrolment, self.now()) else {
            return self.enrolled_principal(&enrolment.to_string()).and(Err(gone()));
        };
        let refused = |what: &str, permitted: &[String]| {
            out_of_scope(&format!("the enrolment permits none of the worker's {what}"), permitted)
        };
        let WorkerHello { spec, commands_as, .. } = hello;
        let permitted = self.namespaces_named(&row.scope.namespaces);
        let spec: WorkerSpec = row.scope.narrow(spec, permitted).map_err(|out| match out {
            OutOfScope::Namespaces => refused("namespaces", &row.scope.namespaces),
            OutOfScope::Queues => refused("queues", &row.scope.queues),
            OutOfScope::Kinds => refused("kinds of tasks", &row.scope.kinds),
        })?;
        let commands_as = if row.scope.permits("command") { commands_as } else { String::new() };
        Ok(WorkerHello { spec, commands_as, ..hello })
    }

    /// Reads the namespaces if the enrolment names one that this server has not heard of yet: it may have just been created.
    pub(crate) async fn know_namespaces_of(&self, by: &By<ServeJobs>) {
        let Some(enrolment) = enrolment_of(by.principal()) else { return };
        let Standing::Active(row) = self.0.enrolments.standing(enrolment, self.now()) else { return };
        let is_unknown = |name: &String| self.0.namespaces.named(name).is_none();
        if row.scope.namespaces.iter().any(is_unknown)
            && let Err(error) = self.refresh_namespaces().await
        {
            tracing::debug!(%error, "the namespaces of a worker could not be read");
        }
    }

    /// A worker with an enrolment has a stream here. It is cut when the enrolment ends.
    pub(crate) fn worker_serves(&self, by: &By<ServeJobs>, worker: WorkerId) {
        if let Some(enrolment) = enrolment_of(by.principal()) {
            self.0.enrolments.serves(worker, enrolment);
        }
    }
}

fn out_of_scope(detail: &str, permitted: &[String]) -> AppError {
    AppError::new(ErrorKind::OutOfScope, detail).hint(format!("it permits {}", permitted.join(", ")))
}

fn not_joined(id: EnrolmentId) -> AppError {
    let error = AppError::new(ErrorKind::EnrolmentNotFound, format!("no worker joined as {id}"));
    error.hint("`punctual worker enrolments` lists those that did")
}

fn gone() -> AppError {
    AppError::new(ErrorKind::WorkerNotEnrolled, "the enrolment has just changed").hint("connect again")
}

pub(crate) fn enrolment_of(principal: &Principal) -> Option<EnrolmentId> {
    match principal.kind() {
        PrincipalKind::Worker => principal.credential()?.parse().ok(),
        _ => None,
    }
}

fn view(row: &Enrolment, now: Timestamp) -> EnrolmentView {
    let state = match row.revoked_at {
        Some(_) => "revoked",
        None if row.expires_at <= now => "expired",
        None => "active",
    };
    let scope = row.scope.clone();
    EnrolmentView {
        id: row.id,
        name: row.name.clone(),
        state: state.to_owned(),
        namespaces: scope.namespaces,
        queues: scope.queues,
        kinds: scope.kinds,
        labels: scope.labels,
        token: row.join_token,
        enrolled_at: row.enrolled_at,
        renewed_at: row.renewed_at,
        expires_at: row.expires_at,
        revoked_at: row.revoked_at,
    }
}
