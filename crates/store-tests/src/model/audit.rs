use punctual_store::{AUDIT_ROWS_MAX, AuditAppended, AuditBatch, AuditEnds, AuditPlace, AuditRow, Order, Result};

use super::ModelStore;

impl ModelStore {
    pub fn audit_ends_now(&self) -> AuditEnds {
        self.state().audit_ends.get(&()).cloned().unwrap_or_default()
    }

    pub fn append_audit_now(&self, batch: AuditBatch) -> Result<AuditAppended> {
        self.state().all_or_nothing(|state| {
            let AuditBatch { after, rows, signature } = batch;
            let Some(last) = rows.last() else { return Ok(AuditAppended::Done) };
            let ends = state.audit_ends.get(&()).cloned().unwrap_or_default();
            if ends.head != after {
                return Ok(AuditAppended::Behind(ends));
            }
            state.audit_ends.put((), AuditEnds { head: last.place(), signature, ..ends });
            for row in rows {
                state.audit.put(row.seq, row);
            }
            Ok(AuditAppended::Done)
        })
    }

    pub fn audit_rows_now(&self, from: Option<u64>, order: Order, limit: usize) -> Vec<AuditRow> {
        let state = self.state();
        let rows = state.audit.values();
        let limit = limit.min(AUDIT_ROWS_MAX);
        match order {
            Order::Ascending => rows.filter(|row| row.seq > from.unwrap_or(0)).take(limit).cloned().collect(),
            Order::Descending => {
                rows.rev().filter(|row| from.is_none_or(|from| row.seq < from)).take(limit).cloned().collect()
            }
        }
    }

    pub fn trim_audit_now(&self, base: AuditPlace) -> Result<usize> {
        self.state().all_or_nothing(|state| {
            let ends = state.audit_ends.get(&()).cloned().unwrap_or_default();
            if ends.base.seq >= base.seq || ends.head.seq < base.seq {
                return Ok(0);
            }
            state.audit_ends.put((), AuditEnds { base, ..ends });
            let before = state.audit.len();
            state.audit.take_all(|seq, _| *seq <= base.seq);
            Ok(before - state.audit.len())
        })
    }
}
