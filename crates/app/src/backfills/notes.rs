//! What a backfill has to say about itself, for people: parts with a `;` between them.

use punctual_core::Timestamp;

use super::judge::Hold;
use super::spec::BackfillSpec;
use crate::schedules::zone;

const SEPARATOR: &str = "; ";

/// Said once, it stays said: nothing else tells of it.
const LEFT_THE_RECORD: &str = "times that left the record before their turn were passed over, whether they ran or not";
/// How the part ends that says how many.
const GONE: &str = "gone before the end was seen";

/// What holds it up.
pub(super) fn held(at: Timestamp, hold: Hold, spec: &BackfillSpec) -> String {
    let local = zone::local(at, &spec.zone());
    match hold {
        Hold::Schedule => format!("it waits until the schedule itself has decided about {local}"),
        Hold::Backfill(other) => format!("it waits for {other}, which is running {local}"),
    }
}

/// Of one that goes on.
pub(super) fn on_the_way(former: Option<&str>, held: Option<String>, has_unknown: bool) -> Option<String> {
    let is_left = has_unknown || parts(former).any(|part| part == LEFT_THE_RECORD);
    join(held.into_iter().chain(is_left.then(|| LEFT_THE_RECORD.to_owned())))
}

/// The note, and how many jobs are gone without a trace by now.
pub(super) fn with_gone(note: Option<&str>, gone: u32) -> Option<String> {
    let others = parts(note).filter(|part| !part.ends_with(GONE)).map(str::to_owned);
    let told = match gone {
        0 => None,
        1 => Some(format!("1 job was {GONE}")),
        _ => Some(format!("{gone} jobs were {GONE}")),
    };
    join(others.chain(told))
}

/// The note, and how many jobs nobody waits for any longer.
pub(super) fn with_left(note: Option<&str>, open: usize) -> Option<String> {
    let told = match open {
        1 => "1 job had not ended and is no longer counted".to_owned(),
        _ => format!("{open} jobs had not ended and are no longer counted"),
    };
    join(parts(note).map(str::to_owned).chain([told]))
}

fn parts(note: Option<&str>) -> impl Iterator<Item = &str> {
    note.into_iter().flat_map(|note| note.split(SEPARATOR))
}

fn join(parts: impl Iterator<Item = String>) -> Option<String> {
    let parts: Vec<String> = parts.collect();
    (!parts.is_empty()).then(|| parts.join(SEPARATOR))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_gone_is_counted_anew_and_what_left_the_record_stays_said() {
        assert_eq!(with_gone(None, 0), None);
        let one = with_gone(Some("the schedule was deleted"), 1);
        assert_eq!(one.as_deref(), Some("the schedule was deleted; 1 job was gone before the end was seen"));
        let two = with_gone(one.as_deref(), 2);
        assert_eq!(two.as_deref(), Some("the schedule was deleted; 2 jobs were gone before the end was seen"));
        assert_eq!(with_gone(two.as_deref(), 0).as_deref(), Some("the schedule was deleted"));

        let uncounted = with_left(one.as_deref(), 3);
        assert_eq!(uncounted, one.map(|one| format!("{one}; 3 jobs had not ended and are no longer counted")));

        let left = on_the_way(None, Some("it waits".to_owned()), true);
        assert_eq!(left, Some(format!("it waits; {LEFT_THE_RECORD}")));
        assert_eq!(on_the_way(left.as_deref(), None, false).as_deref(), Some(LEFT_THE_RECORD));
        assert_eq!(on_the_way(Some("it waits"), None, false), None);
    }
}
