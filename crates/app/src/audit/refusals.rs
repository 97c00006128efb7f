//! Keeps a flood of refusals from filling the audit log: of each kind the first few get a line, and the others are counted.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};

use punctual_core::{Span, Timestamp};

use super::AuditEvent;

/// Lines of one kind of refusal in one period.
const LINES_MAX: u32 = 5;
const PERIOD: Span = Span::from_secs(60);
/// Kinds that are told apart in one period. More share one count: an attacker chooses addresses and paths.
const KINDS_MAX: usize = 1024;

/// Who was refused what, from where. Paths and names are no part of it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Kind {
    principal: String,
    namespace: Option<u32>,
    address: Option<IpAddr>,
    action: String,
    outcome: String,
}

struct Counted {
    since: Timestamp,
    lines: u32,
    more: u32,
    /// The last of those that got no line.
    last: Option<AuditEvent>,
}

#[derive(Default)]
pub(super) struct Refusals(Mutex<HashMap<Kind, Counted>>);

impl Refusals {
    /// The line to write, if there is one to write now.
    pub(super) fn take(&self, event: AuditEvent, now: Timestamp) -> Option<AuditEvent> {
        let mut kinds = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut kind = Kind {
            principal: event.principal.clone(),
            namespace: event.namespace.as_ref().map(|namespace| namespace.id),
            address: event.address,
            action: event.action.clone(),
            outcome: event.outcome.clone(),
        };
        if kinds.len() >= KINDS_MAX && !kinds.contains_key(&kind) {
            kind = Kind {
                principal: "several".to_owned(),
                namespace: None,
                address: None,
                action: "several".to_owned(),
                ..kind
            };
        }
        let counted = kinds.entry(kind).or_insert(Counted { since: now, lines: 0, more: 0, last: None });
        if counted.lines < LINES_MAX {
            counted.lines += 1;
            return Some(event);
        }
        counted.more = counted.more.saturating_add(1);
        counted.last = Some(event);
        None
    }

    /// Lines for what was only counted in periods that are over; what is written again begins anew.
    pub(super) fn counted(&self, now: Timestamp) -> Vec<AuditEvent> {
        let mut kinds = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut events = Vec::new();
        kinds.retain(|_, counted| {
            if now >= counted.since && now.since(counted.since) < PERIOD {
                return true;
            }
            if let Some(event) = counted.last.take() {
                events.push(AuditEvent { times: Some(counted.more), ..event });
            }
            false
        });
        events
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(address: u8) -> AuditEvent {
        AuditEvent::by_nobody(Some(IpAddr::from([127, 0, 0, address])), "list_jobs", "unauthenticated")
    }

    #[test]
    fn a_flood_of_refusals_is_counted() {
        let (refusals, start) = (Refusals::default(), Timestamp::EPOCH);
        let lines = (0..1000).filter_map(|_| refusals.take(refusal(1), start)).count();
        assert_eq!(lines, LINES_MAX as usize);
        assert!(refusals.take(refusal(2), start).is_some(), "another address has its own count");
        assert_eq!(refusals.counted(start + Span::from_secs(59)), []);
        let counted = refusals.counted(start + PERIOD);
        assert_eq!(counted, [AuditEvent { times: Some(995), ..refusal(1) }]);
        assert!(refusals.take(refusal(1), start + PERIOD).is_some(), "a new period");
    }

    #[test]
    fn an_attacker_with_many_names_gets_few_lines() {
        let (refusals, start) = (Refusals::default(), Timestamp::EPOCH);
        let refusal = |number: usize| AuditEvent::by_nobody(None, format!("action {number}"), "unauthenticated");
        let lines = (0..10_000).filter_map(|number| refusals.take(refusal(number), start)).count();
        assert_eq!(lines, KINDS_MAX + LINES_MAX as usize);
        assert_eq!(refusals.counted(start + PERIOD).len(), 1);
    }
}
