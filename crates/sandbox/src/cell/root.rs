//! The sandbox's own files: an empty, read-only root in memory with a few devices, an own
//! `/proc` and a `/tmp` of limited size. Nothing of the machine can be reached by any path.
//!
//! The order matters: [`build`], [`mount_proc`], [`leave_old`].

use std::ffi::CString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;

use rustix::fs::{Mode, OFlags, mkdir, open, symlink};
use rustix::mount::{
    MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_bind, mount_change, mount_remount, unmount,
};
use rustix::process::{chdir, pivot_root};

use crate::cell::ProgramFile;
use crate::job::{Limits, Network};

/// Where a program leaves its result, inside.
pub(crate) const RESULT_PATH: &str = "/tmp/output";
/// The name of the result file inside `/tmp`.
pub(crate) const RESULT_NAME: &str = "output";

/// Where a program finds its files, inside.
pub(crate) const FILES_PATH: &str = "/files";
const COPY_BYTES: usize = 256 << 10;

/// The folder on which the new root is mounted before it becomes the root. Every machine has it, and its content is not
/// needed any more.
const BUILDING_SITE: &str = "/proc";

const DEVICES: [&str; 5] = ["null", "zero", "full", "random", "urandom"];

/// A program with a network cannot do much without these. Copies; the originals stay out of
/// reach.
const FILES_FOR_THE_NETWORK: [&str; 5] = [
    RESOLVERS,
    "/etc/hosts",
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/ssl/cert.pem",
    "/etc/pki/tls/certs/ca-bundle.crt",
];
const RESOLVERS: &str = "/etc/resolv.conf";
const RESOLVERS_OF_SYSTEMD: &str = "/run/systemd/resolve/resolv.conf";
const NETWORK_FILE_LEN_MAX: u64 = 1 << 20;

fn closed() -> MountFlags {
    MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC
}

pub(super) fn build(limits: &Limits, network: Network, files: &[ProgramFile]) -> io::Result<()> {
    // Or the mounts below would show up on the machine.
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?;
    mount("root", BUILDING_SITE, "tmpfs", closed(), c"mode=0755,size=8m,nr_inodes=128")?;
    chdir(BUILDING_SITE)?;
    for folder in ["dev", "proc", "tmp"] {
        mkdir(folder, Mode::from_raw_mode(0o755))?;
    }
    for device in DEVICES {
        let inside = format!("dev/{device}");
        File::create(&inside)?;
        mount_bind(format!("/{inside}"), &inside)?;
    }
    for (name, target) in [
        ("fd", "/proc/self/fd"),
        ("stdin", "/proc/self/fd/0"),
        ("stdout", "/proc/self/fd/1"),
        ("stderr", "/proc/self/fd/2"),
    ] {
        symlink(target, format!("dev/{name}"))?;
    }
    // POSIX shared memory and semaphores are files there.
    symlink("/tmp", "dev/shm")?;
    if network == Network::Host {
        copy_files_for_the_network()?;
    }
    if !files.is_empty() {
        copy_files(files)?;
    }
    mount_tmp(limits)
}

/// Into memory, which counts as the program's own, and then read-only. A bind mount would need a path of the machine, and
/// the right to it.
fn copy_files(files: &[ProgramFile]) -> io::Result<()> {
    let folder = FILES_PATH.trim_start_matches('/');
    mkdir(folder, Mode::from_raw_mode(0o755))?;
    // Each file takes whole pages, and the folder some.
    let pages: u64 = files.iter().map(|file| file.len.div_ceil(4096) + 1).sum();
    let data = CString::new(format!("mode=0755,size={},nr_inodes={}", (pages + 16) * 4096, files.len() + 8))?;
    mount("files", folder, "tmpfs", closed(), data.as_c_str())?;
    for file in files {
        let name = file.name.to_str().map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
        let path = format!("{folder}/{name}");
        let mut copy = File::options().write(true).create_new(true).open(&path)?;
        let mut buffer = vec![0; COPY_BYTES];
        let mut at = 0;
        while at < file.len {
            // The descriptor is shared with other jobs, and so is its place.
            match rustix::io::pread(&file.content, &mut buffer, at)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                read => copy.write_all(&buffer[..read])?,
            }
            at = copy.metadata()?.len();
        }
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o444))?;
    }
    mount_remount(folder, MountFlags::BIND | MountFlags::RDONLY | closed(), c"")?;
    Ok(())
}

fn mount_tmp(limits: &Limits) -> io::Result<()> {
    // Empty files take no space, so their number has a limit of its own.
    let inodes = (limits.disk_bytes / 4096).clamp(256, 1 << 20);
    let data = CString::new(format!("mode=0700,size={},nr_inodes={inodes}", limits.disk_bytes))?;
    mount("tmp", "tmp", "tmpfs", closed(), data.as_c_str())?;
    Ok(())
}

fn copy_files_for_the_network() -> io::Result<()> {
    for path in FILES_FOR_THE_NETWORK {
        let Ok(original) = File::open(path) else { continue };
        let inside = path.trim_start_matches('/');
        let folder = std::path::Path::new(inside).parent().unwrap_or("".as_ref());
        std::fs::create_dir_all(folder)?;
        let mut text = Vec::new();
        original.take(NETWORK_FILE_LEN_MAX).read_to_end(&mut text)?;
        if path == RESOLVERS {
            text = resolvers(text);
        }
        File::create(inside)?.write_all(&text)?;
    }
    // The umask made them private to us; the program is the same user, so that is enough.
    Ok(())
}

/// A resolver on loopback is out of the program's reach. Where systemd runs one, it says which others it asks. Two
/// questions in one call would take control messages, which the filter refuses.
fn resolvers(text: Vec<u8>) -> Vec<u8> {
    let is_reachable = |line: &str| {
        let address = line.trim().strip_prefix("nameserver").and_then(|rest| rest.trim().parse::<IpAddr>().ok());
        address.is_some_and(|address| !address.is_loopback())
    };
    let mut text = String::from_utf8_lossy(&text).into_owned();
    if !text.lines().any(is_reachable)
        && let Ok(file) = File::open(RESOLVERS_OF_SYSTEMD)
    {
        text.clear();
        // What cannot be read leaves the program without names, and it can say so.
        let _ = file.take(NETWORK_FILE_LEN_MAX).read_to_string(&mut text);
    }
    format!("{}\noptions single-request\n", text.trim_end()).into_bytes()
}

/// Only the processes of the sandbox are in it, and nothing about the machine.
pub(super) fn mount_proc() -> io::Result<()> {
    mount("proc", "proc", "proc", closed() | MountFlags::RDONLY, c"subset=pid,hidepid=invisible")?;
    Ok(())
}

pub(super) fn leave_old() -> io::Result<()> {
    // The old root comes to lie on top of the new one, and is taken away.
    pivot_root(".", ".")?;
    unmount(".", UnmountFlags::DETACH)?;
    chdir("/")?;
    mount_remount("/", MountFlags::BIND | MountFlags::RDONLY | closed(), c"")?;
    chdir("/tmp")?;
    Ok(())
}

pub(super) fn open_tmp() -> io::Result<OwnedFd> {
    Ok(open("/tmp", OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?)
}
