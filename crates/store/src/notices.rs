//! Notices that wait to be passed on, the rules for that, and the record of what was sent.
//!
//! Notices are written with what they are about, by [`Transitions::apply`](crate::Transitions::apply). One server at
//! a time takes them up and says with [`Notices::dispatch`], in one transaction, what became of them. Whoever holds
//! that duty only by mistake is stopped there: notices can be taken once, and a rule's state has a version.

use std::fmt;

use async_trait::async_trait;
use punctual_core::namespace::NamespaceId;
use punctual_core::notice::Notice;
use punctual_core::schedule::By;
use punctual_core::{JobId, TaskId, Timestamp};

use crate::{NewJob, Result};

/// Rules that there can be: each is matched against every notice.
pub const RULES_MAX: usize = 1000;
/// And of all namespaces: the server that reports reads all of them, again and again.
pub const RULES_OF_ALL_MAX: usize = 10_000;

/// A notice that nobody has taken yet.
#[derive(Debug, Clone, PartialEq)]
pub struct WaitingNotice {
    /// Grows with each notice of a store, with gaps. Those of later transactions may be smaller.
    pub seq: i64,
    pub notice: Notice,
}

/// Who is told of what, and how.
#[derive(Clone, PartialEq)]
pub struct RuleRow {
    pub namespace: NamespaceId,
    pub name: String,
    /// What the user wrote down, as JSON; a store does not look into it.
    pub spec: String,
    /// Grows with each change of the spec, from 1 on.
    pub revision: u32,
    pub created: By,
    pub changed: By,
    /// What waits to be sent, as JSON; a store does not look into it. `None` in a new rule; kept when the spec
    /// is changed.
    pub state: Option<String>,
    /// Grows by one with each dispatch that changes the state, and with each change of the spec. A new rule begins with
    /// a number that no other of its name has had, or what was known of that one would pass for known of this one.
    pub version: u64,
}

impl fmt::Debug for RuleRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { namespace, name, spec: _, revision, created, changed, state, version } = self;
        // It may hold an address that lets everybody post who knows it.
        let rule = (namespace, name, "***", revision);
        f.debug_tuple("RuleRow").field(&rule).field(created).field(changed).field(state).field(version).finish()
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RuleChange {
    Done {
        revision: u32,
    },
    /// It has another revision by now, 0 if it is not there.
    Conflict {
        revision: u32,
    },
    /// There are [`RULES_MAX`] in the namespace, or [`RULES_OF_ALL_MAX`].
    Full,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RuleDeletion {
    Done,
    Absent,
    /// The rule has this revision, not the one that the deletion was based on.
    Conflict {
        revision: u32,
    },
}

/// A task that has failed and not succeeded since.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ailing {
    pub task: TaskId,
    /// Its first failure since it was well.
    pub since: Timestamp,
    pub last: Timestamp,
    pub failures: u32,
}

/// A message that was handed to a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeliveryRow {
    pub namespace: NamespaceId,
    pub rule: String,
    pub at: Timestamp,
    /// Its delivery.
    pub job: JobId,
    /// How many jobs and planned times it is about.
    pub events: u32,
    /// In a line, for people.
    pub summary: String,
}

/// What became of notices. All of it or nothing.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Dispatch {
    /// They are dealt with.
    pub taken: Vec<i64>,
    pub rules: Vec<RuleUpdate>,
    /// Tasks that ail now; replaces what was known of them.
    pub ailing: Vec<Ailing>,
    /// Tasks that are well again, or gone.
    pub well: Vec<TaskId>,
    /// One job delivers once: the same time and job again makes the dispatch `Inconsistent`.
    pub deliveries: Vec<DeliveryRow>,
    /// The jobs that deliver; as by [`Submit::submit`](crate::Submit::submit).
    pub jobs: Vec<NewJob>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct RuleUpdate {
    pub namespace: NamespaceId,
    pub name: String,
    /// That it has now.
    pub version: u64,
    pub state: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dispatched {
    Done,
    /// One of the notices was taken, or one of the rules has another version or is gone. Nothing was done.
    Conflict,
}

/// Where several rows are asked for, one that cannot be read is passed over and stays: nobody would be told of anything
/// for it. It takes nothing from a page. The log names it once, and so many of them: [`UNREADABLE_NAMED_MAX`].
///
/// [`UNREADABLE_NAMED_MAX`]: crate::UNREADABLE_NAMED_MAX
#[async_trait]
pub trait Notices: Send + Sync + 'static {
    /// Stores a rule, or the spec of the one with its name. `expected` is the revision that it must have; 0: that it
    /// must not be there; `None`: whatever there is. Of `row` the name, the spec and `changed` count;
    /// `changed` is also who created a new one, and `version` is what a new one begins with.
    async fn put_rule(&self, row: RuleRow, expected: Option<u32>) -> Result<RuleChange>;

    /// What waits to be sent goes with the rule; the record of what was sent stays. `expected` is the revision that the
    /// rule must have; `None`: whatever it has.
    async fn delete_rule(&self, namespace: NamespaceId, name: &str, expected: Option<u32>) -> Result<RuleDeletion>;

    /// All of a namespace, or of all for those who match notices, in order of (namespace, name).
    async fn rules(&self, namespace: Option<NamespaceId>) -> Result<Vec<RuleRow>>;

    async fn rule(&self, namespace: NamespaceId, name: &str) -> Result<Option<RuleRow>>;

    /// Those that nobody has taken, in order of number, at most `limit`.
    async fn waiting_notices(&self, limit: usize) -> Result<Vec<WaitingNotice>>;

    /// Crash before: the notices wait as before. Crash after, before the answer: they are taken, and whoever asks
    /// again is told of the conflict and looks anew.
    async fn dispatch(&self, dispatch: Dispatch) -> Result<Dispatched>;

    /// Those of `tasks` that ail, in no order.
    async fn ailing_of(&self, tasks: Vec<TaskId>) -> Result<Vec<Ailing>>;

    /// The `limit` tasks of a namespace, or of all, that failed last, the latest first: by (last failure, task).
    async fn ailing(&self, namespace: Option<NamespaceId>, limit: usize) -> Result<Vec<Ailing>>;

    /// Of a rule, or of all of a namespace, the latest first: by (time, job), before `before`.
    async fn deliveries(
        &self,
        namespace: NamespaceId,
        rule: Option<String>,
        before: Option<(Timestamp, JobId)>,
        limit: usize,
    ) -> Result<Vec<DeliveryRow>>;
}
