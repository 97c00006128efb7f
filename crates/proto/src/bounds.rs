//! What an outcome may hold, whoever reports it.

use punctual_core::attempt::{Failure, FailureClass, Last, Outcome};

use crate::OUTPUT_BYTES_MAX;

/// A reason is for people; a longer one is cut.
const REASON_BYTES_MAX: usize = 4 << 10;

/// Holds an outcome to the limits of the protocol.
pub fn bounded(outcome: Outcome) -> Outcome {
    match outcome {
        Outcome::Succeeded { output: Some(output) } if output.len() > OUTPUT_BYTES_MAX => {
            // Final: it did its work, and would do it again to end the same way.
            let reason =
                format!("the output of {} bytes is longer than the {OUTPUT_BYTES_MAX} that are kept", output.len());
            Outcome::Failed(Failure { class: FailureClass::Limit, last: Last::Yes, ..Failure::new(reason) })
        }
        Outcome::Failed(mut failure) => {
            shorten(&mut failure.reason);
            Outcome::Failed(failure)
        }
        Outcome::NotStarted { mut reason } => {
            shorten(&mut reason);
            Outcome::NotStarted { reason }
        }
        Outcome::Succeeded { .. } | Outcome::Cancelled => outcome,
    }
}

fn shorten(reason: &mut String) {
    if reason.len() > REASON_BYTES_MAX {
        reason.truncate(reason.floor_char_boundary(REASON_BYTES_MAX - "…".len()));
        reason.push('…');
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    #[test]
    fn a_long_reason_is_cut_between_characters() {
        let reason = "é".repeat(REASON_BYTES_MAX);
        let Outcome::Failed(failure) = bounded(Outcome::Failed(Failure::new(reason))) else { panic!() };
        assert!(failure.reason.len() <= REASON_BYTES_MAX);
        assert!(failure.reason.ends_with("é…"));
    }

    #[test]
    fn an_output_above_the_limit_is_a_final_failure_that_says_so() {
        let output = |len| Outcome::Succeeded { output: Some(Bytes::from(vec![b'x'; len])) };
        assert_eq!(bounded(output(OUTPUT_BYTES_MAX)), output(OUTPUT_BYTES_MAX));
        let Outcome::Failed(failure) = bounded(output(OUTPUT_BYTES_MAX + 1)) else { panic!() };
        assert_eq!(failure.reason, "the output of 262145 bytes is longer than the 262144 that are kept");
        assert_eq!((failure.class, failure.last), (FailureClass::Limit, Last::Yes));
    }
}
