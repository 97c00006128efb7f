//! Finds the control groups that this process is in, and where they are mounted.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct CgroupMounts {
    /// The folder of this process in each hierarchy of version 1, with its controllers.
    pub(super) v1: Vec<Hierarchy>,
    /// The folder of this process in version 2.
    pub(super) v2: Option<PathBuf>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Hierarchy {
    pub(super) controllers: Vec<String>,
    pub(super) own: PathBuf,
}

impl CgroupMounts {
    /// On mixed machines version 2 is mounted, too, but the controllers are with version 1.
    pub(super) fn v2_with_memory(&self) -> Option<&Path> {
        let own = self.v2.as_deref()?;
        let controllers = fs::read_to_string(own.join("cgroup.controllers")).unwrap_or_default();
        controllers.split_whitespace().any(|controller| controller == "memory").then_some(own)
    }
}

pub(super) fn find_here() -> io::Result<CgroupMounts> {
    Ok(find(&fs::read_to_string("/proc/self/mountinfo")?, &fs::read_to_string("/proc/self/cgroup")?))
}

/// `mounts` is a mountinfo file, `memberships` a cgroup file, both as in proc(5).
fn find(mounts: &str, memberships: &str) -> CgroupMounts {
    let mut found = CgroupMounts::default();
    for mount in mounts.lines().filter_map(Mount::parse) {
        let member_of = |controller: &str| {
            memberships.lines().find_map(|line| {
                let mut fields = line.splitn(3, ':').skip(1);
                let controllers = fields.next()?;
                let path = fields.next()?;
                controllers.split(',').any(|each| each == controller).then_some(path)
            })
        };
        match mount.kind {
            "cgroup2" if found.v2.is_none() => {
                found.v2 = member_of("").map(|path| mount.folder_of(path));
            }
            "cgroup" => {
                let controllers: Vec<String> = mount
                    .options
                    .split(',')
                    .filter(|option| member_of(option).is_some() && !option.is_empty())
                    .map(str::to_owned)
                    .collect();
                if let Some(path) = controllers.first().and_then(|controller| member_of(controller)) {
                    found.v1.push(Hierarchy { own: mount.folder_of(path), controllers });
                }
            }
            _ => {}
        }
    }
    found
}

struct Mount<'a> {
    /// Which folder of the hierarchy is mounted.
    root: &'a str,
    at: PathBuf,
    kind: &'a str,
    options: &'a str,
}

impl<'a> Mount<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let (place, source) = line.split_once(" - ")?;
        let mut place = place.split(' ').skip(3);
        let root = place.next()?;
        let at = PathBuf::from(place.next()?.replace("\\040", " "));
        let mut source = source.split(' ');
        let kind = source.next()?;
        Some(Self { root, at, kind, options: source.nth(1)? })
    }

    fn folder_of(&self, path: &str) -> PathBuf {
        // In a container the mount may show only a part, and the path may lie outside of it.
        let path = Path::new(path);
        let inside = path.strip_prefix(self.root).unwrap_or_else(|_| Path::new(""));
        if inside.components().any(|part| part == std::path::Component::ParentDir) {
            return self.at.clone();
        }
        self.at.join(inside)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mixed_machine_has_its_controllers_in_version_1() {
        let mounts = "\
31 28 0:27 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu,cpuacct
35 28 0:31 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
39 28 0:35 / /sys/fs/cgroup/systemd rw,relatime - cgroup cgroup rw,name=systemd
40 28 0:36 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
41 28 0:37 / /tmp rw - tmpfs tmpfs rw";
        let memberships = "9:name=systemd:/\n4:memory:/group/a\n1:cpu,cpuacct:/\n0::/\n";
        let found = find(mounts, memberships);
        assert_eq!(found.v2, Some("/sys/fs/cgroup/unified".into()));
        let own: Vec<(String, &Path)> =
            found.v1.iter().map(|each| (each.controllers.join(","), each.own.as_path())).collect();
        assert_eq!(
            own,
            [
                ("cpu,cpuacct".to_owned(), Path::new("/sys/fs/cgroup/cpu")),
                ("memory".to_owned(), Path::new("/sys/fs/cgroup/memory/group/a")),
                ("name=systemd".to_owned(), Path::new("/sys/fs/cgroup/systemd")),
            ]
        );
    }

    #[test]
    fn a_service_of_a_new_machine_is_found_in_version_2() {
        let mounts = "35 24 0:30 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate";
        let found = find(mounts, "0::/system.slice/punctual.service\n");
        assert_eq!(found.v2, Some("/sys/fs/cgroup/system.slice/punctual.service".into()));
        assert!(found.v1.is_empty());
    }

    #[test]
    fn a_container_that_sees_a_part_stays_in_it() {
        let mounts = "35 24 0:30 /docker/1 /sys/fs/cgroup ro - cgroup2 cgroup rw";
        assert_eq!(find(mounts, "0::/docker/1/worker").v2, Some("/sys/fs/cgroup/worker".into()));
        assert_eq!(find(mounts, "0::/../../elsewhere").v2, Some("/sys/fs/cgroup".into()));
        assert_eq!(find("nonsense\n", "more:nonsense"), CgroupMounts::default());
    }
}
