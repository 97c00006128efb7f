//! What an outcome may hold, whoever reports it.

use bytes::Bytes;
use punctual_core::attempt::{Details, Failure, FailureClass, Last, Outcome};
use punctual_core::json;
use punctual_core::shard::event::Report;

use crate::OUTPUT_BYTES_MAX;

/// A reason is for people; a longer one is cut, with a mark.
pub const REASON_BYTES_MAX: usize = 4 << 10;
const MARK: &str = "…";

/// Holds an outcome to the limits of the protocol.
pub fn bounded(outcome: Outcome) -> Outcome {
    match outcome {
        Outcome::Succeeded { output: Some(output) } if output.len() > OUTPUT_BYTES_MAX => {
            // Final: it did its work, and would do it again to end the same way.
            let reason =
                format!("the output of {} bytes is longer than the {OUTPUT_BYTES_MAX} that are kept", output.len());
            Outcome::Failed(Failure { class: FailureClass::Limit, last: Last::Yes, ..Failure::new(reason) })
        }
        Outcome::Failed(failure) => Outcome::Failed(Failure { reason: shorten(failure.reason), ..failure }),
        Outcome::NotStarted { reason } => Outcome::NotStarted { reason: shorten(reason) },
        Outcome::Succeeded { .. } | Outcome::Cancelled => outcome,
    }
}

/// Bounds everything that a report says of an attempt: the output is JSON, and every text can be stored.
pub fn bounded_report(report: Report) -> Report {
    let outcome = match report.outcome {
        // Before it is turned into JSON, which takes a multiple of its length.
        Outcome::Succeeded { output: Some(output) } if output.len() <= OUTPUT_BYTES_MAX => {
            Outcome::Succeeded { output: Some(as_json(output)) }
        }
        other => other,
    };
    let details = report.details.map(|details| {
        let Details { limit, sandbox, host, .. } = *details;
        let [limit, sandbox, host] = [limit, sandbox, host].map(|text| text.map(storable));
        Box::new(Details { limit, sandbox, host, ..*details }.cut())
    });
    Report { outcome: bounded(outcome), details, ..report }
}

/// Text that is not JSON, or is JSON that is nested deeper than readers follow, becomes a JSON string.
fn as_json(output: Bytes) -> Bytes {
    let is_json = serde_json::from_slice::<&serde_json::value::RawValue>(&output).is_ok();
    if is_json && json::depth(&output) <= json::DEPTH_MAX {
        return output;
    }
    serde_json::to_vec(&String::from_utf8_lossy(&output)).expect("a text is JSON").into()
}

fn shorten(reason: String) -> String {
    let mut reason = storable(reason);
    if reason.len() > REASON_BYTES_MAX {
        reason.truncate(reason.floor_char_boundary(REASON_BYTES_MAX - MARK.len()));
        reason.push_str(MARK);
    }
    reason
}

/// Without the character that no database keeps in a text: PostgreSQL would refuse the whole batch.
fn storable(text: String) -> String {
    if text.contains('\0') { text.replace('\0', "\u{fffd}") } else { text }
}

#[cfg(test)]
mod tests {
    use punctual_core::{AttemptNo, JobId, ShardId, Timestamp};

    use super::*;

    #[test]
    fn a_long_reason_is_cut_between_characters() {
        let reason = "é".repeat(REASON_BYTES_MAX);
        let Outcome::Failed(failure) = bounded(Outcome::Failed(Failure::new(reason))) else { panic!() };
        assert!(failure.reason.len() <= REASON_BYTES_MAX);
        assert!(failure.reason.ends_with("é…"));
    }

    #[test]
    fn an_output_above_the_limit_is_a_final_failure_that_says_so() {
        let output = |len| Outcome::Succeeded { output: Some(Bytes::from(vec![b'1'; len])) };
        assert_eq!(bounded(output(OUTPUT_BYTES_MAX)), output(OUTPUT_BYTES_MAX));
        let Outcome::Failed(failure) = bounded(output(OUTPUT_BYTES_MAX + 1)) else { panic!() };
        assert_eq!(failure.reason, "the output of 262145 bytes is longer than the 262144 that are kept");
        assert_eq!((failure.class, failure.last), (FailureClass::Limit, Last::Yes));
    }

    fn report(outcome: Outcome, details: Option<Box<Details>>) -> Report {
        let id = JobId::new(Timestamp::EPOCH, ShardId(0), 1);
        Report { id, attempt: AttemptNo::FIRST, outcome, timed_out: false, details }
    }

    #[test]
    fn an_output_is_kept_as_json() {
        let kept = |output: &'static [u8]| {
            let outcome = Outcome::Succeeded { output: Some(Bytes::from_static(output)) };
            match bounded_report(report(outcome, None)).outcome {
                Outcome::Succeeded { output: Some(output) } => String::from_utf8(output.to_vec()).unwrap(),
                other => panic!("{other:?}"),
            }
        };
        for (output, expected) in [
            (&b"{\"a\":[1]}"[..], "{\"a\":[1]}"),
            (b"\"text\"", "\"text\""),
            (b"", "\"\""),
            (b"done", "\"done\""),
            (b"{\"a\":1", "\"{\\\"a\\\":1\""),
            (b"\xff\0", "\"\u{fffd}\\u0000\""),
        ] {
            assert_eq!(kept(output), expected);
        }
    }

    #[test]
    fn an_output_that_is_nested_too_deeply_is_kept_as_a_text() {
        for (depth, is_kept) in
            [(json::DEPTH_MAX, true), (json::DEPTH_MAX + 1, false), (OUTPUT_BYTES_MAX / 2 - 1, false)]
        {
            let nested = "[".repeat(depth) + &"]".repeat(depth);
            let outcome = Outcome::Succeeded { output: Some(Bytes::from(nested.clone())) };
            let read = bounded_report(report(outcome, None)).outcome;
            let Outcome::Succeeded { output: Some(output) } = read else { panic!("{depth}: {read:?}") };
            let text = serde_json::to_string(&nested).unwrap();
            let expected = if is_kept { nested } else { text };
            assert!(output == expected, "{depth}");
        }
    }

    #[test]
    fn an_output_that_is_too_long_as_json_is_a_failure() {
        let output = Bytes::from(vec![1; OUTPUT_BYTES_MAX]);
        let read = bounded_report(report(Outcome::Succeeded { output: Some(output) }, None));
        assert!(matches!(&read.outcome, Outcome::Failed(failure) if failure.class == FailureClass::Limit), "{read:?}");
    }

    #[test]
    fn no_text_keeps_what_a_database_refuses() {
        let said = Details { host: Some("a\0b".to_owned()), ..Details::default() };
        let read = bounded_report(report(Outcome::NotStarted { reason: "no\0slot".to_owned() }, Some(Box::new(said))));
        assert_eq!(read.outcome, Outcome::NotStarted { reason: "no\u{fffd}slot".to_owned() });
        assert_eq!(read.details.unwrap().host.as_deref(), Some("a\u{fffd}b"));
    }
}
