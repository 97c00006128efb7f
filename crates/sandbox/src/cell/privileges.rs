//! Drops privileges of a process: its user, its capabilities, the way to new ones, and its resource limits.

use std::io;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, clear_ambient_capability_set, set_capabilities, set_no_new_privs,
    set_thread_res_gid, set_thread_res_uid,
};

use crate::job::Limits;
use crate::level::Protection;

pub(super) fn take_id(id: u32) -> io::Result<()> {
    let gid = rustix::fs::Gid::from_raw(id);
    set_thread_res_gid(gid, gid, gid)?;
    let uid = rustix::fs::Uid::from_raw(id);
    set_thread_res_uid(uid, uid, uid)?;
    Ok(())
}

pub(super) fn drop_capabilities() -> io::Result<()> {
    crate::sys::clear_bounding_set()?;
    clear_ambient_capability_set()?;
    let none = CapabilitySets {
        effective: CapabilitySet::empty(),
        permitted: CapabilitySet::empty(),
        inheritable: CapabilitySet::empty(),
    };
    set_capabilities(None, none)?;
    if capabilities(None)? == none { Ok(()) } else { Err(rustix::io::Errno::PERM.into()) }
}

pub(super) fn refuse_new() -> io::Result<()> {
    set_no_new_privs(true)?;
    Ok(())
}

pub(super) fn lower_rlimits(limits: &Limits, limited_by_cgroup: &[Protection]) -> io::Result<()> {
    // One byte, not none: with 0 the kernel would still start the machine's crash handler, as
    // root, on a dump made by hostile code.
    lower(Resource::Core, 1)?;
    // Above the size of /tmp, so that a full disk shows as a full disk.
    lower(Resource::Fsize, limits.disk_bytes.max(limits.memory_bytes))?;
    lower(Resource::Memlock, 64 << 10)?;
    lower(Resource::Msgqueue, 0)?;
    lower(Resource::Rtprio, 0)?;
    lower(Resource::Nice, 0)?;
    lower(Resource::Sigpending, 1024)?;
    // These two are poor substitutes: they hold for each process alone or, before Linux 5.14, for
    // all sandboxes together. So they are used only where there is nothing better.
    if !limited_by_cgroup.contains(&Protection::MemoryLimit) {
        lower(Resource::Data, limits.memory_bytes)?;
        // Some runtimes reserve far more addresses than they use.
        lower(Resource::As, limits.memory_bytes.saturating_mul(2).saturating_add(1 << 30))?;
    }
    if !limited_by_cgroup.contains(&Protection::PidsLimit) {
        // One more for the first process.
        lower(Resource::Nproc, u64::from(limits.pids) + 1)?;
    }
    Ok(())
}

/// For the program alone. The kernel counts descriptors that are on their way through sockets for all
/// programs of the same user together, and refuses to send one to whoever has a lower limit
/// than that count. The first process sends some, so its limit stays well above what programs reach.
pub(super) fn limit_descriptors(limits: &Limits) -> io::Result<()> {
    let half = getrlimit(Resource::Nofile).maximum.map_or(u64::MAX, |maximum| maximum / 2);
    lower(Resource::Nofile, u64::from(limits.open_files).min(half))
}

/// Sets a limit, unless there is a lower one already, which could not be raised.
fn lower(resource: Resource, wanted: u64) -> io::Result<()> {
    let limit = getrlimit(resource).maximum.map_or(wanted, |maximum| maximum.min(wanted));
    setrlimit(resource, Rlimit { current: Some(limit), maximum: Some(limit) })?;
    Ok(())
}
