//! Looks at a program while it passes: whether a worker can run it, and on which processor.
//!
//! Checks what decides whether the kernel would load it: the header, and the table of the parts
//! that are loaded. Does not look at the code.

use std::ops::Range;

const HEADER_LEN: usize = 64;
const PART_LEN: u64 = 56;
/// Linkers make about ten.
const PARTS_MAX: u64 = 512;

const LINK_STATICALLY: &str = "it is linked dynamically; link it with `gcc -static`, `cargo build --target \
                               x86_64-unknown-linux-musl`, or `CGO_ENABLED=0 go build`";

/// The kind of processor that a program is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Machine {
    X86_64,
    Aarch64,
}

impl Machine {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::X86_64 => "x86_64",
            Self::Aarch64 => "aarch64",
        }
    }
}

/// Why a file is not a program that can be run, and what to do.
pub(crate) type Refusal = String;

/// Is fed a file from its beginning to its end, in pieces of any size.
#[derive(Default)]
pub(crate) struct ElfCheck {
    seen: u64,
    header: Vec<u8>,
    /// The table of parts, as far as it has passed.
    table: Vec<u8>,
}

impl ElfCheck {
    pub(crate) fn feed(&mut self, piece: &[u8]) {
        let begin = self.seen;
        self.seen += piece.len() as u64;
        let missing = HEADER_LEN - self.header.len();
        self.header.extend_from_slice(&piece[..missing.min(piece.len())]);
        if let Some(place) = self.table_place() {
            let wanted = place.start + self.table.len() as u64..place.end;
            self.table.extend_from_slice(overlap(piece, begin, wanted));
        }
    }

    /// Where the table of parts is, once the header has passed and as far as it makes sense.
    fn table_place(&self) -> Option<Range<u64>> {
        if self.header.len() < HEADER_LEN {
            return None;
        }
        let (start, count) = (self.u64(0x20), u64::from(self.u16(0x38)));
        let is_sound = start >= HEADER_LEN as u64 && count <= PARTS_MAX && u64::from(self.u16(0x36)) == PART_LEN;
        is_sound.then(|| start..start.saturating_add(count * PART_LEN))
    }

    /// To be asked when the whole file has passed.
    pub(crate) fn finish(self) -> Result<Machine, Refusal> {
        let refused = |text: &str| Err(text.to_owned());
        if self.seen == 0 {
            return refused("it is empty; upload the program itself");
        }
        if self.header.starts_with(b"#!") {
            return refused("it is a script; upload a static binary, or run the script as a command");
        }
        if !self.header.starts_with(b"\x7fELF") {
            return refused("it is not a program for Linux (ELF); build it for Linux and upload the result");
        }
        if self.header.len() < HEADER_LEN {
            return refused("it is cut off in its header; build it again and upload the whole file");
        }
        if self.header[4] != 2 {
            return refused("it is a 32-bit program; build it for a 64-bit processor");
        }
        if self.header[5] != 1 {
            return refused("it is for a big-endian processor; build it for x86_64 or aarch64");
        }
        let machine = match self.u16(0x12) {
            0x3e => Machine::X86_64,
            0xb7 => Machine::Aarch64,
            other => return Err(format!("it is for a processor of number {other}; build it for x86_64 or aarch64")),
        };
        match self.u16(0x10) {
            // Of the second kind are static programs that can be loaded anywhere, and libraries.
            2 | 3 => {}
            1 => return refused("it is an object file; link it to a program"),
            4 => return refused("it is a core dump; upload the program"),
            _ => return refused("it is not a program; link it to one"),
        }
        self.check_parts()?;
        Ok(machine)
    }

    fn check_parts(&self) -> Result<(), Refusal> {
        const LOAD: u32 = 1;
        const INTERPRETER: u32 = 3;
        let damaged = || "its header is damaged; build it again and upload the whole file".to_owned();
        let cut_off = || "it is cut off; build it again and upload the whole file".to_owned();
        let place = self.table_place().ok_or_else(damaged)?;
        if (self.table.len() as u64) < place.end - place.start {
            return Err(cut_off());
        }
        let (parts, _) = self.table.as_chunks::<{ PART_LEN as usize }>();
        let kind = |part: &[u8; 56]| u32::from_le_bytes([part[0], part[1], part[2], part[3]]);
        if parts.iter().any(|part| kind(part) == INTERPRETER) {
            return Err(LINK_STATICALLY.to_owned());
        }
        let loaded = || parts.iter().filter(|part| kind(part) == LOAD);
        if loaded().next().is_none() {
            return Err("nothing of it would be loaded; link it to a program".to_owned());
        }
        // A library has no place to begin at.
        if self.u64(0x18) == 0 {
            return Err("it is a library; link it to a program".to_owned());
        }
        let end = |part: &[u8; 56]| u64_at(part, 0x08).checked_add(u64_at(part, 0x20));
        if loaded().any(|part| end(part).is_none_or(|end| end > self.seen)) {
            return Err(cut_off());
        }
        Ok(())
    }

    fn u16(&self, place: usize) -> u16 {
        u16::from_le_bytes([self.header[place], self.header[place + 1]])
    }

    fn u64(&self, place: usize) -> u64 {
        u64_at(&self.header, place)
    }
}

fn u64_at(bytes: &[u8], place: usize) -> u64 {
    u64::from_le_bytes(bytes[place..place + 8].try_into().expect("eight bytes"))
}

/// Those of the bytes, the first of which is at `begin`, that are wanted.
fn overlap(piece: &[u8], begin: u64, wanted: Range<u64>) -> &[u8] {
    let end = begin + piece.len() as u64;
    let (from, to) = (wanted.start.max(begin), wanted.end.min(end));
    if from >= to { &[] } else { &piece[(from - begin) as usize..(to - begin) as usize] }
}

#[cfg(test)]
mod tests {
    use punctual_core::random::SplitMix64;

    use super::*;

    /// A program of 200 bytes with these parts, of which each is loaded whole.
    fn program(kind: u16, machine: u16, parts: &[u32]) -> Vec<u8> {
        program_with_table_at(HEADER_LEN, kind, machine, parts)
    }

    fn program_with_table_at(table: usize, kind: u16, machine: u16, parts: &[u32]) -> Vec<u8> {
        let mut bytes = vec![0; (table + parts.len() * PART_LEN as usize).max(200)];
        let len = bytes.len() as u64;
        bytes[..6].copy_from_slice(b"\x7fELF\x02\x01");
        bytes[0x10..0x12].copy_from_slice(&kind.to_le_bytes());
        bytes[0x12..0x14].copy_from_slice(&machine.to_le_bytes());
        bytes[0x18..0x20].copy_from_slice(&0x40_1000_u64.to_le_bytes());
        bytes[0x20..0x28].copy_from_slice(&(table as u64).to_le_bytes());
        bytes[0x36..0x38].copy_from_slice(&56_u16.to_le_bytes());
        bytes[0x38..0x3a].copy_from_slice(&(parts.len() as u16).to_le_bytes());
        for (place, part) in parts.iter().enumerate() {
            let at = table + place * PART_LEN as usize;
            bytes[at..at + 4].copy_from_slice(&part.to_le_bytes());
            bytes[at + 0x20..at + 0x28].copy_from_slice(&len.to_le_bytes());
        }
        bytes
    }

    fn check(bytes: &[u8]) -> Result<Machine, Refusal> {
        let mut whole = ElfCheck::default();
        whole.feed(bytes);
        let answer = whole.finish();
        // However it is cut.
        for len in [1, 7, 64, 65, 100] {
            let mut pieces = ElfCheck::default();
            bytes.chunks(len).for_each(|piece| pieces.feed(piece));
            assert_eq!(pieces.finish(), answer, "in pieces of {len}");
        }
        answer
    }

    #[test]
    fn static_programs_are_taken_and_their_processor_is_told() {
        assert_eq!(check(&program(2, 0x3e, &[1, 1])), Ok(Machine::X86_64));
        assert_eq!(check(&program(3, 0xb7, &[1, 2])), Ok(Machine::Aarch64), "position independent");
        assert_eq!(check(&program_with_table_at(3_000, 2, 0x3e, &[1])), Ok(Machine::X86_64), "table at the end");
    }

    #[test]
    fn anything_else_is_refused_with_what_to_do() {
        let good = program(2, 0x3e, &[1]);
        let changed = |place: usize, value: u8| {
            let mut bytes = good.clone();
            bytes[place] = value;
            bytes
        };
        let mut library = program(3, 0x3e, &[1, 2]);
        library[0x18..0x20].fill(0);
        let beyond = program_with_table_at(3_000, 2, 0x3e, &[1]);
        for (bytes, expected) in [
            (Vec::new(), "it is empty"),
            (b"#!/bin/sh\necho hi\n".to_vec(), "it is a script"),
            (b"MZ\x90\x00".to_vec(), "it is not a program for Linux"),
            (good[..40].to_vec(), "it is cut off in its header"),
            (changed(4, 1), "it is a 32-bit program"),
            (changed(5, 2), "it is for a big-endian processor"),
            (program(2, 0x28, &[1]), "it is for a processor of number 40"),
            (program(1, 0x3e, &[1]), "it is an object file"),
            (program(4, 0x3e, &[1]), "it is a core dump"),
            (program(9, 0x3e, &[1]), "it is not a program;"),
            (program(2, 0x3e, &[1, 3]), "it is linked dynamically; link it with `gcc -static`"),
            (program(2, 0x3e, &[2]), "nothing of it would be loaded"),
            (program(2, 0x3e, &[]), "nothing of it would be loaded"),
            (library, "it is a library"),
            (good[..150].to_vec(), "it is cut off;"),
            (beyond[..3_020].to_vec(), "it is cut off;"),
            (changed(0x36, 32), "its header is damaged"),
            (changed(0x20, 3), "its header is damaged"),
            (changed(0x39, 0xff), "its header is damaged"),
            (changed(0x27, 0xff), "it is cut off;"),
            (changed(HEADER_LEN + 0x27, 0xff), "it is cut off;"),
        ] {
            let refusal = check(&bytes).unwrap_err();
            assert!(refusal.starts_with(expected), "expected {expected:?}: {refusal}");
        }
    }

    /// Headers and tables with every kind of damage, and bytes of no form at all: each is judged, the same in any pieces, and
    /// no more of it is kept than a table of the largest size.
    #[test]
    fn no_file_breaks_the_check_or_makes_it_keep_much() {
        let mut random = SplitMix64::new(7);
        let (mut taken, mut refused) = (0, 0);
        for _ in 0..20_000 {
            let table = if random.one_in(3) { random.below(4_000) as usize + HEADER_LEN } else { HEADER_LEN };
            let kinds: Vec<u32> = (0..random.below(5)).map(|_| random.below(5) as u32).collect();
            let mut bytes = program_with_table_at(table, 2 + random.below(2) as u16, 0x3e, &kinds);
            for _ in 0..random.below(6) {
                let reach = if random.one_in(2) { HEADER_LEN as u64 } else { bytes.len() as u64 };
                let place = random.below(reach) as usize;
                bytes[place] = *random.pick(&[0, 1, 2, 3, 0x38, 0x40, 0x7f, 0x80, 0xff]);
            }
            if random.one_in(4) {
                bytes.truncate(random.below(bytes.len() as u64 + 1) as usize);
            }
            let (mut whole, mut pieces) = (ElfCheck::default(), ElfCheck::default());
            whole.feed(&bytes);
            let piece_len = 1 + random.below(200) as usize;
            bytes.chunks(piece_len).for_each(|piece| pieces.feed(piece));
            assert!(whole.header.len() + whole.table.len() <= HEADER_LEN + (PARTS_MAX * PART_LEN) as usize);
            let answer = whole.finish();
            assert_eq!(pieces.finish(), answer, "in pieces of {piece_len}: {bytes:x?}");
            *if answer.is_ok() { &mut taken } else { &mut refused } += 1;
        }
        assert!(taken > 1_000 && refused > 1_000, "{taken} were taken and {refused} refused");
    }

    #[test]
    fn the_program_of_this_test_is_what_its_linker_says() {
        let own = std::fs::read("/proc/self/exe").unwrap();
        // Tests are linked to the system's libraries on the targets that we build on.
        let mut whole = ElfCheck::default();
        whole.feed(&own);
        assert_eq!(whole.finish(), Err(LINK_STATICALLY.to_owned()));
    }
}
