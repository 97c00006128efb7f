//! The words between the worker and its launcher. Both are the same build of the same
//! program, so there are no versions; still, nothing that arrives is trusted to be whole.

use std::ffi::CString;
use std::io;
use std::time::Duration;

use crate::job::{Limits, Network, ProgramUser};
use crate::level::{Level, Protection};
use crate::step::SetupStep;

/// The longest message. Arguments and environment are most of it; more than this belongs
/// into stdin. A Unix socket takes packets of about 200 KiB without any setting.
pub(crate) const MESSAGE_LEN_MAX: usize = 144 << 10;
/// The maximum size of one job's arguments and environment, including the encoding.
pub(crate) const STRINGS_LEN_MAX: usize = 128 << 10;

/// A request of the worker, sent with the job's socket, the program, stdin, stdout, stderr, and the files.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) limits: Limits,
    pub(crate) network: Network,
    pub(crate) user: ProgramUser,
    pub(crate) args: Vec<CString>,
    pub(crate) env: Vec<CString>,
    /// The name and the length of each file; their descriptors follow the others.
    pub(crate) files: Vec<(CString, u64)>,
}

/// A command of the worker on the job's socket. The end of the socket means [`LauncherCommand::Kill`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LauncherCommand {
    Terminate,
    Kill,
}

/// A report of the launcher on the job's socket.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Report {
    Started,
    /// The program was not started; nothing was executed.
    Refused {
        step: SetupStep,
        errno: i32,
    },
    /// Everything the program started is gone. The file with the result comes along, if any.
    Ended(ProgramEnd),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ProgramEnd {
    /// The status as `wait` returns it; `None` if everything was killed before the program ended by itself.
    pub(crate) wait_status: Option<i32>,
    pub(crate) oom: bool,
    pub(crate) pids: bool,
    pub(crate) disk: bool,
    pub(crate) peak_memory_bytes: u64,
    pub(crate) cpu: Duration,
    pub(crate) wall: Duration,
}

fn invalid(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

#[derive(Default)]
struct Writer(Vec<u8>);

impl Writer {
    fn byte(mut self, value: u8) -> Self {
        self.0.push(value);
        self
    }

    fn number(mut self, value: u64) -> Self {
        self.0.extend(value.to_le_bytes());
        self
    }

    fn bytes(self, value: &[u8]) -> Self {
        let mut written = self.number(value.len() as u64);
        written.0.extend(value);
        written
    }

    fn strings(self, values: &[CString]) -> Self {
        let counted = self.number(values.len() as u64);
        values.iter().fold(counted, |written, value| written.bytes(value.as_bytes()))
    }
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, len: usize) -> io::Result<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len).ok_or_else(|| invalid("a message is cut off"))?;
        self.0 = rest;
        Ok(taken)
    }

    fn byte(&mut self) -> io::Result<u8> {
        Ok(self.take(1)?[0])
    }

    fn flag(&mut self) -> io::Result<bool> {
        Ok(self.byte()? != 0)
    }

    fn number(&mut self) -> io::Result<u64> {
        let bytes = self.take(8)?.try_into().map_err(|_| invalid("a number is cut off"))?;
        Ok(u64::from_le_bytes(bytes))
    }

    fn small(&mut self) -> io::Result<u32> {
        u32::try_from(self.number()?).map_err(|_| invalid("a number is too large"))
    }

    fn signed(&mut self) -> io::Result<i32> {
        i32::try_from(self.number()? as i64).map_err(|_| invalid("a number is out of range"))
    }

    fn bytes(&mut self) -> io::Result<&'a [u8]> {
        let len = usize::try_from(self.number()?).map_err(|_| invalid("a length is too large"))?;
        self.take(len)
    }

    fn strings(&mut self) -> io::Result<Vec<CString>> {
        let count = self.number()?;
        (0..count).map(|_| CString::new(self.bytes()?).map_err(|_| invalid("a string has a zero byte"))).collect()
    }
}

impl Request {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let Limits { memory_bytes, cpu_millis, pids, output_bytes, disk_bytes, open_files } = self.limits;
        let written = Writer::default()
            .number(memory_bytes)
            .number(cpu_millis.into())
            .number(pids.into())
            .number(output_bytes)
            .number(disk_bytes)
            .number(open_files.into())
            .byte((self.network == Network::Host).into())
            .number(match self.user {
                ProgramUser::Usual => 0,
                ProgramUser::Number(number) => number.into(),
            })
            .strings(&self.args)
            .strings(&self.env)
            .number(self.files.len() as u64);
        let file = |written: Writer, (name, len): &(CString, u64)| written.bytes(name.as_bytes()).number(*len);
        self.files.iter().fold(written, file).0
    }

    pub(crate) fn decode(bytes: &[u8]) -> io::Result<Self> {
        let mut from = Reader(bytes);
        let limits = Limits {
            memory_bytes: from.number()?,
            cpu_millis: from.small()?,
            pids: from.small()?,
            output_bytes: from.number()?,
            disk_bytes: from.number()?,
            open_files: from.small()?,
        };
        let network = if from.flag()? { Network::Host } else { Network::None };
        // Nobody asks for root.
        let user = match from.small()? {
            0 => ProgramUser::Usual,
            number => ProgramUser::Number(number),
        };
        let (args, env) = (from.strings()?, from.strings()?);
        let count = from.number()?;
        let mut file =
            || Ok((CString::new(from.bytes()?).map_err(|_| invalid("a string has a zero byte"))?, from.number()?));
        let files = (0..count).map(|_| file()).collect::<io::Result<_>>()?;
        Ok(Self { limits, network, user, args, env, files })
    }
}

impl LauncherCommand {
    pub(crate) fn encode(self) -> [u8; 1] {
        match self {
            Self::Terminate => *b"T",
            Self::Kill => *b"K",
        }
    }

    /// Decodes a command. An unknown command ends the job, which is the safe choice.
    pub(crate) fn decode(bytes: &[u8]) -> Self {
        if bytes == b"T" { Self::Terminate } else { Self::Kill }
    }
}

impl Report {
    pub(crate) fn encode(&self) -> Vec<u8> {
        match self {
            Self::Started => Writer::default().byte(b'S'),
            Self::Refused { step, errno } => {
                Writer::default().byte(b'R').byte(step.index()).number(i64::from(*errno) as u64)
            }
            Self::Ended(ended) => Writer::default()
                .byte(b'E')
                .byte(ended.wait_status.is_some().into())
                .number(i64::from(ended.wait_status.unwrap_or_default()) as u64)
                .byte(ended.oom.into())
                .byte(ended.pids.into())
                .byte(ended.disk.into())
                .number(ended.peak_memory_bytes)
                .number(microseconds(ended.cpu))
                .number(microseconds(ended.wall)),
        }
        .0
    }

    pub(crate) fn decode(bytes: &[u8]) -> io::Result<Self> {
        let mut from = Reader(bytes);
        match from.byte()? {
            b'S' => Ok(Self::Started),
            b'R' => {
                let step = SetupStep::from_index(from.byte()?).ok_or_else(|| invalid("an unknown step"))?;
                Ok(Self::Refused { step, errno: from.signed()? })
            }
            b'E' => {
                let known = from.flag()?;
                let wait_status = from.signed()?;
                Ok(Self::Ended(ProgramEnd {
                    wait_status: known.then_some(wait_status),
                    oom: from.flag()?,
                    pids: from.flag()?,
                    disk: from.flag()?,
                    peak_memory_bytes: from.number()?,
                    cpu: Duration::from_micros(from.number()?),
                    wall: Duration::from_micros(from.number()?),
                }))
            }
            _ => Err(invalid("an unknown report")),
        }
    }
}

fn microseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// The launcher's first message.
pub(crate) fn encode_level(level: &Level) -> Vec<u8> {
    level
        .missing()
        .fold(Writer::default().byte(b'L'), |written, (protection, reason)| {
            written.byte(protection.index()).bytes(reason.as_bytes())
        })
        .0
}

pub(crate) fn decode_level(bytes: &[u8]) -> io::Result<Level> {
    let mut from = Reader(bytes);
    if from.byte()? != b'L' {
        return Err(invalid("the launcher did not say what protects here"));
    }
    let mut missing = Vec::new();
    while !from.0.is_empty() {
        let protection = Protection::from_index(from.byte()?).ok_or_else(|| invalid("an unknown protection"))?;
        missing.push((protection, String::from_utf8_lossy(from.bytes()?).into_owned()));
    }
    Ok(Level::new(&missing))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request() -> Request {
        Request {
            limits: Limits { pids: 7, ..Limits::default() },
            network: Network::Host,
            user: ProgramUser::Number(1_900_000_007),
            args: vec![c"one".into(), c"".into()],
            env: vec![c"A=B".into()],
            files: vec![(c"data.csv".into(), 7)],
        }
    }

    #[test]
    fn messages_arrive_as_they_were_sent() {
        assert_eq!(Request::decode(&request().encode()).unwrap(), request());
        let ended = ProgramEnd {
            wait_status: Some(139),
            oom: true,
            pids: false,
            disk: true,
            peak_memory_bytes: 1 << 40,
            cpu: Duration::from_micros(5),
            wall: Duration::from_secs(9),
        };
        for report in [
            Report::Started,
            Report::Refused { step: SetupStep::Execute, errno: 8 },
            Report::Ended(ended),
            Report::Ended(ProgramEnd { wait_status: None, ..ended }),
        ] {
            assert_eq!(Report::decode(&report.encode()).unwrap(), report);
        }
        let level = Level::new(&[(Protection::Landlock, "old".into())]);
        assert_eq!(decode_level(&encode_level(&level)).unwrap(), level);
        assert_eq!(LauncherCommand::decode(&LauncherCommand::Terminate.encode()), LauncherCommand::Terminate);
        assert_eq!(LauncherCommand::decode(b"?"), LauncherCommand::Kill);
    }

    #[test]
    fn a_message_that_is_cut_off_is_an_error() {
        let bytes = request().encode();
        for len in 0..bytes.len() {
            assert!(Request::decode(&bytes[..len]).is_err());
        }
        assert!(Report::decode(b"").is_err());
        assert!(Report::decode(b"R\xff").is_err());
        assert!(decode_level(b"S").is_err());
    }

    #[test]
    fn a_length_that_lies_asks_for_no_memory() {
        let mut bytes = request().encode();
        let at = 7 * 8 + 1;
        bytes[at..at + 8].copy_from_slice(&u64::MAX.to_le_bytes());
        assert!(Request::decode(&bytes).is_err());
    }
}
