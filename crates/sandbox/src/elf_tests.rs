use std::io::Cursor;

use super::*;

/// A header and one segment that loads `file_len` bytes, for x86_64.
fn smallest(file_len: u64) -> Vec<u8> {
    let mut file = vec![0; HEADER_LEN + PROGRAM_HEADER_LEN];
    file[..6].copy_from_slice(b"\x7fELF\x02\x01");
    file[16..18].copy_from_slice(&ET_EXEC.to_le_bytes());
    file[18..20].copy_from_slice(&62u16.to_le_bytes());
    file[24..32].copy_from_slice(&0x40_1000u64.to_le_bytes());
    file[32..40].copy_from_slice(&64u64.to_le_bytes());
    file[54..56].copy_from_slice(&56u16.to_le_bytes());
    file[56..58].copy_from_slice(&1u16.to_le_bytes());
    file[64..68].copy_from_slice(&PT_LOAD.to_le_bytes());
    file[96..104].copy_from_slice(&file_len.to_le_bytes());
    file
}

fn check(file: &[u8]) -> Result<ElfInfo, ElfProblem> {
    check_elf(&mut Cursor::new(file), Machine::X86_64)
}

fn changed(at: usize, bytes: &[u8]) -> Vec<u8> {
    let mut file = smallest(120);
    file[at..at + bytes.len()].copy_from_slice(bytes);
    file
}

#[test]
fn a_static_executable_is_accepted() {
    let info = check(&smallest(120)).unwrap();
    assert_eq!(info, ElfInfo { machine: Machine::X86_64, position_independent: false, file_len_min: 120 });
    assert!(check(&changed(16, &ET_DYN.to_le_bytes())).unwrap().position_independent);
}

#[test]
fn each_problem_is_named() {
    let problem = |file: &[u8]| check(file).unwrap_err().to_string();
    assert!(problem(b"").contains("empty"));
    assert!(problem(b"#!/bin/sh\n").contains("script"));
    assert!(problem(b"MZ\x90").contains("not an ELF"));
    assert!(problem(b"\x7fELF\x02").contains("cut off"));
    assert!(problem(&changed(4, &[1])).contains("32-bit"));
    assert!(problem(&changed(5, &[2])).contains("big-endian"));
    assert!(problem(&changed(16, &[1, 0])).contains("object file"));
    assert!(problem(&changed(18, &183u16.to_le_bytes())).contains("another machine (aarch64); compile it for x86_64"));
    assert!(problem(&changed(64, &PT_INTERP.to_le_bytes())).contains("link it statically"));
    assert!(problem(&changed(24, &[0; 8])).contains("not an executable"));
    assert!(problem(&smallest(121)).contains("behind the end"));
    assert!(problem(&changed(56, &[0xff, 0xff])).contains("table of segments"));
    assert!(problem(&changed(56, &[2, 0])).contains("cut off"));
    assert!(problem(&changed(32, &[0xff; 8])).contains("table of segments"));
    assert!(problem(&changed(96, &[0xff; 8])).contains("behind the end"));
    assert!(problem(&changed(64, &[9])).contains("nothing to load"));
}

#[test]
fn no_prefix_and_no_flipped_byte_makes_it_panic() {
    let file = smallest(120);
    for len in 0..file.len() {
        let _ = check(&file[..len]);
    }
    for at in 0..file.len() {
        for value in [0, 1, 0x7f, 0xff] {
            let _ = check(&changed(at, &[value]));
        }
    }
}

#[test]
fn a_dynamic_program_of_this_machine_is_refused() {
    let mut this = std::fs::File::open("/proc/self/exe").unwrap();
    let here = Machine::here().expect("the sandbox is built for this machine");
    assert!(matches!(check_elf(&mut this, here), Err(ElfProblem::Dynamic)));
}
