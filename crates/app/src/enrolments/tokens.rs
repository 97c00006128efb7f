//! Join tokens.

use std::collections::BTreeSet;

use punctual_api::{
    CreatedWorkerToken, ErrorKind, FieldCode, WorkerEdit, WorkerToken, WorkerTokenList, WorkerTokenRequest, limits,
};
use punctual_core::namespace::{NamespaceName, NotANamespaceName};
use punctual_core::run::Run;
use punctual_core::worker_scope::WorkerScope;
use punctual_core::{JoinTokenId, Span, Timestamp};
use punctual_store::{JOIN_TOKENS_MAX, JoinRefusal, JoinTokenRow};

use crate::authority::KnownAuthorities;
use crate::principal::permission::ManageWorkers;
use crate::principal::{By, Principal};
use crate::{App, AppError, Checked, Faults, Result, validate};

const EXPIRES_IN_DEFAULT: Span = Span::from_secs(3600);
const EXPIRES_IN_MIN: Span = Span::from_secs(60);
/// A token that lies around for longer is forgotten, and somebody finds it.
const EXPIRES_IN_MAX: Span = Span::from_secs(30 * 86_400);
/// As many workers as somebody starts at once. A token that leaked lets in no more.
const USES_MAX: u32 = 10_000;
/// A worker has them in memory, and they travel with each list.
const QUEUES_MAX: usize = 256;
const KINDS_MAX: usize = 256;
const NAMESPACES_MAX: usize = 256;

impl Checked for WorkerTokenRequest {
    fn check(&self) -> Result<()> {
        let mut faults = Faults::default();
        faults.check(names("/queues", &self.queues, QUEUES_MAX, |queue| validate::name("/queues", queue)));
        faults.check(names("/kinds", &self.kinds, KINDS_MAX, kind));
        if self.labels.len() > limits::LABELS_MAX {
            faults.check(Err(AppError::too_long("/labels", format!("must be at most {}", limits::LABELS_MAX))));
        }
        for (key, value) in &self.labels {
            faults.check(validate::name("/labels", key));
            faults.check(validate::text("/labels", value, limits::LABEL_CHARS_MAX));
        }
        if self.expires_in.is_some_and(|span| !(EXPIRES_IN_MIN..=EXPIRES_IN_MAX).contains(&span)) {
            faults.check(Err(AppError::out_of_range("/expires_in", "must be between 1m and 30d")));
        }
        if self.uses.is_some_and(|uses| !(1..=USES_MAX).contains(&uses)) {
            faults.check(Err(AppError::out_of_range("/uses", format!("must be between 1 and {USES_MAX}"))));
        }
        if !self.namespaces.is_empty() {
            faults.check(names("/namespaces", &self.namespaces, NAMESPACES_MAX, namespace));
        }
        faults.finish()
    }
}

impl Checked for WorkerEdit {
    fn check(&self) -> Result<()> {
        if self.namespaces.is_empty() {
            let error = AppError::field("/namespaces", "must name at least one");
            return Err(error.hint("`punctual worker revoke` cuts a worker off"));
        }
        names("/namespaces", &self.namespaces, NAMESPACES_MAX, namespace)
    }
}

fn names(pointer: &str, names: &[String], max: usize, check: impl Fn(&str) -> Result<()>) -> Result<()> {
    if names.is_empty() {
        let error = AppError::field(pointer, "must name at least one").code(FieldCode::Required);
        return Err(error.hint("a worker may do only what its token names"));
    }
    if names.len() > max {
        return Err(AppError::too_long(pointer, format!("must be at most {max}")));
    }
    let mut faults = Faults::default();
    names.iter().for_each(|name| faults.check(check(name)));
    faults.finish()
}

fn kind(kind: &str) -> Result<()> {
    if Run::KINDS.contains(&kind) {
        return Ok(());
    }
    match kind.strip_prefix("handler:") {
        Some(handler) => validate::name("/kinds", handler),
        None => {
            let shown: String = kind.chars().take(limits::NAME_CHARS_MAX).collect();
            let error = AppError::field("/kinds", format!("`{shown}` is no kind of task"));
            Err(error.hint(format!("known are {} and handler:NAME", Run::KINDS.join(", "))))
        }
    }
}

fn namespace(name: &str) -> Result<()> {
    let refused = |error: NotANamespaceName| AppError::field("/namespaces", error.to_string());
    name.parse::<NamespaceName>().map(drop).map_err(refused)
}

/// Without repetitions, in their order.
fn distinct(names: &[String]) -> Vec<String> {
    let mut seen = BTreeSet::new();
    names.iter().filter(|name| seen.insert(*name)).cloned().collect()
}

impl App {
    /// Makes a token with which workers join. Its text is in the answer, and nowhere else.
    pub async fn create_worker_token(
        &self,
        by: &By<ManageWorkers>,
        request: &WorkerTokenRequest,
    ) -> Result<CreatedWorkerToken> {
        request.check()?;
        let mut namespaces = distinct(&request.namespaces);
        for name in &namespaces {
            self.choose_namespace(Principal::clone(by.principal()), name)?;
        }
        if namespaces.is_empty() {
            namespaces.push(NamespaceName::DEFAULT.to_owned());
        }
        let now = self.now();
        let authority = self.known_authorities(now).await?.for_servers(now).fingerprint();
        let secret = (self.0.vault.entropy())()?;
        let text = punctual_pki::JoinToken::new(JoinTokenId::new(now, self.random()), secret, authority);
        let scope = WorkerScope {
            namespaces,
            queues: distinct(&request.queues),
            labels: request.labels.clone(),
            kinds: distinct(&request.kinds),
        };
        let row = JoinTokenRow {
            id: text.id(),
            secret_sha256: text.secret_sha256(),
            scope,
            uses_max: request.uses.unwrap_or(1),
            uses: 0,
            created_at: now,
            created_by: by.who().to_owned(),
            expires_at: now + request.expires_in.unwrap_or(EXPIRES_IN_DEFAULT),
            revoked_at: None,
        };
        if !self.0.store.add_join_token(row.clone()).await? {
            let detail = format!("there are {JOIN_TOKENS_MAX} join tokens, the most there may be");
            let error = AppError::new(ErrorKind::TooManyWorkerTokens, detail);
            return Err(error.hint("those that ended are removed a week later; make fewer with more uses"));
        }
        by.changes(row.id.to_string());
        tracing::info!(token = %row.id, who = by.who(), "a join token was made");
        Ok(CreatedWorkerToken { details: view(row, now), token: text.reveal(), authority: authority.to_string() })
    }

    /// All join tokens, without their secrets, the oldest first.
    pub async fn list_worker_tokens(&self, _: &By<ManageWorkers>) -> Result<WorkerTokenList> {
        let now = self.now();
        let tokens = self.0.store.join_tokens().await?;
        Ok(WorkerTokenList { tokens: tokens.into_iter().map(|row| view(row, now)).collect() })
    }

    /// Changes the namespaces of all workers that joined with a token, and of those that will.
    pub async fn edit_worker_token(
        &self,
        by: &By<ManageWorkers>,
        id: JoinTokenId,
        edit: &WorkerEdit,
    ) -> Result<WorkerToken> {
        let namespaces = self.granted_namespaces(by, edit)?;
        if let Some(row) = self.0.store.join_token(id).await? {
            by.was(format!("namespaces {}", row.scope.namespaces.join(", ")));
        }
        let row = self.0.store.set_token_namespaces(id, namespaces).await?.ok_or_else(|| no_token(id))?;
        self.refresh_enrolments().await?;
        tracing::info!(token = %id, namespaces = row.scope.namespaces.join(","), who = by.who(), "workers serve other namespaces");
        Ok(view(row, self.now()))
    }

    /// Those that a worker is to serve, each of which is there.
    pub(super) fn granted_namespaces(&self, by: &By<ManageWorkers>, edit: &WorkerEdit) -> Result<Vec<String>> {
        edit.check()?;
        let names = distinct(&edit.namespaces);
        for name in &names {
            self.choose_namespace(Principal::clone(by.principal()), name)?;
        }
        Ok(names)
    }

    /// From now on nobody joins with the token. Workers that joined with it stay.
    pub async fn delete_worker_token(&self, by: &By<ManageWorkers>, id: JoinTokenId) -> Result<()> {
        if self.0.store.revoke_join_token(id, self.now()).await? {
            tracing::info!(token = %id, who = by.who(), "a join token was deleted");
            return Ok(());
        }
        if self.0.store.join_token(id).await?.is_some() {
            return Ok(());
        }
        Err(no_token(id))
    }

    /// The authorities of the cluster; an error if it has none.
    pub(super) async fn known_authorities(&self, now: Timestamp) -> Result<KnownAuthorities> {
        if self.0.store.authorities().await?.is_empty() {
            let detail = "this cluster has no authority: its servers run without TLS";
            let error = AppError::new(ErrorKind::NoAuthority, detail);
            return Err(error.hint("start the servers with `--tls cluster`; workers on the same machine need no token"));
        }
        let entropy = self.0.vault.entropy();
        KnownAuthorities::load_or_make(&*self.0.store, &self.0.keys, entropy, now).await.map_err(|error| {
            AppError::new(ErrorKind::Internal, "the authority of the cluster cannot be used").because(error)
        })
    }
}

fn no_token(id: JoinTokenId) -> AppError {
    let error = AppError::new(ErrorKind::WorkerTokenNotFound, format!("there is no join token {id}"));
    error.hint("`punctual worker token list` lists those that there are")
}

fn view(row: JoinTokenRow, now: Timestamp) -> WorkerToken {
    let state = match row.refusal(now) {
        None => "active",
        Some(JoinRefusal::Expired) => "expired",
        Some(JoinRefusal::UsedUp) => "used_up",
        Some(_) => "deleted",
    };
    WorkerToken {
        id: row.id,
        state: state.to_owned(),
        namespaces: row.scope.namespaces,
        queues: row.scope.queues,
        kinds: row.scope.kinds,
        labels: row.scope.labels,
        used: row.uses,
        uses: row.uses_max,
        created_at: row.created_at,
        created_by: row.created_by,
        expires_at: row.expires_at,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_names_what_its_workers_may_do() {
        let request = |queues: &[&str], kinds: &[&str]| WorkerTokenRequest {
            queues: queues.iter().map(|name| (*name).to_owned()).collect(),
            kinds: kinds.iter().map(|name| (*name).to_owned()).collect(),
            ..WorkerTokenRequest::default()
        };
        assert!(request(&["a", "b"], &["binary", "handler", "handler:resize"]).check().is_ok());
        for (queues, kinds, pointer) in [
            (&[][..], &["binary"][..], "/queues"),
            (&["a"], &[], "/kinds"),
            (&["a"], &["*"], "/kinds"),
            (&["a"], &["handler:"], "/kinds"),
            (&["a b"], &["binary"], "/queues"),
        ] {
            let refused = request(queues, kinds).check().expect_err(pointer);
            assert_eq!(refused.errors[0].pointer, pointer);
        }
        let good = request(&["a"], &["binary"]);
        for (wrong, pointer) in [
            (WorkerTokenRequest { uses: Some(0), ..good.clone() }, "/uses"),
            (WorkerTokenRequest { uses: Some(USES_MAX + 1), ..good.clone() }, "/uses"),
            (WorkerTokenRequest { expires_in: Some(Span::from_secs(59)), ..good.clone() }, "/expires_in"),
            (WorkerTokenRequest { namespaces: vec!["Other".to_owned()], ..good.clone() }, "/namespaces"),
        ] {
            assert_eq!(wrong.check().expect_err(pointer).errors[0].pointer, pointer);
        }
    }
}
