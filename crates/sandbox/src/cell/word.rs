//! The messages of the sandbox's first process to the launcher.

use crate::step::SetupStep;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) step: SetupStep,
    /// 0 if the reason has no number.
    pub(crate) errno: i32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Word {
    Failed(Failure),
    /// Comes with the listener for the program's internet sockets, see [`crate::sys::listener`].
    Sockets,
    /// Comes with the sandbox's `/tmp` and the program's process.
    Started,
    Ended {
        wait_status: i32,
    },
}

/// Longer than any word.
pub(crate) const WORD_LEN_MAX: usize = 8;

impl Word {
    pub(crate) fn encode(self) -> [u8; 6] {
        let (tag, step, number) = match self {
            Self::Failed(Failure { step, errno }) => (b'F', step.index(), errno),
            Self::Sockets => (b'N', 0, 0),
            Self::Started => (b'S', 0, 0),
            Self::Ended { wait_status } => (b'E', 0, wait_status),
        };
        let [a, b, c, d] = number.to_le_bytes();
        [tag, step, a, b, c, d]
    }

    /// The inside is next to hostile code, so anything may arrive.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let &[tag, step, a, b, c, d] = bytes else { return None };
        let number = i32::from_le_bytes([a, b, c, d]);
        match tag {
            b'F' => Some(Self::Failed(Failure { step: SetupStep::from_index(step)?, errno: number })),
            b'N' => Some(Self::Sockets),
            b'S' => Some(Self::Started),
            b'E' => Some(Self::Ended { wait_status: number }),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_arrive_as_they_were_sent() {
        for word in [
            Word::Failed(Failure { step: SetupStep::Seccomp, errno: -3 }),
            Word::Sockets,
            Word::Started,
            Word::Ended { wait_status: 0x8b },
        ] {
            assert!(word.encode().len() <= WORD_LEN_MAX);
            assert_eq!(Word::decode(&word.encode()), Some(word));
        }
        assert_eq!(Word::decode(b"E"), None);
        assert_eq!(Word::decode(b"F\xff0000"), None);
    }
}
