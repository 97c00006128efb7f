//! Reading the audit log: pages, and parts of an export.

use punctual_api::{
    AuditEntry, AuditExport, AuditExportQuery, AuditHead, AuditLine, AuditList, AuditQuery, ErrorKind, limits,
};
use punctual_core::access::Right;
use punctual_core::namespace::NamespaceId;
use punctual_core::{Timestamp, hex};
use punctual_store::{AUDIT_ROWS_MAX, AuditEnds, AuditRow, Order};

use super::chain::exported;
use crate::parameters::{self, bad_cursor};
use crate::principal::permission::ReadAudit;
use crate::principal::{By, Principal};
use crate::{App, AppError, Checked, Faults, Result, validate};

/// Lines that one request looks through. A filter that finds little gets short pages.
const EXAMINED_MAX: usize = 20 * AUDIT_ROWS_MAX;

/// What the parameters mean.
struct Wanted {
    since: Option<Timestamp>,
    until: Option<Timestamp>,
    limit: usize,
    before: Option<u64>,
}

fn read(query: &AuditQuery) -> Result<Wanted> {
    let mut faults = Faults::default();
    for (field, text) in [
        ("principal", &query.principal),
        ("action", &query.action),
        ("object", &query.object),
        ("outcome", &query.outcome),
        ("namespace", &query.namespace),
    ] {
        faults
            .check(text.as_ref().map_or(Ok(()), |text| validate::argument(field, text, limits::TRACING_ID_CHARS_MAX)));
    }
    let mut time = |field, text: &Option<String>| faults.value(parameters::time(field, text.as_deref())).flatten();
    let (since, until) = (time("since", &query.since), time("until", &query.until));
    let page = parameters::page(query.limit.as_deref(), query.cursor.as_deref(), |cursor| {
        cursor.parse::<u64>().ok().filter(|seq| i64::try_from(*seq).is_ok()).ok_or_else(bad_cursor)
    });
    let (limit, before) = faults.value(page).unwrap_or_default();
    faults.finish()?;
    Ok(Wanted { since, until, limit, before })
}

impl Checked for AuditQuery {
    fn check(&self) -> Result<()> {
        read(self).map(drop)
    }
}

fn read_after(query: &AuditExportQuery) -> Result<Option<u64>> {
    parameters::number("after_seq", query.after_seq.as_deref(), 0..=i64::MAX as u64)
}

impl Checked for AuditExportQuery {
    fn check(&self) -> Result<()> {
        read_after(self).map(drop)
    }
}

impl App {
    /// The latest first.
    pub async fn audit(&self, by: &By<ReadAudit>, query: AuditQuery) -> Result<AuditList> {
        let wanted = read(&query)?;
        let namespace = self.audited_namespace(by, query.namespace.as_deref())?;
        let (mut entries, mut before, mut examined) = (Vec::new(), wanted.before, 0);
        loop {
            let rows = self.0.store.audit_rows(before, Order::Descending, AUDIT_ROWS_MAX).await?;
            let is_last = rows.len() < AUDIT_ROWS_MAX;
            examined += rows.len();
            for row in rows {
                before = Some(row.seq);
                let is_seen = |entry: &AuditEntry| is_of(namespace, &entry.line) && fits(&query, &wanted, &entry.line);
                entries.extend(entry(row).filter(is_seen));
                if entries.len() == wanted.limit {
                    let next_cursor = before.filter(|seq| *seq > 1).map(|seq| seq.to_string());
                    return Ok(AuditList { entries, next_cursor });
                }
            }
            if is_last {
                return Ok(AuditList { entries, next_cursor: None });
            }
            if examined >= EXAMINED_MAX {
                return Ok(AuditList { entries, next_cursor: before.map(|seq| seq.to_string()) });
            }
        }
    }

    /// Whose lines are shown; `None` for all. Only who may read the log of the cluster sees those of several namespaces.
    fn audited_namespace(&self, by: &By<ReadAudit>, asked: Option<&str>) -> Result<Option<NamespaceId>> {
        let sees_all = by.is_for_cluster() && !by.principal().has_chosen_namespace();
        let own = (!sees_all).then(|| by.namespace());
        let Some(name) = asked else { return Ok(own) };
        let there = self.choose_namespace(Principal::clone(by.principal()), name)?;
        there.check(Right::ReadAudit)?;
        Ok(Some(there.namespace().id()))
    }

    /// The lines after a number, and the head at that moment. They are one chain, and that is the cluster's.
    pub async fn export_audit(&self, by: &By<ReadAudit>, query: AuditExportQuery) -> Result<AuditExport> {
        if !by.is_for_cluster() {
            let detail = format!("{} may read the lines of a namespace, and an export has all lines", by.who());
            let error = AppError::new(ErrorKind::Forbidden, detail);
            return Err(error.hint("GET /v1/audit lists them; the right `audit.read` for the cluster permits exports"));
        }
        let after = read_after(&query)?;
        // The head first: lines that are written meanwhile are for the next part.
        let ends = self.0.store.audit_ends().await?;
        let mut rows = self.0.store.audit_rows(after, Order::Ascending, AUDIT_ROWS_MAX).await?;
        rows.retain(|row| row.seq <= ends.head.seq);
        let last = rows.last().map_or(after.unwrap_or_default(), |row| row.seq);
        let is_complete = rows.is_empty() || last >= ends.head.seq;
        Ok(AuditExport { lines: rows.iter().map(exported).collect(), is_complete, head: self.audit_head(ends) })
    }

    fn audit_head(&self, ends: AuditEnds) -> AuditHead {
        let keys = self.0.keys.now();
        // While the secret is rotated, the last line may have been written by a server that signs with the other.
        let signer = keys.accepted().map(|keys| &keys.audit).find(|key| key.has_signed(ends.head, &ends.signature));
        let signer = signer.unwrap_or(&keys.signing.audit);
        AuditHead {
            base_seq: ends.base.seq,
            base_hash: hex::encode(ends.base.hash),
            seq: ends.head.seq,
            hash: hex::encode(ends.head.hash),
            signature: hex::encode(ends.signature),
            public_key: hex::encode(signer.public_key()),
        }
    }
}

/// `None` for a line that cannot be read: `verify` says so.
fn entry(row: AuditRow) -> Option<AuditEntry> {
    let line = serde_json::from_str(&row.line).ok()?;
    Some(AuditEntry { line, hash: hex::encode(row.hash) })
}

fn is_of(namespace: Option<NamespaceId>, line: &AuditLine) -> bool {
    namespace.is_none_or(|namespace| line.namespace.as_ref().is_some_and(|found| found.id == namespace.0))
}

fn fits(query: &AuditQuery, wanted: &Wanted, line: &AuditLine) -> bool {
    let is = |filter: &Option<String>, value: Option<&str>| filter.is_none() || filter.as_deref() == value;
    is(&query.principal, Some(&line.principal))
        && is(&query.action, Some(&line.action))
        && is(&query.object, line.object.as_deref())
        && is(&query.outcome, Some(&line.outcome))
        && wanted.since.is_none_or(|since| line.at >= since)
        && wanted.until.is_none_or(|until| line.at < until)
}
