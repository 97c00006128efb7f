//! Copies a verified program to sealed memory, where it cannot be changed any more.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use rustix::io::Errno;

/// A copy of `program` in memory that can be executed but never changed. One copy serves any
/// number of jobs: clone the descriptor.
pub fn seal_program(program: &mut impl Read) -> io::Result<OwnedFd> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    // Kernels before 6.3 do not know the flag, and need none to execute.
    let sealed = match memfd_create("program", flags | MemfdFlags::EXEC) {
        Err(Errno::INVAL) => memfd_create("program", flags)?,
        created => created?,
    };
    let mut file = File::from(sealed);
    io::copy(program, &mut file)?;
    seal(file)
}

/// Bytes as a descriptor to read from. Unlike a pipe it needs no writer, and a program that never reads does no harm.
pub fn sealed_bytes(bytes: &[u8]) -> io::Result<OwnedFd> {
    let mut file = File::from(memfd_create("stdin", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?);
    io::Write::write_all(&mut file, bytes)?;
    io::Seek::rewind(&mut file)?;
    seal(file)
}

fn seal(file: File) -> io::Result<OwnedFd> {
    let seals = SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL;
    // The right to execute stays as it is: the owner could change it otherwise, and where the worker is not root,
    // its programs are the owner.
    match fcntl_add_seals(&file, seals | SealFlags::EXEC) {
        // Kernels before 6.3 do not know it.
        Err(Errno::INVAL) => fcntl_add_seals(&file, seals)?,
        sealed => sealed?,
    }
    Ok(file.into())
}
