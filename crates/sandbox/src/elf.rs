//! Looks at a program before anyone tries to run it: is it a static ELF executable for this
//! kind of machine? Reads the header and the program headers only, and trusts nothing in
//! them. It is no protection, but a good error message; the sandbox holds without it.

use std::io::{ErrorKind, Read, Seek, SeekFrom};

use thiserror::Error;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Machine {
    X86_64,
    Aarch64,
}

impl Machine {
    /// The machine this code runs on; `None` where the sandbox does not work anyway.
    pub fn here() -> Option<Self> {
        match std::env::consts::ARCH {
            "x86_64" => Some(Self::X86_64),
            "aarch64" => Some(Self::Aarch64),
            _ => None,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::X86_64 => "x86_64",
            Self::Aarch64 => "aarch64",
        }
    }

    fn from_number(number: u16) -> Option<Self> {
        match number {
            62 => Some(Self::X86_64),
            183 => Some(Self::Aarch64),
            _ => None,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ElfInfo {
    pub machine: Machine,
    /// Loaded at an address that differs each time.
    pub position_independent: bool,
    /// The bytes that the file must have at least.
    pub file_len_min: u64,
}

#[derive(Debug, Error)]
pub enum ElfProblem {
    #[error("the file is empty; upload the compiled program")]
    Empty,
    #[error("it is a script, not a compiled program")]
    Script,
    #[error("it is not an ELF executable; compile it for Linux")]
    NotElf,
    #[error("it is a 32-bit program; compile it for a 64-bit machine")]
    Not64Bit,
    #[error("it is a big-endian program; compile it for {}", .wanted.name())]
    NotLittleEndian { wanted: Machine },
    #[error("it is compiled for another machine ({}); compile it for {}", machine_name(*.found), .wanted.name())]
    OtherMachine { found: u16, wanted: Machine },
    #[error("it is an object file or a core dump, not an executable; link it")]
    NotExecutable,
    #[error(
        "it is linked dynamically; link it statically: `gcc -static`, `cargo build --target x86_64-unknown-linux-musl` \
         or RUSTFLAGS='-C target-feature=+crt-static', `CGO_ENABLED=0 go build`"
    )]
    Dynamic,
    #[error("the file is cut off or damaged ({0}); upload it again")]
    Damaged(&'static str),
    #[error("the file cannot be read")]
    Read(#[source] std::io::Error),
}

fn machine_name(number: u16) -> String {
    match number {
        3 => "x86".into(),
        8 => "mips".into(),
        20 | 21 => "powerpc".into(),
        22 => "s390x".into(),
        40 => "arm".into(),
        62 => "x86_64".into(),
        183 => "aarch64".into(),
        243 => "riscv".into(),
        _ => format!("ELF machine {number}"),
    }
}

const HEADER_LEN: usize = 64;
const PROGRAM_HEADER_LEN: usize = 56;
/// Linkers write about ten; a file that claims thousands is not worth the reading.
const PROGRAM_HEADERS_MAX: u16 = 256;
const PT_LOAD: u32 = 1;
const PT_INTERP: u32 = 3;
const ET_EXEC: u16 = 2;
const ET_DYN: u16 = 3;

pub fn check_elf(file: &mut (impl Read + Seek), wanted: Machine) -> Result<ElfInfo, ElfProblem> {
    let file_len = file.seek(SeekFrom::End(0)).map_err(ElfProblem::Read)?;
    file.seek(SeekFrom::Start(0)).map_err(ElfProblem::Read)?;
    let header = read_header(file)?;

    match u16_at(&header, 16) {
        ET_EXEC | ET_DYN => {}
        _ => return Err(ElfProblem::NotExecutable),
    }
    let number = u16_at(&header, 18);
    let machine = Machine::from_number(number)
        .filter(|machine| *machine == wanted)
        .ok_or(ElfProblem::OtherMachine { found: number, wanted })?;

    let entry = u64_at(&header, 24);
    let table_at = u64_at(&header, 32);
    let entry_len = usize::from(u16_at(&header, 54));
    let count = u16_at(&header, 56);
    if entry_len != PROGRAM_HEADER_LEN || count == 0 || count > PROGRAM_HEADERS_MAX {
        return Err(ElfProblem::Damaged("its table of segments is not valid"));
    }
    file.seek(SeekFrom::Start(table_at)).map_err(|_| ElfProblem::Damaged("its table of segments is out of range"))?;

    let mut loaded = false;
    let mut file_len_min = HEADER_LEN as u64;
    for _ in 0..count {
        let mut segment = [0; PROGRAM_HEADER_LEN];
        file.read_exact(&mut segment).map_err(cut_off)?;
        match u32_at(&segment, 0) {
            PT_INTERP => return Err(ElfProblem::Dynamic),
            PT_LOAD => loaded = true,
            _ => continue,
        }
        let end = u64_at(&segment, 8)
            .checked_add(u64_at(&segment, 32))
            .ok_or(ElfProblem::Damaged("a segment is out of range"))?;
        file_len_min = file_len_min.max(end);
    }
    if !loaded {
        return Err(ElfProblem::Damaged("there is nothing to load"));
    }
    if file_len_min > file_len {
        return Err(ElfProblem::Damaged("a segment ends behind the end of the file"));
    }
    // A shared library is ET_DYN without an interpreter, like a static-pie; it has no entry.
    if entry == 0 {
        return Err(ElfProblem::NotExecutable);
    }
    Ok(ElfInfo { machine, position_independent: u16_at(&header, 16) == ET_DYN, file_len_min })
}

fn read_header(file: &mut impl Read) -> Result<[u8; HEADER_LEN], ElfProblem> {
    let mut header = Vec::with_capacity(HEADER_LEN);
    file.take(HEADER_LEN as u64).read_to_end(&mut header).map_err(ElfProblem::Read)?;
    if header.is_empty() {
        return Err(ElfProblem::Empty);
    }
    if header.starts_with(b"#!") {
        return Err(ElfProblem::Script);
    }
    if !header.starts_with(b"\x7fELF") {
        return Err(ElfProblem::NotElf);
    }
    if header.get(4) == Some(&1) {
        return Err(ElfProblem::Not64Bit);
    }
    let header: [u8; HEADER_LEN] = header.try_into().map_err(|_| ElfProblem::Damaged("its header is not complete"))?;
    match (header[4], header[5]) {
        (2, 1) => Ok(header),
        (2, 2) => Err(ElfProblem::NotLittleEndian { wanted: Machine::here().unwrap_or(Machine::X86_64) }),
        _ => Err(ElfProblem::Damaged("its header is not valid")),
    }
}

fn cut_off(error: std::io::Error) -> ElfProblem {
    match error.kind() {
        ErrorKind::UnexpectedEof => ElfProblem::Damaged("its table of segments is cut off"),
        _ => ElfProblem::Read(error),
    }
}

// The callers read from arrays whose lengths are constants above.
fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from(u16_at(bytes, at)) | u32::from(u16_at(bytes, at + 2)) << 16
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32
}

#[cfg(test)]
#[path = "elf_tests.rs"]
mod tests;
