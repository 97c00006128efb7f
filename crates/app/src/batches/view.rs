//! Batches for people.

use std::collections::BTreeMap;

use punctual_api::{
    BatchList, BatchQuery, BatchSummary, BatchView, DoneBy, ErrorKind, Job, JobInBatch, MemberList, MemberQuery,
    MemberView,
};
use punctual_core::batch::{BatchStart, BatchStatus, MemberRole, MemberStatus, OnStartTimeout};
use punctual_core::schedule::By as DoneAt;
use punctual_core::shard::{Answer, Ask, GangView};
use punctual_core::{BatchId, NamespaceId};
use punctual_store::{BatchFilter, BatchRow};

use crate::parameters::{bad_cursor, page, word};
use crate::principal::By;
use crate::principal::permission::ViewJobs;
use crate::route::Live;
use crate::{App, AppError, Checked, Result};

impl App {
    pub async fn batch(&self, by: &By<ViewJobs>, id: BatchId) -> Result<BatchView> {
        let row = self.read_batch(by.namespace(), id).await?;
        self.batch_view(&row).await
    }

    pub async fn list_batches(&self, by: &By<ViewJobs>, query: BatchQuery) -> Result<BatchList> {
        let read = |text: &str| text.parse::<BatchId>().map_err(|_| bad_cursor());
        let words = BatchStatus::ALL.map(|status| (status.as_str(), status));
        let status = word("state", query.state.as_deref(), &words)?;
        let (limit, before) = page(query.limit.as_deref(), query.cursor.as_deref(), read)?;
        let filter = BatchFilter { namespace: by.namespace(), status, before, limit };
        let rows = self.0.store.list_batches(filter).await?;
        let next_cursor = rows.last().filter(|_| rows.len() == limit).map(|last| last.id.to_string());
        Ok(BatchList { batches: rows.iter().map(|row| self.batch_summary(row)).collect(), next_cursor })
    }

    pub async fn list_members(&self, by: &By<ViewJobs>, id: BatchId, query: MemberQuery) -> Result<MemberList> {
        let read = |text: &str| text.parse::<u16>().map_err(|_| bad_cursor());
        let words = MemberStatus::ALL.map(|status| (status.as_str(), status));
        let status = word("state", query.state.as_deref(), &words)?;
        let (limit, after) = page(query.limit.as_deref(), query.cursor.as_deref(), read)?;
        let row = self.read_batch(by.namespace(), id).await?;
        let first = after.map_or(0, |after| after.saturating_add(1));
        let places = (first..).take_while(|place| usize::from(*place) < row.members.len());
        let wanted = places.filter(|place| status.is_none() || row.state.member(*place) == status);
        let members: Vec<MemberView> = wanted.take(limit).filter_map(|place| member_view(&row, place)).collect();
        let next_cursor = members.last().filter(|_| members.len() == limit).map(|last| last.place.to_string());
        Ok(MemberList { members, next_cursor })
    }

    pub(super) async fn read_batch(&self, namespace: NamespaceId, id: BatchId) -> Result<BatchRow> {
        let row = self.0.store.batch_in(namespace, id).await?;
        row.ok_or_else(|| AppError::new(ErrorKind::BatchNotFound, format!("there is no batch {id}")))
    }

    fn batch_summary(&self, row: &BatchRow) -> BatchSummary {
        let active = row.state.count(MemberStatus::Active);
        BatchSummary {
            id: row.id,
            name: row.name.clone(),
            state: self.batch_state(row).to_owned(),
            created: done(&row.made),
            due_at: row.due_at,
            ended_at: row.state.ended_at,
            members: row.state.len() as u32,
            members_ended: (row.state.len() - active) as u32,
        }
    }

    fn batch_state(&self, row: &BatchRow) -> &'static str {
        if row.status == BatchStatus::Active && row.due_at > self.now() { "scheduled" } else { row.status.as_str() }
    }

    pub(super) async fn batch_view(&self, row: &BatchRow) -> Result<BatchView> {
        let contract = row.state.contract;
        let is_together = contract.start == BatchStart::Together;
        let counts = row.state.counts();
        let counts: BTreeMap<String, u32> =
            counts.present().map(|(status, count)| (status.as_str().to_owned(), count)).collect();
        Ok(BatchView {
            id: row.id,
            name: row.name.clone(),
            state: self.batch_state(row).to_owned(),
            explanation: self.batch_explanation(row).await?,
            created: done(&row.made),
            due_at: row.due_at,
            start: contract.start,
            start_timeout: contract.start_timeout,
            on_start_timeout: is_together.then_some(contract.on_start_timeout),
            unplaceable: is_together.then_some(contract.unplaceable),
            outcome: contract.outcome,
            members: row.state.len() as u32,
            counts,
            first_failed: row.state.first_failed.and_then(|place| member_view(row, place)),
            reason: row.state.reason.clone(),
            cancelled: row.state.cancelled.as_ref().map(|note| DoneBy { at: note.at, who: note.by.clone() }),
            ended_at: row.state.ended_at,
            warnings: Vec::new(),
        })
    }

    async fn batch_explanation(&self, row: &BatchRow) -> Result<String> {
        let size = row.state.len();
        let active = row.state.count(MemberStatus::Active);
        let reason = || row.state.reason.clone().unwrap_or_else(|| "it was cancelled".to_owned());
        let why = match &row.state.cancelled {
            Some(note) => format!("{} cancelled it", note.by),
            None => reason(),
        };
        Ok(match row.status {
            BatchStatus::Active if active == size && row.state.contract.start == BatchStart::Together => {
                self.gang_explanation(row).await?
            }
            BatchStatus::Active if row.due_at > self.now() => format!("Its {size} members are due at {}.", row.due_at),
            BatchStatus::Active => format!("{active} of {size} members wait or run."),
            BatchStatus::Stopping if active > 0 => format!("It stops: {why}. {active} members are being cancelled."),
            BatchStatus::Stopping => format!("It stops: {why}. What succeeded is about to be undone."),
            BatchStatus::Compensating => {
                let left = row.state.count(MemberStatus::Compensating);
                format!("It stops: {why}. {left} compensations wait or run.")
            }
            BatchStatus::Succeeded => format!("All {size} members succeeded."),
            BatchStatus::Failed => format!("It failed: {}.", reason()),
            BatchStatus::Cancelled => match &row.state.reason {
                Some(reason) => format!("{why}; {reason}."),
                None => format!("{why}."),
            },
        })
    }

    /// Of a batch that starts together, none of whose members has ended.
    async fn gang_explanation(&self, row: &BatchRow) -> Result<String> {
        let size = row.state.len();
        let first = row.member_job(0);
        if row.due_at <= self.now() && matches!(self.live(first).await?, Live::Running { .. }) {
            return Ok(format!("Its {size} members have started together."));
        }
        let lack = self.batch_lacks(row).await?;
        if row.due_at > self.now() {
            let lack = lack.map(|lack| format!(" Now it {lack}.")).unwrap_or_default();
            return Ok(format!("Its {size} members start together at {}.{lack}", row.due_at));
        }
        let wait = match lack {
            Some(lack) => format!("it {lack}"),
            None => match self.gang_of(row).await {
                Some(gang) => gang_waits(&gang),
                None => format!("it waits for {size} free slots at once"),
            },
        };
        let timeout = row.state.contract.start_timeout.map(|timeout| row.due_at + timeout);
        let then = match (timeout, row.state.contract.on_start_timeout) {
            (Some(at), OnStartTimeout::Fail) => format!(" It fails if it has not started by {at}."),
            (Some(at), OnStartTimeout::Wait) if at > self.now() => format!(" Other jobs hold back for it until {at}."),
            (_, _) => String::new(),
        };
        Ok(format!("Its {size} members start together: {wait}.{then}"))
    }

    /// What the owner of its shard says. `None` if it has started, or nobody could be asked.
    async fn gang_of(&self, row: &BatchRow) -> Option<GangView> {
        match self.ask(Ask::Gang { id: row.member_job(0) }).await.ok()?.answer {
            Answer::Gang(gang) => gang,
            _ => None,
        }
    }

    /// The job, with its place in its batch or its run. Their jobs carry the id of what they belong to as their tracing id, so that
    /// nothing is looked up for others.
    pub(crate) async fn with_owner(&self, namespace: NamespaceId, job: Job) -> Result<Job> {
        let is_of_batch = job.tracing_id.as_deref().is_some_and(|id| id.parse::<BatchId>().is_ok());
        if !is_of_batch {
            return self.with_run(namespace, job).await;
        }
        // A member may run a workflow.
        let job = self.with_run(namespace, job).await?;
        let Some(member) = self.0.store.member_of_job(job.id).await? else { return Ok(job) };
        let Some(row) = self.0.store.batch(member.batch).await?.filter(|row| row.namespace == namespace) else {
            return Ok(job);
        };
        let is_compensation = member.role == MemberRole::Compensation;
        let place = JobInBatch { batch: row.id, place: u32::from(member.place), is_compensation };
        let what = if is_compensation { "It undoes member" } else { "It is member" };
        let what = format!("{what} {} of {}", member.place, row.id);
        let waits_together = member.gang.is_some() && job.attempt_count == 0 && job.finished_at.is_none();
        let explanation = if waits_together {
            format!("{what}. {}", self.batch_explanation(&row).await?)
        } else {
            format!("{} {what}.", job.explanation)
        };
        Ok(Job { batch: Some(Box::new(place)), explanation, ..job })
    }
}

fn gang_waits(gang: &GangView) -> String {
    let plural = |count: usize, what: &str| if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") };
    if gang.present < gang.size {
        return format!("{} of its {} members are at hand", gang.present, gang.size);
    }
    if gang.is_barred {
        return "a queue of theirs is paused, or the namespace may not run so many attempts now".to_owned();
    }
    match (gang.lacking, gang.older) {
        (0, _) => "they are about to start".to_owned(),
        (lacking, 0) => format!("it waits for {}", plural(lacking, "more slot")),
        (lacking, older) => {
            let older = if older == 1 { "1 older batch".to_owned() } else { format!("{older} older batches") };
            format!("it waits for {}, after {older}", plural(lacking, "more slot"))
        }
    }
}

fn member_view(row: &BatchRow, place: u16) -> Option<MemberView> {
    let status = row.state.member(place)?;
    let is_undone =
        matches!(status, MemberStatus::Compensating | MemberStatus::Compensated | MemberStatus::CompensationFailed);
    Some(MemberView {
        place: u32::from(place),
        state: status.as_str().to_owned(),
        job: row.member_job(place),
        compensation: row.compensation_job(place).filter(|_| is_undone),
    })
}

fn done(by: &DoneAt) -> DoneBy {
    DoneBy { at: by.at, who: by.who.clone() }
}

impl Checked for BatchQuery {}
impl Checked for MemberQuery {}
